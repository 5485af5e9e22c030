"""What the server answers: the shape of each body, as the OpenAPI document tells it.

Plain dicts when they are sent, so that nothing stands between them and their bytes; a type checker
holds whoever makes one to its shape. Making them is `wire`'s.
"""

from __future__ import annotations

from typing import Literal, NotRequired

# Before Python 3.12 pydantic reads no other.
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
    """What was read: a branch, or a commit."""

    branch: str | None
    snapshot: str | None


class ReadOutput(TypedDict):
    """The rows that a query found, at one commit."""

    query_name: str
    target: Target
    row_count: int
    columns: NotRequired[list[str]]
    rows: list[Row]
    commit_id: str


class ChangeOutput(TypedDict):
    """What a mutation touched; no commit if that was nothing."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit_id: str | None


class LoadedTable(TypedDict):
    """How many rows of a type came in."""

    table_key: str
    rows_loaded: int


class IngestOutput(TypedDict):
    """What a load brought in, as which commit."""

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
    """One type in a snapshot."""

    table_key: str
    table_path: str
    table_version: int
    table_branch: str | None
    row_count: int


class SnapshotOutput(TypedDict):
    """The types of a branch, each at its version."""

    branch: str
    manifest_version: int
    tables: list[SnapshotTable]
    commit_id: str


class SchemaOutput(TypedDict):
    """The text of the accepted schema."""

    schema_source: str


class SchemaPlanOutput(TypedDict):
    """The steps to another schema."""

    uri: str
    supported: bool
    step_count: int
    steps: list[Row]


class SchemaApplyOutput(TypedDict):
    """What was done to the schema."""

    uri: str
    supported: bool
    applied: bool
    step_count: int
    manifest_version: int | None
    steps: list[Row]
    commit_id: str | None


class BranchList(TypedDict):
    """The branches, by name."""

    branches: list[str]


BranchCreated = TypedDict(
    "BranchCreated",
    {"uri": str, "from": str, "name": str, "actor_id": str | None},
)
"""A branch that was started."""


class BranchDeleted(TypedDict):
    """A branch that is gone."""

    uri: str
    name: str
    actor_id: str | None


class ConflictOutput(TypedDict):
    """One row that both sides of a merge changed, with its three images (null: absent)."""

    table_key: str
    row_id: str | None
    kind: str
    message: str
    base: Row | None
    source: Row | None
    target: Row | None


class MergeOutput(TypedDict):
    """What became of a merge, or would become of it."""

    source: str
    target: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged", "conflicts"]
    actor_id: str | None
    commit_id: str | None
    conflicts: NotRequired[list[ConflictOutput]]


class ReplayOutput(TypedDict):
    """What became of undoing a commit, or of doing it again elsewhere."""

    branch: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged", "conflicts"]
    actor_id: str | None
    commit_id: str | None


class CommitOutput(TypedDict):
    """One entry of history; `manifest_branch` is null on `main`, times are microseconds."""

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


class CommitList(TypedDict):
    """The commits of a branch, oldest first."""

    commits: list[CommitOutput]


class HeadOutput(TypedDict):
    """The commit that a branch is at."""

    branch: str
    commit_id: str


class ExplainOutput(TypedDict):
    """How a read would be run."""

    plan: str


class ChangeEntry(TypedDict):
    """One node or edge that two states differ in, with its images (null: absent)."""

    kind: str
    type: str
    id: str
    op: str
    before: Row | None
    after: Row | None


class ChangeCounts(TypedDict):
    """How many changes there are in all, and in which types."""

    inserts: int
    updates: int
    deletes: int
    types_affected: list[str]


class DiffOutput(TypedDict):
    """A page of what changed between two commits; a token leads to the next."""

    old_commit_id: str | None
    new_commit_id: str
    stats: ChangeCounts
    changes: list[ChangeEntry]
    next_page_token: str | None


class CommitChangesOutput(TypedDict):
    """A commit of a change feed. With a token there is more: it is for a diff of the commit with
    its parent."""

    cursor: str
    commit: CommitOutput
    stats: ChangeCounts
    changes: list[ChangeEntry]
    next_page_token: str | None


class FeedOutput(TypedDict):
    """The next commits of a change feed, and where it goes on."""

    branch: str
    commits: list[CommitChangesOutput]
    cursor: str


class TagOutput(TypedDict):
    """A name for a commit."""

    name: str
    commit_id: str


class TagList(TypedDict):
    """The tags, by name."""

    tags: list[TagOutput]


class TagDeleted(TypedDict):
    """A tag that is gone."""

    name: str


class EntityOutput(TypedDict):
    """One node or edge; null if it is not there."""

    type: str
    id: str
    entity: Row | None


class TableOutcomeOutput(TypedDict):
    """Where a recovery took one type."""

    table_key: str
    from_version: int
    to_version: int


class RecoveryOutput(TypedDict):
    """A write that had stopped half-way, and how it was ended."""

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
    """Why a job failed, as its request would have been told."""

    status: int
    error: str
    code: ErrorCode
    error_type: NotRequired[str]
    details: NotRequired[Row]


class JobOutput(TypedDict):
    """A load that runs by itself: how far it is, and what became of it."""

    job_id: str
    graph_id: str
    status: JobStatus
    stage: str | None
    done: int
    total: int | None
    result: IngestOutput | None
    error: JobError | None


class JobList(TypedDict):
    """The caller's jobs, oldest first."""

    jobs: list[JobOutput]


class ParameterOutput(TypedDict):
    """A parameter of a stored query."""

    name: str
    kind: str
    item_kind: NotRequired[str]
    vector_dim: NotRequired[int]
    nullable: bool


class StoredQueryOutput(TypedDict):
    """A stored query as tools see it."""

    name: str
    tool_name: str
    description: NotRequired[str]
    instruction: NotRequired[str]
    mutation: bool
    params: list[ParameterOutput]


class QueryList(TypedDict):
    """The stored queries, by name."""

    queries: list[StoredQueryOutput]


class HealthOutput(TypedDict):
    """The server answers."""

    status: Literal["ok"]
    version: str
    source_version: NotRequired[str]


class GraphOutput(TypedDict):
    """A graph that is served."""

    graph_id: str
    uri: str


class GraphList(TypedDict):
    """The graphs that are served, by id."""

    graphs: list[GraphOutput]


class QuarantinedOutput(TypedDict):
    """A graph that is not served, and why."""

    graph_id: str
    reason: str


class ReloadOutput(TypedDict):
    """What is served now: the revision of the cluster, and the ids of its graphs."""

    revision: int | None
    graphs: list[str]
    quarantined: list[QuarantinedOutput]


class ManifestConflict(TypedDict):
    """The version of a type that a write was prepared for, and the one that it found."""

    table_key: str
    expected: int
    actual: int


class MergeConflict(TypedDict):
    """One row that needs a decision."""

    table_key: str
    row_id: str | None
    kind: str
    message: str


class ErrorOutput(TypedDict):
    """Why a request was refused or failed; callers decide by `code`.

    `error_type` is the class that the Python client raises, and `details` holds its fields.
    """

    error: str
    code: ErrorCode
    error_type: NotRequired[str]
    details: NotRequired[Row]
    merge_conflicts: NotRequired[list[MergeConflict]]
    manifest_conflict: NotRequired[ManifestConflict]
