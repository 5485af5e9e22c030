"""Conditions on the rows of one type: compiled, bound to values, and evaluated.

Binding converts every value to the type of its column, and comparisons are exact. A comparison
with null matches nothing, and NaN is unequal to every value. The Arrow mask and the storage
predicate of one condition select the same rows. Columns that a table lacks count as null.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler import ir
from omnigraph.compiler.compile import compile_mutation
from omnigraph.engine.rows.comparisons import (
    MIRRORED,
    RULE_BY_COMPARATOR,
    InList,
    InOrder,
    Inputs,
    InText,
    Order,
    compare_values,
)
from omnigraph.engine.rows.values import (
    ARROW_FUNCTION_BY_COMPARATOR,
    Marks,
    column_of,
    known_marks,
    to_stored,
)
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import InvalidValueError, LimitExceededError
from omnigraph.model.limits import CONDITION_NESTING_MAX
from omnigraph.model.names import END_BY_ROLE
from omnigraph.model.source import Source
from omnigraph.model.types import INTEGER_RANGE, NUMBERS, PropertyType, Scalar, fits_f32
from omnigraph.storage import predicates
from omnigraph.storage.predicates import (
    HasText,
    IsNull,
    IsPresent,
    Predicate,
    StoredScalar,
    WithinText,
)
from omnigraph.storage.row_files import arrow_type

F32_MAX = float(np.finfo(np.float32).max)
F64_MAX = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Bounds:
    """The values of a type that are nearest to a constant.

    `below` is the greatest value that is not greater than the constant, `above` the least value
    that is not smaller; None if the type has none. They are equal if the type has the constant
    itself.
    """

    below: int | float | None
    above: int | float | None


def find_bounds(constant: int | float, scalar: Scalar) -> Bounds:
    """The values of a numeric type around a constant, which must not be NaN."""
    match scalar:
        case Scalar.F32:
            return _around_f32(constant)
        case Scalar.F64:
            return _around_f64(constant)
        case _:
            low, high = INTEGER_RANGE[scalar]
            # Python compares an integer with a float exactly, the infinities included.
            if constant < low:
                return Bounds(None, low)
            if constant > high:
                return Bounds(high, None)
            return Bounds(math.floor(constant), math.ceil(constant))


def _around_f64(constant: int | float) -> Bounds:
    if isinstance(constant, float):
        return Bounds(constant, constant)
    try:
        nearest = float(constant)
    except OverflowError:
        return _beyond(constant, F64_MAX)
    if nearest == constant:
        return Bounds(nearest, nearest)
    if nearest < constant:
        return Bounds(nearest, math.nextafter(nearest, math.inf))
    return Bounds(math.nextafter(nearest, -math.inf), nearest)


def _around_f32(constant: int | float) -> Bounds:
    if isinstance(constant, float):
        if math.isfinite(constant) and not fits_f32(constant):
            return _beyond(constant, F32_MAX)
        # A stored 0.1 equals the constant 0.1, although no F32 has exactly that value.
        rounded = _round_to_f32(constant)
        return Bounds(rounded, rounded)
    if abs(constant) > F32_MAX:
        return _beyond(constant, F32_MAX)
    nearest = _round_to_f32(constant)
    if nearest == constant:
        return Bounds(nearest, nearest)
    if nearest < constant:
        return Bounds(nearest, _next_f32(nearest, towards=math.inf))
    return Bounds(_next_f32(nearest, towards=-math.inf), nearest)


def _beyond(constant: int | float, largest: float) -> Bounds:
    """The bounds of a finite constant beyond a float type: its largest value and infinity."""
    return Bounds(largest, math.inf) if constant > 0 else Bounds(-math.inf, -largest)


def _round_to_f32(number: int | float) -> float:
    (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    assert isinstance(rounded, float)
    return rounded


def _next_f32(number: float, *, towards: float) -> float:
    return float(np.nextafter(np.float32(number), np.float32(towards)))


@dataclass(frozen=True, slots=True)
class Column:
    """A column and the type of its values; for a list, of its elements."""

    name: str
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a scalar column with one value: `=`, `!=`, `<`, `<=`, `>` or `>=`."""

    column: Column
    comparator: ir.Comparator
    value: ir.Value


