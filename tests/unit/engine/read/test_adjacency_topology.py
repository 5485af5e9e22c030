"""Adjacency: who is whose neighbour, in every direction, against plain lists of edges."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.ir import Direction
from omnigraph.engine.read.adjacency import Adjacency, make_adjacency, make_topology
from omnigraph.engine.read.entities import FetchedEntities, TableEntities

Edge = tuple[str, str]

OUT, IN, BOTH = Direction.OUT, Direction.IN, Direction.BOTH


def space_of(ids: Iterable[str]) -> FetchedEntities:
    """An entity index of these ids, in this order; the rest of the type is never requested."""
    rows = pa.table({"id": pa.array(list(ids), pa.string())})
    return FetchedEntities(rows, whole=TableEntities.__new__(TableEntities))


def connect(
    edges: Sequence[Edge],
    direction: Direction,
    *,
    sources: str,
    targets: str,
    keeps_edges: bool = False,
) -> Adjacency:
    """Adjacency between spaces whose ids are letters."""
    topology = make_topology(
        pa.chunked_array([[source for source, _ in edges]], pa.string()),
        pa.chunked_array([[target for _, target in edges]], pa.string()),
        ordinals=None,
    )
    return make_adjacency(
        topology,
        direction=direction,
        source=space_of(sources),
        target=space_of(targets),
        keeps_edges=keeps_edges,
    )


def neighbours(adjacency: Adjacency, *, sources: str, targets: str) -> dict[str, str]:
    """The neighbours of each source that has any, as letters."""
    found = {}
    for ordinal, letter in enumerate(sources):
        ends = adjacency.ends[adjacency.starts[ordinal] : adjacency.starts[ordinal + 1]]
        if len(ends):
            found[letter] = "".join(sorted(targets[end] for end in ends))
    return found


CYCLE = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "c")]


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        (OUT, {"a": "bc", "b": "c", "c": "a"}),
        (IN, {"a": "c", "b": "a", "c": "ab"}),
        (BOTH, {"a": "bc", "b": "ac", "c": "ab"}),
    ],
)
def test_edges_lead_where_the_direction_says(
    direction: Direction, expected: dict[str, str]
) -> None:
    adjacency = connect(CYCLE, direction, sources="abc", targets="abc")

    assert neighbours(adjacency, sources="abc", targets="abc") == expected


def test_the_ends_may_be_two_types_whose_ids_coincide() -> None:
    edges = [("a", "a"), ("b", "a")]

    out = connect(edges, OUT, sources="ab", targets="za")
    back = connect(edges, IN, sources="za", targets="ab")

    assert neighbours(out, sources="ab", targets="za") == {"a": "a", "b": "a"}
    assert neighbours(back, sources="za", targets="ab") == {"a": "ab"}


@pytest.mark.parametrize("keeps_edges", [False, True])
@pytest.mark.parametrize("direction", list(Direction))
def test_an_edge_whose_end_is_missing_leads_nowhere(
    *, direction: Direction, keeps_edges: bool
) -> None:
    edges = [("a", "x"), ("x", "b"), ("a", "b"), ("y", "x")]

    adjacency = connect(edges, direction, sources="ab", targets="ab", keeps_edges=keeps_edges)

    assert adjacency.edges is None or set(adjacency.edges.tolist()) == {2}
    assert len(adjacency.ends) == (2 if direction is BOTH else 1)


def test_parallel_edges_are_one_neighbour_unless_edges_are_returned() -> None:
    edges = [("a", "b"), ("a", "b"), ("b", "a")]

    counts = {
        (direction, keeps_edges): connect(
            edges, direction, sources="ab", targets="ab", keeps_edges=keeps_edges
        ).degrees.tolist()
        for direction in Direction
        for keeps_edges in (False, True)
    }

    assert counts == {
        (OUT, False): [1, 1],
        (OUT, True): [2, 1],
        (IN, False): [1, 1],
        (IN, True): [1, 2],
        (BOTH, False): [1, 1],
        (BOTH, True): [3, 3],
    }


@pytest.mark.parametrize("keeps_edges", [False, True])
@pytest.mark.parametrize("direction", list(Direction))
def test_an_edge_from_a_node_to_itself_is_met_once(
    *, direction: Direction, keeps_edges: bool
) -> None:
    adjacency = connect([("a", "a")], direction, sources="a", targets="a", keeps_edges=keeps_edges)

    assert adjacency.degrees.tolist() == [1]
    assert adjacency.ends.tolist() == [0]


@pytest.mark.parametrize("direction", list(Direction))
def test_nodes_without_edges_have_no_neighbours(direction: Direction) -> None:
    adjacency = connect([], direction, sources="abc", targets="ab")

    assert adjacency.degrees.tolist() == [0, 0, 0]
    assert adjacency.target_count == 2


EDGES = st.lists(st.tuples(st.sampled_from("abcxy"), st.sampled_from("abcxy")), max_size=12)


@given(edges=EDGES, direction=st.sampled_from(list(Direction)), keeps_edges=st.booleans())
def test_any_edges_become_the_neighbours_that_a_list_of_them_says(
    *, edges: list[Edge], direction: Direction, keeps_edges: bool
) -> None:
    adjacency = connect(edges, direction, sources="cab", targets="bca", keeps_edges=keeps_edges)

    steps = [
        (near, number, far)
        for number, (source, target) in enumerate(edges)
        for near, far in _steps(source, target, direction)
        if near in "abc" and far in "abc"
    ]
    expected = {
        near: sorted([(number, far) for at, number, far in steps if at == near]) for near in "abc"
    }
    for ordinal, near in enumerate("cab"):
        places = slice(adjacency.starts[ordinal], adjacency.starts[ordinal + 1])
        ends = ["bca"[end] for end in adjacency.ends[places]]
        if adjacency.edges is None:
            assert sorted(ends) == sorted({far for _, far in expected[near]})
        else:
            numbers = adjacency.edges[places].tolist()
            assert sorted(zip(numbers, ends, strict=True)) == expected[near]


def _steps(source: str, target: str, direction: Direction) -> set[Edge]:
    match direction:
        case Direction.OUT:
            return {(source, target)}
        case Direction.IN:
            return {(target, source)}
        case Direction.BOTH:
            return {(source, target), (target, source)}


def test_ids_in_several_chunks_are_still_the_same_nodes() -> None:
    topology = make_topology(
        pa.chunked_array([["a"], ["b", "a"]], pa.string()),
        pa.chunked_array([["b", "c"], ["c"]], pa.string()),
        ordinals=None,
    )

    pairs = zip(topology.sources, topology.targets, strict=True)
    named = [(topology.ids[source].as_py(), topology.ids[end].as_py()) for source, end in pairs]

    assert named == [("a", "b"), ("b", "c"), ("a", "c")]


# What is asked of neighbours


def test_gathering_lists_the_neighbours_of_some_ordinals_in_turn() -> None:
    adjacency = connect(CYCLE, OUT, sources="abc", targets="abc")

    owners, places = adjacency.gather(np.array([2, 0, 2], np.int64))

    assert owners.tolist() == [0, 1, 1, 2]
    assert adjacency.ends[places].tolist() == [0, 1, 2, 0]


def test_only_marked_neighbours_are_counted() -> None:
    adjacency = connect(CYCLE, OUT, sources="abc", targets="abc")

    counts = adjacency.degrees_among(np.array([False, False, True]))

    assert counts.tolist() == [1, 1, 0]


def test_weights_arrive_at_every_neighbour() -> None:
    adjacency = connect(CYCLE, OUT, sources="abc", targets="abc")

    arrived = adjacency.push(np.array([2.0**52, 5.0, 0.0]))

    assert arrived.tolist() == [0.0, 2.0**52, 2.0**52 + 5]


def test_many_edges_are_counted_and_followed_as_their_halves_are() -> None:
    node_count, fan = 4_000, 300
    ends = np.random.default_rng(7).integers(0, node_count, node_count * fan)
    marks = np.arange(node_count) % 3 == 0
    weights = np.arange(node_count, dtype=np.float64)

    whole, *halves = (
        Adjacency(np.arange(len(part) // fan + 1) * fan, part, None, node_count, is_complete=True)
        for part in (ends, *np.split(ends, 2))
    )

    counted = [half.degrees_among(marks) for half in halves]
    arrived = [half.push(part) for half, part in zip(halves, np.split(weights, 2), strict=True)]
    assert whole.degrees_among(marks).tolist() == np.concatenate(counted).tolist()
    assert whole.push(weights).tolist() == (arrived[0] + arrived[1]).tolist()
