"""The output of a read: matched rows become columns, in groups or ranked, in one order.

Rows are sorted as ordinals and integers; values are read only for the rows that are returned,
unless grouping or sorting needs them. Every result has one order, independent of the executor: sort
keys first, then ids of the bound variables or, for grouped and distinct rows, their columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.compiler.ir import (
    Aggregate,
    AggregateFunction,
    Bm25,
    Column,
    ColumnReference,
    Constant,
    EntityId,
    Nearest,
    Now,
    ParameterValue,
    PropertyValue,
    ReadIR,
    Rrf,
    SortKey,
)
from omnigraph.engine.read.aggregate import Groups, aggregate, group_rows
from omnigraph.engine.read.budget import Budget
from omnigraph.engine.read.entities import (
    UNBOUND,
    Indexes,
    Ordinals,
    distinct_ordinals,
)
from omnigraph.engine.read.filter import Filter
from omnigraph.engine.read.ordering import order_keys, sort_rows, without_signed_zeros
from omnigraph.engine.read.plan import Plan, counts_rows, ranked_variable
from omnigraph.engine.read.ranking import Ranked, Ranker
from omnigraph.engine.read.relation import Relation
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.model.errors import InvalidValueError
from omnigraph.storage.row_files import arrow_type


@dataclass(frozen=True, slots=True)
class Output:
    """Builds the result of one read from its matched rows."""

    plan: Plan
    matcher: Filter
    ranker: Ranker
    budget: Budget

    def table(self, relation: Relation, indexes: Indexes) -> pa.Table:
        """The result as a table; column names may repeat."""
        ir = self.plan.ir
        window = find_window(ir, self.matcher.inputs)
        rows = _Rows(self, relation, indexes, None)
        if ir.is_aggregate:
            columns = rows.grouped(window)
        elif ir.is_distinct:
            columns = rows.distinct(window)
        elif ir.ranking is not None:
            columns = self._ranked(relation, indexes, window)
        else:
            columns = rows.plain((), window)
        typed = [
            _as_declared(each, column) for each, column in zip(columns, ir.columns, strict=True)
        ]
        return pa.Table.from_arrays(typed, names=[column.name for column in ir.columns])

    def _ranked(self, relation: Relation, indexes: Indexes, window: Window) -> list[pa.Array]:
        ranking = self.plan.ir.ranking
        assert ranking is not None
        variable = ranked_variable(ranking)
        ordinals, index = relation.ordinals[variable], indexes[variable]
        entities = distinct_ordinals(ordinals, size=index.size)
        ranked = self.ranker.rank(ranking, entities, index, wanted=window.stop)
        rank = np.full(index.size + 1, UNBOUND, np.int64)
        rank[ranked.ordinals] = np.arange(len(ranked.ordinals))
        places = rank[ordinals]
        is_ranked = places != UNBOUND
        rows = _Rows(self, relation.take(is_ranked), indexes, ranked)
        return rows.plain((places[is_ranked],), window)


@dataclass(frozen=True, slots=True)
class Window:
    """The range of ordered rows that are returned."""

    start: int
    stop: int | None


def find_window(ir: ReadIR, inputs: Inputs) -> Window:
    """The window that the offset and limit of a read define.

    A negative offset or limit raises `InvalidValueError`.
    """
    start = _count(inputs, ir.offset, "offset")
    length = _count(inputs, ir.limit, "limit")
    return Window(start or 0, None if length is None else (start or 0) + length)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Matched rows before output; `ranked` are the entities that order them, None if unranked."""

    output: Output
    relation: Relation
    indexes: Indexes
    ranked: Ranked | None

    @property
    def ir(self) -> ReadIR:
        return self.output.plan.ir

    # Ungrouped rows

    def plain(self, first_keys: Sequence[Ordinals], window: Window) -> list[pa.Array]:
        """The columns of the rows in the window."""
        keys = [*first_keys, *(self._sort_key(key) for key in self.ir.order)]
        rows = self
        if keys and window.stop is not None:
            # Rows that cannot be in the window need no tie-breaker.
            places = _contenders(keys[0], window.stop)
            rows, keys = self.take(places), [key[places] for key in keys]
        if rows.relation.count > 1:
            keys += [rows.id_keys(name) for name in self.output.plan.ordering_variables]
        order = rows.order(keys, window)
        self.output.budget.require_rows(len(order), width=len(self.ir.columns))
        returned = rows.take(order)
        return [returned.column(column) for column in self.ir.columns]

    def order(self, keys: Sequence[Ordinals], window: Window) -> Ordinals:
        weights = self.relation.weights
        if weights is None:
            return sort_rows(keys, count=self.relation.count, start=window.start, stop=window.stop)
        ordered = sort_rows(keys, count=self.relation.count, start=0, stop=window.stop)
        # The weight of a row may exceed the size of the window, so only rows in the window are
        # expanded.
        ends = np.cumsum(weights[ordered])
        total = int(ends[-1]) if len(ends) else 0
        stop = total if window.stop is None else min(window.stop, total)
        self.output.budget.require_rows(max(stop - window.start, 0), width=1)
        return ordered[np.searchsorted(ends, np.arange(window.start, stop), side="right")]

    def id_keys(self, variable: str) -> Ordinals:
        return self.indexes[variable].id_keys(self.relation.ordinals[variable])

    def _sort_key(self, key: SortKey) -> Ordinals:
        expression = key.expression
        if isinstance(expression, ColumnReference):
            values = self.column(self.ir.columns[expression.position])
        else:
            values = self._values(expression)
        return order_keys(values, is_descending=key.is_descending)

    # Grouped rows

    def grouped(self, window: Window) -> list[pa.Array]:
        """One row for each group, with its keys and aggregates."""
        is_key = [not isinstance(column.expression, Aggregate) for column in self.ir.columns]
        groups = self._groups(
            column for column, k in zip(self.ir.columns, is_key, strict=True) if k
        )
        if any(is_key) and not self.relation.count:
            groups = Groups(groups.codes, 0, groups.first)
        first = self.take(groups.first)
        columns = [
            self._aggregate(column.expression, groups)
            if isinstance(column.expression, Aggregate)
            else _shown(first.column(column))
            for column in self.ir.columns
        ]
        ties = [column for column, k in zip(columns, is_key, strict=True) if k]
        return self._arrange(columns, ties, groups.count, window)

    def distinct(self, window: Window) -> list[pa.Array]:
        """The distinct rows."""
        groups = self._groups(self.ir.columns)
        first = self.take(groups.first)
        columns = [_shown(first.column(column)) for column in self.ir.columns]
        return self._arrange(columns, columns, len(groups.first), window)

    def _arrange(
        self,
        columns: Sequence[pa.Array],
        ties: Sequence[pa.Array],
        count: int,
        window: Window,
    ) -> list[pa.Array]:
        keys = [
            order_keys(columns[_position(key)], is_descending=key.is_descending)
            for key in self.ir.order
        ]
        keys += [order_keys(each, is_descending=False) for each in ties]
        order = pa.array(sort_rows(keys, count=count, start=window.start, stop=window.stop))
        return [column.take(order) for column in columns]

    def _groups(self, columns: Iterable[Column]) -> Groups:
        keys = [self._group_key(column) for column in columns]
        return group_rows(keys, count=self.relation.count)

    def _group_key(self, column: Column) -> pa.Array | Ordinals:
        """The values of a column, or integers that are equal where the values are equal."""
        match column.expression:
            case EntityId(variable):
                return self.relation.ordinals[variable]
            case PropertyValue(variable) as operand:
                index = self.indexes[variable]
                if index.size + 1 >= self.relation.count:
                    return self._values(operand)
                every = np.append(index.every(), UNBOUND)
                entities = Relation(len(every), {variable: every}, None)
                values = self.output.matcher.values(operand, entities, self.indexes)
                return group_rows([values], count=len(every)).codes[
                    self.relation.ordinals[variable]
                ]
            case _:
                return self.column(column)

    def _aggregate(self, expression: Aggregate, groups: Groups) -> pa.Array:
        return aggregate(
            expression.function,
            None if counts_rows(expression) else self._argument(expression),
            groups=groups,
            weights=self.relation.weights,
            is_distinct=expression.is_distinct,
        )

    def _argument(self, expression: Aggregate) -> pa.Array | Ordinals:
        argument = expression.argument
        assert argument is not None, "only rows can be counted without an argument"
        if isinstance(argument, EntityId) and expression.function is AggregateFunction.COUNT:
            return self.relation.ordinals[argument.variable]
        return self._values(argument)

    # Values

    def take(self, places: Ordinals) -> _Rows:
        return _Rows(self.output, self.relation.take(places), self.indexes, self.ranked)

    def _values(self, operand: PropertyValue | EntityId) -> pa.Array:
        return self.output.matcher.values(operand, self.relation, self.indexes)

    def column(self, column: Column) -> pa.Array:
        match column.expression:
            case PropertyValue() | EntityId() | ParameterValue() | Constant() | Now() as operand:
                return self.output.matcher.values(operand, self.relation, self.indexes)
            case Nearest() | Bm25() as ranking:
                return self.output.ranker.scores(ranking, self.relation, self.indexes)
            case Rrf() as ranking:
                return self._fused_scores(ranking)
            case Aggregate():
                raise AssertionError("aggregates are computed for groups")

    def _fused_scores(self, ranking: Rrf) -> pa.Array:
        assert self.ranked is not None, "fused scores are returned only where they order the rows"
        variable = ranked_variable(ranking)
        scores = np.zeros(self.indexes[variable].size, np.float64)
        scores[self.ranked.ordinals] = self.ranked.scores
        return pa.array(scores[self.relation.ordinals[variable]])


def _contenders(key: Ordinals, stop: int) -> Ordinals:
    """The rows whose first key may put them among the first `stop` rows, ties included."""
    if stop >= len(key) or stop == 0:
        return np.arange(min(len(key), len(key) if stop else 0))
    return np.flatnonzero(key <= np.partition(key, stop - 1)[stop - 1])


def _position(key: SortKey) -> int:
    assert isinstance(key.expression, ColumnReference), "condensed rows have only their columns"
    return key.expression.position


def _shown(values: pa.Array) -> pa.Array:
    """The values that a group shows: -0.0 becomes 0.0, because the two are equal."""
    return without_signed_zeros(values)


def _as_declared(values: pa.Array, column: Column) -> pa.Array:
    declared = arrow_type(column.type)
    return values if values.type == declared else values.cast(declared)


def _count(inputs: Inputs, given: ParameterValue | Constant | None, word: str) -> int | None:
    value = None if given is None else inputs.value_of(given)
    if value is None:
        return None
    assert isinstance(value, int)
    if value < 0:
        raise InvalidValueError(
            subject=word, expected="a number from 0", value=value, problem=f"{value} is negative"
        )
    return value
