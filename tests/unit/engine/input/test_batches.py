"""Rows of one type with origin, ids from keys, blob references, rows received."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.input.batches import bisect_refused, node_ids
from omnigraph.errors import InvalidValueError, RequestError
from omnigraph.model.catalog import NodeType
from omnigraph.storage.row_files import TIMESTAMP
from tests.support.schemas import compile_text


@pytest.mark.parametrize(
    ("count", "bad"),
    [(0, set()), (1, set()), (1, {0}), (7, {0, 3, 6}), (8, {7}), (5, {0, 1, 2, 3, 4})],
)
def test_exactly_those_that_are_refused_are_found_in_order(count: int, bad: set[int]) -> None:
    def attempt(start: int, end: int) -> None:
        found = sorted(bad & set(range(start, end)))
        if found:
            raise RequestError(f"number {found[0]}")

    refused = list(bisect_refused(count, attempt))

    assert [index for index, _ in refused] == sorted(bad)
    assert [str(error) for _, error in refused] == [f"number {index}" for index in sorted(bad)]


def test_one_among_thousands_takes_few_attempts() -> None:
    attempts = []

    def attempt(start: int, end: int) -> None:
        attempts.append((start, end))
        if start <= 1234 < end:
            raise RequestError("number 1234")

    ((index, _),) = bisect_refused(4096, attempt)

    assert index == 1234
    assert len(attempts) <= 2 * 12 + 1


def keyed_by(*types: str) -> NodeType:
    """A node type whose key has one property of each type: a, b and so on."""
    names = "abc"[: len(types)]
    properties = "  ".join(f"{name}: {type}" for name, type in zip(names, types, strict=True))
    return compile_text(f"node N {{ {properties}  @key({', '.join(names)}) }}").nodes["N"]


def ids_of(declared: NodeType, *columns: pa.Array) -> list[str]:
    """The ids of rows with these key columns."""
    ids: list[str] = node_ids(declared, pa.table(list(columns), names=declared.key)).to_pylist()
    return ids


@pytest.mark.parametrize(
    ("type", "stored", "expected"),
    [
        ("String", pa.array(["ada", "", "a,b", '"', "漢"]), ["ada", "", "a,b", '"', "漢"]),
        ("I32", pa.array([42, -7, 0], pa.int32()), ["42", "-7", "0"]),
        ("I64", pa.array([-(2**63), 2**63 - 1]), [str(-(2**63)), str(2**63 - 1)]),
        ("U64", pa.array([2**64 - 1], pa.uint64()), [str(2**64 - 1)]),
        ("Bool", pa.array([True, False]), ["true", "false"]),
        ("Date", pa.array([19875, -1], pa.int32()).cast(pa.date32()), ["19875", "-1"]),
        ("DateTime", pa.array([1717243200123, -1]).cast(TIMESTAMP), ["1717243200123", "-1"]),
        ("F64", pa.array([2.0, 0.1, -0.0, 0.0, -1.5]), ["2", "0.1", "0", "0", "-1.5"]),
        ("F64", pa.array([1e22, 1e-7, 17e9]), ["1" + "0" * 22, "0.0000001", "17000000000"]),
        ("F32", pa.array([0.1, 16777216.0, -0.0], pa.float32()), ["0.1", "16777216", "0"]),
        ("F32", pa.array([1e20], pa.float32()), ["1" + "0" * 20]),
    ],
)
def test_i16_a_key_is_written_as_it_is_stored(
    type: str, stored: pa.Array, expected: list[str]
) -> None:
    assert ids_of(keyed_by(type), stored) == expected


def test_i17_the_id_of_several_columns_is_a_json_array_of_their_texts() -> None:
    declared = keyed_by("String", "I64", "Bool")

    ids = ids_of(declared, pa.array(["a,b", "z"]), pa.array([7, -1]), pa.array([True, False]))

    assert ids == ['["a,b","7","true"]', '["z","-1","false"]']


@pytest.mark.parametrize("width", ["F32", "F64"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_key_that_is_not_a_finite_number_is_refused(width: str, number: float) -> None:
    declared = keyed_by(width)
    keys = pa.array([1.0, number], pa.float32() if width == "F32" else pa.float64())

    with pytest.raises(InvalidValueError, match="cannot be a key") as refused:
        ids_of(declared, keys)

    assert refused.value.subject == "N.a"
    assert refused.value.type == width


def test_a_key_that_is_not_there_is_refused() -> None:
    declared = keyed_by("String", "I64")

    with pytest.raises(InvalidValueError, match="missing @key") as refused:
        ids_of(declared, pa.array(["x"]), pa.array([None], pa.int64()))

    assert refused.value.subject == "N.b"


def test_no_rows_have_no_ids() -> None:
    assert ids_of(keyed_by("F64"), pa.array([], pa.float64())) == []


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_an_id_has_the_fewest_digits_that_name_the_float(numbers: list[float]) -> None:
    ids = ids_of(keyed_by("F64"), pa.array(numbers, pa.float64()))

    assert ids == [_positional(number) for number in numbers]
    assert [float(each) for each in ids] == numbers


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_the_digits_of_a_narrow_float_are_those_of_its_width(numbers: list[float]) -> None:
    ids = ids_of(keyed_by("F32"), pa.array(numbers, pa.float32()))

    assert [np.float32(each) for each in ids] == numbers
    assert ids == [_positional(np.float32(number)) for number in numbers]


@given(st.lists(st.tuples(st.text(), st.text())))
def test_ids_of_several_texts_are_standard_json(
    keys: list[tuple[str, str]],
) -> None:
    columns = [pa.array([key[place] for key in keys], pa.string()) for place in (0, 1)]

    ids = ids_of(keyed_by("String", "String"), *columns)

    assert ids == [json.dumps(key, ensure_ascii=False, separators=(",", ":")) for key in keys]


def _positional(number: float | np.float32) -> str:
    text = np.format_float_positional(number, unique=True, trim="-")
    return "0" if text == "-0" else text
