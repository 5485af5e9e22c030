"""Operands: what a literal, parameter, variable or property means where it is written.

Each function reports what is wrong and then returns `None`, so that one run finds every fault.
"""

from __future__ import annotations

from datetime import date

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
from omnigraph.compiler.query.literals import (
    advise_spelling,
    describe_value,
    is_literal,
    read_literal,
)
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
from omnigraph.model.names import find_near_name
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
                report_undeclared(written, scope, code)
            return None
        case PropertyAccess(span=span):
            problem = "a literal or parameter is needed here, not a property"
            scope.diagnostics.error(code, problem, span, _ADVICE_ON_PROPERTY_BY_CODE.get(code))
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
            advice = f"`return {{ ${variable.name} }}` gives the id; nodes are found by their key"
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
        case Constant(value=date() as value):
            return describe_value(value)
        case Constant(value=value, type=type):
            return f"{describe_value(value)} ({type})"
        case Now():
            return "now() (DateTime)"


def advise_declaration(given: Operand, needed: PropertyType) -> str | None:
    """How a parameter would have to be declared, or a literal written, to be of a type."""
    match given:
        case ParameterValue(name=name):
            # Parameters cannot be declared as enums; they are texts.
            word = str(needed.element) if needed.enum_values else needed.describe()
            return f"declare `${name}: {word}`"
        case Constant(value=value):
            return advise_spelling(value, needed)
        case PropertyValue() | EntityId() | Now():
            return None


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
    near = find_near_name(name.text, FUNCTIONS)
    advice = f"did you mean `{near}`?" if near else f"the functions are {', '.join(FUNCTIONS)}"
    scope.diagnostics.error("P7", f"there is no function `{name.text}`", name.span, advice)


_PLACE_BY_FUNCTION = {
    **dict.fromkeys(
        ("avg", "count", "max", "min", "sum"), "aggregates belong in `return { … }`"
    ),
    **dict.fromkeys(("bm25", "nearest", "rrf"), "rankings belong in `order { … }`"),
    **dict.fromkeys(
        ("search", "fuzzy", "match_text"), "a search is a clause of its own in `match { … }`"
    ),
}  # fmt: skip


_ADVICE_ON_PROPERTY_BY_CODE = {
    "T14": "a mutation cannot copy a value; pass it as a parameter",
    "T31": "compare two properties in a clause of its own: `$a.x = $b.y`",
}


def advise_bare_word(word: Name, scope: Scope) -> str | None:
    """What was meant by a word without a dollar, if something in reach is called so."""
    if word.text in scope.variables or word.text in scope.parameters:
        return f"variables start with a dollar: `${word.text}`"
    if scope.diagnostics.is_full:
        return None
    for name, bound in scope.variables.items():
        if word.text in bound.type.properties:
            return f"a property is written with its variable: `${name}.{word.text}`"
    return None


def _report_bare_word(word: Name, scope: Scope) -> None:
    advice = advise_bare_word(word, scope) or f'a text is written in quotes: "{word.text}"'
    scope.diagnostics.error("T31", f"`{word.text}` is no value", word.span, advice)


def report_undeclared(variable: Variable, scope: Scope, code: str) -> None:
    """Report a variable that would have to be a parameter and is none."""
    if variable.name in scope.broken:
        return
    advice = scope.advise_near(variable.name, scope.parameters, is_value=True)
    problem = f"`${variable.name}` is not a declared parameter"
    scope.diagnostics.error(code, problem, variable.span, advice)
