"""Three-way comparison of the rows of one type: changes of source and target since their base.

A row that one side changed follows that side; equal changes agree; different changes of one row
are a conflict. The caller can resolve a conflict, or merge changes of different properties. All
functions are pure and work on Arrow tables, and the cost depends only on the changed rows. The
module does not know which commits the rows come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.violations import without
from omnigraph.engine.ops.diff import Mask, TypeChanges, equal_cells, equal_rows
from omnigraph.engine.rows.json_rows import encode_entity
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import Conflict, ConflictKind, InvalidValueError, show_text
from omnigraph.storage.row_files import table_schema

_ENDS = ("src", "dst")


@dataclass(frozen=True, slots=True)
class Sides:
    """The changes of two sides since their base."""

    source: TypeChanges
    target: TypeChanges

    @property
    def source_ids(self) -> pa.Array:
        """The ids that the source changed."""
        return changed_ids(self.source)

    @property
    def target_ids(self) -> pa.Array:
        """The ids that the target changed."""
        return changed_ids(self.target)

    @property
    def base_rows(self) -> pa.Table:
        """The rows of the base that either side changed, possibly with duplicates."""
        sides = (self.source, self.target)
        return pa.concat_tables([part for each in sides for part in (each.before, each.deleted)])


@dataclass(frozen=True, slots=True)
class RowVersions:
    """The versions of the same entities in three states, row by row.

    An entity that does not exist in a state is a row of nulls; such rows are equal to each other.
    """

    ids: pa.Array
    base: pa.Table
    source: pa.Table
    target: pa.Table

    @staticmethod
    def of(ids: pa.Array, sides: Sides) -> RowVersions:
        """The row versions of entities that at least one side changed."""
        base = sides.base_rows
        states = (base, _state_of(sides.source, base), _state_of(sides.target, base))
        found = (
            rows.take(pc.index_in(ids, value_set=rows["id"].combine_chunks())) for rows in states
        )
        return RowVersions(ids, *found)

    @property
    def exist_everywhere(self) -> Mask:
        """Mask of the entities that exist in all three states."""
        states = (self.base, self.source, self.target)
        found: Mask = np.logical_and.reduce([each["id"].is_valid().to_numpy() for each in states])
        return found

    def filter(self, mask: Mask) -> RowVersions:
        """The entities that the mask selects."""
        keep = pa.array(mask)
        return RowVersions(
            self.ids.filter(keep),
            self.base.filter(keep),
            self.source.filter(keep),
            self.target.filter(keep),
        )


def find_difference(one: TypeChanges, other: TypeChanges) -> TypeChanges:
    """The changes from the result of `one` to that of `other`; both start at the same base."""
    sides = Sides(one, other)
    versions = RowVersions.of(pc.unique(join_ids([sides.source_ids, sides.target_ids])), sides)
    return list_changes(versions.source, versions.target)


def list_changes(old: pa.Table, new: pa.Table) -> TypeChanges:
    """The changes between two aligned tables of rows; an absent row is a row of nulls."""
    is_changed = pa.array(~equal_rows(old, new))
    old, new = old.filter(is_changed), new.filter(is_changed)
    was, is_there = old["id"].is_valid(), new["id"].is_valid()
    is_update = pc.and_(was, is_there)
    return TypeChanges(
        inserted=new.filter(pc.invert(was)),
        before=old.filter(is_update),
        after=new.filter(is_update),
        deleted=old.filter(pc.invert(is_there)),
    )


def add_changes(earlier: TypeChanges, later: TypeChanges) -> TypeChanges:
    """The composition of two successive changes."""
    back = TypeChanges(
        inserted=earlier.deleted,
        before=earlier.after,
        after=earlier.before,
        deleted=earlier.inserted,
    )
    return find_difference(back, later)


def differing_cells(
    declared: NodeType | EdgeType, one: pa.Table, other: pa.Table
) -> dict[str, Mask]:
    """Masks of the cells that differ between two tables, by column.

    The two endpoints of an edge count as one value.
    """
    found = {name: ~equal_cells(one[name], other[name]) for name in one.column_names}
    if isinstance(declared, EdgeType):
        # The endpoints of an edge are one fact: one endpoint of each side would be an edge of
        # neither.
        found |= dict.fromkeys(_ENDS, found[_ENDS[0]] | found[_ENDS[1]])
    return found


def choose_cells(one: pa.ChunkedArray, other: pa.ChunkedArray, is_one: Mask) -> pa.ChunkedArray:
    """A column with the cells of one column where the mask is true, and of another elsewhere."""
    both = pa.chunked_array([*one.chunks, *other.chunks], one.type)
    rows = np.arange(len(one))
    return both.take(pa.array(np.where(is_one, rows, rows + len(one))))


def changed_ids(changes: TypeChanges) -> pa.Array:
    """The ids that were inserted, updated or deleted, without duplicates."""
    return join_ids([changes.inserted["id"], changes.after["id"], changes.deleted["id"]])


def _state_of(changes: TypeChanges, base: pa.Table) -> pa.Table:
    """The rows of one side among those that either side changed."""
    unchanged = keep_rows(base, changed_ids(changes))
    return pa.concat_tables([changes.inserted, changes.after, unchanged])


def keep_rows(rows: pa.Table, aside: pa.Array) -> pa.Table:
    """The rows whose ids are not in `aside`."""
    if not (rows.num_rows and len(aside)):
        return rows
    return rows.filter(pc.invert(pc.is_in(rows["id"], value_set=aside)))


def join_ids(parts: Iterable[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """The ids of multiple columns as one array."""
    chunks = [
        chunk
        for part in parts
        for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])
    ]
    return pa.chunked_array(chunks, pa.string()).combine_chunks()


def among(ids: pa.Array, others: pa.Array) -> pa.Array:
    """The ids that are also in `others`."""
    return ids.filter(pc.is_in(ids, value_set=others))


class Granularity(StrEnum):
    """The unit that two sides may change independently: whole rows, or properties of a row."""

    ROW = "row"
    PROPERTY = "property"


@dataclass(frozen=True, slots=True)
class Decisions:
    """The caller's decisions about entities of one type: a side, or a row."""

    from_source: pa.Array
    from_target: pa.Array
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The changes to the target: rows to put, ids to remove, and unresolved conflicts.

    Rows in conflict stay as they are in the target. With `is_adding`, no put row replaces an
    existing one. `put` and `removed` are concatenations of sequences ordered by id; `put_sizes` and
    `removed_sizes` are the lengths of the sequences.
    """

    put: pa.Table
    put_sizes: tuple[int, ...]
    removed: pa.Array
    removed_sizes: tuple[int, ...]
    is_adding: bool
    conflicts: tuple[Conflict, ...]


def no_decisions(declared: NodeType | EdgeType) -> Decisions:
    """No decisions about a type."""
    no_ids = pa.array([], pa.string())
    return Decisions(no_ids, no_ids, table_schema(declared).empty_table())


def reconcile(
    declared: NodeType | EdgeType,
    *,
    source: TypeChanges,
    target: TypeChanges,
    granularity: Granularity,
    decisions: Decisions,
) -> Reconciled:
    """The changes that bring the target to the merged state, where the sides do not conflict.

    Raises `InvalidValueError` for a decision about an entity that neither side changed.
    """
    sides = Sides(source, target)
    decided = join_ids([decisions.from_source, decisions.from_target, decisions.rows["id"]])
    _require_changed(declared, decided, sides)
    shared = among(sides.source_ids, sides.target_ids)
    free = without(shared, decided)
    aside = join_ids([shared, decided])

    versions = RowVersions.of(free, sides)
    versions = versions.filter(~equal_rows(versions.source, versions.target))
    if granularity is Granularity.PROPERTY:
        merged, versions = _merge_properties(declared, versions)
    else:
        merged = versions.source.slice(0, 0)
    adopted, dropped = _follow_source(RowVersions.of(decisions.from_source, sides))
    chosen = RowVersions.of(decisions.rows["id"].combine_chunks(), sides)
    replaced = keep_rows(source.after, aside)
    put = [keep_rows(source.inserted, aside), replaced, merged, adopted, decisions.rows]
    removed = [without(source.deleted["id"], aside), dropped]
    return Reconciled(
        put=pa.concat_tables(put),
        put_sizes=tuple(each.num_rows for each in put),
        removed=join_ids(removed),
        removed_sizes=tuple(map(len, removed)),
        is_adding=not (
            replaced.num_rows
            or merged.num_rows
            # There are few of these, decided by the user, so it is not worthwhile to distinguish
            # them.
            or adopted.num_rows
            or chosen.target["id"].null_count < chosen.target.num_rows
        ),
        conflicts=tuple(_find_conflicts(declared, versions)),
    )


def _follow_source(versions: RowVersions) -> tuple[pa.Table, pa.Array]:
    """The changes that give the target the source's row versions: rows to put, ids to remove."""
    versions = versions.filter(~equal_rows(versions.source, versions.target))
    is_deleted = versions.source["id"].is_null().combine_chunks()
    return versions.source.filter(pc.invert(is_deleted)), versions.ids.filter(is_deleted)


