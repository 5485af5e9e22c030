"""`ServerContext`, `RequestContext` and `Route`: what a handler gets, and how a route is declared.

A `Route` is declared once, beside its handler. Routing, validation, authorization, the thread pool,
admission control and the OpenAPI document all follow from that declaration. Engine calls run on
worker threads with the permissions of the caller. The module knows no sockets; its errors become
responses in `app`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial, wraps
from threading import Event, Thread
from typing import TypeVar
from urllib.parse import unquote

from omnigraph.engine.graph import Graph
from omnigraph.engine.read.budget import CallLimits
from omnigraph.http.responses import ReloadOutput
from omnigraph.http.stored_queries import StoredQuery
from omnigraph.model.errors import ForbiddenError, NotFoundError, PolicyDeniedError
from omnigraph.model.names import MAIN
from omnigraph.model.ports import UNTOLD_BRANCH, Access, Action, WriteConditions
from omnigraph.server.admission import Admission, Workers, close_all
from omnigraph.server.jobs import Jobs
from omnigraph.server.lifecycle import Revision, RevisionHolder
from omnigraph.server.requests import (
    IDEMPOTENCY_KEY,
    IF_COMMIT,
    NO_BODY,
    Body,
    Parameter,
    ReadTarget,
)
from omnigraph.server.responses import (
    AnyResponse,
    ResponseCache,
    StreamingResponse,
    bad_request,
    forbidden,
)
from omnigraph.server.startup import AnyGate, OpenGraph, address_of
from omnigraph.server.telemetry import Log, Tracing

GRAPH = "/graphs/{graph_id}"
"""The path prefix of every route of a graph."""

READ_STATUSES = (400, 403, 404, 409, 500)
BODY_STATUSES = (408, 413, 415, 422)
WRITE_STATUSES = (400, 403, 404, 409, 412, 413, 429, 500, 503)

T = TypeVar("T")


class Tag(StrEnum):
    """The sections of the OpenAPI document."""

    HEALTH = "health"
    MANAGEMENT = "management"
    SNAPSHOTS = "snapshots"
    QUERIES = "queries"
    MUTATIONS = "mutations"
    SCHEMA = "schema"
    BRANCHES = "branches"
    COMMITS = "commits"


class Pool(StrEnum):
    """The worker threads of a route; a write also counts against the limits of its actor."""

    READ = "read"
    WRITE = "write"


Scope = tuple[str | None, str | None]
"""The branch and the target branch that a permission is needed for."""


@dataclass(frozen=True, slots=True)
class Operation:
    """The entry of a route in the OpenAPI document.

    `outputs` are the shapes of the JSON response; `media` are the content types of other responses.
    `also` has further success statuses. `statuses` are the error statuses of the route itself; if
    it is None, they follow from the pool and the body.
    """

    id: str
    tag: Tag
    outputs: tuple[type, ...]
    media: tuple[str, ...] = ()
    also: tuple[tuple[int, tuple[type, ...]], ...] = ()
    statuses: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, with all its properties.

    `action` is the permission that the handler requires; if it is None, the engine or the handler
    checks access itself. `operation` is None for a route that the OpenAPI document leaves out, and
    `summary` is its one sentence there. `successor` is the last segment of the path that replaces a
    deprecated route.
    """

    method: str
    path: str
    respond: Callable[[RequestContext], Awaitable[AnyResponse]]
    body: Body[object]
    action: Action | None
    pool: Pool
    parameters: tuple[Parameter[object], ...]
    operation: Operation | None
    summary: str
    successor: str | None

    @property
    def name(self) -> str:
        """The operation name in traces, made from the constant segments of the path."""
        segments = self.path.removeprefix(GRAPH).split("/")
        return ".".join(each for each in segments if each and not each.startswith("{"))

    @property
    def is_of_graph(self) -> bool:
        """Whether the path names a graph."""
        return self.path.startswith(GRAPH)

    @property
    def query_parameters(self) -> frozenset[str]:
        """The names of the query parameters that the route accepts."""
        return frozenset(each.name for each in self.parameters if each.place == "query")

    @property
    def error_statuses(self) -> frozenset[int]:
        """The error statuses of the route, without that of authentication."""
        has_shape = self.body.shape is not None
        found = None if self.operation is None else self.operation.statuses
        if found is None and self.pool is Pool.WRITE:
            found = WRITE_STATUSES
        elif found is None:
            found = READ_STATUSES
        return frozenset(found) | {
            *(BODY_STATUSES if has_shape else ()),
            *((400, 404) if self.is_of_graph else ()),
        }


