"""Literals of Lance predicates, written so that Lance can use an index of the column.

Every value is written as one literal that no text can end early. Dates and timestamps are written
as the stored numbers, whose range exceeds four-digit years. Names are written in backticks, where
they are exact and may be SQL keywords.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.row_files import TIMESTAMP

StoredScalar = bool | int | float | str
"""A value in stored form: a date as its days, a timestamp as its milliseconds."""

DATE64_NAME = "Date64"
TIMESTAMP_NAME = 'Timestamp(Millisecond, Some("UTC"))'

_NUMBER_BY_TEMPORAL_TYPE = {pa.date32(): pa.int32(), TIMESTAMP: pa.int64()}

# Type names of `arrow_cast`. A cast takes Lance ten times as long as a bare number, so it is
# written only where Lance does not read a bare number as the type.
_NAME_BY_TYPE = {
    pa.date32(): "Date32",
    TIMESTAMP: TIMESTAMP_NAME,
    pa.float32(): "Float32",
    pa.float64(): "Float64",
}

_I64_MIN = -(2**63)


def in_predicate(column: str, values: pa.Array) -> str:
    """The predicate that a column has one of some values, which have the column's type.

    Null and NaN among the values match nothing, and the two zeros match each other.
    """
    type = values.type
    if pa.types.is_floating(type):
        values = values.filter(pc.equal(values, values))
    # The range of Python's dates is smaller than that of Arrow, so dates are read as numbers.
    stored = values.drop_null().cast(_NUMBER_BY_TEMPORAL_TYPE.get(type, type)).to_pylist()
    written = ", ".join(write_literal(each, type) for each in stored)
    return f"`{column}` IN ({written})" if written else "false"


def write_literal(stored: StoredScalar, type: pa.DataType) -> str:
    """A stored value as a literal to compare with a column of a type."""
    match stored:
        case str():
            # Nothing else is special inside the quotes: neither escapes nor control characters.
            doubled = stored.replace("'", "''")
            return f"'{doubled}'"
        case bool():
            return "true" if stored else "false"
        case float():
            return repr(stored) if math.isfinite(stored) else _cast(f"'{stored}'", type)
        case int() if type in _NUMBER_BY_TEMPORAL_TYPE:
            return _cast(str(stored), type)
        case int() if stored == _I64_MIN:
            # The minus sign is parsed separately, and this number without it would be a float.
            return f"arrow_cast('{stored}', 'Int64')"
        case int():
            return str(stored)


def _cast(text: str, type: pa.DataType) -> str:
    return f"arrow_cast({text}, '{_NAME_BY_TYPE[type]}')"
