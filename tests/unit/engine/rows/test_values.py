"""Typed values as Arrow columns, comparison of columns."""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.ir import Comparator, Value
from omnigraph.engine.rows.values import column_of, compare, repeat_value
from omnigraph.errors import InvalidValueError
from omnigraph.model.types import PropertyType, Scalar, Vector
from omnigraph.storage.row_files import TIMESTAMP, arrow_type
from tests.support.naive_order import Cell, cells, column

NUMBERS = (pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64())
OTHERS = (pa.bool_(), pa.string(), pa.date32(), TIMESTAMP)
RELATIONS: dict[Comparator, Callable[[float, float], bool]] = {
    Comparator.EQ: lambda one, other: one == other,
    Comparator.NE: lambda one, other: one != other,
    Comparator.LT: lambda one, other: one < other,
    Comparator.LE: lambda one, other: one <= other,
    Comparator.GT: lambda one, other: one > other,
    Comparator.GE: lambda one, other: one >= other,
}
EDGES = (0, -1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), -(2**53) - 1)


Typed = tuple[pa.DataType, pa.DataType, list[tuple[Cell, Cell]]]


def typed_pairs(left: pa.DataType, right: pa.DataType) -> st.SearchStrategy[Typed]:
    """Rows of two numbers, often near each other and near the ends of their types."""
    near = st.builds(
        lambda number, step: (_fit(number, left), _fit(number + step, right)),
        st.sampled_from(EDGES),
        st.sampled_from([-1, 0, 0.5, 1, math.inf, math.nan]),
    )
    pairs = st.lists(st.one_of(near, st.tuples(cells(left), cells(right))), max_size=8)
    return st.tuples(st.just(left), st.just(right), pairs)


def _fit(number: float, type: pa.DataType) -> Cell:
    """The number, perhaps rounded, if the type has it; else null."""
    if pa.types.is_floating(type):
        return float(number)
    if not math.isfinite(number) or number != int(number):
        return None
    low = -(2 ** (type.bit_width - 1)) if pa.types.is_signed_integer(type) else 0
    return int(number) if low <= number < low + 2**type.bit_width else None


NUMBER_PAIRS = st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)).flatmap(
    lambda types: typed_pairs(*types)
)
OTHER_PAIRS = st.sampled_from(OTHERS).flatmap(
    lambda type: st.tuples(
        st.just(type), st.just(type), st.lists(st.tuples(cells(type), cells(type)), max_size=8)
    )
)


@given(NUMBER_PAIRS)
def test_numbers_of_any_widths_compare_as_real_numbers(typed: Typed) -> None:
    _require_same(typed)


@given(OTHER_PAIRS)
def test_values_that_are_not_numbers_compare_with_their_own_type(typed: Typed) -> None:
    _require_same(typed)


def test_an_integer_is_not_the_float_that_it_rounds_to() -> None:
    integers = pa.array([2**53 + 1, 2**63 - 1, 2**53], pa.int64())
    floats = pa.array([2.0**53, 2.0**63, 2.0**53])

    assert compare(integers, Comparator.EQ, floats).tolist() == [False, False, True]
    assert compare(floats, Comparator.LT, integers).tolist() == [True, False, False]


def test_a_narrow_float_is_the_number_it_holds() -> None:
    narrow, wide = pa.array([0.1, 0.5], pa.float32()), pa.array([0.1, 0.5], pa.float64())

    assert compare(narrow, Comparator.EQ, wide).tolist() == [False, True]
    assert compare(narrow, Comparator.GT, wide).tolist() == [True, False]


def test_nan_is_unequal_to_itself() -> None:
    nan, other = pa.array([math.nan, None]), pa.array([math.nan, math.nan])

    assert compare(nan, Comparator.EQ, other).tolist() == [False, False]
    assert compare(nan, Comparator.NE, other).tolist() == [True, False]
    assert compare(nan, Comparator.GE, other).tolist() == [False, False]


