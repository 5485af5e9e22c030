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
from functools import partial
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeAlias, Unpack

from omnigraph.client.remote_history import RemoteHistory
from omnigraph.client.remote_retrieval import RemoteRetrieval
from omnigraph.client.requests import (
    READ,
    GraphEndpoint,
    RequestSender,
    encode_limits,
    encode_place,
    encode_query,
    list_field,
    parse_policy,
    plain_params,
    read_json,
    read_result,
    require_no_actor,
    require_no_session,
    text_field,
)
from omnigraph.engine.executors import parse_engine
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.results import Blob, LoadResult, MutationResult, Result
from omnigraph.http import transport
from omnigraph.http.decode import decode_mutation
from omnigraph.http.responses import StoredQueryOutput
from omnigraph.model.errors import ForbiddenError
from omnigraph.model.limits import CLIENT_PIECE_BYTES, TIMEOUT_S
from omnigraph.model.names import parse_branch_name, parse_key, require_text
from omnigraph.model.ports import WriteConditions
from omnigraph.model.runtime import SystemClock, lazy_module
from omnigraph.model.source import Source

if TYPE_CHECKING:
    from omnigraph.client import transfer
    from omnigraph.compiler import compile
    from omnigraph.engine import graph_load, prepared
    from omnigraph.engine.graph import Graph
    from omnigraph.engine.ops.load import Progress
    from omnigraph.engine.ops.transaction import Transaction
    from omnigraph.engine.prepared import PreparedQuery
