"""What a read returns: columns and aggregates.

Decides here, and not when the query runs, whether everything that is asked for can be returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.compiler.ir import (
    Aggregate,
    AggregateFunction,
    Column,
    Constant,
    EntityId,
    Now,
    Operand,
    ParameterValue,
    PropertyValue,
    Ranking,
)
from omnigraph.compiler.query.operands import (
    advise_bare_word,
    resolve_operand,
    resolve_property,
    type_of,
)
from omnigraph.compiler.query.scope import NOW_PARAMETER, Scope
from omnigraph.compiler.query.search import (
    RANKINGS,
    TEXT_FUNCTIONS,
    check_ranking,
)
from omnigraph.compiler.query.syntax import (
    Call,
    Expression,
    Literal,
    Name,
    Projection,
    PropertyAccess,
    Read,
    Variable,
)
from omnigraph.model.catalog import TypeKind
from omnigraph.model.source import Span
from omnigraph.model.types import F64, I64, STRING, PropertyType

AGGREGATES = frozenset(str(function) for function in AggregateFunction)

_COUNT = I64.as_nullable()
"""Every aggregate is nullable in a result, even the one that never is null."""


def check_columns(read: Read, scope: Scope) -> tuple[Column, ...] | None:
    """The columns of a read, or `None` after reporting that some are none."""
    projected = [_check_projection(each, scope) for each in read.projections]
    columns = tuple(column for column in projected if column is not None)
    _require_group_keys(read, columns, scope)
    return columns if len(columns) == len(projected) else None


def _check_projection(projection: Projection, scope: Scope) -> Column | None:
    written = projection.expression
    column: Column | None
    if isinstance(written, Call) and written.function.text in AGGREGATES:
        column = _check_aggregate(written, scope)
    elif isinstance(written, Call) and written.function.text in RANKINGS:
        ranking = check_ranking(written, scope)
        if ranking is None:
            return None
        column = _unnamed(written.function.text, ranking, F64.as_nullable())
    elif isinstance(written, Call) and written.function.text in TEXT_FUNCTIONS:
        problem = f"{written.function.text}() finds rows and gives no value to return"
        advice = "use it in `match { … }`, or return `bm25(…) as score`"
        scope.diagnostics.error("T35", problem, written.span, advice)
        return None
    else:
        column = _check_value(written, scope)
    if column is None or projection.alias is None:
        return column
    return replace(column, name=projection.alias.text, is_aliased=True)


def _unnamed(name: str, expression: Operand | Aggregate | Ranking, type: PropertyType) -> Column:
    return Column(name, expression, type, is_aliased=False)


def _check_value(written: Expression, scope: Scope) -> Column | None:
    if isinstance(written, Name):
        problem = f"`{written.text}` is no value that could be returned"
        advice = advise_bare_word(written, scope) or f"an alias is written `… as {written.text}`"
        if written.text == "distinct":
            advice = "write `return distinct { … }`"
        scope.diagnostics.error("T35", problem, written.span, advice)
        return None
    operand = resolve_operand(written, scope)
    if operand is None:
        return None
    type = type_of(operand) or STRING.as_nullable()
    if type.is_blob:
        report_blob(written.span, scope)
        return None
    return _unnamed(default_name(operand), operand, type)


def report_blob(span: Span, scope: Scope) -> None:
    """Report a blob where a value is needed."""
    problem = "a Blob cannot be read in a query"
    scope.diagnostics.error("T24", problem, span, "read it with the blob API, by the node's id")


def default_name(operand: Operand) -> str:
    """The name of a column that has no alias."""
    match operand:
        case PropertyValue(variable=variable, property=name):
            return f"{variable}.{name}"
        case EntityId(variable=name) | ParameterValue(name=name):
            return name
        case Constant():
            return "literal"
        case Now():
            return NOW_PARAMETER


def _check_aggregate(call: Call, scope: Scope) -> Column | None:
    function = AggregateFunction(call.function.text)
    if call.has_star and not call.arguments:
        if function is AggregateFunction.COUNT and not call.is_distinct:
            return _unnamed("count", Aggregate(function, None, is_distinct=False), _COUNT)
        problem, advice = "`*` counts rows", "write `count(*)`"
        scope.diagnostics.error("P7", problem, call.span, advice)
        return None
    if len(call.arguments) != 1 or call.has_star:
        problem, advice = f"{function}() takes one argument", f"write `{function}($v.property)`"
        scope.diagnostics.error("P7", problem, call.span, advice)
        return None
    if call.is_distinct and function is not AggregateFunction.COUNT:
        problem = f"only count takes `distinct`, not {function}"
        scope.diagnostics.error("P7", problem, call.span)
        return None
    argument = _resolve_argument(call.arguments[0], scope)
    if argument is None:
        return None
    type = _aggregate_type(function, argument, call, scope)
    if type is None:
        return None
    return _unnamed(default_name(argument), Aggregate(function, argument, call.is_distinct), type)


def _resolve_argument(written: Expression, scope: Scope) -> PropertyValue | EntityId | None:
    """What an aggregate looks at; unlike elsewhere, an edge variable stands for its edges."""
    match written:
        case PropertyAccess():
            return resolve_property(written, scope)
        case Variable(name=name) if name not in scope.parameters:
            bound = scope.variables.get(name)
            if bound is not None:
                return EntityId(name, bound.type.kind, bound.type.name, bound.is_optional)
            scope.report_unbound("T31", written)
        case _:
            problem = "an aggregate takes a property or a variable of the pattern"
            advice = "rows are counted by `count(*)`" if isinstance(written, Literal) else None
            scope.diagnostics.error("T8", problem, written.span, advice)
    return None


def _aggregate_type(
    function: AggregateFunction,
    argument: PropertyValue | EntityId,
    call: Call,
    scope: Scope,
) -> PropertyType | None:
    type = type_of(argument)
    assert type is not None
    if type.is_blob:
        report_blob(call.span, scope)
        return None
    if function is AggregateFunction.COUNT:
        return _COUNT
    if isinstance(argument, EntityId) and argument.kind is TypeKind.EDGE:
        problem = f"an edge variable can be counted, not used in {function}()"
        scope.diagnostics.error("T23", problem, call.span)
        return None
    is_sum = function in {AggregateFunction.SUM, AggregateFunction.AVG}
    if type.is_number or (type.is_string and not is_sum):
        return F64.as_nullable() if is_sum else type.as_nullable()
    needed = "a number" if is_sum else "a number or a String"
    scope.diagnostics.error("T8", f"{function}() takes {needed}, not {type}", call.span)
    return None


def _require_group_keys(read: Read, columns: Sequence[Column], scope: Scope) -> None:
    """Beside an aggregate only properties, variables and parameters can be group keys."""
    if not any(isinstance(column.expression, Aggregate) for column in columns):
        return
    for projection in read.projections:
        written = projection.expression
        is_aggregate = isinstance(written, Call) and written.function.text in AGGREGATES
        if not is_aggregate and not isinstance(written, PropertyAccess | Variable | Name):
            problem = "beside an aggregate only properties and variables can be returned"
            scope.diagnostics.error("T9", problem, written.span)
