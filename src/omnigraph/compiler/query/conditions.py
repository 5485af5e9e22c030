"""Conditions: comparisons, null tests and searches, typed and joined.

Shared by reads and mutations; only what may stand on the left differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Comparator,
    Comparison,
    Condition,
    Constant,
    EntityId,
    NullTest,
    Operand,
    PropertyValue,
    TextMatch,
)
from omnigraph.compiler.query import syntax
from omnigraph.compiler.query.operands import (
    advise_declaration,
    describe_operand,
    resolve_operand,
    type_of,
)
from omnigraph.compiler.query.scope import Scope
from omnigraph.compiler.query.search import RANKINGS, TEXT_FUNCTIONS, check_text_match
from omnigraph.compiler.query.syntax import BooleanOperator, Call, Expression, Junction, Literal
from omnigraph.model.source import Span
from omnigraph.model.types import PropertyType, are_comparable

Resolve = Callable[[Expression, Scope], Operand | None]


@dataclass(frozen=True, slots=True)
class Sides:
    """How the two sides of a comparison are read: not alike in a mutation."""

    left: Resolve
    right: Resolve


PATTERN_SIDES = Sides(resolve_operand, resolve_operand)


def check_condition(written: syntax.Condition, scope: Scope, sides: Sides) -> Condition | None:
    """The typed condition, or `None` after reporting what is wrong with it."""
    match written:
        case Junction(operator=operator, conditions=conditions):
            checked = [check_condition(each, scope, sides) for each in conditions]
            found = tuple(each for each in checked if each is not None)
            if len(found) < len(checked):
                return None
            return AllOf(found) if operator is BooleanOperator.AND else AnyOf(found)
        case syntax.NullTest(operand=operand, is_negated=is_negated):
            tested = _check_null_operand(operand, scope, sides)
            return None if tested is None else NullTest(tested, is_negated)
        case Call():
            return _check_call(written, scope)
        case syntax.Comparison():
            return _check_comparison(written, scope, sides)


def _check_call(call: Call, scope: Scope) -> Condition | None:
    if call.function.text in TEXT_FUNCTIONS:
        return check_text_match(call, scope, is_negated=False)
    if call.function.text in RANKINGS:
        problem = f"{call.function.text}() ranks rows; it is no condition"
        scope.diagnostics.error("T7", problem, call.span, "write it in `order { … }`")
    else:
        resolved = resolve_operand(call, scope)
        if resolved is not None:
            problem = f"{call.function.text}() alone is no condition"
            scope.diagnostics.error("T7", problem, call.span, "compare it with something")
    return None


def _check_null_operand(written: Expression, scope: Scope, sides: Sides) -> Operand | None:
    operand = sides.left(written, scope)
    type = None if operand is None else type_of(operand)
    if operand is not None and type is not None and type.is_blob:
        problem = f"{describe_operand(operand)} is a Blob, which has no place in a condition"
        scope.diagnostics.error("T7", problem, written.span)
        return None
    return operand


def _check_comparison(written: syntax.Comparison, scope: Scope, sides: Sides) -> Condition | None:
    if isinstance(written.left, Call) and written.left.function.text in TEXT_FUNCTIONS:
        return _check_text_truth(written.left, written, scope)
    left, right = sides.left(written.left, scope), sides.right(written.right, scope)
    if left is None or right is None:
        return None
    span = Span(written.left.span.start, written.right.span.end)
    if _is_null(left) or _is_null(right):
        advice = _advise_null_test(written.operator.text)
        scope.diagnostics.warn("W1", "a comparison with null never matches", span, advice)
    comparator = _choose_comparator(written.operator.text, left, right)
    if comparator is None:
        problem, remedy = _explain_mismatch(written.operator.text, left, right)
        scope.diagnostics.error("T7", problem, span, remedy)
        return None
    return Comparison(left, comparator, right)


def _check_text_truth(call: Call, written: syntax.Comparison, scope: Scope) -> TextMatch | None:
    """`search(…) = false` and its like."""
    operator, right = written.operator.text, written.right
    if (
        operator not in {"=", "!="}
        or not isinstance(right, Literal)
        or not isinstance(right.value, bool)
    ):
        problem = f"{call.function.text}() can only be compared with true or false"
        scope.diagnostics.error("T7", problem, written.span, "write the search alone")
        return None
    return check_text_match(call, scope, is_negated=(operator == "=") != right.value)


def _choose_comparator(operator: str, left: Operand, right: Operand) -> Comparator | None:
    """The comparator for two operands, or `None` when their types do not allow it."""
    if isinstance(left, EntityId) or isinstance(right, EntityId):
        return None
    left_type, right_type = type_of(left), type_of(right)
    # An empty list has no element that could have the wrong type.
    if operator == "in" and _is_empty_list(right):
        return Comparator.IN if _may_meet(left_type, None) else None
    if operator == "contains" and _is_empty_list(left):
        return Comparator.LIST_CONTAINS if _may_meet(right_type, None) else None
    match operator:
        case "contains":
            return _choose_contains(left_type, right_type)
        case "starts_with":
            fits = _is_text(left_type) and _is_text(right_type)
            return Comparator.STARTS_WITH if fits else None
        case "in":
            fits = right_type is None or (
                right_type.is_list and _may_meet(left_type, right_type.list_element)
            )
            return Comparator.IN if fits else None
        case _:
            return Comparator(operator) if _may_meet(left_type, right_type) else None


def _choose_contains(left: PropertyType | None, right: PropertyType | None) -> Comparator | None:
    if left is not None and left.is_list:
        return Comparator.LIST_CONTAINS if _may_meet(left.list_element, right) else None
    return Comparator.STRING_CONTAINS if _is_text(left) and _is_text(right) else None


def _may_meet(one: PropertyType | None, other: PropertyType | None) -> bool:
    """Whether two operands may be compared; null may meet any scalar."""
    if one is None or other is None:
        known = one or other
        return known is None or known.is_scalar
    return are_comparable(one, other)


def _is_text(type: PropertyType | None) -> bool:
    return type is None or type.is_string


def _is_null(operand: Operand) -> bool:
    return isinstance(operand, Constant) and operand.value is None


def _is_empty_list(operand: Operand) -> bool:
    return isinstance(operand, Constant) and operand.value == ()


def _explain_mismatch(operator: str, left: Operand, right: Operand) -> tuple[str, str | None]:
    sides = f"{describe_operand(left)} and {describe_operand(right)}"
    for side in (left, right):
        if isinstance(side, EntityId):
            advice = f"compare properties, for instance the keys: `${side.variable}.…`"
            return f"a comparison needs scalar operands, not {sides}", advice
    types = [type for type in (type_of(left), type_of(right)) if type is not None]
    if any(type.is_blob or type.is_vector for type in types):
        return f"vectors and blobs cannot be compared: {sides}", None
    return f"{sides} cannot be compared with `{operator}`", _advise(operator, left, right)


def _advise(operator: str, left: Operand, right: Operand) -> str | None:
    left_type, right_type = type_of(left), type_of(right)
    match operator:
        case "contains":
            return "it takes a list and an element, or two strings"
        case "starts_with":
            return "it takes two strings"
        case "in":
            return "it takes a scalar and a list of its type: `$x.p in [1, 2]`"
        case _ if left_type is None or right_type is None:
            return _advise_null_test(operator)
        case _ if left_type.is_list:
            return _advise_on_list(left)
        case _ if right_type.is_list:
            return "one of several values is found with `in`"
        case _:
            return advise_declaration(right, left_type) or advise_declaration(left, right_type)


def _advise_null_test(operator: str) -> str:
    return f"write `is{' not' if operator == '!=' else ''} null`"


def _advise_on_list(left: Operand) -> str:
    # The condition of a mutation names a property without a variable.
    if isinstance(left, PropertyValue) and not left.variable:
        return "a mutation cannot look into a list"
    return "a list is asked with `contains`"