def test_a_constant_null_matches_nothing() -> None:
    numbers, nothing = pa.array([1, None]), pa.nulls(2)

    for comparator in (*RELATIONS, Comparator.IN):
        assert compare(numbers, comparator, nothing).tolist() == [False, False]
    assert compare(nothing, Comparator.LIST_CONTAINS, numbers).tolist() == [False, False]
    assert compare(nothing, Comparator.STARTS_WITH, nothing).tolist() == [False, False]


def test_a_list_holds_an_element_that_equals_the_value_beside_it() -> None:
    lists = pa.array([[9], [1, None, 3], [], None, [3], [None], [2**53 + 1]]).slice(1)
    values = pa.array([3, 3, 3, 3, None, 2**53], pa.float64())

    holds = compare(lists, Comparator.LIST_CONTAINS, values)
    is_in = compare(values, Comparator.IN, lists)

    assert holds.tolist() == [True, False, False, True, False, False]
    assert is_in.tolist() == holds.tolist()


TEXTS = st.none() | st.text("aé\0😀", max_size=5)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=8))
def test_texts_hold_and_start_with_the_text_beside_them(
    pairs: list[tuple[str | None, str | None]],
) -> None:
    lefts, rights = (column([pair[side] for pair in pairs], pa.string()) for side in (0, 1))

    holds = compare(lefts, Comparator.STRING_CONTAINS, rights)
    starts = compare(lefts, Comparator.STARTS_WITH, rights)

    assert holds.tolist() == [
        left is not None and right is not None and right in left for left, right in pairs
    ]
    assert starts.tolist() == [
        left is not None and right is not None and left.startswith(right) for left, right in pairs
    ]


def _require_same(typed: Typed) -> None:
    left, right, pairs = typed
    lefts = column([one for one, _other in pairs], left)
    rights = column([other for _one, other in pairs], right)

    found = {each: compare(lefts, each, rights).tolist() for each in RELATIONS}

    # What a column holds is the value that counts: an F32 rounds what it is given.
    held = list(zip(_stored(lefts), _stored(rights), strict=True))
    for comparator, marks in found.items():
        assert marks == [_holds(one, comparator, other) for one, other in held]


def _holds(one: Cell, comparator: Comparator, other: Cell) -> bool:
    match one, other:
        case (str(), str()):
            first, second = one.encode(), other.encode()
            return RELATIONS[comparator]((first > second) - (first < second), 0)
        case (int() | float(), int() | float()):
            return RELATIONS[comparator](one, other)
        case _:
            return False


def _stored(values: pa.Array) -> list[Cell]:
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    stored: list[Cell] = values.to_pylist()
    return stored


def of(scalar: Scalar) -> PropertyType:
    return PropertyType(scalar)


def list_of(scalar: Scalar) -> PropertyType:
    return PropertyType(scalar, is_list=True)


INSTANT = datetime(2024, 6, 1, 12, 30, 15, 250_999, tzinfo=UTC)
INSTANT_MS = 1717245015250


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
    scalar = column_of([INSTANT, datetime(1, 1, 1, tzinfo=UTC)], of(Scalar.DATETIME), subject="T.p")
    nested = column_of([(INSTANT,)], list_of(Scalar.DATETIME), subject="T.p")

    assert scalar.cast("int64").to_pylist() == [INSTANT_MS, -62135596800000]
    assert nested.flatten().cast("int64").to_pylist() == [INSTANT_MS]


@pytest.mark.parametrize(
    ("type", "value", "problem"),
    [
        (of(Scalar.I32), 2**31, "2147483648 exceeds I32"),
        (of(Scalar.U32), -1, "-1 exceeds U32"),
        (list_of(Scalar.U64), (1, -1), "-1 exceeds U64"),
        (of(Scalar.F32), 1e39, "too large for F32"),
        (PropertyType(Vector(1)), (1e39,), "too large for F32"),
        (of(Scalar.BLOB), "https://example.org/a.png", '"base64:…"'),
        (of(Scalar.BLOB), "base64:*", "not valid base64"),
        (of(Scalar.BLOB), "base64:AQI", "not valid base64"),
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
