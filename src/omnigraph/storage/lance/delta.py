"""The rows that differ between two versions of a table, found by comparing files.

Fragments that both versions share are skipped; for a fragment with different deletions only the
affected rows are read. The result is correct across branches, restores, overwrites and
compactions. A delta can be planned in one process and read by many. Values of rows are not
compared here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceDataset, LanceFragment

from omnigraph.model.limits import BLOB_BATCH_ROWS_MAX, PROBED_VALUES_MAX
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.lance.id_lookup import RowAddressCache
from omnigraph.storage.lance.scan import (
    among_addresses,
    as_bytes,
    blobs_among,
    get_fragment,
    identify,
    name_files,
    open_version,
    scan,
    scan_addresses,
    scan_placed,
)
from omnigraph.storage.lance.timestamps import read_batches
from omnigraph.storage.ports import (
    DeltaPart,
    DeltaParts,
    ObjectStore,
    TableDelta,
    TablePart,
    VersionLocation,
)

ADDRESS = "_rowaddr"
"""The column with the address of a row in its version."""

Addresses = npt.NDArray[np.uint64]

# Reading one row costs as much as checking this many rows for deletion.
_PROBES_PER_ROW = 32


def plan_delta(old: VersionLocation, new: VersionLocation, *, rows_max: int) -> DeltaParts:
    """The rows that only one of two versions has at their address, split into parts."""
    left, right = _name_different(_open(old), _open(new))
    shared = sorted(left.keys() & right.keys(), key=lambda each: left[each].fragment_id)
    pairs = [(left[name], right[name]) for name in shared]
    # A version without deletions has deleted nothing from the fragment.
    lost = [_lost(one, other) for one, other in pairs if other.num_deletions]
    regained = [_lost(other, one) for one, other in pairs if one.num_deletions]
    return DeltaParts(
        deleted=(
            *_group(old, _alone(left, right), None, rows_max),
            *_group(old, lost, new, rows_max),
        ),
        added=(
            *_group(new, _alone(right, left), None, rows_max),
            *_group(new, regained, old, rows_max),
        ),
    )


def find_shared(one: VersionLocation, other: VersionLocation) -> frozenset[int]:
    """The ids of the fragments that two versions share, whatever rows were deleted.

    A row of such a fragment that exists in both versions has the same address in both.
    """
    known = {name_files(each) for each in _open(other).get_fragments()}
    fragments = _open(one).get_fragments()
    return frozenset(each.fragment_id for each in fragments if name_files(each) in known)


def scan_delta(part: DeltaPart, *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a part with their `_rowaddr`, a fragment at a time; blobs are returned as bytes.

    Columns that the version does not have are skipped.
    """
    uri = part.part.folder.uri
    with lance_errors(table=uri, action=f"read '{uri}'"):
        table = _open(VersionLocation(part.part.folder, part.part.version))
        other = None if part.deleted_in is None else _open(part.deleted_in)
        known = [name for name in columns if name in table.schema.names]
        for number in part.part.fragments:
            fragment = get_fragment(table, number)
            if other is None:
                yield from _scan(table, fragment, known, None)
                continue
            retained = _live(other, get_fragment(other, number))
            wanted = np.setdiff1d(_live(table, fragment), retained, assume_unique=True)
            if len(wanted):
                yield from _scan(table, fragment, known, wanted)


@dataclass(frozen=True, slots=True)
class _Share:
    """A fragment to read and its number of rows; the effort is also measured in rows."""

    number: int
    row_count: int
    effort: int


def _alone(own: dict[str, LanceFragment], others: dict[str, LanceFragment]) -> list[_Share]:
    """The fragments that the other side does not have."""
    found = [own[name] for name in own.keys() - others.keys()]
    rows = sorted((each.fragment_id, each.metadata.num_rows) for each in found)
    return [_Share(number, count, count) for number, count in rows]


