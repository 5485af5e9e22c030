"""Parameters of a call: JSON or Python values in, values of the declared types out.

Every declared parameter gets a value, whether the query uses it or not, and every given parameter
must be declared. Otherwise an `InvalidValueError` names the parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from numbers import Integral, Real
from typing import TypeVar

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.compiler.ir import Parameter, Value
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.types import (
    INTEGER_RANGE,
    IS_TOO_FINE,
    PropertyType,
    Scalar,
    Vector,
    explain,
    fits_f32,
    parse_date,
    parse_datetime,
)

T = TypeVar("T")

_INTEGER_DIGITS_MAX = 20
_SAFE_INTEGER_MAX = 2**53 - 1


class NumberReading(StrEnum):
    """How integers arrive: exactly, or through a runtime that has only floats.

    With `JAVASCRIPT` an integral float is read as an integer, and an integer that a float cannot
    represent exactly must be given as text.
    """

    EXACT = "exact"
    JAVASCRIPT = "javascript"


def convert_parameters(
    declared: Sequence[Parameter], given: object, *, numbers: NumberReading
) -> dict[str, Value]:
    """Convert the parameters of a call to values of their declared types, by name."""
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise InvalidValueError(
            subject="params",
            expected="object",
            value=given,
            problem=f"a JSON object is needed, not {_name_of(given)}",
        )
    _require_declared(declared, given)
    return {each.name: _convert_one(each, given, numbers) for each in declared}


def _require_declared(declared: Sequence[Parameter], given: Mapping[object, object]) -> None:
    names = {each.name for each in declared}
    for name in given:
        if name not in names:
            advice = advise_name(str(name), names) or "the query declares none"
            raise InvalidValueError(
                subject=f"param '{name}'",
                expected="a declared parameter",
                value=given[name],
                problem=f"the query declares no such parameter; {advice}",
            )


def _convert_one(
    parameter: Parameter, given: Mapping[object, object], numbers: NumberReading
) -> Value:
    value = given.get(parameter.name)
    if value is None and parameter.type.is_nullable:
        return None
    try:
        if parameter.name not in given:
            raise ValueError(f"parameter '{parameter.name}' not provided")
        return _convert(value, parameter.type, numbers)
    except ValueError as error:
        raise InvalidValueError(
            subject=f"param '{parameter.name}'",
            expected=str(parameter.type),
            value=value,
            problem=str(error),
        ) from error


def _convert(value: object, type: PropertyType, numbers: NumberReading) -> Value:
    """Convert a value to a type; raises `ValueError` with the reason if it is not valid."""
    if value is None:
        raise ValueError("null is not accepted")
    if isinstance(type.element, Vector):
        elements = _read_vector(value)
        if len(elements) != type.element.dimension:
            raise ValueError(
                f"{type.element} expects {type.element.dimension} dimensions, got {len(elements)}"
            )
        return elements
    if type.is_list:
        return tuple(_convert(each, type.list_element, numbers) for each in _read_elements(value))
    return _convert_scalar(value, type.element, numbers)


def _convert_scalar(value: object, scalar: Scalar, numbers: NumberReading) -> Value:
    match scalar:
        case Scalar.STRING | Scalar.BLOB:
            return _read_text(value, "a string is needed")
        case Scalar.BOOL:
            if not isinstance(value, bool):
                raise ValueError(f"true or false is needed, not {_name_of(value)}")
            return value
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return _read_integer(value, scalar, numbers)
        case Scalar.F32 | Scalar.F64:
            return _read_float(value, scalar)
        case Scalar.DATE:
            if isinstance(value, date) and not isinstance(value, datetime):
                return value
            return _parse_temporal(value, "Date", parse_date)
        case Scalar.DATETIME:
            if isinstance(value, datetime):
                return _to_utc(value)
            return _parse_temporal(value, "DateTime", parse_datetime)


def _read_elements(value: object) -> Iterable[object]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise ValueError(f"an array is needed, not {_name_of(value)}")
    return value


def _read_vector(value: object) -> tuple[float, ...]:
    numbers = tuple(_read_elements(value))
    floats = tuple(each for each in numbers if type(each) is float)
    if len(floats) == len(numbers) and fits_f32(*floats):
        # Vectors have many numbers, and this is several times faster than a check of each.
        return floats
    return tuple(_read_float(each, Scalar.F32) for each in numbers)


def _read_text(value: object, need: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{need}, not {_name_of(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError("the text holds half of a surrogate pair") from error
    return value


def _read_integer(value: object, scalar: Scalar, numbers: NumberReading) -> int:
    number = _read_whole_number(value, numbers)
    low, high = INTEGER_RANGE[scalar]
    if not low <= number <= high:
        raise ValueError(f"{number} exceeds {scalar} ({low} to {high})")
    return number


def _read_whole_number(value: object, numbers: NumberReading) -> int:
    is_javascript = numbers is NumberReading.JAVASCRIPT
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= _INTEGER_DIGITS_MAX:
            return int(value)
        raise ValueError(f"{value[:_INTEGER_DIGITS_MAX]!r} is not a whole number")
    if isinstance(value, float) and is_javascript and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"a whole number is needed, not {_name_of(value)}")
    if is_javascript and abs(int(value)) > _SAFE_INTEGER_MAX:
        raise ValueError(f"{value} must be given as text: a JavaScript number cannot hold it")
    return int(value)


def _read_float(value: object, scalar: Scalar) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"a number is needed, not {_name_of(value)}")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError(f"the number is too large for {scalar}") from error
    if scalar is Scalar.F32 and not fits_f32(number):
        raise ValueError(f"the number is too large for {scalar}")
    return number


def _parse_temporal(value: object, word: str, parse: Callable[[str], T]) -> T:
    text = _read_text(value, f"a {word} is given as text")
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"invalid {word} literal {text[:40]!r}{explain(error)}") from error


def _to_utc(timestamp: datetime) -> datetime:
    # Timestamps of pandas are datetimes with an additional nanosecond field.
    if timestamp.microsecond % 1000 or getattr(timestamp, "nanosecond", 0):
        raise ValueError(IS_TOO_FINE)
    return timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp.astimezone(UTC)


def _name_of(value: object) -> str:
    """The JSON name of the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case Real():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "an object"
        case Iterable():
            return "an array"
        case _:
            return f"a {type(value).__name__}"
