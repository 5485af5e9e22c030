"""Reach: what is how many hops away, against a breadth-first search over sets."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.engine.read import adjacency
from omnigraph.engine.read.adjacency import Adjacency, breadth_first_reach
from omnigraph.engine.read.budget import Allowance, Budget
from omnigraph.errors import LimitExceededError
from tests.support.clocks import HandClock

Edge = tuple[int, int]

NODES = 7


def adjacency_of(edges: Sequence[Edge]) -> Adjacency:
    """The neighbours of each node, parallel edges being one."""
    neighbours = [sorted({end for start, end in edges if start == node}) for node in range(NODES)]
    return Adjacency(
        np.cumsum([0, *map(len, neighbours)], dtype=np.int64),
        np.array([end for ends in neighbours for end in ends], np.int64),
        None,
        NODES,
        is_complete=True,
    )


def budget_of(bytes_max: int = 10**6) -> Budget:
    """A budget whose time never ends."""
    return Budget(Allowance(bytes_max, 1.0, HandClock().monotonic))


def reached(
    edges: Sequence[Edge], starts: Sequence[int], *, hops_min: int, hops_max: int
) -> list[list[int]]:
    """What each start reaches, in ascending order."""
    found = breadth_first_reach(
        adjacency_of(edges),
        starts=np.array(starts, np.int64),
        hops_min=hops_min,
        hops_max=hops_max,
        budget=budget_of(),
    )
    assert found.target_count == NODES
    return [
        found.ends[found.starts[row] : found.starts[row + 1]].tolist() for row in range(len(starts))
    ]


def naively_reached(edges: Sequence[Edge], start: int, hops_min: int, hops_max: int) -> list[int]:
    """The nodes whose shortest distance is within the bounds; a start only by an edge to itself."""
    distance_by_node = {start: 0}
    frontier = {start}
    for hop in range(1, hops_max + 1):
        ends = {end for near, end in edges if near in frontier}
        frontier = ends - distance_by_node.keys()
        distance_by_node |= dict.fromkeys(frontier, hop)
    found = {node for node, distance in distance_by_node.items() if distance >= hops_min}
    if hops_min == 1 and (start, start) in edges:
        found.add(start)
    return sorted(found)


NODE = st.integers(0, NODES - 1)
HOPS = st.tuples(st.integers(1, 4), st.integers(0, 4)).map(lambda it: (it[0], it[0] + it[1]))


@given(
    st.lists(st.tuples(NODE, NODE), max_size=14),
    st.lists(NODE, unique=True).map(sorted),
    HOPS,
    st.sampled_from([0, NODES * NODES]),
)
@example([(0, 0), (0, 1), (1, 0), (1, 1)], [0, 1], (1, 3), NODES * NODES)
@example([(0, 1), (1, 2), (2, 0)], [0, 1, 2], (3, 3), 0)
@example([(0, 1), (0, 2), (1, 2)], [0], (2, 2), NODES * NODES)
def test_a_node_is_reached_at_its_shortest_distance(
    edges: list[Edge], starts: list[int], hops: tuple[int, int], marked_pairs_max: int
) -> None:
    hops_min, hops_max = hops

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adjacency, "_MARKED_PAIRS_MAX", marked_pairs_max)
        found = reached(edges, starts, hops_min=hops_min, hops_max=hops_max)

    assert found == [naively_reached(edges, start, hops_min, hops_max) for start in starts]


def test_a_start_is_not_reached_through_a_cycle() -> None:
    assert reached([(0, 1), (1, 0)], [0], hops_min=1, hops_max=5) == [[1]]


def test_an_edge_from_a_start_to_itself_reaches_it_at_the_first_hop_only() -> None:
    loop = [(0, 0)]

    found = [reached(loop, [0], hops_min=low, hops_max=high) for low, high in [(1, 1), (1, 3)]]

    assert found == [[[0]], [[0]]]
    assert reached(loop, [0], hops_min=2, hops_max=3) == [[]]


def test_an_edge_to_itself_of_a_node_on_the_way_changes_nothing() -> None:
    assert reached([(0, 1), (1, 1)], [0], hops_min=2, hops_max=3) == [[]]
    assert reached([(0, 1), (1, 1)], [0], hops_min=1, hops_max=3) == [[1]]


def test_no_source_reaches_nothing() -> None:
    assert reached([(0, 1)], [], hops_min=1, hops_max=3) == []


def test_a_search_that_meets_too_many_edges_is_ended() -> None:
    everywhere = [(near, far) for near in range(NODES) for far in range(NODES)]

    with pytest.raises(LimitExceededError):
        breadth_first_reach(
            adjacency_of(everywhere),
            starts=np.arange(NODES, dtype=np.int64),
            hops_min=1,
            hops_max=2,
            budget=budget_of(bytes_max=NODES * NODES * 8),
        )
