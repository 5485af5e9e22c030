"""Literals: their types, and whether they fit a property.

Everything that a text and a schema decide alone is decided here, before any row is seen.
"""

from __future__ import annotations

import re
from datetime import date, datetime

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.ir import Constant, Value
from omnigraph.compiler.query.syntax import Call, Expression, ListLiteral, Literal, LiteralValue
from omnigraph.model.source import Span
from omnigraph.model.temporal import parse_date, parse_datetime
from omnigraph.model.types import (
    BOOL,
    DATE,
    DATETIME,
    F64,
    FLOATS,
    I64,
    INTEGER_RANGE,
    INTEGERS,
    NUMBERS,
    STRING,
    PropertyType,
    Scalar,
    Vector,
    fits_f32,
)

TEMPORAL_FUNCTIONS = frozenset({"date", "datetime"})


def read_literal(written: Expression, diagnostics: Diagnostics) -> Constant | None:
    """The constant that an expression writes out, or `None` when it is none (or faulty)."""
    match written:
        case Literal(value=value):
            return Constant(value, _type_of(value))
        case ListLiteral():
            return _read_list(written, diagnostics)
        case Call(function=function) if function.text in TEMPORAL_FUNCTIONS:
            return _read_temporal(written, diagnostics)
        case _:
            return None


def is_literal(written: Expression) -> bool:
    """Whether an expression writes out a constant."""
    if isinstance(written, Call):
        return written.function.text in TEMPORAL_FUNCTIONS
    return isinstance(written, Literal | ListLiteral)


def find_misfit(value: Value, type: PropertyType) -> str | None:
    """Why a value cannot be stored in a property of a type, or `None` when it can."""
    if value is None:
        return None if type.is_nullable else "the property cannot be null"
    if isinstance(type.element, Vector):
        return _vector_misfit(value, type.element)
    if type.is_list:
        if not isinstance(value, tuple):
            return f"a list of {type.element} is needed"
        return next((m for each in value if (m := _scalar_misfit(each, type.list_element))), None)
    return _scalar_misfit(value, type)


def find_mismatch(value: Value, type: PropertyType) -> str | None:
    """Why a value can never be compared with a scalar of a type, or `None` when it can.

    Numbers of any kind and size may be compared: `= 2.7` on an integer just matches nothing.
    """
    if value is None:
        return None if type.is_nullable else "the property is never null"
    if type.element in NUMBERS and _is_number(value):
        return None
    return _scalar_misfit(value, type)


def _scalar_misfit(value: Value, type: PropertyType) -> str | None:
    element = type.element
    if type.enum_values is not None and isinstance(value, str):
        return _enum_misfit(value, type.enum_values)
    match element:
        case Scalar.STRING | Scalar.BLOB:
            fits = isinstance(value, str)
        case Scalar.BOOL:
            fits = isinstance(value, bool)
        case Scalar.DATETIME:
            fits = isinstance(value, datetime)
        case Scalar.DATE:
            fits = isinstance(value, date) and not isinstance(value, datetime)
        case _ if element in INTEGERS:
            return _integer_misfit(value, element)
        case _:
            fits = _is_number(value)
            if fits:
                return _float_misfit(value, element)
    return None if fits else f"{describe_value(value)} is no {type.describe()}"


def _enum_misfit(value: str, allowed: tuple[str, ...]) -> str | None:
    if value in allowed:
        return None
    return f"invalid enum value '{value}' (expected: {', '.join(allowed)})"


def _integer_misfit(value: Value, element: Scalar | Vector) -> str | None:
    assert isinstance(element, Scalar)
    if isinstance(value, float):
        return f"{value} is no {element}: a fraction would be lost"
    if not isinstance(value, int) or isinstance(value, bool):
        return f"{describe_value(value)} is no {element}"
    low, high = INTEGER_RANGE[element]
    return None if low <= value <= high else f"{value} exceeds {element} ({low} to {high})"


def _vector_misfit(value: Value, vector: Vector) -> str | None:
    if not isinstance(value, tuple) or not all(_is_number(each) for each in value):
        return f"{vector} takes a list of {vector.dimension} numbers"
    if len(value) != vector.dimension:
        return f"{vector} expects {vector.dimension} dimensions, the list has {len(value)}"
    return next((m for each in value if (m := _float_misfit(each, Scalar.F32))), None)


