"""What a route gets: who asks for what of which graph, and the ways to answer.

A route says in this order what it needs: the body, a permission, admission, the engine. Knows no
sockets; what it raises becomes an answer elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import TypeVar
from urllib.parse import parse_qs, unquote

from omnigraph.engine.graph import Graph
from omnigraph.engine.read.budget import CallLimits
from omnigraph.model.errors import NotFoundError, PolicyDeniedError
from omnigraph.model.policy import Access, Action
from omnigraph.server.admission import Admission
from omnigraph.server.answers import Stream
from omnigraph.server.jobs import Jobs
from omnigraph.server.kept_answers import KeptAnswers
from omnigraph.server.logs import Log
from omnigraph.server.problems import bad_request, forbidden
from omnigraph.server.reloading import Prepared
from omnigraph.server.served import Judge, Served
from omnigraph.server.serving import Revision, Serving
from omnigraph.server.tracing import Tracing
from omnigraph.server.workers import Workers
from omnigraph.wire.stored_queries import StoredQuery

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Means:
    """What all calls of a server share."""

    serving: Serving
    reload: Callable[[], Prepared]
    reads: Workers
    writes: Workers
    admission: Admission
    answers: KeptAnswers
    jobs: Jobs
    tracing: Tracing
    log: Log

    def close(self, *, within_s: float) -> bool:
        """Let go of the graphs once the calls that run are done; False if that takes too long."""
        # A job is told to stop, and may be in the middle of what cannot be stopped.
        stopping = Thread(target=self.jobs.close, daemon=True)
        stopping.start()
        has_read = self.reads.close(within_s=within_s)
        has_written = self.writes.close(within_s=within_s)
        stopping.join(within_s)
        self.serving.close()
        return has_read and has_written and not stopping.is_alive()


@dataclass(frozen=True, slots=True)
class Call:
    """One request, its caller known and its body read."""

    means: Means
    revision: Revision
    served: Served | None
    actor: str | None
    request_id: str
    operation: str
    body: bytes
    names: Mapping[str, str]
    query_string: bytes
    headers: Mapping[bytes, bytes]
    cancelled: Event
    """Set when nobody waits for the answer any more."""

    # What was asked

    @property
    def graph_id(self) -> str:
        """The id of the graph that the path names."""
        return self._served.id

    @property
    def uri(self) -> str:
        """Where that graph is."""
        return self._served.graph.uri

    @property
    def queries(self) -> Mapping[str, StoredQuery]:
        """The stored queries of that graph, by name."""
        return self._served.queries

    @property
    def origin(self) -> Hashable:
        """How that graph was opened."""
        return self._served.origin

    @property
    def is_managed(self) -> bool:
        """Whether a cluster alone may change the schema of that graph."""
        return self._served.is_managed

    def name(self, parameter: str) -> str:
        """A name in the path, percent-decoded now: until here `a%2Fb` was one part of it."""
        return _decode(self.names[parameter], subject=parameter)

    def argument(self, name: str) -> str | None:
        """What follows `?` under a name, the last if there are several; None if it is absent."""
        if not self.query_string:
            return None
        try:
            found = parse_qs(
                self.query_string.decode("ascii"), keep_blank_values=True, errors="strict"
            )
        except ValueError as error:
            raise bad_request("the query string is not percent-encoded UTF-8") from error
        return found[name][-1] if name in found else None

    def header(self, name: str) -> str | None:
        """A header of the request, by its lower-case name."""
        found = self.headers.get(name.encode("ascii"))
        return None if found is None else found.decode("latin-1")

    @property
    def limits(self) -> CallLimits:
        """What a query of this call is to be given, so that it ends when its client has gone."""
        return CallLimits(cancelled=self.cancelled)

    # Whether it may be done

    def require(self, action: Action, *, branch: str | None, target: str | None) -> None:
        """Raise `ForbiddenError` (403) unless the caller may do this with the graph."""
        gate = self._served.gate
        if gate is not None:
            self._require(gate, Access(self.actor, action, branch, target))

    def require_of_server(self, action: Action) -> None:
        """Raise 403 unless the caller may do this with the server itself.

        Without a policy of the server nobody may, whoever may do what with its graphs.
        """
        gate = self.revision.gate
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

    def sees_all(self, branch: str) -> bool:
        """Whether a caller who may read a branch sees all of it."""
        gate = self._served.gate
        return gate is None or gate.view(Access(self.actor, Action.READ, branch, None)) is None

    def admit(self, request_bytes: int) -> AbstractContextManager[None]:
        """A block that counts as one write of the caller; 429 if he has too many under way."""
        return self.means.admission.admit(self.actor, request_bytes=request_bytes)

    # Doing it

    async def read(self, work: Callable[[Graph], T]) -> T:
        """What a read of the graph, as the caller may see it, returns."""
        return await self.means.reads.run(partial(self._traced, work))

    async def write(self, work: Callable[[Graph], T]) -> T:
        """What a write to the graph, in the caller's name, returns."""
        return await self.means.writes.run(partial(self._traced, work))

    async def stream(
        self, work: Callable[[Graph], Iterator[bytes]], *, content_type: bytes
    ) -> Stream:
        """An answer made of pieces that are read one by one, as fast as the client takes them.

        The first is read at once, so that what is wrong with the request is still answered. No
        thread waits for the client: each piece takes one for as long as reading it takes.
        """
        pieces = await self.read(work)
        first = await self.means.reads.run(partial(next, pieces, None))
        return Stream(200, content_type, self._follow(first, pieces), ())

    async def _follow(
        self, first: bytes | None, pieces: Iterator[bytes]
    ) -> AsyncGenerator[bytes, None]:
        piece = first
        try:
            while piece is not None:
                yield piece
                piece = await self.means.reads.run(partial(next, pieces, None))
        finally:
            # The rows are kept from being cleaned up until the iterator ends.
            if isinstance(pieces, Generator):
                await self.means.reads.run(pieces.close)

    def run(self, work: Callable[[Graph], T]) -> T:
        """What work on the graph, as the caller may use it, returns; on the thread that calls.

        Who may not list the branches hears of none that he did not name.
        """
        try:
            return work(self._served.for_actor(self.actor))
        except NotFoundError as error:
            if error.kind != "branch" or self._may_list_branches():
                raise
            # Its advice would tell which there are.
            raise NotFoundError(kind=error.kind, name=error.name, advice="") from None
        except PolicyDeniedError as error:
            if error.branch is None or self._may_list_branches():
                raise
            # What he named may be a commit or a tag, which its branch was judged for.
            raise PolicyDeniedError(
                actor=error.actor,
                action=error.action,
                branch=None,
                target=error.target,
                reason="not on the branch that this is about",
            ) from None

    def _traced(self, work: Callable[[Graph], T]) -> T:
        with self.means.tracing.operation(self.operation, graph_id=self.graph_id):
            return self.run(work)

    def _may_list_branches(self) -> bool:
        gate = self._served.gate
        return gate is None or gate.decide(Access(self.actor, Action.READ, None, None)).is_allowed

    @property
    def _served(self) -> Served:
        assert self.served is not None, "the route's path names no graph"
        return self.served


def _decode(text: str, *, subject: str) -> str:
    try:
        return unquote(text, encoding="utf-8", errors="strict")
    except UnicodeDecodeError as error:
        raise bad_request(f"the {subject} in the path is no percent-encoded UTF-8") from error
