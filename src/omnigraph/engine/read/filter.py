"""Conditions over rows: which rows of a relation a condition holds for.

A condition whose result is unknown does not match. A condition on one variable is evaluated once
for each of its entities when there are more rows than entities; other conditions row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

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
    TextFunction,
    TextMatch,
    Value,
)
from omnigraph.engine.read.cache import Sources
from omnigraph.engine.read.entities import UNBOUND, Marks, Ordinals, Space, move
from omnigraph.engine.read.plan import variables_of
from omnigraph.engine.read.relation import Relation
from omnigraph.engine.rows.conditions import BoundCondition, bind, compare_values, evaluate_mask
from omnigraph.engine.rows.values import compare, repeat_value
from omnigraph.model.catalog import TypeKind
from omnigraph.model.limits import CONDITION_NESTING_MAX
from omnigraph.model.runtime import lazy_module
from omnigraph.model.types import DATETIME, STRING, PropertyType
from omnigraph.storage.row_files import arrow_type

if TYPE_CHECKING:
    from omnigraph.engine.read.search import text_index
    from omnigraph.engine.read.search.text_index import TextQuery
else:
    text_index = lazy_module("omnigraph.engine.read.search.text_index")

_EDITS = 2
"""The default edit distance of `fuzzy`."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs that do not depend on a row: parameter values and the time of the query."""

    values: Mapping[str, Value]
    now: datetime

    def value_of(self, given: Given) -> Value:
        """The value of a parameter, a literal or `now()`, which is truncated to milliseconds."""
        match given:
            case ParameterValue(name):
                return self.values[name]
            case Constant(value):
                return value
            case Now():
                return self.now.replace(microsecond=self.now.microsecond // 1000 * 1000)

    def holds(self, comparison: Comparison) -> bool:
        """Whether a comparison of two given values holds; the result is the same for every row."""
        left, right = comparison.left, comparison.right
        assert isinstance(left, Given), "properties and entities depend on a row"
        assert isinstance(right, Given), "properties and entities depend on a row"
        return compare_values(self.value_of(left), comparison.comparator, self.value_of(right))

    def sought(self, condition: TextMatch) -> TextQuery | None:
        """The text query of a condition; None if a null makes the result unknown."""
        words = self.value_of(condition.query)
        edits: Value = _EDITS if condition.function is TextFunction.FUZZY else None
        if condition.edits is not None:
            edits = self.value_of(condition.edits)
        if words is None or (condition.edits is not None and edits is None):
            return None
        assert isinstance(words, str)
        assert edits is None or isinstance(edits, int)
        return text_index.TextQuery(words, edits)


def can_push_down(condition: Condition) -> bool:
    """Whether Lance can evaluate a condition on one variable: properties compared with values."""
    return _is_about_columns(condition) and _nesting_of(condition) <= CONDITION_NESTING_MAX


def _is_about_columns(condition: Condition) -> bool:
    match condition:
        case Comparison(left, _, right):
            return isinstance(left, PropertyValue) != isinstance(right, PropertyValue)
        case NullTest(operand):
            return isinstance(operand, PropertyValue | EntityId)
        case AllOf(conditions) | AnyOf(conditions):
            return all(_is_about_columns(each) for each in conditions)
        case SameEntity() | TextMatch():
            return False


def _nesting_of(condition: Condition) -> int:
    if isinstance(condition, AllOf | AnyOf):
        return 1 + max(map(_nesting_of, condition.conditions), default=0)
    return 0


@dataclass(frozen=True, slots=True)
class Filter:
    """Evaluates the conditions of one read."""

    sources: Sources
    inputs: Inputs

    def bind(self, condition: Condition) -> BoundCondition:
        """A condition on the columns of one variable, with parameters replaced by values."""
        return bind(condition, kind=TypeKind.NODE, values=self.inputs.values, now=self.inputs.now)

    def marks(self, condition: Condition, relation: Relation, spaces: Mapping[str, Space]) -> Marks:
        """A mark for each row that meets a condition."""
        variables = variables_of(condition)
        if len(variables) == 1:
            (variable,) = variables
            space = spaces[variable]
            if space.size + 1 < relation.count:
                every = np.append(space.every(), UNBOUND)
                entities = Relation(len(every), {variable: every}, None)
                return self._marks(condition, entities, spaces)[relation.codes[variable]]
        return self._marks(condition, relation, spaces)

    def values(self, operand: Operand, relation: Relation, spaces: Mapping[str, Space]) -> pa.Array:
        """The value of an operand for each row."""
        match operand:
            case PropertyValue(variable, property, type):
                codes = relation.codes[variable]
                return spaces[variable].values(property, arrow_type(type), codes)
            case EntityId(variable):
                return spaces[variable].ids(relation.codes[variable])
            case ParameterValue() | Constant() | Now():
                return self._repeat(operand, relation.count)

    def text_marks(self, condition: TextMatch, codes: Ordinals, space: Space) -> Marks:
        """A mark for each entity that meets a text condition."""
        sought = self.inputs.sought(condition)
        table, places = space.whole, move(codes, source=space, target=space.whole)
        name = condition.field.property
        if sought is None or not table.has_columns([name]):
            return np.zeros(len(codes), np.bool_)
        found = self.sources.text_index(table, name).holding(sought)
        if condition.is_negated:
            found = ~found & table.column(name).is_valid().to_numpy(zero_copy_only=False)
        return np.append(found, False)[places]

    def _marks(
        self, condition: Condition, relation: Relation, spaces: Mapping[str, Space]
    ) -> Marks:
        match condition:
            case AllOf(conditions):
                marked = (self._marks(each, relation, spaces) for each in conditions)
                return reduce(np.logical_and, marked, np.ones(relation.count, np.bool_))
            case AnyOf(conditions):
                marked = (self._marks(each, relation, spaces) for each in conditions)
                return reduce(np.logical_or, marked, np.zeros(relation.count, np.bool_))
            case Comparison(left, comparator, right):
                if isinstance(left, Given) and isinstance(right, Given):
                    return np.full(relation.count, self.inputs.holds(condition))
                if isinstance(left, Given) or isinstance(right, Given):
                    return self._compare_with_value(condition, relation, spaces)
                return compare(
                    self.values(left, relation, spaces),
                    comparator,
                    self.values(right, relation, spaces),
                )
            case NullTest(ParameterValue() | Constant() | Now() as given, is_negated):
                is_null = self.inputs.value_of(given) is None
                return np.full(relation.count, is_null != is_negated)
            case NullTest(operand, is_negated):
                values = self.values(operand, relation, spaces)
                known = values.is_valid() if is_negated else values.is_null()
                marks: Marks = known.to_numpy(zero_copy_only=False)
                return marks
            case SameEntity(left_name, right_name):
                lefts, rights = relation.codes[left_name], relation.codes[right_name]
                moved = move(rights, source=spaces[right_name], target=spaces[left_name])
                same: Marks = (lefts == moved) & (lefts != UNBOUND)
                return same
            case TextMatch(field=field):
                codes = relation.codes[field.variable]
                return self.text_marks(condition, codes, spaces[field.variable])

    def _compare_with_value(
        self, condition: Comparison, relation: Relation, spaces: Mapping[str, Space]
    ) -> Marks:
        # One implementation of exact comparison with constants serves both predicates and masks.
        bound = self.bind(condition)
        side = condition.left if isinstance(condition.left, PropertyValue) else condition.right
        assert isinstance(side, PropertyValue)
        rows = pa.table({side.property: self.values(side, relation, spaces)})
        marks: Marks = evaluate_mask(bound, rows).to_numpy(zero_copy_only=False)
        return marks

    def _repeat(self, given: Given, count: int) -> pa.Array:
        value = self.inputs.value_of(given)
        return repeat_value(value, type_of(given), count=count, subject="a value of the query")


def type_of(given: Given) -> PropertyType:
    """The type of a value that does not depend on a row."""
    match given:
        case ParameterValue(type=type):
            return type
        case Constant(type=type):
            # The type of `null` is unknown, and any type works.
            return STRING if type is None else type
        case Now():
            return DATETIME
