"""Which rows differ between two versions of a table, found by comparing files and not rows.

Fragments that both versions have are passed over; of those that lost or regained rows in between
only these are read, by what the files of deletions say. Works on one line of versions and across
branches, and whatever was restored, overwritten or compacted. Knows nothing of what rows hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceFragment

from omnigraph.model.limits import PROBED_VALUES_MAX
from omnigraph.storage.lance_blobs import as_bytes, blobs_among
from omnigraph.storage.lance_deletions import Offsets, decode_bitmap, decode_list
from omnigraph.storage.lance_places import IdPlaces
from omnigraph.storage.lance_scans import (
    among_addresses,
    identify,
    name_files,
    scan_addresses,
    scan_fragments,
    scan_placed,
)
from omnigraph.storage.ports import ObjectStore, TableDelta


def find_delta(
    old: LanceDataset,
    new: LanceDataset,
    *,
    columns: Sequence[str],
    deletions: Deletions,
    places: IdPlaces,
) -> TableDelta:
    """The rows that only one of two versions has at their place."""
    before, after = _name_different(old, new)
    gone, come = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for name in before.keys() & after.keys():
        one, other = before[name], after[name]
        deleted_before, deleted_after = deletions.read(old, one), deletions.read(new, other)
        first = np.uint64(one.fragment_id << 32)
        gone.append(first + np.setdiff1d(deleted_after, deleted_before, assume_unique=True))
        come.append(first + np.setdiff1d(deleted_before, deleted_after, assume_unique=True))
    dropped = [before[name] for name in before.keys() - after.keys()]
    added = [after[name] for name in after.keys() - before.keys()]
    reader = _Reader(columns, deletions.path, places)
    return TableDelta(
        gone=reader.read(old, dropped, np.concatenate(gone)),
        come=reader.read(new, added, np.concatenate(come)),
    )


def _name_different(
    old: LanceDataset, new: LanceDataset
) -> tuple[dict[str, LanceFragment], dict[str, LanceFragment]]:
    """The fragments that two versions do not have in common with all their deleted rows."""
    before = {identify(each): each for each in old.get_fragments()}
    after = {identify(each): each for each in new.get_fragments()}
    return (
        {name_files(before[each]): before[each] for each in before.keys() - after.keys()},
        {name_files(after[each]): after[each] for each in after.keys() - before.keys()},
    )


class Deletions:
    """The deleted rows of fragments of one table, read from the files that Lance keeps of them."""

    def __init__(self, path: str, files: ObjectStore) -> None:
        self.path = path
        self._files = files

    def read(self, table: LanceDataset, fragment: LanceFragment) -> Offsets:
        """The places of the rows that are deleted from a fragment."""
        file = fragment.metadata.deletion_file
        if file is None:
            return np.empty(0, np.uint64)
        base = None if file.base_id is None else table.base_paths()[file.base_id].path
        # A branch reads what it has in common with its base in the folder of that.
        folder = str(table.uri if base is None else base).rpartition(self.path)[2].rstrip("/")
        stored = self._files.find(f"{self.path}{folder}/{file.path(fragment.fragment_id)}")
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


def _scan_deletions(table: LanceDataset, fragment: LanceFragment) -> Offsets:
    live = table.scanner(columns=[], fragments=[fragment], with_row_address=True).to_table()
    is_deleted = np.ones(fragment.physical_rows, bool)
    is_deleted[live["_rowaddr"].to_numpy() & np.uint64(0xFFFFFFFF)] = False
    return np.flatnonzero(is_deleted).astype(np.uint64)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads rows of a table for a delta, and remembers where a few of them were."""

    columns: Sequence[str]
    path: str
    places: IdPlaces

    def read(
        self, table: LanceDataset, fragments: list[LanceFragment], addresses: Offsets
    ) -> pa.Table:
        """The rows of some fragments, and those at some addresses in others."""
        known = [name for name in self.columns if name in table.schema.names]
        parts = []
        if fragments:
            ordered = sorted(fragments, key=lambda each: each.fragment_id)
            parts.append(scan_fragments(table, ordered, columns=known))
        if len(addresses):
            parts.append(self._read_addresses(table, addresses, known))
        if parts:
            return pa.concat_tables(parts)
        fields = [table.schema.field(name) for name in known]
        return as_bytes(pa.schema(fields), blobs_among(known, table.schema)).empty_table()

    def _read_addresses(
        self, table: LanceDataset, addresses: Offsets, columns: Sequence[str]
    ) -> pa.Table:
        if len(addresses) > PROBED_VALUES_MAX or "id" not in table.schema.names:
            return scan_addresses(table, addresses, columns=columns)
        rows = scan_placed(
            table, columns=columns, predicate=among_addresses(addresses), fragments=None
        )
        # Who asks what has changed is about to do the same elsewhere, to rows at the same place.
        self.places.note(table, self.path, rows)
        return rows.select(columns)
