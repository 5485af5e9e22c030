"""Two rankings become one: by reciprocal ranks, ties in the order of the first."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.read.ranking import fuse

RANKING = st.lists(st.integers(-5, 15), unique=True, max_size=12)


def fused(primary: list[int], secondary: list[int], *, k: int) -> tuple[list[int], list[float]]:
    ordinals, scores = fuse(np.array(primary, np.int64), np.array(secondary, np.int64), k)
    return ordinals.tolist(), scores.tolist()


def test_entities_ranked_by_both_come_first() -> None:
    ordinals, scores = fused([1, 2, 3], [3, 1], k=60)

    assert ordinals == [1, 3, 2]
    assert scores == [1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62]


def test_ties_keep_the_order_of_the_first_ranking_then_of_the_second() -> None:
    assert fused([7, 4], [4, 7], k=60)[0] == [7, 4]
    assert fused([9, 5], [3, 1], k=60)[0] == [9, 3, 5, 1]


def test_an_empty_ranking_changes_nothing() -> None:
    assert fused([3, 1, 2], [], k=1) == ([3, 1, 2], [1 / 2, 1 / 3, 1 / 4])
    assert fused([], [3, 1, 2], k=1) == ([3, 1, 2], [1 / 2, 1 / 3, 1 / 4])
    assert fused([], [], k=60) == ([], [])


@given(RANKING, RANKING, st.integers(1, 100))
def test_a_score_is_the_sum_of_reciprocal_ranks(
    primary: list[int], secondary: list[int], k: int
) -> None:
    expected = dict.fromkeys([*primary, *secondary], 0.0)
    for ranking in (primary, secondary):
        for rank, ordinal in enumerate(ranking):
            expected[ordinal] += 1 / (k + rank + 1)

    ordinals, scores = fused(primary, secondary, k=k)

    # Sorting is stable, and the keys stand in the order of their first appearance.
    assert ordinals == sorted(expected, key=lambda ordinal: -expected[ordinal])
    assert scores == [expected[ordinal] for ordinal in ordinals]
