"""What a test reports besides its result: how many states it swept, which seed a story had.

Written to standard output, where pytest collects it from every worker; the end of a run shows it.
"""

import re
import sys
from collections.abc import Iterable, Iterator

_STATES = re.compile(r"^fault states: (\d+)$", re.MULTILINE)
_STORY = re.compile(r"^story: (.*)$", re.MULTILINE)


def report_states(count: int) -> None:
    """Report how many states a sweep covered."""
    sys.stdout.write(f"fault states: {count}\n")


def report_story(text: str) -> None:
    """Report what happened in a run that is different each time."""
    sys.stdout.write(f"story: {text.splitlines()[0]}\n")


def sum_up(outputs: Iterable[str]) -> Iterator[str]:
    """The lines that a whole run ends with, from what its tests reported."""
    joined = "\n".join(outputs)
    yield from _STORY.findall(joined)
    states = sum(map(int, _STATES.findall(joined)))
    if states:
        yield f"{states:,} fault states"