def route(
    pattern: str,
    operation: Operation | None,
    *,
    action: Action | None,
    scope: Callable[[RequestContext], Scope | None] = lambda call: (None, None),  # noqa: ARG005
    pool: Pool = Pool.READ,
    parameters: tuple[Parameter[object], ...] = (),
) -> Callable[[Callable[[RequestContext], Awaitable[AnyResponse]]], Route]:
    """Declare the route of a handler that reads no body; see `route_with_body`."""

    def declare(handler: Callable[[RequestContext], Awaitable[AnyResponse]]) -> Route:
        @wraps(handler)
        async def respond(call: RequestContext, _: None) -> AnyResponse:
            return await handler(call)

        return route_with_body(
            pattern,
            operation,
            NO_BODY,
            action=action,
            scope=lambda call, _: scope(call),
            pool=pool,
            parameters=parameters,
        )(respond)

    return declare


def route_with_body(
    pattern: str,
    operation: Operation | None,
    body: Body[T],
    *,
    action: Action | None,
    scope: Callable[[RequestContext, T], Scope | None] = lambda call, body: (None, None),  # noqa: ARG005
    pool: Pool = Pool.READ,
    parameters: tuple[Parameter[object], ...] = (),
) -> Callable[[Callable[[RequestContext, T], Awaitable[AnyResponse]]], Route]:
    """Declare the route of a handler, such as `GET /healthz`; its docstring is the summary.

    The body is decoded first. Then `action` is checked on the branches that `scope` returns, by
    default on the graph as a whole. If `scope` returns None, the handler or the engine checks
    access, for example on the branch of a commit.
    """

    def declare(handler: Callable[[RequestContext, T], Awaitable[AnyResponse]]) -> Route:
        async def respond(call: RequestContext) -> AnyResponse:
            decoded = body.decode(call.body)
            branches = None if action is None else scope(call, decoded)
            if branches is not None and action is not None:
                call.require(action, branch=branches[0], target=branches[1])
            return await handler(call, decoded)

        method, path = pattern.split()
        summary = (handler.__doc__ or "").removesuffix(".")
        return Route(
            method, path, respond, body, action, pool, parameters, operation, summary, None
        )

    return declare


