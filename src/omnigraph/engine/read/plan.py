"""The read planner: pipeline steps, pushed-down conditions, and the columns that a read uses.

A condition on one variable moves to the step that binds the variable; any other condition moves
directly behind the step that binds its last variable. Each step records which variables later
steps use, so that the others are dropped early. Planning is pure and knows neither data nor costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.compiler.ir import (
    ANONYMOUS,
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
from omnigraph.model.catalog import Catalog

Reference = PropertyValue | EntityId
"""A reference to a property of a variable, or to the identity of its entity."""


def references_of(condition: Condition) -> Iterator[Reference | str]:
    """The references of a condition; a bare name is a variable of which only identity counts."""
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
                yield from references_of(each)


def variables_of(condition: Condition) -> frozenset[str]:
    """The variables that a condition references."""
    return frozenset(_name(each) for each in references_of(condition))


def variables_of_column(column: Column) -> frozenset[str]:
    """The variables whose bindings are needed, row by row, to compute a column."""
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
    """Whether an aggregate counts every row, regardless of values."""
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
    """The variables that operators bind, including hidden ones, in order."""
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
    """All properties that a read uses, by variable."""
    found: dict[str, set[str]] = {}
    for reference in _all_references(ir):
        if isinstance(reference, PropertyValue):
            found.setdefault(reference.variable, set()).add(reference.property)
    return found


def _all_references(ir: ReadIR) -> Iterator[object]:
    for condition in _conditions_of(ir.pipeline):
        yield from references_of(condition)
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


def _of_expression(column: Column) -> Iterator[Reference]:
    match column.expression:
        case Aggregate(argument=argument):
            if argument is not None:
                yield argument
        case PropertyValue() | EntityId() as reference:
            yield reference
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


def _of_operand(operand: Operand) -> Iterator[Reference]:
    if isinstance(operand, PropertyValue | EntityId):
        yield operand


def _name(reference: Reference | str) -> str:
    return reference if isinstance(reference, str) else reference.variable


@dataclass(frozen=True, slots=True)
class ScanStep:
    """Bind a variable to the nodes of a type that pass the filters."""

    scan: NodeScan
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class ExpandStep:
    """Bind a variable to neighbours; `edge_filters` reference only the bound edge."""

    expand: Expand
    edge_filters: tuple[Condition, ...]
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class FilterStep:
    """Keep the rows that meet a condition."""

    condition: Condition
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class AntiStep:
    """Keep the rows for which the inner steps, started from `outer`, find no match."""

    outer: tuple[str, ...]
    inner: tuple[Step, ...]
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class OptionalStep:
    """Join the matches of the inner steps, started from `outer`; `introduced` are new variables."""

    outer: tuple[str, ...]
    inner: tuple[Step, ...]
    introduced: tuple[str, ...]
    live: frozenset[str]


Step = ScanStep | ExpandStep | FilterStep | AntiStep | OptionalStep


@dataclass(frozen=True, slots=True)
class Plan:
    """An executable read: its steps, and the variables whose ids order its rows.

    `properties` are those that the read uses, by variable, including variables of inner blocks.
    `type_by_variable` contains the node variables that can be returned.
    """

    ir: ReadIR
    steps: tuple[Step, ...]
    ordering_variables: tuple[str, ...]
    properties: Mapping[str, set[str]]
    type_by_variable: Mapping[str, str]


def plan_read(ir: ReadIR) -> Plan:
    """The plan of a read."""
    named = sorted(name for name in introduced_by(ir.pipeline) if _is_named(name))
    is_condensed = ir.is_aggregate or ir.is_distinct
    live = _output_variables(ir) | (frozenset() if is_condensed else frozenset(named))
    arranged = _arrange(ir.pipeline)
    return Plan(
        ir=ir,
        steps=_with_liveness(arranged, live),
        ordering_variables=() if is_condensed else tuple(dict.fromkeys(named)),
        properties=properties_by_variable(ir),
        type_by_variable=dict(_node_types(ir.pipeline)),
    )


def cap_hops(expand: Expand, catalog: Catalog) -> Expand:
    """The expansion with one hop at most if its edge type connects two types.

    Such edges cannot be chained.
    """
    declared = catalog.edges[expand.edge_type]
    return expand if declared.source == declared.target else replace(expand, hops_max=1)


def _node_types(operators: Iterable[Operator]) -> Iterator[tuple[str, str]]:
    for operator in operators:
        match operator:
            case NodeScan(variable, type_name):
                yield variable, type_name
            case Expand(target=target, target_type=type_name):
                yield target, type_name
            case OptionalJoin(inner=inner):
                yield from _node_types(inner)
            case Filter() | AntiJoin():
                pass


def _is_named(name: str) -> bool:
    return name != ANONYMOUS and "'" not in name


def _output_variables(ir: ReadIR) -> frozenset[str]:
    names: set[str] = set()
    for column in ir.columns:
        names |= variables_of_column(column)
    names.update(
        key.expression.variable for key in ir.order if isinstance(key.expression, PropertyValue)
    )
    if ir.ranking is not None:
        names.add(ranked_variable(ir.ranking))
    return frozenset(names)


# Placement of conditions


def _arrange(operators: Sequence[Operator]) -> tuple[Step, ...]:
    """Operators as steps, with each filter at the earliest position where it can be evaluated."""
    steps: list[Step] = [_as_step(each) for each in operators if not isinstance(each, Filter)]
    bound_by = [frozenset(_bound_by(step)) for step in steps]
    here = frozenset().union(*bound_by)
    waiting: list[list[Condition]] = [[] for _ in range(len(steps) + 1)]
    for operator in operators:
        if isinstance(operator, Filter):
            _place_condition(operator.condition, steps, bound_by, here, waiting)
    arranged: list[Step] = []
    for number, conditions in enumerate(waiting):
        arranged += [FilterStep(each, frozenset()) for each in conditions]
        if number < len(steps):
            arranged.append(steps[number])
    return tuple(arranged)


def _place_condition(
    condition: Condition,
    steps: list[Step],
    bound_by: Sequence[frozenset[str]],
    here: frozenset[str],
    waiting: list[list[Condition]],
) -> None:
    wanted = variables_of(condition)
    missing = wanted & here
    last = -1
    for number, bound in enumerate(bound_by):
        if missing & bound:
            last = number
            missing -= bound
        if not missing:
            break
    if len(wanted) == 1 and last >= 0:
        moved = _pushed_into(condition, next(iter(wanted)), steps[last])
        if moved is not None:
            steps[last] = moved
            return
    waiting[last + 1].append(condition)


def _pushed_into(condition: Condition, variable: str, step: Step) -> Step | None:
    match step:
        case ScanStep(scan):
            return replace(step, scan=replace(scan, filters=(*scan.filters, condition)))
        case ExpandStep(expand, edge_filters):
            if variable == expand.edge_binding:
                return replace(step, edge_filters=(*edge_filters, condition))
            return replace(step, expand=replace(expand, filters=(*expand.filters, condition)))
        case FilterStep() | AntiStep() | OptionalStep():
            # Variables that an optional block binds can be filtered only after the block.
            return None


def _as_step(operator: NodeScan | Expand | AntiJoin | OptionalJoin) -> Step:
    nothing: frozenset[str] = frozenset()
    match operator:
        case NodeScan():
            return ScanStep(operator, nothing)
        case Expand():
            return ExpandStep(operator, (), nothing)
        case AntiJoin(inner=inner):
            return AntiStep(_free_variables(inner), _arrange(inner), nothing)
        case OptionalJoin(inner=inner):
            named = dict.fromkeys(name for name in introduced_by(inner) if _is_named(name))
            return OptionalStep(_free_variables(inner), _arrange(inner), tuple(named), nothing)


def _free_variables(inner: Sequence[Operator]) -> tuple[str, ...]:
    """The variables of the outer rows that a block, or a block nested in it, references."""
    wanted: set[str] = set()
    for operator in inner:
        match operator:
            case NodeScan(filters=filters):
                wanted.update(*(variables_of(each) for each in filters))
            case Expand(source=source, filters=filters):
                wanted |= {source}.union(*(variables_of(each) for each in filters))
            case Filter(condition):
                wanted |= variables_of(condition)
            case AntiJoin(inner=nested) | OptionalJoin(inner=nested):
                wanted.update(_free_variables(nested))
    return tuple(sorted(wanted - set(introduced_by(inner))))


def _bound_by(step: Step) -> Iterable[str]:
    match step:
        case ScanStep(scan):
            return {scan.variable}
        case ExpandStep(expand):
            return {expand.target, expand.edge_binding or ANONYMOUS} - {ANONYMOUS}
        case OptionalStep(introduced=introduced):
            return introduced
        case FilterStep() | AntiStep():
            return ()


# Liveness of variables


def _with_liveness(steps: Sequence[Step], live: frozenset[str]) -> tuple[Step, ...]:
    """Steps with the variables that are used after each; `live` are those used at the end."""
    backwards: list[Step] = []
    for step in reversed(steps):
        match step:
            case AntiStep(outer, inner):
                backwards.append(AntiStep(outer, _with_liveness(inner, frozenset(outer)), live))
            case OptionalStep(outer, inner, introduced):
                wanted = frozenset(outer) | (live & frozenset(introduced))
                backwards.append(
                    OptionalStep(outer, _with_liveness(inner, wanted), introduced, live)
                )
            case ScanStep() | ExpandStep() | FilterStep():
                backwards.append(replace(step, live=live))
        live = (live - frozenset(_bound_by(step))) | _needed_by(step)
    return tuple(reversed(backwards))


def _needed_by(step: Step) -> frozenset[str]:
    match step:
        case ScanStep():
            return frozenset()
        case ExpandStep(expand):
            return frozenset({expand.source})
        case FilterStep(condition):
            return variables_of(condition)
        case AntiStep(outer=outer) | OptionalStep(outer=outer):
            return frozenset(outer)
