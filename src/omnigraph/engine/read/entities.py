"""Entity indexes: the rows of a type as dense ordinals, with ids and properties by ordinal.

Query rows hold ordinals, and columns are read when they are first used, completely or only at some
ordinals. Cached values derive from immutable versions, so they are evicted by size and never
invalidated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.budget import Budget, CacheMemory, LruCache, UseCounter
from omnigraph.engine.read.ordering import hash_text, hash_texts, order_keys
from omnigraph.engine.rows.conditions import BoundCondition, evaluate_mask
from omnigraph.model.limits import CACHED_TYPE_ROWS_MAX, USE_COUNTERS_MAX
from omnigraph.storage.ports import RowReader, TableVersion, VectorSearch
from omnigraph.storage.predicates import OneOf, Predicate

Ordinals = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

IndexKey = tuple[TableVersion, object]

UNBOUND = -1
"""The ordinal of no entity, which an optional block without a match binds."""

_BEFORE_ALL = np.iinfo(np.int64).min
"""The sort key of an unbound variable, which sorts before every id."""

_SMALL_TABLE_ROWS = 4_096
"""Rows of a type up to which columns are read whole: reading parts costs as much."""

_ARROW_RANK_ROWS_MAX = 2_048
"""Texts up to which Arrow, which compares whole texts, sorts faster than `order_keys`."""

_LINEAR_LOOKUPS_MAX = 8
"""Lookups by linear scan of the ids of a version before hashing them pays off."""

_SINGLE_LOOKUPS_MAX = 8
"""Ids up to which finding them one by one takes less time than finding all of them at once."""

_SMALL_COLUMN_SHARE = 16
"""The share of the cache that one column may take to serve single values."""

_ENTRY_BYTES = 256
"""The memory of a cached number with its key."""

SPARSE = 32
"""The ratio of rows of a type to rows needed above which reading single rows pays off."""


class HashedIds:
    """The distinct ids of a version in the order of their hashes, to find some of them quickly."""

    def __init__(self, ids: pa.Array) -> None:
        hashes = hash_texts(ids)
        self._ids = ids
        self._ordinals: Ordinals = np.argsort(hashes)
        self._hashes = hashes[self._ordinals]

    @property
    def nbytes(self) -> int:
        """The memory size in bytes, without the ids."""
        return self._hashes.nbytes + self._ordinals.nbytes

    def find(self, wanted: pa.Array) -> Ordinals:
        """The ordinals of ids; `UNBOUND` where there is no such id."""
        if len(wanted) <= _SINGLE_LOOKUPS_MAX:
            return np.array([self._find_one(each) for each in wanted.to_pylist()], np.int64)
        found = np.full(len(wanted), UNBOUND, np.int64)
        hashes = hash_texts(wanted)
        places = np.searchsorted(self._hashes, hashes)
        sought = np.arange(len(wanted))
        # Different ids may have the same hash, so each candidate is compared.
        while len(sought := sought[self._has_hash(places[sought], hashes[sought])]):
            candidates = self._ordinals[places[sought]]
            pairs = self._ids.take(pa.array(candidates)), wanted.take(pa.array(sought))
            is_same = pc.fill_null(pc.equal(*pairs), fill_value=False)
            marks = is_same.to_numpy(zero_copy_only=False)
            found[sought[marks]] = candidates[marks]
            sought = sought[~marks]
            places[sought] += 1
        return found

    def _find_one(self, id: str | None) -> int:
        if id is None:
            return UNBOUND
        hashed = np.uint64(hash_text(id))
        place = int(np.searchsorted(self._hashes, hashed))
        while place < len(self._hashes) and self._hashes[place] == hashed:
            ordinal = int(self._ordinals[place])
            if self._ids[ordinal].as_py() == id:
                return ordinal
            place += 1
        return UNBOUND

    def _has_hash(self, places: Ordinals, hashes: npt.NDArray[np.uint64]) -> Marks:
        is_place = places < len(self._hashes)
        is_place[is_place] = self._hashes[places[is_place]] == hashes[is_place]
        return is_place


class ColumnCache:
    """Cached columns of table versions, shared by all reads of a graph."""

    def __init__(self, memory: CacheMemory) -> None:
        self._memory = memory
        self._columns: LruCache[tuple[TableVersion, str], pa.Array] = LruCache(
            memory, name="columns", size_of=_bytes_of
        )
        self._id_keys: LruCache[TableVersion, Ordinals] = LruCache(
            memory, name="ids", size_of=lambda each: each.nbytes
        )
        self._hashed_ids: LruCache[TableVersion, HashedIds] = LruCache(
            memory, name="ids", size_of=lambda each: each.nbytes
        )
        self._stored_bytes: LruCache[tuple[TableVersion, str], int] = LruCache(
            memory, name="columns", size_of=lambda _: _ENTRY_BYTES
        )
        self._lookups: UseCounter[TableVersion] = UseCounter(keys_max=USE_COUNTERS_MAX)
        self._requests: UseCounter[tuple[TableVersion, str]] = UseCounter(keys_max=USE_COUNTERS_MAX)

    @property
    def small_column_bytes(self) -> int:
        """The size of a column that is read whole when single values are requested repeatedly."""
        return self._memory.bytes_max // _SMALL_COLUMN_SHARE

    def find(self, at: TableVersion, name: str) -> pa.Array | None:
        """A column, or None if it is not cached."""
        return self._columns.find((at, name))

    def get(self, at: TableVersion, name: str, *, tables: RowReader) -> pa.Array:
        """A column, read now if it is not cached."""
        return self._columns.get((at, name), lambda: _read_column(at, name, tables))

    def stored_bytes(self, at: TableVersion, name: str, *, tables: RowReader) -> int:
        """The stored size of a column."""
        return self._stored_bytes.get((at, name), lambda: tables.stored_bytes(at, name))

    def id_keys(self, at: TableVersion, *, tables: RowReader) -> Ordinals:
        """Integers that sort as the ids of a version do."""
        return self._id_keys.get(
            at, lambda: order_keys(self.get(at, "id", tables=tables), is_descending=False)
        )

    def has_any(self, at: TableVersion, names: Iterable[str]) -> bool:
        """Whether a column of a version is cached."""
        return any((at, name) in self._columns for name in names)

    def has_all(self, at: TableVersion, names: Iterable[str]) -> bool:
        """Whether columns of a version are cached."""
        return all((at, name) in self._columns for name in names)

    def find_ids(self, at: TableVersion, ids: pa.Array, *, tables: RowReader) -> Ordinals:
        """The ordinals of ids in a version; `UNBOUND` where the version lacks the id."""
        among = self.get(at, "id", tables=tables)
        if len(ids) * SPARSE > len(among):
            return find_all(ids, among)
        hashed = self._hashed_ids.find(at)
        if hashed is None:
            if self._lookups.note(at) <= _LINEAR_LOOKUPS_MAX:
                return find_all(ids, among)
            hashed = self._hashed_ids.get(at, lambda: HashedIds(among))
        return hashed.find(ids)

    def is_worth_reading(self, at: TableVersion, names: Iterable[str], *, size: int) -> bool:
        """Whether columns are cached, or were requested before and are small enough to cache.

        Counts a request for each column that is not cached, unless the table is small.
        """
        missing = [name for name in names if (at, name) not in self._columns]
        if not missing or size <= _SMALL_TABLE_ROWS:
            return True
        counts = [self._requests.note((at, name)) for name in missing]
        return min(counts) > 1 and size <= CACHED_TYPE_ROWS_MAX


class TableEntities:
    """The entity index of a whole table version."""

    def __init__(
        self,
        at: TableVersion,
        *,
        size: int,
        names: Iterable[str],
        tables: RowReader,
        cache: ColumnCache,
        budget: Budget,
    ) -> None:
        self.at = at
        self.size = size
        self._tables = tables
        self._cache = cache
        self._budget = budget
        self._names = frozenset(names)

    @property
    def whole(self) -> TableEntities:
        """The entity index of the whole table, which is this one."""
        return self

    @property
    def base(self) -> TableEntities:
        """The entity index whose ordinals this one uses, which is this one."""
        return self

    @property
    def key(self) -> IndexKey:
        """What identifies the ordinals of this index."""
        return self.at, None

    def has_columns(self, names: Iterable[str]) -> bool:
        """Whether the table has all columns; a version older than a property lacks its column."""
        return self._names.issuperset(names)

    def is_cached(self, names: Iterable[str]) -> bool:
        """Whether columns are cached, or the table is small enough to be read whole anyway."""
        return self.size <= _SMALL_TABLE_ROWS or self._cache.has_all(self.at, names)

    def is_worth_reading(self, names: Iterable[str]) -> bool:
        """Whether to read these columns whole instead of pushing a filter on them down to Lance."""
        return self._cache.is_worth_reading(self.at, names, size=self.size)

    def column(self, name: str) -> pa.Array:
        """A whole column, by ordinal.

        Raises `LimitExceededError` if its stored size exceeds the budget.
        """
        found = self._cache.find(self.at, name)
        if found is not None:
            return found
        if self.size > _SMALL_TABLE_ROWS:
            self._budget.require_bytes(self._stored_bytes(name))
        return self._cache.get(self.at, name, tables=self._tables)

    def values(self, name: str, type: pa.DataType, ordinals: Ordinals) -> pa.Array:
        """A column at some ordinals; null where unbound or where the table lacks the column."""
        if name not in self._names:
            return pa.nulls(len(ordinals), type)
        found = self._cache.find(self.at, name)
        if found is None and self.size > _SMALL_TABLE_ROWS:
            wanted = distinct_ordinals(ordinals, size=self.size)
            if len(wanted) * SPARSE < self.size:
                return take(self._read_some(name, wanted), _positions(ordinals, wanted))
        return take(self.column(name) if found is None else found, ordinals)

    def _read_some(self, name: str, wanted: Ordinals) -> pa.Array:
        is_repeated = self._cache.is_worth_reading(self.at, [name], size=self.size)
        if is_repeated and self._stored_bytes(name) <= self._cache.small_column_bytes:
            return take(self.column(name), wanted)
        rows = self._tables.take(self.at, positions=wanted, columns=[name])
        return one_chunk(rows[name])

    def _stored_bytes(self, name: str) -> int:
        return self._cache.stored_bytes(self.at, name, tables=self._tables)

    def ids(self, ordinals: Ordinals) -> pa.Array:
        """The ids at some ordinals."""
        return self.values("id", pa.string(), ordinals)

    def id_keys(self, ordinals: Ordinals) -> Ordinals:
        """Integers that sort as the ids at some ordinals do."""
        if len(ordinals) * SPARSE < self.size:
            return rank_ids(self.ids(ordinals))
        return np.append(self._cache.id_keys(self.at, tables=self._tables), _BEFORE_ALL)[ordinals]

    def find(self, ids: pa.Array) -> Ordinals:
        """The ordinals of ids; `UNBOUND` where there is no such entity."""
        self.column("id")
        return self._cache.find_ids(self.at, ids, tables=self._tables)

    def find_one(self, id: str) -> Ordinals:
        """The ordinal of one id; empty if there is no such entity."""
        (ordinal,) = self.find(pa.array([id], pa.string())).tolist()
        return np.array([] if ordinal == UNBOUND else [ordinal], np.int64)

    def find_nearest(self, search: VectorSearch, count: int) -> Ordinals | None:
        """At most `count` entities near a vector, in approximate order; None without an index."""
        near = self._tables.find_nearest(self.at, search, count=count, base=self.at)
        return None if near is None else near.positions

    def matching(self, conditions: Sequence[BoundCondition], names: Sequence[str]) -> Ordinals:
        """The entities whose values in the named columns meet all conditions."""
        columns = pa.table({name: self.column(name) for name in names})
        return np.flatnonzero(evaluate_all(conditions, columns))

    def every(self) -> Ordinals:
        """All ordinals."""
        return np.arange(self.size, dtype=np.int64)

    def present(self) -> Ordinals:
        """The ordinals of all entities."""
        return self.every()

    def fetch(self, *, columns: Iterable[str], predicate: Predicate) -> FetchedEntities:
        """The entities that match a predicate; columns that the table lacks are left out."""
        names = ["id", *sorted(self._names.intersection(columns) - {"id"})]
        rows = self._tables.scan(self.at, columns=names, predicate=predicate)
        return FetchedEntities(rows, whole=self)

    def fetch_ids(self, ids: pa.Array, *, columns: Iterable[str]) -> FetchedEntities:
        """The entities with some ids, from cached columns if they are there; see `fetch`."""
        return _fetch_ids(self, ids, columns)


@dataclass(frozen=True)
class EntityDelta:
    """How the entities of a version differ from those of its base.

    `rows` are the rows that the base does not have, one for each entity, and `ordinals` the ordinal
    of each: that of the entity in the base, or a new one. `removed` holds the ordinals of entities
    that do not exist in this version, and `removed_ids` their ids. `size` is one more than the
    highest ordinal. Two deltas of one version may have different ordinals, so what is derived from
    ordinals is cached by the `token` of a delta.
    """

    base: TableVersion
    base_size: int
    size: int
    rows: pa.Table
    ordinals: Ordinals
    removed: Ordinals
    removed_ids: pa.Array
    token: object = field(default_factory=object)

    @cached_property
    def nbytes(self) -> int:
        """The memory size in bytes."""
        return int(self.rows.nbytes + self.ordinals.nbytes + self.removed_ids.nbytes)

    @property
    def row_count(self) -> int:
        """The number of changed entities."""
        return len(self.ordinals) + len(self.removed)

    @cached_property
    def ids(self) -> pa.Array:
        """The ids of the changed rows."""
        return one_chunk(self.rows["id"])

    @cached_property
    def dropped(self) -> Ordinals:
        """The entities of the base whose row there is not valid any more, ascending."""
        every = np.concatenate([self.ordinals, self.removed])
        return np.sort(every[every < self.base_size])

    @cached_property
    def adds_entities(self) -> bool:
        """Whether there is an entity that the base does not have."""
        return bool((self.ordinals >= self.base_size).any())

    @cached_property
    def _order(self) -> Ordinals:
        return np.argsort(self.ordinals)

    @cached_property
    def _is_changed(self) -> Marks:
        marks = np.zeros(self.size + 1, np.bool_)
        # `UNBOUND` is -1 and so indexes the last element, which stays false.
        marks[self.ordinals] = True
        return marks

    def rows_at(self, ordinals: Ordinals) -> Ordinals:
        """The changed row of each ordinal; `UNBOUND` where the row of the base is valid."""
        found = np.full(len(ordinals), UNBOUND, np.int64)
        if not len(self.ordinals):
            return found
        if len(ordinals) * SPARSE < self.size:
            candidates = np.arange(len(ordinals))
        else:
            # One byte for each entity is looked up faster than a sorted list is searched.
            candidates = np.flatnonzero(self._is_changed[ordinals])
        sought = ordinals[candidates]
        places = np.searchsorted(self.ordinals, sought, sorter=self._order)
        places[places == len(self._order)] = 0
        rows = self._order[places]
        is_row = self.ordinals[rows] == sought
        found[candidates[is_row]] = rows[is_row]
        return found


class ChangedEntities:
    """The entity index of a table version that has a base; see `TableEntities`."""

    def __init__(
        self, at: TableVersion, *, base: TableEntities, delta: EntityDelta, tables: RowReader
    ) -> None:
        self.at = at
        self.base = base
        self.delta = delta
        self.size = delta.size
        self._tables = tables
        self._names = frozenset(tables.schema(at).names)

    @property
    def whole(self) -> ChangedEntities:
        """The entity index of the whole table, which is this one."""
        return self

    @property
    def key(self) -> IndexKey:
        """What identifies the ordinals of this index."""
        return self.at, self.delta.token

    def has_columns(self, names: Iterable[str]) -> bool:
        """Whether the table has all columns."""
        return self._names.issuperset(names)

    def is_cached(self, names: Iterable[str]) -> bool:
        """Whether the base has these columns cached, or is small enough to be read whole anyway."""
        return self.base.is_cached(names)

    def is_worth_reading(self, names: Iterable[str]) -> bool:
        """Whether to read these columns whole instead of pushing a filter on them down to Lance."""
        return self.base.is_worth_reading(names)

    def values(self, name: str, type: pa.DataType, ordinals: Ordinals) -> pa.Array:
        """A column at some ordinals; null where unbound or where the table lacks the column."""
        if name not in self._names:
            return pa.nulls(len(ordinals), type)
        rows = self.delta.rows_at(ordinals)
        is_changed = rows != UNBOUND
        is_new = ordinals >= self.base.size
        old = ordinals if not is_new.any() else np.where(is_new, UNBOUND, ordinals)
        values = self.base.values(name, type, old)
        if not is_changed.any():
            return values
        changed = self.changed(name)
        if not pa.types.is_nested(values.type):
            replacements = changed.take(pa.array(rows[is_changed]))
            replaced: pa.Array = pc.replace_with_mask(values, pa.array(is_changed), replacements)
            return replaced
        places = np.where(is_changed, len(values) + rows, np.arange(len(values)))
        return pa.concat_arrays([values, changed]).take(pa.array(places))

    def changed(self, name: str) -> pa.Array:
        """A column of the changed rows."""
        return one_chunk(self.delta.rows[name])

    def ids(self, ordinals: Ordinals) -> pa.Array:
        """The ids at some ordinals."""
        return self.values("id", pa.string(), ordinals)

    def id_keys(self, ordinals: Ordinals) -> Ordinals:
        """Integers that sort as the ids at some ordinals do."""
        if self.delta.adds_entities:
            return rank_ids(self.ids(ordinals))
        return self.base.id_keys(ordinals)

    def find(self, ids: pa.Array) -> Ordinals:
        """The ordinals of ids; `UNBOUND` where there is no such entity."""
        rows = find_all(ids, self.delta.ids)
        found = np.append(self.delta.ordinals, UNBOUND)[rows]
        in_base = np.flatnonzero(rows == UNBOUND)
        if len(in_base):
            old = self.base.find(ids.take(pa.array(in_base)) if len(in_base) < len(ids) else ids)
            found[in_base] = np.where(np.isin(old, self.delta.dropped), UNBOUND, old)
        return found

    def find_one(self, id: str) -> Ordinals:
        """The ordinal of one id; empty if there is no such entity."""
        row = pc.index(self.delta.ids, id).as_py()
        if row >= 0:
            return self.delta.ordinals[row : row + 1]
        found = self.base.find_one(id)
        return found[~np.isin(found, self.delta.dropped)]

    def find_nearest(self, search: VectorSearch, count: int) -> Ordinals | None:
        """At most `count` entities near a vector, in approximate order; None without an index."""
        near = self._tables.find_nearest(self.at, search, count=count, base=self.base.at)
        if near is None:
            return None
        found = near.positions.copy()
        found[found == UNBOUND] = self.delta.ordinals[find_all(near.ids, self.delta.ids)]
        return found

    def matching(self, conditions: Sequence[BoundCondition], names: Sequence[str]) -> Ordinals:
        """The entities whose values in the named columns meet all conditions."""
        marks = np.zeros(self.size, np.bool_)
        marks[self.base.matching(conditions, names)] = True
        marks[self.delta.dropped] = False
        marks[self.delta.ordinals] = evaluate_all(conditions, self.delta.rows.select(names))
        return np.flatnonzero(marks)

    def every(self) -> Ordinals:
        """All ordinals, including those of entities that do not exist in this version."""
        return np.arange(self.size, dtype=np.int64)

    def present(self) -> Ordinals:
        """The ordinals of all entities."""
        if not len(self.delta.removed):
            return self.every()
        marks = np.ones(self.size, np.bool_)
        marks[self.delta.removed] = False
        return np.flatnonzero(marks)

    def fetch(self, *, columns: Iterable[str], predicate: Predicate) -> FetchedEntities:
        """The entities that match a predicate; columns that the table lacks are left out."""
        names = ["id", *sorted(self._names.intersection(columns) - {"id"})]
        rows = self._tables.scan(self.at, columns=names, predicate=predicate)
        return FetchedEntities(rows, whole=self)

    def fetch_ids(self, ids: pa.Array, *, columns: Iterable[str]) -> FetchedEntities:
        """The entities with some ids, from cached columns if they are there; see `fetch`."""
        return _fetch_ids(self, ids, columns)


def _fetch_ids(index: WholeEntities, ids: pa.Array, columns: Iterable[str]) -> FetchedEntities:
    names = [
        "id",
        *(each for each in sorted(columns) if index.has_columns([each]) and each != "id"),
    ]
    if not index.is_cached(names):
        return index.fetch(columns=names, predicate=OneOf("id", ids))
    found = index.find(ids)
    ordinals = np.sort(found[found != UNBOUND])
    rows = {name: index.values(name, pa.null(), ordinals) for name in names}
    return FetchedEntities(pa.table(rows), whole=index)


class FetchedEntities:
    """The entities of `whole` that a lookup found, with the columns that the query needs."""

    def __init__(self, rows: pa.Table, *, whole: WholeEntities) -> None:
        self.size = rows.num_rows
        self.whole = whole
        self.rows = rows

    def values(self, name: str, type: pa.DataType, ordinals: Ordinals) -> pa.Array:
        """A column at some ordinals; null where unbound or where the table lacks the column."""
        if name not in self.rows.column_names:
            return pa.nulls(len(ordinals), type)
        return take(one_chunk(self.rows[name]), ordinals)

    def ids(self, ordinals: Ordinals) -> pa.Array:
        """The ids at some ordinals."""
        return self.values("id", pa.string(), ordinals)

    def id_keys(self, ordinals: Ordinals) -> Ordinals:
        """Integers that sort as the ids at some ordinals do."""
        every = order_keys(one_chunk(self.rows["id"]), is_descending=False)
        return np.append(every, _BEFORE_ALL)[ordinals]

    def find(self, ids: pa.Array) -> Ordinals:
        """The ordinals of ids; `UNBOUND` where there is no such entity."""
        return find_all(ids, one_chunk(self.rows["id"]))

    def every(self) -> Ordinals:
        """All ordinals."""
        return np.arange(self.size, dtype=np.int64)


WholeEntities = TableEntities | ChangedEntities
EntityIndex = WholeEntities | FetchedEntities
Indexes = Mapping[str, EntityIndex]
"""The entity index of each variable."""


def join_fetched(parts: Sequence[FetchedEntities]) -> FetchedEntities:
    """The results of several lookups in one table, in order; they must be disjoint."""
    if len(parts) == 1:
        return parts[0]
    return FetchedEntities(pa.concat_tables(each.rows for each in parts), whole=parts[0].whole)


def move(ordinals: Ordinals, *, source: EntityIndex, target: EntityIndex) -> Ordinals:
    """Ordinals of one entity index translated to another; `UNBOUND` where that lacks the entity."""
    if source is target or not len(ordinals):
        return ordinals
    # `UNBOUND` is -1 and so indexes the last element, which makes unbound stay unbound.
    return np.append(target.find(source.ids(source.every())), UNBOUND)[ordinals]


def distinct_ordinals(ordinals: Ordinals, *, size: int) -> Ordinals:
    """The distinct ordinals in ascending order, without `UNBOUND`."""
    # `np.unique` takes a hundred times as long, because numpy 2.4 hashes integers.
    is_there = np.zeros(size + 1, np.bool_)
    # `UNBOUND` is -1 and so marks the last element, which is cut off below.
    is_there[ordinals] = True
    return np.flatnonzero(is_there[:-1])


def find_all(wanted: pa.Array, among: pa.Array) -> Ordinals:
    """The positions of values in an array of distinct values; `UNBOUND` where it lacks them."""
    if len(wanted) * SPARSE > len(among):
        return to_ordinals(pc.index_in(wanted, value_set=among))
    # Hashing the few values and comparing all others with them takes less time than the reverse.
    is_wanted = pc.is_in(among, value_set=wanted).to_numpy(zero_copy_only=False)
    places = np.append(np.flatnonzero(is_wanted), UNBOUND)
    return places[to_ordinals(pc.index_in(wanted, value_set=among.filter(pa.array(is_wanted))))]


def evaluate_all(conditions: Sequence[BoundCondition], rows: pa.Table) -> Marks:
    """A mark for each row that meets all conditions."""
    marks = np.ones(rows.num_rows, np.bool_)
    for condition in conditions:
        marks &= evaluate_mask(condition, rows).to_numpy(zero_copy_only=False)
    return marks


def to_ordinals(places: pa.Array) -> Ordinals:
    """Positions as ordinals, with null as `UNBOUND`."""
    ordinals: Ordinals = pc.fill_null(places, UNBOUND).to_numpy(zero_copy_only=False)
    return ordinals.astype(np.int64, copy=False)


def take(values: pa.Array, ordinals: Ordinals) -> pa.Array:
    """Values by ordinal; null where unbound."""
    if not len(ordinals) or ordinals.min() != UNBOUND:
        return values.take(pa.array(ordinals))
    return values.take(pa.array(ordinals, mask=ordinals == UNBOUND))


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def rank_ids(ids: pa.Array) -> Ordinals:
    """Integers that sort as ids do, nulls first."""
    if len(ids) > _ARROW_RANK_ROWS_MAX:
        return order_keys(ids, is_descending=False)
    ranks = pc.rank(ids, sort_keys=[("", "ascending", "at_start")], tiebreaker="dense")
    numbers: Ordinals = ranks.to_numpy().astype(np.int64)
    return numbers


def _read_column(at: TableVersion, name: str, tables: RowReader) -> pa.Array:
    return one_chunk(tables.scan(at, columns=[name], predicate=None)[name])


def _positions(ordinals: Ordinals, wanted: Ordinals) -> Ordinals:
    places = np.searchsorted(wanted, ordinals)
    return np.where(ordinals == UNBOUND, UNBOUND, places)


def _bytes_of(column: pa.Array) -> int:
    return int(column.nbytes)
