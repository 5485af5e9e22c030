"""Operands: what a literal, parameter, variable or property means where it is written.

Each function reports what is wrong and then returns `None`, so that one run finds every fault.
"""

from __future__ import annotations

from omnigraph.compiler.ir import (
    ANONYMOUS,
    Constant,
    EntityId,
    Given,
    Now,
    Operand,
    ParameterValue,
    PropertyValue,
)
from omnigraph.compiler.query.literals import is_literal, read_literal
from omnigraph.compiler.query.scope import Scope
from omnigraph.compiler.query.syntax import (
    Call,
    Expression,
    ListLiteral,
    Literal,
    Name,
    PropertyAccess,
    Variable,
)
from omnigraph.model.catalog import EdgeType
from omnigraph.model.types import DATETIME, STRING, PropertyType

FUNCTIONS = (
    "avg", "bm25", "count", "date", "datetime", "fuzzy", "match_text", "max", "min", "nearest",
    "now", "rrf", "search", "sum",
)  # fmt: skip


def resolve_operand(written: Expression, scope: Scope) -> Operand | None:
    """The operand that an expression denotes, for a comparison or a projection."""
    match written:
        case PropertyAccess():
            return resolve_property(written, scope)
        case Variable():
            return _resolve_variable(written, scope)
        case Literal() | ListLiteral():
            return read_literal(written, scope.diagnostics)
        case Name():
            _report_bare_word(written, scope)
            return None
        case Call():
            return _resolve_call(written, scope)


def resolve_given(written: Expression, scope: Scope, *, code: str) -> Given | None:
    """The value that an expression gives without looking at a row; anything else is a fault."""
    match written:
        case Variable(name=name, span=span):
            if name in scope.parameters:
                return ParameterValue(name, scope.parameters[name])
            if name in scope.variables:
                problem = f"`${name}` is bound by the pattern; a literal or parameter is needed"
                scope.diagnostics.error(code, problem, span)
            else:
                _report_undeclared(written, scope, code)
            return None
        case PropertyAccess(span=span):
            problem = "a literal or parameter is needed here, not a property"
            advice = "compare two properties in a clause of its own: `$a.x = $b.y`"
            scope.diagnostics.error(code, problem, span, advice)
            return None
        case Name():
            _report_bare_word(written, scope)
            return None
        case Literal() | ListLiteral():
            return read_literal(written, scope.diagnostics)
        case Call():
            operand = _resolve_call(written, scope)
            return operand if isinstance(operand, Constant | Now) else None


def resolve_property(written: PropertyAccess, scope: Scope) -> PropertyValue | None:
    """The property that `$variable.property` names."""
    variable, name = written.variable, written.property
    bound = scope.variables.get(variable.name)
    if bound is None:
        if variable.name in scope.parameters:
            problem = f"`${variable.name}` is a parameter and has no properties"
            scope.diagnostics.error("T6", problem, variable.span)
        elif variable.name == ANONYMOUS:
            problem = "`$_` is anonymous and has no properties"
            scope.diagnostics.error("T6", problem, variable.span, "give the variable a name")
        else:
            scope.report_unbound("T6", variable)
        return None
    found = bound.type.properties.get(name.text)
    if found is None:
        problem = f"{bound.type.name} has no property `{name.text}`"
        if name.text == "id":
            advice = f"return `${variable.name}` itself for the id"
            scope.diagnostics.error("T6", problem, name.span, advice)
        else:
            scope.diagnostics.unknown("T6", problem, name.span, name.text, bound.type.properties)
        return None
    type = found.type.as_nullable() if bound.is_optional else found.type
    return PropertyValue(variable.name, name.text, type)


def type_of(operand: Operand) -> PropertyType | None:
    """The type of an operand; the type of `null` is unknown."""
    match operand:
        case PropertyValue(type=type) | ParameterValue(type=type) | Constant(type=type):
            return type
        case EntityId(is_nullable=is_nullable):
            return STRING.as_nullable() if is_nullable else STRING
        case Now():
            return DATETIME


def describe_operand(operand: Operand) -> str:
    """An operand as a message names it, with its type."""
    match operand:
        case PropertyValue(variable="", property=name, type=type):
            return f"`{name}` ({type})"
        case PropertyValue(variable=variable, property=name, type=type):
            return f"`${variable}.{name}` ({type})"
        case ParameterValue(name=name, type=type):
            return f"`${name}` ({type})"
        case EntityId(variable=variable, kind=kind, type_name=type_name):
            return f"`${variable}` (the {kind} {type_name})"
        case Constant(type=None):
            return "null"
        case Constant(type=type):
            return f"a literal ({type})"
        case Now():
            return "now() (DateTime)"


def _resolve_variable(variable: Variable, scope: Scope) -> Operand | None:
    name = variable.name
    # A parameter hides a bound variable of the same name wherever a value is expected.
    if name in scope.parameters:
        return ParameterValue(name, scope.parameters[name])
    bound = scope.variables.get(name)
    if bound is None:
        scope.report_unbound("T31", variable)
        return None
    if isinstance(bound.type, EdgeType):
        problem = f"`${name}` is bound to an edge and cannot be used by itself"
        scope.diagnostics.error("T23", problem, variable.span, f"name a property: `${name}.…`")
        return None
    return EntityId(name, bound.type.kind, bound.type.name, bound.is_optional)


def _resolve_call(call: Call, scope: Scope) -> Operand | None:
    name = call.function.text
    if is_literal(call):
        return read_literal(call, scope.diagnostics)
    if name == "now":
        if call.arguments or call.has_star or call.is_distinct:
            scope.diagnostics.error("P7", "now() takes no arguments", call.span, "write `now()`")
            return None
        return Now()
    if name in FUNCTIONS:
        problem = f"{name}() gives no value that could stand here"
        scope.diagnostics.error("T7", problem, call.span, _PLACE_BY_FUNCTION.get(name))
    else:
        report_unknown_function(call, scope)
    return None


def report_unknown_function(call: Call, scope: Scope) -> None:
    """Report a call of something that is no function."""
    name = call.function
    problem = f"there is no function `{name.text}`"
    scope.diagnostics.unknown("P7", problem, name.span, name.text, FUNCTIONS)


_PLACE_BY_FUNCTION = {
    **dict.fromkeys(
        ("avg", "count", "max", "min", "sum"), "aggregates belong in `return { … }`"
    ),
    **dict.fromkeys(("bm25", "nearest", "rrf"), "rankings belong in `order { … }`"),
    **dict.fromkeys(
        ("search", "fuzzy", "match_text"), "a search is a clause of its own in `match { … }`"
    ),
}  # fmt: skip


def _report_bare_word(word: Name, scope: Scope) -> None:
    candidates = {f"${name}": "" for name in (*scope.variables, *scope.parameters)}
    advice = f'a text is written in quotes: "{word.text}"'
    if f"${word.text}" in candidates:
        advice = f"variables start with a dollar: `${word.text}`"
    problem = f"`{word.text}` is no value"
    scope.diagnostics.error("T31", problem, word.span, advice)


def _report_undeclared(variable: Variable, scope: Scope, code: str) -> None:
    scope.diagnostics.unknown(
        code,
        f"`${variable.name}` is not a declared parameter",
        variable.span,
        f"${variable.name}",
        [f"${name}" for name in scope.parameters],
    )
