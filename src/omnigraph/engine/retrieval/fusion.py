"""Several rankings made into one: weighted reciprocal rank fusion.

A node's score is the sum, over the rankings that name it, of `weight / (60 + place)`. Equal scores
go by type and id, so that one search has one order. Pure; knows neither distances nor relevance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from omnigraph.compiler.query.search import RRF_K_DEFAULT
from omnigraph.engine.retrieval.answers import ArmRank, NodeName


@dataclass(frozen=True, slots=True)
class RankedArm:
    """The ranking of one arm: nodes, best first, with their relevance or distance if it has one."""

    name: str
    weight: float
    nodes: Sequence[tuple[NodeName, float | None]]


@dataclass(frozen=True, slots=True)
class Fused:
    """A node's score and where each ranking that names it has it."""

    node: NodeName
    score: float
    arms: tuple[ArmRank, ...]


def fuse(arms: Sequence[RankedArm]) -> Mapping[NodeName, Fused]:
    """Every node of every ranking, best first."""
    ranks: dict[NodeName, list[ArmRank]] = {}
    scores: dict[NodeName, float] = {}
    for arm in arms:
        for rank, (node, score) in enumerate(arm.nodes, start=1):
            ranks.setdefault(node, []).append(ArmRank(arm.name, rank, score))
            share = arm.weight / (RRF_K_DEFAULT + rank)
            scores[node] = scores.get(node, 0.0) + share
    ordered = sorted(scores, key=lambda node: (-scores[node], node))
    return MappingProxyType(
        {node: Fused(node, scores[node], tuple(ranks[node])) for node in ordered}
    )
