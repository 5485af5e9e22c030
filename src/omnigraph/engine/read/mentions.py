"""Which variables, and which properties of them, a part of a query looks at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.compiler.ir import (
    Aggregate,
    AggregateFunction,
    AllOf,
    AntiJoin,
    AnyOf,
    Bm25,
    Column,
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
    TextMatch,
)

Mention = PropertyValue | EntityId
"""A look at a property of a variable, or at which entity it is."""


def mentions_of(condition: Condition) -> Iterator[Mention | str]:
    """What a condition looks at; a bare name is a variable of which only the identity counts."""
    match condition:
        case Comparison(left, _, right):
            yield from _of_operand(left)
            yield from _of_operand(right)
        case NullTest(operand):
            yield from _of_operand(operand)
        case SameEntity(left_name, right_name):
            yield from (left_name, right_name)
        case TextMatch(field=field):
            yield field
        case AllOf(conditions) | AnyOf(conditions):
            for each in conditions:
                yield from mentions_of(each)


def variables_of(condition: Condition) -> frozenset[str]:
    """The variables that a condition looks at."""
    return frozenset(_name(each) for each in mentions_of(condition))


def variables_of_column(column: Column) -> frozenset[str]:
    """The variables that must be known, row by row, to compute a column."""
    match column.expression:
        case Aggregate() as aggregate:
            argument = aggregate.argument
            return (
                frozenset()
                if argument is None or counts_rows(aggregate)
                else frozenset({argument.variable})
            )
        case PropertyValue(variable) | EntityId(variable):
            return frozenset({variable})
        case Nearest() | Bm25() | Rrf() as ranking:
            return frozenset({ranked_variable(ranking)})
        case ParameterValue() | Constant() | Now():
            return frozenset()


def counts_rows(aggregate: Aggregate) -> bool:
    """Whether an aggregate counts every row, whatever is in it."""
    match aggregate:
        case Aggregate(AggregateFunction.COUNT, None):
            return True
        case Aggregate(AggregateFunction.COUNT, EntityId(is_nullable=False), is_distinct=False):
            return True
        case _:
            return False


def ranked_variable(ranking: Ranking) -> str:
    """The variable whose entities a ranking orders."""
    match ranking:
        case Nearest(field) | Bm25(field):
            return field.variable
        case Rrf(primary):
            return primary.field.variable


def introduced_by(operators: Iterable[Operator]) -> Iterator[str]:
    """The variables that operators bind, hidden ones included, in order."""
    for operator in operators:
        match operator:
            case NodeScan(variable=variable):
                yield variable
            case Expand(target=target, edge_binding=edge):
                yield target
                if edge is not None:
                    yield edge
            case OptionalJoin(inner=inner):
                yield from introduced_by(inner)
            case Filter() | AntiJoin():
                pass


def properties_by_variable(ir: ReadIR) -> dict[str, set[str]]:
    """The properties that a read looks at anywhere, by variable."""
    found: dict[str, set[str]] = {}
    for mention in _all_mentions(ir):
        if isinstance(mention, PropertyValue):
            found.setdefault(mention.variable, set()).add(mention.property)
    return found


def _all_mentions(ir: ReadIR) -> Iterator[object]:
    for condition in _conditions_of(ir.pipeline):
        yield from mentions_of(condition)
    for column in ir.columns:
        yield from _of_expression(column)
    for key in ir.order:
        yield key.expression
    if ir.ranking is not None:
        yield from _fields_of(ir.ranking)


def _conditions_of(operators: Iterable[Operator]) -> Iterator[Condition]:
    for operator in operators:
        match operator:
            case NodeScan(filters=filters) | Expand(filters=filters):
                yield from filters
            case Filter(condition):
                yield condition
            case AntiJoin(inner=inner) | OptionalJoin(inner=inner):
                yield from _conditions_of(inner)


def _of_expression(column: Column) -> Iterator[Mention]:
    match column.expression:
        case Aggregate(argument=argument):
            if argument is not None:
                yield argument
        case PropertyValue() | EntityId() as mention:
            yield mention
        case Nearest() | Bm25() | Rrf() as ranking:
            yield from _fields_of(ranking)
        case ParameterValue() | Constant() | Now():
            pass


def _fields_of(ranking: Ranking) -> tuple[PropertyValue, ...]:
    match ranking:
        case Nearest(field) | Bm25(field):
            return (field,)
        case Rrf(primary, secondary):
            return (primary.field, secondary.field)


def _of_operand(operand: Operand) -> Iterator[Mention]:
    if isinstance(operand, PropertyValue | EntityId):
        yield operand


def _name(mention: Mention | str) -> str:
    return mention if isinstance(mention, str) else mention.variable
