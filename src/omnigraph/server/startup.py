"""The plan of what to serve, from one storage location or a cluster, and the opening of graphs.

Of a cluster only the applied state counts. A graph of a cluster that cannot be opened, or whose
policy is invalid, is quarantined without affecting the others; an invalid policy of the server
prevents the start. Graphs that are open already and have the same origin are reused. The module
reads no environment and no flags, and knows no HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from omnigraph.cluster.catalog import AppliedPolicy
from omnigraph.cluster.config import EmbeddingProfile
from omnigraph.cluster.context import make_context, open_cluster
from omnigraph.cluster.resources import Finding, StoppedError
from omnigraph.cluster.serving import AppliedGraph, ServingSnapshot, read_serving_snapshot
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.parser import decode_source
from omnigraph.embed.profiles import CONFIGURING, is_mocked, make_profile, parse_retry_policy
from omnigraph.embed.providers import find_embedder, open_embedder
from omnigraph.engine.graph import Graph, open_graph
from omnigraph.engine.settings import Settings
from omnigraph.http.stored_queries import StoredQuery, pick_queries, read_stored_queries
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import EmbeddingError, GraphError, NotFoundError
from omnigraph.model.limits import GRAPHS_OPENED_AT_ONCE
from omnigraph.model.ports import Embedder
from omnigraph.model.source import Source as Text
from omnigraph.model.types import Vector
from omnigraph.policy.bundle import BundleKind, parse_bundle
from omnigraph.policy.gate import DefaultDenyGate, PolicyGate, open_gate
from omnigraph.server.settings import Mode, StartupError, decide_mode
from omnigraph.server.telemetry import Log
from omnigraph.storage.environment import expand_home, make_storage_options

AnyGate = PolicyGate | DefaultDenyGate
"""The gate that decides what an actor may do, and names the rule that applied."""

RESERVED_IDS = frozenset({"policies", "healthz", "openapi", "graphs"})
_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")

DEFAULT_ID = "default"
"""The id of the graph on a server that was started for a single graph."""


@dataclass(frozen=True, slots=True)
class OpenGraph:
    """One graph that is served; its gate, if any, decides what an actor may do with it."""

    id: str
    graph: Graph
    gate: AnyGate | None
    queries: Mapping[str, StoredQuery]
    is_managed: bool
    """Whether a cluster owns the schema, in which case only the cluster changes it."""
    origin: Hashable
    """The identity of the source: a source with an equal origin reuses the open graph."""

    def for_actor(self, actor: str | None) -> Graph:
        """The graph with the permissions of one actor."""
        return self.graph if actor is None else self.graph.for_actor(actor)


def is_graph_id(text: str) -> bool:
    """Whether a text is a valid graph id."""
    return _ID.fullmatch(text) is not None and text not in RESERVED_IDS


def address_of(graph_id: str) -> str:
    """The path of a graph on this server; responses never contain its storage location."""
    return f"/graphs/{graph_id}"


ReadQueries = Callable[[Catalog], Mapping[str, StoredQuery]]
"""Reads the stored queries of a graph, which must be valid for its schema."""


@dataclass(frozen=True, slots=True)
class Source:
    """A graph to serve: its id, how to open it, and how to open its gate.

    Two sources with one `origin` open the same graph in the same way. If `queries` is None, the
    graph has no stored queries and its schema is not read.
    """

    id: str
    origin: Hashable
    settings: Callable[[], Settings]
    gate: Callable[[], AnyGate | None]
    queries: ReadQueries | None
    is_managed: bool


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A graph that is not served, and the reason."""

    id: str
    reason: str


