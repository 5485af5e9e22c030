"""Junctions: the commits at which the pasts of several branches part.

Pure, over commits that were read already. Whatever two branches are merged from is among them: the
last commit that both have in common has one child on the way to each, and no child that leads to
both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.engine.state.ancestry import Ancestry
from omnigraph.engine.state.history import Ancestor


@dataclass(frozen=True, slots=True)
class Junction:
    """A commit from which no single child leads to all the heads that it leads to."""

    commit: Ancestor
    head_ids: frozenset[str]


def find_junctions(head_ids: Iterable[str], *, known: Ancestry) -> tuple[Junction, ...]:
    """The junctions of the pasts of some heads, by id; a head that others come from is one."""
    heads = sorted(set(head_ids))
    children = _find_children(heads, known)
    # Sets of heads are numbers with a bit for each: histories are long, and heads may be many.
    reached = {id: 1 << place for place, id in enumerate(heads)}
    for id in _children_first(children):
        for child in children[id]:
            reached[id] = reached.get(id, 0) | reached[child]
    return tuple(
        Junction(known[id], _heads_of(reached[id], heads))
        for id in sorted(children)
        if id in known
        if reached[id].bit_count() > 1
        if all(reached[child] != reached[id] for child in children[id])
    )


def _find_children(heads: list[str], known: Ancestry) -> dict[str, list[str]]:
    """The children of every commit of the pasts of some heads."""
    children: dict[str, list[str]] = {id: [] for id in heads}
    waiting = list(heads)
    while waiting:
        id = waiting.pop()
        each = known.get(id)
        for parent in each.parent_ids if each else ():
            if parent not in children:
                children[parent] = []
                waiting.append(parent)
            children[parent].append(id)
    return children


def _children_first(children: dict[str, list[str]]) -> list[str]:
    parents: dict[str, list[str]] = {}
    for id, below in children.items():
        for child in below:
            parents.setdefault(child, []).append(id)
    left = {id: len(below) for id, below in children.items()}
    order = [id for id, count in left.items() if not count]
    for id in order:
        for parent in parents.get(id, ()):
            left[parent] -= 1
            if not left[parent]:
                order.append(parent)
    return order


def _heads_of(mask: int, heads: list[str]) -> frozenset[str]:
    return frozenset(id for place, id in enumerate(heads) if mask >> place & 1)
