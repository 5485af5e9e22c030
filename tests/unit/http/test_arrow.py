"""What a stream says of its columns is read back as it was."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.engine.results import Result, ResultColumn
from omnigraph.http.arrow import decode_result, describe_type, noted_table, type_of
from omnigraph.model.types import PropertyType, Scalar, Vector

TYPES = [
    *(PropertyType(scalar) for scalar in Scalar),
    PropertyType(Scalar.I64, is_nullable=True),
    PropertyType(Scalar.STRING, is_list=True),
    PropertyType(Scalar.STRING, is_nullable=True, is_list=True, enum_values=("a", "b")),
    PropertyType(Scalar.STRING, enum_values=()),
    PropertyType(Vector(7)),
    PropertyType(Vector(3), is_nullable=True),
]


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_a_type_that_is_described_is_that_type_again(type: PropertyType) -> None:
    assert type_of(describe_type(type)) == type


def test_a_trailer_carries_everything_that_a_result_has() -> None:
    columns = [ResultColumn("n", each, is_aggregate=True) for each in TYPES[:2]]
    result = Result(
        pa.table([["x"], ["y"]], names=["n", "n"]),
        columns=columns,
        query_name="q",
        branch="a/b",
        commit_id="01A",
    )

    decoded = decode_result(noted_table(result).to_reader())

    assert decoded is not None
    assert (decoded.query_name, decoded.branch, decoded.commit_id) == ("q", "a/b", "01A")
    assert list(decoded.result_columns) == columns


def test_a_stream_of_others_has_no_note() -> None:
    assert decode_result(pa.table({"n": [1]}).to_reader()) is None