def _merge_properties(
    declared: NodeType | EdgeType, versions: RowVersions
) -> tuple[pa.Table, RowVersions]:
    """The merged rows in which the sides changed different properties, and the remaining rows."""
    by_source = differing_cells(declared, versions.base, versions.source)
    by_target = differing_cells(declared, versions.base, versions.target)
    clashes = ~versions.exist_everywhere
    columns = []
    for name in versions.source.column_names:
        mine, theirs = versions.source[name], versions.target[name]
        clashes |= by_source[name] & by_target[name] & ~equal_cells(mine, theirs)
        columns.append(choose_cells(mine, theirs, by_source[name]))
    merged = pa.table(columns, schema=versions.source.schema)
    # A row to which the source contributes nothing is already correct in the target.
    is_due = ~clashes & ~equal_rows(merged, versions.target)
    return merged.filter(pa.array(is_due)), versions.filter(clashes)


def _require_changed(declared: NodeType | EdgeType, decided: pa.Array, sides: Sides) -> None:
    unknown = without(without(decided, sides.source_ids), sides.target_ids)
    if len(unknown):
        id = unknown[0].as_py()
        advice = "leave it out"
        if isinstance(declared, EdgeType):
            advice += "; a cardinality is resolved by decisions about edges, by their ids"
        raise InvalidValueError(
            subject="resolve",
            expected="an entity in conflict",
            value=(declared.name, id),
            problem=f"neither side changed {declared.name} {show_text(id)}, so there is nothing "
            f"to decide; {advice}",
        )