def open_sources(
    sources: Sequence[Source],
    *,
    left_out: Sequence[Quarantined],
    open_by_id: Mapping[str, OpenGraph],
    is_every_one_needed: bool,
    log: Log,
) -> tuple[Mapping[str, OpenGraph], tuple[Quarantined, ...]]:
    """Open the graphs that can be opened; returns them by id, and those that are not served.

    Raises `StartupError` if none can be, or if one cannot be and `is_every_one_needed`. `left_out`
    are graphs that are known not to open; `open_by_id` are those that are open already.
    """
    with ThreadPoolExecutor(max_workers=GRAPHS_OPENED_AT_ONCE) as pool:
        opened = list(pool.map(partial(_open, open_by_id), sources))
    served = [each for each in opened if isinstance(each, OpenGraph)]
    missing = [*left_out, *(each for each in opened if isinstance(each, Quarantined))]
    for left in missing:
        log.warning("graph quarantined", graph=left.id, reason=left.reason)
    if missing and (is_every_one_needed or not served):
        retained = {each.graph for each in open_by_id.values()}
        for healthy in served:
            if healthy.graph not in retained:
                healthy.graph.close()
        reasons = "; ".join(f"'{each.id}': {each.reason}" for each in missing)
        raise StartupError(f"{'not every' if served else 'no'} graph can be served: {reasons}")
    for each in served:
        _advise(each, log)
    by_id = {each.id: each for each in sorted(served, key=lambda each: each.id)}
    return by_id, tuple(missing)


def _open(open_by_id: Mapping[str, OpenGraph], source: Source) -> OpenGraph | Quarantined:
    if not is_graph_id(source.id):
        return Quarantined(source.id, "its id must have 1 to 64 letters, digits and hyphens")
    before = open_by_id.get(source.id)
    try:
        settings = source.settings()
        if before is not None and before.origin == source.origin:
            return replace(before, queries=_read_queries(source, settings))
        gate = source.gate()
        graph = open_graph(replace(settings, gate=gate), actor=None, is_read_only=False)
    except GraphError as error:
        return Quarantined(source.id, _explain_error(error, source))
    try:
        # After opening, which recovers the graph: queries must be valid for the recovered schema.
        queries = _read_queries(source, settings)
    except GraphError as error:
        graph.close()
        return Quarantined(source.id, str(error))
    return OpenGraph(source.id, graph, gate, queries, source.is_managed, source.origin)


def _explain_error(error: GraphError, source: Source) -> str:
    """Why a graph cannot be opened; a graph of a cluster is not created by hand."""
    if source.is_managed and isinstance(error, NotFoundError) and error.kind == "graph":
        return (
            "its storage does not exist; run `omnigraph cluster refresh` and then `omnigraph "
            "cluster apply` to create it again"
        )
    return str(error)


def _advise(served: OpenGraph, log: Log) -> None:
    for query in served.queries.values():
        if any(isinstance(each.type.element, Vector) for each in query.parameters):
            log.event(
                "stored query takes a vector",
                graph=served.id,
                query=query.name,
                advice="agents rarely have vectors; use a text parameter, which `nearest` embeds",
            )


def _read_queries(source: Source, settings: Settings) -> Mapping[str, StoredQuery]:
    if source.queries is None:
        return {}
    # No actor is known yet, so the schema is read without the gate.
    with open_graph(replace(settings, gate=None), actor=None, is_read_only=True) as graph:
        catalog = compile_schema(Text("<schema>", graph.schema_source))
    return source.queries(catalog)


MakeSettings = Callable[[str, str, Mapping[str, str]], Settings]
"""Makes the settings of a graph from its id, URI and storage options."""


