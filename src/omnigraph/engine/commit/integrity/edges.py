"""Integrity checks of edges: existing endpoints, and `@card` bounds.

Endpoint checks cover the edges that a write puts and the untouched edges whose nodes it removes. A
source of a put edge must satisfy both cardinality bounds. A source that only lost edges must
satisfy the minimum. Edges must have distinct ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.violations import (
    NOTHING,
    Violations,
    encode_column,
    find_present,
    list_removed,
    make_violations,
    select_untouched,
    without,
)
from omnigraph.engine.commit.prepared_write import CommittedRows, TableChange, TableChanges
from omnigraph.engine.state.manifest import make_table_key, table_key_of
from omnigraph.model.catalog import ANY_CARDINALITY, Cardinality, EdgeType, TypeKind
from omnigraph.model.errors import Violation, plural, show_text

AbsentNodes = Mapping[str, pa.Array]
"""The ids that put edges name and that will not exist after the write, by node table key."""


PUT_EDGE, UNTOUCHED_EDGE = "edge", "the untouched edge"


@dataclass(frozen=True, slots=True)
class End:
    """One end of an edge type."""

    column: str
    node: str

    @property
    def table_key(self) -> str:
        """The key of the table that holds the nodes."""
        return make_table_key(TypeKind.NODE, self.node)


def find_absent_nodes(changes: TableChanges, *, committed: CommittedRows) -> AbsentNodes:
    """The endpoints of a write's edges that will be missing, for all of its edges at once."""
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
    """A violation for each end of a put edge whose node will not exist."""
    assert isinstance(change.type, EdgeType)
    for end in ends_of(change.type):
        missing = absent.get(end.table_key, ())
        if len(missing):
            is_missing = pc.is_in(change.put.column(end.column), value_set=missing)
            edges = change.put.select(["id", end.column]).filter(is_missing)
            yield _report_dangling(change.type, end, edges, prefix=PUT_EDGE)


def check_untouched_edges(
    edge: EdgeType, *, changes: TableChanges, committed: CommittedRows
) -> Iterator[Violations]:
    """A violation for each end of a committed edge that a write leaves without its node."""
    table_key = table_key_of(edge)
    change = changes.get(table_key)
    if change is not None and change.is_overwrite:
        return
    for end in ends_of(edge):
        node_change = changes.get(end.table_key)
        if node_change is None:
            continue
        is_removing = node_change.is_overwrite or len(list_removed(node_change)) > 0
        # Only a table that is counted joins the read set.
        if not is_removing or not committed.count(table_key):
            continue
        found = _find_stranded(table_key, end, node_change, committed=committed)
        edges = select_untouched(found, change)
        if len(edges):
            yield _report_dangling(edge, end, edges.sort_by("id"), prefix=UNTOUCHED_EDGE)


def ends_of(edge: EdgeType) -> tuple[End, End]:
    """The two ends of an edge type: source and target."""
    return End("src", edge.source), End("dst", edge.target)


def _find_absent(
    table_key: str, named: pa.ChunkedArray, *, change: TableChange | None, committed: CommittedRows
) -> pa.Array:
    # First exclude the nodes that the write itself puts: in a load, that is nearly all of them.
    ids = pc.unique(named if change is None else without(named, change.put.column("id")))
    if not len(ids) or (change is not None and change.is_overwrite):
        return ids
    if not committed.count(table_key):
        return ids
    found = committed.find_ids(table_key, ids)
    if change is not None:
        found = found.filter(find_present(found, change))
    return without(ids, found) if len(found) < len(ids) else ids.slice(0, 0)


def _find_stranded(
    table_key: str, end: End, node_change: TableChange, *, committed: CommittedRows
) -> pa.Table:
    """The committed edges that end at a node that a write removes."""
    columns = ["id", end.column]
    if not node_change.is_overwrite:
        removed = list_removed(node_change)
        return committed.find_rows(table_key, end.column, removed, columns=columns)
    # Committed edges have committed ends, so an end that the overwrite does not put is deleted.
    edges = committed.scan(table_key, columns=columns)
    is_there = pc.is_in(edges.column(end.column), value_set=node_change.put.column("id"))
    return edges.filter(pc.invert(is_there))


def _report_dangling(edge: EdgeType, end: End, edges: pa.Table, *, prefix: str) -> Violations:
    def describe(row: int) -> Violation:
        id, node = (str(edges.column(name)[row].as_py()) for name in ("id", end.column))
        return describe_dangling(edge, end, id=id, node=node, prefix=prefix)

    return make_violations(np.arange(len(edges)), describe)