@dataclass(frozen=True, slots=True)
class OneOf:
    """A scalar column that holds one of some values; there is at least one."""

    column: Column
    values: tuple[ir.Value, ...]


@dataclass(frozen=True, slots=True)
class HasElement:
    """A list column that holds a value."""

    column: Column
    value: ir.Value


@dataclass(frozen=True, slots=True)
class And:
    """All conditions hold; with no conditions, always."""

    conditions: tuple[BoundCondition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one condition holds; with no conditions, never."""

    conditions: tuple[BoundCondition, ...]


BoundCondition = Compare | OneOf | HasElement | HasText | WithinText | IsNull | IsPresent | And | Or

ALWAYS = And(())
NEVER = Or(())
"""The result of `bind` for a condition that no row can satisfy: nothing needs to be read."""


# Binding


def bind(condition: ir.Condition, *, kind: TypeKind, inputs: Inputs) -> BoundCondition:
    """The condition with its parameters and `now()` replaced by values of the columns' types.

    No comparison may have columns of the row on both sides. `kind` is the kind of the row's type:
    only for edges, `from` and `to` are other names for columns. Raises `LimitExceededError` if the
    condition is nested too deeply.
    """
    bound = _Binder(kind, inputs).bind(condition)
    nesting = _nesting_of(bound)
    if nesting > CONDITION_NESTING_MAX:
        raise LimitExceededError(
            resource="the nesting of a condition", limit=CONDITION_NESTING_MAX, found=nesting
        )
    return bound


@dataclass(frozen=True, slots=True)
class _Binder:
    kind: TypeKind
    inputs: Inputs

    def bind(self, condition: ir.Condition) -> BoundCondition:
        match condition:
            case ir.AllOf(conditions):
                return join_conditions(And, map(self.bind, conditions))
            case ir.AnyOf(conditions):
                return join_conditions(Or, map(self.bind, conditions))
            case ir.NullTest(ir.PropertyValue(property=name), is_negated):
                column = self._column_name(name)
                return IsPresent(column) if is_negated else IsNull(column)
            case ir.NullTest(ir.EntityId(), is_negated):
                return IsPresent("id") if is_negated else IsNull("id")
            case ir.NullTest(ir.ParameterValue() | ir.Constant() | ir.Now() as given, is_negated):
                return ALWAYS if (self.inputs.value_of(given) is None) != is_negated else NEVER
            case ir.NullTest():
                raise AssertionError(f"{condition} has an unknown operand")
            case ir.Comparison():
                return self._bind_comparison(condition)
            case ir.SameEntity() | ir.TextMatch():
                raise AssertionError(f"{condition} is not about the columns of one row")

    def _bind_comparison(self, comparison: ir.Comparison) -> BoundCondition:
        left, comparator, right = comparison.left, comparison.comparator, comparison.right
        if isinstance(left, ir.PropertyValue):
            assert not isinstance(right, ir.PropertyValue), "both sides of a comparison are columns"
            return _bind_comparison(self._column(left), comparator, self.inputs.value_of(right))
        value = self.inputs.value_of(left)
        if isinstance(right, ir.PropertyValue):
            column, rule = self._column(right), RULE_BY_COMPARATOR[comparator]
            if not isinstance(rule, InText):
                return _bind_comparison(column, MIRRORED[comparator], value)
            assert value is None or isinstance(value, str)
            return NEVER if value is None else WithinText(column.name, value, rule.is_prefix)
        holds = compare_values(value, comparator, self.inputs.value_of(right))
        return ALWAYS if holds else NEVER

    def _column(self, operand: ir.PropertyValue) -> Column:
        element = operand.type.element
        assert isinstance(element, Scalar), "vectors are not compared"
        return Column(self._column_name(operand.property), element)

    def _column_name(self, property: str) -> str:
        return END_BY_ROLE.get(property, property) if self.kind is TypeKind.EDGE else property


def join_conditions(
    kind: type[And] | type[Or], conditions: Iterable[BoundCondition]
) -> BoundCondition:
    """Conditions joined by `and` or by `or`, simplified; nested ones of that kind are merged."""
    parts: list[BoundCondition] = []
    for each in conditions:
        parts += each.conditions if isinstance(each, kind) else (each,)
    decisive = NEVER if kind is And else ALWAYS
    if decisive in parts:
        return decisive
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def _bind_comparison(column: Column, comparator: ir.Comparator, value: ir.Value) -> BoundCondition:
    if value is None:
        return NEVER
    match RULE_BY_COMPARATOR[comparator]:
        case InText(is_prefix):
            assert isinstance(value, str)
            return HasText(column.name, value, is_prefix)
        case InList(is_list_left=True):
            element = _bind_comparison(column, ir.Comparator.EQ, value)
            return HasElement(column, element.value) if isinstance(element, Compare) else NEVER
        case InList():
            assert isinstance(value, tuple)
            found = (_bind_comparison(column, ir.Comparator.EQ, each) for each in value)
            values = dict.fromkeys(each.value for each in found if isinstance(each, Compare))
            return OneOf(column, tuple(values)) if values else NEVER
        case InOrder(orders) if column.scalar in NUMBERS:
            assert isinstance(value, int | float)
            return _compare_number(column, comparator, orders, value)
        case InOrder() if column.scalar is Scalar.BOOL:
            matching = [each for each in (False, True) if compare_values(each, comparator, value)]
            if len(matching) == 1:
                return Compare(column, ir.Comparator.EQ, matching[0])
            return IsPresent(column.name) if matching else NEVER
        case InOrder():
            return Compare(column, comparator, value)


def _compare_number(
    column: Column, comparator: ir.Comparator, orders: frozenset[Order], constant: int | float
) -> BoundCondition:
    if isinstance(constant, float) and math.isnan(constant):
        return IsPresent(column.name) if Order.UNORDERED in orders else NEVER
    bounds = find_bounds(constant, column.scalar)
    if bounds.below == bounds.above:
        return Compare(column, comparator, bounds.below)
    # No value of the column equals the constant, so `<` and `<=` are equivalent.
    match Order.LESS in orders, Order.GREATER in orders:
        case True, True:
            return IsPresent(column.name)
        case True, False if bounds.below is not None:
            return Compare(column, ir.Comparator.LE, bounds.below)
        case False, True if bounds.above is not None:
            return Compare(column, ir.Comparator.GE, bounds.above)
        case _:
            return NEVER


def _nesting_of(bound: BoundCondition) -> int:
    """How many times `or` is nested in `and`, which is where a predicate needs parentheses."""
    match bound:
        case And(conditions):
            levels = (_nesting_of(each) + isinstance(each, Or) for each in conditions)
            return max(levels, default=0)
        case Or(conditions):
            return max(map(_nesting_of, conditions), default=0)
        case Compare() | OneOf() | HasElement() | HasText() | WithinText():
            return 0
        case IsNull() | IsPresent():
            return 0


def compile_row_condition(
    text: str, declared: NodeType | EdgeType, *, catalog: Catalog, parameters: str
) -> ir.Condition:
    """Compile a text to a condition on the rows of a type.

    `parameters` declares the parameters that the text may use, as in a query. Raises `CompileError`
    if the text is invalid, and `InvalidValueError` if it is more than one condition.
    """
    written = f"query rows({parameters}) {{ delete {declared.name} where\n{text}\n}}"
    compiled = compile_mutation(Source("<where>", written), _alone(declared, catalog), name=None)
    assert isinstance(compiled.ir, ir.MutationIR), "a read would not have been compiled"
    match compiled.ir.operations:
        case (ir.Delete(condition=condition),):
            return condition
        case _:
            raise InvalidValueError(
                subject="where",
                expected="a condition",
                value=text,
                problem="it is one condition and nothing else",
            )


def fold_missing_columns(condition: BoundCondition, *, stored: Collection[str]) -> BoundCondition:
    """The condition for rows that have only the stored columns; the others count as null."""
    match condition:
        case And(parts) | Or(parts):
            folded = (fold_missing_columns(each, stored=stored) for each in parts)
            return join_conditions(type(condition), folded)
        case IsNull(name):
            return condition if name in stored else ALWAYS
        case IsPresent(name) | HasText(name) | WithinText(name):
            return condition if name in stored else NEVER
        case Compare(column) | OneOf(column) | HasElement(column):
            return condition if column.name in stored else NEVER


def columns_of(condition: BoundCondition) -> Iterator[str]:
    """The columns that a condition references, some more than once."""
    match condition:
        case And(parts) | Or(parts):
            for each in parts:
                yield from columns_of(each)
        case IsNull(name) | IsPresent(name) | HasText(name) | WithinText(name):
            yield name
        case Compare(column) | OneOf(column) | HasElement(column):
            yield column.name


def _alone(declared: NodeType | EdgeType, catalog: Catalog) -> Catalog:
    """A catalog of one type, so that its name is unambiguous."""
    match declared:
        case NodeType():
            return replace(catalog, nodes={declared.name: declared}, edges={})
        case EdgeType():
            return replace(catalog, nodes={}, edges={declared.name: declared})


def evaluate_mask(bound: BoundCondition, rows: pa.Table) -> pa.BooleanArray:
    """Mark the rows that satisfy a condition."""
    return pa.array(_mark(bound, rows))


def _mark(bound: BoundCondition, rows: pa.Table) -> Marks:
    match bound:
        case And(conditions):
            marked = [_mark(each, rows) for each in conditions]
            return reduce(np.logical_and, marked, np.ones(len(rows), np.bool_))
        case Or(conditions):
            marked = [_mark(each, rows) for each in conditions]
            return reduce(np.logical_or, marked, np.zeros(len(rows), np.bool_))
        case Compare(column, comparator, value):
            (scalar,) = _values_of(column, (value,))
            return known_marks(ARROW_FUNCTION_BY_COMPARATOR[comparator](rows[column.name], scalar))
        case OneOf(column, values):
            # `is_in` distinguishes the two zeros; `=` does not.
            zeros = tuple(-each for each in values if isinstance(each, float) and each == 0)
            sought = _values_of(column, values + zeros)
            return known_marks(pc.is_in(rows[column.name], value_set=sought))
        case HasElement(column, value):
            (scalar,) = _values_of(column, (value,))
            marked = [_mark_lists(each, scalar) for each in rows[column.name].chunks]
            return np.concatenate([np.zeros(0, np.bool_), *marked])
        case HasText(name, text, is_prefix):
            search = pc.starts_with if is_prefix else pc.match_substring
            return known_marks(search(rows[name], pattern=text))
        case WithinText(name, text, is_prefix):
            holds = text.startswith if is_prefix else text.__contains__
            # Arrow takes one pattern for a whole column, but here each row has a different one.
            found = (each is not None and holds(each) for each in rows[name].to_pylist())
            return np.fromiter(found, np.bool_, len(rows))
        case IsNull(name):
            return known_marks(pc.is_null(rows[name]))
        case IsPresent(name):
            return known_marks(pc.is_valid(rows[name]))


def _mark_lists(lists: pa.ListArray, element: pa.Scalar) -> Marks:
    hits = known_marks(pc.equal(lists.flatten(), element))
    marks = np.zeros(len(lists), np.bool_)
    marks[pc.list_parent_indices(lists).to_numpy()[hits]] = True
    return marks


def _values_of(column: Column, values: tuple[ir.Value, ...]) -> pa.Array:
    return column_of(values, PropertyType(column.scalar), subject=column.name)


def find_predicate(bound: BoundCondition) -> Predicate | None:
    """The storage predicate of a condition, or None if the condition holds for every row."""
    return None if bound == ALWAYS else to_predicate(bound)


def to_predicate(bound: BoundCondition) -> Predicate:
    """The storage predicate of a condition."""
    match bound:
        case Compare(column, comparator, value):
            operator = predicates.Operator(comparator)
            return predicates.Compare(column.name, operator, *_stored(column, value))
        case OneOf(column, values):
            return predicates.OneOf(column.name, _values_of(column, values))
        case HasElement(column, value):
            return predicates.HasElement(column.name, *_stored(column, value))
        case HasText() | WithinText() | IsNull() | IsPresent():
            return bound
        case And(conditions):
            return predicates.And(tuple(map(to_predicate, conditions)))
        case Or(conditions):
            return predicates.Or(tuple(map(to_predicate, conditions)))


def _stored(column: Column, value: ir.Value) -> tuple[StoredScalar, pa.DataType]:
    stored = to_stored(value)
    assert isinstance(stored, StoredScalar), "a column is compared with scalars"
    return stored, arrow_type(PropertyType(column.scalar))
