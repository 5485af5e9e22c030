"""Algorithms over numbers: what every one of them promises of small networks, and in any pieces."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.ir import Direction
from omnigraph.engine.analysis.network import (
    Network,
    count_degrees,
    count_triangles,
    find_components,
    find_cores,
    rank_nodes,
    reach,
    spread_labels,
    trace,
)
from omnigraph.engine.analysis.requests import parse_labels, parse_paths, parse_rank
from omnigraph.model.errors import InvalidValueError

Edge = tuple[int, int]

# Two triangles with an edge in common, a tail, and an isolated node.
KITE: list[Edge] = [(0, 1), (1, 2), (2, 0), (1, 3), (3, 2), (3, 4)]


def network_of(node_count: int, edges: Sequence[Edge]) -> Network:
    """A network of these edges."""
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    return Network(node_count, pairs[:, 0], pairs[:, 1])


def networks() -> st.SearchStrategy[Network]:
    """Networks of up to a dozen nodes, dense enough for triangles and parallel edges."""
    return st.integers(1, 12).flatmap(
        lambda count: st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=40
        ).map(lambda edges: network_of(count, edges))
    )


def paths(network: Network, source: int, *, hops_max: int | None = None) -> dict[int, list[int]]:
    """The path to every node that can be reached."""
    reached = reach(network, source, direction=Direction.OUT, hops_max=hops_max)
    ways = trace(reached)
    cut = np.split(ways.nodes, ways.starts[1:-1])
    return {int(node): way.tolist() for node, way in zip(reached.nodes, cut, strict=True)}


def test_connected_nodes_share_the_smallest_of_them() -> None:
    network = network_of(6, [(5, 3), (3, 4), (2, 0)])

    assert find_components(network).tolist() == [0, 1, 0, 3, 3, 3]


def test_neighbours_count_once_for_triangles_and_cores() -> None:
    network = network_of(6, [*KITE, (1, 0), (1, 0), (4, 4)])

    triangles = count_triangles(network, wedges_max=100)

    assert triangles.tolist() == [1, 2, 2, 1, 0, 0]
    assert find_cores(network).tolist() == [2, 2, 2, 2, 1, 0]


def test_parallel_edges_and_loops_count_for_degrees() -> None:
    network = network_of(3, [(0, 1), (0, 1), (1, 1)])

    arriving, leaving = count_degrees(network)

    assert leaving.tolist() == [2, 1, 0]
    assert arriving.tolist() == [0, 3, 0]


@given(networks(), st.integers(1, 5))
def test_triangles_are_the_same_however_few_are_looked_at_together(
    network: Network, wedges_max: int
) -> None:
    whole = count_triangles(network, wedges_max=10_000)

    assert count_triangles(network, wedges_max=wedges_max).tolist() == whole.tolist()


def test_of_several_shortest_paths_the_first_one_counts() -> None:
    # Node 5 is two hops away over 1, 2 and 3; node 6 is three, over 4 by a path that starts lower.
    network = network_of(7, [(0, 3), (0, 2), (0, 1), (3, 5), (2, 5), (1, 4), (5, 6), (4, 6)])

    assert paths(network, 0) == {
        0: [0],
        1: [0, 1],
        2: [0, 2],
        3: [0, 3],
        4: [0, 1, 4],
        5: [0, 2, 5],
        6: [0, 1, 4, 6],
    }


def test_paths_go_no_further_than_allowed() -> None:
    network = network_of(4, [(0, 1), (1, 2), (2, 3)])

    assert paths(network, 1, hops_max=0) == {1: [1]}
    assert paths(network, 1, hops_max=1) == {1: [1], 2: [1, 2]}


@pytest.mark.parametrize(
    ("direction", "expected"),
    [(Direction.OUT, [1, 2]), (Direction.IN, [0, 1]), (Direction.BOTH, [0, 1, 2])],
)
def test_paths_follow_edges_in_the_requested_direction(
    direction: Direction, expected: list[int]
) -> None:
    network = network_of(4, [(0, 1), (1, 2)])

    reached = reach(network, 1, direction=direction, hops_max=None)

    assert reached.nodes.tolist() == expected


@given(networks())
def test_all_ranks_together_are_one(network: Network) -> None:
    ranks, progression = rank_nodes(network, damping=0.85, tolerance=1e-9, iterations_max=500)

    assert ranks.sum() == pytest.approx(1.0)
    assert progression.has_converged


def test_ranks_report_that_the_iteration_limit_was_reached() -> None:
    network = network_of(4, [(0, 1), (1, 2), (2, 0), (0, 3)])

    _, progression = rank_nodes(network, damping=0.85, tolerance=1e-15, iterations_max=3)

    assert progression.iterations == 3
    assert not progression.has_converged


def test_of_labels_with_equally_many_votes_the_smallest_wins() -> None:
    network = network_of(3, [(0, 2), (1, 2)])

    labels, _ = spread_labels(network, iterations_max=1)

    assert labels.tolist() == [0, 1, 0]


def test_labels_stop_changing_where_two_groups_hardly_touch() -> None:
    one, other = [(0, 1), (1, 2), (2, 0)], [(3, 4), (4, 5), (5, 3)]
    network = network_of(6, [*one, *other, (2, 3)])

    labels, progression = spread_labels(network, iterations_max=50)

    assert labels.tolist() == [0, 0, 0, 3, 3, 3]
    assert progression.has_converged


def test_a_network_of_nothing_has_no_values() -> None:
    network = network_of(0, [])

    assert find_components(network).tolist() == []
    assert find_cores(network).tolist() == []
    assert count_triangles(network, wedges_max=10).tolist() == []
    assert spread_labels(network, iterations_max=5)[0].tolist() == []
    assert rank_nodes(network, damping=0.5, tolerance=0.1, iterations_max=5)[0].tolist() == []


@pytest.mark.parametrize("damping", [1.0, -0.1, float("nan"), True, "half"])
def test_a_damping_outside_zero_to_one_is_refused(damping: float) -> None:
    with pytest.raises(InvalidValueError, match="damping"):
        parse_rank(damping=damping, tolerance=1e-6, iterations_max=10)


@pytest.mark.parametrize("tolerance", [0.0, -1e-9, float("inf"), float("nan")])
def test_a_tolerance_that_never_ends_or_is_no_number_is_refused(tolerance: float) -> None:
    with pytest.raises(InvalidValueError, match="tolerance"):
        parse_rank(damping=0.85, tolerance=tolerance, iterations_max=10)


@pytest.mark.parametrize("iterations_max", [0, -1, 1.5, True])
def test_an_invalid_iteration_limit_is_refused(iterations_max: int) -> None:
    with pytest.raises(InvalidValueError, match="iterations_max"):
        parse_labels(iterations_max=iterations_max)


@pytest.mark.parametrize(("direction", "hops_max"), [("up", 1), ("out", -1)])
def test_paths_of_no_direction_or_length_are_refused(direction: str, hops_max: int) -> None:
    with pytest.raises(InvalidValueError, match=r"direction|hops_max"):
        parse_paths(("Person", "Ann"), direction=direction, hops_max=hops_max, with_paths=True)
