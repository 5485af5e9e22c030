"""Scopes, literals and operands: the meaning and the type of each expression of a query.

A scope grows as clauses are checked in written order. A block has a nested scope that sees the
outer one. Variables that the block binds are visible only inside it, unless the block is optional.
Functions report an error and return `None`, so that one run finds every error.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import chain

from omnigraph.compiler import ir
from omnigraph.compiler.diagnostics import Diagnostics, advise_name
from omnigraph.compiler.parser import Literal, Name
from omnigraph.compiler.query import ast
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.names import find_near_name
from omnigraph.model.source import Span
from omnigraph.model.types import (
    BOOL,
    DATE,
    DATETIME,
    F64,
    FLOATS,
    I64,
    INTEGER_RANGE,
    NUMBERS,
    STRING,
    PropertyType,
    Scalar,
    Vector,
    explain,
    fits_f32,
    parse_date,
    parse_datetime,
)

NOW_PARAMETER = "__nanograph_now"
"""The name of `now()` in results; it is not valid as a parameter name."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The type that a variable is bound to; an optional variable may be unbound in a row."""

    type: NodeType | EdgeType
    is_optional: bool


@dataclass(slots=True)
class Scope:
    """The visible names, and the collector of errors."""

    catalog: Catalog
    parameters: Mapping[str, PropertyType]
    diagnostics: Diagnostics
    variables: ChainMap[str, Bound] = field(default_factory=ChainMap)
    """The bound variables, innermost block first; copying them would be too slow."""
    optional_here: set[str] = field(default_factory=set)
    """The variables that an optional block of this clause list introduces."""
    hidden: dict[str, Span] = field(default_factory=dict)
    """The local variables of `not` blocks of this clause list, with the block positions."""
    announced: ChainMap[str, None] = field(default_factory=ChainMap)
    """The variables that some visible clause binds, possibly a later one."""
    referenced: dict[str, None] = field(default_factory=dict)
    """The variables that this clause list mentions, then those that only inner blocks mention."""
    broken: set[str] = field(default_factory=set)
    """The variables of rejected clauses or parameters; their use causes no further errors."""

    def enter(self) -> Scope:
        """A nested scope for a block: it sees this scope, and its bindings stay inside it."""
        return replace(
            self,
            variables=self.variables.new_child(),
            announced=self.announced.new_child(),
            referenced={},
            optional_here=set(),
            hidden={},
        )

    @property
    def depth(self) -> int:
        """The number of enclosing blocks."""
        return len(self.variables.maps) - 1

    def is_bound(self, name: str) -> bool:
        """Whether an earlier clause binds a variable, or would if it were valid."""
        return name in self.variables or name in self.broken

    def bind(self, name: str, type: NodeType | EdgeType, *, is_optional: bool = False) -> None:
        """Bind a new variable for later clauses; an optional block introduces an optional one."""
        # A block sees only variables that are bound before it, and the order of clauses does not
        # affect results. So a name cannot have one meaning in the block and another after it.
        if name in self.hidden:
            problem = f"the not block uses `${name}`, which is bound only behind it"
            advice = "move the block to the end, or choose another name"
            self.diagnostics.error("T9", problem, self.hidden[name], advice)
        self.variables[name] = Bound(type, is_optional)
        if is_optional:
            self.optional_here.add(name)

    def hide(self, block_by_name: Mapping[str, Span]) -> None:
        """Record the local variables of a `not` block."""
        for name, block in block_by_name.items():
            if name not in self.variables and name not in self.parameters:
                self.hidden.setdefault(name, block)

    def break_off(self, *variables: ast.Variable | None) -> None:
        """Record the names that a rejected clause or parameter leaves undefined."""
        names = (variable.name for variable in variables if variable is not None)
        self.broken.update(
            name for name in names if name not in self.variables and name not in self.parameters
        )

    def report_unbound(self, code: str, variable: ast.Variable) -> None:
        """Report a variable that no earlier clause binds."""
        name = variable.name
        if name in self.broken:
            return
        if name in self.hidden:
            advice: str | None = "it exists only inside the not block"
        elif name in self.announced:
            advice = "move this clause behind the one that binds it"
        else:
            names = chain(self.variables, self.parameters)
            advice = self.advise_near(name, names, is_value=code == "T31")
        problem = f"`${name}` is neither bound by an earlier clause nor a parameter"
        self.diagnostics.error(code, problem, variable.span, advice)

    def advise_near(self, name: str, candidates: Iterable[str], *, is_value: bool) -> str | None:
        """Advice: the variable with a similar name, or else, for a value, how to declare it."""
        if self.diagnostics.is_full:
            return None
        names = [f"${each}" for each in candidates]
        if is_value and find_near_name(f"${name}", names) is None:
            return f"declare it: `query name(${name}: …)`"
        return advise_name(f"${name}", names)


