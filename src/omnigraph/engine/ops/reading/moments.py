"""Columns of dates and timestamps as text, read as `model.temporal` reads one text.

The spellings that programs write are read column-wise; every other one goes, each distinct text
once, through the one reading itself. Both give the same instants.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.reading.unfit import unfit
from omnigraph.model.temporal import parse_datetime

MS_PER_DAY = 86_400_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

MOMENT_MIN = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MS
MOMENT_MAX = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS
"""The first and last millisecond of the years 1 to 9999."""

_ISO_DATE_CHARACTERS = 10
_ISO_TIMESTAMP = (
    r"^(?P<seconds>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)"
    r"(?:\.(?P<fraction>\d+))?(?P<zone>[Zz]|[+-]\d\d:?\d\d)?$"
)


def parse_moments(texts: pa.Array, *, word: str) -> pa.Array:
    """The milliseconds since 1970 that texts name; `word` is what a refusal calls them."""
    moments = _parse_iso(texts)
    if moments is None or not _is_within_years(moments):
        return _parse_distinct(texts, word)
    return moments


def floor_divide(numbers: pa.Array, divisor: int) -> pa.Array:
    """Whole quotients, rounded down: an instant before 1970 belongs to the day it lies in."""
    quotients = pc.divide(numbers, divisor)
    is_above = pc.less(numbers, pc.multiply(quotients, divisor))
    return pc.subtract(quotients, pc.cast(is_above, pa.int64()))


def _parse_iso(texts: pa.Array) -> pa.Array | None:
    """The instants, or None if a text is spelled in another way or names no day of the calendar."""
    try:
        lengths = pc.min_max(pc.binary_length(texts)).as_py()
        if lengths == {"min": _ISO_DATE_CHARACTERS, "max": _ISO_DATE_CHARACTERS}:
            days = pc.cast(pc.cast(texts, pa.date32()), pa.int32())
            return pc.multiply(pc.cast(days, pa.int64()), MS_PER_DAY)
        parts = pc.extract_regex(texts, _ISO_TIMESTAMP)
        if parts.null_count != texts.null_count:
            return None
        seconds = pc.cast(pc.cast(parts.field("seconds"), pa.timestamp("s")), pa.int64())
    except pa.ArrowInvalid:
        return None
    fractions = pc.utf8_rpad(pc.utf8_slice_codeunits(parts.field("fraction"), 0, 3), 3, "0")
    moments = pc.add(pc.multiply(seconds, 1000), pc.cast(fractions, pa.int64()))
    zones = parts.field("zone").dictionary_encode()
    try:
        offsets = [_offset_of(zone) for zone in zones.dictionary.to_pylist()]
    except ValueError:
        return None
    return pc.subtract(moments, pc.take(pa.array(offsets, pa.int64()), zones.indices))


def _offset_of(zone: str | None) -> int:
    return (_EPOCH - parse_datetime(f"1970-01-01T00:00:00{zone or ''}")) // _MS


def _is_within_years(moments: pa.Array) -> bool:
    bounds = pc.min_max(moments).as_py()
    return bounds["min"] is None or (bounds["min"] >= MOMENT_MIN and bounds["max"] <= MOMENT_MAX)


def _parse_distinct(texts: pa.Array, word: str) -> pa.Array:
    spellings = texts.dictionary_encode()
    moments: list[int | None] = []
    for code, text in enumerate(spellings.dictionary.to_pylist()):
        try:
            moments.append((parse_datetime(text) - _EPOCH) // _MS)
        except ValueError as error:
            # Codes are given in the order of first use, so this is the first row at fault.
            row = pc.index(spellings.indices, pa.scalar(code, spellings.indices.type)).as_py()
            raise unfit(row, text, f"invalid {word} literal {text[:40]!r}") from error
    return pc.take(pa.array(moments, pa.int64()), spellings.indices)
