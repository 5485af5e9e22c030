"""Clauses after checking: names resolved, directions inferred, conditions typed.

What `check` hands to `lower`. The order is still the written one.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.compiler.ir import Condition, Direction


@dataclass(frozen=True, slots=True)
class ResolvedBinding:
    """A variable over a node type, with the conditions of its braces."""

    variable: str
    type_name: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class ResolvedTraversal:
    """A walk from source to target; the direction is the edge's, seen from the source."""

    source: str
    source_type: str
    target: str
    target_type: str
    edge_type: str
    direction: Direction
    hops_min: int
    hops_max: int
    edge_binding: str | None


@dataclass(frozen=True, slots=True)
class ResolvedFilter:
    """A condition; `mentions` are the variables it looks at."""

    condition: Condition
    mentions: frozenset[str]


@dataclass(frozen=True, slots=True)
class ResolvedNegation:
    """A block that must have no solution; `outer` are the variables it shares."""

    outer: tuple[str, ...]
    clauses: tuple[ResolvedClause, ...]


@dataclass(frozen=True, slots=True)
class ResolvedOptional:
    """A block that may have no solution."""

    outer: tuple[str, ...]
    clauses: tuple[ResolvedClause, ...]


ResolvedClause = (
    ResolvedBinding | ResolvedTraversal | ResolvedFilter | ResolvedNegation | ResolvedOptional
)
