"""How the OpenAPI document tells of a route: what it takes, what it gives, how it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

GRAPH = "/graphs/{graph_id}"


class Tag(StrEnum):
    """The chapters of the document."""

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
    """Something that follows `?`, or a header."""

    name: str
    description: str
    is_required: bool = False
    place: str = "query"
    kind: str = "string"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    `answer` holds the shapes that its JSON may have; none where it gives something else, of a type
    that `media` names. `statuses` are those of its errors besides those that every operation has.
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
"""On what terms a write is asked for."""

READS = (400, 403, 404, 409, 413, 500)
"""How a read may be refused."""

WRITES = (400, 403, 404, 409, 412, 413, 429, 500, 503)
"""How a write may be refused."""
