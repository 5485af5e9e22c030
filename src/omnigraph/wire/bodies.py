"""Bodies of answers, made of what the engine returns.

With `shapes` and `result_pieces` the one place that knows the names of fields. Rows of results
become text in `result_pieces`, and Arrow streams in `arrow`. Imports nothing that takes a while:
commands that only say what was done start at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from omnigraph.model.errors import Conflict
from omnigraph.model.names import MAIN
from omnigraph.wire.conflicts import table_key_of
from omnigraph.wire.shapes import (
    BranchCreated,
    BranchDeleted,
    ChangeCounts,
    ChangeEntry,
    ChangeOutput,
    CommitChangesOutput,
    CommitOutput,
    ConflictOutput,
    DiffOutput,
    IngestOutput,
    MergeOutput,
    RecoveryOutput,
    ReplayOutput,
    SchemaApplyOutput,
    SchemaPlanOutput,
    SnapshotOutput,
)

if TYPE_CHECKING:
    from omnigraph.engine.changes import ChangePage, ChangeSet, ChangeStats, CommitChanges
    from omnigraph.engine.commit.audit import Recovery
    from omnigraph.engine.results import (
        LoadResult,
        MergeResult,
        MigrationPlan,
        MutationResult,
        SchemaApplyResult,
        SnapshotState,
        TableState,
    )
    from omnigraph.engine.state.history import Commit

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# Writes


def change_output(
    done: MutationResult, *, branch: str, query_name: str, actor: str | None
) -> ChangeOutput:
    """What a mutation did."""
    return {
        "branch": branch,
        "query_name": query_name,
        "affected_nodes": done.affected_nodes,
        "affected_edges": done.affected_edges,
        "actor_id": actor,
        "commit_id": done.commit_id,
    }


def ingest_output(done: LoadResult, *, uri: str, mode: str, actor: str | None) -> IngestOutput:
    """What a load did."""
    counts = {f"edge:{name}": rows for name, rows in done.edges_loaded.items()}
    counts |= {f"node:{name}": rows for name, rows in done.nodes_loaded.items()}
    return {
        "uri": uri,
        "branch": done.branch,
        "base_branch": done.base_branch,
        "branch_created": done.branch_created,
        "mode": mode,
        "tables": [{"table_key": key, "rows_loaded": counts[key]} for key in sorted(counts)],
        "actor_id": actor,
        "commit_id": done.commit_id,
        "engine": done.engine,
    }


# Schemas


def schema_plan_output(plan: MigrationPlan, *, uri: str) -> SchemaPlanOutput:
    """The steps to another schema."""
    return {
        "uri": uri,
        "supported": plan.supported,
        "step_count": len(plan.steps),
        "steps": [dict(step) for step in plan.steps],
    }


def schema_apply_output(
    done: SchemaApplyResult, *, uri: str, manifest_version: int | None
) -> SchemaApplyOutput:
    """What was done to the schema; whatever is not supported was refused before."""
    return {
        "uri": uri,
        "supported": True,
        "applied": done.applied,
        "step_count": len(done.steps),
        "manifest_version": manifest_version,
        "steps": [dict(step) for step in done.steps],
        "commit_id": done.commit_id,
    }


# History


def snapshot_output(found: SnapshotState, *, branch: str) -> SnapshotOutput:
    """The types of a branch."""
    return {
        "branch": branch,
        "manifest_version": found.commit.manifest_version,
        "tables": [
            {
                "table_key": key,
                "table_path": _relative_path(table),
                "table_version": table.version,
                "table_branch": table.branch,
                "row_count": table.row_count,
            }
            for key, table in sorted(found.tables.items())
        ],
        "commit_id": found.commit.id,
    }


def commit_output(commit: Commit) -> CommitOutput:
    """One entry of history."""
    return {
        "graph_commit_id": commit.id,
        "manifest_branch": None if commit.branch == MAIN else commit.branch,
        "manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent_id,
        "merged_parent_commit_id": commit.merged_parent_id,
        "actor_id": commit.actor,
        "created_at": _microseconds(commit.created_at),
        "schema_hash": commit.schema_hash,
        "reverted_commit_id": commit.notes.reverted_id,
        "picked_commit_id": commit.notes.picked_id,
    }


def branch_created(*, uri: str, base: str, name: str, actor: str | None) -> BranchCreated:
    """A branch that was started."""
    return {"uri": uri, "from": base, "name": name, "actor_id": actor}


def branch_deleted(*, uri: str, name: str, actor: str | None) -> BranchDeleted:
    """A branch that is gone."""
    return {"uri": uri, "name": name, "actor_id": actor}


def merge_output(done: MergeResult, *, source: str, target: str, actor: str | None) -> MergeOutput:
    """What became of a merge, or would become of it."""
    output: MergeOutput = {
        "source": source,
        "target": target,
        "outcome": done.outcome.value,
        "actor_id": actor,
        "commit_id": done.commit_id,
    }
    if done.conflicts:
        output["conflicts"] = [conflict_output(each) for each in done.conflicts]
    return output


def replay_output(done: MergeResult, *, branch: str, actor: str | None) -> ReplayOutput:
    """What became of a commit that was undone, or done again elsewhere."""
    return {
        "branch": branch,
        "outcome": done.outcome.value,
        "actor_id": actor,
        "commit_id": done.commit_id,
    }


def conflict_output(conflict: Conflict) -> ConflictOutput:
    """One row that needs a decision, with what there is to decide between."""
    return {
        "table_key": table_key_of(conflict),
        "row_id": conflict.id,
        "kind": conflict.kind,
        "message": conflict.message,
        "base": _row(conflict.base),
        "source": _row(conflict.source),
        "target": _row(conflict.target),
    }


def diff_output(found: ChangeSet, page: ChangePage) -> DiffOutput:
    """A page of what changed between two commits."""
    return {
        "old_commit_id": found.old_commit_id,
        "new_commit_id": found.new_commit_id,
        "stats": _counts(found.stats),
        "changes": _changes(page.changes),
        "next_page_token": page.next_token,
    }


def commit_changes_output(found: CommitChanges, *, limit: int) -> CommitChangesOutput:
    """A commit of a change feed, with the first of its changes."""
    page = found.changes.page(limit=limit)
    return {
        "cursor": found.cursor,
        "commit": commit_output(found.commit),
        "stats": _counts(found.changes.stats),
        "changes": _changes(page.changes),
        "next_page_token": page.next_token,
    }


def recovery_output(recovery: Recovery) -> RecoveryOutput:
    """A write that had stopped half-way."""
    return {
        "graph_commit_id": recovery.commit_id,
        "recovery_kind": str(recovery.kind),
        "recovery_for_actor": recovery.actor,
        "operation_id": recovery.operation_id,
        "writer_kind": recovery.writer_kind,
        "tables": [
            {
                "table_key": each.table_key,
                "from_version": each.from_version,
                "to_version": each.to_version,
            }
            for each in recovery.outcomes
        ],
        "created_at": _microseconds(recovery.created_at),
    }


def _relative_path(table: TableState) -> str:
    """Where a type is below the graph, without the part of its branch."""
    whole = table.path.removesuffix(f"/tree/{table.branch}") if table.branch else table.path
    return "/".join(whole.rsplit("/", 2)[-2:])


def _counts(stats: ChangeStats) -> ChangeCounts:
    return {
        "inserts": stats.inserts,
        "updates": stats.updates,
        "deletes": stats.deletes,
        "types_affected": list(stats.types_affected),
    }


def _changes(changes: ChangeSet) -> list[ChangeEntry]:
    return [
        {
            "kind": each.kind,
            "type": each.type,
            "id": each.id,
            "op": each.op,
            "before": _row(each.before),
            "after": _row(each.after),
        }
        for each in changes
    ]


def _row(image: Mapping[str, object] | None) -> dict[str, object] | None:
    return None if image is None else dict(image)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