TEMPORAL_FUNCTIONS = frozenset({"date", "datetime"})
_TYPE_BY_CLASS: dict[type, PropertyType] = {bool: BOOL, int: I64, float: F64, str: STRING}
"""The types of literals; the type of null is unknown."""


def read_literal(written: ast.Expression, diagnostics: Diagnostics) -> ir.Constant | None:
    """The constant that an expression denotes, or `None` if it is not a constant or is invalid."""
    match written:
        case Literal(value=value):
            return ir.Constant(value, _TYPE_BY_CLASS.get(type(value)))
        case ast.ListLiteral():
            return _read_list(written, diagnostics)
        case ast.Call(function=function) if function.text in TEMPORAL_FUNCTIONS:
            return _read_temporal(written, diagnostics)
        case _:
            return None


def is_literal(written: ast.Expression) -> bool:
    """Whether an expression is a literal constant."""
    if isinstance(written, ast.Call):
        return written.function.text in TEMPORAL_FUNCTIONS
    return isinstance(written, Literal | ast.ListLiteral)


def find_value_error(value: ir.Value, type: PropertyType) -> str | None:
    """Why a value cannot be stored in a property of a type, or `None` if it can."""
    if value is None:
        return None if type.is_nullable else "the property cannot be null"
    if isinstance(type.element, Vector):
        return _vector_problem(value, type.element)
    if type.is_list:
        if not isinstance(value, tuple):
            return f"a list of {type.element} is needed"
        return next((m for each in value if (m := _scalar_problem(each, type.list_element))), None)
    return _scalar_problem(value, type)


def find_mismatch(value: ir.Value, type: PropertyType) -> str | None:
    """Why a value can never be compared with a scalar of a type, or `None` if it can.

    Numbers of any kind and size are comparable: `= 2.7` on an integer matches nothing.
    """
    if value is None:
        return None if type.is_nullable else "the property is never null"
    if type.element in NUMBERS and _is_number(value):
        return None
    return _scalar_problem(value, type)


def _scalar_problem(value: ir.Value, type: PropertyType) -> str | None:
    element = type.element
    if type.enum_values is not None and isinstance(value, str):
        known = type.enum_values
        problem = f"invalid enum value '{value}' (expected: {', '.join(known)})"
        return None if value in known else problem
    match element:
        case Scalar.STRING | Scalar.BLOB:
            fits = isinstance(value, str)
        case Scalar.BOOL:
            fits = isinstance(value, bool)
        case Scalar.DATETIME:
            fits = isinstance(value, datetime)
        case Scalar.DATE:
            fits = isinstance(value, date) and not isinstance(value, datetime)
        case _:
            fits = _is_number(value)
            if fits:
                return _number_problem(value, element)
    return None if fits else f"{describe_value(value)} is not of type {type.describe()}"


def _vector_problem(value: ir.Value, vector: Vector) -> str | None:
    if not isinstance(value, tuple) or not all(_is_number(each) for each in value):
        return f"{vector} takes a list of {vector.dimension} numbers"
    if len(value) != vector.dimension:
        return f"{vector} expects {vector.dimension} dimensions, the list has {len(value)}"
    return next((m for each in value if (m := _number_problem(each, Scalar.F32))), None)