def _float_misfit(value: Value, element: Scalar | Vector) -> str | None:
    assert isinstance(value, int | float)
    if element is Scalar.F32 and not fits_f32(value):
        return f"{value} is too large for {element}"
    return None


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def advise_spelling(value: Value, type: PropertyType) -> str | None:
    """How a value would have to be written to be of a type, if it can be."""
    element = type.element
    match value:
        case str() if element in NUMBERS and _NUMBER.fullmatch(value):
            return f"numbers take no quotes: `{value}`"
        case "true" | "false" if element is Scalar.BOOL:
            return f"truth values take no quotes: `{value}`"
        case bool() | int() | float() if element is Scalar.STRING:
            return f'a text is written in quotes: `"{describe_value(value)}"`'
        case str() if element in _EXAMPLE_BY_TEMPORAL:
            text = value if _is_temporal(value) else _EXAMPLE_BY_TEMPORAL[element]
            return f'write `{element.lower()}("{text}")`'
        case datetime() if element is Scalar.DATE:
            return f'write `date("{value:%Y-%m-%d}")`'
        case date() if element is Scalar.DATETIME:
            return f'write `datetime("{value}T00:00:00Z")`'
        case _:
            return None


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_EXAMPLE_BY_TEMPORAL = {Scalar.DATE: "2024-06-01", Scalar.DATETIME: "2024-06-01T12:00:00Z"}


def _is_temporal(text: str) -> bool:
    try:
        parse_datetime(text)
    except ValueError:
        return False
    return True


def describe_value(value: Value) -> str:
    """A value as a message shows it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"' if len(value) <= 40 else f'"{value[:40]}…"'
        case datetime():
            return f"the DateTime {value:%Y-%m-%dT%H:%M:%SZ}"
        case date():
            return f"the Date {value}"
        case tuple():
            return "a list"
        case int() | float():
            return str(value)


def _type_of(value: LiteralValue) -> PropertyType | None:
    match value:
        case None:
            return None
        case bool():
            return BOOL
        case int():
            return I64
        case float():
            return F64
        case str():
            return STRING


def _read_list(written: ListLiteral, diagnostics: Diagnostics) -> Constant | None:
    values: list[Value] = []
    types: list[PropertyType] = []
    for each in written.elements:
        if isinstance(each, ListLiteral):
            diagnostics.error("T32", "a list cannot hold a list", each.span)
            return None
        constant = read_literal(each, diagnostics)
        if constant is None:
            if not is_literal(each):
                diagnostics.error("T32", "a list holds literals only", each.span)
            return None
        if constant.type is None:
            diagnostics.error("T32", "a list cannot hold null", each.span)
            return None
        values.append(constant.value)
        types.append(constant.type)
    element = _common_element(types)
    if element is None:
        problem = "the elements of a list must have one type"
        diagnostics.error("T32", problem, written.span)
        return None
    return Constant(tuple(values), PropertyType(element, is_list=True))


def _common_element(types: list[PropertyType]) -> Scalar | Vector | None:
    elements = {type.element for type in types}
    if not elements:
        return Scalar.STRING
    if len(elements) == 1:
        return elements.pop()
    return Scalar.F64 if elements <= NUMBERS and elements & FLOATS else None


def _read_temporal(written: Call, diagnostics: Diagnostics) -> Constant | None:
    word = written.function.text
    match written:
        case Call(
            arguments=[Literal(value=str() as text, span=span)], has_star=False, is_distinct=False
        ):
            return _parse_temporal(word, text, span, diagnostics)
        case _:
            pass
    advice = f'write `{word}("2024-06-01")`'
    diagnostics.error("P7", f"{word}() takes one string", written.span, advice)
    return None


def _parse_temporal(word: str, text: str, span: Span, diagnostics: Diagnostics) -> Constant | None:
    type = DATE if word == "date" else DATETIME
    try:
        return Constant(parse_date(text) if type is DATE else parse_datetime(text), type)
    except ValueError:
        problem = f"invalid {type} literal {describe_value(text)}"
        diagnostics.error("T3", problem, span, advise_spelling(text, type))
        return None
