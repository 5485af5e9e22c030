"""Conditions over rows: which rows of a relation a condition holds for.

What is unknown is no match. A condition about one variable is evaluated once for each of its
entities when there are more rows than entities; a comparison of two properties row by row.
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
from omnigraph.engine.read.comparisons import compare
from omnigraph.engine.read.conditions import BoundCondition, bind
from omnigraph.engine.read.masks import mask
from omnigraph.engine.read.memory import Sources
from omnigraph.engine.read.mentions import variables_of
from omnigraph.engine.read.relation import Relation
from omnigraph.engine.read.spaces import UNBOUND, Codes, Marks, Space, move
from omnigraph.engine.read.values import repeat_value
from omnigraph.model.catalog import TypeKind
from omnigraph.model.deferred import defer
from omnigraph.model.limits import CONDITION_NESTING_MAX
from omnigraph.model.types import DATETIME, STRING, PropertyType
from omnigraph.storage.arrow_schema import arrow_type

if TYPE_CHECKING:
    from omnigraph.engine.read.search import text_index
    from omnigraph.engine.read.search.text_index import SoughtText
else:
    text_index = defer("omnigraph.engine.read.search.text_index")

_EDITS = 2
"""How many edits `fuzzy` allows when the query does not say."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What does not depend on a row: the parameters' values and the instant of the query."""

    values: Mapping[str, Value]
    now: datetime

    def value_of(self, given: Given) -> Value:
        """The value of a parameter, a literal or `now()`."""
        match given:
            case ParameterValue(name):
                return self.values[name]
            case Constant(value):
                return value
            case Now():
                return self.now.replace(microsecond=self.now.microsecond // 1000 * 1000)

    def sought(self, condition: TextMatch) -> SoughtText | None:
        """The words that a text is searched for; None where a null makes the answer unknown."""
        words = self.value_of(condition.query)
        edits: Value = _EDITS if condition.function is TextFunction.FUZZY else None
        if condition.edits is not None:
            edits = self.value_of(condition.edits)
        if words is None or (condition.edits is not None and edits is None):
            return None
        assert isinstance(words, str)
        assert edits is None or isinstance(edits, int)
        return text_index.SoughtText(words, edits)


def can_push_down(condition: Condition) -> bool:
    """Whether a condition about one variable can be asked of Lance: properties against values."""
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
class Matcher:
    """Evaluates conditions of one read."""

    sources: Sources
    inputs: Inputs

    def bind(self, condition: Condition) -> BoundCondition:
        """A condition about the columns of one variable with its values filled in."""
        return bind(condition, kind=TypeKind.NODE, values=self.inputs.values, now=self.inputs.now)

    def marks(self, condition: Condition, relation: Relation, spaces: Mapping[str, Space]) -> Marks:
        """Which rows a condition holds for."""
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
        """An operand, row by row."""
        match operand:
            case PropertyValue(variable, property, type):
                codes = relation.codes[variable]
                return spaces[variable].values(property, arrow_type(type), codes)
            case EntityId(variable):
                return spaces[variable].ids(relation.codes[variable])
            case ParameterValue() | Constant() | Now():
                return self._repeat(operand, relation.count)

    def text_marks(self, condition: TextMatch, codes: Codes, space: Space) -> Marks:
        """Which of some entities hold a searched text."""
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
                if isinstance(left, PropertyValue) != isinstance(right, PropertyValue):
                    return self._compare_with_value(condition, relation, spaces)
                return compare(
                    self.values(left, relation, spaces),
                    comparator,
                    self.values(right, relation, spaces),
                )
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
        # Exact comparisons with constants are worked out once, for predicates and masks alike.
        bound = self.bind(condition)
        side = condition.left if isinstance(condition.left, PropertyValue) else condition.right
        assert isinstance(side, PropertyValue)
        rows = pa.table({side.property: self.values(side, relation, spaces)})
        marks: Marks = mask(bound, rows).to_numpy(zero_copy_only=False)
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
            # The type of `null` is unknown, and any will do.
            return STRING if type is None else type
        case Now():
            return DATETIME
