"""Groups and aggregates, against Python's dictionaries and fractions."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.ir import AggregateFunction
from omnigraph.engine.read.aggregate import Groups, aggregate, group_rows
from tests.support.naive_order import Cell, Sortable, cells, column, sortable, types

NUMBERS = (pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64())

Typed = tuple[pa.DataType, list[Cell]]
Weighted = tuple[pa.DataType, list[tuple[Cell, int, int]]]


def key_columns(count: int) -> st.SearchStrategy[list[Typed]]:
    """Up to three columns of one length."""
    one = types().flatmap(
        lambda type: st.tuples(st.just(type), st.lists(cells(type), min_size=count, max_size=count))
    )
    return st.lists(one, max_size=3)


@given(st.integers(0, 8).flatmap(lambda count: st.tuples(st.just(count), key_columns(count))))
def test_rows_are_grouped_by_equal_keys_as_they_appear(keyed: tuple[int, list[Typed]]) -> None:
    count, keys = keyed

    groups = group_rows([column(values, type) for type, values in keys], count=count)

    tuples = [tuple(sortable(values[row]) for _type, values in keys) for row in range(count)]
    number_by_key: dict[tuple[Sortable, ...], int] = {}
    codes = [number_by_key.setdefault(each, len(number_by_key)) for each in tuples]
    assert groups.codes.tolist() == codes
    assert groups.first.tolist() == [codes.index(each) for each in range(len(number_by_key))]
    assert groups.count == (len(number_by_key) if keys else 1)


@given(st.lists(st.sampled_from([-1, 0, 3, 2**62, -(2**63)])))
def test_ordinals_of_entities_are_keys_too(codes: list[int]) -> None:
    groups = group_rows([np.array(codes, np.int64)], count=len(codes))

    assert groups.codes.tolist() == [list(dict.fromkeys(codes)).index(each) for each in codes]


def weighted_columns(type: pa.DataType) -> st.SearchStrategy[Weighted]:
    """Rows of a value, a group and how often the row counts."""
    weights = st.one_of(st.integers(1, 3), st.just(2**40))
    rows = st.lists(st.tuples(cells(type), st.integers(0, 2), weights), max_size=10)
    return st.tuples(st.just(type), rows)


NUMBER_COLUMNS = st.sampled_from(NUMBERS).flatmap(weighted_columns)
ORDERED_COLUMNS = st.sampled_from([*NUMBERS, pa.string(), pa.bool_()]).flatmap(weighted_columns)


@given(NUMBER_COLUMNS)
def test_sums_and_averages_are_exact_and_rounded_once(weighted: Weighted) -> None:
    type, rows = weighted

    sums = _aggregate(AggregateFunction.SUM, type, rows)
    averages = _aggregate(AggregateFunction.AVG, type, rows)

    stored = column([value for value, _group, _weight in rows], type).to_pylist()
    for group in range(3):
        members = [
            (value, weight)
            for value, (_value, code, weight) in zip(stored, rows, strict=True)
            if code == group and value is not None
        ]
        total = sum(weight for _value, weight in members)
        assert repr(sums[group]) == repr(_naive_sum(members, 1) if members else None)
        assert repr(averages[group]) == repr(_naive_sum(members, total) if members else None)


@given(ORDERED_COLUMNS)
def test_the_least_and_the_greatest_keep_their_type(weighted: Weighted) -> None:
    type, rows = weighted

    least = _aggregate(AggregateFunction.MIN, type, rows)
    greatest = _aggregate(AggregateFunction.MAX, type, rows)

    for group in range(3):
        members = [value for value, code, _weight in rows if code == group and value is not None]
        in_order = sorted(members, key=sortable)
        stored = column([*in_order[:1], *in_order[-1:]] or [None, None], type).to_pylist()
        for found, wanted in zip((least[group], greatest[group]), stored, strict=True):
            assert sortable(found) == sortable(wanted)
            assert repr(found) != "-0.0"


@given(types().flatmap(weighted_columns))
def test_counts_leave_out_null_and_distinct_ones_what_came_before(weighted: Weighted) -> None:
    type, rows = weighted

    counts = _aggregate(AggregateFunction.COUNT, type, rows)
    distinct = _aggregate(AggregateFunction.COUNT, type, rows, is_distinct=True)

    for group in range(3):
        members = [
            (value, weight) for value, code, weight in rows if code == group and value is not None
        ]
        assert counts[group] == sum(weight for _value, weight in members)
        assert distinct[group] == len({sortable(value) for value, _weight in members})


def test_a_distinct_sum_takes_each_value_once() -> None:
    rows: list[tuple[Cell, int, int]] = [(2, 0, 5), (2, 0, 1), (3, 0, 1), (2, 1, 1), (None, 1, 1)]

    assert _aggregate(AggregateFunction.SUM, pa.int32(), rows, is_distinct=True) == [5.0, 2.0, None]


def test_entities_are_counted_by_their_ordinals() -> None:
    groups = Groups(np.array([0, 0, 1, 0]), 2, np.array([0, 2]))
    entities = np.array([7, -1, -1, 7])

    assert _count(entities, groups, is_distinct=False) == [2, 0]
    assert _count(entities, groups, is_distinct=True) == [1, 0]


def test_rows_are_counted_without_values() -> None:
    groups = Groups(np.array([0, 1, 0]), 2, np.array([0, 1]))

    counts = aggregate(
        AggregateFunction.COUNT,
        None,
        groups=groups,
        weights=np.array([2, 1, 2**60]),
        is_distinct=False,
    )

    assert counts.type == pa.int64()
    assert counts.to_pylist() == [2**60 + 2, 1]


@pytest.mark.parametrize("function", AggregateFunction)
def test_of_no_rows_there_is_a_count_and_nothing_else(function: AggregateFunction) -> None:
    groups = group_rows([], count=0)

    found = aggregate(
        function, pa.array([], pa.int32()), groups=groups, weights=None, is_distinct=False
    )

    assert found.to_pylist() == [0 if function is AggregateFunction.COUNT else None]


def test_a_column_in_pieces_is_aggregated_as_one() -> None:
    pieces = pa.chunked_array([["b"], [None, "a"]], pa.string())
    groups = group_rows([], count=3)

    found = [
        aggregate(each, pieces, groups=groups, weights=None, is_distinct=False)
        for each in (AggregateFunction.MIN, AggregateFunction.MAX, AggregateFunction.COUNT)
    ]

    assert [each.to_pylist() for each in found] == [["a"], ["b"], [2]]


def test_a_sum_does_not_depend_on_how_often_a_row_is_written_down() -> None:
    once = _aggregate(AggregateFunction.SUM, pa.float64(), [(0.1, 0, 10)])
    often = _aggregate(AggregateFunction.SUM, pa.float64(), [(0.1, 0, 1)] * 10)

    assert once == often == [1.0, None, None]


def _aggregate(
    function: AggregateFunction,
    type: pa.DataType,
    rows: list[tuple[Cell, int, int]],
    *,
    is_distinct: bool = False,
) -> list[Cell]:
    found = aggregate(
        function,
        column([value for value, _group, _weight in rows], type),
        groups=Groups(np.array([group for _, group, _ in rows], np.int64), 3, np.zeros(3, int)),
        weights=np.array([weight for _, _, weight in rows], np.int64),
        is_distinct=is_distinct,
    )
    if function in {AggregateFunction.MIN, AggregateFunction.MAX}:
        assert found.type == type
    shown: list[Cell] = found.to_pylist()
    return shown


def _count(
    entities: np.ndarray[tuple[int], np.dtype[np.int64]], groups: Groups, *, is_distinct: bool
) -> list[int]:
    counts: list[int] = aggregate(
        AggregateFunction.COUNT, entities, groups=groups, weights=None, is_distinct=is_distinct
    ).to_pylist()
    return counts


def _naive_sum(members: list[tuple[int | float, int]], divisor: int) -> float:
    unfinite = [value for value, _weight in members if not math.isfinite(value)]
    if unfinite:
        return sum(unfinite, 0.0)
    total = sum(Fraction(value) * weight for value, weight in members) / divisor
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
