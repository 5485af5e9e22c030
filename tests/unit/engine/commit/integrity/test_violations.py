"""Codes of tuples: equal for equal tuples and for no others, however many values there are."""

import numpy as np
import pyarrow as pa

from omnigraph.engine.commit.integrity.violations import (
    DictionaryColumn,
    encode_column,
    encode_tuples,
    find_first_rows,
    has_repeats,
)


def test_a_column_is_encoded_across_its_chunks() -> None:
    encoded = encode_column(pa.chunked_array([["a", "b"], ["b", "c"]]))

    assert encoded.distinct.to_pylist() == ["a", "b", "c"]
    assert encoded.codes.tolist() == [0, 1, 1, 2]


def test_more_combinations_than_a_number_holds_stay_apart() -> None:
    # An array of nulls is as long as it says and takes no memory.
    many = pa.nulls(2**31)
    first = np.array([0, 4, 8, 4], np.int64)
    other = np.array([5, 5, 5, 5], np.int64)

    codes = encode_tuples(
        [
            DictionaryColumn(many, first),
            DictionaryColumn(many, other),
            DictionaryColumn(many, other),
        ]
    )

    assert len(set(codes.tolist())) == 3
    assert find_first_rows(codes).tolist() == [0, 1, 2, 1]


def test_repeats_are_found_at_any_position() -> None:
    assert has_repeats(np.array([3, 1, 2, 3], np.int64))
    assert not has_repeats(np.array([3, 1, 2], np.int64))
    assert not has_repeats(np.array([], np.int64))
