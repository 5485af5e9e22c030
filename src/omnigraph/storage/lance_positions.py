"""Rows by their places in a scan of a version.

Lance finds a place quickly as long as nothing was deleted, and counts through the fragment for each
place where something was. There the deleted rows are looked at, and places become addresses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceDataset

from omnigraph.storage.lance_deltas import Deletions
from omnigraph.storage.lance_scans import scan_addresses

Positions = npt.NDArray[np.int64]


def take(
    table: LanceDataset, positions: Positions, *, columns: Sequence[str], deletions: Deletions
) -> pa.Table:
    """The rows at places that ascend, each once."""
    fragments = table.get_fragments()
    if not len(positions) or all(each.metadata.deletion_file is None for each in fragments):
        return table.take(positions, columns=list(columns))
    addresses = []
    first = 0
    for fragment in fragments:
        end = first + fragment.count_rows()
        start, stop = np.searchsorted(positions, [first, end])
        if start < stop:
            deleted = deletions.read(table, fragment).astype(np.int64)
            rows = _place_among_all(positions[start:stop] - first, deleted)
            addresses.append((fragment.fragment_id << 32) + rows)
        first = end
    return scan_addresses(table, np.concatenate(addresses).astype(np.uint64), columns=columns)


def _place_among_all(live: Positions, deleted: Positions) -> Positions:
    """Places among live rows as places among all rows of a fragment; `deleted` ascends."""
    live_before = deleted - np.arange(len(deleted))
    places: Positions = live + np.searchsorted(live_before, live, side="right")
    return places
