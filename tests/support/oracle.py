"""The oracle of reads: a naive interpreter of the IR over lists of Python values.

Shares the compiler with the engine and nothing below it. What is slow here is slow on purpose. A
read that makes too many rows on its way is given up with `TooManyRowsError`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from omnigraph.compiler.ir import (
    Aggregate,
    AggregateFunction,
    Bm25,
    Column,
    ColumnReference,
    Constant,
    EntityId,
    Expand,
    Nearest,
    NodeScan,
    Now,
    Operator,
    OptionalJoin,
    ParameterValue,
    PropertyValue,
    Ranking,
    ReadIR,
    Rrf,
    SortKey,
    Value,
)
from omnigraph.model.types import Vector
from tests.support.oracle_pipeline import Call, Pipeline, Row, variables_of
from tests.support.oracle_search import Library, distance, embed, fuse
from tests.support.oracle_values import (
    Measured,
    OrderKey,
    order_key,
    to_json,
    without_negative_zero,
)

Cells = tuple[Value, ...]

SCORE_SLACK = 1e-9
"""How far apart two ways of adding the same floats may end, relative to their sizes."""


@dataclass(frozen=True, slots=True)
class OracleResult:
    """The columns of a result, and its rows as JSON values in the order of the columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def evaluate(ir: ReadIR, call: Call, *, rows_max: int) -> OracleResult:
    """What a read must return, in exactly this order."""
    names = sorted({name for name in variables_of(ir.pipeline) if "'" not in name})
    matched = list(Pipeline(call, rows_max).run(ir.pipeline, [{}]))
    matched.sort(key=lambda row: [order_key(_id_of(row[name])) for name in names])
    output = _Output(ir, call)
    if ir.is_aggregate or ir.is_distinct:
        shown = output.condense(matched)
    elif ir.ranking is not None:
        shown = output.rank(matched, ir.ranking)
    else:
        shown = output.sort(matched)
    window = shown[output.offset :][: output.limit]
    types = [column.type for column in ir.columns]
    return OracleResult(
        tuple(column.name for column in ir.columns),
        tuple(tuple(map(to_json, cells, types)) for cells in window),
    )


def _id_of(entity: Mapping[str, Value] | None) -> Value:
    return None if entity is None else entity["id"]


