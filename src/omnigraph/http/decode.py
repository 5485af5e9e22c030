"""Response bodies decoded into the results of engine calls; the inverse of `encode`.

A field that a body does not contain is left empty. A body of the wrong shape raises `KeyError`,
`TypeError` or `ValueError`, which the caller turns into an error. Engine results need Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from omnigraph.engine import results
from omnigraph.engine.state.history import (
    NO_NOTES,
    Commit,
    CommitNotes,
    Recovery,
    RecoveryKind,
    TableOutcome,
)
from omnigraph.http.problems import conflict_of
from omnigraph.model.names import MAIN

Body = Mapping[str, object]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decode_mutation(encoded: Body) -> results.MutationResult:
    """Decode the result of a mutation."""
    return results.MutationResult(
        affected_nodes=number_of(encoded["affected_nodes"]),
        affected_edges=number_of(encoded["affected_edges"]),
        commit_id=text_or_none(encoded["commit_id"]),
    )


def load_of(encoded: Body) -> results.LoadResult:
    """Decode the result of a load."""
    counts: dict[str, dict[str, int]] = {"node": {}, "edge": {}}
    for each in list_of(encoded["tables"]):
        kind, _, name = str(each["table_key"]).partition(":")
        counts[kind][name] = number_of(each["rows_loaded"])
    return results.LoadResult(
        nodes_loaded=counts["node"],
        edges_loaded=counts["edge"],
        commit_id=text_or_none(encoded["commit_id"]),
        branch=str(encoded["branch"]),
        base_branch=text_or_none(encoded["base_branch"]),
        branch_created=encoded["branch_created"] is True,
        engine=str(encoded["engine"]),
    )


def merge_of(encoded: Body) -> results.MergeResult:
    """Decode the outcome of a merge, a revert or a cherry-pick."""
    return results.MergeResult(
        outcome=results.MergeOutcome(str(encoded["outcome"])),
        commit_id=text_or_none(encoded["commit_id"]),
        conflicts=tuple(conflict_of(each) for each in list_of(encoded.get("conflicts", []))),
    )


def plan_of(encoded: Body) -> results.MigrationPlan:
    """Decode a migration plan."""
    return results.MigrationPlan(
        supported=encoded["supported"] is True,
        steps=tuple(list_of(encoded["steps"])),
        blockers=tuple(map(str, list_of(encoded.get("blockers", [])))),
    )


def applied_of(encoded: Body) -> results.SchemaApplyResult:
    """Decode the result of a schema migration."""
    return results.SchemaApplyResult(
        applied=encoded["applied"] is True,
        steps=tuple(list_of(encoded["steps"])),
        commit_id=text_or_none(encoded["commit_id"]),
    )


def commit_of(encoded: Body) -> Commit:
    """Decode a commit."""
    reverted = text_or_none(encoded.get("reverted_commit_id"))
    picked = text_or_none(encoded.get("picked_commit_id"))
    return Commit(
        id=str(encoded["graph_commit_id"]),
        branch=text_or_none(encoded["manifest_branch"]) or MAIN,
        parent_id=text_or_none(encoded["parent_commit_id"]),
        merged_parent_id=text_or_none(encoded["merged_parent_commit_id"]),
        actor=text_or_none(encoded["actor_id"]),
        created_at=timestamp_of(encoded["created_at"]),
        manifest_version=number_of(encoded["manifest_version"]),
        schema_hash=text_or_none(encoded.get("schema_hash")),
        notes=CommitNotes(reverted, picked) if reverted or picked else NO_NOTES,
        recovery=text_or_none(encoded.get("recovery")),
    )


def tables_of(encoded: Body) -> dict[str, results.TableState]:
    """Decode the types of a snapshot by key; paths are relative to the graph."""
    return {str(each["table_key"]): _table_of(each) for each in list_of(encoded["tables"])}


def list_of(encoded: object) -> list[dict[str, object]]:
    """Decode a field that holds a list of objects."""
    if not isinstance(encoded, list):
        raise TypeError("expected a list")
    return encoded


def number_of(encoded: object) -> int:
    """Decode a field that holds an integer."""
    if not isinstance(encoded, int):
        raise TypeError("expected an integer")
    return encoded


def text_or_none(encoded: object) -> str | None:
    """Decode a field that holds text or null."""
    return None if encoded is None else str(encoded)


def _table_of(encoded: Body) -> results.TableState:
    path, branch = str(encoded["table_path"]), text_or_none(encoded["table_branch"])
    return results.TableState(
        version=number_of(encoded["table_version"]),
        branch=branch,
        row_count=number_of(encoded["row_count"]),
        path=path if branch is None else f"{path}/tree/{branch}",
    )


def timestamp_of(encoded: object) -> datetime:
    """Decode a field that holds a timestamp in microseconds."""
    return _EPOCH + timedelta(microseconds=number_of(encoded))


def recovery_of(encoded: Mapping[str, object]) -> Recovery:
    """Decode the recovery of an interrupted write."""
    return Recovery(
        commit_id=str(encoded["graph_commit_id"]),
        kind=RecoveryKind(str(encoded["recovery_kind"])),
        actor=text_or_none(encoded["recovery_for_actor"]),
        operation_id=str(encoded["operation_id"]),
        writer_kind=str(encoded["writer_kind"]),
        outcomes=tuple(
            TableOutcome(
                table_key=str(each["table_key"]),
                from_version=number_of(each["from_version"]),
                to_version=number_of(each["to_version"]),
            )
            for each in list_of(encoded["tables"])
        ),
        created_at=timestamp_of(encoded["created_at"]),
    )