# Conflicts


def _find_conflicts(declared: NodeType | EdgeType, versions: RowVersions) -> Iterator[Conflict]:
    """One conflict for each entity, by id."""
    columns = versions.source.column_names
    is_equal = {name: equal_cells(versions.source[name], versions.target[name]) for name in columns}
    for row in pc.sort_indices(versions.ids).to_pylist():
        base, source, target = (
            encode_entity(declared, each.slice(row, 1)) if each["id"][row].is_valid else None
            for each in (versions.base, versions.source, versions.target)
        )
        names = ", ".join(name for name in columns if not is_equal[name][row])
        if source is None:
            kind = ConflictKind.DELETE_VS_UPDATE
            problem = "the source removed it, the target changed it"
        elif target is None:
            kind = ConflictKind.DELETE_VS_UPDATE
            problem = "the source changed it, the target removed it"
        elif base is None:
            kind = ConflictKind.DIVERGENT_INSERT
            problem = f"both sides added it, with different {names}"
        else:
            kind = ConflictKind.DIVERGENT_UPDATE
            problem = f"both sides changed it, with different {names}"
        id = versions.ids[row].as_py()
        yield Conflict(
            type=declared.name,
            id=id,
            kind=kind,
            message=f"{declared.name} {show_text(id)}: {problem}",
            base=base,
            source=source,
            target=target,
        )
