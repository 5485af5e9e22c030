"""Endpoints: an edge starts and ends at nodes that are there once the write has landed.

That holds for the edges that a write puts, and for the untouched ones whose nodes it takes away.
Asks the store once for each node type that new edges point at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.changes import ChangeSet, TableChange
from omnigraph.engine.commit.committed import CommittedRows
from omnigraph.engine.commit.integrity.untouched import (
    find_present,
    keep_untouched,
    list_removed,
    without,
)
from omnigraph.engine.commit.integrity.violations import Violations, show_text, tell
from omnigraph.engine.state.snapshot import make_table_key, table_key_of
from omnigraph.model.catalog import EdgeType, TypeKind
from omnigraph.model.errors import Violation

AbsentNodes = Mapping[str, pa.Array]
"""By node table key, the ids that put edges name and that will not be there."""


PUT_EDGE, UNTOUCHED_EDGE = "edge", "the untouched edge"


@dataclass(frozen=True, slots=True)
class End:
    """One end of an edge type."""

    column: str
    node: str

    @property
    def table_key(self) -> str:
        """The key of the table that has the nodes."""
        return make_table_key(TypeKind.NODE, self.node)


def find_absent_nodes(changes: ChangeSet, *, committed: CommittedRows) -> AbsentNodes:
    """Which endpoints of a write's edges will be missing, for all of its edges at once."""
    chunks_by_table: dict[str, list[pa.Array]] = {}
    for change in changes.values():
        if isinstance(change.type, EdgeType):
            for end in ends_of(change.type):
                chunks = change.put.column(end.column).chunks
                chunks_by_table.setdefault(end.table_key, []).extend(chunks)
    return {
        table_key: _find_absent(
            table_key,
            pa.chunked_array(chunks, pa.string()),
            change=changes.get(table_key),
            committed=committed,
        )
        for table_key, chunks in chunks_by_table.items()
    }


def check_put_edges(change: TableChange, *, absent: AbsentNodes) -> Iterator[Violations]:
    """A violation for each end of an edge of the write that will not be there."""
    assert isinstance(change.type, EdgeType)
    for end in ends_of(change.type):
        missing = absent.get(end.table_key, ())
        if len(missing):
            is_missing = pc.is_in(change.put.column(end.column), value_set=missing)
            edges = change.put.select(["id", end.column]).filter(is_missing)
            yield _tell_dangling(change.type, end, edges, prefix=PUT_EDGE)


def check_untouched_edges(
    edge: EdgeType, *, changes: ChangeSet, committed: CommittedRows
) -> Iterator[Violations]:
    """A violation for each end of a committed edge that a write leaves without its node."""
    table_key = table_key_of(edge)
    change = changes.get(table_key)
    if change is not None and change.is_overwrite:
        return
    for end in ends_of(edge):
        node_change = changes.get(end.table_key)
        if node_change is None or not _takes_away(node_change) or not committed.count(table_key):
            continue
        found = _find_stranded(table_key, end, node_change, committed=committed)
        edges = keep_untouched(found, change)
        if len(edges):
            yield _tell_dangling(edge, end, edges.sort_by("id"), prefix=UNTOUCHED_EDGE)


def ends_of(edge: EdgeType) -> tuple[End, End]:
    """Where the edges of a type start and end."""
    return End("src", edge.source), End("dst", edge.target)


def _find_absent(
    table_key: str, named: pa.ChunkedArray, *, change: TableChange | None, committed: CommittedRows
) -> pa.Array:
    # First what the write itself puts: in a load that is nearly everything.
    ids = pc.unique(named if change is None else without(named, change.put.column("id")))
    if not len(ids) or (change is not None and change.is_overwrite):
        return ids
    if not committed.count(table_key):
        return ids
    found = committed.find_ids(table_key, ids)
    if change is not None:
        found = found.filter(find_present(found, change))
    return without(ids, found) if len(found) < len(ids) else ids.slice(0, 0)


def _takes_away(change: TableChange) -> bool:
    return change.is_overwrite or len(list_removed(change)) > 0


def _find_stranded(
    table_key: str, end: End, node_change: TableChange, *, committed: CommittedRows
) -> pa.Table:
    """The committed edges that end at a node which a write takes away."""
    columns = ["id", end.column]
    if not node_change.is_overwrite:
        removed = list_removed(node_change)
        return committed.find_rows(table_key, end.column, removed, columns=columns)
    # Committed edges have committed ends, so an end that the overwrite does not put is gone.
    edges = committed.scan(table_key, columns=columns)
    is_there = pc.is_in(edges.column(end.column), value_set=node_change.put.column("id"))
    return edges.filter(pc.invert(is_there))


def _tell_dangling(edge: EdgeType, end: End, edges: pa.Table, *, prefix: str) -> Violations:
    def describe(row: int) -> Violation:
        id, node = (str(edges.column(name)[row].as_py()) for name in ("id", end.column))
        return describe_dangling(edge, end, id=id, node=node, prefix=prefix)

    return tell(np.arange(len(edges)), describe)


def describe_dangling(edge: EdgeType, end: End, *, id: str, node: str, prefix: str) -> Violation:
    """What is wrong with an edge of which an end is not there; `prefix` says whose edge it is."""
    return Violation(
        type=edge.name,
        id=id,
        rule="endpoint",
        property=end.column,
        value=node,
        message=f"{prefix} {edge.name} {show_text(id)}: "
        f"{end.column} {show_text(node)} not found in {end.node}",
    )
