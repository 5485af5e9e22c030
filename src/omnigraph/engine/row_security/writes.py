"""Row-level security of writes: what a restricted caller may write, and redacted errors.

A caller that sees only a part of a branch may add new rows and nothing else. An operation that
matches or replaces rows would reveal rows that the caller does not see, or change them unseen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pyarrow as pa

from omnigraph.compiler.ir import Insert, MutationIR
from omnigraph.engine.commit.prepared_write import TableChange
from omnigraph.engine.input.batches import RowBatch
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import get_type, make_table_key, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import (
    Conflict,
    ConflictKind,
    ForbiddenError,
    IntegrityError,
    KeyConflictError,
    Violation,
    show_text,
)
from omnigraph.storage.row_files import table_schema


def require_inserts(ir: MutationIR, *, actor: str | None) -> None:
    """Raise `ForbiddenError` if a mutation does anything but insert."""
    for operation in ir.operations:
        if not isinstance(operation, Insert):
            raise ForbiddenError(
                actor=actor,
                action=f"{type(operation).__name__.lower()} rows",
                reason="the policy restricts the rows they see, and only inserts match no rows",
            )


def require_insertable(
    ir: MutationIR, *, catalog: Catalog, seen: Catalog, actor: str | None
) -> None:
    """Raise `ForbiddenError` if an inserted row needs a property that the caller does not see."""
    for operation in ir.operations:
        if isinstance(operation, Insert):
            key = make_table_key(operation.kind, operation.type_name)
            given = {each.property for each in operation.assignments}
            _require_seen(get_type(key, catalog), get_type(key, seen), given=given, actor=actor)


def require_new_rows(changes: Mapping[str, TableChange], *, committed: SnapshotRows) -> None:
    """Raise `KeyConflictError` if a row would replace an existing one."""
    for table_key, change in changes.items():
        ids = change.put["id"].combine_chunks()
        known: pa.Array = committed.find_ids(table_key, ids)
        if len(known):
            raise KeyConflictError(type=change.type.name, id=known[0].as_py())


def complete(piece: RowBatch, *, catalog: Catalog, actor: str | None) -> RowBatch:
    """Rows that were read by the visible part of a schema, with the hidden properties as nulls.

    Raises `ForbiddenError` if a hidden property is required.
    """
    declared = get_type(table_key_of(piece.declared), catalog)
    hidden = declared.properties.keys() - piece.declared.properties.keys()
    if not hidden:
        return piece
    _require_seen(declared, piece.declared, given=(), actor=actor)
    columns = [
        pa.nulls(piece.rows.num_rows, field.type)
        if field.name in hidden
        else piece.rows[field.name]
        for field in table_schema(declared)
    ]
    rows = pa.Table.from_arrays(columns, schema=table_schema(declared))
    return RowBatch(declared, rows, piece.origin)


def _require_seen(
    declared: NodeType | EdgeType,
    seen: NodeType | EdgeType,
    *,
    given: Collection[str],
    actor: str | None,
) -> None:
    """Raise `ForbiddenError` if rows need a hidden property that is not embedded from `given`."""
    hidden = (each for name, each in declared.properties.items() if name not in seen.properties)
    if any(
        not each.type.is_nullable and (each.embedding is None or each.embedding.source not in given)
        for each in hidden
    ):
        raise ForbiddenError(
            actor=actor,
            action=f"add rows of {declared.name}",
            reason="they have a required property that the policy hides",
        )


def without_others(error: IntegrityError) -> IntegrityError:
    """An integrity error without the rows, and the numbers of rows, that others have written."""
    shown = [_forget(each) for each in error.violations]
    return IntegrityError(violations=shown, count=error.count)


def without_unseen(conflict: Conflict, *, sees_source: bool, sees_target: bool) -> Conflict:
    """A conflict with only the visible row versions and a general message."""
    if sees_source and sees_target:
        return conflict
    return replace(
        conflict,
        message=_say_in_general(conflict),
        base=None,
        source=conflict.source if sees_source else None,
        target=conflict.target if sees_target else None,
    )


def _say_in_general(conflict: Conflict) -> str:
    type_name, id = conflict.type, show_text(conflict.id)
    match conflict.kind:
        case ConflictKind.UNIQUE_VIOLATION:
            return _say_shared(type_name, id)
        case ConflictKind.CARDINALITY_VIOLATION:
            return _say_miscounted(type_name, id)
        case ConflictKind.DIVERGENT_INSERT:
            return f"{type_name} {id}: both sides added it, with different values"
        case ConflictKind.DIVERGENT_UPDATE:
            return f"{type_name} {id}: both sides changed it, to different values"
        case ConflictKind.DELETE_VS_UPDATE:
            return f"{type_name} {id}: one side deleted it, the other changed it"
        case _:
            return f"{type_name} {id}: the two sides together break a rule"


def _say_shared(type_name: str, id: str) -> str:
    return f"@unique violation on {type_name} {id}: another one has these values"


def _say_miscounted(type_name: str, id: str) -> str:
    return f"@card violation on edge {type_name}: source {id} has too few or too many"


def _forget(violation: Violation) -> Violation:
    type_name, id = violation.type, show_text(violation.id)
    match violation.rule:
        case "unique":
            return replace(violation, message=_say_shared(type_name, id))
        case "cardinality":
            return replace(violation, value=None, message=_say_miscounted(type_name, id))
        case _:
            return violation


def without_rows(commit: Commit) -> Commit:
    """A commit without the rows that a merge decided about and without its recorded response."""
    return replace(commit, notes=replace(commit.notes, resolutions=(), request=None, names=None))
