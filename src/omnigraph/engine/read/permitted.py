"""The rows that a reader may see: a store before the store, that has no others.

A version that is not seen whole has a name of its own here, made of everything that decides what is
seen of it. So whatever is kept in memory under a version's name is kept apart for readers who see
different rows, and shared by those who see the same. Nobody else knows these names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.conditions import ALWAYS, BoundCondition
from omnigraph.engine.read.masks import mask
from omnigraph.engine.read.memory import Kept, SeenRows
from omnigraph.engine.read.row_conditions import columns_of
from omnigraph.engine.read.spaces import Codes, Marks, one_chunk
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import Entry
from omnigraph.model.limits import PROBED_VALUES_MAX
from omnigraph.storage.ports import (
    RowReader,
    StoredBlob,
    TableDelta,
    TableRef,
    TableStore,
    TableVersion,
)

# No name of a branch holds this character.
_MARK = "~"

_SPARSE = 32
"""How many times more rows a version has than are seen when reading them one by one pays."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What is seen of one version of a type.

    Of its rows those that the condition holds for; of edges only those whose ends, by the column
    that names them, are among the rows that are seen of another version.
    """

    at: TableVersion
    row_count: int
    condition: BoundCondition
    hidden: frozenset[str]
    ends: tuple[tuple[str, TableVersion], ...]

    @property
    def hides_rows(self) -> bool:
        """Whether there may be rows that are not seen."""
        return self.condition != ALWAYS or bool(self.ends)

    @property
    def looked_at(self) -> tuple[str, ...]:
        """The columns that tell whether a row is seen."""
        own = dict.fromkeys(columns_of(self.condition))
        return tuple(dict.fromkeys((*own, *(column for column, _ in self.ends))))

    def seen_as(self) -> TableVersion:
        """The name of what is seen of the version."""
        decisive = (self.condition, sorted(self.hidden), self.ends)
        digest = sha256(repr(decisive).encode()).hexdigest()
        ref = self.at.ref
        return TableVersion(
            TableRef(ref.path, f"{ref.branch or ''}{_MARK}{digest}"), self.at.version
        )


class PermittedEntries(Mapping[str, Entry]):
    """The entries of a snapshot as somebody sees them; rows are counted when an entry is asked for.

    A mapping of the library, because counting the rows of types that nobody asks about would read
    all of them.
    """

    def __init__(
        self,
        entries: Mapping[str, Entry],
        *,
        seen_by_key: Mapping[str, TableVersion],
        tables: PermittedTables,
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
class PermittedTables:
    """Answers reads with permitted rows only; a version without a limit is seen whole.

    Implements `RowReader`.
    """

    tables: TableStore
    kept: Kept
    limit_by_version: Mapping[TableVersion, Limit]

    def together(self, other: PermittedTables) -> PermittedTables:
        """What is seen of the versions of two states."""
        return replace(self, limit_by_version={**self.limit_by_version, **other.limit_by_version})

    def row_count(self, at: TableVersion) -> int:
        """How many rows of a version are seen."""
        limit = self.limit_by_version[at]
        return self._seen(at, limit).count if limit.hides_rows else limit.row_count

    def schema(self, at: TableVersion) -> pa.Schema:
        """The columns that are seen."""
        limit = self.limit_by_version.get(at)
        if limit is None:
            return self.tables.schema(at)
        whole = self.tables.schema(limit.at)
        seen = [field for field in whole if field.name not in limit.hidden]
        return pa.schema(seen, metadata=whole.metadata)

    def scan(self, at: TableVersion, *, columns: Sequence[str], predicate: str | None) -> pa.Table:
        """The rows that are seen and that a predicate holds for."""
        limit = self._find(at, columns)
        if limit is None:
            return self.tables.scan(at, columns=columns, predicate=predicate)
        if predicate is None:
            return self._scan_all(at, limit, columns)
        wanted = list(dict.fromkeys([*columns, *limit.looked_at]))
        rows = self.tables.scan(limit.at, columns=wanted, predicate=predicate)
        return rows.filter(self._marks(limit, rows)).select(columns)

    def find_ids(self, at: TableVersion, *, ids: pa.Array) -> pa.Array:
        """Those of some ids that are there and seen."""
        limit = self.limit_by_version.get(at)
        if limit is None:
            return self.tables.find_ids(at, ids=ids)
        return one_chunk(self.find_rows(at, ids=ids, columns=["id"])["id"])

    def find_rows(self, at: TableVersion, *, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """The rows with some ids, of those that are seen."""
        limit = self._find(at, columns)
        if limit is None:
            return self.tables.find_rows(at, ids=ids, columns=columns)
        wanted = list(dict.fromkeys([*columns, *limit.looked_at]))
        rows = self.tables.find_rows(limit.at, ids=ids, columns=wanted)
        return rows.filter(self._marks(limit, rows)).select(columns)

    def scan_by_id(self, at: TableVersion, *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows that are seen, in the order of their ids."""
        limit = self._find(at, columns)
        if limit is None:
            yield from self.tables.scan_by_id(at, columns=columns)
            return
        wanted = list(dict.fromkeys([*columns, *limit.looked_at]))
        for batch in self.tables.scan_by_id(limit.at, columns=wanted):
            marks = self._marks(limit, pa.Table.from_batches([batch]))
            if pc.any(marks).as_py():
                yield batch.filter(marks).select(list(columns))

    def read_blob(
        self, at: TableVersion, *, id: str, column: str, start: int, length: int | None
    ) -> StoredBlob | None:
        """Some bytes of a blob; None if there is no such row or it is not seen."""
        limit = self._find(at, [column])
        if limit is not None and not len(self.find_ids(at, ids=pa.array([id]))):
            return None
        place = at if limit is None else limit.at
        return self.tables.read_blob(place, id=id, column=column, start=start, length=length)

    def find_delta(
        self, old: TableVersion, new: TableVersion, *, columns: Sequence[str]
    ) -> TableDelta:
        """The rows in which two versions differ as they are seen."""
        before, after = self.limit_by_version.get(old), self.limit_by_version.get(new)
        if before is None and after is None:
            return self.tables.find_delta(old, new, columns=columns)
        if before is None or after is None or not self._sees_alike(before, after):
            return TableDelta(
                gone=self._scan_some(old, columns), come=self._scan_some(new, columns)
            )
        wanted = list(dict.fromkeys([*columns, *before.looked_at]))
        delta = self.tables.find_delta(before.at, after.at, columns=wanted)
        return TableDelta(
            gone=self._select(before, delta.gone, columns),
            come=self._select(after, delta.come, columns),
        )

    def take(
        self, at: TableVersion, *, positions: npt.NDArray[np.int64], columns: Sequence[str]
    ) -> pa.Table:
        """The rows at these places among those that are seen."""
        limit = self._find(at, columns)
        if limit is None:
            return self.tables.take(at, positions=positions, columns=columns)
        places = self._places(at, limit)[positions] if limit.hides_rows else positions
        return self.tables.take(limit.at, positions=places, columns=columns)

    def stored_bytes(self, at: TableVersion, column: str) -> int:
        """How much room a column takes, with all rows that are read to leave some out."""
        limit = self.limit_by_version.get(at)
        if limit is None:
            return self.tables.stored_bytes(at, column)
        whole = self.tables.stored_bytes(limit.at, column)
        if not self._is_sparse(at, limit, [column]):
            return whole
        return whole * self._seen(at, limit).count // limit.row_count

    def _find(self, at: TableVersion, columns: Sequence[str]) -> Limit | None:
        limit = self.limit_by_version.get(at)
        assert limit is None or limit.hidden.isdisjoint(columns), "nobody knows of hidden columns"
        return limit

    # Which rows are seen

    def _seen(self, at: TableVersion, limit: Limit) -> SeenRows:
        return self.kept.seen.get(at, lambda: self._find_seen(limit))

    def _places(self, at: TableVersion, limit: Limit) -> Codes:
        """The places in a scan of the rows that are seen."""
        return np.flatnonzero(self._seen(at, limit).marks)

    def _is_sparse(self, at: TableVersion, limit: Limit, columns: Sequence[str]) -> bool:
        """Whether rows are few enough to be read one by one; blobs come only with a scan."""
        if not limit.hides_rows or self._seen(at, limit).count * _SPARSE >= limit.row_count:
            return False
        schema = self.tables.schema(limit.at)
        types = [schema.field(name).type for name in columns]
        return not any(pa.types.is_struct(each) or pa.types.is_large_binary(each) for each in types)

    def _scan_all(self, at: TableVersion, limit: Limit, columns: Sequence[str]) -> pa.Table:
        if self._is_sparse(at, limit, columns):
            places = self._places(at, limit)
            return self.tables.take(limit.at, positions=places, columns=columns)
        rows = self.tables.scan(limit.at, columns=columns, predicate=None)
        return rows.filter(pa.array(self._seen(at, limit).marks)) if limit.hides_rows else rows

    def _find_seen(self, limit: Limit) -> SeenRows:
        marks = np.ones(limit.row_count, np.bool_)
        names = dict.fromkeys(columns_of(limit.condition))
        if limit.condition != ALWAYS and limit.row_count:
            columns = {
                name: self.kept.columns.get(limit.at, name, tables=self.tables) for name in names
            }
            # A condition that never holds looks at no column, and a table without one has no rows.
            ids = self.kept.columns.get(limit.at, "id", tables=self.tables)
            marks = _to_marks(mask(limit.condition, pa.table({**columns, "id": ids})))
        if limit.ends and limit.row_count:
            topology = self.kept.topologies.topology(limit.at, tables=self.tables)
            sides = {"src": topology.sources, "dst": topology.targets}
            for column, nodes in limit.ends:
                seen = pc.is_in(topology.ids, value_set=self._all_ids(nodes))
                marks = marks & _to_marks(seen)[sides[column]]
        return SeenRows(marks, int(np.count_nonzero(marks)))

    def _marks(self, limit: Limit, rows: pa.Table) -> pa.Array:
        """Which of some rows of a version are seen."""
        marks = _to_marks(mask(limit.condition, rows))
        for column, nodes in limit.ends:
            marks = marks & _to_marks(self._are_seen(nodes, rows[column]))
        return pa.array(marks)

    def _are_seen(self, nodes: TableVersion, ids: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        distinct = one_chunk(ids).unique()
        if len(distinct) > PROBED_VALUES_MAX:
            return pc.is_in(ids, value_set=self._all_ids(nodes))
        return pc.is_in(ids, value_set=self.find_ids(nodes, ids=distinct))

    def _all_ids(self, nodes: TableVersion) -> pa.Array:
        return self.kept.columns.get(nodes, "id", tables=self)

    # Two versions

    def _sees_alike(self, before: Limit, after: Limit) -> bool:
        """Whether a row that both versions have is seen in both or in neither."""
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
        gone, come = (one_chunk(each["id"]).sort() for each in (delta.gone, delta.come))
        return bool(gone.equals(come))

    def _select(self, limit: Limit, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        # A version that is older than a column has none of that name.
        seen = [name for name in columns if name in rows.column_names]
        return rows.filter(self._marks(limit, rows)).select(seen)

    def _scan_some(self, at: TableVersion, columns: Sequence[str]) -> pa.Table:
        stored = set(self.schema(at).names)
        return self.scan(at, columns=[each for each in columns if each in stored], predicate=None)


def _to_marks(marked: pa.Array | pa.ChunkedArray) -> Marks:
    marks: Marks = marked.to_numpy(zero_copy_only=False)
    return marks


def read_together(old: Basis | None, new: Basis, tables: TableStore) -> RowReader:
    """What answers reads of two states, the store being given."""
    limited = [each.limited.tables for each in (old, new) if each is not None and each.limited]
    if not limited:
        return tables
    *others, last = limited
    for each in others:
        assert isinstance(each, PermittedTables)
        assert isinstance(last, PermittedTables)
        last = each.together(last)
    return last


def find_limit(basis: Basis, table_key: str) -> Limit | None:
    """What is seen of a type in a state; None if that is all, or if there is nothing.

    For whoever reads rows by other means than the reader of the state.
    """
    entry = basis.state.snapshot.entries.get(table_key)
    if basis.limited is None or entry is None:
        return None
    reader = basis.limited.tables
    assert isinstance(reader, PermittedTables)
    found = (each for each in reader.limit_by_version.values() if each.at == entry.at)
    return next(found, None)
