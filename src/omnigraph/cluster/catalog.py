"""Published contents of queries and policies by digest, and the applied resources that use them.

A stored content is never replaced, so publishing is idempotent and a digest always means the same
bytes. Reads check the digest and need no lock. One damaged content does not prevent reading the
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.cluster.context import Cluster
from omnigraph.cluster.resources import (
    Findings,
    Kind,
    StoppedError,
    digest_bytes,
    graph_address,
    kind_of,
    name_of,
    stop_on_storage_error,
    stopped,
)
from omnigraph.cluster.state import find_ledger
from omnigraph.model.errors import GraphError

if TYPE_CHECKING:
    from omnigraph.storage.ports import ObjectStore

RESOURCES_PREFIX = "__cluster/resources"

_SUFFIX_BY_KIND = {Kind.QUERY: ".gq", Kind.POLICY: ".yaml"}


class BlobFault(StrEnum):
    """The possible faults of a stored content."""

    MISSING = "payload_missing"
    MISMATCH = "payload_mismatch"
    UNREADABLE = "payload_unreadable"


@dataclass(frozen=True, slots=True)
class BadBlob:
    """A stored content that cannot be used, and the reason."""

    fault: BlobFault
    message: str


def has_blob(address: str) -> bool:
    """Whether a resource has content in the catalog."""
    return kind_of(address) in _SUFFIX_BY_KIND


def blob_path(address: str, digest: str) -> str:
    """The path of the content of a query or a policy."""
    kind, *parts = address.split(".")
    name = "/".join((RESOURCES_PREFIX, kind, *parts, digest))
    return f"{name}{_SUFFIX_BY_KIND[Kind(kind)]}"


def publish_blob(address: str, content: bytes, objects: ObjectStore) -> None:
    """Durable effect: store a content, unless it is already stored."""
    digest = digest_bytes(content)
    path = blob_path(address, digest)
    with stop_on_storage_error("resource_payload_write_error", path):
        stored = objects.find(path)
        if stored is None:
            objects.put_if_absent(path, content)
        elif stored.content != content:
            # The stored bytes are damaged, or were written by a program that ignores the digest.
            objects.put(path, content)


def check_blob(address: str, digest: str, objects: ObjectStore) -> bytes | BadBlob:
    """The content of a resource, or its fault."""
    path = blob_path(address, digest)
    try:
        stored = objects.find(path)
    except GraphError as error:
        return BadBlob(BlobFault.UNREADABLE, str(error))
    if stored is None:
        return BadBlob(BlobFault.MISSING, f"{path} is missing")
    if digest_bytes(stored.content) != digest:
        return BadBlob(BlobFault.MISMATCH, f"the content of {path} does not match its name")
    return stored.content


@dataclass(frozen=True, slots=True)
class AppliedQuery:
    """A stored query: the text that contains it, with a verified digest."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """A policy bundle with a verified digest, and the scopes it applies to."""

    name: str
    digest: str
    content: bytes
    applies_to: tuple[str, ...]


def list_graph_ids(cluster: Cluster) -> tuple[str, ...]:
    """The ids of the applied graphs."""
    stored = find_ledger(cluster.objects)
    return () if stored is None else tuple(sorted(stored.ledger.graph_ids()))


def get_graph_uri(cluster: Cluster, id: str | None) -> str:
    """The URI of an applied graph; without an id, of the only one.

    Raises `StoppedError` if there is no such graph, or if the id is needed.
    """
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
        raise stopped("graph_not_applied", cluster.root.uri, said)
    if id not in known:
        raise stopped(
            "graph_not_applied",
            graph_address(id),
            f"graph '{id}' is not applied in cluster {cluster.root.uri}; applied: {listed}",
        )
    return cluster.graphs.uri_of(id)


def read_policies(cluster: Cluster) -> tuple[AppliedPolicy, ...]:
    """The applied policies, by name; raises `StoppedError` if a content cannot be used."""
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
    """A published content; None, and a finding, if it cannot be used."""
    found = check_blob(address, digest, cluster.objects)
    if not isinstance(found, BadBlob):
        return found
    code = {
        BlobFault.MISSING: "catalog_payload_missing",
        BlobFault.MISMATCH: "catalog_payload_digest_mismatch",
        BlobFault.UNREADABLE: "catalog_payload_read_error",
    }[found.fault]
    findings.error(code, address, found.message)
    return None
