"""The columns that a query has to read for each variable.

A condition that Lance evaluates in the scan needs no column afterwards. Text and vector searches
are evaluated there too, so their result becomes a column, never the text or the vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.compiler.ir import (
    ANONYMOUS,
    Aggregate,
    AllOf,
    AnyOf,
    Bm25,
    Column,
    Comparison,
    Condition,
    Constant,
    EntityId,
    Nearest,
    Now,
    NullTest,
    ParameterValue,
    PropertyValue,
    Ranking,
    ReadIR,
    Rrf,
    SameEntity,
    TextMatch,
)
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

Search = TextMatch | Nearest | Bm25
"""A search over the text or the vector of one entity."""

ColumnSource = PropertyValue | Search


@dataclass(frozen=True, slots=True)
class ReferencedColumns:
    """The properties and the search results that become columns."""

    properties: tuple[PropertyValue, ...]
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
        variable = source.variable if isinstance(source, PropertyValue) else source.field.variable
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
        reference == binding or (isinstance(reference, EntityId) and reference.variable == binding)
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


def _conditions_of(steps: Iterable[Step]) -> Iterator[tuple[Condition, bool]]:
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
                return None if expand.edge_binding == ANONYMOUS else expand.edge_binding
            case ScanStep() | AntiStep() | OptionalStep():
                return None
    return None


def _entities_of(column: Column) -> Iterator[EntityId]:
    match column.expression:
        case EntityId() as entity:
            yield entity
        case Aggregate(argument=EntityId() as entity) as aggregate:
            if not counts_rows(aggregate):
                yield entity
        case _:
            return


def _group_columns(columns: Sequence[ColumnSource]) -> ReferencedColumns:
    by_name = {each.property: each for each in columns if isinstance(each, PropertyValue)}
    searches = tuple(each for each in columns if not isinstance(each, PropertyValue))
    return ReferencedColumns(tuple(by_name.values()), searches)


def _of_conditions(conditions: Iterable[Condition]) -> Iterator[ColumnSource]:
    for each in conditions:
        match each:
            case TextMatch():
                yield each
            case AllOf(inner) | AnyOf(inner):
                yield from _of_conditions(inner)
            case Comparison() | NullTest() | SameEntity():
                yield from (one for one in references_of(each) if isinstance(one, PropertyValue))


def _of_output(ir: ReadIR) -> Iterator[ColumnSource]:
    for column in ir.columns:
        match column.expression:
            case PropertyValue() as source:
                yield source
            case Aggregate(argument=PropertyValue() as source) as aggregate:
                if not counts_rows(aggregate):
                    yield source
            case Nearest() | Bm25() | Rrf() as ranking:
                yield from _of_ranking(ranking)
            case Aggregate() | EntityId() | ParameterValue() | Constant() | Now():
                pass
    for key in ir.order:
        if isinstance(key.expression, PropertyValue):
            yield key.expression
    if ir.ranking is not None:
        yield from _of_ranking(ir.ranking)


def _of_ranking(ranking: Ranking) -> Iterator[ColumnSource]:
    match ranking:
        case Nearest() | Bm25():
            yield ranking
        case Rrf(primary, secondary):
            yield from (primary, secondary)
