"""Plans: the pipeline of a read with every condition where it costs least, and what is needed after
each step.

A condition about one variable moves to the step that binds it, where Lance can evaluate it; one
about several moves right behind the last of them. After each step the plan says which variables
anybody still asks for: the others are dropped there, and rows that have become equal are counted
instead of kept. Pure; knows neither data nor costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.compiler.ir import (
    ANONYMOUS,
    AntiJoin,
    Condition,
    Expand,
    Filter,
    NodeScan,
    Operator,
    OptionalJoin,
    PropertyValue,
    ReadIR,
)
from omnigraph.engine.read.mentions import (
    introduced_by,
    properties_by_variable,
    ranked_variable,
    variables_of,
    variables_of_column,
)
from omnigraph.model.catalog import Catalog


@dataclass(frozen=True, slots=True)
class ScanStep:
    """Bind a variable to the nodes of a type that pass the filters."""

    scan: NodeScan
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class ExpandStep:
    """Bind a variable to neighbours; `edge_filters` are about the bound edge alone."""

    expand: Expand
    edge_filters: tuple[Condition, ...]
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class FilterStep:
    """Keep rows."""

    condition: Condition
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class AntiStep:
    """Keep rows for which the inner steps, started from `outer`, find nothing."""

    outer: tuple[str, ...]
    inner: tuple[Step, ...]
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class OptionalStep:
    """Join what the inner steps, started from `outer`, find; `introduced` are new variables."""

    outer: tuple[str, ...]
    inner: tuple[Step, ...]
    introduced: tuple[str, ...]
    live: frozenset[str]


Step = ScanStep | ExpandStep | FilterStep | AntiStep | OptionalStep


@dataclass(frozen=True, slots=True)
class Plan:
    """A read, ready to be run: its steps, and the variables that order its rows.

    `properties` are those that it looks at, by variable, whichever block that belongs to;
    `type_by_variable` knows the node variables that can be returned.
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
    """Edges between two types cannot be chained: beyond the first hop they lead nowhere."""
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


# Where conditions go


def _arrange(operators: Sequence[Operator]) -> tuple[Step, ...]:
    """Operators as steps, each filter at the earliest place where it can be evaluated."""
    steps: list[Step] = [_as_step(each) for each in operators if not isinstance(each, Filter)]
    bound_by = [frozenset(_bound_by(step)) for step in steps]
    here = frozenset().union(*bound_by)
    waiting: list[list[Condition]] = [[] for _ in range(len(steps) + 1)]
    for operator in operators:
        if isinstance(operator, Filter):
            _settle(operator.condition, steps, bound_by, here, waiting)
    arranged: list[Step] = []
    for number, conditions in enumerate(waiting):
        arranged += [FilterStep(each, frozenset()) for each in conditions]
        if number < len(steps):
            arranged.append(steps[number])
    return tuple(arranged)


def _settle(
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
        moved = _hoisted(condition, next(iter(wanted)), steps[last])
        if moved is not None:
            steps[last] = moved
            return
    waiting[last + 1].append(condition)


def _hoisted(condition: Condition, variable: str, step: Step) -> Step | None:
    match step:
        case ScanStep(scan):
            return replace(step, scan=replace(scan, filters=(*scan.filters, condition)))
        case ExpandStep(expand, edge_filters):
            if variable == expand.edge_binding:
                return replace(step, edge_filters=(*edge_filters, condition))
            return replace(step, expand=replace(expand, filters=(*expand.filters, condition)))
        case FilterStep() | AntiStep() | OptionalStep():
            # What an optional block binds may be filtered only after it.
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
    """The variables of the rows around a block that it, or a block inside it, looks at."""
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


# What is still needed


def _with_liveness(steps: Sequence[Step], live: frozenset[str]) -> tuple[Step, ...]:
    """Steps that know which variables are asked for after them; `live` are those at the end."""
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
