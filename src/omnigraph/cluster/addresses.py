"""Addresses: the names by which plans, the ledger and people mean a resource of a cluster.

`graph.<id>`, `schema.<id>`, `query.<graph>.<name>`, `policy.<name>`, `provider.embedding.<name>`.
An id has no dot, so an address is taken apart in one way only.
"""

from __future__ import annotations

import re
from enum import StrEnum

CLUSTER = "cluster"
"""What a policy applies to that is about the server itself."""

ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


class Kind(StrEnum):
    """What a resource is."""

    GRAPH = "graph"
    SCHEMA = "schema"
    QUERY = "query"
    POLICY = "policy"
    PROVIDER = "provider"


_PROVIDER_PREFIX = "provider.embedding."


def graph_address(id: str) -> str:
    """The address of a graph."""
    return f"graph.{id}"


def schema_address(id: str) -> str:
    """The address of a graph's schema."""
    return f"schema.{id}"


def query_address(graph_id: str, name: str) -> str:
    """The address of a stored query."""
    return f"query.{graph_id}.{name}"


def policy_address(name: str) -> str:
    """The address of a policy."""
    return f"policy.{name}"


def provider_address(name: str) -> str:
    """The address of an embedding provider."""
    return f"{_PROVIDER_PREFIX}{name}"


def kind_of(address: str) -> Kind:
    """What kind of resource an address means."""
    return Kind(address.partition(".")[0])


def is_address(text: str) -> bool:
    """Whether a text is an address of some resource."""
    kind, _, rest = text.partition(".")
    if kind not in tuple(Kind):
        return False
    parts = rest.split(".")
    if kind == Kind.PROVIDER:
        parts = text.removeprefix(_PROVIDER_PREFIX).split(".")
    expected = 2 if kind == Kind.QUERY else 1
    return len(parts) == expected and all(map(ID.fullmatch, parts))


def name_of(address: str) -> str:
    """The last part of an address: the id or name of the resource itself."""
    return address.rpartition(".")[2]


def graph_id_of(address: str) -> str | None:
    """The graph that a resource is a part of; None for policies and providers."""
    parts = address.split(".")
    return parts[1] if parts[0] in (Kind.GRAPH, Kind.SCHEMA, Kind.QUERY) else None
