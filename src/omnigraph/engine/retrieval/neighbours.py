"""The neighbourhood of what was found, in one order.

Nodes take turns: the first neighbour of each, then the second of each, and so on, so that a hub
does not push out the neighbours of others. A node's own neighbours come as the search ranked
them, then by edge type, direction (`out` first), type and id. Each node is reached once, by the
path that gets there first; what the search found is not reached again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from omnigraph.compiler.ir import Direction
from omnigraph.engine.retrieval.answers import NodeName, PathStep
from omnigraph.engine.retrieval.fusion import Fused
from omnigraph.engine.retrieval.limits import REACHED_MAX
from omnigraph.model.catalog import EdgeType


@dataclass(frozen=True, slots=True)
class Reached:
    """A node, and the path to it from one that the search found."""

    node: NodeName
    seed: NodeName
    path: tuple[PathStep, ...]


LookUp = Callable[[EdgeType, Direction, Sequence[str], Sequence[str]], Sequence[tuple[str, str]]]
"""Nodes and their neighbours over an edge type, both by id; given are the ids to start from and
those of neighbours that the search found."""


def reach(
    seeds: Sequence[NodeName],
    *,
    hops: int,
    edges: Sequence[EdgeType],
    fused: Mapping[NodeName, Fused],
    look_up: LookUp,
) -> list[Reached]:
    """Everything within some hops, nearest first."""
    frontier = [Reached(node, node, ()) for node in seeds]
    seen = set(seeds)
    reached: list[Reached] = []
    for _ in range(hops):
        steps = _find_steps(frontier, edges, fused, look_up)
        frontier = _take_turns(frontier, steps, seen)
        reached += frontier
    return reached


def _find_steps(
    frontier: Sequence[Reached],
    edges: Sequence[EdgeType],
    fused: Mapping[NodeName, Fused],
    look_up: LookUp,
) -> Mapping[NodeName, list[PathStep]]:
    """Where each node leads in one hop, best first."""
    ids: dict[str, list[str]] = {}
    for each in frontier:
        ids.setdefault(each.node.type, []).append(each.node.id)
    found_ids: dict[str, list[str]] = {}
    for node in fused:
        found_ids.setdefault(node.type, []).append(node.id)
    steps: dict[NodeName, list[PathStep]] = {}
    for edge in edges:
        for direction in (Direction.OUT, Direction.IN):
            ends = (edge.source, edge.target)
            near, far = ends if direction is Direction.OUT else ends[::-1]
            if near in ids:
                for start, end in look_up(edge, direction, ids[near], found_ids.get(far, [])):
                    step = PathStep(edge.name, str(direction), NodeName(far, end))
                    steps.setdefault(NodeName(near, start), []).append(step)

    def order(step: PathStep) -> tuple[float, str, bool, NodeName]:
        found = fused.get(step.node)
        score = 0.0 if found is None else found.score
        return -score, step.edge, step.direction != Direction.OUT, step.node

    return {node: sorted(each, key=order) for node, each in steps.items()}


def _take_turns(
    frontier: Sequence[Reached], steps: Mapping[NodeName, list[PathStep]], seen: set[NodeName]
) -> list[Reached]:
    taken: list[Reached] = []
    turns = [_unseen(each, steps.get(each.node, []), seen) for each in frontier]
    for turn in zip_longest(*turns):
        for each in turn:
            if each is not None and len(taken) < REACHED_MAX:
                taken.append(each)
        if len(taken) == REACHED_MAX:
            break
    return taken


def _unseen(start: Reached, steps: Sequence[PathStep], seen: set[NodeName]) -> Iterator[Reached]:
    """What is next from a node whenever it is its turn, without what others took meanwhile."""
    for step in steps:
        if step.node not in seen:
            seen.add(step.node)
            yield Reached(step.node, start.seed, (*start.path, step))
