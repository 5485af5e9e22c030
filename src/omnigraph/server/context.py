"""`RequestContext` and `ServerContext`, the declaration of a route, and the response cache.

A route uses the context in one order: body, permission, admission, engine. Engine calls run on
worker threads as the actor of the request. Cached responses are keyed by commit, so they never
become stale; the cache is bounded in bytes and holds only responses that are equal for all callers.
The module knows no sockets; its errors become responses in `app`.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Hashable,
    Iterator,
    Mapping,
)
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from threading import Event, Thread
from typing import TypeVar
from urllib.parse import parse_qs, unquote

from omnigraph.engine.graph import Graph
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.read.entities import LruCache
from omnigraph.http.stored_queries import StoredQuery
from omnigraph.model.errors import NotFoundError, PolicyDeniedError
from omnigraph.model.limits import CACHED_RESPONSE_BYTES_MAX, RESPONSE_CACHE_BYTES_MAX
from omnigraph.model.names import MAIN
from omnigraph.model.ports import UNTOLD_BRANCH, Access, Action
from omnigraph.server.admission import Admission, Workers, close_all
from omnigraph.server.jobs import Jobs
from omnigraph.server.lifecycle import Prepared, Revision, RevisionHolder
from omnigraph.server.requests import require_json
from omnigraph.server.responses import Response, StreamingResponse, bad_request, forbidden
from omnigraph.server.startup import Judge, ServedGraph, address_of
from omnigraph.server.telemetry import Log, Tracing

_OVERHEAD_BYTES = 512
"""Approximate size of a cache entry besides its texts."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Everything that determines a response: query, parameters, commit and format.

    `origin` identifies how the graph was opened: another embedding provider gives other results.
    """

    graph_id: str
    origin: Hashable
    commit_id: str
    branch: str
    source: str
    name: str | None
    params: str
    is_arrow: bool


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """A response body and the values of its headers."""

    commit_id: str
    query_name: str
    body: bytes


class ResponseCache:
    """The most recently used responses, bounded in bytes; safe to share between threads."""

    def __init__(self) -> None:
        self._kept: LruCache[CacheKey, tuple[KeptAnswer, int]] = LruCache(
            bytes_max=RESPONSE_CACHE_BYTES_MAX, size_of=lambda each: each[1]
        )

    def find(self, question: CacheKey) -> KeptAnswer | None:
        """The cached response, if any."""
        found = self._kept.find(question)
        return None if found is None else found[0]

    def keep(self, question: CacheKey, answer: KeptAnswer) -> None:
        """Cache a response, unless it is long or of another commit than the key."""
        texts = len(answer.body) + len(question.source) + len(question.params)
        if answer.commit_id == question.commit_id and texts <= CACHED_RESPONSE_BYTES_MAX:
            self._kept.keep(question, (answer, texts + _OVERHEAD_BYTES))


def depends_on_time(source: str) -> bool:
    """Whether a query may depend on the current time: the word `now` occurs in its text."""
    return "now" in source.lower()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The state that all requests of a server share."""

    serving: RevisionHolder
    reload: Callable[[], Prepared]
    reads: Workers
    writes: Workers
    admission: Admission
    answers: ResponseCache
    jobs: Jobs
    tracing: Tracing
    log: Log

    def close(self, *, within_s: float) -> bool:
        """Close the graphs once the running calls end; False if they exceed the time limit."""
        # A job receives a stop request but may be in a step that cannot be interrupted.
        stopping = Thread(target=self.jobs.close, daemon=True)
        stopping.start()
        is_done = close_all((self.reads, self.writes), stopping, within_s=within_s)
        self.serving.close()
        return is_done


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request whose caller is authenticated and whose body is read."""

    means: ServerContext
    revision: Revision
    served: ServedGraph | None
    actor: str | None
    request_id: str
    operation: str
    body: bytes
    names: Mapping[str, str]
    query_string: bytes
    headers: Mapping[bytes, bytes]
    cancelled: Event
    """Set when the client no longer waits for the response."""

    # Request

    @property
    def graph_id(self) -> str:
        """The id of the graph in the path."""
        return self._served.id

    @property
    def uri(self) -> str:
        """The address of that graph for callers: a path of this server, never of its storage."""
        return address_of(self._served.id)

    @property
    def queries(self) -> Mapping[str, StoredQuery]:
        """The stored queries of that graph, by name."""
        return self._served.queries

    @property
    def origin(self) -> Hashable:
        """The identity of the settings that the graph was opened with."""
        return self._served.origin

    @property
    def is_managed(self) -> bool:
        """Whether only a cluster may change the schema of that graph."""
        return self._served.is_managed

    def name(self, parameter: str) -> str:
        """A path parameter, percent-decoded; routes are matched before `a%2Fb` is decoded."""
        return _decode(self.names[parameter], subject=parameter)

    def argument(self, name: str) -> str | None:
        """A query parameter; the last value if it is repeated, None if it is absent."""
        found = parse_arguments(self.query_string)
        return found[name][-1] if name in found else None

    def header(self, name: str) -> str | None:
        """A header of the request, by its lower-case name."""
        found = self.headers.get(name.encode("ascii"))
        return None if found is None else found.decode("latin-1")

    def require_typed(self) -> None:
        """Raise 415 unless the request is declared to be JSON, even if its body is empty.

        A page of another site cannot send that type without the server's consent, so a write that
        needs no body requires it too.
        """
        require_json(self.header("content-type") or "")

    @property
    def limits(self) -> CallLimits:
        """The limits of a query of this request, so that it stops when its client disconnects."""
        return CallLimits(cancelled=self.cancelled)

    # Permissions

    def require(self, action: Action, *, branch: str | None, target: str | None) -> None:
        """Raise `ForbiddenError` (403) unless the policy of the graph allows the action."""
        gate = self._served.gate
        if gate is not None:
            self._require(gate, Access(self.actor, action, branch, target))

    def require_of_server(self, action: Action) -> None:
        """Raise 403 unless the caller may perform an action on the server itself.

        With tokens but without a server policy, no caller may; without tokens, any caller may.
        """
        gate = self.revision.gate
        if gate is None and not self.revision.tokens:
            return
        if gate is None:
            raise forbidden(f"no policy of this server allows '{action}' to anybody")
        self._require(gate, Access(self.actor, action, None, None))

    def _require(self, gate: Judge, asked: Access) -> None:
        decision = gate.decide(asked)
        self.means.log.event(
            "policy decision",
            actor=asked.actor,
            action=asked.action,
            branch=asked.branch,
            target=asked.target,
            allowed=decision.is_allowed,
            rule=decision.rule,
        )
        if not decision.is_allowed:
            raise decision.error

    def hidden_graphs(self) -> frozenset[str]:
        """The ids of the graphs that the caller may neither list nor read."""
        gate = self.revision.gate
        listing = Access(self.actor, Action.GRAPH_LIST, None, None)
        if not self.revision.tokens or (gate is not None and gate.decide(listing).is_allowed):
            return frozenset()
        return frozenset(
            id
            for id, each in self.revision.graphs.items()
            if each.gate is not None
            and not any(
                each.gate.decide(Access(self.actor, Action.READ, branch, None)).is_allowed
                for branch in (None, MAIN)
            )
        )

    def sees_all(self, branch: str) -> bool:
        """Whether a caller that may read a branch sees all of its rows."""
        gate = self._served.gate
        return gate is None or gate.view(Access(self.actor, Action.READ, branch, None)) is None

    def admit(self, request_bytes: int) -> AbstractContextManager[None]:
        """A block that counts as one write of the caller; 429 if it has too many in progress."""
        return self.means.admission.admit(self.actor, request_bytes=request_bytes)

    # Engine calls

    async def read(self, work: Callable[[Graph], T]) -> T:
        """Run a read of the graph with the caller's permissions on a read thread."""
        return await self.means.reads.run(partial(self._traced, work))

    async def write(self, work: Callable[[Graph], T]) -> T:
        """Run a write to the graph as the caller on a write thread."""
        return await self.means.writes.run(partial(self._traced, work))

    async def stream(
        self, work: Callable[[Graph], Iterator[bytes]], *, content_type: bytes
    ) -> StreamingResponse:
        """A streamed response whose pieces are read as fast as the client receives them.

        The first piece is read before the response starts, so errors in the request still get an
        error status. No thread waits for the client: a thread is in use only while a piece is read.
        """
        pieces = await self.read(work)
        first = await self.means.reads.run(partial(next, pieces, None))
        return StreamingResponse(200, content_type, self._follow(first, pieces), ())

    async def _follow(
        self, first: bytes | None, pieces: Iterator[bytes]
    ) -> AsyncGenerator[bytes, None]:
        piece = first
        try:
            while piece is not None:
                yield piece
                piece = await self.means.reads.run(partial(next, pieces, None))
        finally:
            # The rows are protected from cleanup until the iterator ends.
            if isinstance(pieces, Generator):
                await self.means.reads.run(pieces.close)

    def run(self, work: Callable[[Graph], T]) -> T:
        """Run work on the graph with the caller's permissions, on the calling thread.

        Errors reveal branch names that the caller did not send only to callers that may list
        branches.
        """
        try:
            return work(self._served.for_actor(self.actor))
        except NotFoundError as error:
            if error.kind != "branch" or self._may_list_branches():
                raise
            # The advice would list existing branches.
            raise NotFoundError(kind=error.kind, name=error.name, advice="") from None
        except PolicyDeniedError as error:
            if error.branch is None or self._may_list_branches():
                raise
            # The caller may have named a commit or a tag, whose branch the policy checked.
            raise PolicyDeniedError(
                actor=error.actor,
                action=error.action,
                branch=None,
                target=error.target,
                reason=UNTOLD_BRANCH,
            ) from None

    def _traced(self, work: Callable[[Graph], T]) -> T:
        with self.means.tracing.operation(self.operation, graph_id=self.graph_id):
            return self.run(work)

    def _may_list_branches(self) -> bool:
        gate = self._served.gate
        return gate is None or gate.decide(Access(self.actor, Action.READ, None, None)).is_allowed

    @property
    def _served(self) -> ServedGraph:
        assert self.served is not None, "the route's path names no graph"
        return self.served


def parse_arguments(query_string: bytes) -> Mapping[str, list[str]]:
    """The query parameters of a request by name; 400 if not percent-encoded UTF-8."""
    if not query_string:
        return {}
    try:
        return parse_qs(query_string.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise bad_request("the query string is not percent-encoded UTF-8") from error


def _decode(text: str, *, subject: str) -> str:
    try:
        return unquote(text, encoding="utf-8", errors="strict")
    except UnicodeDecodeError as error:
        raise bad_request(f"the {subject} in the path is no percent-encoded UTF-8") from error


GRAPH = "/graphs/{graph_id}"
"""The path prefix of every route of a graph."""


class Body(StrEnum):
    """The kind of body that a route reads."""

    NONE = "none"
    JSON = "json"
    OPTIONAL_JSON = "optional_json"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. `bytes_max` bounds the body."""

    method: str
    path: str
    body: Body
    bytes_max: int
    answer: Callable[[RequestContext], Awaitable[Response | StreamingResponse]]

    @property
    def operation(self) -> str:
        """A short name of the operation, made from the constant segments of its path."""
        named = self.path.removeprefix(GRAPH).split("/")
        return ".".join(each for each in named if each and not each.startswith("{"))
