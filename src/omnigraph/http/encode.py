"""Response bodies encoded from the results of engine calls, and selection of export lines.

With `responses` and `rows` this is the only place that knows the names of body fields. Rows of
query results are encoded in `rows` and `arrow`. The module imports neither Arrow nor the engine, so
commands that print a short result start quickly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from omnigraph.http import responses
from omnigraph.model.errors import Conflict, InvalidValueError
from omnigraph.model.limits import EXPORT_PIECE_CHARACTERS
from omnigraph.model.names import MAIN

if TYPE_CHECKING:
    from omnigraph.engine import results
    from omnigraph.engine.changes import ChangePage, ChangeSet, ChangeStats, CommitChanges
    from omnigraph.engine.state.history import Commit, Recovery

_EDGE_COLUMNS = ["id", "src", "dst"]
_KINDS_OF_EDGES = frozenset({"orphan_edge", "cardinality_violation"})


def table_key_of(conflict: Conflict) -> str:
    """The table key of a conflict: `node:` or `edge:` and the name of the type."""
    versions = (conflict.source, conflict.target, conflict.base)
    version = next((each for each in versions if each is not None), {})
    # The row versions of an edge begin with its endpoint columns, whatever its properties are.
    is_edge = conflict.kind in _KINDS_OF_EDGES or list(version)[:3] == _EDGE_COLUMNS
    return f"{'edge' if is_edge else 'node'}:{conflict.type}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# Writes


def encode_mutation(
    done: results.MutationResult, *, branch: str, query_name: str, actor: str | None
) -> responses.ChangeOutput:
    """Encode the result of a mutation."""
    return {
        "branch": branch,
        "query_name": query_name,
        "affected_nodes": done.affected_nodes,
        "affected_edges": done.affected_edges,
        "actor_id": actor,
        "commit_id": done.commit_id,
    }


def ingest_output(
    done: results.LoadResult, *, uri: str, mode: str, actor: str | None
) -> responses.IngestOutput:
    """Encode the result of a load."""
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


def schema_plan_output(plan: results.MigrationPlan, *, uri: str) -> responses.SchemaPlanOutput:
    """Encode a migration plan."""
    return {
        "uri": uri,
        "supported": plan.supported,
        "step_count": len(plan.steps),
        "steps": [dict(step) for step in plan.steps],
        "blockers": list(plan.blockers),
    }


def schema_apply_output(
    done: results.SchemaApplyResult, *, uri: str, manifest_version: int | None
) -> responses.SchemaApplyOutput:
    """Encode the result of a schema migration; unsupported plans were rejected earlier."""
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


def snapshot_output(found: results.SnapshotState, *, branch: str) -> responses.SnapshotOutput:
    """Encode the snapshot of a branch."""
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


def commit_output(commit: Commit) -> responses.CommitOutput:
    """Encode a commit."""
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
        "recovery": commit.recovery,
    }


def merge_output(
    done: results.MergeResult, *, source: str, target: str, actor: str | None
) -> responses.MergeOutput:
    """Encode the outcome of a merge or of a dry run."""
    output: responses.MergeOutput = {
        "source": source,
        "target": target,
        "outcome": done.outcome.value,
        "actor_id": actor,
        "commit_id": done.commit_id,
    }
    if done.conflicts:
        output["conflicts"] = [conflict_output(each) for each in done.conflicts]
    return output


def replay_output(
    done: results.MergeResult, *, branch: str, actor: str | None
) -> responses.ReplayOutput:
    """Encode the outcome of a revert or a cherry-pick."""
    return {
        "branch": branch,
        "outcome": done.outcome.value,
        "actor_id": actor,
        "commit_id": done.commit_id,
    }


def conflict_output(conflict: Conflict) -> responses.ConflictOutput:
    """Encode a merge conflict with the three row versions."""
    return {
        "table_key": table_key_of(conflict),
        "row_id": conflict.id,
        "kind": conflict.kind,
        "message": conflict.message,
        "base": _row(conflict.base),
        "source": _row(conflict.source),
        "target": _row(conflict.target),
    }


def diff_output(found: ChangeSet, page: ChangePage) -> responses.DiffOutput:
    """Encode a page of the changes between two commits."""
    return {
        "old_commit_id": found.old_commit_id,
        "new_commit_id": found.new_commit_id,
        "stats": _counts(found.stats),
        "changes": _changes(page.changes),
        "next_page_token": page.next_token,
    }


def commit_changes_output(found: CommitChanges, *, limit: int) -> responses.CommitChangesOutput:
    """Encode a commit of a change feed with the first `limit` of its changes."""
    page = found.changes.page(limit=limit)
    return {
        "cursor": found.cursor,
        "commit": commit_output(found.commit),
        "stats": _counts(found.changes.stats),
        "changes": _changes(page.changes),
        "next_page_token": page.next_token,
    }


def recovery_output(recovery: Recovery) -> responses.RecoveryOutput:
    """Encode the recovery of an interrupted write."""
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


def _relative_path(table: results.TableState) -> str:
    """The path of a type relative to the graph, without the suffix of its branch."""
    whole = table.path.removesuffix(f"/tree/{table.branch}") if table.branch else table.path
    return "/".join(whole.rsplit("/", 2)[-2:])


def _counts(stats: ChangeStats) -> responses.ChangeCounts:
    return {
        "inserts": stats.inserts,
        "updates": stats.updates,
        "deletes": stats.deletes,
        "types_affected": list(stats.types_affected),
    }


def _changes(changes: ChangeSet) -> list[responses.ChangeEntry]:
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


def _row(version: Mapping[str, object] | None) -> dict[str, object] | None:
    return None if version is None else dict(version)


def _microseconds(timestamp: datetime) -> int:
    return (timestamp - _EPOCH) // timedelta(microseconds=1)


# The beginning of an export line, by the kind of its type.
_OPENING = {"node": '{"type":"', "edge": '{"edge":"'}


@dataclass(frozen=True, slots=True)
class LineSelection:
    """The types to export (None: all) and the prefixes of the lines to export (None: any)."""

    types: tuple[str, ...] | None
    openings: tuple[str, ...] | None

    def keep(self, lines: Iterator[str]) -> Iterator[str]:
        """Only the selected lines."""
        openings = self.openings
        return lines if openings is None else (each for each in lines if each.startswith(openings))


def select_lines(type_names: Sequence[str], table_keys: Sequence[str]) -> LineSelection:
    """The selection for type names and keys such as `node:Person`; without any, all types."""
    if not type_names and not table_keys:
        return LineSelection(None, None)
    types, openings = list(type_names), []
    for key in table_keys:
        kind, _, name = key.partition(":")
        if kind not in _OPENING or not name:
            raise InvalidValueError(
                subject="table_keys",
                expected="node:Name or edge:Name",
                value=key,
                problem=f"{key!r} is not a valid table key; use node:Name or edge:Name",
            )
        types.append(name)
        openings.append(f'{_OPENING[kind]}{name}"')
    for name in type_names:
        openings += [f'{opening}{name}"' for opening in _OPENING.values()]
    return LineSelection(tuple(dict.fromkeys(types)), tuple(openings) if table_keys else None)


def join_lines(lines: Iterable[str]) -> Iterator[bytes]:
    """Lines of text in pieces of many lines, because to send each line would take longer."""
    held: list[str] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= EXPORT_PIECE_CHARACTERS:
            yield "\n".join([*held, ""]).encode()
            held, size = [], 0
    if held:
        yield "\n".join([*held, ""]).encode()
