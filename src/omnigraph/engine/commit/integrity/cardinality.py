"""`@card`: how many edges of a type leave each source that the write mentions.

A source of a put edge is held to both bounds; one that only lost edges, by a removal, a move or
an overwrite, to the minimum, because losing breaks no maximum. A source that the write takes away
itself is not asked, nor one that it never mentions. Edges must have distinct ids.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.changes import TableChange
from omnigraph.engine.commit.committed import CommittedRows
from omnigraph.engine.commit.integrity.tuples import encode_column
from omnigraph.engine.commit.integrity.untouched import find_present, keep_untouched
from omnigraph.engine.commit.integrity.violations import NOTHING, Violations, show_text, tell
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import ANY_CARDINALITY, Cardinality, EdgeType
from omnigraph.model.errors import Violation

_Counts = npt.NDArray[np.int64]


def check_cardinality(
    change: TableChange, *, node_change: TableChange | None, committed: CommittedRows
) -> Violations:
    """A violation for each mentioned source with too few or too many edges, by id.

    `node_change` is what the write does to the type that the edges start from.
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
    wrong = wrong.filter(find_present(wrong.column("source"), node_change))
    return _tell(edge, wrong.sort_by("source"))


def _list_mentioned(
    change: TableChange, bounds: Cardinality, *, committed: CommittedRows
) -> pa.ChunkedArray:
    """The sources of the put edges, row by row, and behind them those that lose edges."""
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
    """How many untouched edges each source has, as far as they can matter."""
    table_key = table_key_of(change.type)
    asked = sources
    if bounds.maximum is None:
        asked = sources.filter(pa.array(put_counts < bounds.minimum))
    if change.is_overwrite or not len(asked) or not committed.count(table_key):
        return np.zeros(len(sources), np.int64)
    edges = committed.find_rows(table_key, "src", asked, columns=["id", "src"])
    positions = pc.index_in(keep_untouched(edges, change).column("src"), value_set=sources)
    return np.bincount(positions.to_numpy(), minlength=len(sources))


def _tell(edge: EdgeType, wrong: pa.Table) -> Violations:
    def describe(row: int) -> Violation:
        source, count = (wrong.column(name)[row].as_py() for name in ("source", "count"))
        return describe_count(edge, str(source), int(count))

    return tell(np.arange(len(wrong)), describe)


def describe_count(edge: EdgeType, source: str, count: int) -> Violation:
    """What is wrong with a source of too few or too many edges."""
    bounds = edge.cardinality
    bound = f"min {bounds.minimum}" if count < bounds.minimum else f"max {bounds.maximum}"
    return Violation(
        type=edge.name,
        id=source,
        rule="cardinality",
        property=None,
        value=count,
        message=f"@card violation on edge {edge.name}: "
        f"source {show_text(source)} has {count} edges ({bound})",
    )
