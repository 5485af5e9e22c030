"""Two columns compared row by row, against Python's exact comparisons."""

import math
from collections.abc import Callable

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.ir import Comparator
from omnigraph.engine.read.comparisons import compare
from tests.support.naive_order import Cell, cells, column

NUMBERS = (pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64())
OTHERS = (pa.bool_(), pa.string(), pa.date32(), pa.date64())
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
def test_what_is_no_number_compares_with_its_like(typed: Typed) -> None:
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
    if pa.types.is_date(values.type):
        width = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
        values = values.cast(width)
    stored: list[Cell] = values.to_pylist()
    return stored
