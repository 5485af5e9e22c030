"""What a write will do, written down before it does it: the pins of its tables, and its sidecar."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from omnigraph.engine.commit.changes import PreparedWrite
from omnigraph.engine.commit.sidecar import Pin, Sidecar, WriterKind
from omnigraph.engine.commit.staging import StagedTable
from omnigraph.engine.state.authority import Basis
from omnigraph.model.runtime import Runtime


def plan_sidecar(
    staged: Iterable[StagedTable],
    write: PreparedWrite,
    basis: Basis,
    *,
    relied_on: Collection[str],
    actor: str | None,
    kind: WriterKind,
    runtime: Runtime,
) -> Sidecar:
    """The record of a write whose files are staged."""
    return Sidecar(
        operation_id=runtime.new_id(),
        started_at=runtime.now(),
        branch=basis.branch,
        actor=actor,
        writer_kind=kind,
        commit_id=runtime.new_id(),
        rollback_commit_id=runtime.new_id(),
        schema_hash=(write.schema.schema_hash if write.schema else basis.contract.schema_hash),
        pins=tuple(_plan_pin(each) for each in staged),
        schema=write.schema.delta if write.schema else None,
        relied_on={key: basis.snapshot.get(key).version for key in sorted(relied_on)},
        merged_parent_id=write.merged_parent_id,
        notes=write.notes,
    )


def _plan_pin(staged: StagedTable) -> Pin:
    entry = staged.entry
    uuids = staged.uuids
    return Pin(
        table_key=entry.table_key,
        table_path=entry.path,
        table_branch=entry.branch,
        expected_version=entry.version,
        post_commit_version=entry.version + len(uuids),
        transaction_uuid=uuids[-1],
        row_count=staged.row_count,
        earlier_uuids=uuids[:-1],
        published_key=staged.change.published_key,
    )
