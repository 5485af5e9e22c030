"""A graph that a server holds, with the calls of one that is opened by its uri.

The same arguments give the same results and the same errors, so that a script moves to a server by
changing the line that opens its graph. Safe to share between threads. Parts that bring the storage
with them are found by their names, because most calls do without.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from omnigraph.client.asking import read_made
from omnigraph.client.exchanges import ARROW, JSON, Reply, Request, Safety
from omnigraph.client.limits import PIECE_BYTES
from omnigraph.client.params import plain_params
from omnigraph.client.reading_terms import tell_limits, tell_place
from omnigraph.client.remote_history import RemoteHistory
from omnigraph.client.remote_retrieval import RemoteRetrieval
from omnigraph.client.results import read_result
from omnigraph.client.routes import Routes, require_no_actor, require_no_session, text_field
from omnigraph.engine.engines import parse_engine
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.results import Blob, LoadResult, MutationResult, Result
from omnigraph.model.arguments import parse_key, require_text
from omnigraph.model.errors import ForbiddenError
from omnigraph.model.names import parse_branch_name
from omnigraph.wire.readings import mutation_of
from omnigraph.wire.shapes import StoredQueryOutput

if TYPE_CHECKING:
    from omnigraph.engine.loads import Progress
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
    """A graph that a server holds, reached by `omnigraph.connect`."""

    def __init__(self, routes: Routes) -> None:
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
        """Let go of the connections; further calls are refused, closing again is fine."""
        self._routes.asking.close()

    def for_actor(self, actor: str) -> NoReturn:
        """Refused: a server knows who asks by the token."""
        require_no_actor(actor, action="speak for others")
        raise ForbiddenError(actor=None, action="speak for others", reason="name an actor")

    @property
    def uri(self) -> str:
        """The url of the graph."""
        return self._routes.uri

    @property
    def graph_id(self) -> str:
        """What the server calls the graph."""
        return self._routes.graph_id

    @property
    def actor(self) -> str | None:
        """Who the server says that we are; None where it asks for no tokens."""
        asking = self._routes.asking
        try:
            if asking.known_actor is None:
                self.head()
        except ForbiddenError:
            # Who may not read is told all the same who they are, unless nobody knows.
            if asking.known_actor is None:
                raise
        known = asking.known_actor
        return None if known is None else known[0]

    @property
    def schema_source(self) -> str:
        """The text of the accepted schema; for whom a policy hides properties from, of the rest."""
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
        """Run the read of a `.gq` text on a branch, `main` if none is named, or at a commit.

        `limits` make what the query may cost less than the server allows; a query is stopped by
        closing the graph, or by what `connect` was told to wait.
        """
        _require_query(source, name)
        require_no_session(spark)
        body = {
            "query": source,
            "name": name,
            "params": plain_params(params),
            **tell_place(branch, commit),
            "engine": parse_engine(engine, spark=None).value,
            **tell_limits(limits),
        }
        request = self._routes.posting(
            "query",
            "query",
            body=body,
            safety=Safety.READ,
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
        """How a read would be run on a branch now, step by step, as text; nothing is run."""
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
            safety=Safety.READ,
            text=source,
        )

    def mutate(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run the mutation of a `.gq` text as one commit, or change nothing.

        `if_commit` names the commit that the branch must be at. What is asked again with the same
        `idempotency_key` is done once, and answered alike.
        """
        require_no_actor(actor, action="mutate")
        _require_query(source, name)
        body = {
            "query": source,
            "name": name,
            "params": plain_params(params),
            "branch": parse_branch_name(branch),
        }
        return self._routes.post(
            "mutate",
            "mutate",
            make=mutation_of,
            body=body,
            safety=Safety.KEYED,
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
    ) -> LoadResult:
        """Load rows of any number of types as one commit, or change nothing.

        Files are read here and sent; a server takes up to 32 MiB at a time. With `base` a branch
        that does not exist is started from that one first. With `progress` the load goes on at the
        server while it is asked how far it is. `if_commit` and `idempotency_key` are those of
        `mutate`.
        """
        require_no_actor(actor, action="load")
        require_no_session(spark)
        part = import_module("omnigraph.client.loads")
        loaded: LoadResult = part.load(
            data,
            part.Wanted(mode, branch, base, engine, on_error, quarantine),
            routes=self._routes,
            terms=self._routes.keyed(if_commit, parse_key(idempotency_key)),
            find_schema=lambda: self.schema_source,
            progress=progress,
        )
        return loaded

    def entity(
        self, type: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, object] | None:
        """One node or edge of a branch, `main` if none is named, or of a commit; None if it is
        not there."""
        require_text(type, subject="type")
        require_text(id, subject="id")
        arguments = {"type": type, "id": id, **tell_place(branch, commit)}
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
        """A blob of a node or edge, or a part of it, of a branch, `main` if none is named, or of a
        commit; no other bytes are sent."""
        named = {"type": type, "id": id, "property": property}
        for subject, given in named.items():
            require_text(given, subject=subject)
        arguments = {**named, **tell_place(branch, commit)}
        part = import_module("omnigraph.client.blobs")
        found: Blob = part.read_blob(self._routes, arguments, start=start, length=length)
        return found

    def export(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[str]:
        """The rows of a branch or commit as NDJSON lines that `load` reads back.

        They are taken from the server as they are read here; an iterator that is left early should
        be closed.
        """
        chosen = None if types is None else list(types)
        if chosen == []:
            return iter(())
        request = self._routes.posting(
            "export",
            "export",
            body={**tell_place(branch, commit), "type_names": chosen},
            safety=Safety.READ,
        )
        lines = self._follow_lines(request)
        # What is wrong with the request is told now, as by a graph that is open here.
        first = next(lines, None)
        return iter(()) if first is None else _put_back(first, lines)

    def _follow_lines(self, request: Request) -> Iterator[str]:
        rest = b""
        with self._routes.asking.follow(request) as reply:
            for piece in reply.stream.stream(PIECE_BYTES, decode_content=False):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield line.decode()
        if rest:
            yield rest.decode()

    def transaction(
        self, branch: str = "main", *, actor: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """A block whose calls become one commit on a branch at its end, or leave no trace.

        Meanwhile they are on a branch `transaction/<id>`, which stays if this process dies.
        """
        require_no_actor(actor, action="begin a transaction")
        part = import_module("omnigraph.client.transactions")
        begun: AbstractContextManager[Transaction] = part.transact(
            self, parse_branch_name(branch), id=self._routes.new_id()
        )
        return begun

    # Stored queries

    def stored_queries(self) -> list[StoredQueryOutput]:
        """The queries that the server knows by name, with their parameters."""
        return self._routes.get("list the stored queries", "queries", make=_queries_of)

    def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        commit: str | None = None,
        expect_mutation: bool | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> Result | MutationResult:
        """Run a stored query, a read or a mutation, by its name.

        With `expect_mutation` one of the other kind is refused.
        """
        require_text(name, subject="name")
        body = {
            "params": plain_params(params),
            **tell_place(branch, commit),
            "expect_mutation": expect_mutation,
        }
        request = self._routes.posting(
            f"invoke '{name}'",
            "queries",
            name,
            body=body,
            safety=Safety.KEYED,
            terms=self._routes.keyed(if_commit, parse_key(idempotency_key)),
            headers={"Accept": f"{ARROW}, {JSON}"},
        )
        return self._routes.asking.ask(request, _read_invoked)


def _read_invoked(reply: Reply) -> Result | MutationResult:
    if reply.content_type == ARROW:
        return read_result(reply)
    return read_made(reply, mutation_of)


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
