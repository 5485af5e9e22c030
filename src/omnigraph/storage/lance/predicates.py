"""Predicates as Lance filter text, written so that Lance can use an index of the column.

Every value is written as one literal that no text can end early. Dates and timestamps are written
as the stored numbers, whose range exceeds four-digit years. Names are written in backticks, where
they are exact and may be SQL keywords.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.lance.timestamps import has_date64
from omnigraph.storage.predicates import (
    And,
    Compare,
    HasElement,
    HasText,
    IsNull,
    IsPresent,
    OneOf,
    Operator,
    Or,
    Predicate,
    StoredScalar,
    WithinText,
)
from omnigraph.storage.row_files import TIMESTAMP

_NUMBER_BY_TEMPORAL_TYPE = {
    pa.date32(): pa.int32(),
    pa.date64(): pa.int64(),
    TIMESTAMP: pa.int64(),
}

# Type names of `arrow_cast`. A cast takes Lance ten times as long as a bare number, so it is
# written only where Lance does not read a bare number as the type.
_NAME_BY_TYPE = {
    pa.date32(): "Date32",
    pa.date64(): "Date64",
    TIMESTAMP: 'Timestamp(Millisecond, Some("UTC"))',
    pa.float32(): "Float32",
    pa.float64(): "Float64",
}

_I64_MIN = -(2**63)


def render_predicate(predicate: Predicate | None, stored: pa.Schema) -> str | None:
    """The filter text of a predicate on a table with a stored schema.

    Timestamps are written in the type that the table stores: Lance 14 compares the two types as
    nanoseconds, whose range does not include all years from 1 to 9999, and then does not use an
    index of the column.
    """
    if predicate is None:
        return None
    return _Writer(pa.date64() if has_date64(stored) else TIMESTAMP).write(predicate)


def in_predicate(column: str, values: pa.Array) -> str:
    """The filter text for a column of texts or numbers that has one of some values."""
    return _Writer(TIMESTAMP).write(OneOf(column, values))


class _Writer:
    """Writes predicates on a table whose timestamps have a type."""

    def __init__(self, timestamp: pa.DataType) -> None:
        self._timestamp = timestamp

    def write(self, predicate: Predicate) -> str:
        match predicate:
            case Compare():
                return self._comparison(predicate)
            case OneOf(column, values):
                written = ", ".join(self._literals(values))
                return f"`{column}` IN ({written})" if written else "false"
            case HasElement():
                return self._element(predicate)
            case HasText(column, text, is_prefix):
                function = "starts_with" if is_prefix else "contains"
                return f"{function}(`{column}`, {_quote(text)})"
            case WithinText(column, text, is_prefix):
                function = "starts_with" if is_prefix else "contains"
                return f"{function}({_quote(text)}, `{column}`)"
            case IsNull(column):
                return f"`{column}` IS NULL"
            case IsPresent(column):
                return f"`{column}` IS NOT NULL"
            case And(parts):
                texts = [
                    f"({self.write(e)})" if isinstance(e, Or) else self.write(e) for e in parts
                ]
                return " AND ".join(texts) or "true"
            case Or(parts):
                return " OR ".join(map(self.write, parts)) or "false"

    def _comparison(self, compared: Compare) -> str:
        column, type = compared.column, compared.type
        written = f"`{column}` {compared.operator} {self._literal(compared.value, type)}"
        if not pa.types.is_floating(type):
            return written
        # Lance orders a NaN beyond the infinity of its sign. A second bound can still use an index;
        # `isnan` could not.
        match compared.operator:
            case Operator.LT | Operator.LE:
                return f"{written} AND `{column}` >= {self._literal(-math.inf, type)}"
            case Operator.GT | Operator.GE:
                return f"{written} AND `{column}` <= {self._literal(math.inf, type)}"
            case Operator.EQ | Operator.NE:
                return written

    def _element(self, wanted: HasElement) -> str:
        column, type = wanted.column, wanted.type
        if pa.types.is_floating(type) and wanted.value == 0:
            # `=` treats the two zeros as equal; `array_has` does not.
            zeros = [f"array_has(`{column}`, {self._literal(zero, type)})" for zero in (0.0, -0.0)]
            return f"({' OR '.join(zeros)})"
        element = self._literal(wanted.value, type)
        if type == pa.uint64():
            # `array_has` treats a bare number as signed and refuses to compare it with an unsigned
            # one.
            element = f"arrow_cast({element}, 'UInt64')"
        return f"array_has(`{column}`, {element})"

    def _literals(self, values: pa.Array) -> list[str]:
        type = values.type
        if pa.types.is_floating(type):
            values = values.filter(pc.equal(values, values))
        # The range of Python's dates is smaller than that of Arrow, so dates are read as numbers.
        stored = values.drop_null().cast(_NUMBER_BY_TEMPORAL_TYPE.get(type, type)).to_pylist()
        return [self._literal(each, type) for each in stored]

    def _literal(self, stored: StoredScalar, type: pa.DataType) -> str:
        match stored:
            case str():
                return _quote(stored)
            case bool():
                return "true" if stored else "false"
            case float():
                return repr(stored) if math.isfinite(stored) else self._cast(f"'{stored}'", type)
            case int() if type in _NUMBER_BY_TEMPORAL_TYPE:
                return self._cast(str(stored), self._timestamp if type == TIMESTAMP else type)
            case int() if stored == _I64_MIN:
                # The minus sign is parsed separately, and this number without it would be a float.
                return f"arrow_cast('{stored}', 'Int64')"
            case int():
                return str(stored)

    @staticmethod
    def _cast(text: str, type: pa.DataType) -> str:
        return f"arrow_cast({text}, '{_NAME_BY_TYPE[type]}')"


def _quote(text: str) -> str:
    # Nothing else is special inside the quotes: neither escapes nor control characters.
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