def _lost(one: LanceFragment, other: LanceFragment) -> _Share:
    """A fragment of both sides, with the estimated number of rows that only the first has."""
    count = max(other.num_deletions - one.num_deletions, 0)
    # Finding the deleted rows requires the address of every row.
    return _Share(one.fragment_id, count, count + one.physical_rows // _PROBES_PER_ROW)


def _group(
    at: VersionLocation, shares: Iterable[_Share], deleted_in: VersionLocation | None, rows_max: int
) -> Iterator[DeltaPart]:
    held: list[_Share] = []
    for share in shares:
        if held and sum(each.effort for each in held) + share.effort > rows_max:
            yield _make_part(at, held, deleted_in)
            held = []
        held.append(share)
    if held:
        yield _make_part(at, held, deleted_in)


def _make_part(
    at: VersionLocation, shares: Sequence[_Share], deleted_in: VersionLocation | None
) -> DeltaPart:
    numbers = tuple(each.number for each in shares)
    row_count = sum(each.row_count for each in shares)
    return DeltaPart(TablePart(at.folder, at.version, numbers, row_count), deleted_in)


def _scan(
    table: LanceDataset,
    fragment: LanceFragment,
    columns: Sequence[str],
    wanted: Addresses | None,
) -> Iterator[pa.RecordBatch]:
    blobs = blobs_among(columns, table.schema)
    is_few = wanted is not None and len(wanted) <= PROBED_VALUES_MAX
    scanner = table.scanner(
        columns=list(columns),
        filter=among_addresses(wanted) if wanted is not None and is_few else None,
        fragments=[fragment],
        batch_size=BLOB_BATCH_ROWS_MAX if blobs else None,
        blob_handling="all_binary" if blobs else None,
        with_row_address=True,
        scan_in_order=True,
    )
    for batch in read_batches(scanner.to_batches()):
        rows = pa.record_batch(batch.columns, schema=as_bytes(batch.schema, blobs))
        if wanted is not None and not is_few:
            rows = rows.filter(pa.array(np.isin(rows[ADDRESS].to_numpy(), wanted)))
        if rows.num_rows:
            yield rows


def _live(table: LanceDataset, fragment: LanceFragment) -> Addresses:
    found = table.scanner(columns=[], fragments=[fragment], with_row_address=True).to_table()
    addresses: Addresses = found[ADDRESS].to_numpy()
    return addresses


def _open(at: VersionLocation) -> LanceDataset:
    with lance_errors(table=at.folder.uri, action=f"read '{at.folder.uri}'"):
        return open_version(at.folder, at.version)


Offsets = npt.NDArray[np.uint64]
"""Offsets in a fragment, ascending; deleted rows are counted."""

Positions = npt.NDArray[np.int64]
"""Positions in a scan of a version; deleted rows are not counted."""

_COOKIE = 12346
_ARRAY_MAX = 4_096
_BITMAP_BYTES = 8_192


def decode_list(content: bytes) -> Offsets:
    """The offsets that an Arrow file lists."""
    with pa.ipc.open_file(pa.BufferReader(content)) as reader:
        places: npt.NDArray[np.uint32] = reader.read_all().column(0).to_numpy()
    return np.sort(places).astype(np.uint64)


def decode_bitmap(content: bytes) -> Offsets:
    """The offsets that a bitmap marks."""
    position = 0

    def take_integers(count: int, width: int) -> npt.NDArray[np.uint64]:
        nonlocal position
        found = np.frombuffer(content, f"<u{width}", count, position)
        position += count * width
        return found.astype(np.uint64)

    cookie, count = take_integers(2, 4).tolist()
    if cookie != _COOKIE:
        # Lance 14 writes no run containers, so bitmaps with another cookie are not decoded.
        raise ValueError(f"a bitmap of deletions starts with {cookie}")
    header = take_integers(2 * count, 2).reshape(count, 2)
    # The container offsets; each container directly follows the previous one.
    take_integers(count, 4)
    offsets = [np.empty(0, np.uint64)]
    for key, last in header:
        if last < _ARRAY_MAX:
            inside = take_integers(int(last) + 1, 2)
        else:
            octets = take_integers(_BITMAP_BYTES, 1).astype(np.uint8)
            inside = np.flatnonzero(np.unpackbits(octets, bitorder="little")).astype(np.uint64)
        offsets.append((key << np.uint64(16)) + inside)
    return np.concatenate(offsets)


@dataclass(frozen=True, slots=True)
class _Lone:
    """What only one of two versions has: whole fragments, and rows at addresses in others."""

    table: LanceDataset
    fragments: list[LanceFragment]
    addresses: Offsets


def find_delta(
    old: LanceDataset,
    new: LanceDataset,
    *,
    columns: Sequence[str],
    deletions: Deletions,
    places: RowAddressCache,
) -> TableDelta:
    """The rows that only one of two versions has at their address, with these addresses."""
    deleted, added = _find_lone(old, new, deletions)
    reader = _Reader(columns, deletions.path, places)
    return TableDelta(reader.read(deleted), reader.read(added))


def _find_lone(old: LanceDataset, new: LanceDataset, deletions: Deletions) -> tuple[_Lone, _Lone]:
    """What only the old version has, and what only the new one has."""
    before, after = _name_different(old, new)
    deleted, added = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for name in before.keys() & after.keys():
        one, other = before[name], after[name]
        deleted_before, deleted_after = deletions.read(old, one), deletions.read(new, other)
        first = np.uint64(one.fragment_id << 32)
        deleted.append(first + np.setdiff1d(deleted_after, deleted_before, assume_unique=True))
        added.append(first + np.setdiff1d(deleted_before, deleted_after, assume_unique=True))
    return (
        _Lone(
            old, [before[name] for name in before.keys() - after.keys()], np.concatenate(deleted)
        ),
        _Lone(new, [after[name] for name in after.keys() - before.keys()], np.concatenate(added)),
    )


def find_positions(
    addresses: Offsets, *, at: LanceDataset, base: LanceDataset, deletions: Deletions
) -> Positions:
    """The position in a scan of `base` of each row at an address of `at`; -1 if it has none."""
    found = np.full(len(addresses), -1, np.int64)
    numbers = addresses >> np.uint64(32)
    wanted = {
        name_files(each): each.fragment_id
        for each in map(at.get_fragment, np.unique(numbers).tolist())
        if each is not None
    }
    first = 0
    for fragment in base.get_fragments():
        number = wanted.get(name_files(fragment)) if wanted else None
        if number is not None:
            rows = np.flatnonzero(numbers == number)
            offsets = addresses[rows] & np.uint64(0xFFFFFFFF)
            deleted = deletions.read(base, fragment)
            deleted_before = np.searchsorted(deleted, offsets)
            is_live = np.append(deleted, np.uint64(2**32))[deleted_before] != offsets
            positions = first + offsets.astype(np.int64) - deleted_before
            found[rows[is_live]] = positions[is_live]
        first += fragment.metadata.num_rows
    return found


def count_delta(old: LanceDataset, new: LanceDataset) -> int:
    """An estimate of the number of rows that only one of two versions has at their address."""
    before, after = _name_different(old, new)
    shared = before.keys() & after.keys()
    alone = [before[name] for name in before.keys() - shared]
    alone += [after[name] for name in after.keys() - shared]
    # Exact if one version has all deletions of the other; two branches may have different ones.
    deleted = (abs(before[name].num_deletions - after[name].num_deletions) for name in shared)
    return sum(each.metadata.num_rows for each in alone) + sum(deleted)


def _name_different(
    old: LanceDataset, new: LanceDataset
) -> tuple[dict[str, LanceFragment], dict[str, LanceFragment]]:
    """The fragments that differ between two versions, in their files or in their deleted rows."""
    before = {identify(each): each for each in old.get_fragments()}
    after = {identify(each): each for each in new.get_fragments()}
    return (
        {name_files(before[each]): before[each] for each in before.keys() - after.keys()},
        {name_files(after[each]): after[each] for each in after.keys() - before.keys()},
    )


class Deletions:
    """The deleted rows of fragments of one table, read from Lance's deletion files."""

    def __init__(self, path: str, files: ObjectStore) -> None:
        self.path = path
        self._files = files

    def read(self, table: LanceDataset, fragment: LanceFragment) -> Offsets:
        """The offsets of the deleted rows of a fragment."""
        file = fragment.metadata.deletion_file
        if file is None:
            return np.empty(0, np.uint64)
        base = None if file.base_id is None else table.base_paths()[file.base_id].path
        # A branch reads files that it shares with its base from the folder of the base.
        folder = str(table.uri if base is None else base).rpartition(self.path)[2].rstrip("/")
        stored = self._files.find(f"{self.path}{folder}/{file.path(fragment.fragment_id)}")
        # If a later Lance writes another format, the deletions are found by a scan.
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
    is_deleted = np.ones(fragment.physical_rows, bool)
    is_deleted[_live(table, fragment) & np.uint64(0xFFFFFFFF)] = False
    return np.flatnonzero(is_deleted).astype(np.uint64)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads rows of a table for a delta, and caches the addresses of a few of them."""

    columns: Sequence[str]
    path: str
    places: RowAddressCache

    def read(self, lone: _Lone) -> pa.Table:
        """The rows that only one version has, with their addresses."""
        known = [name for name in self.columns if name in lone.table.schema.names]
        parts = []
        if lone.fragments:
            ordered = sorted(lone.fragments, key=lambda each: each.fragment_id)
            parts.append(
                scan(lone.table, columns=known, predicate=None, fragments=ordered, is_placed=True)
            )
        if len(lone.addresses):
            parts.append(self._read_addresses(lone.table, lone.addresses, known))
        if parts:
            return pa.concat_tables(each.select([*known, ADDRESS]) for each in parts)
        fields = [lone.table.schema.field(name) for name in known]
        schema = as_bytes(pa.schema(fields), blobs_among(known, lone.table.schema))
        return schema.append(pa.field(ADDRESS, pa.uint64())).empty_table()

    def _read_addresses(
        self, table: LanceDataset, addresses: Offsets, columns: Sequence[str]
    ) -> pa.Table:
        if len(addresses) > PROBED_VALUES_MAX or "id" not in table.schema.names:
            return scan_addresses(table, addresses, columns=[*columns, ADDRESS])
        rows = scan_placed(
            table, columns=columns, predicate=among_addresses(addresses), fragments=None
        )
        # The caller of a delta often makes the same change elsewhere, to rows at the same
        # addresses.
        self.places.note(table, self.path, rows)
        return rows


def take(
    table: LanceDataset, positions: Positions, *, columns: Sequence[str], deletions: Deletions
) -> pa.Table:
    """The rows at the given positions, which ascend and are distinct."""
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
    """Convert offsets among live rows to offsets among all rows; `deleted` is ascending."""
    live_before = deleted - np.arange(len(deleted))
    places: Positions = live + np.searchsorted(live_before, live, side="right")
    return places
