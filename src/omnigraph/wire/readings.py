"""Results of calls, made of the bodies that told them: the inverse of `bodies`.

What a body does not tell is not made up: a commit that was read here has no notes but those that
bodies have. A body of another shape is a `KeyError`, `TypeError` or `ValueError`.
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
from omnigraph.engine.state.history import NO_NOTES, Commit, CommitNotes
from omnigraph.model.names import MAIN
from omnigraph.wire.problems import conflict_of

Told = Mapping[str, object]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def mutation_of(told: Told) -> MutationResult:
    """What a mutation did."""
    return MutationResult(
        affected_nodes=number_of(told["affected_nodes"]),
        affected_edges=number_of(told["affected_edges"]),
        commit_id=text_or_none(told["commit_id"]),
    )


def load_of(told: Told) -> LoadResult:
    """What a load did."""
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


def merge_of(told: Told) -> MergeResult:
    """What became of a merge, or of a commit that was undone or done again."""
    return MergeResult(
        outcome=MergeOutcome(str(told["outcome"])),
        commit_id=text_or_none(told["commit_id"]),
        conflicts=tuple(conflict_of(each) for each in list_of(told.get("conflicts", []))),
    )


def plan_of(told: Told) -> MigrationPlan:
    """The steps to another schema."""
    return MigrationPlan(supported=told["supported"] is True, steps=tuple(list_of(told["steps"])))


def applied_of(told: Told) -> SchemaApplyResult:
    """What was done to the schema."""
    return SchemaApplyResult(
        applied=told["applied"] is True,
        steps=tuple(list_of(told["steps"])),
        commit_id=text_or_none(told["commit_id"]),
    )


def commit_of(told: Told) -> Commit:
    """One entry of history."""
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
    )


def tables_of(told: Told) -> dict[str, TableState]:
    """The types of a snapshot by key; a path is what it is below the graph."""
    return {str(each["table_key"]): _table_of(each) for each in list_of(told["tables"])}


def list_of(told: object) -> list[dict[str, object]]:
    """A field that holds objects."""
    if not isinstance(told, list):
        raise TypeError("a list is needed")
    return told


def number_of(told: object) -> int:
    """A field that holds a whole number."""
    if not isinstance(told, int):
        raise TypeError("a whole number is needed")
    return told


def text_or_none(told: object) -> str | None:
    """A field that holds a text or null."""
    return None if told is None else str(told)


def _table_of(told: Told) -> TableState:
    path, branch = str(told["table_path"]), text_or_none(told["table_branch"])
    return TableState(
        version=number_of(told["table_version"]),
        branch=branch,
        row_count=number_of(told["row_count"]),
        path=path if branch is None else f"{path}/tree/{branch}",
    )


def moment_of(told: object) -> datetime:
    """A field that holds a time in microseconds."""
    return _EPOCH + timedelta(microseconds=number_of(told))
