"""Bound conditions on rows: bind, compile, bounds, masks, predicate text."""

import math
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from omnigraph.compiler.compile import compile_mutation, compile_schema
from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Comparator,
    Comparison,
    Condition,
    Constant,
    Delete,
    MutationIR,
    NullTest,
    ParameterValue,
    PropertyValue,
    Update,
    Value,
)
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.rows.conditions import (
    ALWAYS,
    F32_MAX,
    F64_MAX,
    NEVER,
    And,
    BoundCondition,
    Bounds,
    Column,
    Compare,
    HasElement,
    OneOf,
    Or,
    bind,
    find_bounds,
    find_predicate,
)
from omnigraph.errors import LimitExceededError
from omnigraph.model.catalog import TypeKind
from omnigraph.model.limits import CONDITION_NESTING_MAX
from omnigraph.model.source import Source
from omnigraph.model.types import I64, INTEGER_RANGE, INTEGERS, PropertyType, Scalar
from omnigraph.storage.lance.predicates import render_predicate
from omnigraph.storage.predicates import HasText, IsNull, IsPresent, WithinText


@pytest.mark.parametrize("scalar", sorted(INTEGERS))
def test_a_fraction_lies_between_two_whole_numbers(scalar: Scalar) -> None:
    assert find_bounds(2.5, scalar) == Bounds(2, 3)


@pytest.mark.parametrize("scalar", sorted(INTEGERS))
def test_beyond_the_range_of_a_type_there_is_nothing(scalar: Scalar) -> None:
    low, high = INTEGER_RANGE[scalar]

    assert find_bounds(low - 1, scalar) == find_bounds(-math.inf, scalar) == Bounds(None, low)
    assert find_bounds(high + 1, scalar) == find_bounds(math.inf, scalar) == Bounds(high, None)
    assert find_bounds(-1e300, scalar) == Bounds(None, low)
    assert find_bounds(low, scalar) == Bounds(low, low)
    assert find_bounds(float(2**64), scalar) == Bounds(high, None)


@pytest.mark.parametrize(
    ("constant", "bounds"),
    [
        (0.1, Bounds(0.1, 0.1)),
        (7, Bounds(7.0, 7.0)),
        (2**53 + 1, Bounds(2.0**53, 2.0**53 + 2)),
        (-(2**53) - 1, Bounds(-(2.0**53) - 2, -(2.0**53))),
        (2**53 + 3, Bounds(2.0**53 + 2, 2.0**53 + 4)),
        (10**400, Bounds(F64_MAX, math.inf)),
        (-(10**400), Bounds(-math.inf, -F64_MAX)),
        (math.inf, Bounds(math.inf, math.inf)),
    ],
)
def test_a_whole_number_lies_between_two_floats(constant: float, bounds: Bounds) -> None:
    assert find_bounds(constant, Scalar.F64) == bounds


@pytest.mark.parametrize(
    ("constant", "bounds"),
    [
        (0.1, Bounds(0.10000000149011612, 0.10000000149011612)),
        (16777217.0, Bounds(16777216.0, 16777216.0)),
        (16777217, Bounds(16777216.0, 16777218.0)),
        (16777219, Bounds(16777218.0, 16777220.0)),
        (-16777217, Bounds(-16777218.0, -16777216.0)),
        (1e300, Bounds(F32_MAX, math.inf)),
        (-1e300, Bounds(-math.inf, -F32_MAX)),
        (10**39, Bounds(F32_MAX, math.inf)),
        (-(10**400), Bounds(-math.inf, -F32_MAX)),
        (1e-300, Bounds(0.0, 0.0)),
        (-math.inf, Bounds(-math.inf, -math.inf)),
    ],
)
def test_a_float_is_rounded_to_a_narrow_column_and_a_whole_number_is_not(
    constant: float, bounds: Bounds
) -> None:
    assert find_bounds(constant, Scalar.F32) == bounds


NOW = datetime(2024, 6, 1, 12, 0, 0, 123_456, tzinfo=UTC)

SCHEMA = """
node Gauge { code: String @key  from: String?  i: I32?  w: U64?  g: F32?  on: Bool?  at: DateTime?
             tags: [String]?  v: Vector(2)? }
edge Near: Gauge -> Gauge { since: Date? }
"""
COUNT = Column("i", Scalar.I32)
COUNT_IS_ONE = Compare(COUNT, Comparator.EQ, 1)
ABSENT = IsNull("i")


def is_on(*, value: bool) -> Compare:
    return Compare(Column("on", Scalar.BOOL), Comparator.EQ, value)


