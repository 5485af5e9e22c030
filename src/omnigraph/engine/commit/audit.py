"""The audit of recoveries: one row for each write that was finished, undone or discarded.

The audit is a Lance table beside the others; the first recovery creates it. Listings of commits
read it to mark the commits that a recovery published; no write reads it to decide anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import orjson
import pyarrow as pa

from omnigraph.engine.state.history import Commit, Recovery, RecoveryKind, TableOutcome
from omnigraph.model.errors import (
    AlreadyExistsError,
    CorruptError,
    ExpectedVersionMismatchError,
    UnavailableError,
    UnexpectedBaseError,
)
from omnigraph.model.limits import AUDIT_ATTEMPTS_MAX
from omnigraph.model.ports import Event
from omnigraph.model.records import decode_fields
from omnigraph.storage.ports import TableReader, TableRef, TableStore, TableVersion
from omnigraph.storage.predicates import OneOf, equals

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


_COMMITTING = tuple(
    each for each in RecoveryKind if each is not RecoveryKind.EMPTY_INTENT_DISCARDED
)
"""The kinds of recovery that publish a commit."""


EVENT_BY_KIND = {
    RecoveryKind.ROLLED_FORWARD: Event.ROLLED_FORWARD,
    RecoveryKind.ROLLED_BACK: Event.ROLLED_BACK,
    RecoveryKind.ORPHANED_BRANCH_DISCARDED: Event.ORPHAN_DISCARDED,
    RecoveryKind.EMPTY_INTENT_DISCARDED: Event.EMPTY_DISCARDED,
}
"""The events that report recoveries to an observer."""


def record(recovery: Recovery, *, tables: TableStore) -> None:
    """Record a recovery, unless its operation is already recorded.

    Other processes may record theirs concurrently; raises `UnavailableError` if every attempt
    conflicts with one of them.
    """
    row = {
        "graph_commit_id": recovery.commit_id,
        "recovery_kind": recovery.kind,
        "recovery_for_actor": recovery.actor,
        "operation_id": recovery.operation_id,
        "sidecar_writer_kind": recovery.writer_kind,
        "per_table_outcomes_json": orjson.dumps(recovery.outcomes).decode(),
        "created_at": recovery.created_at,
    }
    rows = pa.Table.from_pylist([row], schema=_SCHEMA)
    for _ in range(AUDIT_ATTEMPTS_MAX):
        try:
            _record_once(rows, recovery.operation_id, tables)
        except (AlreadyExistsError, ExpectedVersionMismatchError, UnexpectedBaseError):
            # After `UnexpectedBaseError` the row was written, on top of another one; the next
            # attempt finds it.
            continue
        return
    raise UnavailableError(
        action=f"write down the recovery of {recovery.operation_id}",
        reason="others keep writing theirs down; try again",
    )


def _record_once(rows: pa.Table, operation_id: str, tables: TableStore) -> None:
    at = _find_audit(tables)
    if at is None:
        tables.create(AUDIT_PATH, rows, config={})
        return
    known = equals("operation_id", operation_id)
    if not tables.count(at, predicate=known):
        tables.apply(tables.stage_append(rows, onto=at))


def _find_audit(tables: TableReader) -> TableVersion | None:
    ref = TableRef(AUDIT_PATH, None)
    newest = tables.find_head(ref)
    return None if newest is None else TableVersion(ref, newest)


def list_recoveries(tables: TableReader) -> tuple[Recovery, ...]:
    """Every recovery of a graph, oldest first."""
    at = _find_audit(tables)
    if at is None:
        return ()
    rows = tables.scan(at, columns=_SCHEMA.names, predicate=None)
    found = [_decode(row) for row in rows.to_pylist()]
    return tuple(sorted(found, key=lambda each: (each.created_at, each.operation_id)))


def mark_recovered(commits: Iterable[Commit], *, tables: TableReader) -> tuple[Commit, ...]:
    """The same commits; those that a recovery published carry its kind."""
    at = _find_audit(tables)
    if at is None:
        return tuple(commits)
    # A discarded write leaves the head unchanged: its row names a commit that recovery did not
    # create.
    made = OneOf("recovery_kind", pa.array(list(_COMMITTING)))
    columns = ["graph_commit_id", "recovery_kind"]
    rows = tables.scan(at, columns=columns, predicate=made).to_pylist()
    kind_by_commit = {row["graph_commit_id"]: row["recovery_kind"] for row in rows}
    return tuple(replace(each, recovery=kind_by_commit.get(each.id)) for each in commits)


def _decode(row: dict[str, object]) -> Recovery:
    outcomes: list[object] = orjson.loads(str(row["per_table_outcomes_json"]))
    created_at = row["created_at"]
    if not isinstance(created_at, datetime):
        raise CorruptError(subject="the list of recoveries", problem="a row has no time")
    actor = row["recovery_for_actor"]
    return Recovery(
        commit_id=str(row["graph_commit_id"]),
        kind=RecoveryKind(str(row["recovery_kind"])),
        actor=None if actor is None else str(actor),
        operation_id=str(row["operation_id"]),
        writer_kind=str(row["sidecar_writer_kind"]),
        outcomes=tuple(decode_fields(TableOutcome, each) for each in outcomes),
        created_at=created_at,
    )
