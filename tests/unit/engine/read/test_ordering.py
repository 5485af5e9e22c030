"""The order of rows, against Python's own sort."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.read.ordering import order_keys, rank_bytes, sort_rows, without_signed_zeros
from tests.support.naive_order import Cell, column, columns, sortable, types

TYPED_COLUMNS = types().flatmap(lambda type: st.tuples(st.just(type), columns(type)))


@given(typed=TYPED_COLUMNS, is_descending=st.booleans())
def test_keys_compare_as_the_values_do(
    *, typed: tuple[pa.DataType, list[Cell]], is_descending: bool
) -> None:
    type, values = typed

    keys = order_keys(column(values, type), is_descending=is_descending).tolist()

    wanted = [sortable(each) for each in values]
    for key, value in zip(keys, wanted, strict=True):
        for other_key, other in zip(keys, wanted, strict=True):
            assert (key == other_key) == (value == other)
            assert (key < other_key) == (other < value if is_descending else value < other)


def test_values_in_pieces_have_the_keys_of_the_whole() -> None:
    pieces = pa.chunked_array([["b", None], [], ["a", "b"]], pa.string())

    keys = order_keys(pieces, is_descending=False)

    assert sort_rows([keys], count=4, start=0, stop=None).tolist() == [1, 2, 0, 3]


def test_null_comes_first_even_beside_the_smallest_number() -> None:
    values = pa.array([2**63 - 1, -(2**63), None, 0], pa.int64())

    ascending, descending = (order_keys(values, is_descending=each) for each in (False, True))

    assert np.argsort(ascending).tolist() == [2, 1, 3, 0]
    assert np.argsort(descending).tolist() == [0, 3, 1, 2]


def test_a_constant_null_orders_nothing() -> None:
    keys = order_keys(pa.nulls(3), is_descending=True)

    assert sort_rows([keys], count=3, start=0, stop=None).tolist() == [0, 1, 2]


@pytest.mark.parametrize("prefix", [b"", b"x" * 600])
def test_many_texts_sort_by_their_bytes(prefix: bytes) -> None:
    choices = np.random.default_rng(7)
    letters = choices.integers(0, 3, (5_000, 12), np.uint8)
    lengths = choices.integers(0, 13, 5_000)
    texts = [
        # Every other one differs only after a long beginning that not all of them have.
        (prefix if number % 2 else b"") + bytes(row[:length])
        for number, (row, length) in enumerate(zip(letters, lengths, strict=True))
    ]

    ranks = rank_bytes(pa.array(texts, pa.large_binary())).tolist()

    rank_by_text = dict(zip(texts, ranks, strict=True))
    assert [rank_by_text[text] for text in texts] == ranks
    assert sorted(rank_by_text, key=rank_by_text.__getitem__) == sorted(rank_by_text)
    assert len(set(rank_by_text.values())) == len(rank_by_text)


KEY_NUMBERS = st.one_of(st.integers(-2, 2), st.sampled_from([-(2**63), 2**63 - 1]))


@given(
    st.integers(0, 60).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.lists(st.lists(KEY_NUMBERS, min_size=count, max_size=count), max_size=3),
        )
    ),
    st.integers(0, 70),
    st.none() | st.integers(0, 70),
)
def test_a_window_holds_the_rows_that_a_full_sort_puts_there(
    rows: tuple[int, list[list[int]]], start: int, stop: int | None
) -> None:
    count, keys = rows

    found = sort_rows(
        [np.array(each, np.int64) for each in keys], count=count, start=start, stop=stop
    )

    ordered = sorted(range(count), key=lambda row: [each[row] for each in keys])
    assert found.tolist() == ordered[start:stop]


def test_zeros_lose_their_sign_and_nothing_else_changes() -> None:
    floats = pa.array([-0.0, None, math.inf, -1.5])
    lists = pa.array([[1.0], [-0.0, None], None, []], pa.list_(pa.float32())).slice(1)
    vectors = pa.array([[1, 1], [-0.0, 2], None], pa.list_(pa.float32(), 2)).slice(1)
    texts = pa.array(["-0.0"])

    shown = [without_signed_zeros(each) for each in (floats, lists, vectors, texts)]

    assert [each.type for each in shown] == [each.type for each in (floats, lists, vectors, texts)]
    assert str(shown[0].to_pylist()) == "[0.0, None, inf, -1.5]"
    assert str(shown[1].to_pylist()) == "[[0.0, None], None, []]"
    assert str(shown[2].to_pylist()) == "[[0.0, 2.0], None]"
    assert shown[3].equals(texts)
