"""A cache of row addresses by id, so that a lookup by id needs no scan.

The files of a fragment never change, so an entry stays valid on every version and branch that has
the fragment: entries cannot be stale, and commits need not invalidate them. Whether a row was
deleted since differs between versions and is read from Lance each time. A table with many small
commits has many small files until it is optimized, and a lookup without this cache would read all
of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceFragment

from omnigraph.model.errors import CorruptError
from omnigraph.model.limits import KNOWN_IDS_MAX, PROBED_VALUES_MAX
from omnigraph.storage.lance.scan import (
    among_addresses,
    name_files,
    no_placed_rows,
    scan_ids,
    scan_placed,
)

_OFFSET_BITS = 32


@dataclass(slots=True)
class _Known:
    """The cached addresses of one table: for each id, all places at which it was found.

    A place is an internal fragment number, shifted above the row's offset. Of a *whole* fragment
    every id is cached, including deleted ones.
    """

    questions: int = 0
    number_by_fragment: dict[str, int] = field(default_factory=dict)
    rows_by_whole: dict[str, int] = field(default_factory=dict)
    place_by_id: dict[str, int] = field(default_factory=dict)
    earlier_by_id: dict[str, list[int]] = field(default_factory=dict)

    def number(self, fragment: str) -> int:
        return self.number_by_fragment.setdefault(fragment, len(self.number_by_fragment))

    def add(self, place_by_id: Mapping[str, int]) -> None:
        for id in self.place_by_id.keys() & place_by_id.keys():
            if self.place_by_id[id] != place_by_id[id]:
                self.earlier_by_id.setdefault(id, []).append(self.place_by_id[id])
        self.place_by_id |= place_by_id

    def places(self, ids: Iterable[str]) -> Iterator[int]:
        for id in ids:
            place = self.place_by_id.get(id)
            if place is not None:
                yield place
                yield from self.earlier_by_id.get(id, ())


class RowAddressCache:
    """The row addresses of the tables of one graph; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def find(
        self, table: LanceDataset, path: str, ids: pa.Array, *, columns: Sequence[str]
    ) -> pa.Table:
        """The rows with the given ids, with `id`, `_rowid` and `_rowaddr`; intended for few ids."""
        fragments = {name_files(each): each for each in table.get_fragments()}
        self._learn(table, path, fragments)
        with self._lock:
            known = self._of(path)
            addresses = _to_addresses(known, ids.to_pylist(), fragments)
            unread = [each for name, each in fragments.items() if name not in known.rows_by_whole]
        parts = []
        if addresses:
            parts.append(_read_addresses(table, addresses, columns=columns))
            ids = ids.filter(pc.invert(pc.is_in(ids, value_set=parts[0]["id"].combine_chunks())))
        if len(ids) and unread:
            # This scan uses an index, if there is one.
            rows = scan_ids(
                table,
                ids,
                columns=columns,
                fragments=None if len(unread) == len(fragments) else unread,
            )
            self.note(table, path, rows)
            parts.append(rows)
        return pa.concat_tables(parts) if parts else no_placed_rows(table, columns=columns)

    def find_ids(self, table: LanceDataset, path: str, ids: pa.Array) -> pa.Array:
        """The given ids, intended to be few, that exist; reads no file if the cache suffices."""
        # No row was ever deleted from these fragments, so the rows stored in them exist.
        whole = {
            name_files(each): each for each in table.get_fragments() if each.deletion_file() is None
        }
        with self._lock:
            known = self._of(path)
            numbers = _numbers_of(known, whole)
            sure = [
                id
                for id in ids.to_pylist()
                if any(place >> _OFFSET_BITS in numbers for place in known.places([id]))
            ]
        present = pa.array(sure, pa.string())
        unsure = ids.filter(pc.invert(pc.is_in(ids, value_set=present)))
        if not len(unsure):
            return present
        found = self.find(table, path, unsure, columns=["id"])["id"]
        return pa.concat_arrays([present, *found.chunks])

    def note(self, table: LanceDataset, path: str, rows: pa.Table) -> None:
        """Cache the addresses of rows that were just read.

        A caller that reads a few rows often replaces them next.
        """
        if not 0 < rows.num_rows <= PROBED_VALUES_MAX:
            return
        addresses = rows["_rowaddr"].to_numpy()
        fragment_ids = (addresses >> np.uint64(_OFFSET_BITS)).tolist()
        offsets = (addresses & np.uint64(2**_OFFSET_BITS - 1)).tolist()
        name_by_id = {each: _name_of(table, each) for each in set(fragment_ids)}
        with self._lock:
            known = self._of(path)
            if len(known.place_by_id) > KNOWN_IDS_MAX + PROBED_VALUES_MAX:
                known = self._known[path] = _Known(known.questions)
            numbers = [known.number(name_by_id[each]) for each in fragment_ids]
            places = map(_make_place, numbers, offsets)
            known.add(dict(zip(rows["id"].to_pylist(), places, strict=True)))

    def note_written(
        self, table: LanceDataset, path: str, ids: pa.Array, *, files: Iterable[str]
    ) -> None:
        """Cache the rows of files that this process has just added, without reading them."""
        with self._lock:
            known = self._known.get(path)
            if known is None or len(known.place_by_id) + len(ids) > KNOWN_IDS_MAX:
                return
        names = {PurePosixPath(each).name for each in files}
        written = [each for each in reversed(table.get_fragments()) if _is_of(each, names)]
        row_counts = {name_files(each): each.physical_rows for each in reversed(written)}
        if sum(row_counts.values()) == len(ids):
            self._add_whole(path, row_counts, ids.to_pylist())

    def _of(self, path: str) -> _Known:
        known = self._known.setdefault(path, _Known())
        self._known.move_to_end(path)
        while (
            len(self._known) > 1
            and sum(len(each.place_by_id) for each in self._known.values()) > 2 * KNOWN_IDS_MAX
        ):
            self._known.popitem(last=False)
        return known

    # Fragments of which every id is cached

    def _learn(
        self, table: LanceDataset, path: str, fragments: Mapping[str, LanceFragment]
    ) -> None:
        with self._lock:
            known = self._of(path)
            known.questions += 1
            unread = [name for name in fragments if name not in known.rows_by_whole]
            # A single lookup does not justify reading all ids.
            if known.questions == 1 or not unread:
                return
            room = KNOWN_IDS_MAX - self._make_room(path, fragments)
        chosen = _choose_fragments({name: fragments[name].physical_rows for name in unread}, room)
        if not chosen:
            return
        ids = _read_ids(table, [fragments[name] for name in chosen])
        self._add_whole(path, chosen, ids)

    def _add_whole(self, path: str, row_counts: Mapping[str, int], ids: Sequence[str]) -> None:
        """Cache fragments with all their ids, given in fragment order."""
        with self._lock:
            known = self._of(path)
            start = 0
            for name, row_count in row_counts.items():
                first = _make_place(known.number(name), 0)
                places = range(first, first + row_count)
                known.add(dict(zip(ids[start : start + row_count], places, strict=True)))
                known.rows_by_whole[name] = row_count
                start += row_count

    def _make_room(self, path: str, fragments: Iterable[str]) -> int:
        """The number of cached ids, after entries that only other versions use were dropped."""
        known = self._known[path]
        used = sum(known.rows_by_whole.get(name, 0) for name in fragments)
        if len(known.place_by_id) > max(2 * used, KNOWN_IDS_MAX // 2):
            known = self._known[path] = _Known(known.questions)
        return len(known.place_by_id)


def _is_of(fragment: LanceFragment, names: Collection[str]) -> bool:
    text = name_files(fragment)
    return any(name in text for name in names)


def _choose_fragments(rows_by_fragment: Mapping[str, int], room: int) -> dict[str, int]:
    """As many fragments as fit, smallest first, because small fragments are numerous."""
    chosen = {}
    for name, row_count in sorted(rows_by_fragment.items(), key=lambda each: each[1]):
        room -= row_count
        if room < 0:
            break
        chosen[name] = row_count
    return chosen


def _read_ids(table: LanceDataset, fragments: list[LanceFragment]) -> list[str]:
    found = table.scanner(
        columns=["id"],
        fragments=fragments,
        with_row_id=True,
        include_deleted_rows=True,
        scan_in_order=True,
    ).to_table()
    ids: list[str] = found["id"].to_pylist()
    return ids


def _to_addresses(
    known: _Known, ids: Iterable[str], fragments: Mapping[str, LanceFragment]
) -> list[int]:
    """The candidate addresses of ids in a version that has these fragments."""
    places = list(known.places(ids))
    if not places:
        return []
    id_by_number = _numbers_of(known, fragments)
    split = [divmod(place, 2**_OFFSET_BITS) for place in places]
    return [
        _make_place(id_by_number[number], offset)
        for number, offset in split
        if number in id_by_number
    ]


def _numbers_of(known: _Known, fragments: Mapping[str, LanceFragment]) -> dict[int, int]:
    """Lance's fragment ids by internal number, for the fragments in the cache."""
    return {
        known.number_by_fragment[name]: each.fragment_id
        for name, each in fragments.items()
        if name in known.number_by_fragment
    }


def _read_addresses(
    table: LanceDataset, addresses: Sequence[int], *, columns: Sequence[str]
) -> pa.Table:
    fragment_ids = sorted({each >> _OFFSET_BITS for each in addresses})
    return scan_placed(
        table,
        columns=columns,
        predicate=among_addresses(np.array(addresses, np.uint64)),
        fragments=[each for each in map(table.get_fragment, fragment_ids) if each is not None],
    )


def _name_of(table: LanceDataset, fragment_id: int) -> str:
    fragment = table.get_fragment(fragment_id)
    if fragment is None:
        raise CorruptError(
            subject=f"'{table.uri}'",
            problem=f"a row lies in fragment {fragment_id}, which the version does not have; "
            "restore it from a copy of the graph",
        )
    return name_files(fragment)


def _make_place(number: int, offset: int) -> int:
    return (number << _OFFSET_BITS) + offset
