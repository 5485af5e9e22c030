"""The rows that a caller may see: a layer over the table store that returns only visible rows.

A version that is only partly visible has a separate name here, a digest of everything that
determines what is visible of it. So values that are cached by a version's name are separate for
callers that see different rows, and shared by callers that see the same rows. The table store does
not know these names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.cache import RowMask, TableCache
from omnigraph.engine.read.entities import Marks, Ordinals, one_chunk
from omnigraph.engine.rows.conditions import ALWAYS, BoundCondition, columns_of, evaluate_mask
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import Entry
from omnigraph.model.limits import PROBED_VALUES_MAX
from omnigraph.storage.ports import (
    FollowedDelta,
    NearRows,
    RowReader,
    StoredBlob,
    TableDelta,
    TableReader,
    TableRef,
    TableVersion,
    VectorSearch,
)
from omnigraph.storage.predicates import Predicate

# Branch names cannot contain this character.
_MARK = "~"

_SPARSE = 32
"""The ratio of stored to visible rows above which reading visible rows one by one is cheaper."""


@dataclass(frozen=True, slots=True)
class VisibleRows:
    """The visible part of one version of a type.

    A row is visible if the condition holds for it. An edge is visible only if its ends, by the
    column that names them, are also among the visible rows of another version.
    """

    at: TableVersion
    row_count: int
    condition: BoundCondition
    hidden: frozenset[str]
    ends: tuple[tuple[str, TableVersion], ...]

    @property
    def hides_rows(self) -> bool:
        """Whether some rows may be invisible."""
        return self.condition != ALWAYS or bool(self.ends)

    @property
    def condition_columns(self) -> tuple[str, ...]:
        """The columns that determine whether a row is visible."""
        own = dict.fromkeys(columns_of(self.condition))
        return tuple(dict.fromkeys((*own, *(column for column, _ in self.ends))))

    def seen_as(self) -> TableVersion:
        """The name of the visible part of the version."""
        decisive = (self.condition, sorted(self.hidden), self.ends)
        digest = sha256(repr(decisive).encode()).hexdigest()
        ref = self.at.ref
        return TableVersion(
            TableRef(ref.path, f"{ref.branch or ''}{_MARK}{digest}"), self.at.version
        )


class SecuredEntries(Mapping[str, Entry]):
    """The entries of a snapshot as a caller sees them; accessing an entry counts its rows.

    It implements `Mapping`, because counting the rows of types that are not requested would read
    all of them.
    """

    def __init__(
        self,
        entries: Mapping[str, Entry],
        *,
        seen_by_key: Mapping[str, TableVersion],
        tables: SecuredTables,
    ) -> None:
        self._entries, self._seen_by_key, self._tables = entries, seen_by_key, tables

    def __getitem__(self, table_key: str) -> Entry:
        entry, seen = self._entries[table_key], self._seen_by_key.get(table_key)
        if seen is None:
            return entry
        return replace(entry, branch=seen.ref.branch, row_count=self._tables.row_count(seen))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True, slots=True)
class SecuredTables:
    """Answers reads with permitted rows only; a version without a limit is completely visible.

    Implements `RowReader`.
    """

    tables: TableReader
    cache: TableCache
    limit_by_version: Mapping[TableVersion, VisibleRows]

    def together(self, other: SecuredTables) -> SecuredTables:
        """A reader of the visible rows of two states."""
        return replace(self, limit_by_version={**self.limit_by_version, **other.limit_by_version})

    def row_count(self, at: TableVersion) -> int:
        """The number of visible rows of a version."""
        limit = self.limit_by_version[at]
        return self._seen(at, limit).count if limit.hides_rows else limit.row_count

    def schema(self, at: TableVersion) -> pa.Schema:
        limit = self.limit_by_version.get(at)
        if limit is None:
            return self.tables.schema(at)
        whole = self.tables.schema(limit.at)
        seen = [field for field in whole if field.name not in limit.hidden]
        return pa.schema(seen, metadata=whole.metadata)

    def scan(
        self, at: TableVersion, *, columns: Sequence[str], predicate: Predicate | None
    ) -> pa.Table:
        limit = self._find(at, columns)
        if limit is None:
            return self.tables.scan(at, columns=columns, predicate=predicate)
        if predicate is None:
            return self._scan_all(at, limit, columns)
        wanted = list(dict.fromkeys([*columns, *limit.condition_columns]))
        rows = self.tables.scan(limit.at, columns=wanted, predicate=predicate)
        return rows.filter(self._marks(limit, rows)).select(columns)

    def scan_batches(
        self, at: TableVersion, *, columns: Sequence[str], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        limit = self._find(at, columns)
        if limit is None:
            yield from self.tables.scan_batches(at, columns=columns, predicate=predicate)
            return
        wanted = list(dict.fromkeys([*columns, *limit.condition_columns]))
        batches = self.tables.scan_batches(limit.at, columns=wanted, predicate=predicate)
        yield from self._filter(batches, limit, columns)

    def _filter(
        self, batches: Iterable[pa.RecordBatch], limit: VisibleRows, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            marks = self._marks(limit, pa.Table.from_batches([batch]))
            if pc.any(marks).as_py():
                yield batch.filter(marks).select(list(columns))

    def find_ids(self, at: TableVersion, *, ids: pa.Array) -> pa.Array:
        limit = self.limit_by_version.get(at)
        if limit is None:
            return self.tables.find_ids(at, ids=ids)
        return one_chunk(self.find_rows(at, ids=ids, columns=["id"])["id"])

    def find_rows(self, at: TableVersion, *, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        limit = self._find(at, columns)
        if limit is None:
            return self.tables.find_rows(at, ids=ids, columns=columns)
        wanted = list(dict.fromkeys([*columns, *limit.condition_columns]))
        rows = self.tables.find_rows(limit.at, ids=ids, columns=wanted)
        return rows.filter(self._marks(limit, rows)).select(columns)

    def scan_by_id(self, at: TableVersion, *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        limit = self._find(at, columns)
        if limit is None:
            yield from self.tables.scan_by_id(at, columns=columns)
            return
        wanted = list(dict.fromkeys([*columns, *limit.condition_columns]))
        yield from self._filter(self.tables.scan_by_id(limit.at, columns=wanted), limit, columns)

    def read_blob(
        self, at: TableVersion, *, id: str, column: str, start: int, length: int | None
    ) -> StoredBlob | None:
        """A range of bytes of a blob; None if the row does not exist or is not visible."""
        limit = self._find(at, [column])
        if limit is not None and not len(self.find_ids(at, ids=pa.array([id]))):
            return None
        place = at if limit is None else limit.at
        return self.tables.read_blob(place, id=id, column=column, start=start, length=length)

    def find_delta(
        self, old: TableVersion, new: TableVersion, *, columns: Sequence[str]
    ) -> TableDelta:
        before, after = self.limit_by_version.get(old), self.limit_by_version.get(new)
        if before is None and after is None:
            return self.tables.find_delta(old, new, columns=columns)
        if before is None or after is None or not self._sees_alike(before, after):
            return TableDelta(
                deleted=self._scan_some(old, columns), added=self._scan_some(new, columns)
            )
        wanted = list(dict.fromkeys([*columns, *before.condition_columns]))
        delta = self.tables.find_delta(before.at, after.at, columns=wanted)
        return TableDelta(
            deleted=self._select(before, delta.deleted, columns),
            added=self._select(after, delta.added, columns),
        )

    def follow_delta(
        self, old: TableVersion, new: TableVersion, *, base: TableVersion, columns: Sequence[str]
    ) -> FollowedDelta:
        """The same with positions; only of versions of which all rows are visible."""
        assert self.count_delta(old, new) is not None, "positions are those among all rows"
        return self.tables.follow_delta(old, new, base=base, columns=columns)

    def count_delta(self, old: TableVersion, new: TableVersion) -> int | None:
        """None if the visible rows are not all rows; then they are not compared by address."""
        if old in self.limit_by_version or new in self.limit_by_version:
            return None
        return self.tables.count_delta(old, new)

    def take(
        self, at: TableVersion, *, positions: npt.NDArray[np.int64], columns: Sequence[str]
    ) -> pa.Table:
        limit = self._find(at, columns)
        if limit is None:
            return self.tables.take(at, positions=positions, columns=columns)
        places = self._places(at, limit)[positions] if limit.hides_rows else positions
        return self.tables.take(limit.at, positions=places, columns=columns)

    def stored_bytes(self, at: TableVersion, column: str) -> int:
        """The stored bytes of a column, including rows that are read only to be filtered out."""
        limit = self.limit_by_version.get(at)
        if limit is None:
            return self.tables.stored_bytes(at, column)
        whole = self.tables.stored_bytes(limit.at, column)
        if not self._is_sparse(at, limit, [column]):
            return whole
        return whole * self._seen(at, limit).count // limit.row_count

    def find_nearest(
        self, at: TableVersion, search: VectorSearch, *, count: int, base: TableVersion
    ) -> NearRows | None:
        """The visible rows among those nearest to a vector, which may be none."""
        limit = self._find(at, [search.column])
        if limit is None:
            return self.tables.find_nearest(at, search, count=count, base=base)
        assert base == at, "visible rows are read without a base"
        near = self.tables.find_nearest(limit.at, search, count=count, base=limit.at)
        if near is None or not limit.hides_rows:
            return near
        positions = near.positions[self._seen(at, limit).marks[near.positions]]
        return NearRows(np.searchsorted(self._places(at, limit), positions), near.ids)

    def _find(self, at: TableVersion, columns: Sequence[str]) -> VisibleRows | None:
        limit = self.limit_by_version.get(at)
        assert limit is None or limit.hidden.isdisjoint(columns), (
            "callers do not know hidden columns"
        )
        return limit

    # Visible rows

    def _seen(self, at: TableVersion, limit: VisibleRows) -> RowMask:
        return self.cache.seen.get(at, lambda: self._find_seen(limit))

    def _places(self, at: TableVersion, limit: VisibleRows) -> Ordinals:
        """The positions of the visible rows in a scan."""
        return np.flatnonzero(self._seen(at, limit).marks)

    def _is_sparse(self, at: TableVersion, limit: VisibleRows, columns: Sequence[str]) -> bool:
        """Whether visible rows are few enough to be read one by one; blobs require a scan."""
        if not limit.hides_rows or self._seen(at, limit).count * _SPARSE >= limit.row_count:
            return False
        schema = self.tables.schema(limit.at)
        types = [schema.field(name).type for name in columns]
        return not any(pa.types.is_struct(each) or pa.types.is_large_binary(each) for each in types)

    def _scan_all(self, at: TableVersion, limit: VisibleRows, columns: Sequence[str]) -> pa.Table:
        if self._is_sparse(at, limit, columns):
            places = self._places(at, limit)
            return self.tables.take(limit.at, positions=places, columns=columns)
        rows = self.tables.scan(limit.at, columns=columns, predicate=None)
        return rows.filter(pa.array(self._seen(at, limit).marks)) if limit.hides_rows else rows

    def _find_seen(self, limit: VisibleRows) -> RowMask:
        marks = np.ones(limit.row_count, np.bool_)
        names = dict.fromkeys(columns_of(limit.condition))
        if limit.condition != ALWAYS and limit.row_count:
            columns = {
                name: self.cache.columns.get(limit.at, name, tables=self.tables) for name in names
            }
            # A condition that never holds references no column, and a table without columns has no
            # rows.
            ids = self.cache.columns.get(limit.at, "id", tables=self.tables)
            marks = _to_marks(evaluate_mask(limit.condition, pa.table({**columns, "id": ids})))
        if limit.ends and limit.row_count:
            topology = self.cache.topologies.topology(limit.at, tables=self.tables)
            sides = {"src": topology.sources, "dst": topology.targets}
            for column, nodes in limit.ends:
                seen = pc.is_in(topology.ids, value_set=self._all_ids(nodes))
                marks = marks & _to_marks(seen)[sides[column]]
        return RowMask(marks, int(np.count_nonzero(marks)))

    def _marks(self, limit: VisibleRows, rows: pa.Table) -> pa.Array:
        """Mark the visible rows among some rows of a version."""
        marks = _to_marks(evaluate_mask(limit.condition, rows))
        for column, nodes in limit.ends:
            marks = marks & _to_marks(self._are_seen(nodes, rows[column]))
        return pa.array(marks)

    def _are_seen(self, nodes: TableVersion, ids: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        distinct = one_chunk(ids).unique()
        if len(distinct) > PROBED_VALUES_MAX:
            return pc.is_in(ids, value_set=self._all_ids(nodes))
        return pc.is_in(ids, value_set=self.find_ids(nodes, ids=distinct))

    def _all_ids(self, nodes: TableVersion) -> pa.Array:
        return self.cache.columns.get(nodes, "id", tables=self)

    # Two versions

    def _sees_alike(self, before: VisibleRows, after: VisibleRows) -> bool:
        """Whether a row that both versions have is visible in both or in neither."""
        if before.condition != after.condition or before.hidden != after.hidden:
            return False
        if [column for column, _ in before.ends] != [column for column, _ in after.ends]:
            return False
        pairs = zip(before.ends, after.ends, strict=True)
        return all(self._has_same_ids(old, new) for (_, old), (_, new) in pairs)

    def _has_same_ids(self, old: TableVersion, new: TableVersion) -> bool:
        if old == new:
            return True
        if old.ref.path != new.ref.path:
            return False
        delta = self.find_delta(old, new, columns=["id"])
        deleted, added = (one_chunk(each["id"]).sort() for each in (delta.deleted, delta.added))
        return bool(deleted.equals(added))

    def _select(self, limit: VisibleRows, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        # A version that is older than a column does not have it.
        seen = [name for name in columns if name in rows.column_names]
        return rows.filter(self._marks(limit, rows)).select(seen)

    def _scan_some(self, at: TableVersion, columns: Sequence[str]) -> pa.Table:
        stored = set(self.schema(at).names)
        return self.scan(at, columns=[each for each in columns if each in stored], predicate=None)


def _to_marks(marked: pa.Array | pa.ChunkedArray) -> Marks:
    marks: Marks = marked.to_numpy(zero_copy_only=False)
    return marks


def read_together(old: Basis | None, new: Basis, tables: TableReader) -> RowReader:
    """The reader of two states: the given store, or a restricted one if access is limited."""
    restricted = [each.visible.tables for each in (old, new) if each is not None and each.visible]
    if not restricted:
        return tables
    *others, last = restricted
    for each in others:
        assert isinstance(each, SecuredTables)
        assert isinstance(last, SecuredTables)
        last = each.together(last)
    return last


def find_visible_rows(basis: Basis, table_key: str) -> VisibleRows | None:
    """The visible part of a type in a state; None if all of it is visible, or if it has no table.

    For callers that do not read rows through the reader of the state.
    """
    entry = basis.state.snapshot.entries.get(table_key)
    if basis.visible is None or entry is None:
        return None
    reader = basis.visible.tables
    assert isinstance(reader, SecuredTables)
    found = (each for each in reader.limit_by_version.values() if each.at == entry.at)
    return next(found, None)
