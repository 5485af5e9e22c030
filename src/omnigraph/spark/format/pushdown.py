"""What Lance is asked to leave out of a read: rows that a condition does not hold for, and columns.

Spark's own hook for filters is not used: Spark 4.3 keeps what it pushed down once for every later
query of the same DataFrame, so that these would miss rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pyspark.sql.types import StructField, StructType

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.engine.read.conditions import BoundCondition, bind
from omnigraph.engine.read.row_conditions import compile_row_condition
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, NotFoundError


def compile_condition(
    text: str, declared: NodeType | EdgeType, *, catalog: Catalog, now: datetime
) -> BoundCondition:
    """The condition that a text says of the rows of a type; `CompileError` says what is wrong."""
    condition = compile_row_condition(text, declared, catalog=catalog, parameters="")
    return bind(condition, kind=declared.kind, values={}, now=now)


def select_columns(schema: StructType, names: Iterable[str]) -> StructType:
    """Some columns of a type's rows, in the order asked for."""
    field_by_name = {each.name: each for each in schema}
    chosen: list[StructField] = []
    for name in names:
        if name not in field_by_name:
            advice = advise_name(name, list(field_by_name)) or ""
            raise NotFoundError(kind="column", name=name, advice=advice)
        chosen.append(field_by_name[name])
    return StructType(chosen)


def require_readable(wanted: StructType, schema: StructType) -> None:
    """Raise unless a schema that the caller gave asks for columns as they are."""
    for given, there in zip(wanted, select_columns(schema, wanted.fieldNames()), strict=True):
        told, kept = _describe(given), _describe(there)
        if given.dataType != there.dataType or (there.nullable and not given.nullable):
            raise InvalidValueError(
                subject=f"column '{given.name}'",
                expected=kept,
                value=told,
                problem=f"it is {kept}, not {told}; cast it after it is read",
            )


def _describe(field: StructField) -> str:
    return f"{field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
