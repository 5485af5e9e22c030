"""The pattern of a read as its oracle runs it: rows of variables, by nested loops.

One row, one node and one edge at a time, as close to the words of the reference as can be. Knows
nothing of columns, order or limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from omnigraph.compiler.ir import (
    ANONYMOUS,
    AllOf,
    AntiJoin,
    AnyOf,
    Comparison,
    Condition,
    Constant,
    Direction,
    EntityId,
    Expand,
    Filter,
    Given,
    NodeScan,
    Now,
    NullTest,
    Operand,
    Operator,
    OptionalJoin,
    ParameterValue,
    PropertyValue,
    SameEntity,
    TextFunction,
    TextMatch,
    Value,
)
from omnigraph.model.catalog import Catalog
from omnigraph.model.types import Scalar
from tests.support.oracle_search import matches, matches_fuzzily
from tests.support.oracle_values import as_f32, compare

Entity = Mapping[str, Value]
"""A node or an edge: its `id`, of an edge `src` and `dst`, and its properties."""

RowsByType = Mapping[str, Sequence[Entity]]

Row = Mapping[str, Entity | None]
"""What each variable is bound to; a variable of an optional block perhaps to nothing."""


class TooManyRowsError(Exception):
    """A read that makes more intermediate rows than the oracle allows."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a read is run on: the rows of every type, its parameters, and the clock."""

    catalog: Catalog
    rows_by_type: RowsByType
    values: Mapping[str, Value]
    now: datetime

    def give(self, given: Given) -> Value:
        """A value that does not depend on a row."""
        match given:
            case ParameterValue(name=name):
                return self.values[name]
            case Constant(value=value):
                return value
            case Now():
                return self.now.replace(microsecond=self.now.microsecond // 1000 * 1000)

    def read(self, operand: Operand, row: Row) -> Value:
        """What an operand is in a row; null where its variable is unbound."""
        match operand:
            case PropertyValue(variable=variable, property=name):
                entity = row[variable]
                return None if entity is None else entity[name]
            case EntityId(variable=variable):
                entity = row[variable]
                return None if entity is None else entity["id"]
            case ParameterValue() | Constant() | Now():
                return self.give(operand)


# Pipelines


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Runs operators over rows, and gives up when there are too many."""

    call: Call
    rows_max: int

    def run(self, operators: Sequence[Operator], rows: Sequence[Row]) -> Sequence[Row]:
        """The rows that the operators make of some rows."""
        for operator in operators:
            found: list[Row] = []
            for row in rows:
                found += self._apply(operator, row)
                if len(found) > self.rows_max:
                    raise TooManyRowsError
            rows = found
        return rows

    def _apply(self, operator: Operator, row: Row) -> Sequence[Row]:
        match operator:
            case NodeScan(variable=variable, type_name=type_name, filters=filters):
                nodes = self.call.rows_by_type[type_name]
                return self._keep(filters, [{**row, variable: node} for node in nodes])
            case Expand(filters=filters):
                return self._keep(filters, list(self._expand(operator, row)))
            case Filter(condition=condition):
                return self._keep([condition], [row])
            case AntiJoin(inner=inner):
                return [] if self.run(inner, [row]) else [row]
            case OptionalJoin(inner=inner):
                unbound: Row = dict.fromkeys(variables_of(inner))
                return self.run(inner, [row]) or [{**unbound, **row}]

    def _keep(self, conditions: Sequence[Condition], rows: Sequence[Row]) -> Sequence[Row]:
        return [row for row in rows if all(holds(each, row, self.call) for each in conditions)]

    def _expand(self, expand: Expand, row: Row) -> Iterator[Row]:
        source = row[expand.source]
        if source is None:
            return
        edges = self.call.rows_by_type[expand.edge_type]
        nodes = {node["id"]: node for node in self.call.rows_by_type[expand.target_type]}
        if expand.edge_binding is None:
            for id in self._reach(expand, edges, source["id"]):
                yield _bind(row, {expand.target: nodes[id]})
            return
        for edge in edges:
            for end in _other_ends(edge, source["id"], expand.direction):
                yield _bind(row, {expand.target: nodes[end], expand.edge_binding: edge})

    def _reach(self, expand: Expand, edges: Sequence[Entity], start: Value) -> list[Value]:
        """The nodes whose shortest distance is within the bounds.

        The start is at distance zero, but for an edge to itself, which reaches it in one hop.
        """

        def neighbours(node: Value) -> list[Value]:
            ends = (end for edge in edges for end in _other_ends(edge, node, expand.direction))
            return list(dict.fromkeys(ends))

        declared = self.call.catalog.edges[expand.edge_type]
        is_first_hop_wanted = expand.hops_min == 1
        if declared.source != declared.target:
            return neighbours(start) if is_first_hop_wanted else []
        reached = [start] if is_first_hop_wanted and start in neighbours(start) else []
        seen, frontier = {start}, [start]
        for hop in range(1, expand.hops_max + 1):
            ends = dict.fromkeys(end for node in frontier for end in neighbours(node))
            frontier = [end for end in ends if end not in seen]
            if not frontier:
                break
            seen.update(frontier)
            reached += frontier if hop >= expand.hops_min else []
        return reached


def _bind(row: Row, bound: Row) -> Row:
    return {**row, **{name: entity for name, entity in bound.items() if name != ANONYMOUS}}


def _other_ends(edge: Entity, node: Value, direction: Direction) -> list[Value]:
    """Where an edge leads from a node: once, even if both its ends are that node."""
    ends: list[Value] = []
    if direction in (Direction.OUT, Direction.BOTH) and edge["src"] == node:
        ends.append(edge["dst"])
    if direction in (Direction.IN, Direction.BOTH) and edge["dst"] == node:
        ends.append(edge["src"])
    return ends[:1] if ends == [node, node] else ends


def variables_of(operators: Sequence[Operator]) -> list[str]:
    """The variables that a pipeline binds for those who come after it, hidden ones included."""
    names: list[str] = []
    for operator in operators:
        match operator:
            case NodeScan(variable=variable):
                names.append(variable)
            case Expand(target=target, edge_binding=edge):
                names += [target, edge or ANONYMOUS]
            case OptionalJoin(inner=inner):
                names += variables_of(inner)
            case Filter() | AntiJoin():
                pass
    return [name for name in names if name != ANONYMOUS]


# Conditions


def holds(condition: Condition, row: Row, call: Call) -> bool:
    """Whether a condition holds for a row."""
    match condition:
        case AllOf(conditions=conditions):
            return all(holds(each, row, call) for each in conditions)
        case AnyOf(conditions=conditions):
            return any(holds(each, row, call) for each in conditions)
        case NullTest(operand=operand, is_negated=is_negated):
            return (call.read(operand, row) is None) != is_negated
        case SameEntity(left=left, right=right):
            one, other = row[left], row[right]
            return one is not None and other is not None and one["id"] == other["id"]
        case Comparison(left=left, comparator=comparator, right=right):
            return compare(_side(left, right, row, call), comparator, _side(right, left, row, call))
        case TextMatch():
            return _is_match(condition, row, call)


def _side(operand: Operand, other: Operand, row: Row, call: Call) -> Value:
    """One side of a comparison; a value that meets an F32 property is compared as F32."""
    value = call.read(operand, row)
    meets_f32 = isinstance(other, PropertyValue) and other.type.element is Scalar.F32
    return as_f32(value) if meets_f32 and not isinstance(operand, PropertyValue) else value


def _is_match(condition: TextMatch, row: Row, call: Call) -> bool:
    text, query = call.read(condition.field, row), call.give(condition.query)
    edits = None if condition.edits is None else call.give(condition.edits)
    is_fuzzy = condition.function is TextFunction.FUZZY
    if text is None or query is None or (is_fuzzy and edits is None):
        return False
    assert isinstance(text, str)
    assert isinstance(query, str)
    if is_fuzzy:
        assert isinstance(edits, int)
        return matches_fuzzily(text, query, edits, condition.language) != condition.is_negated
    return matches(text, query, condition.language) != condition.is_negated
