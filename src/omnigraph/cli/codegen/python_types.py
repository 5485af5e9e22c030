"""Property types as Python has them: what a parameter takes, and what a row holds.

Parameters take what the engine accepts; rows hold what `Result.rows` gives, where dates are texts.
Pure.
"""

from __future__ import annotations

from omnigraph.compiler.ir import Aggregate, AggregateFunction, Column
from omnigraph.model.types import PropertyType, Scalar, Vector

_PLAIN = {
    Scalar.STRING: "str",
    Scalar.BLOB: "str",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.I64: "int",
    Scalar.U32: "int",
    Scalar.U64: "int",
    Scalar.F32: "float",
    Scalar.F64: "float",
}
_TAKEN = {**_PLAIN, Scalar.DATE: "datetime.date | str", Scalar.DATETIME: "datetime.datetime | str"}
_HELD = {**_PLAIN, Scalar.DATE: "str", Scalar.DATETIME: "str"}


def parameter_type(type: PropertyType) -> str:
    """What a parameter takes, null aside."""
    if isinstance(type.element, Vector):
        return "Sequence[float]"
    taken = _TAKEN[type.element]
    return f"Sequence[{taken}]" if type.is_list else taken


def column_type(column: Column) -> str:
    """What a row holds in a column."""
    element = column.type.element
    held = "float" if isinstance(element, Vector) else _HELD[element]
    if column.type.is_list or column.type.is_vector:
        held = f"list[{held}]"
    return f"{held} | None" if column.type.is_nullable and not _is_count(column) else held


def _is_count(column: Column) -> bool:
    """Whether a column counts: typed as every aggregate, it could be null, and never is."""
    match column.expression:
        case Aggregate(function=AggregateFunction.COUNT):
            return True
        case _:
            return False