def read_scope(target: ReadTarget) -> Scope | None:
    """The scope of a read; the engine checks access to a commit, on the branch of that commit."""
    return None if target.branch is None else (target.branch, None)


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The state that all requests of a server share."""

    revisions: RevisionHolder
    reload: Callable[[], ReloadOutput]
    reads: Workers
    writes: Workers
    admission: Admission
    cache: ResponseCache
    jobs: Jobs
    tracing: Tracing
    log: Log

    def close(self, *, within_s: float) -> bool:
        """Close the graphs once the running calls end; False if they exceed the time limit."""
        # A job receives a stop request but may be in a step that cannot be interrupted.
        stopping = Thread(target=self.jobs.close, daemon=True)
        stopping.start()
        is_done = close_all((self.reads, self.writes), stopping, within_s=within_s)
        self.revisions.close()
        return is_done


@dataclass(slots=True)
class RequestContext:
    """One request: first its headers, then the actor, the graph, the route and the body."""

    server: ServerContext
    revision: Revision
    request_id: str
    headers: Mapping[bytes, bytes]
    actor: str | None = None
    opened: OpenGraph | None = None
    route: Route | None = None
    path_parameters: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cancelled: Event = field(default_factory=Event)
    """Set when the client disconnects before the response is ready."""
    status: int = 0
    """The status that was sent; 0 before that."""

    # Request

    @property
    def graph(self) -> OpenGraph:
        """The graph in the path."""
        assert self.opened is not None, "the path of the route does not name a graph"
        return self.opened

    @property
    def uri(self) -> str:
        """The address of that graph for callers: a path of this server, never of its storage."""
        return address_of(self.graph.id)

    def name(self, parameter: str) -> str:
        """A path parameter, percent-decoded; routes are matched before `a%2Fb` is decoded."""
        try:
            return unquote(self.path_parameters[parameter], encoding="utf-8", errors="strict")
        except UnicodeDecodeError as error:
            raise bad_request(
                f"the {parameter} in the path is not percent-encoded UTF-8"
            ) from error

    def get(self, parameter: Parameter[T]) -> T:
        """The value of a declared query parameter or header; 400 if it is invalid."""
        if parameter.place == "query":
            return parameter.parse(self.arguments.get(parameter.name))
        return parameter.parse(self.header(parameter.name.lower()))

    def header(self, name: str) -> str | None:
        """A header of the request, by its lower-case name."""
        found = self.headers.get(name.encode("ascii"))
        return None if found is None else found.decode("latin-1")

    @property
    def write_options(self) -> WriteConditions:
        """The options of a write, from the headers that the route declares."""
        declared = () if self.route is None else self.route.parameters
        return {
            "if_commit": self.get(IF_COMMIT) if IF_COMMIT in declared else None,
            "idempotency_key": self.get(IDEMPOTENCY_KEY) if IDEMPOTENCY_KEY in declared else None,
        }

    def limits(self, seconds_max: float | None = None, bytes_max: int | None = None) -> CallLimits:
        """The limits of a query of this request, so that it stops when its client disconnects."""
        return CallLimits(seconds_max=seconds_max, bytes_max=bytes_max, cancelled=self.cancelled)

    # Permissions

    def require(self, action: Action, *, branch: str | None, target: str | None) -> None:
        """Raise 403 unless the policy of the graph, or of the server, allows the action.

        With tokens but without a server policy, no caller may act on the server itself; without
        tokens, any caller may.
        """
        if self.opened is not None:
            gate = self.opened.gate
            if gate is not None:
                self._require(gate, Access(self.actor, action, branch, target))
            return
        gate = self.revision.gate
        if gate is not None:
            self._require(gate, Access(self.actor, action, None, None))
        elif self.revision.tokens:
            raise forbidden(f"the server has no policy that allows '{action}'")

    def may(self, action: Action, *, branch: str | None) -> bool:
        """Whether the policy of the graph allows the action."""
        try:
            self.require(action, branch=branch, target=None)
        except ForbiddenError:
            return False
        return True

    def _require(self, gate: AnyGate, access: Access) -> None:
        decision = gate.decide(access)
        self.server.log.event(
            "policy decision",
            actor=access.actor,
            action=access.action,
            branch=access.branch,
            target=access.target,
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
        gate = self.graph.gate
        return gate is None or gate.view(Access(self.actor, Action.READ, branch, None)) is None

    def log_invocation(self, query: StoredQuery) -> None:
        """Log that the caller runs a stored query."""
        self.server.log.event(
            "stored query invoked", graph=self.graph.id, query=query.name, actor=self.actor
        )

    # Engine calls

    async def run(self, work: Callable[[Graph], T]) -> T:
        """Run work on the graph in the pool of the route."""
        is_write = self.route is not None and self.route.pool is Pool.WRITE
        return await (self.write(work) if is_write else self.read(work))

    async def read(self, work: Callable[[Graph], T]) -> T:
        """Run a read of the graph with the caller's permissions on a read thread."""
        return await self.server.reads.run(partial(self._traced, work))

    async def write(self, work: Callable[[Graph], T]) -> T:
        """Run a write to the graph as the caller on a write thread; 429 if it has too many."""
        with self.server.admission.admit(self.actor, request_bytes=len(self.body)):
            return await self.server.writes.run(partial(self._traced, work))

    async def stream(
        self, work: Callable[[Graph], Iterator[bytes]], *, content_type: bytes
    ) -> StreamingResponse:
        """A streamed response whose pieces are read as fast as the client receives them.

        The first piece is read before the response starts, so errors in the request still get an
        error status. No thread waits for the client: a thread is in use only while a piece is read.
        """
        pieces = await self.read(work)
        first = await self.server.reads.run(partial(next, pieces, None))
        return StreamingResponse(200, content_type, self._pieces(first, pieces), ())

    async def _pieces(
        self, first: bytes | None, pieces: Iterator[bytes]
    ) -> AsyncGenerator[bytes, None]:
        piece = first
        try:
            while piece is not None:
                yield piece
                piece = await self.server.reads.run(partial(next, pieces, None))
        finally:
            # The rows are protected from cleanup until the iterator ends.
            if isinstance(pieces, Generator):
                await self.server.reads.run(pieces.close)

    def run_here(self, work: Callable[[Graph], T]) -> T:
        """Run work on the graph with the caller's permissions, on the calling thread.

        Errors reveal branch names that the caller did not send only to callers that may list
        branches.
        """
        try:
            return work(self.graph.for_actor(self.actor))
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
        name = "" if self.route is None else self.route.name
        with self.server.tracing.operation(name, graph_id=self.graph.id):
            return self.run_here(work)

    def _may_list_branches(self) -> bool:
        gate = self.graph.gate
        return gate is None or gate.decide(Access(self.actor, Action.READ, None, None)).is_allowed
