"""The table of operations: parameters, bodies, responses and texts of each route.

The OpenAPI document is generated from this table, and a test compares the table with the routes.
The module is data only: it handles no request.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.http import responses
from omnigraph.http.responses import RetrievalOutput
from omnigraph.server import requests

GRAPH = "/graphs/{graph_id}"


class Tag(StrEnum):
    """The sections of the document."""

    HEALTH = "health"
    MANAGEMENT = "management"
    SNAPSHOTS = "snapshots"
    QUERIES = "queries"
    MUTATIONS = "mutations"
    SCHEMA = "schema"
    BRANCHES = "branches"
    COMMITS = "commits"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or a header."""

    name: str
    description: str
    is_required: bool = False
    place: str = "query"
    kind: str = "string"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    `answer` holds the shapes of its JSON response; it is empty if the response has another type,
    which `media` names. `statuses` are the error statuses beyond those that every operation has.
    """

    method: str
    path: str
    id: str
    tag: Tag
    summary: str
    answer: tuple[type, ...]
    statuses: tuple[int, ...]
    request: type | None = None
    is_body_required: bool = True
    parameters: tuple[Parameter, ...] = ()
    media: tuple[str, ...] = ()
    success: int = 200
    also: tuple[tuple[int, tuple[type, ...]], ...] = ()
    is_deprecated: bool = False

    @property
    def is_of_graph(self) -> bool:
        """Whether its path names a graph."""
        return self.path.startswith(GRAPH)


ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
BYTES = "application/octet-stream"

TERMS = (
    Parameter(
        "Omnigraph-If-Graph-Commit",
        "Write only if the branch is at this commit (412 otherwise).",
        place="header",
    ),
    Parameter(
        "Idempotency-Key",
        "A key of your own. The same request with the same key is carried out once, and answered "
        "again.",
        place="header",
    ),
)
"""The headers that set the options of a write."""

READS = (400, 403, 404, 409, 413, 500)
"""The error statuses of a read."""

WRITES = (400, 403, 404, 409, 412, 413, 429, 500, 503)
"""The error statuses of a write."""


AGENT_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        f"{GRAPH}/queries",
        "list_queries",
        Tag.QUERIES,
        "The catalog of stored queries",
        (responses.QueryList,),
        (403,),
    ),
    Operation(
        "POST",
        f"{GRAPH}/queries/{{name}}",
        "invoke_query",
        Tag.QUERIES,
        "Run a stored query, a read or a mutation",
        (responses.ReadOutput, responses.ChangeOutput),
        WRITES,
        request=requests.InvokeRequest,
        is_body_required=False,
        parameters=TERMS,
        media=(ARROW,),
    ),
    Operation(
        "POST",
        f"{GRAPH}/retrieve",
        "retrieve",
        Tag.QUERIES,
        "What a branch or commit holds about a text, for a prompt",
        (RetrievalOutput,),
        READS,
        request=requests.RetrieveRequest,
    ),
    Operation(
        "POST",
        f"{GRAPH}/retrieve-by",
        "retrieveBy",
        Tag.QUERIES,
        "The same for the nodes that a read finds",
        (RetrievalOutput,),
        READS,
        request=requests.RetrieveByRequest,
    ),
    Operation(
        "POST",
        f"{GRAPH}/queries/{{name}}/retrieve",
        "retrieveByStoredQuery",
        Tag.QUERIES,
        "The same for the nodes that a stored query finds",
        (RetrievalOutput,),
        READS,
        request=requests.RetrieveStoredRequest,
        is_body_required=False,
    ),
    Operation(
        "POST",
        f"{GRAPH}/replay",
        "replay",
        Tag.QUERIES,
        "The answer that a receipt was given out with, again",
        (RetrievalOutput,),
        READS,
        request=requests.ReplayRequest,
    ),
)


_BRANCH = Parameter("branch", "A branch; `main` if none is named.")
_SNAPSHOT = Parameter("snapshot", "The id of a commit, or a tag; not together with a branch.")
_HEAD_TERM = TERMS[:1]
_LIMIT = Parameter("limit", "How many changes to answer.", kind="integer")
_OF_ROW = (
    Parameter("type", "The name of a node or edge type.", is_required=True),
    Parameter("id", "The id of the node or edge.", is_required=True),
)
_LINES = (
    Parameter("branch", "The branch of rows that are the body itself; `main` if absent."),
    Parameter("from", "Where to start that branch if it does not exist."),
    Parameter("mode", "`merge`, `append` or `overwrite`."),
    Parameter("engine", "`auto`, `inline` or `spark`."),
    Parameter("embed", "When empty `@embed` properties are filled: `now` or `later`."),
    Parameter("async", "With `true` the load goes on by itself, as a job.", kind="boolean"),
    Parameter("name", "What messages call rows that are the body itself."),
)
_LOOKS = (400, 403, 404, 409, 500)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/healthz",
        "health",
        Tag.HEALTH,
        "Whether the server answers",
        (responses.HealthOutput,),
        (),
    ),
    Operation(
        "GET",
        "/graphs",
        "listGraphs",
        Tag.MANAGEMENT,
        "The graphs that are served, by id",
        (responses.GraphList,),
        (403,),
    ),
    Operation(
        "POST",
        "/admin/reload",
        "reload",
        Tag.MANAGEMENT,
        "Serve what was applied meanwhile, without a request being dropped",
        (responses.ReloadOutput,),
        (403, 409, 429),
    ),
    # Reads
    Operation(
        "POST",
        f"{GRAPH}/query",
        "query",
        Tag.QUERIES,
        "Run a read and answer its rows, as JSON or as an Arrow stream",
        (responses.ReadOutput,),
        READS,
        request=requests.QueryRequest,
        media=(ARROW,),
    ),
    Operation(
        "POST",
        f"{GRAPH}/read",
        "read",
        Tag.QUERIES,
        "Run a read: the field names of before; use `query`",
        (responses.ReadOutput,),
        READS,
        request=requests.ReadRequest,
        media=(ARROW,),
        is_deprecated=True,
    ),
    Operation(
        "POST",
        f"{GRAPH}/explain",
        "explain",
        Tag.QUERIES,
        "How a read would be run now, as text",
        (responses.ExplainOutput,),
        READS,
        request=requests.ExplainRequest,
    ),
    *AGENT_OPERATIONS,
    Operation(
        "GET",
        f"{GRAPH}/entity",
        "getEntity",
        Tag.QUERIES,
        "One node or edge; null if it is not there",
        (responses.EntityOutput,),
        _LOOKS,
        parameters=(*_OF_ROW, _BRANCH, _SNAPSHOT),
    ),
    Operation(
        "GET",
        f"{GRAPH}/blob",
        "getBlob",
        Tag.QUERIES,
        "The bytes of a blob, or a range of them",
        (),
        (*_LOOKS, 416),
        parameters=(
            *_OF_ROW,
            Parameter("property", "The property that holds the blob.", is_required=True),
            _BRANCH,
            _SNAPSHOT,
            Parameter("Range", "`bytes=<first>-[<last>]`", place="header"),
        ),
        media=(BYTES,),
        also=((206, ()),),
    ),
    # Writes
    Operation(
        "POST",
        f"{GRAPH}/mutate",
        "mutate",
        Tag.MUTATIONS,
        "Run a mutation as one commit, or change nothing",
        (responses.ChangeOutput,),
        WRITES,
        request=requests.MutateRequest,
        parameters=TERMS,
    ),
    Operation(
        "POST",
        f"{GRAPH}/change",
        "change",
        Tag.MUTATIONS,
        "Run a mutation; use `mutate`",
        (responses.ChangeOutput,),
        WRITES,
        request=requests.MutateRequest,
        parameters=TERMS,
        is_deprecated=True,
    ),
    Operation(
        "POST",
        f"{GRAPH}/load",
        "load",
        Tag.MUTATIONS,
        "Load rows of any number of types as one commit, or change nothing",
        (responses.IngestOutput,),
        WRITES,
        request=requests.LoadRequest,
        parameters=(*_LINES, *TERMS),
        also=((202, (responses.JobOutput,)),),
    ),
    Operation(
        "POST",
        f"{GRAPH}/ingest",
        "ingest",
        Tag.MUTATIONS,
        "Load rows; use `load`",
        (responses.IngestOutput,),
        WRITES,
        request=requests.LoadRequest,
        parameters=(*_LINES, *TERMS),
        also=((202, (responses.JobOutput,)),),
        is_deprecated=True,
    ),
    Operation(
        "GET",
        f"{GRAPH}/jobs",
        "listJobs",
        Tag.MUTATIONS,
        "Your loads that run by themselves, oldest first",
        (responses.JobList,),
        (),
    ),
    Operation(
        "GET",
        f"{GRAPH}/jobs/{{job_id}}",
        "getJob",
        Tag.MUTATIONS,
        "How far a load is, and what became of it",
        (responses.JobOutput,),
        (404,),
    ),
    Operation(
        "DELETE",
        f"{GRAPH}/jobs/{{job_id}}",
        "cancelJob",
        Tag.MUTATIONS,
        "Tell a load to stop; nothing is written unless it was done already",
        (responses.JobOutput,),
        (404,),
    ),
    # Schema
    Operation(
        "GET",
        f"{GRAPH}/schema",
        "getSchema",
        Tag.SCHEMA,
        "The text of the accepted schema",
        (responses.SchemaOutput,),
        (403, 409, 500),
    ),
    Operation(
        "POST",
        f"{GRAPH}/schema/plan",
        "planSchema",
        Tag.SCHEMA,
        "The steps to another schema; nothing is changed",
        (responses.SchemaPlanOutput,),
        READS,
        request=requests.SchemaRequest,
    ),
    Operation(
        "POST",
        f"{GRAPH}/schema/apply",
        "applySchema",
        Tag.SCHEMA,
        "Make a schema the graph's; 409 where a cluster decides about it",
        (responses.SchemaApplyOutput,),
        WRITES,
        request=requests.SchemaRequest,
        parameters=TERMS,
    ),
    # Branches
    Operation(
        "GET",
        f"{GRAPH}/branches",
        "listBranches",
        Tag.BRANCHES,
        "The branches, by name",
        (responses.BranchList,),
        (403, 409, 500),
    ),
    Operation(
        "POST",
        f"{GRAPH}/branches",
        "createBranch",
        Tag.BRANCHES,
        "Start a branch at the head of another",
        (responses.BranchCreated,),
        WRITES,
        request=requests.BranchRequest,
        parameters=_HEAD_TERM,
    ),
    Operation(
        "DELETE",
        f"{GRAPH}/branches/{{branch}}",
        "deleteBranch",
        Tag.BRANCHES,
        "Delete a branch and the commits that only it had",
        (responses.BranchDeleted,),
        WRITES,
        parameters=_HEAD_TERM,
    ),
    Operation(
        "POST",
        f"{GRAPH}/branches/merge",
        "mergeBranches",
        Tag.BRANCHES,
        "Merge a branch into another as one commit, or tell what would come of it",
        (responses.MergeOutput,),
        WRITES,
        request=requests.MergeRequest,
        parameters=TERMS,
    ),
    Operation(
        "GET",
        f"{GRAPH}/tags",
        "listTags",
        Tag.BRANCHES,
        "The tags, by name",
        (responses.TagList,),
        (403,),
    ),
    Operation(
        "POST",
        f"{GRAPH}/tags",
        "createTag",
        Tag.BRANCHES,
        "Name a commit, for good",
        (responses.TagOutput,),
        WRITES,
        request=requests.TagRequest,
    ),
    Operation(
        "DELETE",
        f"{GRAPH}/tags/{{tag}}",
        "deleteTag",
        Tag.BRANCHES,
        "Take a tag away; its commit stays",
        (responses.TagDeleted,),
        WRITES,
    ),
    # History
    Operation(
        "GET",
        f"{GRAPH}/snapshot",
        "getSnapshot",
        Tag.SNAPSHOTS,
        "The types of a branch, each at its version",
        (responses.SnapshotOutput,),
        _LOOKS,
        parameters=(_BRANCH,),
    ),
    Operation(
        "POST",
        f"{GRAPH}/export",
        "export",
        Tag.SNAPSHOTS,
        "The rows of a branch or commit as lines of JSON that a load reads",
        (),
        READS,
        request=requests.ExportRequest,
        is_body_required=False,
        media=(NDJSON,),
    ),
    Operation(
        "GET",
        f"{GRAPH}/head",
        "getHead",
        Tag.COMMITS,
        "The commit that a branch is at",
        (responses.HeadOutput,),
        _LOOKS,
        parameters=(_BRANCH,),
    ),
    Operation(
        "GET",
        f"{GRAPH}/commits",
        "listCommits",
        Tag.COMMITS,
        "The commits of a branch, oldest first",
        (responses.CommitList,),
        _LOOKS,
        parameters=(
            _BRANCH,
            Parameter(
                "actor",
                "Only commits of this actor; `omnigraph:recovery` for those a recovery made true.",
            ),
        ),
    ),
    Operation(
        "GET",
        f"{GRAPH}/commits/{{commit_id}}",
        "getCommit",
        Tag.COMMITS,
        "One commit, by its id or a tag",
        (responses.CommitOutput,),
        _LOOKS,
    ),
    Operation(
        "POST",
        f"{GRAPH}/commits/{{commit_id}}/revert",
        "revertCommit",
        Tag.COMMITS,
        "Undo a commit by a new one; later commits stay",
        (responses.ReplayOutput,),
        WRITES,
        request=requests.RevertRequest,
        is_body_required=False,
        parameters=TERMS,
    ),
    Operation(
        "POST",
        f"{GRAPH}/commits/{{commit_id}}/cherry-pick",
        "cherryPickCommit",
        Tag.COMMITS,
        "Do on a branch what a commit did elsewhere",
        (responses.ReplayOutput,),
        WRITES,
        request=requests.CherryPickRequest,
        is_body_required=False,
        parameters=TERMS,
    ),
    Operation(
        "GET",
        f"{GRAPH}/diff",
        "diff",
        Tag.COMMITS,
        "What changed from one branch, commit or tag to another, net, a page at a time",
        (responses.DiffOutput,),
        (*_LOOKS, 413),
        parameters=(
            Parameter("old", "A branch, a commit or a tag.", is_required=True),
            Parameter("new", "A branch, a commit or a tag.", is_required=True),
            Parameter("types", "Names of types, with commas between them; all if absent."),
            Parameter("ops", "Of insert, update and delete, with commas between them."),
            Parameter("engine", "`auto`, `local` or `spark`."),
            _LIMIT,
            Parameter("page_token", "The `next_page_token` of the page before."),
        ),
    ),
    Operation(
        "GET",
        f"{GRAPH}/changes",
        "listChanges",
        Tag.COMMITS,
        "What each commit of a branch changed, in order",
        (responses.FeedOutput,),
        (*_LOOKS, 413),
        parameters=(
            Parameter("start", "`now`, `beginning` or `after:<commit>`.", is_required=True),
            _BRANCH,
            Parameter("commits", "How many commits to answer, perhaps none.", kind="integer"),
            _LIMIT,
        ),
    ),
    Operation(
        "GET",
        f"{GRAPH}/recoveries",
        "listRecoveries",
        Tag.COMMITS,
        "Writes that had stopped half-way, and how they were ended",
        (responses.RecoveryList,),
        _LOOKS,
    ),
)
