"""Parameters: which values are taken for which declared types, and what a refusal says."""

from datetime import UTC, date, datetime, timedelta, timezone

import pandas as pd
import pytest

from omnigraph.compiler.ir import Parameter, Value
from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.errors import InvalidValueError
from omnigraph.model.types import PropertyType, Scalar, Vector


def convert(
    type: PropertyType, value: object, numbers: NumberReading = NumberReading.EXACT
) -> Value:
    return convert_parameters([Parameter("x", type)], {"x": value}, numbers=numbers)["x"]


def of(scalar: Scalar) -> PropertyType:
    return PropertyType(scalar)


@pytest.mark.parametrize(
    ("type", "given", "value"),
    [
        (of(Scalar.STRING), "é", "é"),
        (of(Scalar.BLOB), "base64:AQID", "base64:AQID"),
        (of(Scalar.BOOL), False, False),
        (of(Scalar.I32), 7, 7),
        (of(Scalar.I32), "7", 7),
        (of(Scalar.I32), "-2147483648", -(2**31)),
        (of(Scalar.I64), 2**63 - 1, 2**63 - 1),
        (of(Scalar.U32), 2**32 - 1, 2**32 - 1),
        (of(Scalar.U64), 2**64 - 1, 2**64 - 1),
        (of(Scalar.F64), 5, 5.0),
        (of(Scalar.F32), 0.5, 0.5),
        (of(Scalar.DATE), "2024-6-1", date(2024, 6, 1)),
        (of(Scalar.DATE), date(2024, 6, 1), date(2024, 6, 1)),
        (of(Scalar.DATETIME), "2024-06-01", datetime(2024, 6, 1, tzinfo=UTC)),
        (
            of(Scalar.DATETIME),
            datetime(2024, 6, 1, 12, tzinfo=timezone(timedelta(hours=2))),
            datetime(2024, 6, 1, 10, tzinfo=UTC),
        ),
        (PropertyType(Scalar.I32, is_list=True), [1, "2"], (1, 2)),
        (PropertyType(Scalar.STRING, is_list=True), [], ()),
        (PropertyType(Vector(2)), [1, 0.5], (1.0, 0.5)),
    ],
)
def test_a_value_of_the_declared_type_is_accepted(
    type: PropertyType, given: object, value: Value
) -> None:
    assert convert(type, given) == value


@pytest.mark.parametrize(
    ("type", "given", "fragment"),
    [
        (of(Scalar.STRING), 7, "a string is needed, not a number"),
        (of(Scalar.STRING), "\ud800", "surrogate"),
        (of(Scalar.STRING), None, "null is not accepted"),
        (of(Scalar.BOOL), 1, "true or false is needed"),
        (of(Scalar.DATE), 2024, "a Date is given as text, not a number"),
        (of(Scalar.DATE), "2024-06-01T00:00:00Z", "it has a time of day"),
        (of(Scalar.DATETIME), "2024-06-01T12:00:00.0001Z", "digits below the millisecond"),
        (
            of(Scalar.DATETIME),
            datetime(2024, 6, 1, 12, 0, 0, 1, tzinfo=UTC),
            "digits below the millisecond",
        ),
        (
            of(Scalar.DATETIME),
            pd.Timestamp("2024-06-01T12:00:00.000000001Z"),
            "digits below the millisecond",
        ),
        (of(Scalar.I32), 2**31, "exceeds I32"),
        (of(Scalar.I32), 3.0, "a whole number is needed"),
        (of(Scalar.I32), True, "a whole number is needed"),
        (of(Scalar.I32), "7.0", "not a whole number"),
        (of(Scalar.I32), "9" * 5000, "not a whole number"),
        (of(Scalar.I64), 2**63, "exceeds I64"),
        (of(Scalar.U32), -1, "exceeds U32"),
        (of(Scalar.F32), 1e300, "too large for F32"),
        (of(Scalar.F64), 10**400, "too large for F64"),
        (of(Scalar.F64), "1.5", "a number is needed"),
        (of(Scalar.DATE), "2024-13-01", "invalid Date literal"),
        (of(Scalar.DATE), 19875, "a Date is given as text"),
        (of(Scalar.DATETIME), "noon", "invalid DateTime literal"),
        (PropertyType(Scalar.I32, is_list=True), [1, None], "null is not accepted"),
        (PropertyType(Scalar.I32, is_list=True), "12", "an array is needed, not a string"),
        (PropertyType(Vector(2)), [1, 2, 3], "expects 2 dimensions, got 3"),
        (PropertyType(Vector(2)), ["a", 1], "a number is needed"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(
    type: PropertyType, given: object, fragment: str
) -> None:
    with pytest.raises(InvalidValueError) as refusal:
        convert(type, given)

    assert "param 'x'" in str(refusal.value)
    assert fragment in str(refusal.value)
    assert refusal.value.type == str(type)


def test_an_omitted_nullable_parameter_is_null() -> None:
    declared = [Parameter("x", PropertyType(Scalar.I32, is_nullable=True))]

    assert convert_parameters(declared, None, numbers=NumberReading.EXACT) == {"x": None}
    assert convert_parameters(declared, {"x": None}, numbers=NumberReading.EXACT) == {"x": None}


def test_an_omitted_required_parameter_is_refused_even_if_nothing_uses_it() -> None:
    with pytest.raises(InvalidValueError, match="parameter 'x' not provided"):
        convert_parameters([Parameter("x", of(Scalar.I32))], {}, numbers=NumberReading.EXACT)


def test_an_undeclared_parameter_is_refused_with_the_nearest_name() -> None:
    declared = [Parameter("name", PropertyType(Scalar.STRING, is_nullable=True))]

    with pytest.raises(InvalidValueError, match="did you mean `name`"):
        convert_parameters(declared, {"nmae": "Ann"}, numbers=NumberReading.EXACT)


@pytest.mark.parametrize("given", [[], "{}", 3])
def test_parameters_are_an_object(given: object) -> None:
    with pytest.raises(InvalidValueError, match="a JSON object is needed"):
        convert_parameters([], given, numbers=NumberReading.EXACT)


def test_a_runtime_with_floats_only_may_send_integral_floats_and_long_numbers_as_text() -> None:
    javascript = NumberReading.JAVASCRIPT

    assert convert(of(Scalar.I32), 3.0, javascript) == 3
    assert convert(of(Scalar.I64), str(2**53 + 1), javascript) == 2**53 + 1
    with pytest.raises(InvalidValueError, match="must be given as text"):
        convert(of(Scalar.I64), 2**53, javascript)
    with pytest.raises(InvalidValueError, match="a whole number is needed"):
        convert(of(Scalar.I64), 3.5, javascript)
