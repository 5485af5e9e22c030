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
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.state.history import Commit
from omnigraph.model.errors import (
    ForbiddenError,
    GraphError,
    IntegrityError,
    KeyConflictError,
    MergeConflictError,
    Violation,
)


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


def without_others(error: IntegrityError | MergeConflictError) -> GraphError:
    """What refuses a write, without any row or number of rows that others have written."""
    match error:
        case MergeConflictError(conflicts=conflicts):
            shown = [replace(each, base=None, target=None) for each in conflicts]
            return MergeConflictError(conflicts=shown)
        case IntegrityError(violations=violations, count=count):
            return IntegrityError(violations=[_forget(each) for each in violations], count=count)


def _forget(violation: Violation) -> Violation:
    type_name, id = violation.type, show_text(violation.id)
    match violation.rule:
        case "unique":
            message = f"@unique violation on {type_name} {id}: another one has these values"
            return replace(violation, message=message)
        case "cardinality":
            message = f"@card violation on edge {type_name}: source {id} has too few or too many"
            return replace(violation, value=None, message=message)
        case _:
            return violation


def without_rows(commit: Commit) -> Commit:
    """A commit that tells neither which rows somebody decided about nor what they were told."""
    return replace(commit, notes=replace(commit.notes, resolutions=(), request=None))
