"""Search for near vectors: by the vector index of a column, and by comparison where it has no rows.

The result is approximate: an index compares quantized vectors, and only those of some partitions.
Deleted rows are not found. A damaged index counts as missing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceDataset

from omnigraph.model.limits import NEAREST_EXACT_ROWS_MAX
from omnigraph.storage.lance.delta import ADDRESS, Deletions, find_positions
from omnigraph.storage.lance.errors import FOREIGN, is_damage
from omnigraph.storage.lance.index import known_indexes, rows_by_fragment
from omnigraph.storage.lance.scan import scan_addresses
from omnigraph.storage.ports import IndexKind, IndexSpec, NearRows, VectorSearch

_DISTANCE = "_distance"

Addresses = npt.NDArray[np.uint64]
Distances = npt.NDArray[np.float32]
Found = tuple[Addresses, Distances]


def find_nearest(
    table: LanceDataset,
    search: VectorSearch,
    *,
    count: int,
    base: LanceDataset,
    deletions: Deletions,
) -> NearRows | None:
    """The rows of a version that are near a vector; see `RowReader.find_nearest`."""
    row_counts = rows_by_fragment(table)
    if sum(row_counts.values()) <= NEAREST_EXACT_ROWS_MAX:
        return None
    covered = _find_covered(table, search.column)
    if not covered:
        return None
    try:
        found = _search_index(table, search, count=count, covered=covered)
    except FOREIGN as error:
        if not is_damage(error):
            raise
        # The index is damaged. Damaged rows are found by the search without it.
        return None
    rest = row_counts.keys() - covered
    if rest:
        found = _join(found, _compare(table, search, count=count, fragments=rest))
    addresses, distances = found
    if not np.isfinite(distances).all():
        return None
    nearest = addresses[np.argsort(distances, kind="stable")[:count]]
    positions = find_positions(nearest, at=table, base=base, deletions=deletions)
    return NearRows(positions, _read_ids(table, nearest[positions < 0]))


def _find_covered(table: LanceDataset, column: str) -> frozenset[int]:
    spec = IndexSpec(column, IndexKind.VECTOR)
    return frozenset().union(
        *(each.fragments for each in known_indexes(table) if each.is_for(spec))
    )


def _search_index(
    table: LanceDataset,
    search: VectorSearch,
    *,
    count: int,
    covered: frozenset[int],
) -> Found:
    rows = table.scanner(
        columns=[_DISTANCE, ADDRESS],
        nearest={
            "column": search.column,
            "q": search.query,
            "k": count,
            "nprobes": search.probes,
            "refine_factor": None,
            "use_index": True,
        },
        # Without it, Lance reads the vectors of all results as soon as one row is not indexed.
        fast_search=True,
        disable_scoring_autoprojection=True,
    ).to_table()
    addresses, distances = rows[ADDRESS].to_numpy(), rows[_DISTANCE].to_numpy()
    # An index knows rows by stable ids, so it may find a row by the vector that it had before it
    # was written again.
    is_covered = np.isin(addresses >> np.uint64(32), np.array(list(covered), np.uint64))
    return addresses[is_covered], distances[is_covered]


def _compare(
    table: LanceDataset,
    search: VectorSearch,
    *,
    count: int,
    fragments: Collection[int],
) -> Found:
    """The nearest rows of some fragments, whose vectors are read and compared a batch at a time."""
    scanner = table.scanner(
        columns=[search.column],
        filter=f"`{search.column}` IS NOT NULL",
        fragments=[each for each in table.get_fragments() if each.fragment_id in fragments],
        with_row_address=True,
    )
    nearest: Found = np.empty(0, np.uint64), np.empty(0, np.float32)
    for batch in scanner.to_batches():
        vectors = batch[search.column].flatten().to_numpy(zero_copy_only=False)
        # Numbers may overflow, and a vector with a number that is not finite counts as missing.
        with np.errstate(all="ignore"):
            differences = vectors.reshape(-1, len(search.query)) - search.query
            distances = np.square(differences, out=differences).sum(axis=1)
        is_vector = np.isfinite(distances)
        found = batch[ADDRESS].to_numpy()[is_vector], distances[is_vector]
        nearest = _first(_join(nearest, found), count)
    return nearest


def _join(one: Found, other: Found) -> Found:
    return np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])


def _first(found: Found, count: int) -> Found:
    addresses, distances = found
    if len(distances) <= count:
        return found
    places = np.argpartition(distances, count - 1)[:count]
    return addresses[places], distances[places]


def _read_ids(table: LanceDataset, addresses: Addresses) -> pa.Array:
    """The ids of the rows at some addresses, in their order."""
    if not len(addresses):
        return pa.array([], pa.string())
    columns: Sequence[str] = ["id", ADDRESS]
    rows = scan_addresses(table, addresses, columns=columns).combine_chunks()
    order = np.argsort(rows[ADDRESS].to_numpy())
    places = order[np.searchsorted(rows[ADDRESS].to_numpy(), addresses, sorter=order)]
    ids: pa.Array = rows["id"].chunk(0).take(pa.array(places))
    return ids
