"""Aggregation over one table, read in batches as distinct rows and the number of times each occurs.

A read that groups the edges of a type by their own properties needs neither their ends nor an
adjacency, and one that groups a type that is too large for the cache needs its columns only once.
Memory is that of the distinct rows, regardless of the size of the type. The distinct rows are then
aggregated by weight, as all other rows are, so the result is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.compiler.ir import (
    ANONYMOUS,
    Aggregate,
    Column,
    Condition,
    Constant,
    Direction,
    Now,
    ParameterValue,
    PropertyValue,
)
from omnigraph.engine.read.budget import Budget
from omnigraph.engine.read.cache import Sources
from omnigraph.engine.read.entities import (
    EntityIndex,
    FetchedEntities,
    Ordinals,
    WholeEntities,
    one_chunk,
)
from omnigraph.engine.read.filter import Filter, can_push_down
from omnigraph.engine.read.plan import ExpandStep, Plan, ScanStep, counts_rows, references_of
from omnigraph.engine.read.relation import Relation
from omnigraph.engine.rows.conditions import ALWAYS, NEVER, BoundCondition, to_predicate
from omnigraph.model.catalog import Catalog, TypeKind
from omnigraph.model.limits import CACHED_TYPE_ROWS_MAX
from omnigraph.storage.predicates import And

_COUNT = "count_all"
"""The aggregate that counts rows, and so the name of its column."""

_PARTIAL_ROWS_MAX = 1_000_000
"""Distinct rows of several batches that are held before they are combined."""


@dataclass(frozen=True, slots=True)
class TableScan:
    """A read that needs no more than some properties of the rows of one type, in any order."""

    kind: TypeKind
    type_name: str
    variable: str
    conditions: tuple[Condition, ...]
    properties: tuple[str, ...]


def find_table_scan(plan: Plan, catalog: Catalog) -> TableScan | None:
    """The scan that serves a whole read, if there is one."""
    ir = plan.ir
    if not (ir.is_aggregate or ir.is_distinct) or ir.ranking is not None:
        return None
    scanned = _find_table(plan, catalog)
    if scanned is None:
        return None
    kind, type_name, variable, conditions = scanned
    declared = (catalog.nodes if kind is TypeKind.NODE else catalog.edges)[type_name]
    properties = _properties_of(ir.columns, variable)
    if properties is None or not all(can_push_down(each) for each in conditions):
        return None
    types = [declared.properties[name].type for name in properties]
    if any(each.is_list or each.is_vector or each.is_blob for each in types):
        return None
    return TableScan(kind, type_name, variable, conditions, properties)


def _find_table(
    plan: Plan, catalog: Catalog
) -> tuple[TypeKind, str, str, tuple[Condition, ...]] | None:
    match plan.steps:
        case (ScanStep(scan),):
            return TypeKind.NODE, scan.type_name, scan.variable, scan.filters
        case (ScanStep(scan), ExpandStep(expand, edge_filters, live)):
            # Every edge has both ends, so without conditions on them all edges match once.
            declared = catalog.edges[expand.edge_type]
            ends = [declared.source, declared.target]
            if expand.direction is Direction.IN:
                ends.reverse()
            is_every_edge = (
                not scan.filters
                and not expand.filters
                and expand.direction is not Direction.BOTH
                and (expand.hops_min, expand.hops_max) == (1, 1)
                and expand.source == scan.variable != expand.target
                and [scan.type_name, expand.target_type] == ends
                and expand.edge_binding is not None
                and live <= {expand.edge_binding}
            )
            if not is_every_edge:
                return None
            return TypeKind.EDGE, expand.edge_type, expand.edge_binding or ANONYMOUS, edge_filters
        case _:
            return None


def _properties_of(columns: Iterable[Column], variable: str) -> tuple[str, ...] | None:
    """The properties that columns need; None if they need more than properties."""
    found: dict[str, None] = {}
    for column in columns:
        match column.expression:
            case Aggregate() as aggregate if counts_rows(aggregate):
                pass
            case PropertyValue(name, property) | Aggregate(argument=PropertyValue(name, property)):
                if name != variable:
                    return None
                found[property] = None
            case ParameterValue() | Constant() | Now():
                pass
            case _:
                return None
    return tuple(found)


def is_worthwhile(scan: TableScan, sources: Sources) -> bool:
    """Whether to read rows in batches; nodes that fit the cache are read into it instead."""
    if scan.kind is TypeKind.EDGE:
        return True
    return sources.node_entry(scan.type_name).row_count > CACHED_TYPE_ROWS_MAX


@dataclass(frozen=True, slots=True)
class TableScanner:
    """Runs table scans over one snapshot."""

    sources: Sources
    matcher: Filter
    budget: Budget

    def run(self, scan: TableScan) -> tuple[Relation, EntityIndex]:
        """The distinct rows, weighted by how often each occurs, and their entity index."""
        is_edge = scan.kind is TypeKind.EDGE
        index = (self.sources.edges if is_edge else self.sources.nodes)(scan.type_name)
        bound = [self.matcher.bind(each) for each in scan.conditions]
        bound = [each for each in bound if each != ALWAYS]
        names = [name for name in scan.properties if index.has_columns([name])]
        needed = {*names, *_columns_of(scan.conditions)}
        if NEVER in bound or not index.has_columns(needed):
            return self._weigh(scan, np.zeros(0, np.int64), [], index)
        if not needed:
            return self._weigh(scan, np.array([len(index.present())]), [], index)
        rows = self._condense(self._batches(index, names, bound, needed), len(names))
        *keys, counts = [one_chunk(each) for each in rows.columns]
        weights = counts.to_numpy().astype(np.int64)
        return self._weigh(scan, weights, list(zip(names, keys, strict=True)), index)

    def _weigh(
        self,
        scan: TableScan,
        weights: Ordinals,
        columns: Sequence[tuple[str, pa.Array]],
        index: WholeEntities,
    ) -> tuple[Relation, EntityIndex]:
        if not weights.any():
            return Relation(0, {scan.variable: np.zeros(0, np.int64)}, None), index
        ordinals = np.arange(len(weights), dtype=np.int64)
        # Every distinct row has a position, even if the rows have no columns.
        rows = pa.table({**dict(columns), "id": pa.nulls(len(weights), pa.string())})
        fetched = FetchedEntities(rows, whole=index)
        return Relation(len(weights), {scan.variable: ordinals}, weights), fetched

    def _batches(
        self,
        index: WholeEntities,
        names: Sequence[str],
        bound: Sequence[BoundCondition],
        needed: Collection[str],
    ) -> Iterator[pa.Table]:
        """The rows that meet the conditions: the named columns, or any other if there are none."""
        columns = names or sorted(needed)[:1]
        if index.is_worth_reading(needed):
            ordinals = index.matching(bound, sorted(needed)) if bound else index.present()
            values = [index.values(each, pa.null(), ordinals) for each in columns]
            yield pa.Table.from_arrays(values, [str(number) for number in range(len(columns))])
            return
        predicate = And(tuple(to_predicate(each) for each in bound)) if bound else None
        tables = self.sources.tables
        for batch in tables.scan_batches(index.at, columns=columns, predicate=predicate):
            # Numbers cannot be mistaken for the name of the counts, as properties could.
            numbered = [str(number) for number in range(len(columns))]
            yield pa.Table.from_arrays(batch.columns, numbered)

    def _condense(self, batches: Iterable[pa.Table], width: int) -> pa.Table:
        """The distinct rows of all batches in their first columns, and how often each occurs."""
        keys = [str(number) for number in range(width)]
        partial: list[pa.Table] = []
        held = 0
        for batch in batches:
            self.budget.require_time()
            partial.append(batch.group_by(keys).aggregate([([], _COUNT)]))
            held += partial[-1].num_rows
            if held > _PARTIAL_ROWS_MAX:
                partial = [_combine(partial, keys)]
                # Combining again pays off only after as many further rows.
                held = 0
                self.budget.require_rows(partial[0].num_rows, width=width + 1)
        return _combine(partial, keys)


def _combine(partial: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    if not partial:
        return pa.table({name: pa.array([], pa.int64()) for name in [*keys, _COUNT]})
    if len(partial) == 1:
        return partial[0]
    grouped = pa.concat_tables(partial).group_by(list(keys)).aggregate([(_COUNT, "sum")])
    return grouped.rename_columns([*keys, _COUNT])


def _columns_of(conditions: Iterable[Condition]) -> Iterator[str]:
    for condition in conditions:
        for reference in references_of(condition):
            assert isinstance(reference, PropertyValue), "the conditions compare properties"
            yield reference.property
