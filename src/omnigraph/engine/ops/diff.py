"""Diffs: what changed in the types of a graph from one snapshot to another, net and in one order.

Types are compared as the accepted schema declares them. A type whose rows are where they were
costs nothing; any other costs what was written to it in between.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.changes import ChangedRows, ChangeOp, ChangeSet
from omnigraph.engine.ops.export import select_types
from omnigraph.engine.ops.type_changes import TypeChanges, find_changes
from omnigraph.engine.settings import require_text
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import InvalidValueError
from omnigraph.storage.ports import TableStore


@dataclass(frozen=True, slots=True)
class Selection:
    """Which changes a caller wants to see."""

    types: tuple[NodeType | EdgeType, ...]
    ops: frozenset[ChangeOp]


def parse_selection(
    catalog: Catalog, *, types: Collection[str] | None, ops: Collection[str] | None
) -> Selection:
    """The types and sorts of change that names mean; None is all of them."""
    chosen = select_types(catalog, None if types is None else _require_names(types, "types"))
    nodes_first = sorted(
        {table_key_of(each): each for each in chosen}.values(),
        key=lambda each: (each.kind is TypeKind.EDGE, each.name),
    )
    wanted = ChangeOp if ops is None else map(_parse_op, _require_names(ops, "ops"))
    return Selection(tuple(nodes_first), frozenset(wanted))


def diff(
    old: ManifestState | None, new: ManifestState, *, selection: Selection, tables: TableStore
) -> ChangeSet:
    """What changed from one state to another; None is the state before the first commit."""
    before = {} if old is None else old.snapshot.entries
    after = new.snapshot.entries
    parts = []
    for declared in selection.types:
        key = table_key_of(declared)
        changes = find_changes(before.get(key), after.get(key), declared, tables)
        parts.append(_put_in_order(declared, changes, selection.ops))
    return ChangeSet(
        parts, old_commit_id=None if old is None else old.head.id, new_commit_id=new.head.id
    )


def _put_in_order(
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


def _require_names(given: Collection[str], subject: str) -> list[str]:
    if isinstance(given, str):
        raise InvalidValueError(
            subject=subject,
            expected="several names",
            value=given,
            problem=f"a list of names is needed, such as [{given!r}]",
        )
    for name in given:
        require_text(name, subject=subject)
    return list(given)


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
