"""Algorithms over a graph say what networkx says, and on Spark what they say in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from omnigraph.compiler.ir import Direction
from omnigraph.engine.analysis.algorithms import Algorithms, Analysis
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
from omnigraph.model.errors import NotFoundError
from tests.support import naive_algorithms as naive
from tests.support.naive_algorithms import Edge, Town, join_towns, make_road, make_town

SEEDS = range(max(settings().max_examples // 20, 1))
BOTH = ("Knows", "Lives")

Pairs = tuple[int, list[Edge]]


def any_pairs() -> st.SearchStrategy[Pairs]:
    """How many nodes there are, and edges between them."""

    def edges_among(count: int) -> st.SearchStrategy[Pairs]:
        ends = st.integers(0, count - 1)
        return st.tuples(st.just(count), st.lists(st.tuples(ends, ends), max_size=4 * count))

    return st.integers(1, 12).flatmap(edges_among)


def network_of(pairs: Pairs) -> Network:
    """The same as arrays."""
    node_count, edges = pairs
    ends = np.array(edges, np.int64).reshape(-1, 2)
    return Network(node_count, ends[:, 0], ends[:, 1])


# Numbers, in memory


@given(any_pairs())
def test_components_equal_those_of_networkx(pairs: Pairs) -> None:
    network = network_of(pairs)

    assert find_components(network).tolist() == naive.components(*pairs)
    assert find_cores(network).tolist() == naive.cores(*pairs)
    assert count_triangles(network, wedges_max=7).tolist() == naive.triangles(*pairs)


@given(any_pairs())
def test_degrees_equal_those_of_networkx(pairs: Pairs) -> None:
    arriving, leaving = count_degrees(network_of(pairs))

    graph = naive.directed(*pairs)
    assert dict(enumerate(arriving.tolist())) == dict(graph.in_degree())
    assert dict(enumerate(leaving.tolist())) == dict(graph.out_degree())


@given(any_pairs(), st.sampled_from([0.0, 0.5, 0.85]))
def test_ranks_equal_those_of_networkx(pairs: Pairs, damping: float) -> None:
    network = network_of(pairs)

    ranks, _ = rank_nodes(network, damping=damping, tolerance=1e-13, iterations_max=10_000)

    assert ranks.tolist() == pytest.approx(naive.ranks(*pairs, damping=damping), abs=1e-9)


@given(any_pairs(), st.integers(0, 11))
def test_paths_are_the_first_of_those_that_networkx_finds(pairs: Pairs, start: int) -> None:
    source = start % pairs[0]

    reached = reach(network_of(pairs), source, direction=Direction.OUT, hops_max=None)
    ways = trace(reached)

    cut = [each.tolist() for each in np.split(ways.nodes, ways.starts[1:-1])]
    expected = naive.first_paths(*pairs, source)
    assert dict(zip(reached.nodes.tolist(), cut, strict=True)) == expected
    assert reached.distances.tolist() == [len(each) - 1 for each in cut]


@given(any_pairs(), st.integers(1, 8))
def test_labels_are_those_that_neighbours_vote_for(pairs: Pairs, rounds_max: int) -> None:
    labels, _ = spread_labels(network_of(pairs), iterations_max=rounds_max)

    assert labels.tolist() == naive.labels(*pairs, rounds_max=rounds_max)


# Types and ids, in memory


def value_by_node(analysis: Analysis, *columns: str) -> list[object]:
    """The values of columns, a row each."""
    return [tuple(row[each] for each in columns) for row in analysis]


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_of_several_types_are_distinguished_and_ordered(tmp_path: Path, seed: int) -> None:
    town = make_town(seed)
    graph = town.build(tmp_path / "town")
    nodes, pairs = town.nodes(*BOTH), town.pairs(*BOTH)

    found = graph.algorithms(list(BOTH))

    grouped = found.connected_components()
    assert value_by_node(grouped, "type", "id") == nodes
    assert value_by_node(grouped, "component_type", "component") == [
        nodes[each] for each in naive.components(len(nodes), pairs)
    ]
    ranked = found.pagerank(tolerance=1e-13, iterations_max=1_000)
    expected = naive.ranks(len(nodes), pairs, damping=0.85)
    assert [row["rank"] for row in ranked] == pytest.approx(expected, abs=1e-9)
    source = nodes.index(("Person", town.people[0]))
    reached = found.shortest_paths(nodes[source])
    ways = [
        list(zip(row["path_types"], row["path"], strict=True))
        for row in reached.to_arrow().to_pylist()
    ]
    firsts = naive.first_paths(len(nodes), pairs, source)
    assert ways == [[nodes[each] for each in firsts[end]] for end in sorted(firsts)]


# On Spark


def run_all(found: Algorithms, source: tuple[str, str]) -> list[Analysis]:
    """Every algorithm once."""
    return [
        found.connected_components(),
        found.triangles(),
        found.degrees(),
        found.core_numbers(),
        found.label_propagation(iterations_max=2),
        found.shortest_paths(source),
        found.shortest_paths(source, direction="both", hops_max=2, with_paths=False),
    ]


def require_same(one: Sequence[Analysis], other: Sequence[Analysis]) -> None:
    """Fail unless analyses say the same, in the same order, with the same types."""
    for mine, theirs in zip(one, other, strict=True):
        assert mine.to_arrow().equals(theirs.to_arrow()), mine
        assert (mine.iterations, mine.has_converged) == (theirs.iterations, theirs.has_converged)


def test_results_on_spark_equal_those_in_memory(tmp_path: Path, spark: SparkSession) -> None:
    town = join_towns(map(make_town, range(8)))
    graph = town.build(tmp_path / "town")
    source = ("Person", town.people[0])

    inline = graph.algorithms(list(BOTH))
    spread = graph.algorithms(list(BOTH), engine="spark", spark=spark)

    require_same(run_all(spread, source), run_all(inline, source))
    theirs, mine = (each.pagerank(iterations_max=3) for each in (inline, spread))
    expected = [row["rank"] for row in theirs]
    assert [row["rank"] for row in mine] == pytest.approx(expected, abs=1e-9)
    assert (mine.iterations, mine.has_converged) == (3, False)


def test_a_long_line_is_one_component_after_few_rounds(tmp_path: Path, spark: SparkSession) -> None:
    graph = make_road(2_000).build(tmp_path / "road")

    found = graph.algorithms("Follows", engine="spark", spark=spark).connected_components()

    expected = graph.algorithms("Follows").connected_components()
    assert found.to_arrow().equals(expected.to_arrow())
    assert {row["component"] for row in found} == {"r0"}


def test_a_graph_without_rows_has_no_results(tmp_path: Path, spark: SparkSession) -> None:
    graph = Town([], [], {}).build(tmp_path / "nowhere")

    engines: Sequence[Callable[[], Algorithms]] = (
        lambda: graph.algorithms("Knows"),
        lambda: graph.algorithms("Knows", engine="spark", spark=spark),
    )

    for start in engines:
        found = start()
        assert found.connected_components().rows == []
        assert found.pagerank(iterations_max=2).rows == []
        with pytest.raises(NotFoundError, match="Person 'Ann' not found"):
            found.shortest_paths("Ann")
