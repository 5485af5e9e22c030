"""Values as literals of Lance predicates, written so that an index of the column answers them.

Whatever is written here is one literal: no text can end it early. Dates and timestamps are written
as the numbers that are stored, which reach further than a calendar of four-digit years. Names stand
in backticks: they are exact there, and may be words of SQL.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

StoredScalar = bool | int | float | str
"""A value as the number or text that a column keeps: of a date its days, of a time its ms."""

_NUMBER_BY_TEMPORAL_TYPE = {pa.date32(): pa.int32(), pa.date64(): pa.int64()}

# By the names that `arrow_cast` knows. A cast costs Lance ten times the time of a bare number, so
# it is written only where a bare number is not taken for the type.
_NAME_BY_TYPE = {
    pa.date32(): "Date32",
    pa.date64(): "Date64",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
}

_I64_MIN = -(2**63)


def render_in(column: str, values: pa.Array) -> str:
    """The predicate of the rows that hold one of some values of the column's type.

    Null and NaN among the values find nothing, and the two zeros find each other.
    """
    type = values.type
    if pa.types.is_floating(type):
        values = values.filter(pc.equal(values, values))
    # Python's calendar ends before Arrow's does, so dates are read as numbers.
    stored = values.drop_null().cast(_NUMBER_BY_TEMPORAL_TYPE.get(type, type)).to_pylist()
    written = ", ".join(write_literal(each, type) for each in stored)
    return f"`{column}` IN ({written})" if written else "false"


def write_literal(stored: StoredScalar, type: pa.DataType) -> str:
    """A value, as it is stored, to compare a column of a type with."""
    match stored:
        case str():
            # Nothing else is special inside the quotes: no escapes, no control characters.
            doubled = stored.replace("'", "''")
            return f"'{doubled}'"
        case bool():
            return "true" if stored else "false"
        case float():
            return repr(stored) if math.isfinite(stored) else _cast(f"'{stored}'", type)
        case int() if type in _NUMBER_BY_TEMPORAL_TYPE:
            return _cast(str(stored), type)
        case int() if stored == _I64_MIN:
            # A minus sign is read after its number, and this number alone would be a float.
            return f"arrow_cast('{stored}', 'Int64')"
        case int():
            return str(stored)


def _cast(text: str, type: pa.DataType) -> str:
    return f"arrow_cast({text}, '{_NAME_BY_TYPE[type]}')"
