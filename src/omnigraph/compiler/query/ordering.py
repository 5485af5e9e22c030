"""In which order a read returns its rows: a ranking or sort keys, and a window of them.

Decides here, and not when the query runs, whether what is returned can be ordered so.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.compiler.ir import (
    Aggregate,
    Bm25,
    Column,
    ColumnReference,
    Constant,
    Nearest,
    ParameterValue,
    PropertyValue,
    Ranking,
    Rrf,
    SortKey,
)
from omnigraph.compiler.query.operands import (
    FUNCTIONS,
    report_undeclared,
    report_unknown_function,
    resolve_operand,
    resolve_property,
)
from omnigraph.compiler.query.projections import AGGREGATES, default_name, report_blob
from omnigraph.compiler.query.scope import Scope
from omnigraph.compiler.query.search import RANKINGS, check_ranking, contains_nearest
from omnigraph.compiler.query.syntax import (
    Call,
    Expression,
    Literal,
    Name,
    Ordering,
    PropertyAccess,
    Read,
    Variable,
)
from omnigraph.model.source import Span
from omnigraph.model.types import I64, PropertyType


def check_order(
    read: Read, columns: tuple[Column, ...], scope: Scope
) -> tuple[Ranking | None, tuple[SortKey, ...]]:
    """The ranking of a read, or its sort keys."""
    ranking, keys = _OrderCheck(read, columns, scope).check()
    _require_returnable_scores(read, columns, ranking, scope)
    return ranking, keys


class _OrderCheck:
    """The order of one read, checked against its columns."""

    def __init__(self, read: Read, columns: tuple[Column, ...], scope: Scope) -> None:
        self._read = read
        self._columns = columns
        # Rows that were grouped or made distinct have nothing left but their columns.
        self._is_condensed = read.is_distinct or any(
            isinstance(column.expression, Aggregate) for column in columns
        )
        # A row as JSON keeps the last of two columns with one name, so that one is meant.
        self._position_by_name = {column.name: i for i, column in enumerate(columns)}
        self._has_alias = any(isinstance(each.expression, Name) for each in read.orderings)
        self._scope = scope
        self._diagnostics = scope.diagnostics

    def check(self) -> tuple[Ranking | None, tuple[SortKey, ...]]:
        """The ranking, or the sort keys."""
        orderings = self._read.orderings
        if orderings and self._is_ranking(orderings[0].expression):
            return self._check_ranking(orderings[0], orderings[1:]), ()
        keys: list[SortKey] = []
        for each in orderings:
            if self._is_ranking(each.expression):
                self._report_late_ranking(each.expression)
                continue
            expression = self._check_key(each.expression)
            if expression is not None:
                is_descending = each.direction is not None and each.direction.text == "desc"
                keys.append(SortKey(expression, is_descending))
        return None, tuple(keys)

    def _report_late_ranking(self, written: Expression) -> None:
        ranking = self._resolve_ranking(written)
        is_nearest = ranking is not None and contains_nearest(ranking)
        if is_nearest and self._has_alias:
            self._report_mixed(written.span)
        elif ranking is not None:
            problem = "a ranking must be the first thing in `order`"
            self._diagnostics.error("T35", problem, written.span, "remove what stands before it")

    def _is_ranking(self, written: Expression) -> bool:
        if isinstance(written, Call):
            return written.function.text in RANKINGS
        return self._find_ranking(written) is not None

    def _find_ranking(self, written: Expression) -> Ranking | None:
        """The ranking that an alias stands for."""
        found = self._find_column(written.text) if isinstance(written, Name) else None
        if found is None or not isinstance(found[1].expression, Nearest | Bm25 | Rrf):
            return None
        return found[1].expression

    def _resolve_ranking(self, written: Expression) -> Ranking | None:
        if isinstance(written, Call):
            return check_ranking(written, self._scope)
        return self._find_ranking(written)

    def _find_column(self, name: str) -> tuple[int, Column] | None:
        position = self._position_by_name.get(name)
        return None if position is None else (position, self._columns[position])

    def _check_ranking(self, first: Ordering, rest: Sequence[Ordering]) -> Ranking | None:
        written = first.expression
        ranking = self._resolve_ranking(written)
        if ranking is None:
            return None
        if self._is_condensed:
            problem = "rows that are grouped or made distinct can no longer be ranked"
            self._diagnostics.error("T35", problem, written.span)
        self._check_direction(first, ranking)
        self._check_window(written, ranking)
        self._check_rest(rest, ranking)
        return ranking

    def _check_direction(self, first: Ordering, ranking: Ranking) -> None:
        direction = first.direction
        if direction is None:
            return
        if isinstance(ranking, Nearest):
            # The alias of a distance is a number like any other, and ascending is how it comes.
            if direction.text == "asc" and isinstance(first.expression, Name):
                return
            problem = "nearest() takes no direction; the nearest comes first"
            self._diagnostics.error("P7", problem, direction.span, "remove it")
        elif direction.text == "asc":
            problem = "the direction of a ranking is ignored; the best comes first"
            self._diagnostics.warn("W2", problem, direction.span, "remove it")

    def _check_window(self, written: Expression, ranking: Ranking) -> None:
        if self._read.limit is not None:
            return
        if isinstance(ranking, Nearest):
            problem = "nearest() needs a limit: how many are wanted?"
            self._diagnostics.error("T17", problem, written.span, "add `limit 10`")
        elif isinstance(ranking, Rrf):
            problem = "rrf() needs a limit: how many are wanted?"
            self._diagnostics.error("T21", problem, written.span, "add `limit 10`")

    def _check_rest(self, rest: Sequence[Ordering], ranking: Ranking) -> None:
        for each in rest:
            span = each.expression.span
            if isinstance(each.expression, Name) and contains_nearest(ranking):
                self._report_mixed(span)
            else:
                problem = "what follows a ranking is ignored; ties are broken by id"
                self._diagnostics.warn("W2", problem, span, "remove it")

    def _report_mixed(self, span: Span) -> None:
        problem = "nearest() cannot be combined with an ordering by alias"
        self._diagnostics.error("T18", problem, span, "remove one of them")

    def _check_key(self, written: Expression) -> PropertyValue | ColumnReference | None:
        match written:
            case Name(text=name, span=span):
                return self._check_alias(name, span)
            case PropertyAccess():
                return self._check_property(written)
            case Call(function=function) if function.text in AGGREGATES:
                advice = f"return `{function.text}(…) as n` and order by `n`"
            case Call(function=function) if function.text not in FUNCTIONS:
                report_unknown_function(written, self._scope)
                return None
            case Variable(name=name):
                # Reports an edge variable, which cannot stand alone anywhere.
                if resolve_operand(written, self._scope) is None:
                    return None
                advice = f"order by a property: `${name}.…`"
            case _:
                advice = "order by a property or by the alias of a returned column"
        problem = "unsupported ordering expression"
        self._diagnostics.error("T35", problem, written.span, advice)
        return None

    def _check_alias(self, name: str, span: Span) -> ColumnReference | None:
        found = self._find_column(name)
        if found is None:
            # Only an alias is a word; what has none is written like in `return`.
            names = (c.name if c.is_aliased else f"${c.name}" for c in self._columns)
            self._diagnostics.unknown("T36", f"alias '{name}' not found", span, name, names)
            return None
        position, column = found
        return ColumnReference(position) if self._is_orderable(column.type, span) else None

    def _check_property(self, written: PropertyAccess) -> PropertyValue | ColumnReference | None:
        prop = resolve_property(written, self._scope)
        if prop is None or not self._is_orderable(prop.type, written.span):
            return None
        if not self._is_condensed:
            return prop
        found = self._find_column(default_name(prop))
        if found is not None:
            return ColumnReference(found[0])
        aliases = [column.name for column in self._columns if column.expression == prop]
        problem = f"`${prop.variable}.{prop.property}` not found for ordering among the columns"
        advice = f"order by `{aliases[0]}`" if aliases else "return it too, then order by it"
        self._diagnostics.error("T36", problem, written.span, advice)
        return None

    def _is_orderable(self, type: PropertyType, span: Span) -> bool:
        if type.is_blob:
            report_blob(span, self._scope)
        elif not type.is_scalar:
            self._diagnostics.error("T35", f"{type} has no order", span)
        return type.is_scalar


def check_count(
    written: Literal | Variable | None, scope: Scope
) -> ParameterValue | Constant | None:
    """The operand of `limit` or `offset`."""
    match written:
        case None:
            return None
        case Literal(value=int() as count, span=span):
            if count < 0:
                scope.diagnostics.error("T37", "the number of rows cannot be negative", span)
            return Constant(count, I64)
        case Variable(name=name, span=span):
            type = scope.parameters.get(name)
            if type is None:
                report_undeclared(written, scope, "T37")
            elif not type.is_integer or type.is_nullable:
                problem = f"the number of rows is a whole number, not {type}"
                scope.diagnostics.error("T37", problem, span, f"declare `${name}: I64`")
            else:
                return ParameterValue(name, type)
        case Literal():
            raise AssertionError("the grammar allows whole numbers only")
    return None


def _require_returnable_scores(
    read: Read, columns: Sequence[Column], ranking: Ranking | None, scope: Scope
) -> None:
    for column, projection in zip(columns, read.projections, strict=True):
        if isinstance(column.expression, Rrf) and column.expression != ranking:
            problem = "the score of rrf() exists only where the query is ordered by it"
            advice = f"write `order {{ {column.name} }} limit 10`"
            scope.diagnostics.error("T35", problem, projection.expression.span, advice)
