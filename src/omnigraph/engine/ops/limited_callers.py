"""What somebody who sees only a part of a branch may write, and what they are told of others.

They may write rows that are new, and nothing else: whatever looks for rows, or takes the place of
some, would tell of rows that they do not see, or change them unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from omnigraph.compiler.ir import Insert, MutationIR
from omnigraph.engine.commit.changes import TableChange
from omnigraph.engine.commit.integrity.violations import show_text
from omnigraph.engine.ops.reading.pieces import Piece
from omnigraph.engine.ops.reading.type_names import get_type
from omnigraph.engine.ops.reconcile import ConflictKind
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import (
    Conflict,
    ForbiddenError,
    IntegrityError,
    KeyConflictError,
    Violation,
)
from omnigraph.storage.arrow_schema import table_schema


def require_inserts(ir: MutationIR, *, actor: str | None) -> None:
    """Raise if a mutation does anything but insert."""
    for operation in ir.operations:
        if not isinstance(operation, Insert):
            raise ForbiddenError(
                actor=actor,
                action=f"{type(operation).__name__.lower()} rows",
                reason="the policy limits what they see, and only inserts match no rows",
            )


def require_new_rows(changes: Mapping[str, TableChange], *, committed: SnapshotRows) -> None:
    """Raise `KeyConflictError` if a row would take the place of one that is there."""
    for table_key, change in changes.items():
        ids = change.put["id"].combine_chunks()
        known: pa.Array = committed.find_ids(table_key, ids)
        if len(known):
            raise KeyConflictError(type=change.type.name, id=known[0].as_py())


def complete(piece: Piece, *, catalog: Catalog, actor: str | None) -> Piece:
    """Rows that were read by the part of a schema that is seen, with the rest of it as nulls."""
    declared = get_type(table_key_of(piece.declared), catalog)
    hidden = declared.properties.keys() - piece.declared.properties.keys()
    if not hidden:
        return piece
    if any(not declared.properties[name].type.is_nullable for name in hidden):
        raise ForbiddenError(
            actor=actor,
            action=f"add rows of {declared.name}",
            reason="they have a required property that the policy hides",
        )
    columns = [
        pa.nulls(piece.rows.num_rows, field.type)
        if field.name in hidden
        else piece.rows[field.name]
        for field in table_schema(declared)
    ]
    rows = pa.Table.from_arrays(columns, schema=table_schema(declared))
    return Piece(declared, rows, piece.origin)


def without_others(error: IntegrityError) -> IntegrityError:
    """What refuses a write, without any row or number of rows that others have written."""
    shown = [_forget(each) for each in error.violations]
    return IntegrityError(violations=shown, count=error.count)


def without_unseen(conflict: Conflict, *, sees_source: bool, sees_target: bool) -> Conflict:
    """A conflict with the images of those sides that are seen alone, told in general."""
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
    """A commit that tells neither which rows somebody decided about nor what they were told."""
    return replace(commit, notes=replace(commit.notes, resolutions=(), request=None))
