"""Response bodies decoded into the results of engine calls; the inverse of `encode`.

A field that a body does not contain is left empty. A body of the wrong shape raises `KeyError`,
`TypeError` or `ValueError`, which the caller turns into an error. Engine results need Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from omnigraph.engine.results import (
    LoadResult,
    MergeOutcome,
    MergeResult,
    MigrationPlan,
    MutationResult,
    SchemaApplyResult,
    TableState,
)
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


def decode_mutation(told: Body) -> MutationResult:
    """Decode the result of a mutation."""
    return MutationResult(
        affected_nodes=number_of(told["affected_nodes"]),
        affected_edges=number_of(told["affected_edges"]),
        commit_id=text_or_none(told["commit_id"]),
    )


def load_of(told: Body) -> LoadResult:
    """Decode the result of a load."""
    counts: dict[str, dict[str, int]] = {"node": {}, "edge": {}}
    for each in list_of(told["tables"]):
        kind, _, name = str(each["table_key"]).partition(":")
        counts[kind][name] = number_of(each["rows_loaded"])
    return LoadResult(
        nodes_loaded=counts["node"],
        edges_loaded=counts["edge"],
        commit_id=text_or_none(told["commit_id"]),
        branch=str(told["branch"]),
        base_branch=text_or_none(told["base_branch"]),
        branch_created=told["branch_created"] is True,
        engine=str(told["engine"]),
    )


def merge_of(told: Body) -> MergeResult:
    """Decode the outcome of a merge, a revert or a cherry-pick."""
    return MergeResult(
        outcome=MergeOutcome(str(told["outcome"])),
        commit_id=text_or_none(told["commit_id"]),
        conflicts=tuple(conflict_of(each) for each in list_of(told.get("conflicts", []))),
    )


def plan_of(told: Body) -> MigrationPlan:
    """Decode a migration plan."""
    return MigrationPlan(
        supported=told["supported"] is True,
        steps=tuple(list_of(told["steps"])),
        blockers=tuple(map(str, list_of(told.get("blockers", [])))),
    )


def applied_of(told: Body) -> SchemaApplyResult:
    """Decode the result of a schema migration."""
    return SchemaApplyResult(
        applied=told["applied"] is True,
        steps=tuple(list_of(told["steps"])),
        commit_id=text_or_none(told["commit_id"]),
    )


def commit_of(told: Body) -> Commit:
    """Decode a commit."""
    reverted = text_or_none(told.get("reverted_commit_id"))
    picked = text_or_none(told.get("picked_commit_id"))
    return Commit(
        id=str(told["graph_commit_id"]),
        branch=text_or_none(told["manifest_branch"]) or MAIN,
        parent_id=text_or_none(told["parent_commit_id"]),
        merged_parent_id=text_or_none(told["merged_parent_commit_id"]),
        actor=text_or_none(told["actor_id"]),
        created_at=moment_of(told["created_at"]),
        manifest_version=number_of(told["manifest_version"]),
        schema_hash=text_or_none(told.get("schema_hash")),
        notes=CommitNotes(reverted, picked) if reverted or picked else NO_NOTES,
        recovery=text_or_none(told.get("recovery")),
    )


def tables_of(told: Body) -> dict[str, TableState]:
    """Decode the types of a snapshot by key; paths are relative to the graph."""
    return {str(each["table_key"]): _table_of(each) for each in list_of(told["tables"])}


def list_of(told: object) -> list[dict[str, object]]:
    """Decode a field that holds a list of objects."""
    if not isinstance(told, list):
        raise TypeError("a list is needed")
    return told


def number_of(told: object) -> int:
    """Decode a field that holds an integer."""
    if not isinstance(told, int):
        raise TypeError("a whole number is needed")
    return told


def text_or_none(told: object) -> str | None:
    """Decode a field that holds text or null."""
    return None if told is None else str(told)


def _table_of(told: Body) -> TableState:
    path, branch = str(told["table_path"]), text_or_none(told["table_branch"])
    return TableState(
        version=number_of(told["table_version"]),
        branch=branch,
        row_count=number_of(told["row_count"]),
        path=path if branch is None else f"{path}/tree/{branch}",
    )


def moment_of(told: object) -> datetime:
    """Decode a field that holds a timestamp in microseconds."""
    return _EPOCH + timedelta(microseconds=number_of(told))


def recovery_of(told: Mapping[str, object]) -> Recovery:
    """Decode the recovery of an interrupted write."""
    return Recovery(
        commit_id=str(told["graph_commit_id"]),
        kind=RecoveryKind(str(told["recovery_kind"])),
        actor=text_or_none(told["recovery_for_actor"]),
        operation_id=str(told["operation_id"]),
        writer_kind=str(told["writer_kind"]),
        outcomes=tuple(
            TableOutcome(
                table_key=str(each["table_key"]),
                from_version=number_of(each["from_version"]),
                to_version=number_of(each["to_version"]),
            )
            for each in list_of(told["tables"])
        ),
        created_at=moment_of(told["created_at"]),
    )
