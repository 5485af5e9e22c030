"""The IR as readable text, for `explain` and for tests that compare plans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime

from omnigraph.compiler import ir
from omnigraph.model.types import TextLanguage, format_datetime


def render_ir(query: ir.QueryIR) -> str:
    """A query as an indented list of its operations, in order."""
    if isinstance(query, ir.MutationIR):
        lines = [line for operation in query.operations for line in _operation_lines(operation)]
    else:
        lines = [*_pipeline_lines(query.pipeline), *render_output(query)]
    return "\n".join([render_signature(query), *_indent(lines)])


def render_condition(condition: ir.Condition) -> str:
    """A condition on one line."""
    match condition:
        case ir.Comparison(left=left, comparator=comparator, right=right):
            word = "contains" if comparator is ir.Comparator.STRING_CONTAINS else str(comparator)
            return f"{render_operand(left)} {word} {render_operand(right)}"
        case ir.NullTest(operand=operand, is_negated=is_negated):
            return f"{render_operand(operand)} is {'not ' if is_negated else ''}null"
        case ir.SameEntity(left=left_name, right=right_name):
            return f"${left_name} is ${right_name}"
        case ir.TextMatch():
            return _render_text_match(condition)
        case ir.AllOf(conditions=conditions):
            return " and ".join(_in_parentheses(each) for each in conditions)
        case ir.AnyOf(conditions=conditions):
            return " or ".join(_in_parentheses(each) for each in conditions)


def render_operand(operand: ir.Operand) -> str:
    """An operand in query syntax."""
    match operand:
        case ir.PropertyValue(variable="", property=name):
            return name
        case ir.PropertyValue(variable=variable, property=name):
            return f"${variable}.{name}"
        case ir.EntityId(variable=name) | ir.ParameterValue(name=name):
            return f"${name}"
        case ir.Constant(value=value):
            return render_value(value)
        case ir.Now():
            return "now()"


def render_value(value: ir.Value) -> str:
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


def render_signature(query: ir.QueryIR) -> str:
    """The kind, name and parameters of a query."""
    word = "mutation" if isinstance(query, ir.MutationIR) else "read"
    parameters = ", ".join(f"${each.name}: {each.type}" for each in query.parameters)
    return f"{word} {query.name}({parameters})"


def render_output(query: ir.ReadIR) -> Iterator[str]:
    """The steps after the pipeline of a read, one per line."""
    if query.ranking is not None:
        yield f"rank by {_render_ranking(query.ranking)}"
    word = "aggregate" if query.is_aggregate else "project"
    yield f"{word} {', '.join(_render_column(column) for column in query.columns)}"
    if query.is_distinct:
        yield "distinct"
    if query.order:
        yield f"order by {', '.join(_render_key(key, query.columns) for key in query.order)}"
    for word, count in (("offset", query.offset), ("limit", query.limit)):
        if count is not None:
            yield f"{word} {render_operand(count)}"


def render_walk(expand: ir.Expand) -> str:
    """An expansion as an arrow."""
    binding = "" if expand.edge_binding is None else f"${expand.edge_binding}:"
    hops = ""
    if (expand.hops_min, expand.hops_max) != (1, 1):
        hops = f"{{{expand.hops_min},{expand.hops_max}}}"
    edge = f"{binding}{expand.edge_type}{hops}"
    arrow = {
        ir.Direction.OUT: f"-[{edge}]->",
        ir.Direction.IN: f"<-[{edge}]-",
        ir.Direction.BOTH: f"-[{edge}]-",
    }[expand.direction]
    return f"${expand.source} {arrow} ${expand.target}: {expand.target_type}"


def _pipeline_lines(pipeline: Iterable[ir.Operator]) -> Iterator[str]:
    for operator in pipeline:
        match operator:
            case ir.NodeScan(variable=variable, type_name=type_name, filters=filters):
                yield f"scan ${variable}: {type_name}"
                yield from _indent(_filter_lines(filters))
            case ir.Expand(filters=filters):
                yield f"expand {render_walk(operator)}"
                yield from _indent(_filter_lines(filters))
            case ir.Filter(condition=condition):
                yield f"filter {render_condition(condition)}"
            case ir.AntiJoin(outer=outer, inner=inner):
                yield f"anti join on {_render_variables(outer)}"
                yield from _indent(_pipeline_lines(inner))
            case ir.OptionalJoin(outer=outer, inner=inner):
                yield f"optional join on {_render_variables(outer)}"
                yield from _indent(_pipeline_lines(inner))


def _filter_lines(filters: Iterable[ir.Condition]) -> Iterator[str]:
    return (f"where {render_condition(condition)}" for condition in filters)


def _render_variables(names: Iterable[str]) -> str:
    return ", ".join(f"${name}" for name in names)


def _render_text_match(match: ir.TextMatch) -> str:
    arguments = [render_operand(match.field), render_operand(match.query)]
    if match.edits is not None:
        arguments.append(render_operand(match.edits))
    called = f"{match.function}({', '.join(arguments)}){_render_language(match.language)}"
    return f"not {called}" if match.is_negated else called


def _render_language(language: TextLanguage) -> str:
    return "" if language is TextLanguage.ENGLISH else f" [{language}]"


def _render_ranking(ranking: ir.Ranking) -> str:
    match ranking:
        case ir.Nearest(field=field, query=query, effort=effort):
            arguments = [render_operand(field), render_operand(query)]
            if isinstance(effort, ir.Exact):
                arguments.append(str(effort))
            elif effort is not None:
                arguments.append(render_operand(effort))
            return f"nearest({', '.join(arguments)})"
        case ir.Bm25(field=field, query=query, language=language):
            called = f"bm25({render_operand(field)}, {render_operand(query)})"
            return called + _render_language(language)
        case ir.Rrf(primary=primary, secondary=secondary, k=k):
            arms = f"{_render_ranking(primary)}, {_render_ranking(secondary)}"
            return f"rrf({arms}, {render_operand(k)})"


def _render_column(column: ir.Column) -> str:
    match column.expression:
        case ir.Aggregate(function=function, argument=argument, is_distinct=is_distinct):
            inner = "*" if argument is None else render_operand(argument)
            text = f"{function}({'distinct ' if is_distinct else ''}{inner})"
        case ir.Nearest() | ir.Bm25() | ir.Rrf() as ranking:
            text = _render_ranking(ranking)
        case operand:
            text = render_operand(operand)
    return f"{text} as {column.name}: {column.type}"


def _render_key(key: ir.SortKey, columns: tuple[ir.Column, ...]) -> str:
    if isinstance(key.expression, ir.ColumnReference):
        text = columns[key.expression.position].name
    else:
        text = render_operand(key.expression)
    return f"{text} {'desc' if key.is_descending else 'asc'}"


def _in_parentheses(condition: ir.Condition) -> str:
    text = render_condition(condition)
    return f"({text})" if isinstance(condition, ir.AllOf | ir.AnyOf) else text


def _operation_lines(operation: ir.MutationOperation) -> Iterator[str]:
    match operation:
        case ir.Insert(kind=kind, type_name=type_name, assignments=assignments):
            yield f"insert {kind} {type_name}"
            yield from _indent(_assignment_lines(assignments))
        case ir.Update(type_name=type_name, assignments=assignments, condition=condition):
            yield f"update node {type_name} where {render_condition(condition)}"
            yield from _indent(_assignment_lines(assignments))
        case ir.Delete(kind=kind, type_name=type_name, condition=condition):
            yield f"delete {kind} {type_name} where {render_condition(condition)}"


def _assignment_lines(assignments: Iterable[ir.Assignment]) -> Iterator[str]:
    return (f"set {each.property} = {render_operand(each.value)}" for each in assignments)


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
