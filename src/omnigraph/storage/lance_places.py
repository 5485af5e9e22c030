"""Where ids lie in files, remembered so that finding one costs no scan.

The files of a fragment never change, so "this id is stored there" stays true for ever, on every
version and branch that has the fragment: what is remembered cannot be out of date, and nothing has
to be told of commits. Whether a row was deleted since differs from version to version, and is
asked of Lance each time. A table that takes many small commits is many small files until it is
optimized, and a look-up without this would read all of them.
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

from omnigraph.model.limits import KNOWN_IDS_MAX, PROBED_VALUES_MAX
from omnigraph.storage.lance_literals import render_in
from omnigraph.storage.lance_scans import among_addresses, name_files, no_placed_rows, scan_placed

_OFFSET_BITS = 32


@dataclass(slots=True)
class _Known:
    """What is known of one table: for each id the places that it was ever seen at.

    A place is a number of ours for a fragment, above the row's offset. Of a *whole* fragment every
    id is known, deleted ones too.
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


class IdPlaces:
    """The places of ids in the tables of one graph; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def find(
        self, table: LanceDataset, path: str, ids: pa.Array, *, columns: Sequence[str]
    ) -> pa.Table:
        """The rows with some ids, few of them, with `id`, `_rowid` and `_rowaddr`."""
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
            # An index answers this, if there is one.
            rows = scan_placed(
                table,
                columns=columns,
                predicate=render_in("id", ids),
                fragments=None if len(unread) == len(fragments) else unread,
            )
            self.note(table, path, rows)
            parts.append(rows)
        return pa.concat_tables(parts) if parts else no_placed_rows(table, columns=columns)

    def find_ids(self, table: LanceDataset, path: str, ids: pa.Array) -> pa.Array:
        """Those of some ids, few of them, that are there; reads no file if that is known."""
        # Nothing was ever deleted from these, so what is stored in them is there.
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
        """Remember where rows were just read: whoever reads a few is about to replace them."""
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
        """Remember the rows of files that this process has just added, without reading them."""
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

    # Fragments of which every id is known

    def _learn(
        self, table: LanceDataset, path: str, fragments: Mapping[str, LanceFragment]
    ) -> None:
        with self._lock:
            known = self._of(path)
            known.questions += 1
            unread = [name for name in fragments if name not in known.rows_by_whole]
            # One question alone is not worth reading all ids.
            if known.questions == 1 or not unread:
                return
            room = KNOWN_IDS_MAX - self._make_room(path, fragments)
        chosen = _choose_fitting({name: fragments[name].physical_rows for name in unread}, room)
        if not chosen:
            return
        ids = _read_ids(table, [fragments[name] for name in chosen])
        self._add_whole(path, chosen, ids)

    def _add_whole(self, path: str, row_counts: Mapping[str, int], ids: Sequence[str]) -> None:
        """Remember fragments with all their ids, one fragment after the other."""
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
        """How many ids are known, after what is known of other versions alone has gone."""
        known = self._known[path]
        used = sum(known.rows_by_whole.get(name, 0) for name in fragments)
        if len(known.place_by_id) > max(2 * used, KNOWN_IDS_MAX // 2):
            known = self._known[path] = _Known(known.questions)
        return len(known.place_by_id)


def _is_of(fragment: LanceFragment, names: Collection[str]) -> bool:
    text = name_files(fragment)
    return any(name in text for name in names)


def _choose_fitting(rows_by_fragment: Mapping[str, int], room: int) -> dict[str, int]:
    """As many fragments as fit, the small ones first: they are many."""
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
    """Where the ids may be in a version that has these fragments."""
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
    """Lance's numbers of fragments by ours, as far as something is known of them."""
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
    assert fragment is not None, "an address names a fragment of the version it came from"
    return name_files(fragment)


def _make_place(number: int, offset: int) -> int:
    return (number << _OFFSET_BITS) + offset
