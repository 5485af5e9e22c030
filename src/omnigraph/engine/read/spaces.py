"""Spaces: the entities of a type as dense numbers, and their ids and properties by number.

An entity's code is its place in its space; rows of a query are codes, and strings are only looked
at where somebody asks for them. A `TableSpace` holds every entity of a version of a table, by its
place in a scan; a `FetchedSpace` holds the few that a look-up found. Columns are read when first
needed, whole or only at the places asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.budget import Budget
from omnigraph.engine.read.ordering import order_keys
from omnigraph.engine.read.warm import Asked, Warm
from omnigraph.model.limits import WARM_COLUMN_BYTES_MAX, WARM_KEYS_MAX, WARM_TYPE_ROWS_MAX
from omnigraph.model.observer import Observer
from omnigraph.storage.ports import RowReader, TableVersion

Codes = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

UNBOUND = -1
"""The code of no entity: what an optional block that found nothing binds."""

_BEFORE_ALL = np.iinfo(np.int64).min
"""What no entity sorts as."""

_FEW = 4_096
"""Rows of a type that is read whole whenever it is read: asking for parts costs as much."""

_COMPARED_WHOLE = 2_048
"""Up to how many texts Arrow sorts, comparing them whole, quicker than we take them apart."""

_LOOKED_THROUGH = 24
"""How many single ids are found by looking through all before a dictionary of them pays."""

_LISTED_IDS_MAX = 500_000
"""How many ids a dictionary holds at most: each takes some hundred bytes."""

_SPARSE = 32
"""How many times more rows a type has than are needed when reading them one by one pays."""


class WarmColumns:
    """Columns of versions of tables, in memory; all reads of a graph share them."""

    def __init__(self, observer: Observer) -> None:
        self._columns: Warm[tuple[TableVersion, str], pa.Array] = Warm(
            bytes_max=WARM_COLUMN_BYTES_MAX, size_of=_bytes_of, observer=observer
        )
        self._id_keys: Warm[TableVersion, Codes] = Warm(
            bytes_max=WARM_COLUMN_BYTES_MAX // 4, size_of=_size_of_codes
        )
        self._code_by_id: Warm[TableVersion, Mapping[str, int]] = Warm(
            bytes_max=WARM_COLUMN_BYTES_MAX // 4, size_of=_size_of_codes_by_id
        )
        self._looked_for: Asked[TableVersion] = Asked(keys_max=WARM_KEYS_MAX)
        self._asked: Asked[tuple[TableVersion, str]] = Asked(keys_max=WARM_KEYS_MAX)

    def find(self, at: TableVersion, name: str) -> pa.Array | None:
        """A column, if it is in memory."""
        return self._columns.find((at, name))

    def get(self, at: TableVersion, name: str, *, tables: RowReader) -> pa.Array:
        """A column, read now if it is not in memory."""
        return self._columns.get((at, name), lambda: _read_column(at, name, tables))

    def id_keys(self, at: TableVersion, *, tables: RowReader) -> Codes:
        """Numbers that sort as the ids of a version do."""
        return self._id_keys.get(
            at, lambda: order_keys(self.get(at, "id", tables=tables), is_descending=False)
        )

    def find_id(self, at: TableVersion, id: str, *, tables: RowReader) -> int:
        """The place of an id in a version; unbound if it lacks it."""
        ids = self.get(at, "id", tables=tables)
        if self._looked_for.note(at) <= _LOOKED_THROUGH or len(ids) > _LISTED_IDS_MAX:
            return int(pc.index(ids, id).as_py())
        codes = self._code_by_id.get(
            at, lambda: dict(zip(ids.to_pylist(), range(len(ids)), strict=True))
        )
        return codes.get(id, UNBOUND)

    def is_worth_reading(self, at: TableVersion, names: Iterable[str], *, size: int) -> bool:
        """Whether columns are in memory, or were asked for before and are small enough to be."""
        cold = [name for name in names if (at, name) not in self._columns]
        if not cold or size <= _FEW:
            return True
        counts = [self._asked.note((at, name)) for name in cold]
        return min(counts) > 1 and size <= WARM_TYPE_ROWS_MAX


class TableSpace:
    """Every entity of a version of a table."""

    def __init__(
        self,
        at: TableVersion,
        *,
        size: int,
        tables: RowReader,
        warm: WarmColumns,
        budget: Budget,
    ) -> None:
        self.at = at
        self.size = size
        self._tables = tables
        self._warm = warm
        self._budget = budget
        self._names = frozenset(tables.schema(at).names)

    @property
    def whole(self) -> TableSpace:
        """The space of the whole table: this one."""
        return self

    def has_columns(self, names: Iterable[str]) -> bool:
        """Whether the table has columns: one that is older than a property lacks it."""
        return self._names.issuperset(names)

    def is_warm(self, names: Iterable[str]) -> bool:
        """Whether columns are in memory, or would be read whole anyway."""
        return self.size <= _FEW or all(self._warm.find(self.at, name) for name in names)

    def is_worth_reading(self, names: Iterable[str]) -> bool:
        """Whether to read these columns whole rather than to let Lance filter by them."""
        return self._warm.is_worth_reading(self.at, names, size=self.size)

    def column(self, name: str) -> pa.Array:
        """A whole column, by code; `LimitExceededError` if it is too large to be held."""
        found = self._warm.find(self.at, name)
        if found is not None:
            return found
        if self.size > _FEW:
            self._budget.require_bytes(self._stored_bytes(name))
        return self._warm.get(self.at, name, tables=self._tables)

    def values(self, name: str, type: pa.DataType, codes: Codes) -> pa.Array:
        """A column at some codes; null where nothing is bound or the table lacks the column."""
        if name not in self._names:
            return pa.nulls(len(codes), type)
        found = self._warm.find(self.at, name)
        if found is None and self.size > _FEW:
            wanted = distinct_codes(codes, size=self.size)
            if len(wanted) * _SPARSE < self.size:
                return take(self._read_some(name, wanted), _places(codes, wanted))
        return take(self.column(name) if found is None else found, codes)

    def _read_some(self, name: str, wanted: Codes) -> pa.Array:
        is_asked_again = self._warm.is_worth_reading(self.at, [name], size=self.size)
        if is_asked_again and self._stored_bytes(name) <= WARM_COLUMN_BYTES_MAX // 8:
            return take(self.column(name), wanted)
        rows = self._tables.take(self.at, positions=wanted, columns=[name])
        return one_chunk(rows[name])

    def _stored_bytes(self, name: str) -> int:
        return self._tables.stored_bytes(self.at, name)

    def ids(self, codes: Codes) -> pa.Array:
        """The ids of some codes."""
        return self.values("id", pa.string(), codes)

    def id_keys(self, codes: Codes) -> Codes:
        """Numbers that sort as the ids of some codes do."""
        if len(codes) * _SPARSE < self.size:
            return _rank(self.ids(codes))
        return np.append(self._warm.id_keys(self.at, tables=self._tables), _BEFORE_ALL)[codes]

    def find(self, ids: pa.Array) -> Codes:
        """The codes of ids; unbound where there is no such entity."""
        return find_all(ids, self.column("id"))

    def find_one(self, id: str) -> Codes:
        """The code of one id, if there is such an entity."""
        code = self._warm.find_id(self.at, id, tables=self._tables)
        return np.array([] if code == UNBOUND else [code], np.int64)

    def every(self) -> Codes:
        """All codes."""
        return np.arange(self.size, dtype=np.int64)

    def fetch(self, *, columns: Iterable[str], predicate: str) -> FetchedSpace:
        """The entities that a predicate holds for; columns that the table lacks are left out."""
        names = ["id", *sorted(self._names.intersection(columns) - {"id"})]
        rows = self._tables.scan(self.at, columns=names, predicate=predicate)
        return FetchedSpace(rows, whole=self)


class FetchedSpace:
    """The entities of `whole` that a look-up found, with the columns that the query needs."""

    def __init__(self, rows: pa.Table, *, whole: TableSpace) -> None:
        self.size = rows.num_rows
        self.whole = whole
        self.rows = rows

    def values(self, name: str, type: pa.DataType, codes: Codes) -> pa.Array:
        """A column at some codes; null where nothing is bound or the table lacks the column."""
        if name not in self.rows.column_names:
            return pa.nulls(len(codes), type)
        return take(one_chunk(self.rows[name]), codes)

    def ids(self, codes: Codes) -> pa.Array:
        """The ids of some codes."""
        return self.values("id", pa.string(), codes)

    def id_keys(self, codes: Codes) -> Codes:
        """Numbers that sort as the ids of some codes do."""
        every = order_keys(one_chunk(self.rows["id"]), is_descending=False)
        return np.append(every, _BEFORE_ALL)[codes]

    def find(self, ids: pa.Array) -> Codes:
        """The codes of ids; unbound where there is no such entity."""
        return find_all(ids, one_chunk(self.rows["id"]))

    def every(self) -> Codes:
        """All codes."""
        return np.arange(self.size, dtype=np.int64)


Space = TableSpace | FetchedSpace


def join_fetched(parts: Sequence[FetchedSpace]) -> FetchedSpace:
    """What several look-ups in one table found, in turn; no entity is in two of them."""
    if len(parts) == 1:
        return parts[0]
    return FetchedSpace(pa.concat_tables(each.rows for each in parts), whole=parts[0].whole)


def move(codes: Codes, *, source: Space, target: Space) -> Codes:
    """The codes that entities of one space have in another; unbound where it lacks them."""
    if source is target or not len(codes):
        return codes
    # The code of nothing is the last place of an array, so nothing stays nothing.
    return np.append(target.find(source.ids(source.every())), UNBOUND)[codes]


def distinct_codes(codes: Codes, *, size: int) -> Codes:
    """The codes of a space that occur, each once, in ascending order; unbound is none of them."""
    # Not `np.unique`: numpy 2.4 hashes whole numbers, and takes a hundred times as long.
    is_there = np.zeros(size + 1, np.bool_)
    # The code of nothing is the last place.
    is_there[codes] = True
    return np.flatnonzero(is_there[:-1])


def find_all(wanted: pa.Array, among: pa.Array) -> Codes:
    """The places of values in an array of distinct ones; unbound where it lacks them."""
    return to_codes(pc.index_in(wanted, value_set=among))


def to_codes(places: pa.Array) -> Codes:
    """Places as codes, null as unbound."""
    codes: Codes = pc.fill_null(places, UNBOUND).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64, copy=False)


def take(values: pa.Array, codes: Codes) -> pa.Array:
    """Values by code; null where nothing is bound."""
    if not len(codes) or codes.min() != UNBOUND:
        return values.take(pa.array(codes))
    return values.take(pa.array(codes, mask=codes == UNBOUND))


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _rank(ids: pa.Array) -> Codes:
    """Numbers that sort as ids do, null first."""
    if len(ids) > _COMPARED_WHOLE:
        return order_keys(ids, is_descending=False)
    ranks = pc.rank(ids, sort_keys=[("", "ascending", "at_start")], tiebreaker="dense")
    numbers: Codes = ranks.to_numpy().astype(np.int64)
    return numbers


def _read_column(at: TableVersion, name: str, tables: RowReader) -> pa.Array:
    return one_chunk(tables.scan(at, columns=[name], predicate=None)[name])


def _places(codes: Codes, wanted: Codes) -> Codes:
    places = np.searchsorted(wanted, codes)
    return np.where(codes == UNBOUND, UNBOUND, places)


def _size_of_codes_by_id(codes: Mapping[str, int]) -> int:
    return 150 * len(codes)


def _size_of_codes(codes: Codes) -> int:
    return codes.nbytes


def _bytes_of(column: pa.Array) -> int:
    return int(column.nbytes)