def bind_where(where: str, *, type: str = "Gauge", **values: Value) -> BoundCondition:
    """What a `delete` with this condition looks for."""
    declared = ", ".join(f"${name}: {_DECLARED[name]}" for name in values)
    text = f"query q({declared}) {{ delete {type} where {where} }}"
    catalog = compile_schema(Source("s.pg", SCHEMA))
    ir = compile_mutation(Source("q.gq", text), catalog, name=None).ir
    assert isinstance(ir, MutationIR)
    (operation,) = ir.operations
    assert isinstance(operation, Delete | Update)
    kind = TypeKind.EDGE if type == "Near" else TypeKind.NODE
    return bind(operation.condition, kind=kind, inputs=Inputs(values, NOW))


_DECLARED = {"n": "I64?", "f": "F64?", "texts": "[String]?", "numbers": "[F64]"}


@pytest.mark.parametrize(
    ("where", "bound"),
    [
        ("i = 5", Compare(COUNT, Comparator.EQ, 5)),
        ("i > 2.5", Compare(COUNT, Comparator.GE, 3)),
        ("i <= 2.5", Compare(COUNT, Comparator.LE, 2)),
        ("i < 3", Compare(COUNT, Comparator.LT, 3)),
        ("i = 2.5", NEVER),
        ("i != 2.5", IsPresent("i")),
        ("i = 3000000000", NEVER),
        ("i < -3000000000", NEVER),
        ("i < 3000000000", Compare(COUNT, Comparator.LE, 2**31 - 1)),
        ("w >= -1", Compare(Column("w", Scalar.U64), Comparator.GE, 0)),
        ("g = 0.1", Compare(Column("g", Scalar.F32), Comparator.EQ, 0.10000000149011612)),
        ("on = true", is_on(value=True)),
        ("on != true", is_on(value=False)),
        ("on < true", is_on(value=False)),
        ("on <= true", IsPresent("on")),
        ("on > true", NEVER),
        ('code < "b"', Compare(Column("code", Scalar.STRING), Comparator.LT, "b")),
        ("i in [1, 2, 1]", OneOf(COUNT, (1, 2))),
        ("i in [1.0, 2.5]", OneOf(COUNT, (1,))),
        ("i in [3000000000]", NEVER),
        ("i in []", NEVER),
        ("i = null", NEVER),
        ("i != null", NEVER),
        ("i is null", IsNull("i")),
        ("tags is not null", IsPresent("tags")),
        ("v is null", IsNull("v")),
        ("i = 1 and (on = true and i is null)", And((COUNT_IS_ONE, is_on(value=True), ABSENT))),
        ("i is null or i = 2.5", IsNull("i")),
        ("i is null and i = 2.5", NEVER),
        ("i is null or (i = 1 or on = true)", Or((ABSENT, COUNT_IS_ONE, is_on(value=True)))),
    ],
)
def test_a_condition_requires_values_of_its_columns_types(
    where: str, bound: BoundCondition
) -> None:
    assert bind_where(where) == bound


def test_now_has_the_precision_of_a_column() -> None:
    bound = bind_where("at <= now()")

    timestamp = NOW.replace(microsecond=123_000)
    assert bound == Compare(Column("at", Scalar.DATETIME), Comparator.LE, timestamp)


def test_parameters_are_replaced_by_their_values() -> None:
    assert bind_where("i > $n", n=7) == Compare(COUNT, Comparator.GT, 7)
    assert bind_where("i in $numbers", numbers=(1.0, 2.0)) == OneOf(COUNT, (1, 2))


@pytest.mark.parametrize("comparator", ["=", "!=", "<", ">="])
def test_a_parameter_that_is_null_matches_nothing(comparator: str) -> None:
    assert bind_where(f"i {comparator} $n", n=None) == NEVER
    assert bind_where("code in $texts", texts=None) == NEVER


@pytest.mark.parametrize(("comparator", "bound"), [("=", NEVER), (">", NEVER), ("<=", NEVER)])
def test_nan_is_equal_to_nothing_and_beside_nothing(comparator: str, bound: BoundCondition) -> None:
    assert bind_where(f"g {comparator} $f", f=math.nan) == bound
    assert bind_where(f"i {comparator} $f", f=math.nan) == bound


def test_nan_is_unequal_to_every_number() -> None:
    assert bind_where("g != $f", f=math.nan) == IsPresent("g")


def test_the_ends_of_an_edge_are_columns_of_other_names() -> None:
    bound = bind_where('from = "a" and to in ["b"] and to is not null', type="Near")

    source, target = Column("src", Scalar.STRING), Column("dst", Scalar.STRING)
    ends = (Compare(source, Comparator.EQ, "a"), OneOf(target, ("b",)), IsPresent("dst"))
    assert bound == And(ends)


def test_a_node_may_have_a_property_of_that_name() -> None:
    assert bind_where('from = "a"') == Compare(Column("from", Scalar.STRING), Comparator.EQ, "a")


