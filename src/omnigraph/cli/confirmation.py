"""Whether something may be destroyed on a graph that others may be using.

Pure: whoever asks reads the answer.
"""

from __future__ import annotations

from enum import Enum, auto


class Consent(Enum):
    """What stands between a command and its deed."""

    GIVEN = auto()
    ASK = auto()
    MISSING = auto()


def decide_consent(*, is_local: bool, is_yes: bool, is_json: bool, is_terminal: bool) -> Consent:
    """Local graphs are their owner's; elsewhere a person says so, by `--yes` or when asked."""
    if is_local or is_yes:
        return Consent.GIVEN
    # A script has nobody to ask, and would wait for ever.
    return Consent.ASK if is_terminal and not is_json else Consent.MISSING


def is_agreed(answer: str) -> bool:
    """Whether an answer to the question is a yes."""
    return answer.strip().lower() in ("y", "yes")
