"""Old spellings of commands, turned into today's before a command line is parsed.

Pure. Knows which flags take a value, so that it finds the command behind them.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.cli.flags import VALUE_FLAGS

_TODAY = {
    ("query", "lint"): "lint",
    ("query", "check"): "lint",
    ("read",): "query",
    ("change",): "mutate",
    ("check",): "lint",
}


def modernize(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """The arguments as they are spelled today, and what to say if they were not."""
    place = _place_of_command(arguments)
    for old, today in _TODAY.items():
        if tuple(arguments[place : place + len(old)]) == old:
            modern = [*arguments[:place], today, *arguments[place + len(old) :]]
            return modern, (
                f"warning: `omnigraph {' '.join(old)}` is deprecated; use `omnigraph {today}`"
            )
    return list(arguments), None


def _place_of_command(arguments: Sequence[str]) -> int:
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        place += 2 if arguments[place] in VALUE_FLAGS else 1
    return place
