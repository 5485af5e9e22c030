"""The operation descriptor of a query for tools: what it returns, reads and writes, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from omnigraph.compiler import ir
from omnigraph.model.catalog import Catalog, TypeKind
from omnigraph.model.types import Scalar, Vector

KIND_BY_SCALAR = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATETIME: "datetime",
    Scalar.DATE: "date",
}
"""The names of value types for tools."""


class _Reference(NamedTuple):
    """A node or edge type that a query uses; nodes sort before edges."""

    is_edge: bool
    type_name: str


def describe_operation(query: ir.QueryIR, catalog: Catalog) -> dict[str, object]:
    """The descriptor of a compiled query; fields that do not apply are left out."""
    result: list[dict[str, object]] = []
    writes: list[_Reference] = []
    if isinstance(query, ir.ReadIR):
        result = [_describe_field(column) for column in query.columns]
        reads = list(_pipeline_reads(query.pipeline, catalog))
    else:
        reads, writes = _mutation_touches(query, catalog)
    return {"result": result, "reads": _encode(reads), "writes": _encode(writes)}


def _describe_field(column: ir.Column) -> dict[str, object]:
    name = column.name if column.is_aliased else _plain_name(column)
    is_nullable = column.type.is_nullable or isinstance(column.expression, ir.Aggregate)
    element = column.type.element
    detail: dict[str, object] = {}
    # For tools a node variable is the whole entity, although a result shows its id.
    if isinstance(column.expression, ir.EntityId):
        kind = "object"
    elif isinstance(element, Vector):
        kind, detail = "vector", {"vector_dim": element.dimension}
    elif column.type.is_list:
        kind, detail = "list", {"item_kind": KIND_BY_SCALAR[element]}
    else:
        kind = KIND_BY_SCALAR[element]
    return {"name": name, "kind": kind, **detail, "nullable": is_nullable}


def _plain_name(column: ir.Column) -> str:
    """The name of a field without an alias, which is shorter than that of the column."""
    match column.expression:
        case ir.PropertyValue(property=name):
            return name
        case ir.Aggregate(function=function):
            return str(function)
        case ir.Now():
            return "now"
        case (
            ir.EntityId()
            | ir.ParameterValue()
            | ir.Constant()
            | ir.Nearest()
            | ir.Bm25()
            | ir.Rrf()
        ):
            return column.name


def _pipeline_reads(pipeline: Iterable[ir.Operator], catalog: Catalog) -> Iterator[_Reference]:
    for part in ir.parts_within(tuple(pipeline)):
        if isinstance(part, ir.NodeScan):
            yield _node(part.type_name)
        elif isinstance(part, ir.Expand):
            yield from _edge_with_ends(part.edge_type, catalog)


def _mutation_touches(
    query: ir.MutationIR, catalog: Catalog
) -> tuple[list[_Reference], list[_Reference]]:
    reads: list[_Reference] = []
    writes: list[_Reference] = []
    for operation in query.operations:
        is_edge = not isinstance(operation, ir.Update) and operation.kind is TypeKind.EDGE
        target = _Reference(is_edge, operation.type_name)
        writes.append(target)
        reads.append(target)
        if isinstance(operation, ir.Insert) and is_edge:
            reads.extend(_edge_with_ends(target.type_name, catalog))
        if isinstance(operation, ir.Delete) and not is_edge:
            incident = [_edge(edge.name) for edge in catalog.incident_edges(target.type_name)]
            reads.extend(incident)
            writes.extend(incident)
    return reads, writes


def _node(name: str) -> _Reference:
    return _Reference(is_edge=False, type_name=name)


def _edge(name: str) -> _Reference:
    return _Reference(is_edge=True, type_name=name)


def _edge_with_ends(name: str, catalog: Catalog) -> tuple[_Reference, ...]:
    edge = catalog.edges[name]
    return _edge(name), _node(edge.source), _node(edge.target)


def _encode(references: Iterable[_Reference]) -> list[dict[str, object]]:
    return [
        {"kind": "edge" if is_edge else "node", "type_name": name}
        for is_edge, name in sorted(set(references))
    ]
