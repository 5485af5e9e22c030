"""What a server is to serve, decided before any graph is opened: one storage, or a cluster.

Of a cluster only what was applied counts. A policy of the server itself that cannot be used is a
reason not to start; one of a graph leaves out that graph. Reads no environment: it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.cluster.applied import AppliedPolicy
from omnigraph.cluster.config import EmbeddingProfile
from omnigraph.cluster.findings import Finding, StoppedError
from omnigraph.cluster.serving import AppliedGraph, ServingSnapshot, read_serving_snapshot
from omnigraph.cluster.world import make_world, open_cluster
from omnigraph.compiler.text import decode_source
from omnigraph.embed.profiles import (
    CONFIGURING,
    is_mocked,
    make_profile,
    parse_patience,
)
from omnigraph.embed.providers import find_embedder, open_embedder
from omnigraph.engine.settings import Settings
from omnigraph.model.catalog import Catalog
from omnigraph.model.embedding import Embedder
from omnigraph.model.errors import EmbeddingError
from omnigraph.policy.bundle import BundleKind, parse_bundle
from omnigraph.policy.gate import DefaultDenyGate, open_gate
from omnigraph.server.boot import Quarantined, ReadQueries, Source
from omnigraph.server.served import DEFAULT_ID, Judge
from omnigraph.server.settings import BootError, Mode, decide_mode
from omnigraph.storage.environment import make_storage_options
from omnigraph.wire.stored_queries import StoredQuery, pick_queries, read_stored_queries

MakeSettings = Callable[[str, str, Mapping[str, str]], Settings]
"""The settings of a graph by its id, its uri and the options of its storage."""


@dataclass(frozen=True, slots=True)
class Store:
    """One graph, served for itself: where it is, and the files that go with it."""

    uri: str
    policy: str | None
    server_policy: str | None
    queries: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """Who is let in: whether there are tokens, and whether it was said that none are needed."""

    has_tokens: bool
    is_unauthenticated: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The graphs to open, those to leave out, and who decides about the server itself."""

    number: int | None
    mode: Mode
    sources: tuple[Source, ...]
    left_out: tuple[Quarantined, ...]
    gate: Judge | None


def plan_store(store: Store, entry: Entry, *, make_settings: MakeSettings) -> Plan:
    """What serving one graph takes; a bad policy is a reason not to start."""
    has_policy = store.policy is not None or store.server_policy is not None
    mode = _decide(entry, has_policy=has_policy)
    gate, server_gate = _open_gates(store, mode)
    # Files that say who may do what are read anew each time, and what they say is not compared.
    origin = (store.uri, mode) if store.policy is None else object()
    source = Source(
        id=DEFAULT_ID,
        origin=origin,
        settings=lambda: make_settings(DEFAULT_ID, store.uri, {}),
        gate=lambda: gate,
        queries=None if store.queries is None else _reader_of(Path(store.queries)),
        is_managed=False,
    )
    return Plan(None, mode, (source,), (), server_gate)


def plan_cluster(
    place: str, entry: Entry, *, environment: Mapping[str, str], make_settings: MakeSettings
) -> Plan:
    """What serving a cluster takes; `BootError` if what was applied is doubtful."""
    snapshot = _read_snapshot(place, environment)
    mode = _decide(entry, has_policy=snapshot.has_policy)

    def source_of(graph: AppliedGraph) -> Source:
        def settings() -> Settings:
            made = make_settings(graph.id, graph.uri, snapshot.storage_options)
            return replace(made, embedder=_find_embedder(graph.embedding, environment))

        return Source(
            id=graph.id,
            origin=(graph.uri, mode, graph.policy and graph.policy.digest, graph.embedding),
            settings=settings,
            gate=lambda: _open_graph_gate(graph, mode),
            queries=_applied_reader_of(graph) if graph.queries else None,
            is_managed=True,
        )

    return Plan(
        number=snapshot.revision,
        mode=mode,
        sources=tuple(map(source_of, snapshot.graphs)),
        left_out=tuple(Quarantined(each.id, _tell(each.finding)) for each in snapshot.left_out),
        gate=None
        if snapshot.policy is None or mode is not Mode.POLICY
        else _open_applied(snapshot.policy, kind=BundleKind.SERVER, graph_id=None),
    )


def _decide(entry: Entry, *, has_policy: bool) -> Mode:
    return decide_mode(
        has_tokens=entry.has_tokens,
        has_policy=has_policy,
        is_unauthenticated=entry.is_unauthenticated,
    )


# One graph


def _open_gates(store: Store, mode: Mode) -> tuple[Judge | None, Judge | None]:
    """Who decides about the graph, and about the server."""
    match mode:
        case Mode.OPEN:
            return None, None
        case Mode.DEFAULT_DENY:
            return DefaultDenyGate(), None
        case Mode.POLICY:
            graph = (
                DefaultDenyGate()
                if store.policy is None
                else open_gate(store.policy, kind=BundleKind.GRAPH, graph_id=DEFAULT_ID)
            )
            server = (
                None
                if store.server_policy is None
                else open_gate(store.server_policy, kind=BundleKind.SERVER, graph_id=None)
            )
            return graph, server


def _reader_of(path: Path) -> ReadQueries:
    def read(catalog: Catalog) -> Mapping[str, StoredQuery]:
        return read_stored_queries(path, catalog=catalog)

    return read


# A cluster


def _read_snapshot(place: str, environment: Mapping[str, str]) -> ServingSnapshot:
    options = make_storage_options(environment, {})
    try:
        cluster = open_cluster(place, make_world(storage_options=options, durability="full"))
        return read_serving_snapshot(cluster)
    except StoppedError as error:
        told = "\n  ".join(map(_tell, error.findings))
        raise BootError(f"the cluster at {place} cannot be served:\n  {told}") from error


def _tell(finding: Finding) -> str:
    return f"[{finding.code}] {finding.path}: {finding.message}"


def _open_graph_gate(graph: AppliedGraph, mode: Mode) -> Judge | None:
    match mode:
        case Mode.OPEN:
            return None
        case Mode.DEFAULT_DENY:
            return DefaultDenyGate()
        case Mode.POLICY if graph.policy is None:
            # A graph beside others that have one is not open for that.
            return DefaultDenyGate()
        case Mode.POLICY:
            return _open_applied(graph.policy, kind=BundleKind.GRAPH, graph_id=graph.id)


def _open_applied(policy: AppliedPolicy, *, kind: BundleKind, graph_id: str | None) -> Judge:
    bundle = parse_bundle(policy.content, kind=kind, name=policy.name)
    return open_gate(bundle, kind=kind, graph_id=graph_id)


def _applied_reader_of(graph: AppliedGraph) -> ReadQueries:
    def read(catalog: Catalog) -> Mapping[str, StoredQuery]:
        sources = {
            each.name: decode_source(each.content, name=f"{each.name}.gq") for each in graph.queries
        }
        return pick_queries(sources, catalog=catalog)

    return read


def _find_embedder(profile: EmbeddingProfile | None, environment: Mapping[str, str]) -> Embedder:
    """Who makes the vectors of a graph: its provider, or whoever the environment says."""
    if profile is None or is_mocked(environment):
        return find_embedder(environment)
    key = None if profile.api_key is None else environment.get(profile.api_key, "").strip()
    if key == "":
        reason = f"{profile.api_key}, which holds the key of its embedding provider, is not set"
        raise EmbeddingError(action=CONFIGURING, reason=reason)
    made = make_profile(
        profile.kind,
        base_url=profile.base_url,
        model=profile.model,
        api_key=key,
        patience=parse_patience(environment),
    )
    return open_embedder(made)
