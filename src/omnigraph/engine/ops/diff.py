"""Diffs: what changed in the types of a graph from one snapshot to another, net and in one order.

Types are compared as the newer state's schema declares them, and are the same where their rows are.
A type whose rows are where they were costs nothing; any other costs what was written to it in
between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.changes import ChangedRows, ChangeOp, ChangeSet
from omnigraph.engine.ops.export import select_types
from omnigraph.engine.ops.reading.type_names import find_type
from omnigraph.engine.ops.type_changes import TypeChanges, find_changes, plan_changes
from omnigraph.engine.ops.type_pairs import TypePair, pair_types
from omnigraph.engine.read.permitted import read_together
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.arguments import require_names
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import InvalidValueError, NotFoundError
from omnigraph.model.limits import DIFF_INLINE_ROWS_MAX
from omnigraph.storage.ports import TableStore


@dataclass(frozen=True, slots=True)
class Selection:
    """Which changes a caller wants to see."""

    names: frozenset[str] | None
    ops: frozenset[ChangeOp]

    def wants(self, declared: NodeType | EdgeType) -> bool:
        """Whether a type is among those that were named, by its name or by its key."""
        names = self.names
        return names is None or not names.isdisjoint({declared.name, table_key_of(declared)})


def parse_selection(
    catalogs: Collection[Catalog], *, types: Collection[str] | None, ops: Collection[str] | None
) -> Selection:
    """The types and sorts of change that names mean; None is all of them.

    `NotFoundError` means that none of the schemas has such a type.
    """
    names = None if types is None else frozenset(require_names(types, subject="types"))
    for name in names or ():
        _require_meant(name, catalogs)
    wanted = ChangeOp if ops is None else map(_parse_op, require_names(ops, subject="ops"))
    return Selection(names, frozenset(wanted))


def _require_meant(name: str, catalogs: Collection[Catalog]) -> None:
    for catalog in catalogs:
        with suppress(NotFoundError):
            found = find_type(name, catalog) if ":" in name else None
            if found is None:
                select_types(catalog, [name])
            return
    select_types(next(iter(catalogs)), [name])


def diff(old: Basis | None, new: Basis, *, selection: Selection, tables: TableStore) -> ChangeSet:
    """What changed from one state to another; None is the state before the first commit."""
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
    """The types that are compared, in the order of a diff."""
    pairs = [each for each in pair_types(old, new) if selection.wants(each.declared)]
    pairs.sort(key=lambda each: (each.declared.kind is TypeKind.EDGE, each.declared.name))
    return pairs


def is_large_diff(pairs: Iterable[TypePair], tables: TableStore) -> bool:
    """Whether there are more rows to compare than one process should hold."""
    changed = [each for each in pairs if not each.is_unchanged]
    if sum(each.row_count for each in changed) <= DIFF_INLINE_ROWS_MAX:
        return False
    plans = (plan_changes(each.old, each.new, tables) for each in changed)
    return sum(each.row_count for each in plans) > DIFF_INLINE_ROWS_MAX


def put_in_order(
    declared: NodeType | EdgeType, changes: TypeChanges, ops: frozenset[ChangeOp]
) -> ChangedRows:
    """The changes of some sorts as one sequence by id."""
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
    """As many rows of nulls."""
    return pa.table([pa.nulls(rows.num_rows, each.type) for each in rows.schema], rows.schema)


def _parse_op(name: str) -> ChangeOp:
    try:
        return ChangeOp(name)
    except ValueError as error:
        raise InvalidValueError(
            subject="ops",
            expected="insert, update or delete",
            value=name,
            problem=f"{name!r} is neither insert, update nor delete",
        ) from error
