"""The IR as readable text, for `explain` and for tests that compare plans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime

from omnigraph.compiler.ir import (
    Aggregate,
    AllOf,
    AntiJoin,
    AnyOf,
    Assignment,
    Bm25,
    Column,
    ColumnReference,
    Comparator,
    Comparison,
    Condition,
    Constant,
    Delete,
    Direction,
    EntityId,
    Expand,
    Filter,
    Insert,
    MutationIR,
    MutationOperation,
    Nearest,
    NodeScan,
    Now,
    NullTest,
    Operand,
    Operator,
    OptionalJoin,
    ParameterValue,
    PropertyValue,
    QueryIR,
    Ranking,
    ReadIR,
    Rrf,
    SameEntity,
    SortKey,
    TextMatch,
    Update,
    Value,
)
from omnigraph.model.types import format_datetime


def render_ir(ir: QueryIR) -> str:
    """A query as an indented list of its operations, in order."""
    if isinstance(ir, MutationIR):
        lines = [line for operation in ir.operations for line in _operation_lines(operation)]
    else:
        lines = [*_pipeline_lines(ir.pipeline), *render_output(ir)]
    return "\n".join([render_signature(ir), *_indent(lines)])


def render_condition(condition: Condition) -> str:
    """A condition on one line."""
    match condition:
        case Comparison(left=left, comparator=comparator, right=right):
            word = "contains" if comparator is Comparator.STRING_CONTAINS else str(comparator)
            return f"{render_operand(left)} {word} {render_operand(right)}"
        case NullTest(operand=operand, is_negated=is_negated):
            return f"{render_operand(operand)} is {'not ' if is_negated else ''}null"
        case SameEntity(left=left_name, right=right_name):
            return f"${left_name} is ${right_name}"
        case TextMatch():
            return _render_text_match(condition)
        case AllOf(conditions=conditions):
            return " and ".join(_in_parentheses(each) for each in conditions)
        case AnyOf(conditions=conditions):
            return " or ".join(_in_parentheses(each) for each in conditions)


def render_operand(operand: Operand) -> str:
    """An operand in query syntax."""
    match operand:
        case PropertyValue(variable="", property=name):
            return name
        case PropertyValue(variable=variable, property=name):
            return f"${variable}.{name}"
        case EntityId(variable=name) | ParameterValue(name=name):
            return f"${name}"
        case Constant(value=value):
            return render_value(value)
        case Now():
            return "now()"


def render_value(value: Value) -> str:
    """A value as a literal."""
    match value:
        case datetime():
            return f'datetime("{format_datetime(value)}")'
        case date():
            return f'date("{value.isoformat()}")'
        case tuple():
            return f"[{', '.join(render_value(each) for each in value)}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def render_signature(ir: QueryIR) -> str:
    """The kind, name and parameters of a query."""
    word = "mutation" if isinstance(ir, MutationIR) else "read"
    return f"{word} {ir.name}({', '.join(f'${each.name}: {each.type}' for each in ir.parameters)})"


def render_output(ir: ReadIR) -> Iterator[str]:
    """The steps after the pipeline of a read, one per line."""
    if ir.ranking is not None:
        yield f"rank by {_render_ranking(ir.ranking)}"
    word = "aggregate" if ir.is_aggregate else "project"
    yield f"{word} {', '.join(_render_column(column) for column in ir.columns)}"
    if ir.is_distinct:
        yield "distinct"
    if ir.order:
        yield f"order by {', '.join(_render_key(key, ir.columns) for key in ir.order)}"
    for word, count in (("offset", ir.offset), ("limit", ir.limit)):
        if count is not None:
            yield f"{word} {render_operand(count)}"


def render_walk(expand: Expand) -> str:
    """An expansion as an arrow."""
    binding = "" if expand.edge_binding is None else f"${expand.edge_binding}:"
    hops = ""
    if (expand.hops_min, expand.hops_max) != (1, 1):
        hops = f"{{{expand.hops_min},{expand.hops_max}}}"
    edge = f"{binding}{expand.edge_type}{hops}"
    arrow = {
        Direction.OUT: f"-[{edge}]->",
        Direction.IN: f"<-[{edge}]-",
        Direction.BOTH: f"-[{edge}]-",
    }[expand.direction]
    return f"${expand.source} {arrow} ${expand.target}: {expand.target_type}"


def _pipeline_lines(pipeline: Iterable[Operator]) -> Iterator[str]:
    for operator in pipeline:
        match operator:
            case NodeScan(variable=variable, type_name=type_name, filters=filters):
                yield f"scan ${variable}: {type_name}"
                yield from _indent(_filter_lines(filters))
            case Expand(filters=filters):
                yield f"expand {render_walk(operator)}"
                yield from _indent(_filter_lines(filters))
            case Filter(condition=condition):
                yield f"filter {render_condition(condition)}"
            case AntiJoin(outer=outer, inner=inner):
                yield f"anti join on {_render_variables(outer)}"
                yield from _indent(_pipeline_lines(inner))
            case OptionalJoin(outer=outer, inner=inner):
                yield f"optional join on {_render_variables(outer)}"
                yield from _indent(_pipeline_lines(inner))


def _filter_lines(filters: Iterable[Condition]) -> Iterator[str]:
    return (f"where {render_condition(condition)}" for condition in filters)


def _render_variables(names: Iterable[str]) -> str:
    return ", ".join(f"${name}" for name in names)


def _render_text_match(match: TextMatch) -> str:
    arguments = [render_operand(match.field), render_operand(match.query)]
    if match.edits is not None:
        arguments.append(render_operand(match.edits))
    return f"{'not ' if match.is_negated else ''}{match.function}({', '.join(arguments)})"


def _render_ranking(ranking: Ranking) -> str:
    match ranking:
        case Nearest(field=field, query=query):
            return f"nearest({render_operand(field)}, {render_operand(query)})"
        case Bm25(field=field, query=query):
            return f"bm25({render_operand(field)}, {render_operand(query)})"
        case Rrf(primary=primary, secondary=secondary, k=k):
            arms = f"{_render_ranking(primary)}, {_render_ranking(secondary)}"
            return f"rrf({arms}, {render_operand(k)})"


def _render_column(column: Column) -> str:
    match column.expression:
        case Aggregate(function=function, argument=argument, is_distinct=is_distinct):
            inner = "*" if argument is None else render_operand(argument)
            text = f"{function}({'distinct ' if is_distinct else ''}{inner})"
        case Nearest() | Bm25() | Rrf() as ranking:
            text = _render_ranking(ranking)
        case operand:
            text = render_operand(operand)
    return f"{text} as {column.name}: {column.type}"


def _render_key(key: SortKey, columns: tuple[Column, ...]) -> str:
    if isinstance(key.expression, ColumnReference):
        text = columns[key.expression.position].name
    else:
        text = render_operand(key.expression)
    return f"{text} {'desc' if key.is_descending else 'asc'}"


def _in_parentheses(condition: Condition) -> str:
    text = render_condition(condition)
    return f"({text})" if isinstance(condition, AllOf | AnyOf) else text


def _operation_lines(operation: MutationOperation) -> Iterator[str]:
    match operation:
        case Insert(kind=kind, type_name=type_name, assignments=assignments):
            yield f"insert {kind} {type_name}"
            yield from _indent(_assignment_lines(assignments))
        case Update(type_name=type_name, assignments=assignments, condition=condition):
            yield f"update node {type_name} where {render_condition(condition)}"
            yield from _indent(_assignment_lines(assignments))
        case Delete(kind=kind, type_name=type_name, condition=condition):
            yield f"delete {kind} {type_name} where {render_condition(condition)}"


def _assignment_lines(assignments: Iterable[Assignment]) -> Iterator[str]:
    return (f"set {each.property} = {render_operand(each.value)}" for each in assignments)


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
