"""Edges against the nodes that they should start and end at, in a bounded part of memory.

The ids of a node type are held a part at a time, in their order; for each part the edges are read
once, a block at a time. For all but the largest types there is one part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.violations import show_text
from omnigraph.engine.ops.doctor.report import Trouble
from omnigraph.engine.ops.doctor.scope import Findings, Scope, StoredType
from omnigraph.engine.state.snapshot import make_table_key
from omnigraph.model.catalog import EdgeType, TypeKind
from omnigraph.model.limits import EXAMINED_BLOCK_BYTES, EXAMINED_IDS_BYTES_MAX
from omnigraph.storage.ports import TableStore, TableVersion


@dataclass(frozen=True, slots=True, order=True)
class Ends:
    """One end of an edge type, and the node type that it should be in, at their versions."""

    node_key: str
    edge_key: str
    column: str
    node_version: int
    node_branch: str
    edge_version: int
    edge_branch: str


@dataclass(frozen=True, slots=True)
class _Part:
    """Ids in their order: all there are above `low` and up to `high` (None: without a bound)."""

    ids: pa.Array
    low: str | None
    high: str | None


def list_ends(stored: Mapping[str, StoredType]) -> Iterator[Ends]:
    """The ends of all edge types of a branch whose both sides can be read."""
    for key, each in stored.items():
        edge = each.declared
        if isinstance(edge, EdgeType):
            for column, node in (("src", edge.source), ("dst", edge.target)):
                target = stored.get(make_table_key(TypeKind.NODE, node))
                if target is not None:
                    at, to = each.entry.at, target.entry.at
                    yield Ends(
                        target.entry.table_key,
                        key,
                        column,
                        to.version,
                        to.ref.branch or "",
                        at.version,
                        at.ref.branch or "",
                    )


def examine_endpoints(
    scope: Scope, findings: Findings, ends: Iterable[Ends], stored: Mapping[str, StoredType]
) -> None:
    """Tell of every edge type that has edges without a node at an end."""
    tables = scope.stores.tables
    for node_key, group in groupby(sorted(ends), key=lambda each: each.node_key):
        asked, node = list(group), stored[node_key]
        advice = "restore what is stored of the type from a copy of the graph"
        with findings.noting(Trouble.TYPE_DAMAGED, node.subject, advice=advice):
            missing: dict[Ends, tuple[int, str]] = {}
            for part in _list_parts(tables, node.entry.at):
                for each in asked:
                    at = stored[each.edge_key].entry.at
                    for count, example in _find_missing(tables, at, each, part):
                        known, first = missing.get(each, (0, example))
                        missing[each] = (known + count, first)
            for each, (count, first) in missing.items():
                edge = stored[each.edge_key]
                more = "" if count == 1 else f"; and {count - 1:,} more"
                findings.add(
                    Trouble.ENDPOINT_MISSING,
                    edge.subject,
                    f"{edge.declared.name} {first} in {node.declared.name}{more}",
                    advice="load the missing nodes, or delete those edges with `graph.mutate`",
                )


def _list_parts(tables: TableStore, at: TableVersion) -> Iterator[_Part]:
    held: list[pa.Array] = []
    low: str | None = None
    for batch in tables.scan_by_id(at, columns=["id"]):
        held.append(batch["id"])
        if sum(each.nbytes for each in held) >= EXAMINED_IDS_BYTES_MAX and batch.num_rows:
            high = str(batch["id"][-1].as_py())
            yield _Part(pa.concat_arrays(held), low, high)
            held, low = [], high
    ids = pa.concat_arrays(held) if held else pa.array([], pa.string())
    yield _Part(ids, low, None)


def _find_missing(
    tables: TableStore, at: TableVersion, end: Ends, part: _Part
) -> Iterator[tuple[int, str]]:
    """How many edges of a block lack their node, and the first of these."""
    for block in _list_blocks(tables, at, ["id", end.column]):
        named = block[end.column]
        absent = pc.invert(pc.is_in(named, value_set=part.ids))
        if part.low is not None:
            absent = pc.and_(absent, pc.greater(named, part.low))
        if part.high is not None:
            absent = pc.and_(absent, pc.less_equal(named, part.high))
        edges = block.filter(absent)
        if edges.num_rows:
            id, node = (str(edges[name][0].as_py()) for name in ("id", end.column))
            example = f"{show_text(id)}: {end.column} {show_text(node)} not found"
            yield edges.num_rows, example


def _list_blocks(tables: TableStore, at: TableVersion, columns: list[str]) -> Iterator[pa.Table]:
    """The rows in blocks that make building a set of ids for each worth it."""
    held: list[pa.RecordBatch] = []
    for batch in tables.scan_by_id(at, columns=columns):
        held.append(batch)
        if sum(each.nbytes for each in held) >= EXAMINED_BLOCK_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
