"""Nearest vectors: candidates hold every true neighbour, distances depend on two vectors only."""

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from omnigraph.engine.read.search.vectors import VectorColumn, vector_column

Vector = Sequence[float | None] | None

# Few values, so that distances tie, and sizes at which single precision overflows or vanishes.
SMALL = st.sampled_from([0.0, 1.0, -1.0, 0.1, 1 + 2**-23])
NUMBERS = st.one_of(SMALL, st.floats(width=32, allow_nan=False, allow_infinity=False))
VECTORS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=20)


def column_of(vectors: Sequence[Vector], *, dimension: int) -> VectorColumn:
    return vector_column(pa.array(vectors, pa.list_(pa.float32(), dimension)))


def single(numbers: Sequence[float]) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


def random_column(count: int, dimension: int) -> tuple[pa.Array, NDArray[np.float32]]:
    numbers = np.random.default_rng(7).standard_normal((count, dimension)).astype(np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), dimension), numbers


@given(VECTORS, st.tuples(NUMBERS, NUMBERS, NUMBERS), st.integers(0, 25), st.data())
def test_the_k_nearest_and_all_ties_are_among_the_candidates(
    vectors: list[tuple[float, ...]], query: tuple[float, ...], k: int, data: st.DataObject
) -> None:
    column = column_of(vectors, dimension=3)
    size = len(vectors)
    among = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_)

    candidates = column.nearest(single(query), k, among)

    allowed = np.flatnonzero(among)
    distances = column.distances(single(query), allowed)
    farthest = np.sort(distances)[:k][-1:]
    nearest = allowed[distances <= farthest] if len(farthest) else allowed[:0]
    assert set(nearest.tolist()) <= set(candidates.tolist()) <= set(allowed.tolist())
    assert candidates.tolist() == sorted(candidates.tolist())


def test_few_others_are_among_the_candidates() -> None:
    vectors, numbers = random_column(5_000, 64)

    candidates = vector_column(vectors).nearest(numbers[0] + 1, 10, None)

    assert 10 <= len(candidates) <= 15


def test_among_few_vectors_the_nearest_are_found_too() -> None:
    vectors, numbers = random_column(5_000, 64)
    column = vector_column(vectors)
    among = np.arange(5_000) % 10 == 3

    candidates = column.nearest(numbers[0], 5, among)

    expected = np.flatnonzero(among)
    distances = column.distances(numbers[0], expected)
    assert set(expected[np.argsort(distances)[:5]].tolist()) <= set(candidates.tolist())
    assert len(candidates) <= 8


def test_vectors_far_from_the_origin_are_distinguished() -> None:
    numbers = 1000 + np.random.default_rng(7).standard_normal((2_000, 64)) / 1000
    column = column_of(numbers.tolist(), dimension=64)
    query = single([1000] * 64)

    candidates = column.nearest(query, 10, None)

    nearest = np.argsort(column.distances(query, np.arange(2_000)))[:10]
    assert set(nearest.tolist()) <= set(candidates.tolist())


def test_rough_measures_decide_nothing() -> None:
    """The origin is measured exactly; every other vector is a rounding error nearer or farther."""
    random = np.random.default_rng(7)
    query = single(random.standard_normal(64).tolist())
    steps = random.integers(-4, 5, (400, 64)) * np.spacing(query)
    others = (2 * (query + steps)).astype(np.float32)
    column = column_of([[0.0] * 64, *others.tolist()], dimension=64)
    distances = column.distances(query, np.arange(401))

    pairs = [(0, other) for other in range(1, 401)]
    candidates = [
        column.nearest(query, 1, np.isin(np.arange(401), pair)).tolist() for pair in pairs
    ]

    nearest = [pair[int(distances[list(pair)].argmin())] for pair in pairs]
    assert all(one in found for one, found in zip(nearest, candidates, strict=True))
    assert 100 < nearest.count(0) < 300


@pytest.mark.parametrize(
    ("nearest", "farther", "query"),
    [
        ([0.0, 0.0], [-1e30, 0.0], [1e30, 0.0]),
        ([1e-30, 0.0], [-5e-31, 0.0], [1e-30, 0.0]),
    ],
)
def test_products_beyond_single_precision_hide_no_neighbour(
    nearest: list[float], farther: list[float], query: list[float]
) -> None:
    column = column_of([farther, nearest, farther], dimension=2)

    assert 1 in column.nearest(single(query), 1, None).tolist()


@pytest.mark.parametrize("absent", [None, [math.nan, 0.0], [0.0, math.inf], [None, 0.0]])
def test_a_value_that_is_not_a_vector_is_never_near(absent: Vector) -> None:
    column = column_of([[1.0, 1.0], absent, [2.0, 2.0]], dimension=2)

    assert column.nearest(single([0, 0]), 3, None).tolist() == [0, 2]
    distances = column.distances(single([0, 0]), np.arange(3))
    assert np.isnan(distances).tolist() == [False, True, False]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nothing_is_near_to_a_value_that_is_not_a_vector(number: float) -> None:
    column = column_of([[1.0, 1.0]], dimension=2)

    assert column.nearest(single([number, 0]), 1, None).tolist() == []
    assert np.isnan(column.distances(single([number, 0]), np.arange(1))).all()


@given(VECTORS, st.tuples(NUMBERS, NUMBERS, NUMBERS))
def test_distances_are_euclidean(
    vectors: list[tuple[float, ...]], query: tuple[float, ...]
) -> None:
    expected = [math.dist(single(vector).tolist(), single(query).tolist()) for vector in vectors]

    distances = column_of(vectors, dimension=3).distances(single(query), np.arange(len(vectors)))

    assert distances.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-150)


@pytest.mark.parametrize("dimension", [1, 2, 7, 64, 130, 384])
def test_a_distance_does_not_depend_on_other_rows(dimension: int) -> None:
    vectors, numbers = random_column(300, dimension)
    column = vector_column(vectors)
    query = numbers[3] * np.float32(0.3)

    together = column.distances(query, np.arange(300))

    alone = [column.distances(query, np.array([position]))[0] for position in range(300)]
    assert together.tolist() == alone
    assert column.distances(query, np.arange(300)[::-3]).tolist() == together[::-3].tolist()


def test_a_part_of_a_column_is_a_column() -> None:
    vectors = pa.array([[9, 9], [1, 0], None, [0, 2]], pa.list_(pa.float32(), 2)).slice(1)

    column = vector_column(vectors)

    assert column.nearest(single([0, 0]), 9, None).tolist() == [0, 2]
    assert column.distances(single([0, 0]), np.array([2, 0])).tolist() == [2.0, 1.0]


def test_the_numbers_are_not_copied() -> None:
    vectors, numbers = random_column(100, 8)

    column = vector_column(vectors)

    assert np.shares_memory(column.vectors, vectors.values.to_numpy())
    assert column.nbytes > numbers.nbytes


def test_an_empty_column_has_no_neighbours() -> None:
    assert column_of([], dimension=2).nearest(single([0, 0]), 3, None).tolist() == []