class _Output:
    """Makes the rows of a result of the rows of a pattern."""

    def __init__(self, ir: ReadIR, call: Call) -> None:
        self._ir = ir
        self._call = call
        self._scores: Mapping[str, float] = {}
        offset = 0 if ir.offset is None else call.give(ir.offset)
        limit = sys.maxsize if ir.limit is None else call.give(ir.limit)
        assert isinstance(offset, int)
        assert isinstance(limit, int)
        self.offset = offset
        self.limit = limit

    # Plain reads

    def sort(self, rows: list[Row]) -> list[Cells]:
        """One row of the result for each of the pattern, by the sort keys."""
        paired = [(row, self._project(row)) for row in rows]
        # The last key first: each later sort keeps the order of what it finds equal.
        for key in reversed(self._ir.order):
            paired.sort(key=self._key_of_pair(key), reverse=key.is_descending)
        return [cells for _, cells in paired]

    def _key_of_pair(self, key: SortKey) -> Callable[[tuple[Row, Cells]], OrderKey]:
        match key.expression:
            case ColumnReference(position=position):
                return lambda pair: order_key(pair[1][position])
            case PropertyValue() as property:
                return lambda pair: order_key(self._call.read(property, pair[0]))

    def _project(self, row: Row) -> Cells:
        return tuple(self._evaluate(column, row) for column in self._ir.columns)

    def _evaluate(self, column: Column, row: Row) -> Value:
        match column.expression:
            case PropertyValue() | EntityId() | ParameterValue() | Constant() | Now() as operand:
                return self._call.read(operand, row)
            case Nearest() | Bm25() as ranking:
                return _measured(self._measure(ranking, row))
            case Rrf() as ranking:
                return _measured(self._scores.get(str(self._ranked_id(ranking, row))))
            case Aggregate():
                raise AssertionError("groups have aggregates, rows have none")

    # Groups

    def condense(self, rows: Sequence[Row]) -> list[Cells]:
        """Groups, or rows made distinct; by the sort keys, then by what makes them different."""
        if self._ir.is_aggregate:
            keys = [n for n, c in enumerate(self._ir.columns) if not _is_aggregate(c)]
            condensed = self._group(rows, keys)
        else:
            keys = list(range(len(self._ir.columns)))
            condensed = [self._project(row) for row in rows]
        if self._ir.is_distinct:
            keys = list(range(len(self._ir.columns)))
            condensed = list({_identity(cells, keys): cells for cells in condensed}.values())
        condensed = [
            tuple(
                without_negative_zero(cell) if position in keys else cell
                for position, cell in enumerate(cells)
            )
            for cells in condensed
        ]
        condensed.sort(key=lambda cells: _identity(cells, keys))
        for key in reversed(self._ir.order):
            assert isinstance(key.expression, ColumnReference)
            position = key.expression.position
            condensed.sort(key=_order_by(position), reverse=key.is_descending)
        return condensed

    def _group(self, rows: Sequence[Row], keys: Sequence[int]) -> list[Cells]:
        columns = self._ir.columns
        groups: dict[OrderKey, list[Row]] = {} if keys else {(): []}
        for row in rows:
            values = [self._evaluate(columns[position], row) for position in keys]
            groups.setdefault(tuple(map(order_key, values)), []).append(row)
        return [
            tuple(
                self._aggregate(column.expression, members)
                if isinstance(column.expression, Aggregate)
                else self._evaluate(column, members[0])
                for column in columns
            )
            for members in groups.values()
        ]

    def _aggregate(self, aggregate: Aggregate, rows: Sequence[Row]) -> Value:
        if aggregate.argument is None:
            return len(rows)
        every = [self._call.read(aggregate.argument, row) for row in rows]
        values = [value for value in every if value is not None]
        match aggregate.function:
            case AggregateFunction.COUNT if aggregate.is_distinct:
                return len(set(map(order_key, values)))
            case AggregateFunction.COUNT:
                return len(values)
            case AggregateFunction.SUM:
                return _add(values, share=1) if values else None
            case AggregateFunction.AVG:
                return _add(values, share=len(values)) if values else None
            case AggregateFunction.MIN:
                return _either_zero(min(values, key=order_key, default=None))
            case AggregateFunction.MAX:
                return _either_zero(max(values, key=order_key, default=None))

    # Rankings

    def rank(self, rows: Sequence[Row], ranking: Ranking) -> list[Cells]:
        """The rows of each ranked entity, the best entity first."""
        ids = self._rank_entities(rows, ranking)
        return [
            self._project(row) for id in ids for row in rows if self._ranked_id(ranking, row) == id
        ]

    def _rank_entities(self, rows: Sequence[Row], ranking: Ranking) -> list[str]:
        match ranking:
            case Nearest() | Bm25():
                return self._rank_arm(rows, ranking)
            case Rrf(primary=primary, secondary=secondary, k=given):
                k = self._call.give(given)
                assert isinstance(k, int)
                first, second = self._rank_arm(rows, primary), self._rank_arm(rows, secondary)
                self._scores = fuse(first, second, k)
                return list(self._scores)

    def _rank_arm(self, rows: Sequence[Row], arm: Nearest | Bm25) -> list[str]:
        ranked: dict[str, float] = {}
        for row in rows:
            measured = self._measure(arm, row)
            if isinstance(arm, Bm25) and not measured:
                continue
            if measured is not None:
                ranked[str(self._ranked_id(arm, row))] = measured
        sign = -1 if isinstance(arm, Bm25) else 1
        ids = sorted(ranked, key=lambda id: (sign * ranked[id], id.encode()))
        return ids[: self.offset + self.limit] if isinstance(arm, Nearest) else ids

    def _measure(self, arm: Nearest | Bm25, row: Row) -> float | None:
        """A distance or a score; null without a vector or text, and of a null query."""
        value, query = self._call.read(arm.field, row), self._call.give(arm.query)
        if value is None or query is None:
            return None
        match arm:
            case Nearest(field=field):
                if isinstance(query, str):
                    assert isinstance(field.type.element, Vector)
                    query = embed(query, field.type.element.dimension)
                return distance(value, query)
            case Bm25(field=field, language=language):
                assert isinstance(value, str)
                assert isinstance(query, str)
                type_name = _types_of(self._ir.pipeline)[field.variable]
                texts = [node[field.property] for node in self._call.rows_by_type[type_name]]
                there = [text for text in texts if isinstance(text, str)]
                return Library(there, language).score(value, query)

    def _ranked_id(self, ranking: Ranking, row: Row) -> Value:
        arm = ranking.primary if isinstance(ranking, Rrf) else ranking
        return _id_of(row[arm.field.variable])


def _types_of(operators: Sequence[Operator]) -> dict[str, str]:
    """The node type of each variable that a pipeline binds."""
    found: dict[str, str] = {}
    for operator in operators:
        match operator:
            case NodeScan(variable=variable, type_name=type_name):
                found[variable] = type_name
            case Expand(target=target, target_type=type_name):
                found[target] = type_name
            case OptionalJoin(inner=inner):
                found |= _types_of(inner)
            case _:
                pass
    return found


def _is_aggregate(column: Column) -> bool:
    return isinstance(column.expression, Aggregate)


def _identity(cells: Cells, keys: Sequence[int]) -> OrderKey:
    return tuple(order_key(cells[position]) for position in keys)


def _order_by(position: int) -> Callable[[Cells], OrderKey]:
    return lambda cells: order_key(cells[position])


def _measured(number: float | None) -> Value:
    return None if number is None else Measured(number, slack=SCORE_SLACK * abs(number))


def _either_zero(value: Value) -> Value:
    """An extreme value; which of two equal zeros it is depends on who looks first."""
    return Measured(value, slack=0.0) if isinstance(value, float) and value == 0 else value


def _add(values: Sequence[Value], *, share: int) -> Measured:
    """The exact sum, or a share of it, rounded once; infinities and NaN add up as floats do."""
    numbers = [value for value in values if isinstance(value, int | float)]
    unfinite = [number for number in numbers if not isfinite(number)]
    if unfinite:
        return Measured(sum(unfinite), slack=0.0)
    exact = sum(map(Fraction, numbers), start=Fraction())
    size = sum((abs(Fraction(number)) for number in numbers), start=Fraction())
    return Measured(_round(exact / share), slack=SCORE_SLACK * _round(size / share))


def _round(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
