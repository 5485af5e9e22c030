"""The revision that is served, the preparation of the next one, and reload.

A request uses one revision from start to end, so a reload is atomic for it. A failed reload leaves
the current revision in place. Unchanged graphs stay open across a reload; a dropped graph is closed
after its last request. Reloads are serialised, and all parts are safe to share between threads.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock, Thread

from omnigraph.embed.profiles import is_configured
from omnigraph.embed.providers import find_embedder
from omnigraph.engine.graph import Graph
from omnigraph.engine.read.budget import Allowance
from omnigraph.engine.read.expand import TraversalMode, parse_lookups
from omnigraph.engine.settings import (
    Settings,
    make_settings,
    parse_cache_bytes,
    parse_load_concurrency,
)
from omnigraph.http.responses import ReloadOutput
from omnigraph.model.errors import GraphError
from omnigraph.model.ports import Observer
from omnigraph.server.settings import Bounds, StartupError, Tokens
from omnigraph.server.startup import (
    AnyGate,
    OpenGraph,
    Plan,
    Quarantined,
    Store,
    open_sources,
    plan_cluster,
    plan_store,
)
from omnigraph.server.telemetry import Log
from omnigraph.storage.environment import make_storage_options


@dataclass(frozen=True, slots=True, eq=False)
class Revision:
    """Everything that a reload replaces at once; `gate` controls access to the server itself.

    `number` is the revision of the cluster's state, None without a cluster.
    """

    number: int | None
    graphs: Mapping[str, OpenGraph]
    gate: AnyGate | None
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Prepared:
    """A revision that is ready to be served, and the graphs that are missing from it."""

    revision: Revision
    quarantined: tuple[Quarantined, ...]


def reload_output(prepared: Prepared) -> ReloadOutput:
    """The response to a reload."""
    return {
        "revision": prepared.revision.number,
        "graphs": sorted(prepared.revision.graphs),
        "quarantined": [
            {"graph_id": each.id, "reason": each.reason} for each in prepared.quarantined
        ],
    }


class RevisionHolder:
    """The current revision and its users; safe to share between threads."""

    def __init__(self, revision: Revision) -> None:
        self._lock, self._reloading = Lock(), Lock()
        self._now = revision
        self._users: Counter[Revision] = Counter()
        self._open = _graphs_of(revision)

    def enter(self) -> Revision:
        """Begin one use of the current revision; the caller ends it with `leave`."""
        with self._lock:
            self._users[self._now] += 1
            return self._now

    def enter_again(self, revision: Revision) -> None:
        """Begin another use of a revision that is in use."""
        with self._lock:
            assert self._users[revision] > 0, "a revision that is not in use may be closed"
            self._users[revision] += 1

    def leave(self, revision: Revision) -> None:
        """End one use of a revision."""
        with self._lock:
            self._users[revision] -= 1
            is_last = self._users[revision] == 0
            if is_last:
                del self._users[revision]
            closing = self._give_up() if is_last and revision is not self._now else ()
        if closing:
            # The caller serves requests, and closing a graph may block.
            Thread(target=_close, args=(closing,), daemon=True).start()

    def reload(
        self,
        prepare: Callable[[Revision], Prepared],
        confirm: Callable[[Prepared], None],
        log: Log,
    ) -> Prepared:
        """Prepare and serve the successor of the current revision; one reload runs at a time.

        Raises `StartupError` and leaves the current revision in place if there is none, or if
        `confirm`, which is called once the successor is prepared, raises it.
        """
        with self._reloading:
            try:
                prepared = prepare(self._now)
                self._confirm(prepared, confirm)
            except (StartupError, GraphError) as error:
                log.warning("reload refused", reason=str(error))
                raise StartupError(str(error)) from error
            revision = prepared.revision
            with self._lock:
                self._now = revision
                self._open |= _graphs_of(revision)
                closing = self._give_up()
            _close(closing)
            log.event("reloaded", revision=revision.number, graphs=sorted(revision.graphs))
            return prepared

    def close(self) -> None:
        """Close all graphs, whether in use or not."""
        with self._lock:
            closing, self._open = tuple(self._open), frozenset()
        _close(closing)

    def _confirm(self, prepared: Prepared, confirm: Callable[[Prepared], None]) -> None:
        try:
            confirm(prepared)
        except StartupError:
            with self._lock:
                unused = _graphs_of(prepared.revision) - self._open
            _close(tuple(unused))
            raise

    def _give_up(self) -> tuple[Graph, ...]:
        """Remove and return the open graphs that no revision in use refers to."""
        needed = frozenset[Graph]().union(*map(_graphs_of, (self._now, *self._users)))
        given_up = self._open - needed
        self._open &= needed
        return tuple(given_up)


def _graphs_of(revision: Revision) -> frozenset[Graph]:
    return frozenset(each.graph for each in revision.graphs.values())


def _close(graphs: tuple[Graph, ...]) -> None:
    for each in graphs:
        each.close()


@dataclass(frozen=True, slots=True)
class RevisionBuilder:
    """The configuration of a server: one graph's storage or a cluster, and its settings."""

    source: Store | str
    is_unauthenticated: bool
    is_every_graph_needed: bool
    environment: Mapping[str, str]
    bounds: Bounds
    read_tokens: Callable[[], Tokens]
    observer_of: Callable[[str], Observer]
    log: Log

    def plan(self) -> tuple[Plan, Tokens]:
        """What to open, and the tokens of its callers.

        Raises `StartupError` if the configuration is unsafe or invalid.
        """
        tokens = self.read_tokens()
        if isinstance(self.source, Store):
            plan = plan_store(
                self.source,
                has_tokens=bool(tokens),
                is_unauthenticated=self.is_unauthenticated,
                make_settings=self._make_settings,
            )
        else:
            plan = plan_cluster(
                self.source,
                has_tokens=bool(tokens),
                is_unauthenticated=self.is_unauthenticated,
                environment=self.environment,
                make_settings=self._make_settings,
            )
        return plan, tokens

    def open(self, plan: Plan, tokens: Tokens, *, before: Mapping[str, OpenGraph]) -> Prepared:
        """Open the planned graphs that are not open yet; `StartupError` if too few open."""
        opened, quarantined = open_sources(
            plan.sources,
            left_out=plan.left_out,
            open_by_id=before,
            is_every_one_needed=self.is_every_graph_needed,
            log=self.log,
        )
        return Prepared(Revision(plan.number, opened, plan.gate, tokens), quarantined)

    def prepare_again(self, before: Revision) -> Prepared:
        """The successor of a revision; `StartupError` if the current one must remain."""
        plan, tokens = self.plan()
        if bool(tokens) is not bool(before.tokens):
            raise StartupError("enabling or disabling tokens requires a restart")
        changing = [each for each in plan.left_out if each.id in before.graphs]
        if changing:
            # The graph is served now; if it were left out, its callers would get 404.
            raise StartupError(f"graph '{changing[0].id}' is being changed: {changing[0].reason}")
        return self.open(plan, tokens, before=before.graphs)

    def _make_settings(self, id: str, uri: str, storage_options: Mapping[str, str]) -> Settings:
        bounds = self.bounds
        return replace(
            make_settings(
                uri,
                storage_options=make_storage_options(self.environment, storage_options),
                durability="full",
            ),
            embedder=find_embedder(self.environment),
            embeds_on_write=is_configured(self.environment),
            spark_package="omnigraph.spark",
            traversal=_parse_traversal(self.environment.get("OMNIGRAPH_TRAVERSAL_MODE", "auto")),
            lookups=parse_lookups(self.environment),
            load_concurrency=parse_load_concurrency(self.environment),
            cache_bytes_max=parse_cache_bytes(self.environment),
            allowance=Allowance(bounds.query_bytes_max, bounds.query_seconds_max, time.monotonic),
            observer=self.observer_of(id),
        )


def _parse_traversal(text: str) -> TraversalMode:
    if text not in tuple(TraversalMode):
        raise StartupError(f"OMNIGRAPH_TRAVERSAL_MODE is {text!r}; expected auto, csr or indexed")
    return TraversalMode(text)
