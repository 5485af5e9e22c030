"""Access paths: whether a traversal looks edges up or walks all of them in memory.

Looking up costs a round trip a hop and more an edge, and reads nothing else; holding a type's edges
in memory costs one scan, once for each version. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.model.limits import (
    EXPAND_CSR_FACTOR,
    EXPAND_INDEXED_FRONTIER_MAX,
    EXPAND_INDEXED_HOPS_MAX,
    EXPAND_PROBES_MAX,
)


class TraversalMode(StrEnum):
    """How traversals find edges: as costs say, or always one way."""

    AUTO = "auto"
    CSR = "csr"
    INDEXED = "indexed"


@dataclass(frozen=True, slots=True)
class Access:
    """The chosen path and the reason for it."""

    mode: TraversalMode
    reason: str


def choose_access(
    *,
    forced: TraversalMode,
    frontier: int,
    hops: int,
    edge_count: int,
    source_count: int,
    is_warm: bool,
    probes: int,
) -> Access:
    """The path of one traversal from `frontier` of `source_count` entities."""
    if forced is not TraversalMode.AUTO:
        return Access(forced, "as the environment says")
    if is_warm:
        return Access(TraversalMode.CSR, "the edges are in memory")
    if frontier > EXPAND_INDEXED_FRONTIER_MAX:
        return Access(TraversalMode.CSR, f"it starts from {frontier:,} nodes")
    if hops > EXPAND_INDEXED_HOPS_MAX:
        return Access(TraversalMode.CSR, f"it goes {hops} hops")
    if probes > EXPAND_PROBES_MAX:
        return Access(TraversalMode.CSR, "these edges are asked for again and again")
    looked_up = estimate_edges(
        frontier=frontier, hops=hops, edge_count=edge_count, source_count=source_count
    )
    if looked_up * EXPAND_CSR_FACTOR > edge_count:
        return Access(TraversalMode.CSR, f"about all {edge_count:,} edges are needed")
    return Access(TraversalMode.INDEXED, f"about {looked_up:,} of {edge_count:,} edges are needed")


def estimate_edges(*, frontier: int, hops: int, edge_count: int, source_count: int) -> int:
    """About how many edges a traversal meets, if nodes have as many as the average."""
    degree = edge_count / max(source_count, 1)
    met, reached = 0.0, float(frontier)
    for _ in range(hops):
        reached = min(reached * degree, float(source_count))
        met += reached
        if met >= edge_count:
            return edge_count
    return int(met)
