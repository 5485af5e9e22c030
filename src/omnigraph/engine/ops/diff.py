"""Diffs: the net changes of each type between two snapshots, ordered by type and id.

Rows are compared by id and value, so a row that was rewritten, moved or restored is not a change.
A type is identified by its table, so a renamed type is the same type. NaN equals itself, and the
two float zeros differ. The cost depends on what was written between the states and not on the size
of the type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.changes import ChangedRows, ChangeOp, ChangeSet
from omnigraph.engine.ops.export import complete, select_types
from omnigraph.engine.read.entities import one_chunk
from omnigraph.engine.row_security.tables import read_together
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import Entry, find_type, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import NotFoundError
from omnigraph.model.limits import DIFF_INLINE_ROWS_MAX, SPARK_PART_ROWS_MAX
from omnigraph.model.names import parse_word, require_names
from omnigraph.storage.ports import (
    NO_DELTA,
    DeltaPart,
    DeltaParts,
    TableDelta,
    TableReader,
    TableVersion,
    VersionLocation,
)
from omnigraph.storage.predicates import Predicate
from omnigraph.storage.row_files import table_schema
from omnigraph.storage.tables import plan_delta


@dataclass(frozen=True, slots=True)
class TypePair:
    """A declared type, and its rows in an older and in a newer state, if there are any."""

    declared: NodeType | EdgeType
    old: Entry | None
    new: Entry | None

    @property
    def is_unchanged(self) -> bool:
        """Whether both states name the same rows."""
        return self.old is not None and self.new is not None and self.old.at == self.new.at

    @property
    def row_count(self) -> int:
        """The total number of rows in both states."""
        return sum(each.row_count for each in (self.old, self.new) if each is not None)


def pair_types(old: Basis | None, new: Basis) -> Iterator[TypePair]:
    """Every type that either state has; None is the state before the first commit."""
    before = {} if old is None else dict(old.snapshot.entries)
    after = new.snapshot.entries
    key_by_place = {entry.path: key for key, entry in before.items()}
    retained_paths = {entry.path for entry in after.values()}
    for declared in new.catalog.stored_types():
        key = table_key_of(declared)
        entry, was = after.get(key), before.get(key)
        if entry is not None and entry.path in key_by_place:
            was = before.get(key_by_place[entry.path])
        elif was is not None and was.path in retained_paths:
            # Its rows belong to another type now.
            was = None
        if was is not None:
            del before[was.table_key]
        yield TypePair(declared, was, entry)
    if old is not None:
        for declared in old.catalog.stored_types():
            removed = before.get(table_key_of(declared))
            if removed is not None:
                yield TypePair(declared, removed, None)


Mask = npt.NDArray[np.bool_]


def equal_rows(left: pa.Table, right: pa.Table) -> Mask:
    """Mask of the rows that are equal in every column of two tables of the same shape."""
    found = np.ones(left.num_rows, bool)
    for name in left.schema.names:
        found &= equal_cells(left[name], right[name])
    return found


def equal_cells(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    """Mask of the cells that are equal in two columns of one type."""
    return ~_differ(one_chunk(left), one_chunk(right))


def _differ(one: pa.Array, other: pa.Array) -> Mask:
    is_null, is_other_null = _mask(one.is_null()), _mask(other.is_null())
    found: Mask = is_null != is_other_null
    both = np.flatnonzero(~is_null & ~is_other_null)
    if len(both):
        found[both] = _values_differ(one.take(both), other.take(both))
    return found


def _values_differ(one: pa.Array, other: pa.Array) -> Mask:
    type = one.type
    if pa.types.is_list(type) or pa.types.is_fixed_size_list(type):
        return _lists_differ(one, other)
    if not pa.types.is_floating(type):
        return _mask(pc.not_equal(one, other))
    bits = pa.uint64() if type == pa.float64() else pa.uint32()
    both_unordered = pc.and_(pc.is_nan(one), pc.is_nan(other))
    return _mask(pc.and_not(pc.not_equal(one.view(bits), other.view(bits)), both_unordered))


def _lists_differ(one: pa.Array, other: pa.Array) -> Mask:
    lengths = pc.list_value_length(one)
    found = _mask(pc.not_equal(lengths, pc.list_value_length(other)))
    same_length = np.flatnonzero(~found)
    elements = one.take(same_length).flatten(), other.take(same_length).flatten()
    owners = np.repeat(same_length, lengths.to_numpy()[same_length])
    found[owners[_differ(*elements)]] = True
    return found


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False)
    # Arrow returns memory that may be read-only.
    return found.copy()


class DeltaSource(Protocol):
    """A source of the rows in which two table versions differ: a store, or rows read from one."""

    def schema(self, at: TableVersion) -> pa.Schema:
        """The columns of a version."""

    def scan(
        self, at: TableVersion, *, columns: Sequence[str], predicate: Predicate | None
    ) -> pa.Table:
        """All rows of a version if the predicate is None."""

    def find_delta(
        self, old: TableVersion, new: TableVersion, *, columns: Sequence[str]
    ) -> TableDelta:
        """The rows of `old` that are absent or at another location in `new`, and vice versa."""


@dataclass(frozen=True, slots=True)
class TypeChanges:
    """Rows grouped by kind of change, each group in the order of ids.

    `before` and `after` are the two versions of the updated rows, in the same order.
    """

    inserted: pa.Table
    before: pa.Table
    after: pa.Table
    deleted: pa.Table


def find_changes(
    old: Entry | None, new: Entry | None, declared: NodeType | EdgeType, tables: DeltaSource
) -> TypeChanges:
    """The changes from one state of a type to another; None is a state without the type."""
    schema = table_schema(declared)
    if old is None or new is None or old.path != new.path:
        removed, added = _scan(old, schema, tables), _scan(new, schema, tables)
    elif old.at == new.at:
        removed = added = schema.empty_table()
    else:
        delta = tables.find_delta(old.at, new.at, columns=schema.names)
        removed, added = delta.deleted, delta.added
    return compare_rows(declared, removed=removed, added=added)


def compare_rows(
    declared: NodeType | EdgeType, *, removed: pa.Table, added: pa.Table
) -> TypeChanges:
    """The changes, given the rows that left their location and the rows that appeared at theirs.

    For each id, all rows that are not at the same location in both states must be included.
    """
    schema = table_schema(declared)
    removed, added = (complete(rows, schema).sort_by("id") for rows in (removed, added))
    # An id occurs once in a version, so an id that appeared and did not disappear is new.
    place = pc.index_in(added["id"], value_set=removed["id"])
    is_known = place.is_valid()
    replaced = place.drop_null()
    before, after = removed.take(replaced), added.filter(is_known)
    changed = np.flatnonzero(~equal_rows(before, after))
    is_replaced = np.zeros(removed.num_rows, bool)
    is_replaced[replaced.to_numpy()] = True
    return TypeChanges(
        inserted=added.filter(pc.invert(is_known)),
        before=before.take(changed),
        after=after.take(changed),
        deleted=removed.filter(pa.array(~is_replaced)),
    )


def plan_changes(old: Entry | None, new: Entry | None, tables: TableReader) -> DeltaParts:
    """The rows to compare, in parts for other processes; no row is read."""
    if old is not None and new is not None and old.path == new.path:
        if old.at == new.at:
            return NO_DELTA
        before, after = (place_of(each.at, tables) for each in (old, new))
        return plan_delta(before, after, rows_max=SPARK_PART_ROWS_MAX)
    return DeltaParts(deleted=_take_all(old, tables), added=_take_all(new, tables))


def place_of(at: TableVersion, tables: TableReader) -> VersionLocation:
    """The location of a version, for other processes."""
    return VersionLocation(tables.folder(at.ref), at.version)


def _take_all(entry: Entry | None, tables: TableReader) -> tuple[DeltaPart, ...]:
    if entry is None:
        return ()
    parts = tables.parts(entry.at, rows_max=SPARK_PART_ROWS_MAX)
    return tuple(DeltaPart(each, None) for each in parts)


def _scan(entry: Entry | None, schema: pa.Schema, tables: DeltaSource) -> pa.Table:
    if entry is None:
        return schema.empty_table()
    stored = set(tables.schema(entry.at).names)
    columns = [name for name in schema.names if name in stored]
    return tables.scan(entry.at, columns=columns, predicate=None)


@dataclass(frozen=True, slots=True)
class Selection:
    """The changes that a caller selects."""

    names: frozenset[str] | None
    ops: frozenset[ChangeOp]

    def wants(self, declared: NodeType | EdgeType) -> bool:
        """Whether a type is selected, by its name or by its key."""
        names = self.names
        return names is None or not names.isdisjoint({declared.name, table_key_of(declared)})


def parse_selection(
    catalogs: Collection[Catalog], *, types: Collection[str] | None, ops: Collection[str] | None
) -> Selection:
    """Parse the names of types and kinds of changes; None selects all of them.

    Raises `NotFoundError` if none of the schemas has a type of that name.
    """
    names = None if types is None else frozenset(require_names(types, subject="types"))
    for name in names or ():
        _require_meant(name, catalogs)
    if ops is None:
        return Selection(names, frozenset(ChangeOp))
    kinds = require_names(ops, subject="ops")
    return Selection(names, frozenset(parse_word(ChangeOp, kind, subject="ops") for kind in kinds))


def _require_meant(name: str, catalogs: Collection[Catalog]) -> None:
    for catalog in catalogs:
        with suppress(NotFoundError):
            found = find_type(name, catalog) if ":" in name else None
            if found is None:
                select_types(catalog, [name])
            return
    select_types(next(iter(catalogs)), [name])


def diff(old: Basis | None, new: Basis, *, selection: Selection, tables: TableReader) -> ChangeSet:
    """The changes from one state to another; None is the state before the first commit."""
    reader = read_together(old, new, tables)
    parts = [
        put_in_order(
            each.declared,
            find_changes(each.old, each.new, each.declared, reader),
            selection.ops,
        )
        for each in list_pairs(old, new, selection)
    ]
    return ChangeSet(
        parts, old_commit_id=None if old is None else old.head.id, new_commit_id=new.head.id
    )


def list_pairs(old: Basis | None, new: Basis, selection: Selection) -> list[TypePair]:
    """The types to compare, in the order of a diff."""
    pairs = [each for each in pair_types(old, new) if selection.wants(each.declared)]
    pairs.sort(key=lambda each: (each.declared.kind is TypeKind.EDGE, each.declared.name))
    return pairs


def is_large_diff(pairs: Iterable[TypePair], tables: TableReader) -> bool:
    """Whether there are more rows to compare than one process should hold."""
    changed = [each for each in pairs if not each.is_unchanged]
    if sum(each.row_count for each in changed) <= DIFF_INLINE_ROWS_MAX:
        return False
    plans = (plan_changes(each.old, each.new, tables) for each in changed)
    return sum(each.row_count for each in plans) > DIFF_INLINE_ROWS_MAX


def put_in_order(
    declared: NodeType | EdgeType, changes: TypeChanges, ops: frozenset[ChangeOp]
) -> ChangedRows:
    """The changes of the selected kinds as one sequence by id."""
    inserted, deleted = changes.inserted, changes.deleted
    sorts = [
        (ChangeOp.INSERT, _absent(inserted), inserted),
        (ChangeOp.UPDATE, changes.before, changes.after),
        (ChangeOp.DELETE, deleted, _absent(deleted)),
    ]
    chosen = [each for each in sorts if each[0] in ops]
    counts = [after.num_rows for _, _, after in chosen]
    names = np.repeat(np.array([op.value for op, _, _ in chosen], object), counts)
    before = pa.concat_tables([before for _, before, _ in chosen] or [inserted.slice(0, 0)])
    after = pa.concat_tables([after for _, _, after in chosen] or [inserted.slice(0, 0)])
    order = pc.sort_indices(pc.coalesce(after["id"], before["id"]))
    return ChangedRows(
        declared=declared,
        ops=pa.array(names, pa.string()).take(order),
        before=before.take(order),
        after=after.take(order),
    )


def _absent(rows: pa.Table) -> pa.Table:
    """The same number of rows, all null."""
    return pa.table([pa.nulls(rows.num_rows, each.type) for each in rows.schema], rows.schema)
