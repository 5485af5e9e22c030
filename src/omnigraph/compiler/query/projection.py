"""The checker of query results: returned columns, aggregates, sort order, `limit` and `offset`.

Compilation decides whether every requested column can be returned and ordered, so that a running
query never fails for that reason. Column names of a result are distinct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count

from omnigraph.compiler import ir
from omnigraph.compiler.parser import Literal, Name
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.conditions import RANKINGS, TEXT_FUNCTIONS, check_ranking
from omnigraph.compiler.query.expressions import (
    FUNCTIONS,
    NOW_PARAMETER,
    Scope,
    advise_bare_word,
    report_undeclared,
    report_unknown_function,
    resolve_operand,
    resolve_property,
    type_of,
)
from omnigraph.model.catalog import TypeKind
from omnigraph.model.source import Span
from omnigraph.model.types import F64, I64, STRING, PropertyType

AGGREGATES = frozenset(str(function) for function in ir.AggregateFunction)

_LITERAL = "literal"

_COUNT = I64.as_nullable()
"""Every aggregate is nullable in a result, even `count`, which is never null."""


def check_columns(read: ast.Read, scope: Scope) -> tuple[ir.Column, ...] | None:
    """Check the columns of a read; `None` after reporting that some are invalid."""
    projected = [_check_projection(each, scope) for each in read.projections]
    columns = tuple(column for column in projected if column is not None)
    _require_group_keys(read, columns, scope)
    if len(columns) < len(projected):
        return None
    columns = _number_literals(columns)
    _require_distinct_names(read, columns, scope)
    return columns


def _number_literals(columns: tuple[ir.Column, ...]) -> tuple[ir.Column, ...]:
    """The columns with a name for each literal: `literal`, then `literal_2`, and so on."""
    taken = {column.name for column in columns if not _is_unnamed_literal(column)}
    candidates = chain([_LITERAL], (f"{_LITERAL}_{number}" for number in count(2)))
    names = (name for name in candidates if name not in taken)
    return tuple(
        replace(column, name=next(names)) if _is_unnamed_literal(column) else column
        for column in columns
    )


def _is_unnamed_literal(column: ir.Column) -> bool:
    return isinstance(column.expression, ir.Constant) and not column.is_aliased


def _require_distinct_names(read: ast.Read, columns: Sequence[ir.Column], scope: Scope) -> None:
    """Report columns with the same name: a row as JSON would contain only one of them."""
    seen: set[str] = set()
    for column, projection in zip(columns, read.projections, strict=True):
        if column.name in seen:
            named = projection.alias or projection.expression
            problem = f"two columns have the name `{column.name}`"
            advice = (
                "choose another alias" if column.is_aliased else "give it an alias: `… as name`"
            )
            scope.diagnostics.error("T26", problem, named.span, advice)
        seen.add(column.name)


def _check_projection(projection: ast.Projection, scope: Scope) -> ir.Column | None:
    written = projection.expression
    column: ir.Column | None
    if isinstance(written, ast.Call) and written.function.text in AGGREGATES:
        column = _check_aggregate(written, scope)
    elif isinstance(written, ast.Call) and written.function.text in RANKINGS:
        ranking = check_ranking(written, scope)
        if ranking is None:
            return None
        column = ir.Column(written.function.text, ranking, F64.as_nullable(), is_aliased=False)
    elif isinstance(written, ast.Call) and written.function.text in TEXT_FUNCTIONS:
        problem = f"{written.function.text}() finds rows and gives no value to return"
        advice = "use it in `match { … }`, or return `bm25(…) as score`"
        scope.diagnostics.error("T35", problem, written.span, advice)
        return None
    else:
        column = _check_value(written, scope)
    if column is None or projection.alias is None:
        return column
    return replace(column, name=projection.alias.text, is_aliased=True)


def _check_value(written: ast.Expression, scope: Scope) -> ir.Column | None:
    if isinstance(written, Name):
        problem = f"`{written.text}` is not a value that can be returned"
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
        _report_blob(written.span, scope)
        return None
    return ir.Column(_default_name(operand, written), operand, type, is_aliased=False)


def _report_blob(span: Span, scope: Scope) -> None:
    problem = "a Blob cannot be read in a query"
    scope.diagnostics.error("T24", problem, span, "read it with the blob API, by the node's id")


def _default_name(operand: ir.Operand, written: ast.Expression) -> str:
    """The name of a column without an alias.

    A property is named as it is written, because an earlier schema may have another name for it.
    """
    if isinstance(written, ast.PropertyAccess):
        return f"{written.variable.name}.{written.property.text}"
    match operand:
        case ir.PropertyValue(variable=variable, property=name):
            return f"{variable}.{name}"
        case ir.EntityId(variable=name) | ir.ParameterValue(name=name):
            return name
        case ir.Constant():
            return _LITERAL
        case ir.Now():
            return NOW_PARAMETER


def _check_aggregate(call: ast.Call, scope: Scope) -> ir.Column | None:
    function = ir.AggregateFunction(call.function.text)
    if call.has_star and not call.arguments:
        if function is ir.AggregateFunction.COUNT and not call.is_distinct:
            row_count = ir.Aggregate(function, None, is_distinct=False)
            return ir.Column("count", row_count, _COUNT, is_aliased=False)
        problem, advice = "`*` counts rows", "write `count(*)`"
        scope.diagnostics.error("P7", problem, call.span, advice)
        return None
    if len(call.arguments) != 1 or call.has_star:
        problem, advice = f"{function}() takes one argument", f"write `{function}($v.property)`"
        scope.diagnostics.error("P7", problem, call.span, advice)
        return None
    if call.is_distinct and function is not ir.AggregateFunction.COUNT:
        problem = f"only count takes `distinct`, not {function}"
        scope.diagnostics.error("P7", problem, call.span)
        return None
    argument = _resolve_argument(call.arguments[0], scope)
    if argument is None:
        return None
    type = _aggregate_type(function, argument, call, scope)
    if type is None:
        return None
    name = _default_name(argument, call.arguments[0])
    return ir.Column(
        name, ir.Aggregate(function, argument, call.is_distinct), type, is_aliased=False
    )


def _resolve_argument(
    written: ast.Expression, scope: Scope
) -> ir.PropertyValue | ir.EntityId | None:
    """The argument of an aggregate; only here may an edge variable represent its edges."""
    match written:
        case ast.PropertyAccess():
            return resolve_property(written, scope)
        case ast.Variable(name=name) if name not in scope.parameters:
            bound = scope.variables.get(name)
            if bound is not None:
                return ir.EntityId(name, bound.type.kind, bound.type.name, bound.is_optional)
            scope.report_unbound("T31", written)
        case _:
            problem = "an aggregate takes a property or a variable of the pattern"
            advice = "rows are counted by `count(*)`" if isinstance(written, Literal) else None
            scope.diagnostics.error("T8", problem, written.span, advice)
    return None


def _aggregate_type(
    function: ir.AggregateFunction,
    argument: ir.PropertyValue | ir.EntityId,
    call: ast.Call,
    scope: Scope,
) -> PropertyType | None:
    type = type_of(argument)
    assert type is not None
    if type.is_blob:
        _report_blob(call.span, scope)
        return None
    if function is ir.AggregateFunction.COUNT:
        return _COUNT
    if isinstance(argument, ir.EntityId):
        is_edge = argument.kind is TypeKind.EDGE
        word = "an edge" if is_edge else "a node"
        problem = f"{word} variable can be counted, not used in {function}()"
        advice = f"name a property: `{function}(${argument.variable}.…)`"
        scope.diagnostics.error("T23" if is_edge else "T8", problem, call.span, advice)
        return None
    is_sum = function in {ir.AggregateFunction.SUM, ir.AggregateFunction.AVG}
    if type.is_number or (type.is_string and not is_sum):
        return F64.as_nullable() if is_sum else type.as_nullable()
    needed = "a number" if is_sum else "a number or a String"
    scope.diagnostics.error("T8", f"{function}() takes {needed}, not {type}", call.span)
    return None


def _require_group_keys(read: ast.Read, columns: Sequence[ir.Column], scope: Scope) -> None:
    """Report columns beside an aggregate that are not properties, variables or parameters."""
    if not any(isinstance(column.expression, ir.Aggregate) for column in columns):
        return
    for projection in read.projections:
        written = projection.expression
        is_aggregate = isinstance(written, ast.Call) and written.function.text in AGGREGATES
        if not is_aggregate and not isinstance(written, ast.PropertyAccess | ast.Variable | Name):
            problem = "beside an aggregate only properties and variables can be returned"
            scope.diagnostics.error("T9", problem, written.span)


def check_order(
    read: ast.Read, columns: tuple[ir.Column, ...], scope: Scope
) -> tuple[ir.Ranking | None, tuple[ir.SortKey, ...]]:
    """Check the order of a read; returns its ranking or its sort keys."""
    ranking, keys = _OrderCheck(read, columns, scope).check()
    for column, projection in zip(columns, read.projections, strict=True):
        if isinstance(column.expression, ir.Rrf) and column.expression != ranking:
            problem = "the score of rrf() exists only where the query is ordered by it"
            advice = f"write `order {{ {column.name} }} limit 10`"
            scope.diagnostics.error("T35", problem, projection.expression.span, advice)
    return ranking, keys


class _OrderCheck:
    """The checker of the order of one read against its columns."""

    def __init__(self, read: ast.Read, columns: tuple[ir.Column, ...], scope: Scope) -> None:
        self._read = read
        self._columns = columns
        # Rows that are grouped or made distinct retain only their columns.
        self._is_condensed = read.is_distinct or any(
            isinstance(column.expression, ir.Aggregate) for column in columns
        )
        self._position_by_name = {column.name: i for i, column in enumerate(columns)}
        self._has_alias = any(isinstance(each.expression, Name) for each in read.orderings)
        self._scope = scope
        self._diagnostics = scope.diagnostics

    def check(self) -> tuple[ir.Ranking | None, tuple[ir.SortKey, ...]]:
        orderings = self._read.orderings
        if orderings and self._is_ranking(orderings[0].expression):
            return self._check_ranking(orderings[0], orderings[1:]), ()
        keys: list[ir.SortKey] = []
        for each in orderings:
            if self._is_ranking(each.expression):
                self._report_late_ranking(each.expression)
                continue
            expression = self._check_key(each.expression)
            if expression is not None:
                is_descending = each.direction is not None and each.direction.text == "desc"
                keys.append(ir.SortKey(expression, is_descending))
        return None, tuple(keys)

    def _report_late_ranking(self, written: ast.Expression) -> None:
        ranking = self._resolve_ranking(written)
        if isinstance(ranking, ir.Nearest) and self._has_alias:
            self._report_mixed(written.span)
        elif ranking is not None:
            problem = "a ranking must be the first thing in `order`"
            self._diagnostics.error("T35", problem, written.span, "remove the keys before it")

    def _is_ranking(self, written: ast.Expression) -> bool:
        if isinstance(written, ast.Call):
            return written.function.text in RANKINGS
        return self._find_ranking(written) is not None

    def _find_ranking(self, written: ast.Expression) -> ir.Ranking | None:
        """The ranking that an alias refers to."""
        found = self._find_column(written.text) if isinstance(written, Name) else None
        if found is None or not isinstance(found[1].expression, ir.Nearest | ir.Bm25 | ir.Rrf):
            return None
        return found[1].expression

    def _resolve_ranking(self, written: ast.Expression) -> ir.Ranking | None:
        if isinstance(written, ast.Call):
            return check_ranking(written, self._scope)
        return self._find_ranking(written)

    def _find_column(self, name: str) -> tuple[int, ir.Column] | None:
        position = self._position_by_name.get(name)
        return None if position is None else (position, self._columns[position])

    def _check_ranking(
        self, first: ast.Ordering, rest: Sequence[ast.Ordering]
    ) -> ir.Ranking | None:
        written = first.expression
        ranking = self._resolve_ranking(written)
        if ranking is None:
            return None
        if self._is_condensed:
            problem = "rows that are grouped or made distinct can no longer be ranked"
            self._diagnostics.error("T35", problem, written.span)
        self._check_direction(first, ranking)
        if self._read.limit is None and isinstance(ranking, ir.Nearest | ir.Rrf):
            word, code = ("nearest", "T17") if isinstance(ranking, ir.Nearest) else ("rrf", "T21")
            self._diagnostics.error(code, f"{word}() needs a limit", written.span, "add `limit 10`")
        self._check_rest(rest, ranking)
        return ranking

    def _check_direction(self, first: ast.Ordering, ranking: ir.Ranking) -> None:
        direction = first.direction
        if direction is None:
            return
        if isinstance(ranking, ir.Nearest):
            # The alias of a distance is an ordinary number, and ascending is its natural order.
            if direction.text == "asc" and isinstance(first.expression, Name):
                return
            problem = "nearest() takes no direction; the nearest comes first"
            self._diagnostics.error("P7", problem, direction.span, "remove it")
        elif direction.text == "asc":
            problem = "the direction of a ranking is ignored; the best comes first"
            self._diagnostics.warn("W2", problem, direction.span, "remove it")

    def _check_rest(self, rest: Sequence[ast.Ordering], ranking: ir.Ranking) -> None:
        for each in rest:
            written = each.expression
            if isinstance(written, Name) and isinstance(ranking, ir.Nearest):
                self._report_mixed(written.span)
                continue
            # An error is reported although the expression would have no effect.
            resolve = self._resolve_ranking if self._is_ranking(written) else self._check_key
            if resolve(written) is not None:
                problem = "keys after a ranking are ignored; ties are broken by id"
                self._diagnostics.warn("W2", problem, written.span, "remove it")

    def _report_mixed(self, span: Span) -> None:
        problem = "nearest() cannot be combined with an ordering by alias"
        self._diagnostics.error("T18", problem, span, "remove one of them")

    def _check_key(self, written: ast.Expression) -> ir.PropertyValue | ir.ColumnReference | None:
        match written:
            case Name(text=name, span=span):
                return self._check_alias(name, span)
            case ast.PropertyAccess():
                return self._check_property(written)
            case ast.Call(function=function) if function.text in AGGREGATES:
                advice = f"return `{function.text}(…) as n` and order by `n`"
            case ast.Call(function=function) if function.text not in FUNCTIONS:
                report_unknown_function(written, self._scope)
                return None
            case ast.Variable(name=name):
                # This reports an edge variable, which is never valid without a property.
                if resolve_operand(written, self._scope) is None:
                    return None
                advice = f"order by a property: `${name}.…`"
            case _:
                advice = "order by a property or by the alias of a returned column"
        problem = "unsupported ordering expression"
        self._diagnostics.error("T35", problem, written.span, advice)
        return None

    def _check_alias(self, name: str, span: Span) -> ir.ColumnReference | None:
        found = self._find_column(name)
        if found is None:
            # Only an alias is a bare word; other columns are written as in `return`.
            names = (c.name if c.is_aliased else f"${c.name}" for c in self._columns)
            self._diagnostics.unknown("T36", f"alias '{name}' not found", span, name, names)
            return None
        position, column = found
        return ir.ColumnReference(position) if self._is_orderable(column.type, span) else None

    def _check_property(
        self, written: ast.PropertyAccess
    ) -> ir.PropertyValue | ir.ColumnReference | None:
        prop = resolve_property(written, self._scope)
        if prop is None or not self._is_orderable(prop.type, written.span):
            return None
        if not self._is_condensed:
            return prop
        found = self._find_column(_default_name(prop, written))
        if found is not None:
            return ir.ColumnReference(found[0])
        aliases = [column.name for column in self._columns if column.expression == prop]
        problem = f"`${prop.variable}.{prop.property}` not found for ordering among the columns"
        advice = f"order by `{aliases[0]}`" if aliases else "return it too, then order by it"
        self._diagnostics.error("T36", problem, written.span, advice)
        return None

    def _is_orderable(self, type: PropertyType, span: Span) -> bool:
        if type.is_blob:
            _report_blob(span, self._scope)
        elif not type.is_scalar:
            self._diagnostics.error("T35", f"{type} has no order", span)
        return type.is_scalar


def check_count(
    written: Literal | ast.Variable | None, scope: Scope
) -> ir.ParameterValue | ir.Constant | None:
    """The operand of `limit` or `offset`."""
    match written:
        case None:
            return None
        case Literal(value=int() as count, span=span):
            if count < 0:
                scope.diagnostics.error("T37", "the number of rows cannot be negative", span)
            return ir.Constant(count, I64)
        case ast.Variable(name=name, span=span):
            type = scope.parameters.get(name)
            if type is None:
                report_undeclared(written, scope, "T37")
            elif not type.is_integer or type.is_nullable:
                problem = f"the number of rows is a whole number, not {type}"
                scope.diagnostics.error("T37", problem, span, f"declare `${name}: I64`")
            else:
                return ir.ParameterValue(name, type)
        case Literal():
            raise AssertionError("the grammar allows whole numbers only")
    return None
