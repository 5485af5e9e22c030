"""The columns that a query has to read for each variable.

A condition that Lance evaluates in the scan needs no column afterwards. Text and vector searches
are evaluated there too, so their result becomes a column, never the text or the vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.compiler import ir
from omnigraph.engine.read.filter import can_push_down
from omnigraph.engine.read.plan import (
    AntiStep,
    ExpandStep,
    FilterStep,
    OptionalStep,
    Plan,
    ScanStep,
    Step,
    counts_rows,
    references_of,
)

Search = ir.TextMatch | ir.Nearest | ir.Bm25
"""A search over the text or the vector of one entity."""

ColumnSource = ir.PropertyValue | Search


@dataclass(frozen=True, slots=True)
class ReferencedColumns:
    """The properties and the search results that become columns."""

    properties: tuple[ir.PropertyValue, ...]
    searches: tuple[Search, ...]


NOTHING = ReferencedColumns((), ())


def find_referenced_columns(plan: Plan) -> Mapping[str, ReferencedColumns]:
    """The columns that a plan references, by variable."""
    found: dict[str, dict[ColumnSource, None]] = {}
    evaluated = (
        condition
        for condition, is_in_scan in _conditions_of(plan.steps)
        if not (is_in_scan and can_push_down(condition))
    )
    for source in (*_of_conditions(evaluated), *_of_output(plan.ir)):
        variable = (
            source.variable if isinstance(source, ir.PropertyValue) else source.field.variable
        )
        found.setdefault(variable, {})[source] = None
    return {variable: _group_columns(list(columns)) for variable, columns in found.items()}


def find_nameless(plan: Plan) -> frozenset[str]:
    """The edge variable whose id is not needed, if there is one.

    No output uses its id, and no later step needs it to distinguish rows.
    """
    binding = _last_edge(plan.steps)
    if binding is None or plan.ordering_variables:
        return frozenset()
    conditions = [each.condition for each in plan.steps if isinstance(each, FilterStep)]
    references = [reference for each in conditions for reference in references_of(each)]
    references += [reference for each in plan.ir.columns for reference in _entities_of(each)]
    is_used = any(
        reference == binding
        or (isinstance(reference, ir.EntityId) and reference.variable == binding)
        for reference in references
    )
    return frozenset() if is_used else frozenset({binding})


def references_properties(steps: Iterable[Step], variable: str) -> bool:
    """Whether conditions, including those of blocks, reference more than the id of a variable."""
    return any(
        not isinstance(reference, str) and reference.variable == variable
        for condition, _ in _conditions_of(steps)
        for reference in references_of(condition)
    )


def _conditions_of(steps: Iterable[Step]) -> Iterator[tuple[ir.Condition, bool]]:
    """Every condition, and whether it filters the rows of a scan."""
    for step in steps:
        match step:
            case ScanStep(scan):
                yield from ((each, True) for each in scan.filters)
            case ExpandStep(expand, edge_filters):
                yield from ((each, True) for each in (*expand.filters, *edge_filters))
            case FilterStep(condition):
                yield condition, False
            case AntiStep(inner=inner) | OptionalStep(inner=inner):
                yield from _conditions_of(inner)


def _last_edge(steps: Sequence[Step]) -> str | None:
    """The edge variable bound by the last step that binds anything."""
    for step in reversed(steps):
        match step:
            case FilterStep():
                continue
            case ExpandStep(expand):
                # Endpoints may be anonymous too, but their ids are needed.
                return None if expand.edge_binding == ir.ANONYMOUS else expand.edge_binding
            case ScanStep() | AntiStep() | OptionalStep():
                return None
    return None


def _entities_of(column: ir.Column) -> Iterator[ir.EntityId]:
    match column.expression:
        case ir.EntityId() as entity:
            yield entity
        case ir.Aggregate(argument=ir.EntityId() as entity) as aggregate:
            if not counts_rows(aggregate):
                yield entity
        case _:
            return


def _group_columns(columns: Sequence[ColumnSource]) -> ReferencedColumns:
    by_name = {each.property: each for each in columns if isinstance(each, ir.PropertyValue)}
    searches = tuple(each for each in columns if not isinstance(each, ir.PropertyValue))
    return ReferencedColumns(tuple(by_name.values()), searches)


def _of_conditions(conditions: Iterable[ir.Condition]) -> Iterator[ColumnSource]:
    for each in conditions:
        match each:
            case ir.TextMatch():
                yield each
            case ir.AllOf(inner) | ir.AnyOf(inner):
                yield from _of_conditions(inner)
            case ir.Comparison() | ir.NullTest() | ir.SameEntity():
                yield from (one for one in references_of(each) if isinstance(one, ir.PropertyValue))


def _of_output(read: ir.ReadIR) -> Iterator[ColumnSource]:
    for column in read.columns:
        match column.expression:
            case ir.PropertyValue() as source:
                yield source
            case ir.Aggregate(argument=ir.PropertyValue() as source) as aggregate:
                if not counts_rows(aggregate):
                    yield source
            case ir.Nearest() | ir.Bm25() | ir.Rrf() as ranking:
                yield from _of_ranking(ranking)
            case ir.Aggregate() | ir.EntityId() | ir.ParameterValue() | ir.Constant() | ir.Now():
                pass
    for key in read.order:
        if isinstance(key.expression, ir.PropertyValue):
            yield key.expression
    if read.ranking is not None:
        yield from _of_ranking(read.ranking)


def _of_ranking(ranking: ir.Ranking) -> Iterator[ColumnSource]:
    match ranking:
        case ir.Nearest() | ir.Bm25():
            yield ranking
        case ir.Rrf(primary, secondary):
            yield from (primary, secondary)
