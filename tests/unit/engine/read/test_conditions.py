"""Binding: what a mutation's condition asks of the columns once its values are known."""

import math
from datetime import UTC, datetime

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
from omnigraph.engine.read.conditions import (
    ALWAYS,
    NEVER,
    BoundCondition,
    Column,
    Compare,
    Every,
    HasElement,
    IsNull,
    IsPresent,
    OneOf,
    Some,
    bind,
)
from omnigraph.errors import LimitExceededError
from omnigraph.model.catalog import TypeKind
from omnigraph.model.limits import CONDITION_NESTING_MAX
from omnigraph.model.source import Source
from omnigraph.model.types import I64, PropertyType, Scalar

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
    return bind(operation.condition, kind=kind, values=values, now=NOW)


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
        ("i = 1 and (on = true and i is null)", Every((COUNT_IS_ONE, is_on(value=True), ABSENT))),
        ("i is null or i = 2.5", IsNull("i")),
        ("i is null and i = 2.5", NEVER),
        ("i is null or (i = 1 or on = true)", Some((ABSENT, COUNT_IS_ONE, is_on(value=True)))),
    ],
)
def test_a_condition_asks_for_values_of_its_columns_types(
    where: str, bound: BoundCondition
) -> None:
    assert bind_where(where) == bound


def test_now_has_the_precision_of_a_column() -> None:
    bound = bind_where("at <= now()")

    moment = NOW.replace(microsecond=123_000)
    assert bound == Compare(Column("at", Scalar.DATETIME), Comparator.LE, moment)


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
    assert bound == Every(ends)


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
    return bind(condition, kind=TypeKind.NODE, values=values, now=NOW)
