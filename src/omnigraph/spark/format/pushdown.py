"""What Lance is asked to leave out of a read: rows that a condition does not hold for, and columns.

A condition is written as behind the `where` of a mutation, and compiled as one. Spark's own hook
for filters is not used: Spark 4.3 keeps what it pushed down once for every later query of the same
DataFrame, so that these would miss rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from pyspark.sql.types import StructField, StructType

from omnigraph.compiler.compile import compile_mutation
from omnigraph.compiler.diagnostics import advise_name
from omnigraph.compiler.ir import Delete, MutationIR
from omnigraph.engine.read.conditions import (
    ALWAYS,
    NEVER,
    BoundCondition,
    Compare,
    Every,
    HasElement,
    HasText,
    IsNull,
    IsPresent,
    OneOf,
    Some,
    bind,
)
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, NotFoundError
from omnigraph.model.source import Source
from omnigraph.spark.format.options import refuse_option


def compile_condition(
    text: str, declared: NodeType | EdgeType, *, catalog: Catalog, now: datetime
) -> BoundCondition:
    """The condition that a text says of the rows of a type; `CompileError` says what is wrong."""
    source = Source("<where>", f"query rows() {{ delete {declared.name} where\n{text}\n}}")
    ir = compile_mutation(source, _alone(declared, catalog), name=None).ir
    assert isinstance(ir, MutationIR), "a read would not have been compiled"
    if len(ir.operations) != 1 or not isinstance(ir.operations[0], Delete):
        raise refuse_option("where", "it is one condition and nothing else")
    return bind(ir.operations[0].condition, kind=declared.kind, values={}, now=now)


def settle(condition: BoundCondition, *, stored: Collection[str]) -> BoundCondition:
    """The condition of rows that have only some columns: the others count as null."""
    match condition:
        case Every(parts):
            settled = [settle(each, stored=stored) for each in parts]
            kept = tuple(each for each in settled if each != ALWAYS)
            return NEVER if NEVER in kept else Every(kept)
        case Some(parts):
            settled = [settle(each, stored=stored) for each in parts]
            kept = tuple(each for each in settled if each != NEVER)
            return ALWAYS if ALWAYS in kept else Some(kept)
        case IsNull(name):
            return condition if name in stored else ALWAYS
        case IsPresent(name):
            return condition if name in stored else NEVER
        case Compare(column) | OneOf(column) | HasElement(column) | HasText(column):
            return condition if column.name in stored else NEVER


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


def _alone(declared: NodeType | EdgeType, catalog: Catalog) -> Catalog:
    """A catalog of one type, so that its name means nothing else."""
    match declared:
        case NodeType():
            return replace(catalog, nodes={declared.name: declared}, edges={})
        case EdgeType():
            return replace(catalog, nodes={}, edges={declared.name: declared})


def _describe(field: StructField) -> str:
    return f"{field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
