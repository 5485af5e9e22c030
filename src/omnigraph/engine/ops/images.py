"""The same entities in several states, side by side: what merging compares.

Pure, over Arrow. Two sets of net changes since one base hold every image of every entity that
either of them touched; which states they lead to is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.row_equality import Mask, equal_cells, equal_rows
from omnigraph.engine.ops.type_changes import TypeChanges
from omnigraph.model.catalog import EdgeType, NodeType

_ENDS = ("src", "dst")


@dataclass(frozen=True, slots=True)
class Sides:
    """What two sides did since a base."""

    source: TypeChanges
    target: TypeChanges

    @property
    def source_ids(self) -> pa.Array:
        """What the source changed."""
        return changed_ids(self.source)

    @property
    def target_ids(self) -> pa.Array:
        """What the target changed."""
        return changed_ids(self.target)

    @property
    def base_rows(self) -> pa.Table:
        """The rows of the base that either side changed; some twice."""
        sides = (self.source, self.target)
        return pa.concat_tables([part for each in sides for part in (each.before, each.deleted)])


@dataclass(frozen=True, slots=True)
class Images:
    """The same entities in three states, row by row; an absent one is a row of nulls, which
    equals every other."""

    ids: pa.Array
    base: pa.Table
    source: pa.Table
    target: pa.Table

    @staticmethod
    def of(ids: pa.Array, sides: Sides) -> Images:
        """The images of entities that at least one side changed."""
        base = sides.base_rows
        return Images(
            ids,
            _look_up(ids, base),
            _look_up(ids, _state_of(sides.source, base)),
            _look_up(ids, _state_of(sides.target, base)),
        )

    def filter(self, mask: Mask) -> Images:
        """Those that the mask marks."""
        keep = pa.array(mask)
        return Images(
            self.ids.filter(keep),
            self.base.filter(keep),
            self.source.filter(keep),
            self.target.filter(keep),
        )


def find_difference(one: TypeChanges, other: TypeChanges) -> TypeChanges:
    """What leads from where some changes end to where others end that began at the same base."""
    sides = Sides(one, other)
    images = Images.of(pc.unique(join_ids([sides.source_ids, sides.target_ids])), sides)
    return list_changes(images.source, images.target)


def list_changes(old: pa.Table, new: pa.Table) -> TypeChanges:
    """What leads from some rows to others, side by side; an absent one is a row of nulls."""
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
    """What leads from where some changes begin to where others end that began at their end."""
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
    """Which cells of two rows differ, by column; the two ends of an edge are one."""
    found = {name: ~equal_cells(one[name], other[name]) for name in one.column_names}
    if isinstance(declared, EdgeType):
        # Where an edge starts and ends is one fact: half of each side's would be nobody's edge.
        found |= dict.fromkeys(_ENDS, found[_ENDS[0]] | found[_ENDS[1]])
    return found


def choose_cells(one: pa.ChunkedArray, other: pa.ChunkedArray, is_one: Mask) -> pa.ChunkedArray:
    """A column of the cells of one where the mask says so, else of those of another."""
    both = pa.chunked_array([*one.chunks, *other.chunks], one.type)
    rows = np.arange(len(one))
    return both.take(pa.array(np.where(is_one, rows, rows + len(one))))


def changed_ids(changes: TypeChanges) -> pa.Array:
    """The ids that were added, changed or removed, each once."""
    return join_ids([changes.inserted["id"], changes.after["id"], changes.deleted["id"]])


def _state_of(changes: TypeChanges, base: pa.Table) -> pa.Table:
    """The rows of one side among those that either changed."""
    unchanged = keep_rows(base, changed_ids(changes))
    return pa.concat_tables([changes.inserted, changes.after, unchanged])


def _look_up(ids: pa.Array, rows: pa.Table) -> pa.Table:
    return rows.take(pc.index_in(ids, value_set=rows["id"].combine_chunks()))


def keep_rows(rows: pa.Table, aside: pa.Array) -> pa.Table:
    """The rows whose ids are not set aside."""
    if not (rows.num_rows and len(aside)):
        return rows
    return rows.filter(pc.invert(pc.is_in(rows["id"], value_set=aside)))


def join_ids(parts: Iterable[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """Ids from several columns in one."""
    chunks = [
        chunk
        for part in parts
        for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])
    ]
    return pa.chunked_array(chunks, pa.string()).combine_chunks()


def among(ids: pa.Array, others: pa.Array) -> pa.Array:
    """The ids that are also others."""
    return ids.filter(pc.is_in(ids, value_set=others))
