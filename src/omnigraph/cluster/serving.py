"""The serving snapshot: the applied state from which a server starts.

It is read from the state and the catalog only, without the lock and without recovery; files in the
folder do not count until they are applied. A graph with a change in progress or an interrupted
change is left out. An error in the cluster itself raises `StoppedError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.cluster.catalog import AppliedPolicy, AppliedQuery, read_blob
from omnigraph.cluster.config import EmbeddingProfile, Section, encode_profile, parse_profile
from omnigraph.cluster.context import Cluster
from omnigraph.cluster.recovery import list_sidecars
from omnigraph.cluster.resources import (
    CLUSTER,
    Finding,
    Findings,
    Kind,
    StoppedError,
    digest_profile,
    error_finding,
    graph_address,
    graph_id_of,
    kind_of,
    name_of,
    stopped,
)
from omnigraph.cluster.state import STATE_PATH, ClusterState, Status, StoredState, find_ledger


@dataclass(frozen=True, slots=True)
class AppliedGraph:
    """A graph to serve; without a profile, the environment determines the embedding provider."""

    id: str
    uri: str
    queries: tuple[AppliedQuery, ...]
    policy: AppliedPolicy | None
    embedding: EmbeddingProfile | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A graph that is not served now, and the reason."""

    id: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class ServingSnapshot:
    """The whole applied state; `cas` changes with every revision, so a new one can be detected.

    `has_policy` reports whether any policy was applied, including those of graphs that are left
    out. `storage_options` are used to open the graphs.
    """

    root: str
    revision: int
    cas: str
    config_digest: str | None
    graphs: tuple[AppliedGraph, ...]
    left_out: tuple[LeftOut, ...]
    policy: AppliedPolicy | None
    has_policy: bool
    storage_options: Mapping[str, str]


def read_serving_snapshot(cluster: Cluster) -> ServingSnapshot:
    """The state to serve.

    Raises `StoppedError`, with every reason, if the cluster has errors or is empty.
    """
    stored = find_ledger(cluster.objects)
    if stored is None:
        raise stopped(
            "cluster_state_missing",
            STATE_PATH,
            f"there is no applied cluster at {cluster.root.uri}; run `omnigraph cluster "
            "import` and `omnigraph cluster apply`",
        )
    findings = Findings()
    sidecars, faults = list_sidecars(cluster.objects)
    for fault in faults:
        findings.error("cluster_recovery_unattributed", fault.path, fault.message)
    waiting = {
        each.graph_id: error_finding(
            "cluster_recovery_pending",
            each.path,
            f"`{each.kind}` of {each.started_at} was interrupted; `omnigraph cluster apply` "
            "recovers it",
        )
        for each in sidecars
    }
    snapshot = _read(cluster, stored, waiting, findings)
    if findings.has_errors:
        raise StoppedError(*findings)
    return snapshot


def _read(
    cluster: Cluster, stored: StoredState, waiting: Mapping[str, Finding], findings: Findings
) -> ServingSnapshot:
    ledger = stored.ledger
    ids = sorted(ledger.graph_ids())
    healthy = [id for id in ids if id not in waiting]
    if not ids:
        findings.error("cluster_empty", STATE_PATH, "no graph has been applied")
    elif not healthy:
        findings.error(
            "cluster_no_healthy_graphs",
            STATE_PATH,
            f"every graph has an interrupted change: {', '.join(ids)}",
        )
    policies = _read_policies(cluster, ledger, frozenset(healthy), findings)
    queries = _read_queries(cluster, ledger, frozenset(healthy), findings)
    return ServingSnapshot(
        root=cluster.root.uri,
        revision=ledger.revision,
        cas=stored.cas,
        config_digest=ledger.config_digest,
        graphs=tuple(
            AppliedGraph(
                id=id,
                uri=cluster.graphs.uri_of(id),
                queries=tuple(queries.get(id, ())),
                policy=policies.get(graph_address(id)),
                embedding=_find_profile(ledger, id, findings),
            )
            for id in healthy
        ),
        left_out=tuple(LeftOut(id, waiting[id]) for id in ids if id in waiting),
        policy=policies.get(CLUSTER),
        has_policy=any(kind_of(each) is Kind.POLICY for each in ledger.resources),
        storage_options=cluster.root.storage_options,
    )


def _read_queries(
    cluster: Cluster, ledger: ClusterState, healthy: frozenset[str], findings: Findings
) -> dict[str, list[AppliedQuery]]:
    found: dict[str, list[AppliedQuery]] = {}
    for address, resource in sorted(ledger.resources.items()):
        id = graph_id_of(address)
        if kind_of(address) is Kind.QUERY and id in healthy:
            content = read_blob(cluster, address, resource.digest, findings)
            if content is not None and id is not None:
                found.setdefault(id, []).append(AppliedQuery(name_of(address), content))
    return found


def _read_policies(
    cluster: Cluster, ledger: ClusterState, healthy: frozenset[str], findings: Findings
) -> dict[str, AppliedPolicy]:
    """The policy of each scope."""
    for address, status in sorted(ledger.statuses.items()):
        is_lost = status.status is Status.DRIFTED and address not in ledger.resources
        if is_lost and kind_of(address) is Kind.POLICY:
            # A graph without its policy would be open to every caller with a token.
            findings.error(
                "catalog_payload_missing",
                address,
                "its content is missing; `omnigraph cluster apply` publishes it again",
            )
    scopes = {CLUSTER, *map(graph_address, healthy)}
    found: dict[str, AppliedPolicy] = {}
    for address, resource in sorted(ledger.resources.items()):
        if kind_of(address) is not Kind.POLICY:
            continue
        if not resource.applies_to:
            findings.error(
                "policy_bindings_missing", address, "the state does not contain its scope"
            )
            continue
        bound = scopes.intersection(resource.applies_to)
        content = read_blob(cluster, address, resource.digest, findings) if bound else None
        if content is None:
            continue
        policy = AppliedPolicy(name_of(address), resource.digest, content, resource.applies_to)
        for scope in sorted(bound):
            if scope in found:
                findings.error(
                    "policy_scope_shared",
                    address,
                    f"`{found[scope].name}` and `{policy.name}` both apply to `{scope}`; a scope "
                    "has one policy",
                )
            found.setdefault(scope, policy)
    return found


def _find_profile(ledger: ClusterState, id: str, findings: Findings) -> EmbeddingProfile | None:
    provider = ledger.resources[graph_address(id)].embedding_provider
    if provider is None:
        return None
    applied = ledger.resources.get(provider)
    if applied is None:
        findings.error("embedding_provider_missing", provider, f"graph '{id}' needs it")
        return None
    if applied.embedding_profile is None:
        findings.error(
            "embedding_provider_profile_missing", provider, "the state does not contain its profile"
        )
        return None
    section = Section.parse(
        {key: value for key, value in applied.embedding_profile.items() if value is not None},
        provider,
        findings,
    )
    profile = None if section is None else parse_profile(section)
    if profile is not None and digest_profile(encode_profile(profile)) != applied.digest:
        findings.error(
            "embedding_provider_digest_mismatch",
            provider,
            "its profile differs from the applied one",
        )
    return profile
