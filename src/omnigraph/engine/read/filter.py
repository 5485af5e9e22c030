"""Conditions over rows: which rows of a relation a condition holds for.

A condition whose result is unknown does not match. A condition on one variable is evaluated once
for each of its entities when there are more rows than entities; other conditions row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    Now,
    NullTest,
    Operand,
    ParameterValue,
    PropertyValue,
    SameEntity,
    TextMatch,
)
from omnigraph.engine.read.cache import Sources
from omnigraph.engine.read.entities import UNBOUND, EntityIndex, Indexes, Marks, Ordinals, move
from omnigraph.engine.read.plan import variables_of
from omnigraph.engine.read.relation import Relation
from omnigraph.engine.rows.comparisons import Inputs, row_operands, type_of
from omnigraph.engine.rows.conditions import (
    ALWAYS,
    NEVER,
    BoundCondition,
    bind,
    columns_of,
    evaluate_mask,
)
from omnigraph.engine.rows.values import SUBJECT, compare, repeat_value
from omnigraph.model.catalog import TypeKind
from omnigraph.model.limits import CONDITION_NESTING_MAX
from omnigraph.model.runtime import lazy_module
from omnigraph.storage.row_files import arrow_type

if TYPE_CHECKING:
    from omnigraph.engine.read.search import text_index
    from omnigraph.engine.read.search.text_index import TextQuery
else:
    text_index = lazy_module("omnigraph.engine.read.search.text_index")


def text_query(condition: TextMatch, inputs: Inputs) -> TextQuery | None:
    """The text query of a condition; None if a null makes the result unknown."""
    words = inputs.value_of(condition.query)
    edits = None if condition.edits is None else inputs.value_of(condition.edits)
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
        case Comparison() | NullTest():
            return len(row_operands(condition)) == 1
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
        return bind(condition, kind=TypeKind.NODE, inputs=self.inputs)

    def marks(self, condition: Condition, relation: Relation, indexes: Indexes) -> Marks:
        """A mark for each row that meets a condition."""
        variables = variables_of(condition)
        if len(variables) == 1:
            (variable,) = variables
            index = indexes[variable]
            if index.size + 1 < relation.count:
                every = np.append(index.every(), UNBOUND)
                entities = Relation(len(every), {variable: every}, None)
                return self._marks(condition, entities, indexes)[relation.ordinals[variable]]
        return self._marks(condition, relation, indexes)

    def values(self, operand: Operand, relation: Relation, indexes: Indexes) -> pa.Array:
        """The value of an operand for each row."""
        match operand:
            case PropertyValue(variable, property, type):
                ordinals = relation.ordinals[variable]
                return indexes[variable].values(property, arrow_type(type), ordinals)
            case EntityId(variable):
                return indexes[variable].ids(relation.ordinals[variable])
            case ParameterValue() | Constant() | Now():
                value, type = self.inputs.value_of(operand), type_of(operand)
                return repeat_value(value, type, count=relation.count, subject=SUBJECT)

    def text_marks(self, condition: TextMatch, ordinals: Ordinals, index: EntityIndex) -> Marks:
        """A mark for each entity that meets a text condition."""
        sought = text_query(condition, self.inputs)
        table, places = index.whole, move(ordinals, source=index, target=index.whole)
        name = condition.field.property
        if sought is None or not table.has_columns([name]):
            return np.zeros(len(ordinals), np.bool_)
        found = self.sources.text_index(table, name, condition.language).holding(sought)
        if condition.is_negated:
            texts = table.values(name, pa.string(), table.every())
            found = ~found & texts.is_valid().to_numpy(zero_copy_only=False)
        return np.append(found, False)[places]

    def _marks(self, condition: Condition, relation: Relation, indexes: Indexes) -> Marks:
        match condition:
            case AllOf(conditions):
                marked = (self._marks(each, relation, indexes) for each in conditions)
                return reduce(np.logical_and, marked, np.ones(relation.count, np.bool_))
            case AnyOf(conditions):
                marked = (self._marks(each, relation, indexes) for each in conditions)
                return reduce(np.logical_or, marked, np.zeros(relation.count, np.bool_))
            case Comparison() | NullTest():
                return self._mark_columns(condition, relation, indexes)
            case SameEntity(left_name, right_name):
                lefts, rights = relation.ordinals[left_name], relation.ordinals[right_name]
                moved = move(rights, source=indexes[right_name], target=indexes[left_name])
                same: Marks = (lefts == moved) & (lefts != UNBOUND)
                return same
            case TextMatch(field=field):
                ordinals = relation.ordinals[field.variable]
                return self.text_marks(condition, ordinals, indexes[field.variable])

    def _mark_columns(
        self,
        condition: Comparison | NullTest,
        relation: Relation,
        indexes: Indexes,
    ) -> Marks:
        columns = [self.values(each, relation, indexes) for each in row_operands(condition)]
        if isinstance(condition, Comparison) and len(columns) == 2:
            return compare(columns[0], condition.comparator, columns[1])
        # One implementation of exact comparison with constants serves both predicates and masks.
        bound = self.bind(condition)
        if bound in (ALWAYS, NEVER):
            return np.full(relation.count, bound == ALWAYS)
        rows = pa.table(columns, list(dict.fromkeys(columns_of(bound))))
        marks: Marks = evaluate_mask(bound, rows).to_numpy(zero_copy_only=False)
        return marks
