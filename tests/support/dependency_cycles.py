"""Cycles of dependencies: the smallest proofs that no order of its transactions explains a history.

A dependency says that one transaction comes before another, and why: both appended to a list (ww),
one read what the other wrote (wr), one did not see what the other wrote (rw), or one had ended when
the other started (rt). Only knows transactions by their labels.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Link(StrEnum):
    """Why one transaction comes before another."""

    WW = "ww"
    WR = "wr"
    RW = "rw"
    RT = "rt"


@dataclass(frozen=True, slots=True)
class Dependency:
    """That one transaction comes before another, in words that end in a reason."""

    source: str
    target: str
    link: Link
    reason: str

    def __str__(self) -> str:
        return f"{self.source} -{self.link}-> {self.target}: {self.reason}"


class CycleKind(StrEnum):
    """What a cycle is made of; in real time if only the clock closes it."""

    G0 = "G0"
    G1C = "G1c"
    G_SINGLE = "G-single"
    G2 = "G2"
    G0_REAL_TIME = "G0 in real time"
    G1C_REAL_TIME = "G1c in real time"
    G_SINGLE_REAL_TIME = "G-single in real time"
    G2_REAL_TIME = "G2 in real time"


@dataclass(frozen=True, slots=True)
class Cycle:
    """Transactions of which each must come before the next, and the last before the first."""

    kind: CycleKind
    dependencies: tuple[Dependency, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.kind}:", *(f"  {each}" for each in self.dependencies)])


@dataclass(frozen=True, slots=True)
class _Shape:
    """A kind of cycle: one dependency of one link, and a way back over some links."""

    kind: CycleKind
    closing: Link
    back: frozenset[Link]


# The worst first: a cycle of writes alone allows no isolation at all, one that needs two missed
# writes is only not serialisable, and what needs the clock is serialisable but out of time.
_BACK_BY_KIND = (
    (CycleKind.G0, CycleKind.G0_REAL_TIME, Link.WW, frozenset({Link.WW})),
    (CycleKind.G1C, CycleKind.G1C_REAL_TIME, Link.WR, frozenset({Link.WW, Link.WR})),
    (CycleKind.G_SINGLE, CycleKind.G_SINGLE_REAL_TIME, Link.RW, frozenset({Link.WW, Link.WR})),
    (CycleKind.G2, CycleKind.G2_REAL_TIME, Link.RW, frozenset({Link.WW, Link.WR, Link.RW})),
)
_SHAPES = (
    *(_Shape(kind, closing, back) for kind, _, closing, back in _BACK_BY_KIND),
    *(_Shape(kind, closing, back | {Link.RT}) for _, kind, closing, back in _BACK_BY_KIND),
)

_Graph = Mapping[str, Sequence[Dependency]]


def find_cycles(dependencies: Iterable[Dependency]) -> Sequence[Cycle]:
    """The smallest cycle of the worst kind for each knot of transactions; none if all is well."""
    edges = [each for each in dependencies if each.source != each.target]
    found: list[Cycle] = []
    seen: set[str] = set()
    for shape in _SHAPES:
        links = shape.back | {shape.closing}
        for knot in find_knots([each for each in edges if each.link in links]):
            if seen & knot.keys():
                continue
            cycle = _find_smallest(shape, knot)
            if cycle is not None:
                found.append(Cycle(shape.kind, cycle))
                seen |= knot.keys()
    return found


def find_knots(dependencies: Sequence[Dependency]) -> Iterator[_Graph]:
    """The sets of transactions that all come before each other, with what says so."""
    forward, backward = defaultdict(set), defaultdict(set)
    for each in dependencies:
        forward[each.source].add(each.target)
        backward[each.target].add(each.source)
    knot_by_label: dict[str, str] = {}
    # Kosaraju's algorithm: nodes that reach the last finished node backwards are in its component.
    for root in reversed(_finishing_order(forward)):
        waiting = [root] if root not in knot_by_label else []
        while waiting:
            label = waiting.pop()
            knot_by_label[label] = root
            waiting += [each for each in backward[label] if each not in knot_by_label]
    knots: dict[str, list[Dependency]] = defaultdict(list)
    for each in dependencies:
        if knot_by_label[each.source] == knot_by_label[each.target]:
            knots[knot_by_label[each.source]].append(each)
    return (_by_source(inner) for inner in knots.values())


def _finishing_order(neighbours: Mapping[str, set[str]]) -> Sequence[str]:
    """All labels, each after whatever could be reached from it first."""
    order: list[str] = []
    seen: set[str] = set()
    for root in neighbours:
        path = [] if root in seen else [(root, iter(neighbours[root]))]
        seen.add(root)
        while path:
            label, rest = path[-1]
            step = next((each for each in rest if each not in seen), None)
            if step is None:
                order.append(label)
                path.pop()
            else:
                seen.add(step)
                path.append((step, iter(neighbours.get(step, ()))))
    return order


def _by_source(dependencies: Iterable[Dependency]) -> _Graph:
    graph: dict[str, list[Dependency]] = defaultdict(list)
    for each in dependencies:
        graph[each.source].append(each)
    return graph


def _find_smallest(shape: _Shape, knot: _Graph) -> tuple[Dependency, ...] | None:
    best: tuple[Dependency, ...] | None = None
    closings = (each for leaving in knot.values() for each in leaving if each.link is shape.closing)
    for closing in closings:
        back = _find_way(closing.target, closing.source, shape.back, knot)
        if back is not None and (best is None or len(back) + 1 < len(best)):
            best = (closing, *back)
            if len(best) == 2:
                break
    return best


def _find_way(
    start: str, end: str, links: frozenset[Link], graph: _Graph
) -> Sequence[Dependency] | None:
    """A shortest way between two different transactions."""
    arrival: dict[str, Dependency] = {}
    waiting = deque([start])
    while waiting and end not in arrival:
        for each in graph.get(waiting.popleft(), ()):
            if each.link in links and each.target != start and each.target not in arrival:
                arrival[each.target] = each
                waiting.append(each.target)
    if end not in arrival:
        return None
    way = [arrival[end]]
    while way[-1].source != start:
        way.append(arrival[way[-1].source])
    return way[::-1]
