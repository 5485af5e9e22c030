"""What a write leaves alone and what it takes away, told from its change and the rows asked about.

Pure: whoever asks has already found the committed rows.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.changes import TableChange


def keep_untouched(rows: pa.Table, change: TableChange | None) -> pa.Table:
    """Those of some committed rows of a type that a write neither replaces nor removes."""
    if change is None:
        return rows
    if change.is_overwrite:
        return rows.slice(0, 0)
    for ids in (change.put.column("id"), change.removed):
        if len(rows) and len(ids):
            rows = rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=ids)))
    return rows


def without(
    ids: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray
) -> pa.Array | pa.ChunkedArray:
    """The ids that are not among others."""
    if not len(ids) or not len(others):
        return ids
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others)))


def list_removed(change: TableChange) -> pa.Array:
    """The ids that a write removes by name; an overwrite names none."""
    return without(change.removed, change.put.column("id"))


def find_present(ids: pa.Array | pa.ChunkedArray, change: TableChange | None) -> pa.Array:
    """Which of some ids a write does not take away: false for those whose rows go."""
    if change is not None and change.is_overwrite:
        return pc.is_in(ids, value_set=change.put.column("id"))
    removed = pa.array([], ids.type) if change is None else list_removed(change)
    return pc.invert(pc.is_in(ids, value_set=removed))
