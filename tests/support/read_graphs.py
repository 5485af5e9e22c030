"""Graphs as plain Python values, for the oracle of reads and for the engine alike.

A plain graph holds its schema and its rows; the oracle evaluates it, or it is stored and read by
the engine. Knows neither how cases are written nor how they are generated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from omnigraph import Graph
from omnigraph.compiler.compile import compile_read
from omnigraph.compiler.ir import ReadIR, Value
from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.embed.providers import MockEmbedder
from omnigraph.engine.graph import init_graph
from omnigraph.engine.read.expand import TraversalMode
from omnigraph.engine.settings import make_settings
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.runtime import SystemRuntime
from omnigraph.model.source import Source
from omnigraph.storage.row_files import table_schema
from tests.support.oracle import OracleResult, evaluate
from tests.support.oracle_pipeline import Call, Entity
from tests.support.oracle_values import as_f32
from tests.support.schemas import compile_text

NOW = datetime(2024, 6, 1, 12, 0, 0, 123_456, tzinfo=UTC)
"""What the clock of every stored graph shows, so that `now()` is the same for both."""

Params = Mapping[str, object]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StillRuntime:
    """New ids as usual, and a clock that does not advance."""

    def __init__(self) -> None:
        self._system = SystemRuntime()

    def now(self) -> datetime:
        """The same moment, always."""
        return NOW

    def new_id(self) -> str:
        """A new id."""
        return self._system.new_id()

    def new_ids(self, count: int) -> list[str]:
        """New ids."""
        return self._system.new_ids(count)


@dataclass(frozen=True, slots=True)
class PlainGraph:
    """A schema, and every row of every type with all its properties."""

    schema: str
    catalog: Catalog
    rows_by_type: Mapping[str, Sequence[Entity]]


def plain_graph(
    schema: str, rows_by_type: Mapping[str, Sequence[Mapping[str, Value]]]
) -> PlainGraph:
    """A graph of these rows; what is left out is null, and an id that is left out is made up."""
    catalog = compile_text(schema)
    rows = {
        name: [
            _complete(type, row, number)
            for number, row in enumerate(rows_by_type.get(name, ()), start=1)
        ]
        for name, type in types_of(catalog).items()
    }
    return PlainGraph(schema, catalog, rows)


def types_of(catalog: Catalog) -> dict[str, NodeType | EdgeType]:
    """Every type that has rows, by name."""
    return {**catalog.nodes, **catalog.edges}


def _complete(declared: NodeType | EdgeType, row: Mapping[str, Value], number: int) -> Entity:
    id: Value = f"{declared.name[0].lower()}{number:03d}"
    if isinstance(declared, NodeType) and declared.key:
        (key,) = declared.key
        id = str(row[key])
    stored = {
        name: as_f32(row.get(name)) if _is_narrow(declared, name) else row.get(name)
        for name in declared.properties
    }
    ends = {name: row[name] for name in ("src", "dst") if isinstance(declared, EdgeType)}
    return {"id": row.get("id", id), **ends, **stored}


def _is_narrow(declared: NodeType | EdgeType, name: str) -> bool:
    type = declared.properties[name].type
    return type.is_vector or type.element == "F32"


# Asking


def compile_for(graph: PlainGraph, text: str) -> ReadIR:
    """The read of a text, compiled for a graph."""
    ir = compile_read(Source("case.gq", text), graph.catalog, name=None).ir
    assert isinstance(ir, ReadIR)
    return ir


def run_oracle(graph: PlainGraph, text: str, params: Params, *, rows_max: int) -> OracleResult:
    """The result of a read according to the oracle."""
    ir = compile_for(graph, text)
    values = convert_parameters(ir.parameters, params, numbers=NumberReading.EXACT)
    call = Call(graph.catalog, graph.rows_by_type, values, NOW)
    return evaluate(ir, call, rows_max=rows_max)


# Storing


def store(path: Path, graph: PlainGraph, *, traversal: TraversalMode = TraversalMode.AUTO) -> Graph:
    """The graph on a disk, loaded as one commit, with a clock that does not advance."""
    settings = make_settings(str(path), storage_options=None, durability="relaxed")
    settings = replace(
        settings,
        runtime=StillRuntime(),
        embedder=MockEmbedder(""),
        traversal=traversal,
        spark_package="omnigraph.spark",
    )
    stored = init_graph(settings, schema=graph.schema, is_forced=False)
    tables = {name: table for name, table in to_arrow(graph).items() if table.num_rows}
    if tables:
        stored.load(tables, mode="append")
    return stored


def to_arrow(graph: PlainGraph) -> dict[str, pa.Table]:
    """The rows of every type as a load takes them."""
    return {
        name: pa.Table.from_pylist(
            [{k: _to_arrow(v) for k, v in row.items()} for row in graph.rows_by_type[name]],
            schema=table_schema(type),
        )
        for name, type in types_of(graph.catalog).items()
    }


def _to_arrow(value: Value) -> object:
    if isinstance(value, datetime):
        # The column's type is called a date, and Arrow would cut the time of a datetime off.
        return (value - _EPOCH) // timedelta(milliseconds=1)
    return [_to_arrow(each) for each in value] if isinstance(value, tuple) else value
