"""What was applied, piece by piece: where a graph is, and the contents that were published.

Reads the ledger and the catalog only, without the lock, so that upkeep works on a cluster of which
some part is broken.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.cluster.addresses import Kind, graph_address, kind_of, name_of
from omnigraph.cluster.catalog_blobs import BadBlob, Blob, BlobFault, check_blob
from omnigraph.cluster.findings import Findings, StoppedError, error_finding
from omnigraph.cluster.ledger import find_ledger
from omnigraph.cluster.world import Cluster


@dataclass(frozen=True, slots=True)
class AppliedQuery:
    """A stored query: the text that holds it, whose digest was checked."""

    name: str
    digest: str
    content: bytes


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """A policy bundle whose digest was checked, and all that it applies to."""

    name: str
    digest: str
    content: bytes
    applies_to: tuple[str, ...]


def list_graph_ids(cluster: Cluster) -> tuple[str, ...]:
    """The graphs that were applied."""
    stored = find_ledger(cluster.objects)
    return () if stored is None else tuple(sorted(stored.ledger.graph_ids()))


def get_graph_uri(cluster: Cluster, id: str | None) -> str:
    """Where an applied graph is; without an id, the only one there is. Stops if there is none."""
    known = list_graph_ids(cluster)
    if id is None and len(known) == 1:
        return cluster.graphs.uri_of(known[0])
    listed = ", ".join(known) or "none"
    if id is None:
        said = (
            f"name a graph of cluster {cluster.root.uri} with --graph <id>: {listed}"
            if known
            else f"no graph is applied in cluster {cluster.root.uri}"
        )
        raise StoppedError(error_finding("graph_not_applied", cluster.root.uri, said))
    if id not in known:
        raise StoppedError(
            error_finding(
                "graph_not_applied",
                graph_address(id),
                f"graph '{id}' is not applied in cluster {cluster.root.uri}; applied: {listed}",
            )
        )
    return cluster.graphs.uri_of(id)


def read_policies(cluster: Cluster) -> tuple[AppliedPolicy, ...]:
    """The policies that were applied, by name; stops if a content of one is of no use."""
    stored = find_ledger(cluster.objects)
    resources = {} if stored is None else stored.ledger.resources
    findings = Findings()
    found = []
    for address, resource in sorted(resources.items()):
        if kind_of(address) is Kind.POLICY:
            content = read_blob(cluster, address, resource.digest, findings)
            bindings = resource.applies_to or ()
            if content is not None:
                policy = AppliedPolicy(name_of(address), resource.digest, content, bindings)
                found.append(policy)
    if findings.has_errors:
        raise StoppedError(*findings)
    return tuple(found)


def read_blob(cluster: Cluster, address: str, digest: str, findings: Findings) -> bytes | None:
    """A content that was published; None, and a finding, if it is of no use."""
    match check_blob(address, digest, cluster.objects):
        case Blob(content=content):
            return content
        case BadBlob(fault=fault, message=message):
            code = {
                BlobFault.MISSING: "catalog_payload_missing",
                BlobFault.MISMATCH: "catalog_payload_digest_mismatch",
                BlobFault.UNREADABLE: "catalog_payload_read_error",
            }[fault]
            findings.error(code, address, message)
            return None
