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
    evaluated = tuple(
        condition
        for condition, is_in_scan in _conditions_of(plan.steps)
        if not (is_in_scan and can_push_down(condition))
    )
    for source in _sources_in((evaluated, plan.ir.columns, plan.ir.order, plan.ir.ranking)):
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


def _sources_in(part: object) -> Iterator[ColumnSource]:
    """The properties and searches in a part of the IR; a search includes its property."""
    match part:
        case ir.PropertyValue() | ir.TextMatch() | ir.Nearest() | ir.Bm25():
            yield part
        case ir.Aggregate() if counts_rows(part):
            return
        case _:
            for each in ir.parts_of(part):
                yield from _sources_in(each)
