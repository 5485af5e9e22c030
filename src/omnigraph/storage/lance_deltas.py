"""Which rows differ between two versions of a table, found by comparing files and not rows.

Fragments that both versions have are passed over; of those that lost or regained rows in between
only these are read, by what the files of deletions say. Works on one line of versions and across
branches, and whatever was restored, overwritten or compacted. Knows nothing of what rows hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceDataset, LanceFragment

from omnigraph.storage.lance_blobs import as_bytes, blobs_among
from omnigraph.storage.lance_deletions import Offsets, decode_bitmap, decode_list
from omnigraph.storage.lance_scans import identify, scan_addresses, scan_fragments
from omnigraph.storage.ports import ObjectStore, TableDelta


def find_delta(
    old: LanceDataset, new: LanceDataset, *, columns: Sequence[str], deletions: Deletions
) -> TableDelta:
    """The rows that only one of two versions has at their place."""
    before = {identify(each): each for each in old.get_fragments()}
    after = {identify(each): each for each in new.get_fragments()}
    gone, come = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for name in before.keys() & after.keys():
        one, other = before[name], after[name]
        if _same_deletions(one, other):
            continue
        deleted_before, deleted_after = deletions.read(old, one), deletions.read(new, other)
        first = np.uint64(one.fragment_id << 32)
        gone.append(first + np.setdiff1d(deleted_after, deleted_before, assume_unique=True))
        come.append(first + np.setdiff1d(deleted_before, deleted_after, assume_unique=True))
    dropped = [before[name] for name in before.keys() - after.keys()]
    added = [after[name] for name in after.keys() - before.keys()]
    return TableDelta(
        gone=_read(old, dropped, np.concatenate(gone), columns=columns),
        come=_read(new, added, np.concatenate(come), columns=columns),
    )


class Deletions:
    """The deleted rows of fragments of one table, read from the files that Lance keeps of them."""

    def __init__(self, path: str, files: ObjectStore) -> None:
        self._path = path
        self._files = files

    def read(self, table: LanceDataset, fragment: LanceFragment) -> Offsets:
        """The places of the rows that are deleted from a fragment."""
        file = fragment.metadata.deletion_file
        if file is None:
            return np.empty(0, np.uint64)
        base = None if file.base_id is None else table.base_paths()[file.base_id].path
        # A branch reads what it has in common with its base in the folder of that.
        folder = str(table.uri if base is None else base).rpartition(self._path)[2].rstrip("/")
        stored = self._files.find(f"{self._path}{folder}/{file.path(fragment.fragment_id)}")
        # Whatever else a later Lance may write down, a scan tells it.
        with suppress(ValueError):
            places = None if stored is None else _decode(file.file_type, stored.content)
            if places is not None and len(places) == file.num_deleted_rows:
                return places
        return _scan_deletions(table, fragment)


def _decode(file_type: str, content: bytes) -> Offsets | None:
    match file_type:
        case "array":
            return decode_list(content)
        case "bitmap":
            return decode_bitmap(content)
        case _:
            return None


def _same_deletions(one: LanceFragment, other: LanceFragment) -> bool:
    files = one.metadata.deletion_file, other.metadata.deletion_file
    return all(each is None for each in files) or one.deletion_file() == other.deletion_file()


def _scan_deletions(table: LanceDataset, fragment: LanceFragment) -> Offsets:
    live = table.scanner(columns=[], fragments=[fragment], with_row_address=True).to_table()
    is_deleted = np.ones(fragment.physical_rows, bool)
    is_deleted[live["_rowaddr"].to_numpy() & np.uint64(0xFFFFFFFF)] = False
    return np.flatnonzero(is_deleted).astype(np.uint64)


def _read(
    table: LanceDataset,
    fragments: list[LanceFragment],
    addresses: npt.NDArray[np.uint64],
    *,
    columns: Sequence[str],
) -> pa.Table:
    known = [name for name in columns if name in table.schema.names]
    parts = []
    if fragments:
        ordered = sorted(fragments, key=lambda each: each.fragment_id)
        parts.append(scan_fragments(table, ordered, columns=known))
    if len(addresses):
        parts.append(scan_addresses(table, addresses, columns=known))
    if parts:
        return pa.concat_tables(parts)
    fields = [table.schema.field(name) for name in known]
    return as_bytes(pa.schema(fields), blobs_among(known, table.schema)).empty_table()