def test_a_comparison_may_have_its_column_on_the_right() -> None:
    numbers = PropertyValue("p", "nums", PropertyType(Scalar.I32, is_list=True))
    age = PropertyValue("p", "age", PropertyType(Scalar.I32))

    assert _bind(Comparison(Constant(3, I64), Comparator.LT, age)) == Compare(
        Column("age", Scalar.I32), Comparator.GT, 3
    )
    assert _bind(Comparison(Constant(3, I64), Comparator.IN, numbers)) == HasElement(
        Column("nums", Scalar.I32), 3
    )
    assert _bind(Comparison(numbers, Comparator.LIST_CONTAINS, Constant(2.5, None))) == NEVER


def test_whether_a_given_value_is_null_does_not_depend_on_the_row() -> None:
    given = ParameterValue("n", I64.as_nullable())

    assert _bind(NullTest(given, is_negated=False), n=None) == ALWAYS
    assert _bind(NullTest(given, is_negated=True), n=None) == NEVER
    assert _bind(NullTest(given, is_negated=True), n=1) == ALWAYS


def test_brackets_are_followed_to_a_bound() -> None:
    assert _nested(CONDITION_NESTING_MAX) != NEVER

    with pytest.raises(LimitExceededError, match="the nesting of a condition is 13"):
        _nested(CONDITION_NESTING_MAX + 1)


def _nested(depth: int) -> BoundCondition:
    leaf = NullTest(PropertyValue("", "i", I64), is_negated=False)
    condition: Condition = leaf
    for _ in range(depth):
        condition = AllOf((leaf, AnyOf((leaf, condition))))
    return _bind(condition)


def _bind(condition: Condition, **values: Value) -> BoundCondition:
    return bind(condition, kind=TypeKind.NODE, inputs=Inputs(values, NOW))


A, B, C = IsNull("a"), IsNull("b"), IsPresent("c")


def compare(scalar: Scalar, comparator: str, value: Value) -> Compare:
    return Compare(Column("x", scalar), Comparator(comparator), value)


@pytest.mark.parametrize(
    ("bound", "predicate"),
    [
        (compare(Scalar.STRING, "=", "it's"), "`x` = 'it''s'"),
        (compare(Scalar.STRING, ">=", "\\"), "`x` >= '\\'"),
        (Compare(Column("x", Scalar.BOOL), Comparator.EQ, value=True), "`x` = true"),
        (compare(Scalar.I64, "!=", -7), "`x` != -7"),
        (compare(Scalar.U64, "<", 2**64 - 1), "`x` < 18446744073709551615"),
        (
            compare(Scalar.I64, "=", -(2**63)),
            "`x` = arrow_cast('-9223372036854775808', 'Int64')",
        ),
        (compare(Scalar.F64, "=", 0.1), "`x` = 0.1"),
        (compare(Scalar.F64, "=", math.inf), "`x` = arrow_cast('inf', 'Float64')"),
        (
            compare(Scalar.F64, ">", 1.5),
            "`x` > 1.5 AND `x` <= arrow_cast('inf', 'Float64')",
        ),
        (
            compare(Scalar.F32, "<=", -0.5),
            "`x` <= -0.5 AND `x` >= arrow_cast('-inf', 'Float32')",
        ),
        (compare(Scalar.DATE, "<", date(1970, 1, 2)), "`x` < arrow_cast(1, 'Date32')"),
        (
            compare(Scalar.DATETIME, "=", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
            "`x` = arrow_cast(1000, 'Timestamp(Millisecond, Some(\"UTC\"))')",
        ),
        (OneOf(Column("x", Scalar.STRING), ("a", "'")), "`x` IN ('a', '''')"),
        (HasElement(Column("x", Scalar.I32), 3), "array_has(`x`, 3)"),
        (HasElement(Column("x", Scalar.U64), 3), "array_has(`x`, arrow_cast(3, 'UInt64'))"),
        (
            HasElement(Column("x", Scalar.F64), 0.0),
            "(array_has(`x`, 0.0) OR array_has(`x`, -0.0))",
        ),
        (HasText("x", "%", is_prefix=True), "starts_with(`x`, '%')"),
        (HasText("x", "%", is_prefix=False), "contains(`x`, '%')"),
        (WithinText("x", "'", is_prefix=True), "starts_with('''', `x`)"),
        (WithinText("x", "'", is_prefix=False), "contains('''', `x`)"),
        (A, "`a` IS NULL"),
        (C, "`c` IS NOT NULL"),
        (And((A, B)), "`a` IS NULL AND `b` IS NULL"),
        (Or((A, And((B, C)))), "`a` IS NULL OR `b` IS NULL AND `c` IS NOT NULL"),
        (And((A, Or((B, C)))), "`a` IS NULL AND (`b` IS NULL OR `c` IS NOT NULL)"),
        (NEVER, "false"),
        (ALWAYS, None),
    ],
)
def test_a_condition_is_written_for_lance(bound: BoundCondition, predicate: str | None) -> None:
    assert render_predicate(find_predicate(bound), pa.schema([])) == predicate
