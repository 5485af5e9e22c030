"""`RemoteGraph`, `connect`, the list of graphs of a server, and stored queries by name.

A remote graph takes the arguments, returns the results and raises the errors of `Graph`. It is safe
to share between threads. Calls that only a graph in storage supports are rejected with an
explanation. Modules that need storage code are imported by the calls that use them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeAlias

from omnigraph.client.remote_history import RemoteHistory
from omnigraph.client.remote_retrieval import RemoteRetrieval
from omnigraph.client.requests import (
    GraphEndpoint,
    RequestSender,
    encode_place,
    list_field,
    parse_patience,
    plain_params,
    read_made,
    read_result,
    require_no_actor,
    require_no_session,
    tell_limits,
    text_field,
)
from omnigraph.engine.executors import parse_engine
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.results import Blob, LoadResult, MutationResult, Result
from omnigraph.http.decode import decode_mutation
from omnigraph.http.responses import StoredQueryOutput
from omnigraph.http.transport import (
    ARROW,
    JSON,
    ConnectionPool,
    Request,
    Response,
    RetrySafety,
    parse_address,
    parse_graph_address,
)
from omnigraph.model.errors import ForbiddenError
from omnigraph.model.limits import CLIENT_PIECE_BYTES, TIMEOUT_S
from omnigraph.model.names import parse_branch_name, parse_key, require_text

if TYPE_CHECKING:
    from omnigraph.engine.graph import Graph
    from omnigraph.engine.ops.load import Progress
    from omnigraph.engine.ops.transaction import Transaction

_DIRECT_CALLS = frozenset(
    {
        "algorithms",
        "bulk",
        "cleanup",
        "doctor",
        "embed",
        "ensure_indices",
        "export_batches",
        "export_files",
        "optimize",
        "reconciler",
        "refresh",
        "repair",
        "spark_views",
    }
)


class RemoteGraph(RemoteHistory, RemoteRetrieval):
    """A graph on a server, opened by `omnigraph.connect`."""

    def __init__(self, routes: GraphEndpoint) -> None:
        self._routes = routes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteGraph({self.uri!r})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in _DIRECT_CALLS:
                text = f"`{name}` works where the graph is stored: open it by its uri there"
            raise AttributeError(text, name=name, obj=self)

    def close(self) -> None:
        """Close the connections; further calls raise an error, and closing again has no effect."""
        self._routes.asking.close()

    def for_actor(self, actor: str) -> NoReturn:
        """Not supported: the server derives the actor from the token; raises `ForbiddenError`."""
        require_no_actor(actor, action="speak for others")
        raise ForbiddenError(actor=None, action="speak for others", reason="name an actor")

    @property
    def uri(self) -> str:
        """The URL of the graph."""
        return self._routes.uri

    @property
    def graph_id(self) -> str:
        """The id of the graph on the server."""
        return self._routes.graph_id

    @property
    def actor(self) -> str | None:
        """The actor that the server derives from the token; None if it requires no tokens."""
        asking = self._routes.asking
        try:
            if asking.known_actor is None:
                self.head()
        except ForbiddenError:
            # The server names the actor even in a 403 response, but not in a 401 response.
            if asking.known_actor is None:
                raise
        known = asking.known_actor
        return None if known is None else known[0]

    @property
    def schema_source(self) -> str:
        """The text of the accepted schema, without the properties that a policy hides."""
        return self._routes.get("read the schema", "schema", make=text_field("schema_source"))

    # Data

    def query(  # noqa: PLR0913  # the published signature
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        engine: str = "local",
        spark: object = None,
        limits: CallLimits | None = None,
    ) -> Result:
        """Run the read of a `.gq` text on a branch (default `main`) or at a commit.

        `limits` lower the limits of the server for this query. To stop a query, close the graph; it
        also stops at the timeout given to `connect`.
        """
        _require_query(source, name)
        require_no_session(spark)
        body = {
            "query": source,
            "name": name,
            "params": plain_params(params),
            **encode_place(branch, commit),
            "engine": parse_engine(engine, spark=None).value,
            **tell_limits(limits),
        }
        request = self._routes.posting(
            "query",
            "query",
            body=body,
            safety=RetrySafety.READ,
            text=source,
            headers={"Accept": ARROW},
        )
        return self._routes.asking.ask(request, read_result)

    def explain(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        engine: str = "local",
        spark: object = None,
    ) -> str:
        """The execution plan of a read on a branch, as text; nothing is run."""
        _require_query(source, name)
        require_no_session(spark)
        body = {
            "query": source,
            "name": name,
            "params": plain_params(params),
            "branch": parse_branch_name(branch),
            "engine": parse_engine(engine, spark=None).value,
        }
        return self._routes.post(
            "explain",
            "explain",
            make=text_field("plan"),
            body=body,
            safety=RetrySafety.READ,
            text=source,
        )

    def mutate(  # noqa: PLR0913  # the published signature
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        embed: str | None = None,
    ) -> MutationResult:
        """Run the mutation of a `.gq` text as one commit, or change nothing.

        `if_commit` is the commit that the branch must be at. A retry with the same
        `idempotency_key` is applied once and returns the same result. If the server has an
        embedding provider, empty `@embed` properties are filled before the commit, and those whose
        text changes are computed again; `embed="later"` leaves them empty, and `embed="now"`
        requires them.
        """
        require_no_actor(actor, action="mutate")
        _require_query(source, name)
        body = {
            "query": source,
            "name": name,
            "params": plain_params(params),
            "branch": parse_branch_name(branch),
            "embed": embed,
        }
        return self._routes.post(
            "mutate",
            "mutate",
            make=decode_mutation,
            body=body,
            safety=RetrySafety.KEYED,
            terms=self._routes.keyed(if_commit, parse_key(idempotency_key)),
            text=source,
        )

    def load(  # noqa: PLR0913  # the published signature
        self,
        data: object,
        *,
        mode: str,
        branch: str = "main",
        base: str | None = None,
        engine: str = "auto",
        actor: str | None = None,
        progress: Progress | None = None,
        spark: object = None,
        on_error: str = "raise",
        quarantine: str | os.PathLike[str] | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        embed: str | None = None,
    ) -> LoadResult:
        """Load rows of any number of types as one commit, or change nothing.

        Files are read by this process and sent; a server accepts up to 32 MiB per load. With
        `base`, a branch that does not exist is first created from that branch. With `progress`, the
        load runs as a job on the server, and its progress is polled and reported. `if_commit`,
        `idempotency_key` and `embed` work as in `mutate`.
        """
        require_no_actor(actor, action="load")
        require_no_session(spark)
        part = import_module("omnigraph.client.transfer")
        loaded: LoadResult = part.load(
            data,
            part.LoadOptions(mode, branch, base, engine, on_error, quarantine, embed),
            routes=self._routes,
            terms=self._routes.keyed(if_commit, parse_key(idempotency_key)),
            find_schema=lambda: self.schema_source,
            progress=progress,
        )
        return loaded

    def entity(
        self, type: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, object] | None:
        """A node or edge of a branch (default `main`) or of a commit; None if it does not exist."""
        require_text(type, subject="type")
        require_text(id, subject="id")
        arguments = {"type": type, "id": id, **encode_place(branch, commit)}
        return self._routes.get("find an entity", "entity", make=_entity_of, arguments=arguments)

    def read_blob(
        self,
        type: str,
        id: str,
        property: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        start: int = 0,
        length: int | None = None,
    ) -> Blob:
        """A blob, or a range of its bytes, at a branch (default `main`) or a commit.

        Only the requested bytes are sent.
        """
        named = {"type": type, "id": id, "property": property}
        for subject, given in named.items():
            require_text(given, subject=subject)
        arguments = {**named, **encode_place(branch, commit)}
        part = import_module("omnigraph.client.transfer")
        found: Blob = part.read_blob(self._routes, arguments, start=start, length=length)
        return found

    def export(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[str]:
        """The rows of a branch or commit as NDJSON lines that `load` accepts.

        The lines are streamed from the server while they are read; close an iterator that is not
        read to its end.
        """
        chosen = None if types is None else list(types)
        if chosen == []:
            return iter(())
        request = self._routes.posting(
            "export",
            "export",
            body={**encode_place(branch, commit), "type_names": chosen},
            safety=RetrySafety.READ,
        )
        lines = self._follow_lines(request)
        # An invalid request raises here, as it does for a local graph, and not on first iteration.
        first = next(lines, None)
        return iter(()) if first is None else _put_back(first, lines)

    def _follow_lines(self, request: Request) -> Iterator[str]:
        rest = b""
        with self._routes.asking.follow(request) as reply:
            for piece in reply.stream.stream(CLIENT_PIECE_BYTES, decode_content=False):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield line.decode()
        if rest:
            yield rest.decode()

    def transaction(
        self, branch: str = "main", *, actor: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """A context manager whose calls become one commit on a branch when it exits, or nothing.

        Until then the changes are on a branch `transaction/<id>`, which remains if this process
        dies.
        """
        require_no_actor(actor, action="begin a transaction")
        part = import_module("omnigraph.client.transfer")
        begun: AbstractContextManager[Transaction] = part.transact(
            self, parse_branch_name(branch), id=self._routes.new_id()
        )
        return begun

    # Stored queries

    def stored_queries(self) -> list[StoredQueryOutput]:
        """The stored queries of the server, with their parameters."""
        return self._routes.get("list the stored queries", "queries", make=_queries_of)

    def invoke(  # noqa: PLR0913  # the published signature
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        commit: str | None = None,
        expect_mutation: bool | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        embed: str | None = None,
    ) -> Result | MutationResult:
        """Run a stored query, a read or a mutation, by its name.

        `expect_mutation` rejects a query of the other kind. `embed` works as in `mutate`.
        """
        require_text(name, subject="name")
        body = {
            "params": plain_params(params),
            **encode_place(branch, commit),
            "expect_mutation": expect_mutation,
            "embed": embed,
        }
        request = self._routes.posting(
            f"invoke '{name}'",
            "queries",
            name,
            body=body,
            safety=RetrySafety.KEYED,
            terms=self._routes.keyed(if_commit, parse_key(idempotency_key)),
            headers={"Accept": f"{ARROW}, {JSON}"},
        )
        return self._routes.asking.ask(request, _read_invoked)


AnyGraph: TypeAlias = "Graph | RemoteGraph"
"""A graph opened in its storage, or a graph on a server."""


def _read_invoked(reply: Response) -> Result | MutationResult:
    if reply.content_type == ARROW:
        return read_result(reply)
    return read_made(reply, decode_mutation)


def _entity_of(body: Mapping[str, object]) -> dict[str, object] | None:
    found = body["entity"]
    return found if isinstance(found, dict) else None


def _queries_of(body: Mapping[str, object]) -> list[StoredQueryOutput]:
    found = body["queries"]
    return found if isinstance(found, list) else []


def _require_query(source: str, name: str | None) -> None:
    require_text(source, subject="source")
    if name is not None:
        require_text(name, subject="name")


def _put_back(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def connect(
    url: str, graph: str | None = None, token: str | None = None, *, timeout_s: float = TIMEOUT_S
) -> RemoteGraph:
    """Open a graph on a server; sends no request yet.

    `graph` is the id of the graph on the server, `default` for a server that was started for a
    single graph. `token` authenticates the caller. `timeout_s` is how long each call waits for its
    response to begin.
    """
    address, graph_id = parse_graph_address(url, graph)
    asking = RequestSender(ConnectionPool(address, token=token), parse_patience(timeout_s))
    return RemoteGraph(GraphEndpoint(asking, graph_id))


LISTING_S = 30.0
"""The default timeout of `list_graphs` in seconds; the server computes nothing for the list."""


@dataclass(frozen=True, slots=True)
class ServedGraph:
    """A graph on a server: its id, and the path of its routes."""

    graph_id: str
    uri: str


def list_graphs(
    url: str, token: str | None = None, *, timeout_s: float = LISTING_S
) -> list[ServedGraph]:
    """The graphs of a server by id; raises `ForbiddenError` unless the policy allows the list."""
    exchanges = ConnectionPool(parse_address(url), token=token)
    with closing(RequestSender(exchanges, parse_patience(timeout_s))) as asking:
        request = Request("GET", ("graphs",), "list the graphs")
        make = list_field("graphs", _graph_of)
        return asking.ask(request, lambda reply: read_made(reply, make))


def _graph_of(body: Mapping[str, object]) -> ServedGraph:
    return ServedGraph(str(body["graph_id"]), str(body["uri"]))


def run_read(
    remote: RemoteGraph,
    name: str,
    params: Mapping[str, object] | None,
    *,
    branch: str | None,
    commit: str | None,
) -> Result:
    """Run a stored read and return its rows."""
    found = remote.invoke(name, params, branch=branch, commit=commit, expect_mutation=False)
    assert isinstance(found, Result), "the server answers a read with rows"
    return found


def run_mutation(
    remote: RemoteGraph,
    name: str,
    params: Mapping[str, object] | None,
    *,
    branch: str,
    if_commit: str | None,
    idempotency_key: str | None,
    embed: str | None,
) -> MutationResult:
    """Run a stored mutation and return its effect."""
    done = remote.invoke(
        name,
        params,
        branch=branch,
        expect_mutation=True,
        if_commit=if_commit,
        idempotency_key=idempotency_key,
        embed=embed,
    )
    assert isinstance(done, MutationResult), "the server answers a mutation with counts"
    return done
