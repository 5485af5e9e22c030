"""Search: text predicates, rankings and their operands."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.compiler.ir import (
    Bm25,
    Constant,
    Given,
    Nearest,
    Now,
    ParameterValue,
    PropertyValue,
    Ranking,
    Rrf,
    TextFunction,
    TextMatch,
)
from omnigraph.compiler.query.operands import (
    advise_declaration,
    describe_operand,
    report_unknown_function,
    resolve_given,
    resolve_property,
)
from omnigraph.compiler.query.scope import Scope
from omnigraph.compiler.query.syntax import Call, Expression, PropertyAccess, Variable
from omnigraph.model.catalog import EdgeType
from omnigraph.model.types import I64, NUMBERS, STRING, PropertyType, Vector

TEXT_FUNCTIONS = frozenset(str(function) for function in TextFunction)
RANKINGS = frozenset({"bm25", "nearest", "rrf"})
RRF_K_DEFAULT = 60
FUZZY_EDITS_DEFAULT = 2

_USAGE_BY_FUNCTION = {
    "search": 'search($v.property, "text")',
    "match_text": 'match_text($v.property, "text")',
    "fuzzy": 'fuzzy($v.property, "text") or fuzzy($v.property, "text", 1)',
    "bm25": 'bm25($v.property, "text")',
    "nearest": "nearest($v.vector, $query)",
    "rrf": "rrf(nearest(…), bm25(…))",
}


def check_text_match(call: Call, scope: Scope, *, is_negated: bool) -> TextMatch | None:
    """A `search`, `match_text` or `fuzzy` as a condition."""
    function = TextFunction(call.function.text)
    code = "T20" if function is TextFunction.MATCH_TEXT else "T19"
    arity_max = 3 if function is TextFunction.FUZZY else 2
    if not _has_arity(call, 2, arity_max, scope):
        return None
    field, query = _check_text(call, scope, code)
    edits: Given | None = None
    if len(call.arguments) == 3:
        edits = _check_integer(call.arguments[2], scope, code, minimum=0)
        if edits is None:
            return None
    elif function is TextFunction.FUZZY:
        edits = Constant(FUZZY_EDITS_DEFAULT, I64)
    if field is None or query is None:
        return None
    return TextMatch(function, field, query, edits, is_negated)


def check_ranking(call: Call, scope: Scope) -> Ranking | None:
    """A `nearest`, `bm25` or `rrf`."""
    match call.function.text:
        case "nearest":
            return _check_nearest(call, scope)
        case "bm25":
            return _check_bm25(call, scope)
        case _:
            return _check_rrf(call, scope)


def variable_of(ranking: Ranking) -> str:
    """The variable whose entities a ranking ranks."""
    return variable_of(ranking.primary) if isinstance(ranking, Rrf) else ranking.field.variable


def contains_nearest(ranking: Ranking) -> bool:
    """Whether a ranking measures distances."""
    if isinstance(ranking, Rrf):
        return contains_nearest(ranking.primary) or contains_nearest(ranking.secondary)
    return isinstance(ranking, Nearest)


def _check_nearest(call: Call, scope: Scope) -> Nearest | None:
    if not _has_arity(call, 2, 2, scope):
        return None
    written_field, written_query = call.arguments
    field = _check_field(written_field, scope, "T15")
    if field is None:
        return None
    query = resolve_given(written_query, scope, code="T15")
    if query is None:
        return None
    if not isinstance(field.type.element, Vector):
        problem = f"nearest() needs a Vector; `${field.variable}.{field.property}` is {field.type}"
        scope.diagnostics.error("T15", problem, written_field.span)
        return None
    if not _is_vector_query(query, field.type.element):
        given = describe_operand(query)
        if isinstance(query, Constant) and isinstance(query.value, tuple):
            given = f"a list of {len(query.value)} ({query.type})"
        problem = f"nearest() on a {field.type.element} cannot take {given}"
        advice = f"give {field.type.element.dimension} numbers, or a String to be embedded"
        scope.diagnostics.error("T15", problem, written_query.span, advice)
        return None
    return Nearest(field, query)


def _is_vector_query(query: Given, vector: Vector) -> bool:
    match query:
        case ParameterValue(type=type):
            return type.element == vector or type.is_string
        case Constant(type=PropertyType(is_list=True, element=element), value=tuple() as values):
            return element in NUMBERS and len(values) == vector.dimension
        case Constant(type=PropertyType() as type):
            return type.is_string
        case _:
            return False


def _check_bm25(call: Call, scope: Scope) -> Bm25 | None:
    if not _has_arity(call, 2, 2, scope):
        return None
    field, query = _check_text(call, scope, "T20")
    return None if field is None or query is None else Bm25(field, query)


def _check_rrf(call: Call, scope: Scope) -> Rrf | None:
    if not _has_arity(call, 2, 3, scope):
        return None
    arms = [_check_arm(each, scope) for each in call.arguments[:2]]
    k: Given | None = Constant(RRF_K_DEFAULT, I64)
    if len(call.arguments) == 3:
        k = _check_integer(call.arguments[2], scope, "T21", minimum=1)
    primary, secondary = arms
    if primary is None or secondary is None or k is None:
        return None
    if primary.field.variable != secondary.field.variable:
        problem = "both rankings of rrf() must rank the same variable"
        scope.diagnostics.error("T15", problem, call.span)
        return None
    return Rrf(primary, secondary, k)


def _check_arm(written: Expression, scope: Scope) -> Nearest | Bm25 | None:
    if isinstance(written, Call) and written.function.text == "nearest":
        return _check_nearest(written, scope)
    if isinstance(written, Call) and written.function.text == "bm25":
        return _check_bm25(written, scope)
    if isinstance(written, Call) and written.function.text not in RANKINGS | TEXT_FUNCTIONS:
        report_unknown_function(written, scope)
    else:
        problem = "rrf() fuses nearest() and bm25() only"
        advice = f"write `{_USAGE_BY_FUNCTION['rrf']}`"
        scope.diagnostics.error("P7", problem, written.span, advice)
    return None


def _has_arity(call: Call, least: int, most: int, scope: Scope) -> bool:
    fits = least <= len(call.arguments) <= most and not call.has_star and not call.is_distinct
    if not fits:
        usage = _USAGE_BY_FUNCTION[call.function.text]
        problem = f"{call.function.text}() is called with the wrong arguments"
        scope.diagnostics.error("P7", problem, call.span, f"write `{usage}`")
    return fits


def _check_field(written: Expression, scope: Scope, code: str) -> PropertyValue | None:
    variable = written.variable if isinstance(written, PropertyAccess) else written
    bound = scope.variables.get(variable.name) if isinstance(variable, Variable) else None
    if bound is not None and isinstance(bound.type, EdgeType):
        problem = "only nodes can be searched, and this variable is bound to an edge"
        scope.diagnostics.error("T23", problem, written.span)
        return None
    if not isinstance(written, PropertyAccess):
        problem = "the first argument must be a property, like `$v.name`"
        scope.diagnostics.error(code, problem, written.span)
        return None
    return resolve_property(written, scope)


def _check_text(call: Call, scope: Scope, code: str) -> tuple[PropertyValue | None, Given | None]:
    """The property that is searched and the text that is searched for."""
    field = _check_text_field(call.arguments[0], scope, code)
    # Swapped arguments are one fault, not two.
    if field is None:
        return None, None
    return field, _check_text_query(call.arguments[1], scope, code)


def _check_text_field(written: Expression, scope: Scope, code: str) -> PropertyValue | None:
    field = _check_field(written, scope, code)
    if field is not None and not field.type.is_string:
        problem = f"a String is searched; `${field.variable}.{field.property}` is {field.type}"
        scope.diagnostics.error(code, problem, written.span)
        return None
    return field


def _check_text_query(written: Expression, scope: Scope, code: str) -> Given | None:
    query = resolve_given(written, scope, code=code)
    if query is None or _is_typed(query, lambda type: type.is_string):
        return query
    problem = f"the text to search for must be a String, not {describe_operand(query)}"
    scope.diagnostics.error(code, problem, written.span, advise_declaration(query, STRING))
    return None


def _check_integer(written: Expression, scope: Scope, code: str, *, minimum: int) -> Given | None:
    count = resolve_given(written, scope, code=code)
    if count is None:
        return None
    if not _is_typed(count, lambda type: type.is_integer):
        scope.diagnostics.error(code, "a whole number is needed here", written.span)
        return None
    if isinstance(count, Constant) and isinstance(count.value, int) and count.value < minimum:
        scope.diagnostics.error(code, f"the number must be at least {minimum}", written.span)
        return None
    return count


def _is_typed(given: Given, fits: Callable[[PropertyType], bool]) -> bool:
    match given:
        case ParameterValue(type=type) | Constant(type=PropertyType() as type):
            return fits(type)
        case Constant() | Now():
            return False
