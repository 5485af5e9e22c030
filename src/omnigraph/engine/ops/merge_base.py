"""The base of a merge: the state that both sides are measured from.

Usually one commit. Two branches that took from each other by different ways have several last
commits in common, and then no single one will do: what one side took from another base would look
new, and a row that the other side has removed since would come back. Their base is all of these
merged, worked out for what changed only; where they contradict each other, the first one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.images import (
    Images,
    Sides,
    changed_ids,
    find_difference,
    keep_rows,
)
from omnigraph.engine.ops.reconcile import Granularity, no_decisions, reconcile
from omnigraph.engine.ops.type_changes import TypeChanges, find_changes
from omnigraph.engine.state.snapshot import Entry, Snapshot, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.storage.ports import TableStore


@dataclass(frozen=True, slots=True)
class Beside:
    """Another last commit in common, and the state from which it and the first one parted."""

    snapshot: Snapshot
    parting: Snapshot


@dataclass(frozen=True, slots=True)
class MergeBase:
    """What both sides have in common."""

    first: Snapshot
    beside: tuple[Beside, ...]

    def find_changes(
        self, to: Entry | None, *, declared: NodeType | EdgeType, tables: TableStore
    ) -> TypeChanges:
        """What leads from the base to a state of a type."""
        start = self.first.entries.get(table_key_of(declared))
        changes = find_changes(start, to, declared=declared, tables=tables)
        if not self.beside:
            return changes
        taken = [_find_taken(self.first, each, declared, tables) for each in self.beside]
        return find_difference(reduce(_add, taken), changes)


def _add(earlier: TypeChanges, later: TypeChanges) -> TypeChanges:
    """Changes of one base together; an id that both have follows the earlier."""
    known = changed_ids(earlier)
    return TypeChanges(
        inserted=_join(earlier.inserted, keep_rows(later.inserted, known)),
        before=_join(earlier.before, keep_rows(later.before, known)),
        after=_join(earlier.after, keep_rows(later.after, known)),
        deleted=_join(earlier.deleted, keep_rows(later.deleted, known)),
    )


def _join(above: pa.Table, below: pa.Table) -> pa.Table:
    return pa.concat_tables([above, below])


def _find_taken(
    first: Snapshot, beside: Beside, declared: NodeType | EdgeType, tables: TableStore
) -> TypeChanges:
    """What the first base lacks of another one."""
    key = table_key_of(declared)
    parting, start, end = (
        each.entries.get(key) for each in (beside.parting, first, beside.snapshot)
    )
    sides = Sides(
        source=find_changes(parting, end, declared=declared, tables=tables),
        target=find_changes(parting, start, declared=declared, tables=tables),
    )
    taken = reconcile(
        declared,
        source=sides.source,
        target=sides.target,
        granularity=Granularity.PROPERTY,
        decisions=no_decisions(declared),
    )
    before = Images.of(taken.put["id"].combine_chunks(), sides).target
    is_known = before["id"].is_valid()
    return TypeChanges(
        inserted=taken.put.filter(pc.invert(is_known)),
        before=before.filter(is_known),
        after=taken.put.filter(is_known),
        deleted=Images.of(taken.removed, sides).target,
    )
