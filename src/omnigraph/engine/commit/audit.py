"""The audit of recoveries: one row for each write that was finished, undone or discarded.

A Lance table beside the others, made by the first recovery; nothing reads it to decide anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import orjson
import pyarrow as pa

from omnigraph.model.errors import (
    AlreadyExistsError,
    ExpectedVersionMismatchError,
    UnavailableError,
    UnexpectedBaseError,
)
from omnigraph.model.limits import AUDIT_ATTEMPTS_MAX
from omnigraph.model.observer import Event
from omnigraph.storage.lance_literals import render_in
from omnigraph.storage.ports import TableRef, TableStore, TableVersion

AUDIT_PATH = "_graph_commit_recoveries.lance"

_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("recovery_for_actor", pa.string()),
        pa.field("operation_id", pa.string(), nullable=False),
        pa.field("sidecar_writer_kind", pa.string(), nullable=False),
        pa.field("per_table_outcomes_json", pa.string(), nullable=False),
        pa.field("created_at", pa.timestamp("us", "UTC"), nullable=False),
    ]
)


class RecoveryKind(StrEnum):
    """How a write that had stopped half-way was ended."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    ORPHANED_BRANCH_DISCARDED = "OrphanedBranchDiscarded"
    EMPTY_INTENT_DISCARDED = "EmptyIntentDiscarded"


def event_of(kind: RecoveryKind) -> Event:
    """What an observer is told of a recovery."""
    match kind:
        case RecoveryKind.ROLLED_FORWARD:
            return Event.ROLLED_FORWARD
        case RecoveryKind.ROLLED_BACK:
            return Event.ROLLED_BACK
        case RecoveryKind.ORPHANED_BRANCH_DISCARDED:
            return Event.ORPHAN_DISCARDED
        case RecoveryKind.EMPTY_INTENT_DISCARDED:
            return Event.EMPTY_DISCARDED


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """Where a recovery took one table."""

    table_key: str
    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """One row of the audit; the commit is the one that the recovery made true, or left true."""

    commit_id: str
    kind: RecoveryKind
    actor: str | None
    operation_id: str
    writer_kind: str
    outcomes: tuple[TableOutcome, ...]
    created_at: datetime


def record(recovery: Recovery, *, tables: TableStore) -> None:
    """Write a recovery down, unless its operation is there already.

    Others may write theirs at the same time; `UnavailableError` if they always get in between.
    """
    rows = _encode([recovery])
    for _ in range(AUDIT_ATTEMPTS_MAX):
        try:
            _record_once(rows, recovery.operation_id, tables)
        except (AlreadyExistsError, ExpectedVersionMismatchError, UnexpectedBaseError):
            # In the last case the row landed, behind another's; the next look finds it.
            continue
        return
    raise UnavailableError(
        action=f"write down the recovery of {recovery.operation_id}",
        reason="others keep writing theirs down; try again",
    )


def _record_once(rows: pa.Table, operation_id: str, tables: TableStore) -> None:
    ref = TableRef(AUDIT_PATH, None)
    newest = tables.find_head(ref)
    if newest is None:
        tables.create(AUDIT_PATH, rows, config={})
        return
    at = TableVersion(ref, newest)
    known = render_in("operation_id", pa.array([operation_id]))
    if not tables.count(at, predicate=known):
        tables.apply(tables.stage_append(rows, onto=at))


def list_recoveries(tables: TableStore) -> tuple[Recovery, ...]:
    """Every recovery of a graph, oldest first."""
    ref = TableRef(AUDIT_PATH, None)
    newest = tables.find_head(ref)
    if newest is None:
        return ()
    rows = tables.scan(TableVersion(ref, newest), columns=_SCHEMA.names, predicate=None)
    found = [_decode(row) for row in rows.to_pylist()]
    return tuple(sorted(found, key=lambda each: (each.created_at, each.operation_id)))


def _encode(recoveries: Iterable[Recovery]) -> pa.Table:
    rows = [
        {
            "graph_commit_id": each.commit_id,
            "recovery_kind": each.kind,
            "recovery_for_actor": each.actor,
            "operation_id": each.operation_id,
            "sidecar_writer_kind": each.writer_kind,
            "per_table_outcomes_json": orjson.dumps(each.outcomes).decode(),
            "created_at": each.created_at,
        }
        for each in recoveries
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _decode(row: dict[str, object]) -> Recovery:
    outcomes: list[dict[str, object]] = orjson.loads(str(row["per_table_outcomes_json"]))
    moment = row["created_at"]
    assert isinstance(moment, datetime)
    actor = row["recovery_for_actor"]
    return Recovery(
        commit_id=str(row["graph_commit_id"]),
        kind=RecoveryKind(str(row["recovery_kind"])),
        actor=None if actor is None else str(actor),
        operation_id=str(row["operation_id"]),
        writer_kind=str(row["sidecar_writer_kind"]),
        outcomes=tuple(
            TableOutcome(
                table_key=str(each["table_key"]),
                from_version=int(str(each["from_version"])),
                to_version=int(str(each["to_version"])),
            )
            for each in outcomes
        ),
        created_at=moment,
    )
