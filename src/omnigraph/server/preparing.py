"""From what a server was told to a revision that is ready: at its start, and at each reload.

Tokens and files are read again each time, the environment is as it was. A reload keeps open what
did not change. Nothing here takes the place of what is served.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from omnigraph.embed.providers import find_embedder
from omnigraph.engine.read.access import TraversalMode, parse_lookups
from omnigraph.engine.read.budget import Allowance
from omnigraph.engine.settings import Settings, make_settings
from omnigraph.model.observer import Observer
from omnigraph.server.boot import open_sources
from omnigraph.server.logs import Log
from omnigraph.server.plans import Entry, Plan, Store, plan_cluster, plan_store
from omnigraph.server.reloading import Prepared
from omnigraph.server.served import Served
from omnigraph.server.serving import Revision
from omnigraph.server.settings import BootError, Bounds
from omnigraph.server.tokens import Tokens
from omnigraph.storage.environment import make_storage_options


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be opened, and for whom."""

    plan: Plan
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Preparing:
    """What a server was told: one graph's storage or the place of a cluster, and how to serve."""

    served: Store | str
    is_unauthenticated: bool
    is_every_graph_needed: bool
    environment: Mapping[str, str]
    bounds: Bounds
    read_tokens: Callable[[], Tokens]
    observer_of: Callable[[str], Observer]
    log: Log

    def plan(self) -> Planned:
        """What there is to open; `BootError` if it must not be served so."""
        tokens = self.read_tokens()
        entry = Entry(has_tokens=bool(tokens), is_unauthenticated=self.is_unauthenticated)
        if isinstance(self.served, Store):
            plan = plan_store(self.served, entry, make_settings=self._make_settings)
        else:
            plan = plan_cluster(
                self.served,
                entry,
                environment=self.environment,
                make_settings=self._make_settings,
            )
        return Planned(plan, tokens)

    def open(self, planned: Planned, *, before: Mapping[str, Served]) -> Prepared:
        """Open what was planned, but for what is open before; `BootError` if too little can be."""
        plan = planned.plan
        opened = open_sources(
            plan.sources,
            left_out=plan.left_out,
            open_by_id=before,
            is_every_one_needed=self.is_every_graph_needed,
            log=self.log,
        )
        revision = Revision(plan.number, opened.by_id, plan.gate, planned.tokens)
        return Prepared(revision, opened.quarantined)

    def prepare_again(self, before: Revision) -> Prepared:
        """What is to be served after a revision; `BootError` if that has to go on."""
        planned = self.plan()
        if bool(planned.tokens) is not bool(before.tokens):
            raise BootError("whether callers need tokens changes with a restart only")
        changing = [each for each in planned.plan.left_out if each.id in before.graphs]
        if changing:
            # It is served well now; left out, its callers would be told that it is not there.
            raise BootError(f"graph '{changing[0].id}' is being changed: {changing[0].reason}")
        return self.open(planned, before=before.graphs)

    def _make_settings(self, id: str, uri: str, storage_options: Mapping[str, str]) -> Settings:
        bounds = self.bounds
        return replace(
            make_settings(
                uri,
                storage_options=make_storage_options(self.environment, storage_options),
                durability="full",
            ),
            embedder=find_embedder(self.environment),
            spark_package="omnigraph.spark",
            traversal=_parse_traversal(self.environment.get("OMNIGRAPH_TRAVERSAL_MODE", "auto")),
            lookups=parse_lookups(self.environment),
            allowance=Allowance(bounds.query_bytes_max, bounds.query_seconds_max, time.monotonic),
            observer=self.observer_of(id),
        )


def _parse_traversal(text: str) -> TraversalMode:
    if text not in tuple(TraversalMode):
        raise BootError(f"OMNIGRAPH_TRAVERSAL_MODE is {text!r}, none of auto, csr and indexed")
    return TraversalMode(text)
