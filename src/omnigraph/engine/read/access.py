"""Access paths: whether a traversal looks edges up or walks all of them in memory.

Looking up costs a round trip a hop and more an edge, and reads nothing else; holding a type's edges
in memory costs one scan, once for each version. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import (
    EXPAND_CSR_FACTOR,
    EXPAND_INDEXED_FRONTIER_MAX,
    EXPAND_INDEXED_HOPS_MAX,
    EXPAND_PROBES_MAX,
)

FRONTIER_VARIABLE = "OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER"
HOPS_VARIABLE = "OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS"

# Nobody has more entities than such a number can say.
_BOUND_DIGITS_MAX = 15


class TraversalMode(StrEnum):
    """How traversals find edges: as costs say, or always one way."""

    AUTO = "auto"
    CSR = "csr"
    INDEXED = "indexed"


@dataclass(frozen=True, slots=True)
class LookupBounds:
    """How far edges are looked up instead of held in memory: from how many entities at most, and
    over how many hops."""

    frontier_max: int
    hops_max: int


@dataclass(frozen=True, slots=True)
class AccessRules:
    """What whoever opened the graph says about all traversals."""

    forced: TraversalMode
    bounds: LookupBounds


USUAL_LOOKUPS = LookupBounds(EXPAND_INDEXED_FRONTIER_MAX, EXPAND_INDEXED_HOPS_MAX)


@dataclass(frozen=True, slots=True)
class Access:
    """The chosen path and the reason for it."""

    mode: TraversalMode
    reason: str


def parse_lookups(environment: Mapping[str, str]) -> LookupBounds:
    """The bounds that an environment sets, else the usual ones; zero looks nothing up."""
    return LookupBounds(
        _parse_bound(environment, FRONTIER_VARIABLE, USUAL_LOOKUPS.frontier_max),
        _parse_bound(environment, HOPS_VARIABLE, USUAL_LOOKUPS.hops_max),
    )


def choose_access(
    *,
    rules: AccessRules,
    frontier: int,
    hops: int,
    edge_count: int,
    source_count: int,
    is_warm: bool,
    probes: int,
) -> Access:
    """The path of one traversal from `frontier` of `source_count` entities."""
    if rules.forced is not TraversalMode.AUTO:
        return Access(rules.forced, "as the environment says")
    if is_warm:
        return Access(TraversalMode.CSR, "the edges are in memory")
    if frontier > rules.bounds.frontier_max:
        return Access(TraversalMode.CSR, f"it starts from {frontier:,} nodes")
    if hops > rules.bounds.hops_max:
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


def _parse_bound(environment: Mapping[str, str], name: str, usual: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) <= _BOUND_DIGITS_MAX):
        raise InvalidValueError(
            subject=name,
            expected="a whole number",
            value=text,
            problem=f"{text!r} is no whole number of at most {_BOUND_DIGITS_MAX} digits",
        )
    return int(text)
