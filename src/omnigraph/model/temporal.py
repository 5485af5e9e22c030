"""Dates and timestamps as text: the one reading that parameters, literals and loads share.

Timestamps are UTC with millisecond precision, because that is what a column stores.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

_DATE = r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})-(?P<day>\d{1,2})|(?P<month2>\d{2})(?P<day2>\d{2}))"
_TIME = r"(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2})(?:\.(?P<fraction>\d+))?"
_OFFSET = r"(?P<offset>[Zz]|[+-]\d{2}:?\d{2})?"
_TIMESTAMP = re.compile(rf"{_DATE}(?:[Tt ]{_TIME}{_OFFSET})?", re.ASCII)


def parse_date(text: str) -> date:
    """The UTC date that a date or timestamp names; `ValueError` if it names none."""
    return parse_datetime(text).date()


def parse_datetime(text: str) -> datetime:
    """The UTC instant that a date or timestamp names, cut to milliseconds; else `ValueError`."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a date or timestamp")
    month, day = match["month"] or match["month2"], match["day"] or match["day2"]
    moment = datetime(int(match["year"]), int(month), int(day), tzinfo=UTC)
    if match["hour"] is None:
        return moment
    moment = moment.replace(
        hour=int(match["hour"]),
        minute=int(match["minute"]),
        second=int(match["second"]),
        microsecond=int((match["fraction"] or "")[:3].ljust(3, "0")) * 1000,
    )
    try:
        return moment - _offset(match["offset"])
    except OverflowError as error:
        raise ValueError(f"{text!r} lies outside the years 1 to 9999") from error


def read_moment(text: str) -> datetime:
    """The instant that a record of ours names, to the microsecond; else `ValueError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"'{text}' is no moment") from error
    if moment.tzinfo is None:
        raise ValueError(f"'{text}' has no time zone")
    return moment


def format_datetime(moment: datetime) -> str:
    """An instant as results show it: UTC, always three fraction digits."""
    in_utc = moment.astimezone(UTC)
    return f"{in_utc:%Y-%m-%dT%H:%M:%S}.{in_utc.microsecond // 1000:03d}Z".rjust(24, "0")


def _offset(text: str | None) -> timedelta:
    if text is None or text in "Zz":
        return timedelta()
    hours, minutes = int(text[1:3]), int(text[-2:])
    if minutes > 59:
        raise ValueError(f"{text!r} is not an offset from UTC")
    size = timedelta(hours=hours, minutes=minutes)
    return -size if text[0] == "-" else size
