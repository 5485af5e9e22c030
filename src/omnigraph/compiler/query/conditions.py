"""The checker of conditions: comparisons, null tests, text predicates, and ranking functions.

Reads and mutations share these checks and differ only in what may appear on each side of a
comparison. Functions report an error and return `None`, so that one run finds every error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.compiler import ir
from omnigraph.compiler.parser import Literal, Name
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.expressions import (
    Scope,
    advise_declaration,
    describe_operand,
    report_unknown_function,
    resolve_constant,
    resolve_operand,
    resolve_property,
    type_of,
)
from omnigraph.model.catalog import EdgeType
from omnigraph.model.types import (
    I64,
    NUMBERS,
    STRING,
    PropertyType,
    TextLanguage,
    Vector,
    are_comparable,
)

TEXT_FUNCTIONS = frozenset(str(function) for function in ir.TextFunction)
RANKINGS = frozenset({"bm25", "nearest", "rrf"})
RRF_K_DEFAULT = 60
FUZZY_EDITS_DEFAULT = 2

_USAGE_BY_FUNCTION = {
    "search": 'search($v.property, "text")',
    "match_text": 'match_text($v.property, "text")',
    "fuzzy": 'fuzzy($v.property, "text") or fuzzy($v.property, "text", 1)',
    "bm25": 'bm25($v.property, "text")',
    "nearest": "nearest($v.vector, $query) or nearest($v.vector, $query, exact)",
    "rrf": "rrf(nearest(…), bm25(…))",
}


def check_text_match(call: ast.Call, scope: Scope, *, is_negated: bool) -> ir.TextMatch | None:
    """Check a `search`, `match_text` or `fuzzy` as a condition."""
    function = ir.TextFunction(call.function.text)
    code = "T20" if function is ir.TextFunction.MATCH_TEXT else "T19"
    arity_max = 3 if function is ir.TextFunction.FUZZY else 2
    if not _has_arity(call, 2, arity_max, scope):
        return None
    searched = _check_text(call, scope, code)
    edits: ir.Given | None = None
    if len(call.arguments) == 3:
        edits = _check_integer(call.arguments[2], scope, code, minimum=0)
        if edits is None:
            return None
    elif function is ir.TextFunction.FUZZY:
        edits = ir.Constant(FUZZY_EDITS_DEFAULT, I64)
    if searched is None:
        return None
    field, query, language = searched
    return ir.TextMatch(function, field, query, edits, is_negated, language)


def check_ranking(call: ast.Call, scope: Scope) -> ir.Ranking | None:
    """Check a `nearest`, `bm25` or `rrf`."""
    match call.function.text:
        case "nearest":
            return _check_nearest(call, scope)
        case "bm25":
            return _check_bm25(call, scope)
        case _:
            return _check_rrf(call, scope)


def variable_of(ranking: ir.Ranking) -> str:
    """The variable whose entities a ranking orders."""
    return variable_of(ranking.primary) if isinstance(ranking, ir.Rrf) else ranking.field.variable


def _check_nearest(call: ast.Call, scope: Scope) -> ir.Nearest | None:
    if not _has_arity(call, 2, 3, scope):
        return None
    written_field, written_query = call.arguments[:2]
    field = _check_field(written_field, scope, "T15")
    if field is None:
        return None
    query = resolve_constant(written_query, scope, code="T15")
    if query is None:
        return None
    if not isinstance(field.type.element, Vector):
        problem = f"nearest() needs a Vector; `${field.variable}.{field.property}` is {field.type}"
        scope.diagnostics.error("T15", problem, written_field.span)
        return None
    if not _is_vector_query(query, field.type.element):
        given = describe_operand(query)
        if isinstance(query, ir.Constant) and isinstance(query.value, tuple):
            given = f"a list of {len(query.value)} ({query.type})"
        problem = f"nearest() on a {field.type.element} cannot take {given}"
        advice = f"give {field.type.element.dimension} numbers, or a String to be embedded"
        scope.diagnostics.error("T15", problem, written_query.span, advice)
        return None
    if len(call.arguments) == 2:
        return ir.Nearest(field, query, None)
    effort = _check_effort(call.arguments[2], scope)
    return None if effort is None else ir.Nearest(field, query, effort)


def _check_effort(written: ast.Expression, scope: Scope) -> ir.Given | ir.Exact | None:
    if isinstance(written, Name) and written.text == ir.Exact.EXACT.value:
        return ir.Exact.EXACT
    return _check_integer(written, scope, "T15", minimum=1)


def _is_vector_query(query: ir.Given, vector: Vector) -> bool:
    match query:
        case ir.ParameterValue(type=type):
            return type.element == vector or type.is_string
        case ir.Constant(type=PropertyType(is_list=True, element=element), value=tuple() as values):
            return element in NUMBERS and len(values) == vector.dimension
        case ir.Constant(type=PropertyType() as type):
            return type.is_string
        case _:
            return False


def _check_bm25(call: ast.Call, scope: Scope) -> ir.Bm25 | None:
    if not _has_arity(call, 2, 2, scope):
        return None
    searched = _check_text(call, scope, "T20")
    return None if searched is None else ir.Bm25(*searched)


def _check_rrf(call: ast.Call, scope: Scope) -> ir.Rrf | None:
    if not _has_arity(call, 2, 3, scope):
        return None
    arms = [_check_arm(each, scope) for each in call.arguments[:2]]
    k: ir.Given | None = ir.Constant(RRF_K_DEFAULT, I64)
    if len(call.arguments) == 3:
        k = _check_integer(call.arguments[2], scope, "T21", minimum=1)
    primary, secondary = arms
    if primary is None or secondary is None or k is None:
        return None
    if primary.field.variable != secondary.field.variable:
        problem = "both rankings of rrf() must rank the same variable"
        scope.diagnostics.error("T15", problem, call.span)
        return None
    return ir.Rrf(primary, secondary, k)


def _check_arm(written: ast.Expression, scope: Scope) -> ir.Nearest | ir.Bm25 | None:
    if isinstance(written, ast.Call) and written.function.text == "nearest":
        return _check_nearest(written, scope)
    if isinstance(written, ast.Call) and written.function.text == "bm25":
        return _check_bm25(written, scope)
    if isinstance(written, ast.Call) and written.function.text not in RANKINGS | TEXT_FUNCTIONS:
        report_unknown_function(written, scope)
    else:
        problem = "rrf() fuses nearest() and bm25() only"
        advice = f"write `{_USAGE_BY_FUNCTION['rrf']}`"
        scope.diagnostics.error("P7", problem, written.span, advice)
    return None


def _has_arity(call: ast.Call, least: int, most: int, scope: Scope) -> bool:
    fits = least <= len(call.arguments) <= most and not call.has_star and not call.is_distinct
    if not fits:
        usage = _USAGE_BY_FUNCTION[call.function.text]
        problem = f"{call.function.text}() is called with the wrong arguments"
        scope.diagnostics.error("P7", problem, call.span, f"write `{usage}`")
    return fits


def _check_field(written: ast.Expression, scope: Scope, code: str) -> ir.PropertyValue | None:
    variable = written.variable if isinstance(written, ast.PropertyAccess) else written
    bound = scope.variables.get(variable.name) if isinstance(variable, ast.Variable) else None
    if bound is not None and isinstance(bound.type, EdgeType):
        problem = "only nodes can be searched, and this variable is bound to an edge"
        scope.diagnostics.error("T23", problem, written.span)
        return None
    if not isinstance(written, ast.PropertyAccess):
        problem = "the first argument must be a property, like `$v.name`"
        scope.diagnostics.error(code, problem, written.span)
        return None
    return resolve_property(written, scope)


def _check_text(
    call: ast.Call, scope: Scope, code: str
) -> tuple[ir.PropertyValue, ir.Given, TextLanguage] | None:
    """The searched property, the text to search for, and the language of the property."""
    written_field, written_query = call.arguments[:2]
    field = _check_field(written_field, scope, code)
    # Swapped arguments are one error and not two.
    if field is None:
        return None
    if not field.type.is_string:
        problem = f"a String is searched; `${field.variable}.{field.property}` is {field.type}"
        scope.diagnostics.error(code, problem, written_field.span)
        return None
    query = resolve_constant(written_query, scope, code=code)
    if query is None:
        return None
    type = type_of(query)
    if type is None or not type.is_string:
        problem = f"the text to search for must be a String, not {describe_operand(query)}"
        advice = advise_declaration(query, STRING)
        scope.diagnostics.error(code, problem, written_query.span, advice)
        return None
    declared = scope.variables[field.variable].type.properties[field.property]
    return field, query, declared.language


def _check_integer(
    written: ast.Expression, scope: Scope, code: str, *, minimum: int
) -> ir.Given | None:
    count = resolve_constant(written, scope, code=code)
    if count is None:
        return None
    type = type_of(count)
    if type is None or not type.is_integer:
        scope.diagnostics.error(code, "a whole number is needed here", written.span)
        return None
    if isinstance(count, ir.Constant) and isinstance(count.value, int) and count.value < minimum:
        scope.diagnostics.error(code, f"the number must be at least {minimum}", written.span)
        return None
    return count


Resolve = Callable[[ast.Expression, Scope], ir.Operand | None]


@dataclass(frozen=True, slots=True)
class Sides:
    """The resolvers of the two sides of a comparison, which differ in a mutation."""

    left: Resolve
    right: Resolve


PATTERN_SIDES = Sides(resolve_operand, resolve_operand)


def check_condition(written: ast.Condition, scope: Scope, sides: Sides) -> ir.Condition | None:
    """The typed condition, or `None` after reporting why it is invalid."""
    match written:
        case ast.BooleanCondition(conditions=conditions, is_disjunction=is_disjunction):
            checked = [check_condition(each, scope, sides) for each in conditions]
            found = tuple(each for each in checked if each is not None)
            if len(found) < len(checked):
                return None
            return ir.AnyOf(found) if is_disjunction else ir.AllOf(found)
        case ast.NullTest(operand=operand, is_negated=is_negated):
            tested = sides.left(operand, scope)
            type = None if tested is None else type_of(tested)
            if tested is not None and type is not None and type.is_blob:
                named = describe_operand(tested)
                problem = f"{named} is a Blob, which cannot be used in a condition"
                scope.diagnostics.error("T7", problem, operand.span)
                return None
            return None if tested is None else ir.NullTest(tested, is_negated)
        case ast.Call():
            return _check_call(written, scope)
        case ast.Comparison():
            return _check_comparison(written, scope, sides)


def _check_call(call: ast.Call, scope: Scope) -> ir.Condition | None:
    if call.function.text in TEXT_FUNCTIONS:
        return check_text_match(call, scope, is_negated=False)
    if call.function.text in RANKINGS:
        problem = f"{call.function.text}() ranks rows and is not a condition"
        scope.diagnostics.error("T7", problem, call.span, "write it in `order { … }`")
    else:
        resolved = resolve_operand(call, scope)
        if resolved is not None:
            problem = f"{call.function.text}() alone is not a condition"
            scope.diagnostics.error("T7", problem, call.span, "compare it with something")
    return None


def _check_comparison(written: ast.Comparison, scope: Scope, sides: Sides) -> ir.Condition | None:
    if isinstance(written.left, ast.Call) and written.left.function.text in TEXT_FUNCTIONS:
        return _check_text_truth(written.left, written, scope)
    left, right = sides.left(written.left, scope), sides.right(written.right, scope)
    if left is None or right is None:
        return None
    if _is_null(left) or _is_null(right):
        advice = _advise_null_test(written.operator.text)
        scope.diagnostics.warn("W1", "a comparison with null never matches", written.span, advice)
    if not isinstance(left, ir.EntityId) and not isinstance(right, ir.EntityId):
        comparator = _choose_comparator(written.operator.text, left, right)
        if comparator is not None:
            return ir.Comparison(left, comparator, right)
    problem, remedy = _explain_mismatch(written.operator.text, left, right)
    scope.diagnostics.error("T7", problem, written.span, remedy)
    return None


def _check_text_truth(call: ast.Call, written: ast.Comparison, scope: Scope) -> ir.TextMatch | None:
    """Check `search(…) = false` and similar comparisons of a text predicate."""
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


def _choose_comparator(operator: str, left: ir.Operand, right: ir.Operand) -> ir.Comparator | None:
    """The comparator for two operands, or `None` if their types do not allow the comparison."""
    left_type, right_type = type_of(left), type_of(right)
    # An empty list has no element that could have the wrong type.
    left_element = None if left_type is None or _is_empty_list(left) else left_type.list_element
    right_element = None if right_type is None or _is_empty_list(right) else right_type.list_element
    are_texts = _is_text(left_type) and _is_text(right_type)
    match operator:
        case "in":
            fits = right_type is None or right_type.is_list
            return ir.Comparator.IN if fits and _may_meet(left_type, right_element) else None
        case "contains" if left_type is not None and left_type.is_list:
            return ir.Comparator.LIST_CONTAINS if _may_meet(left_element, right_type) else None
        case "contains":
            return ir.Comparator.STRING_CONTAINS if are_texts else None
        case "starts_with":
            return ir.Comparator.STARTS_WITH if are_texts else None
        case _:
            return ir.Comparator(operator) if _may_meet(left_type, right_type) else None


def _may_meet(one: PropertyType | None, other: PropertyType | None) -> bool:
    """Whether two operands may be compared; null may be compared with any scalar."""
    if one is None or other is None:
        known = one or other
        return known is None or known.is_scalar
    return are_comparable(one, other)


def _is_text(type: PropertyType | None) -> bool:
    return type is None or type.is_string


def _is_null(operand: ir.Operand) -> bool:
    return isinstance(operand, ir.Constant) and operand.value is None


def _is_empty_list(operand: ir.Operand) -> bool:
    return isinstance(operand, ir.Constant) and operand.value == ()


def _explain_mismatch(operator: str, left: ir.Operand, right: ir.Operand) -> tuple[str, str | None]:
    sides = f"{describe_operand(left)} and {describe_operand(right)}"
    for side in (left, right):
        if isinstance(side, ir.EntityId):
            advice = f"compare properties, for instance the keys: `${side.variable}.…`"
            return f"a comparison needs scalar operands, not {sides}", advice
    types = [type for type in (type_of(left), type_of(right)) if type is not None]
    if any(type.is_blob or type.is_vector for type in types):
        return f"vectors and blobs cannot be compared: {sides}", None
    return f"{sides} cannot be compared with `{operator}`", _advise(operator, left, right)


def _advise(operator: str, left: ir.Operand, right: ir.Operand) -> str | None:
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
            # In the condition of a mutation, properties are named without a variable.
            if isinstance(left, ir.PropertyValue) and not left.variable:
                return "a mutation cannot search a list"
            return "use `contains` to search a list"
        case _ if right_type.is_list:
            return "one of several values is found with `in`"
        case _:
            return advise_declaration(right, left_type) or advise_declaration(left, right_type)


def _advise_null_test(operator: str) -> str:
    return f"write `is{' not' if operator == '!=' else ''} null`"