else:
    compile = lazy_module("omnigraph.compiler.compile")
    prepared = lazy_module("omnigraph.engine.prepared")
    transfer = lazy_module("omnigraph.client.transfer")
    graph_load = lazy_module("omnigraph.engine.graph_load")

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
    """A graph on a server, opened by `omnigraph.connect`.

    Calls without a description here work as those of `Graph`.
    """

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
                text = f"`{name}` needs access to storage: open the graph by its uri"
            raise AttributeError(text, name=name, obj=self)

    def close(self) -> None:
        self._routes.sender.close()

    def for_actor(self, actor: str) -> NoReturn:
        """Not supported: the server derives the actor from the token; raises `ForbiddenError`."""
        require_no_actor(actor, action="act for another actor")
        raise ForbiddenError(actor=None, action="act for another actor", reason="name an actor")

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
        sender = self._routes.sender
        try:
            if sender.known_actor is None:
                self.head()
        except ForbiddenError:
            # The server names the actor even in a 403 response, but not in a 401 response.
            if sender.known_actor is None:
                raise
        known = sender.known_actor
        return None if known is None else known[0]

    @property
    def schema_source(self) -> str:
        return self._routes.get("read the schema", "schema", decode=text_field("schema_source"))

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
        """As `Graph.query`; `limits` lower the limits of the server.

        To stop a query, close the graph; it also stops at the timeout given to `connect`.
        """
        require_no_session(spark)
        body = {
            **encode_query(source, params, name),
            **encode_place(branch, commit),
            "engine": parse_engine(engine, spark=None).value,
            **encode_limits(limits),
        }
        request = self._routes.request(
            "POST", ("query",), "query", body=body, text=source, headers={"Accept": transport.ARROW}
        )
        return self._routes.sender.send(request, read_result)

    def prepare(self, source: str, *, name: str | None = None) -> PreparedQuery:
        """As `Graph.prepare`; the query is compiled here and sent to the server by each call."""
        require_text(source, subject="source")
        catalog = compile.compile_schema(Source("<schema>", self.schema_source))
        ir = compile.compile_read(Source("<query>", source), catalog, name=name).ir
        return prepared.PreparedQuery(
            ir.name, ir.parameters, partial(self.query, source, name=ir.name)
        )

    def explain(  # noqa: PLR0913  # the published signature
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        engine: str = "local",
        spark: object = None,
        analyze: bool = False,
        limits: CallLimits | None = None,
    ) -> str:
        require_no_session(spark)
        body = {
            **encode_query(source, params, name),
            "branch": parse_branch_name(branch),
            "engine": parse_engine(engine, spark=None).value,
            # A server of an earlier version rejects the field, also with the value `false`.
            **({"analyze": True} if analyze else {}),
            **encode_limits(limits),
        }
        return self._routes.post(
            "explain",
            "explain",
            decode=text_field("plan"),
            body=body,
            options=READ,
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
        require_no_actor(actor, action="mutate")
        body = {
            **encode_query(source, params, name),
            "branch": parse_branch_name(branch),
            "embed": embed,
        }
        return self._routes.post(
            "mutate",
            "mutate",
            decode=decode_mutation,
            body=body,
            options=self._routes.keyed(if_commit, parse_key(idempotency_key)),
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
        """As `Graph.load`; files are read by this process and sent.

        A server accepts up to 32 MiB per load. With `progress`, the load runs as a job on the
        server, and its progress is polled.
        """
        require_no_actor(actor, action="load")
        require_no_session(spark)
        call = graph_load.parse_call(
            mode=mode,
            branch=branch,
            base=base,
            actor=None,
            progress=progress,
            spark=None,
            on_error=on_error,
            quarantine=quarantine,
            expected_head=None,
            idempotency_key=None,
            embed=embed,
        )
        return transfer.load(
            data,
            call,
            engine=engine,
            routes=self._routes,
            options=self._routes.keyed(if_commit, parse_key(idempotency_key)),
            find_schema=lambda: self.schema_source,
            progress=progress,
        )

    def entity(
        self, type: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, object] | None:
        require_text(type, subject="type")
        require_text(id, subject="id")
        arguments = {"type": type, "id": id, **encode_place(branch, commit)}
        return self._routes.get("find an entity", "entity", decode=_entity_of, arguments=arguments)

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
        named = {"type": type, "id": id, "property": property}
        for subject, given in named.items():
            require_text(given, subject=subject)
        arguments = {**named, **encode_place(branch, commit)}
        return transfer.read_blob(self._routes, arguments, start=start, length=length)

    def export(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[str]:
        """As `Graph.export`, streamed from the server; close an iterator that is not exhausted."""
        chosen = None if types is None else list(types)
        if chosen == []:
            return iter(())
        body = {**encode_place(branch, commit), "type_names": chosen}
        request = self._routes.request("POST", ("export",), "export", body=body)
        lines = self._stream_lines(request)
        # An invalid request raises here, as it does for a local graph, and not on first iteration.
        first = next(lines, None)
        return iter(()) if first is None else chain([first], lines)

    def _stream_lines(self, request: transport.Request) -> Iterator[str]:
        rest = b""
        with self._routes.sender.stream(request) as response:
            for chunk in response.stream.stream(CLIENT_PIECE_BYTES, decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line.decode()
        if rest:
            yield rest.decode()

    def transaction(
        self, branch: str = "main", *, actor: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """As `Graph.transaction`; until the end the changes are on a branch `transaction/<id>`.

        The branch remains if this process dies.
        """
        require_no_actor(actor, action="begin a transaction")
        return transfer.transact(self, parse_branch_name(branch), id=self._routes.new_id())

    # Stored queries

    def stored_queries(self) -> list[StoredQueryOutput]:
        """The stored queries of the server, with their parameters."""
        return self._routes.get("list the stored queries", "queries", decode=_queries_of)

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
        request = self._routes.request(
            "POST",
            ("queries", name),
            f"invoke '{name}'",
            body=body,
            options=self._routes.keyed(if_commit, parse_key(idempotency_key)),
            headers={"Accept": f"{transport.ARROW}, {transport.JSON}"},
        )
        return self._routes.sender.send(request, _read_invoked)


AnyGraph: TypeAlias = "Graph | RemoteGraph"
"""A graph opened in its storage, or a graph on a server."""


def _read_invoked(response: transport.Response) -> Result | MutationResult:
    if response.content_type == transport.ARROW:
        return read_result(response)
    return read_json(response, decode_mutation)


def _entity_of(body: Mapping[str, object]) -> dict[str, object] | None:
    found = body["entity"]
    return found if isinstance(found, dict) else None


def _queries_of(body: Mapping[str, object]) -> list[StoredQueryOutput]:
    found = body["queries"]
    return found if isinstance(found, list) else []


def connect(
    url: str, graph: str | None = None, token: str | None = None, *, timeout_s: float = TIMEOUT_S
) -> RemoteGraph:
    """Open a graph on a server; sends no request yet.

    `graph` is the id of the graph on the server, `default` for a server that was started for a
    single graph. `token` authenticates the caller. `timeout_s` is how long each call waits for its
    response to begin.
    """
    address, graph_id = transport.parse_graph_address(url, graph)
    return RemoteGraph(GraphEndpoint(_open_sender(address, token, timeout_s), graph_id))


def _open_sender(address: transport.Address, token: str | None, timeout_s: float) -> RequestSender:
    pool = transport.ConnectionPool(address, headers=transport.token_header(token))
    return RequestSender(pool, parse_policy(timeout_s), SystemClock())


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
    with closing(_open_sender(transport.parse_address(url), token, timeout_s)) as sender:
        request = transport.Request("GET", ("graphs",), "list the graphs")
        decode = list_field(
            "graphs", lambda each: ServedGraph(str(each["graph_id"]), str(each["uri"]))
        )
        return sender.send(request, lambda response: read_json(response, decode))


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
    assert isinstance(found, Result), "the server returns rows for a read"
    return found


def run_mutation(
    remote: RemoteGraph,
    name: str,
    params: Mapping[str, object] | None,
    *,
    branch: str,
    embed: str | None = None,
    **conditions: Unpack[WriteConditions],
) -> MutationResult:
    """Run a stored mutation and return its effect."""
    done = remote.invoke(
        name, params, branch=branch, expect_mutation=True, embed=embed, **conditions
    )
    assert isinstance(done, MutationResult), "the server returns counts for a mutation"
    return done
