"""Values of queries as columns: what is stored for which type, and what a refusal says."""

import math
from datetime import UTC, date, datetime

import pytest

from omnigraph.compiler.ir import Value
from omnigraph.engine.read.values import column_of, repeat_value
from omnigraph.errors import InvalidValueError
from omnigraph.model.types import PropertyType, Scalar, Vector
from omnigraph.storage.arrow_schema import arrow_type


def of(scalar: Scalar) -> PropertyType:
    return PropertyType(scalar)


def list_of(scalar: Scalar) -> PropertyType:
    return PropertyType(scalar, is_list=True)


MOMENT = datetime(2024, 6, 1, 12, 30, 15, 250_999, tzinfo=UTC)
MOMENT_MS = 1717245015250


@pytest.mark.parametrize(
    ("type", "value", "stored"),
    [
        (of(Scalar.STRING), "\0'é", "\0'é"),
        (of(Scalar.BOOL), False, False),
        (of(Scalar.I32), -(2**31), -(2**31)),
        (of(Scalar.U64), 2**64 - 1, 2**64 - 1),
        (of(Scalar.F64), 7, 7.0),
        (of(Scalar.F64), 2**53 + 1, float(2**53)),
        (of(Scalar.F32), 0.1, 0.10000000149011612),
        (of(Scalar.F64), math.inf, math.inf),
        (of(Scalar.DATE), date(1, 1, 1), date(1, 1, 1)),
        (list_of(Scalar.I64), (1, 2), [1, 2]),
        (list_of(Scalar.STRING), (), []),
        (list_of(Scalar.F64), (1, 2.5), [1.0, 2.5]),
        (list_of(Scalar.DATE), (date(2024, 6, 1),), [date(2024, 6, 1)]),
        (PropertyType(Vector(2)), (1, 0.5), [1.0, 0.5]),
        (of(Scalar.BLOB), "base64:AQID", b"\x01\x02\x03"),
        (of(Scalar.BLOB), "base64:", b""),
        (of(Scalar.STRING), None, None),
        (list_of(Scalar.DATETIME), None, None),
        (PropertyType(Vector(2)), None, None),
        (of(Scalar.BLOB), None, None),
    ],
)
def test_a_value_is_stored_as_its_property_says(
    type: PropertyType, value: Value, stored: object
) -> None:
    column = column_of([value], type, subject="T.p")

    assert column.type == arrow_type(type)
    assert column.to_pylist() == [stored]


def test_a_timestamp_keeps_its_milliseconds() -> None:
    scalar = column_of([MOMENT, datetime(1, 1, 1, tzinfo=UTC)], of(Scalar.DATETIME), subject="T.p")
    nested = column_of([(MOMENT,)], list_of(Scalar.DATETIME), subject="T.p")

    assert scalar.cast("int64").to_pylist() == [MOMENT_MS, -62135596800000]
    assert nested.flatten().cast("int64").to_pylist() == [MOMENT_MS]


@pytest.mark.parametrize(
    ("type", "value", "problem"),
    [
        (of(Scalar.I32), 2**31, "2147483648 exceeds I32"),
        (of(Scalar.U32), -1, "-1 exceeds U32"),
        (list_of(Scalar.U64), (1, -1), "-1 exceeds U64"),
        (of(Scalar.F32), 1e39, "too large for F32"),
        (PropertyType(Vector(1)), (1e39,), "too large for F32"),
        (of(Scalar.BLOB), "https://example.org/a.png", "`base64:…`"),
        (of(Scalar.BLOB), "base64:*", "not base64"),
        (of(Scalar.BLOB), "base64:AQI", "not base64"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    type: PropertyType, value: Value, problem: str
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        column_of([value], type, subject="Gauge.x")

    assert problem in str(caught.value)
    assert str(caught.value).startswith("Gauge.x: ")
    assert caught.value.value == value


@pytest.mark.parametrize(
    ("type", "value", "stored"),
    [
        (of(Scalar.I32), 7, 7),
        (PropertyType(Vector(2)), (1, 2), [1.0, 2.0]),
        (of(Scalar.STRING), None, None),
    ],
)
def test_one_value_fills_a_column(type: PropertyType, value: Value, stored: object) -> None:
    column = repeat_value(value, type, count=3, subject="T.p")

    assert column.type == arrow_type(type)
    assert column.to_pylist() == [stored] * 3
