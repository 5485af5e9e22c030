"""What must hold for every pipeline, whichever query it came from.

A variable is bound exactly once, before anything looks at it; a block sees what the rows before it
hold, and only an optional one adds to them. Knows the IR and no text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from omnigraph.compiler.ir import (
    ANONYMOUS,
    Aggregate,
    AllOf,
    AntiJoin,
    AnyOf,
    Bm25,
    Column,
    ColumnReference,
    Comparison,
    Condition,
    Constant,
    EntityId,
    Expand,
    Filter,
    Nearest,
    NodeScan,
    Now,
    NullTest,
    Operand,
    Operator,
    OptionalJoin,
    ParameterValue,
    PropertyValue,
    Ranking,
    ReadIR,
    Rrf,
    SameEntity,
    SortKey,
    TextMatch,
)

TEMPORARY_MARK = "'"


def find_faults(ir: ReadIR) -> list[str]:
    """Every place where a read uses what is not there, or binds what is bound already."""
    faults: list[str] = []
    bound = _walk(ir.pipeline, frozenset(), faults)
    for place, names in _uses_of_result(ir):
        faults.extend(f"{place} uses ${name}" for name in names if name not in bound)
    declared = {each.name for each in ir.parameters}
    given = {name for operator in ir.pipeline for name in _parameters_in(operator)}
    faults.extend(f"${name} is not a parameter" for name in given - declared)
    return faults


def bound_variables(pipeline: Iterable[Operator]) -> Counter[str]:
    """How often each variable is scanned or expanded to, inner blocks included; temporary
    variables count under one name."""
    names: Counter[str] = Counter()
    for operator in pipeline:
        match operator:
            case NodeScan(variable=variable):
                names[_stem(variable)] += 1
            case Expand(target=target):
                names[_stem(target)] += 1
            case AntiJoin(inner=inner) | OptionalJoin(inner=inner):
                names += bound_variables(inner)
            case Filter():
                pass
    return names


def sketch(pipeline: tuple[Operator, ...]) -> str:
    """A pipeline on one line: operators, variables, directions and how many conditions."""
    return ", ".join(map(_sketch_operator, pipeline))


def _sketch_operator(operator: Operator) -> str:
    match operator:
        case NodeScan(variable=variable, filters=filters):
            return f"scan({variable}{_count(filters)})"
        case Expand(source=source, target=target, direction=direction, filters=filters):
            return f"expand({source}>{target} {direction}{_count(filters)})"
        case Filter():
            return "filter"
        case AntiJoin(outer=outer, inner=inner):
            return f"anti({' '.join(outer)}: {sketch(inner)})"
        case OptionalJoin(outer=outer, inner=inner):
            return f"optional({' '.join(outer)}: {sketch(inner)})"


def _count(filters: tuple[object, ...]) -> str:
    return f" where {len(filters)}" if filters else ""


def _stem(variable: str) -> str:
    return TEMPORARY_MARK if TEMPORARY_MARK in variable else variable


def _walk(pipeline: Sequence[Operator], outer: frozenset[str], faults: list[str]) -> frozenset[str]:
    """The variables that rows hold behind a pipeline."""
    bound = set(outer)
    for operator in pipeline:
        introduced: list[str] = []
        match operator:
            case NodeScan(variable=variable):
                introduced = [variable]
            case Expand(source=source, target=target, edge_binding=edge):
                introduced = [name for name in (target, edge) if name not in (None, ANONYMOUS)]
                if source not in bound:
                    faults.append(f"an expansion starts at ${source}")
            case AntiJoin(outer=shared, inner=inner):
                _walk(inner, frozenset(bound), faults)
                faults.extend(f"a negation shares ${n}" for n in shared if n not in bound)
            case OptionalJoin(outer=shared, inner=inner):
                faults.extend(f"an option shares ${n}" for n in shared if n not in bound)
                bound |= _walk(inner, frozenset(bound), faults)
            case Filter():
                pass
        faults.extend(f"${name} is bound again" for name in introduced if name in bound)
        bound.update(introduced)
        looked_at = {name for each in _conditions_of(operator) for name in _variables_in(each)}
        faults.extend(f"a filter looks at ${name}" for name in looked_at - bound)
    return frozenset(bound)


def _conditions_of(operator: Operator) -> tuple[Condition, ...]:
    match operator:
        case NodeScan(filters=filters) | Expand(filters=filters):
            return filters
        case Filter(condition=condition):
            return (condition,)
        case AntiJoin() | OptionalJoin():
            return ()


def _variables_in(condition: Condition) -> Iterator[str]:
    for operand in _operands_in(condition):
        yield from _variables_of(operand)
    match condition:
        case SameEntity(left=left, right=right):
            yield from (left, right)
        case AllOf(conditions=conditions) | AnyOf(conditions=conditions):
            for each in conditions:
                yield from _variables_in(each)
        case Comparison() | NullTest() | TextMatch():
            pass


def _operands_in(condition: Condition) -> tuple[Operand, ...]:
    match condition:
        case Comparison(left=left, right=right):
            return (left, right)
        case NullTest(operand=operand):
            return (operand,)
        case TextMatch(field=field, query=query, edits=edits):
            return (field, query) if edits is None else (field, query, edits)
        case SameEntity() | AllOf() | AnyOf():
            return ()


def _variables_of(operand: Operand) -> tuple[str, ...]:
    match operand:
        case PropertyValue(variable=variable) | EntityId(variable=variable):
            return (variable,)
        case ParameterValue() | Constant() | Now():
            return ()


def _parameters_in(operator: Operator) -> Iterator[str]:
    match operator:
        case AntiJoin(inner=inner) | OptionalJoin(inner=inner):
            for each in inner:
                yield from _parameters_in(each)
        case NodeScan() | Expand() | Filter():
            for condition in _conditions_of(operator):
                yield from _parameters_of(condition)


def _parameters_of(condition: Condition) -> Iterator[str]:
    if isinstance(condition, AllOf | AnyOf):
        for each in condition.conditions:
            yield from _parameters_of(each)
    for operand in _operands_in(condition):
        if isinstance(operand, ParameterValue):
            yield operand.name


def _uses_of_result(ir: ReadIR) -> Iterator[tuple[str, tuple[str, ...]]]:
    for column in ir.columns:
        yield f"column {column.name}", _variables_of_column(column)
    if ir.ranking is not None:
        yield "the ranking", _variables_of_ranking(ir.ranking)
    for key in ir.order:
        yield "the order", _variables_of_key(key)


def _variables_of_column(column: Column) -> tuple[str, ...]:
    match column.expression:
        case Aggregate(argument=argument):
            return () if argument is None else _variables_of(argument)
        case Nearest() | Bm25() | Rrf() as ranking:
            return _variables_of_ranking(ranking)
        case operand:
            return _variables_of(operand)


def _variables_of_ranking(ranking: Ranking) -> tuple[str, ...]:
    match ranking:
        case Nearest(field=field) | Bm25(field=field):
            return (field.variable,)
        case Rrf(primary=primary, secondary=secondary):
            return (primary.field.variable, secondary.field.variable)


def _variables_of_key(key: SortKey) -> tuple[str, ...]:
    match key.expression:
        case ColumnReference():
            return ()
        case PropertyValue(variable=variable):
            return (variable,)
