"""Relations: arrays of codes that stand for rows, against counted tuples."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.read.entities import UNBOUND, Ordinals
from omnigraph.engine.read.relation import (
    NOTHING,
    UNIT,
    Relation,
    count_joined,
    cross,
    join,
    pack,
)
from omnigraph.errors import LimitExceededError

Row = tuple[int, ...]

CODES = st.integers(UNBOUND, 4)


def ordinals(*values: int) -> Ordinals:
    """An array of codes."""
    return np.array(values, np.int64)


def make_relation(
    columns: Mapping[str, Sequence[int]], weights: Sequence[int] | None = None
) -> Relation:
    """Rows given by their columns, of which there is at least one."""
    count = len(next(iter(columns.values())))
    arrays = {name: ordinals(*column) for name, column in columns.items()}
    return Relation(count, arrays, None if weights is None else ordinals(*weights))


def counted(relation: Relation, variables: Sequence[str]) -> Counter[Row]:
    """How often a relation holds each row."""
    columns = [relation.ordinals[name].tolist() for name in variables]
    weights = [1] * relation.count if relation.weights is None else relation.weights.tolist()
    rows = zip(*columns, strict=True) if columns else [()] * relation.count
    found: Counter[Row] = Counter()
    for row, weight in zip(rows, weights, strict=True):
        found[tuple(row)] += weight
    return found


@st.composite
def relations(draw: st.DrawFn, variables: str) -> Relation:
    """Some rows of these variables, weighted or not."""
    count = draw(st.integers(0, 6))
    columns = {name: draw(_lists(CODES, count)) for name in variables}
    weights = draw(st.none() | _lists(st.integers(1, 5), count))
    return make_relation(columns, weights)


def _lists(element: st.SearchStrategy[int], count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(element, min_size=count, max_size=count)


# Dropping variables


@given(relations("abc"), st.sets(st.sampled_from("abcd")))
def test_dropping_variables_loses_no_row(relation: Relation, live: set[str]) -> None:
    remaining = relation.keep(live)

    names = sorted(live & set("abc"))
    expected: Counter[Row] = Counter()
    for row, count in counted(relation, "abc").items():
        expected[tuple(row["abc".index(name)] for name in names)] += count
    assert counted(remaining, names) == expected
    assert remaining.variables == set(names) or (not names and not remaining.ordinals)
    assert remaining.total == relation.total


@given(relations("ab"), st.sampled_from("ab"))
def test_equal_rows_of_one_variable_are_stored_once(relation: Relation, name: str) -> None:
    remaining = relation.keep([name])

    assert len(set(remaining.ordinals[name].tolist())) == remaining.count


def test_rows_without_needed_columns_are_a_count() -> None:
    relation = make_relation({"a": [1, 2, UNBOUND]}, weights=[2, 3, 4])

    remaining = relation.keep([])

    assert (remaining.count, remaining.total, dict(remaining.ordinals)) == (1, 9, {})


def test_no_rows_stay_no_rows_whatever_is_dropped() -> None:
    nothing = make_relation({"a": [], "b": []})

    assert [nothing.keep(live).count for live in ([], ["a"], ["a", "b"])] == [0, 0, 0]
    assert nothing.keep(["a"]).variables == {"a"}


def test_a_relation_that_loses_nothing_is_the_same_one() -> None:
    relation = make_relation({"a": [1, 1]})

    assert relation.keep(["a", "b"]) is relation


# Taking, binding, weighing


def test_rows_are_taken_by_position_or_by_mask_with_their_weights() -> None:
    relation = make_relation({"a": [5, 6, 7]}, weights=[1, 2, 3])

    by_place = relation.take(ordinals(2, 0, 2))
    by_mark = relation.take(np.array([False, True, True]))

    assert by_place.ordinals["a"].tolist() == [7, 5, 7]
    assert _weights_of(by_place) == [3, 1, 3]
    assert (by_mark.count, by_mark.total) == (2, 5)


def test_a_new_variable_leaves_the_old_relation_alone() -> None:
    relation = make_relation({"a": [1, 2]})

    bound = relation.bind("b", ordinals(3, UNBOUND))

    assert counted(bound, "ab") == {(1, 3): 1, (2, UNBOUND): 1}
    assert relation.variables == {"a"}


@given(relations("a"), st.data())
def test_weighing_counts_every_row_so_many_times_over(
    relation: Relation, drawn: st.DataObject
) -> None:
    factors = drawn.draw(_lists(st.integers(0, 3), relation.count))

    weighed = relation.weigh(ordinals(*factors))

    expected = make_relation(
        {"a": relation.ordinals["a"].tolist()},
        [factor * weight for factor, weight in zip(factors, _weights_of(relation), strict=True)],
    )
    assert counted(weighed, "a") == +counted(expected, "a")
    assert weighed.count == sum(factor > 0 for factor in factors)


def _weights_of(relation: Relation) -> list[int]:
    return [1] * relation.count if relation.weights is None else relation.weights.tolist()


# Putting together


@given(relations("a"), relations("bc"))
def test_a_product_has_every_pair_of_rows(left: Relation, right: Relation) -> None:
    product = cross(left, right)

    expected = {
        (*one, *other): counts
        for one, count in counted(left, "a").items()
        for other, times in counted(right, "bc").items()
        if (counts := count * times)
    }
    assert counted(product, "abc") == expected
    assert product.count == left.count * right.count


@given(relations("ab"))
def test_one_empty_row_adds_nothing_to_a_product_and_none_leaves_nothing(
    relation: Relation,
) -> None:
    for product in (cross(UNIT, relation), cross(relation, UNIT)):
        assert counted(product, "ab") == counted(relation, "ab")
    assert cross(NOTHING, relation).count == cross(relation, NOTHING).count == 0


@given(relations("ab"), relations("cd"))
def test_a_join_has_the_pairs_with_equal_keys_and_none_for_a_negative_one(
    left: Relation, right: Relation
) -> None:
    joined = join(left, left.ordinals["b"], right, right.ordinals["c"])

    expected = {
        (*one, *other): count * times
        for (one, count), (other, times) in itertools.product(
            counted(left, "ab").items(), counted(right, "cd").items()
        )
        if one[1] == other[0] >= 0
    }
    assert counted(joined, "abcd") == expected
    assert joined.count == count_joined(left.ordinals["b"], right.ordinals["c"])


# One number for several variables


@given(relations("abc"), st.permutations("abc"), st.integers(0, 3))
def test_packed_rows_are_equal_where_all_their_variables_are(
    relation: Relation, order: list[str], count: int
) -> None:
    variables = order[:count]

    keys = pack(relation, variables, dict.fromkeys("abc", 5))

    rows = (
        list(zip(*(relation.ordinals[name].tolist() for name in variables), strict=True))
        or [()] * relation.count
    )
    for one, other in itertools.combinations(range(relation.count), 2):
        assert (keys[one] == keys[other]) == (rows[one] == rows[other])


@given(relations("abc"))
def test_packed_rows_sort_as_their_variables_do_even_of_types_too_large_to_multiply(
    relation: Relation,
) -> None:
    huge = dict.fromkeys("abc", 2**40)

    keys = pack(relation, "abc", huge)

    rows = list(zip(*(relation.ordinals[name].tolist() for name in "abc"), strict=True))
    assert np.argsort(keys, kind="stable").tolist() == sorted(
        range(len(rows)), key=rows.__getitem__
    )
    for one, other in itertools.combinations(range(relation.count), 2):
        assert (keys[one] == keys[other]) == (rows[one] == rows[other])


# Too many matches to be counted exactly

LARGE = 2**52


def test_as_many_matches_as_are_exact_are_counted() -> None:
    relation = make_relation({"a": [0], "b": [0]}, weights=[2**53 - 1])

    assert relation.keep(["a"]).total == relation.keep([]).total == 2**53 - 1


@pytest.mark.parametrize(
    "overflow",
    [
        lambda: make_relation({"a": [0, 0], "b": [0, 1]}, [LARGE, LARGE]).keep(["a"]),
        lambda: make_relation({"a": [0, 1]}, [LARGE, LARGE]).keep(["a"]).weigh(ordinals(2, 2)),
        lambda: make_relation({"a": [0]}, [LARGE]).weigh(ordinals(2)),
        lambda: cross(make_relation({"a": [0]}, [2**40]), make_relation({"b": [0]}, [2**40])),
        lambda: join(
            make_relation({"a": [0]}, [2**40]),
            ordinals(0),
            make_relation({"b": [0, 1]}, [2**40, 1]),
            ordinals(0, 1),
        ),
    ],
    ids=["dropping", "weighing all", "weighing one", "a product", "a join"],
)
def test_more_matches_than_can_be_counted_exactly_are_refused(overflow: object) -> None:
    assert callable(overflow)

    with pytest.raises(LimitExceededError) as refused:
        overflow()

    assert refused.value.limit == 2**53
    assert "matches" in str(refused.value)
