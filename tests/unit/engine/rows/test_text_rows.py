"""Rows that become text column by column say what rows that become objects say."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.results import Result, ResultColumn
from omnigraph.engine.rows.text_rows import encode_objects
from omnigraph.model.types import PropertyType, Scalar, Vector
from omnigraph.storage.row_files import arrow_type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = st.integers(-719_162, 2_932_896).map(lambda days: date(1970, 1, 1) + timedelta(days=days))
_TIMESTAMPS = st.integers(-62_135_596_800_000, 253_402_300_799_999)

_VALUES: dict[Scalar, st.SearchStrategy[object]] = {
    Scalar.STRING: st.text(),
    Scalar.BLOB: st.binary(),
    Scalar.BOOL: st.booleans(),
    Scalar.I32: st.integers(-(2**31), 2**31 - 1),
    Scalar.I64: st.integers(-(2**63), 2**63 - 1),
    Scalar.U32: st.integers(0, 2**32 - 1),
    Scalar.U64: st.integers(0, 2**64 - 1),
    Scalar.F32: st.floats(width=32),
    Scalar.F64: st.floats(),
    Scalar.DATE: _DAYS,
    Scalar.DATETIME: _TIMESTAMPS,
}


def make_table(columns: dict[str, tuple[PropertyType, list[object]]]) -> tuple[pa.Table, Result]:
    """Columns of values as a table, and as a result."""
    arrays = [
        pa.array(values, _storage(arrow_type(type))).cast(arrow_type(type))
        for type, values in columns.values()
    ]
    table = pa.table(arrays, names=list(columns))
    described = [
        ResultColumn(name, type, is_aggregate=False) for name, (type, _) in columns.items()
    ]
    return table, Result(table, columns=described, query_name="q", branch="main", commit_id="c")


def _storage(type: pa.DataType) -> pa.DataType:
    """Moments are made of numbers, which reach further than Python's."""
    if pa.types.is_timestamp(type):
        return pa.int64()
    if pa.types.is_list(type) and pa.types.is_timestamp(type.value_type):
        return pa.list_(pa.int64())
    return type


@pytest.mark.parametrize("scalar", list(Scalar))
@pytest.mark.parametrize("is_list", [False, True], ids=["plain", "list"])
@given(choices=st.data())
def test_every_value_is_written_as_rows_have_it(
    scalar: Scalar, choices: st.DataObject, *, is_list: bool
) -> None:
    values = _VALUES[scalar]
    if is_list:
        values = st.lists(values, max_size=4)
    column = choices.draw(st.lists(st.none() | values, min_size=1, max_size=20))
    kind = PropertyType(scalar, is_nullable=True, is_list=is_list)

    table, result = make_table({"p.x": (kind, column)})

    assert orjson.loads(b"[" + encode_objects(table) + b"]") == result.rows


@given(
    vectors=st.lists(
        st.none() | st.lists(st.floats(width=32), min_size=3, max_size=3), min_size=1, max_size=20
    )
)
def test_every_vector_is_written_as_rows_have_it(vectors: list[object]) -> None:
    table, result = make_table({"v": (PropertyType(Vector(3), is_nullable=True), vectors)})

    assert orjson.loads(b"[" + encode_objects(table) + b"]") == result.rows


def test_a_part_of_a_table_is_that_part() -> None:
    words = PropertyType(Scalar.STRING, is_nullable=True, is_list=True)
    table, result = make_table(
        {
            "n": (PropertyType(Scalar.F64), [0.5, math.inf, math.nan, 4.0]),
            "w": (words, [["a"], None, [], ["b", "c"]]),
        }
    )

    found = orjson.loads(b"[" + encode_objects(table.slice(1, 3)) + b"]")

    assert found == result.rows[1:]


def test_where_columns_share_a_name_the_last_one_counts() -> None:
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "b", "a"])

    assert encode_objects(table) == b'{"a":3,"b":2}'


def test_no_rows_are_no_text() -> None:
    assert encode_objects(pa.table({"a": pa.array([], pa.int64())})) == b""
