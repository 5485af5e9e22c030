"""The shapes of all response bodies, as `TypedDict` classes.

The OpenAPI document is generated from them, and the type checker checks each encoder against them.
At run time the bodies are plain dicts. The module imports no other module of the project.
"""

from __future__ import annotations

from typing import Literal, NotRequired

# Before Python 3.12, pydantic supports only the `TypedDict` of `typing_extensions`.
from typing_extensions import TypedDict

Row = dict[str, object]

ErrorCode = Literal[
    "unauthorized",
    "forbidden",
    "bad_request",
    "not_found",
    "method_not_allowed",
    "conflict",
    "too_many_requests",
    "internal",
    "key_conflict",
    "resource_limit",
    "precondition_failed",
    "recovery_required",
    "unavailable",
    "change_feed_gap",
]


class Target(TypedDict):
    """The branch or commit that a read used."""

    branch: str | None
    snapshot: str | None


class ReadOutput(TypedDict):
    """The rows of a query result, read at one commit."""

    query_name: str
    target: Target
    row_count: int
    columns: NotRequired[list[str]]
    rows: list[Row]
    commit_id: str


class ChangeOutput(TypedDict):
    """The effect of a mutation; `commit_id` is null if nothing changed."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit_id: str | None


class LoadedTable(TypedDict):
    """The number of rows of one type that a load wrote."""

    table_key: str
    rows_loaded: int


class IngestOutput(TypedDict):
    """The result of a load: the rows per type, and the commit."""

    uri: str
    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    tables: list[LoadedTable]
    actor_id: str | None
    commit_id: str | None
    engine: str


class SnapshotTable(TypedDict):
    """One type in a snapshot: its path, version, branch and row count."""

    table_key: str
    table_path: str
    table_version: int
    table_branch: str | None
    row_count: int


class SnapshotOutput(TypedDict):
    """The types of a branch, each with its version."""

    branch: str
    manifest_version: int
    tables: list[SnapshotTable]
    commit_id: str


class SchemaOutput(TypedDict):
    """The source text of the accepted schema."""

    schema_source: str


class SchemaPlanOutput(TypedDict):
    """The migration steps to another schema.

    `blockers` lists reasons, beside unsupported steps, for which the schema cannot be applied.
    """

    uri: str
    supported: bool
    step_count: int
    steps: list[Row]
    blockers: list[str]


class SchemaApplyOutput(TypedDict):
    """The result of a schema migration."""

    uri: str
    supported: bool
    applied: bool
    step_count: int
    manifest_version: int | None
    steps: list[Row]
    commit_id: str | None


class BranchList(TypedDict):
    """The names of the branches, sorted."""

    branches: list[str]


BranchCreated = TypedDict(
    "BranchCreated",
    {"uri": str, "from": str, "name": str, "actor_id": str | None},
)
"""A branch that was created."""


class BranchDeleted(TypedDict):
    """A branch that was deleted."""

    uri: str
    name: str
    actor_id: str | None


class MergeConflict(TypedDict):
    """A row with a merge conflict that the caller must resolve."""

    table_key: str
    row_id: str | None
    kind: str
    message: str


class ConflictOutput(MergeConflict):
    """A row that both sides of a merge changed, with its three row versions (null: absent)."""

    base: Row | None
    source: Row | None
    target: Row | None


class MergeOutput(TypedDict):
    """The outcome of a merge, or the expected outcome in a dry run."""

    source: str
    target: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged", "conflicts"]
    actor_id: str | None
    commit_id: str | None
    conflicts: NotRequired[list[ConflictOutput]]
    branch_deleted: NotRequired[bool]


class ReplayOutput(TypedDict):
    """The outcome of a revert or a cherry-pick."""

    branch: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged", "conflicts"]
    actor_id: str | None
    commit_id: str | None


class CommitOutput(TypedDict):
    """One commit in the history.

    `manifest_branch` is null for `main`. `created_at` is in microseconds since 1970-01-01 UTC.
    `recovery` is the kind of recovery that published the commit, or null.
    """

    graph_commit_id: str
    manifest_branch: str | None
    manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    schema_hash: str | None
    reverted_commit_id: str | None
    picked_commit_id: str | None
    recovery: str | None


class CommitList(TypedDict):
    """The commits of a branch, oldest first."""

    commits: list[CommitOutput]


class HeadOutput(TypedDict):
    """The head commit of a branch."""

    branch: str
    commit_id: str


class ExplainOutput(TypedDict):
    """The execution plan of a read, as text."""

    plan: str


class ChangeEntry(TypedDict):
    """A node or edge that differs between two states, with both row versions (null: absent)."""

    kind: str
    type: str
    id: str
    op: str
    before: Row | None
    after: Row | None


class ChangeCounts(TypedDict):
    """The total number of changes by operation, and the types that they affect."""

    inserts: int
    updates: int
    deletes: int
    types_affected: list[str]


class DiffOutput(TypedDict):
    """A page of the changes between two commits.

    `next_page_token` requests the next page; it is null on the last one.
    """

    old_commit_id: str | None
    new_commit_id: str
    stats: ChangeCounts
    changes: list[ChangeEntry]
    next_page_token: str | None


class CommitChangesOutput(TypedDict):
    """One commit of a change feed, with the first of its changes.

    If `next_page_token` is not null, the commit has more changes: pass the token to a diff between
    the commit and its parent.
    """

    cursor: str
    commit: CommitOutput
    stats: ChangeCounts
    changes: list[ChangeEntry]
    next_page_token: str | None


class FeedOutput(TypedDict):
    """The next commits of a change feed, and the cursor from which to continue."""

    branch: str
    commits: list[CommitChangesOutput]
    cursor: str


class TagOutput(TypedDict):
    """A tag and the commit that it names."""

    name: str
    commit_id: str


class TagList(TypedDict):
    """The tags, sorted by name."""

    tags: list[TagOutput]


class TagDeleted(TypedDict):
    """A tag that was deleted."""

    name: str


class EntityOutput(TypedDict):
    """A node or edge; `entity` is null if it does not exist."""

    type: str
    id: str
    entity: Row | None


class TableOutcomeOutput(TypedDict):
    """The versions of one type before and after a recovery."""

    table_key: str
    from_version: int
    to_version: int


class RecoveryOutput(TypedDict):
    """The recovery of an interrupted write, and its outcome."""

    graph_commit_id: str
    recovery_kind: str
    recovery_for_actor: str | None
    operation_id: str
    writer_kind: str
    tables: list[TableOutcomeOutput]
    created_at: int


class RecoveryList(TypedDict):
    """The recoveries, oldest first."""

    recoveries: list[RecoveryOutput]


JobStatus = Literal["waiting", "running", "done", "failed", "cancelled"]


class JobError(TypedDict):
    """The error of a failed job, with the fields that a synchronous request would return."""

    status: int
    error: str
    code: ErrorCode
    error_type: NotRequired[str]
    details: NotRequired[Row]


class JobOutput(TypedDict):
    """A background load: its progress, and its result or error."""

    job_id: str
    graph_id: str
    status: JobStatus
    stage: str | None
    done: int
    total: int | None
    result: IngestOutput | None
    error: JobError | None


class JobList(TypedDict):
    """The jobs of the caller, oldest first."""

    jobs: list[JobOutput]


class ParameterOutput(TypedDict):
    """A parameter of a stored query."""

    name: str
    kind: str
    item_kind: NotRequired[str]
    vector_dim: NotRequired[int]
    nullable: bool


class StoredQueryOutput(TypedDict):
    """A stored query as it is listed for tools."""

    name: str
    tool_name: str
    description: NotRequired[str]
    instruction: NotRequired[str]
    mutation: bool
    params: list[ParameterOutput]


class QueryList(TypedDict):
    """The stored queries, sorted by name."""

    queries: list[StoredQueryOutput]


class HealthOutput(TypedDict):
    """The health of the server, and its version."""

    status: Literal["ok"]
    version: str
    source_version: NotRequired[str]


class GraphOutput(TypedDict):
    """A graph that the server serves."""

    graph_id: str
    uri: str


class GraphList(TypedDict):
    """The graphs that the server serves, sorted by id."""

    graphs: list[GraphOutput]


class QuarantinedOutput(TypedDict):
    """A graph that the server does not serve, and the reason."""

    graph_id: str
    reason: str


class ReloadOutput(TypedDict):
    """The graphs that are served after a reload, and the revision of the cluster."""

    revision: int | None
    graphs: list[str]
    quarantined: list[QuarantinedOutput]


class ManifestConflict(TypedDict):
    """The version of a type that a write expected, and the version that it found."""

    table_key: str
    expected: int
    actual: int


class ErrorOutput(TypedDict):
    """The reason why a request was rejected or failed.

    Clients should branch on `code`. `error_type` is the class that the Python client raises, and
    `details` holds the fields of that class.
    """

    error: str
    code: ErrorCode
    error_type: NotRequired[str]
    details: NotRequired[Row]
    merge_conflicts: NotRequired[list[MergeConflict]]
    manifest_conflict: NotRequired[ManifestConflict]


class PassageOutput(TypedDict):
    """One node of a retrieval: its rank, counted from 1, and its properties, also as text."""

    rank: int
    type: str
    id: str
    score: float
    text: str
    properties: Row


class RetrievalOutput(TypedDict):
    """The result of a retrieval: one text for a prompt, and the passages that it consists of.

    Store the receipt and send it back unchanged to repeat the retrieval. Its `places` explain why
    each passage was selected.
    """

    text: str
    tokens: int
    left_out: int
    passages: list[PassageOutput]
    receipt: Row