@dataclass(frozen=True, slots=True)
class Store:
    """A single graph to serve: its location and the files that belong to it."""

    uri: str
    policy: str | None
    server_policy: str | None
    queries: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The graphs to open, those to leave out, and the gate of the server itself."""

    number: int | None
    mode: Mode
    sources: tuple[Source, ...]
    left_out: tuple[Quarantined, ...]
    gate: AnyGate | None


def plan_store(
    store: Store, *, has_tokens: bool, is_unauthenticated: bool, make_settings: MakeSettings
) -> Plan:
    """The plan for a single graph; an invalid policy prevents the start.

    `is_unauthenticated` is whether access without tokens was requested.
    """
    mode = decide_mode(
        has_tokens=has_tokens,
        has_policy=store.policy is not None or store.server_policy is not None,
        is_unauthenticated=is_unauthenticated,
    )
    gate: AnyGate | None = None if mode is Mode.OPEN else DefaultDenyGate()
    if store.policy is not None:
        gate = open_gate(store.policy, kind=BundleKind.GRAPH, graph_id=DEFAULT_ID)
    server_gate = None
    if store.server_policy is not None:
        server_gate = open_gate(store.server_policy, kind=BundleKind.SERVER, graph_id=None)
    # Policy files are read again each time and not compared, so such a graph is always reopened.
    origin = (store.uri, mode) if store.policy is None else object()
    source = Source(
        id=DEFAULT_ID,
        origin=origin,
        settings=lambda: make_settings(DEFAULT_ID, store.uri, {}),
        gate=lambda: gate,
        queries=None if store.queries is None else _reader_of(expand_home(store.queries)),
        is_managed=False,
    )
    return Plan(None, mode, (source,), (), server_gate)


def plan_cluster(
    place: str,
    *,
    has_tokens: bool,
    is_unauthenticated: bool,
    environment: Mapping[str, str],
    make_settings: MakeSettings,
) -> Plan:
    """The plan for a cluster; `StartupError` if its applied state cannot be trusted."""
    snapshot = _read_snapshot(place, environment)
    mode = decide_mode(
        has_tokens=has_tokens,
        has_policy=snapshot.has_policy,
        is_unauthenticated=is_unauthenticated,
    )

    def source_of(graph: AppliedGraph) -> Source:
        def read_queries(catalog: Catalog) -> Mapping[str, StoredQuery]:
            sources = {
                each.name: decode_source(each.content, name=f"{each.name}.gq")
                for each in graph.queries
            }
            return pick_queries(sources, catalog=catalog)

        def settings() -> Settings:
            made = make_settings(graph.id, graph.uri, snapshot.storage_options)
            return replace(
                made,
                embedder=_find_embedder(graph.embedding, environment),
                # A graph that names its provider is embedded regardless of the environment.
                embeds_on_write=made.embeds_on_write or graph.embedding is not None,
            )

        return Source(
            id=graph.id,
            origin=(graph.uri, mode, graph.policy and graph.policy.digest, graph.embedding),
            settings=settings,
            gate=lambda: _open_graph_gate(graph, mode),
            queries=read_queries if graph.queries else None,
            is_managed=True,
        )

    return Plan(
        number=snapshot.revision,
        mode=mode,
        sources=tuple(map(source_of, snapshot.graphs)),
        left_out=tuple(
            Quarantined(each.id, _explain_finding(each.finding)) for each in snapshot.left_out
        ),
        gate=None
        if snapshot.policy is None
        else _open_applied(snapshot.policy, kind=BundleKind.SERVER, graph_id=None),
    )


def _reader_of(path: Path) -> ReadQueries:
    return lambda catalog: read_stored_queries(path, catalog=catalog)


def _read_snapshot(place: str, environment: Mapping[str, str]) -> ServingSnapshot:
    options = make_storage_options(environment, {})
    try:
        cluster = open_cluster(place, make_context(storage_options=options, durability="full"))
        return read_serving_snapshot(cluster)
    except StoppedError as error:
        findings = "\n  ".join(map(_explain_finding, error.findings))
        raise StartupError(f"the cluster at {place} cannot be served:\n  {findings}") from error


def _explain_finding(finding: Finding) -> str:
    return f"[{finding.code}] {finding.path}: {finding.message}"


def _open_graph_gate(graph: AppliedGraph, mode: Mode) -> AnyGate | None:
    if graph.policy is not None:
        return _open_applied(graph.policy, kind=BundleKind.GRAPH, graph_id=graph.id)
    # A graph without a policy does not become open because other graphs have one.
    return None if mode is Mode.OPEN else DefaultDenyGate()


def _open_applied(policy: AppliedPolicy, *, kind: BundleKind, graph_id: str | None) -> AnyGate:
    bundle = parse_bundle(policy.content, kind=kind, name=policy.name)
    return open_gate(bundle, kind=kind, graph_id=graph_id)


def _find_embedder(profile: EmbeddingProfile | None, environment: Mapping[str, str]) -> Embedder:
    """The embedder of a graph: its own provider, or that of the environment."""
    if profile is None or is_mocked(environment):
        return find_embedder(environment)
    key = None if profile.api_key is None else environment.get(profile.api_key, "").strip()
    if key == "":
        reason = f"{profile.api_key}, the key of its embedding provider, is not set"
        raise EmbeddingError(action=CONFIGURING, reason=reason)
    made = make_profile(
        profile.kind,
        base_url=profile.base_url,
        model=profile.model,
        api_key=key,
        retry=parse_retry_policy(environment),
    )
    return open_embedder(made)
