"""Conditions and values of a query as Spark columns, with the meaning they have everywhere.

Promises that a condition is never null: what is unknown is no match. A comparison of a property
with a value is bound as the local executor binds it, so that both compare with the same numbers.
Columns are found by the names in `names`; who computes text matches says where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f

from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Constant,
    EntityId,
    Given,
    Now,
    NullTest,
    Operand,
    ParameterValue,
    PropertyValue,
    SameEntity,
    TextMatch,
)
from omnigraph.engine.read.comparisons import compare as compare_values
from omnigraph.engine.read.conditions import (
    BoundCondition,
    Compare,
    Every,
    HasElement,
    HasText,
    IsNull,
    IsPresent,
    OneOf,
    Some,
    bind,
)
from omnigraph.engine.read.matching import Inputs, type_of
from omnigraph.engine.read.values import column_of
from omnigraph.model.catalog import TypeKind
from omnigraph.model.types import STRING, PropertyType
from omnigraph.spark.query.comparisons import Typed, compare
from omnigraph.spark.query.literals import SUBJECT, is_one_of, literal
from omnigraph.spark.query.names import id_column, property_column


@dataclass(frozen=True, slots=True)
class Expressions:
    """Makes the columns of one read; `text_match` finds those that a search has marked."""

    inputs: Inputs
    text_match: Callable[[TextMatch], Column]

    def condition(self, condition: Condition) -> Column:
        """Which rows a condition holds for."""
        match condition:
            case AllOf(conditions):
                return _join([self.condition(each) for each in conditions], is_all=True)
            case AnyOf(conditions):
                return _join([self.condition(each) for each in conditions], is_all=False)
            case Comparison():
                return self._comparison(condition)
            case NullTest(operand, is_negated):
                return self._null_test(operand, is_negated=is_negated)
            case SameEntity(left, right):
                one, other = f.col(id_column(left)), f.col(id_column(right))
                return (one == other) & one.isNotNull() & other.isNotNull()
            case TextMatch():
                return _known(self.text_match(condition))

    def value(self, operand: Operand) -> Column:
        """An operand, row by row."""
        return self._typed(operand).column

    def _typed(self, operand: Operand) -> Typed:
        match operand:
            case PropertyValue(variable, property, type):
                return Typed(f.col(property_column(variable, property)), type)
            case EntityId(variable):
                return Typed(f.col(id_column(variable)), STRING)
            case ParameterValue() | Constant() | Now():
                type = type_of(operand)
                return Typed(literal(self.inputs.value_of(operand), type), type)

    def _null_test(self, operand: Operand, *, is_negated: bool) -> Column:
        match operand:
            case PropertyValue() | EntityId():
                column = self.value(operand)
                return column.isNotNull() if is_negated else column.isNull()
            case ParameterValue() | Constant() | Now():
                return f.lit((self.inputs.value_of(operand) is None) != is_negated)

    def _comparison(self, comparison: Comparison) -> Column:
        match comparison.left, comparison.right:
            case (PropertyValue() as left, PropertyValue() as right):
                return compare(self._typed(left), comparison.comparator, self._typed(right))
            case (PropertyValue() as side, _) | (_, PropertyValue() as side):
                bound = bind(
                    comparison,
                    kind=TypeKind.NODE,
                    values=self.inputs.values,
                    now=self.inputs.now,
                )
                return _bound(bound, property_column(side.variable, side.property))
            case (EntityId(), _) | (_, EntityId()):
                left_ids, right_ids = self._typed(comparison.left), self._typed(comparison.right)
                return compare(left_ids, comparison.comparator, right_ids)
            case _:
                return f.lit(self._compare_given(comparison))

    def _compare_given(self, comparison: Comparison) -> bool:
        """Whether a comparison in which no row has a part holds."""
        sides = []
        for side in (comparison.left, comparison.right):
            assert isinstance(side, Given), "properties and entities depend on a row"
            value = self.inputs.value_of(side)
            if value is None or value == ():
                # An empty list holds nothing, whatever the type of its elements might be.
                return False
            sides.append(column_of((value,), type_of(side), subject=SUBJECT))
        return bool(compare_values(sides[0], comparison.comparator, sides[1])[0])


def _bound(bound: BoundCondition, name: str) -> Column:
    """Where a bound condition about one column holds."""
    column = f.col(name)
    match bound:
        case Every(conditions):
            return _join([_bound(each, name) for each in conditions], is_all=True)
        case Some(conditions):
            return _join([_bound(each, name) for each in conditions], is_all=False)
        case Compare(about, comparator, value):
            type = PropertyType(about.scalar)
            return compare(Typed(column, type), comparator, Typed(literal(value, type), type))
        case OneOf(about, values):
            return is_one_of(name, values, about.scalar) & column.isNotNull()
        case HasElement(about, value):
            found = f.array_contains(column, literal(value, PropertyType(about.scalar)))
            return _known(found)
        case HasText(_, text, is_prefix):
            sought = f.lit(text)
            found = column.startswith(sought) if is_prefix else column.contains(sought)
            return found & column.isNotNull()
        case IsNull():
            return column.isNull()
        case IsPresent():
            return column.isNotNull()


def _known(marks: Column) -> Column:
    is_unknown_marked = False
    return f.coalesce(marks, f.lit(is_unknown_marked))


def _join(columns: Sequence[Column], *, is_all: bool) -> Column:
    """All conditions, or any; halved again and again, for a chain of thousands is too deep."""
    if len(columns) < 2:
        return columns[0] if columns else f.lit(is_all)
    middle = len(columns) // 2
    one, other = (_join(part, is_all=is_all) for part in (columns[:middle], columns[middle:]))
    return one & other if is_all else one | other
