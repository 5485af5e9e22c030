"""Lengths of time as a command line has them: a whole number and a unit, seconds without one."""

from __future__ import annotations

import re
from datetime import timedelta

import click

_WRITTEN = re.compile(r"([0-9]{1,12})([smhdw]?)")
_UNITS = {
    "": timedelta(seconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_RULE = "write a whole number and s, m, h, d or w, such as 30m or 7d; without a unit it is seconds"


class Duration(click.ParamType[timedelta]):
    """A length of time; anything else is a mistake of the command line."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """The length of time that a text means."""
        if isinstance(value, timedelta):
            return value
        found = _WRITTEN.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no length of time; {_RULE}", param, ctx)
        try:
            return int(found[1]) * _UNITS[found[2]]
        except OverflowError:
            self.fail(f"{value!r} is longer than any history", param, ctx)