def describe_dangling(edge: EdgeType, end: End, *, id: str, node: str, prefix: str) -> Violation:
    """The violation for an edge with a missing end; `prefix` says which kind of edge it is."""
    return Violation(
        type=edge.name,
        id=id,
        rule="endpoint",
        property=end.column,
        value=node,
        message=f"{prefix} {edge.name} {show_text(id)}: "
        f"{end.column} {show_text(node)} not found in {end.node}",
    )


_Counts = npt.NDArray[np.int64]


def check_cardinality(
    change: TableChange, *, node_change: TableChange | None, committed: CommittedRows
) -> Violations:
    """A violation for each affected source with too few or too many edges, by id.

    `node_change` is the change that the write makes to the type of the sources.
    """
    edge = change.type
    assert isinstance(edge, EdgeType)
    if edge.cardinality == ANY_CARDINALITY:
        return NOTHING
    mentioned = encode_column(_list_mentioned(change, edge.cardinality, committed=committed))
    sources = mentioned.distinct
    put_counts = np.bincount(mentioned.codes[: len(change.put)], minlength=len(sources))
    counts = put_counts + _count_untouched(
        change, sources, put_counts, edge.cardinality, committed=committed
    )
    is_wrong = counts < edge.cardinality.minimum
    if edge.cardinality.maximum is not None:
        is_wrong |= (put_counts > 0) & (counts > edge.cardinality.maximum)
    if not is_wrong.any():
        return NOTHING
    wrong = pa.table({"source": sources, "count": counts}).filter(pa.array(is_wrong))
    wrong = wrong.filter(find_present(wrong.column("source"), node_change)).sort_by("source")

    def describe(row: int) -> Violation:
        source, count = (wrong.column(name)[row].as_py() for name in ("source", "count"))
        return describe_count(edge, str(source), int(count))

    return make_violations(np.arange(len(wrong)), describe)


def _list_mentioned(
    change: TableChange, bounds: Cardinality, *, committed: CommittedRows
) -> pa.ChunkedArray:
    """The sources of the put edges, row by row, followed by the sources that lose edges."""
    gaining = change.put.column("src")
    if not bounds.minimum or not committed.count(table_key_of(change.type)):
        return gaining
    losing = _find_losing(change, committed=committed)
    return pa.chunked_array([*gaining.chunks, *losing.chunks], pa.string())


def _find_losing(change: TableChange, *, committed: CommittedRows) -> pa.ChunkedArray:
    """The sources of the committed edges that a write replaces or removes."""
    table_key = table_key_of(change.type)
    if change.is_overwrite:
        return committed.scan(table_key, columns=["src"]).column("src")
    touched = change.removed
    if len(change.put):
        ids = change.put.column("id").combine_chunks()
        touched = pa.concat_arrays([touched, committed.find_ids(table_key, ids)])
    if not len(touched):
        return pa.chunked_array([], pa.string())
    return committed.find_rows(table_key, "id", touched, columns=["src"]).column("src")


def _count_untouched(
    change: TableChange,
    sources: pa.Array,
    put_counts: _Counts,
    bounds: Cardinality,
    *,
    committed: CommittedRows,
) -> _Counts:
    """The number of untouched edges of each source, as far as it can matter."""
    table_key = table_key_of(change.type)
    probed = sources
    if bounds.maximum is None:
        probed = sources.filter(pa.array(put_counts < bounds.minimum))
    if change.is_overwrite or not len(probed) or not committed.count(table_key):
        return np.zeros(len(sources), np.int64)
    edges = committed.find_rows(table_key, "src", probed, columns=["id", "src"])
    positions = pc.index_in(select_untouched(edges, change).column("src"), value_set=sources)
    return np.bincount(positions.to_numpy(), minlength=len(sources))


def describe_count(edge: EdgeType, source: str, count: int) -> Violation:
    """The violation for a source with too few or too many edges."""
    bounds = edge.cardinality
    bound = f"min {bounds.minimum}" if count < bounds.minimum else f"max {bounds.maximum}"
    return Violation(
        type=edge.name,
        id=source,
        rule="cardinality",
        property=None,
        value=count,
        message=f"@card violation on edge {edge.name}: "
        f"source {show_text(source)} has {count} {plural(count, 'edge')} ({bound})",
    )