def _number_problem(value: ir.Value, element: Scalar | Vector) -> str | None:
    assert isinstance(value, int | float)
    assert isinstance(element, Scalar)
    if element in FLOATS:
        fits = element is Scalar.F64 or fits_f32(value)
        return None if fits else f"{value} is too large for {element}"
    if isinstance(value, float):
        return f"{value} is not of type {element}: the fraction would be lost"
    low, high = INTEGER_RANGE[element]
    return None if low <= value <= high else f"{value} exceeds {element} ({low} to {high})"


def _is_number(value: ir.Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def advise_literal(value: ir.Value, type: PropertyType) -> str | None:
    """How to write a value so that it has a type, or `None` if that is not possible."""
    element = type.element
    match value:
        case str() if element in NUMBERS and _NUMBER.fullmatch(value):
            return f"numbers take no quotes: `{value}`"
        case "true" | "false" if element is Scalar.BOOL:
            return f"truth values take no quotes: `{value}`"
        case bool() | int() | float() if element is Scalar.STRING:
            return f'a text is written in quotes: `"{describe_value(value)}"`'
        case str() if element is Scalar.DATE or element is Scalar.DATETIME:
            return f'write `{element.lower()}("{_format_temporal(value, element)}")`'
        case datetime() if element is Scalar.DATE:
            return f'write `date("{value:%Y-%m-%d}")`'
        case date() if element is Scalar.DATETIME:
            return f'write `datetime("{value}T00:00:00Z")`'
        case _:
            return None


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_FINE_DIGITS = re.compile(r"(?<=\.\d{3})\d+", re.ASCII)
_EXAMPLE_BY_TEMPORAL = {Scalar.DATE: "2024-06-01", Scalar.DATETIME: "2024-06-01T12:00:00Z"}


def _format_temporal(text: str, element: Scalar) -> str:
    """A text reduced to what its type can store, or an example if it is not a date or time."""
    cut = re.split("[Tt ]", text)[0] if element is Scalar.DATE else _FINE_DIGITS.sub("", text)
    try:
        _ = parse_date(cut) if element is Scalar.DATE else parse_datetime(cut)
    except ValueError:
        return _EXAMPLE_BY_TEMPORAL[element]
    return cut


def describe_value(value: ir.Value) -> str:
    """A value as text for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"' if len(value) <= 40 else f'"{value[:40]}…"'
        case datetime():
            return f"the DateTime {value:%Y-%m-%dT%H:%M:%SZ}"
        case date():
            return f"the Date {value}"
        case tuple():
            return "a list"
        case int() | float():
            return str(value)


def _read_list(written: ast.ListLiteral, diagnostics: Diagnostics) -> ir.Constant | None:
    values: list[ir.Value] = []
    types: list[PropertyType] = []
    for each in written.elements:
        if isinstance(each, ast.ListLiteral):
            diagnostics.error("T32", "a list cannot hold a list", each.span)
            return None
        constant = read_literal(each, diagnostics)
        if constant is None:
            if not is_literal(each):
                diagnostics.error("T32", "a list holds literals only", each.span)
            return None
        if constant.type is None:
            diagnostics.error("T32", "a list cannot hold null", each.span)
            return None
        values.append(constant.value)
        types.append(constant.type)
    element = _common_element(types)
    if element is None:
        problem = "the elements of a list must have one type"
        diagnostics.error("T32", problem, written.span)
        return None
    return ir.Constant(tuple(values), PropertyType(element, is_list=True))


def _common_element(types: list[PropertyType]) -> Scalar | Vector | None:
    elements = {type.element for type in types}
    if not elements:
        return Scalar.STRING
    if len(elements) == 1:
        return elements.pop()
    return Scalar.F64 if elements <= NUMBERS and elements & FLOATS else None


def _read_temporal(written: ast.Call, diagnostics: Diagnostics) -> ir.Constant | None:
    word = written.function.text
    type = DATE if word == "date" else DATETIME
    match written:
        case ast.Call(
            arguments=[Literal(value=str() as text, span=span)], has_star=False, is_distinct=False
        ):
            try:
                return ir.Constant(parse_date(text) if type is DATE else parse_datetime(text), type)
            except ValueError as error:
                problem = f"invalid {type} literal {describe_value(text)}{explain(error)}"
                diagnostics.error("T3", problem, span, advise_literal(text, type))
        case _:
            advice = f'write `{word}("2024-06-01")`'
            diagnostics.error("P7", f"{word}() takes one string", written.span, advice)
    return None


FUNCTIONS = (
    "avg", "bm25", "count", "date", "datetime", "fuzzy", "match_text", "max", "min", "nearest",
    "now", "rrf", "search", "sum",
)  # fmt: skip


def resolve_operand(written: ast.Expression, scope: Scope) -> ir.Operand | None:
    """The operand that an expression denotes in a comparison or a projection."""
    match written:
        case ast.PropertyAccess():
            return resolve_property(written, scope)
        case ast.Variable():
            return _resolve_variable(written, scope)
        case Literal() | ast.ListLiteral():
            return read_literal(written, scope.diagnostics)
        case Name():
            _report_bare_word(written, scope)
            return None
        case ast.Call():
            return _resolve_call(written, scope)


def resolve_constant(written: ast.Expression, scope: Scope, *, code: str) -> ir.Given | None:
    """The value of an expression that does not depend on a row; anything else is reported."""
    match written:
        case ast.Variable(name=name, span=span):
            if name in scope.parameters:
                return ir.ParameterValue(name, scope.parameters[name])
            if name in scope.variables:
                problem = f"`${name}` is bound by the pattern; a literal or parameter is needed"
                scope.diagnostics.error(code, problem, span)
            else:
                report_undeclared(written, scope, code)
            return None
        case ast.PropertyAccess(span=span):
            problem = "a literal or parameter is needed here, not a property"
            scope.diagnostics.error(code, problem, span, _ADVICE_ON_PROPERTY_BY_CODE.get(code))
            return None
        case Name():
            _report_bare_word(written, scope)
            return None
        case Literal() | ast.ListLiteral():
            return read_literal(written, scope.diagnostics)
        case ast.Call():
            operand = _resolve_call(written, scope)
            return operand if isinstance(operand, ir.Constant | ir.Now) else None


def resolve_property(written: ast.PropertyAccess, scope: Scope) -> ir.PropertyValue | None:
    """The property that `$variable.property` denotes."""
    variable, name = written.variable, written.property
    bound = scope.variables.get(variable.name)
    if bound is None:
        if variable.name in scope.parameters:
            problem = f"`${variable.name}` is a parameter and has no properties"
            scope.diagnostics.error("T6", problem, variable.span)
        elif variable.name == ir.ANONYMOUS:
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
    return ir.PropertyValue(variable.name, found.name, type)


def type_of(operand: ir.Operand) -> PropertyType | None:
    """The type of an operand; the type of `null` is unknown."""
    match operand:
        case ir.PropertyValue(type=type) | ir.ParameterValue(type=type) | ir.Constant(type=type):
            return type
        case ir.EntityId(is_nullable=is_nullable):
            return STRING.as_nullable() if is_nullable else STRING
        case ir.Now():
            return DATETIME


def describe_operand(operand: ir.Operand) -> str:
    """An operand and its type as text for messages."""
    match operand:
        case ir.PropertyValue(variable="", property=name, type=type):
            return f"`{name}` ({type})"
        case ir.PropertyValue(variable=variable, property=name, type=type):
            return f"`${variable}.{name}` ({type})"
        case ir.ParameterValue(name=name, type=type):
            return f"`${name}` ({type})"
        case ir.EntityId(variable=variable, kind=kind, type_name=type_name):
            return f"`${variable}` (the {kind} {type_name})"
        case ir.Constant(type=None):
            return "null"
        case ir.Constant(value=date() as value):
            return describe_value(value)
        case ir.Constant(value=value, type=type):
            return f"{describe_value(value)} ({type})"
        case ir.Now():
            return "now() (DateTime)"


def advise_declaration(given: ir.Operand, needed: PropertyType) -> str | None:
    """How to declare a parameter, or to write a literal, so that it has a type."""
    match given:
        case ir.ParameterValue(name=name):
            # Parameters cannot be declared as enums; they are strings.
            word = str(needed.element) if needed.enum_values else needed.describe()
            return f"declare `${name}: {word}`"
        case ir.Constant(value=value):
            return advise_literal(value, needed)
        case ir.PropertyValue() | ir.EntityId() | ir.Now():
            return None


def _resolve_variable(variable: ast.Variable, scope: Scope) -> ir.Operand | None:
    name = variable.name
    # Where a value is expected, a parameter hides a bound variable of the same name.
    if name in scope.parameters:
        return ir.ParameterValue(name, scope.parameters[name])
    bound = scope.variables.get(name)
    if bound is None:
        scope.report_unbound("T31", variable)
        return None
    if isinstance(bound.type, EdgeType):
        problem = f"`${name}` is bound to an edge and cannot be used by itself"
        scope.diagnostics.error("T23", problem, variable.span, f"name a property: `${name}.…`")
        return None
    return ir.EntityId(name, bound.type.kind, bound.type.name, bound.is_optional)


def _resolve_call(call: ast.Call, scope: Scope) -> ir.Operand | None:
    name = call.function.text
    if is_literal(call):
        return read_literal(call, scope.diagnostics)
    if name == "now":
        if call.arguments or call.has_star or call.is_distinct:
            scope.diagnostics.error("P7", "now() takes no arguments", call.span, "write `now()`")
            return None
        return ir.Now()
    if name in FUNCTIONS:
        problem = f"{name}() is not allowed here"
        scope.diagnostics.error("T7", problem, call.span, _PLACE_BY_FUNCTION.get(name))
    else:
        report_unknown_function(call, scope)
    return None


def report_unknown_function(call: ast.Call, scope: Scope) -> None:
    """Report a call of an unknown function."""
    name = call.function
    near = find_near_name(name.text, FUNCTIONS)
    advice = f"did you mean `{near}`?" if near else f"the functions are {', '.join(FUNCTIONS)}"
    scope.diagnostics.error("P7", f"unknown function `{name.text}`", name.span, advice)


_PLACE_BY_FUNCTION = {
    **dict.fromkeys(
        ("avg", "count", "max", "min", "sum"), "aggregates belong in `return { … }`"
    ),
    **dict.fromkeys(("bm25", "nearest", "rrf"), "rankings belong in `order { … }`"),
    **dict.fromkeys(
        ("search", "fuzzy", "match_text"), "write a search as a separate clause of `match { … }`"
    ),
}  # fmt: skip


_ADVICE_ON_PROPERTY_BY_CODE = {
    "T14": "a mutation cannot copy a value; pass it as a parameter",
    "T31": "compare two properties in a separate clause: `$a.x = $b.y`",
}


def advise_bare_word(word: Name, scope: Scope) -> str | None:
    """Advice for a word without a dollar sign, if a visible name matches it."""
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
    scope.diagnostics.error("T31", f"`{word.text}` is not a value", word.span, advice)


def report_undeclared(variable: ast.Variable, scope: Scope, code: str) -> None:
    """Report a variable that would have to be a parameter and is not declared as one."""
    if variable.name in scope.broken:
        return
    advice = scope.advise_near(variable.name, scope.parameters, is_value=True)
    problem = f"`${variable.name}` is not a declared parameter"
    scope.diagnostics.error(code, problem, variable.span, advice)
