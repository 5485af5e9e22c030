"""Nodes and edges of a query as frames, and the inputs of its searches.

Frames hold only the columns that the query references. Conditions that Lance can evaluate are part
of the scan; the others are applied to its rows. Query texts are embedded once, on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.compiler import ir
from omnigraph.engine.read.entities import one_chunk
from omnigraph.engine.read.explain import share_of_all
from omnigraph.engine.read.filter import can_push_down, text_query
from omnigraph.engine.read.plan import ExpandStep
from omnigraph.engine.read.ranking import QueryVectors, find_index_search
from omnigraph.engine.read.search.text_index import EMPTY_STATISTICS, TextStatistics
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.rows.conditions import ALWAYS, And, bind
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind, Unique
from omnigraph.model.types import TextLanguage
from omnigraph.spark.jobs import run_job_quietly
from omnigraph.spark.query.column_pruning import NOTHING, ReferencedColumns, Search
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.relation import Relation, id_column, property_column
from omnigraph.spark.query.tables import Distance, HoldsWords, Measure, Relevance, TypeFrames

NEAR, FAR = "near", "far"
"""The ends of an edge: the start of an expansion, and its target."""


@dataclass(frozen=True, slots=True)
class Entities:
    """Reads the entities of one query; `searches` are the columns of search results."""

    frames: TypeFrames
    catalog: Catalog
    columns: Mapping[str, ReferencedColumns]
    nameless: frozenset[str]
    """Variables whose ids are not needed."""

    searches: Mapping[Search, str]
    vectors: QueryVectors
    expressions: Expressions

    def scan(self, scan: ir.NodeScan) -> Relation:
        """The nodes of a type that match the filters."""
        declared = self.catalog.nodes[scan.type_name]
        columns = self.columns_of(scan.variable)
        is_whole = not scan.filters and len(columns) == 1
        return Relation(
            frame=self._read(declared, scan.variable, scan.filters, ends={}),
            columns={scan.variable: columns},
            is_weighted=False,
            is_distinct=True,
            whole=scan.variable if is_whole else None,
            estimate=self.frames.count(declared) * share_of_all(scan.filters),
            leaves=1,
        )

    def list_all(self, declared: NodeType, variable: str) -> Relation:
        """Every node of a type, with its id alone."""
        name = id_column(variable)
        return Relation(
            frame=self.frames.rows(declared, columns={"id": name}, condition=ALWAYS, measures={}),
            columns={variable: (name,)},
            is_weighted=False,
            is_distinct=True,
            whole=variable,
            estimate=self.frames.count(declared),
            leaves=1,
        )

    def columns_of(self, variable: str) -> tuple[str, ...]:
        """The columns of a variable, with its id first unless that is not needed."""
        columns = self.columns.get(variable, NOTHING)
        ids = () if variable in self.nameless else (id_column(variable),)
        properties = (property_column(variable, each.property) for each in columns.properties)
        return (*ids, *properties, *(self.searches[each] for each in columns.searches))

    def join_target(self, expand: ir.Expand, part: Relation) -> Relation:
        """The rows whose target matches the filters, with the referenced columns of the target."""
        columns = self.columns_of(expand.target)
        if len(columns) == 1 and not expand.filters:
            return part
        declared = self.catalog.nodes[expand.target_type]
        target_id = columns[0]
        nodes = self._read(declared, expand.target, expand.filters, ends={})
        frame = part.frame.withColumnRenamed(target_id, FAR)
        frame = frame.join(nodes, f.col(FAR) == f.col(target_id), "inner").drop(FAR)
        return replace(
            part,
            frame=frame,
            columns={**part.columns, expand.target: columns},
            estimate=part.estimate * share_of_all(expand.filters),
            leaves=part.leaves + 1,
        )

    # Edges

    def read_edges(self, step: ExpandStep) -> DataFrame:
        """The ends of a type's edges, once per direction of travel, with referenced columns."""
        expand, binding = step.expand, find_binding(step)
        if binding is None:
            return self.read_ends(expand)
        declared = self.catalog.edges[expand.edge_type]
        pushed = [each for each in step.edge_filters if can_push_down(each)]
        edges = self._read(declared, binding, pushed, ends={"src": NEAR, "dst": FAR})
        return _orient(edges, expand.direction)

    def read_ends(self, expand: ir.Expand) -> DataFrame:
        """The ends of a type's edges, once per direction of travel."""
        declared = self.catalog.edges[expand.edge_type]
        ends = self.frames.rows(
            declared, columns={"src": NEAR, "dst": FAR}, condition=ALWAYS, measures={}
        )
        return _orient(ends, expand.direction)

    def unpushed(self, conditions: Iterable[ir.Condition]) -> list[ir.Condition]:
        """The conditions that Lance cannot evaluate."""
        return [each for each in conditions if not can_push_down(each)]

    def has_single_edges(self, expand: ir.Expand) -> bool:
        """Whether the schema rules out parallel edges in the direction of travel."""
        declared = self.catalog.edges[expand.edge_type]
        if expand.direction is ir.Direction.BOTH and declared.source == declared.target:
            return False
        return declared.cardinality.maximum == 1 or any(
            isinstance(each, Unique) and {"src", "dst"} >= set(each.columns)
            for each in declared.constraints
        )

    def near_type(self, expand: ir.Expand) -> NodeType:
        """The type of the nodes that an expansion starts from."""
        declared = self.catalog.edges[expand.edge_type]
        is_reversed = expand.direction is ir.Direction.IN
        return self.catalog.nodes[declared.target if is_reversed else declared.source]

    def count_edges(self, expand: ir.Expand) -> int:
        """The number of edges of the type."""
        return self.frames.count(self.catalog.edges[expand.edge_type])

    def degree(self, expand: ir.Expand) -> float:
        """The approximate number of neighbours of an entity."""
        sources = self.frames.count(self.near_type(expand))
        each_hop = self.count_edges(expand) / max(sources, 1)
        return float(sum(each_hop**hop for hop in range(expand.hops_min, expand.hops_max + 1)))

    def find_candidates(
        self, ranking: ir.Nearest, part: Relation, *, wanted: int | None
    ) -> pa.Array | None:
        """The ids of the entities that a ranking of a part ranks; None if it ranks all of them.

        Runs a job unless the part consists of all entities of the type.
        """
        query = self.vectors.find(ranking)
        search = None if query is None else find_index_search(ranking, query, self.vectors.inputs)
        if search is None:
            return None
        variable = ranking.field.variable
        declared = self.catalog.nodes[self.vectors.type_by_variable[variable]]
        is_whole = part.whole == variable and not self.frames.is_restricted(declared)

        def match(ids: pa.Array) -> npt.NDArray[np.bool_]:
            if is_whole:
                return np.ones(len(ids), np.bool_)
            name = id_column(variable)
            found = part.frame.select(name).where(f.col(name).isin(ids.to_pylist())).distinct()
            rows = run_job_quietly(found.sparkSession, found.toArrow, stage="match")
            marks: npt.NDArray[np.bool_] = pc.is_in(ids, value_set=one_chunk(rows[name])).to_numpy(
                zero_copy_only=False
            )
            return marks

        return self.frames.find_candidates(declared, search, wanted=wanted, match=match)

    def _read(
        self,
        declared: NodeType | EdgeType,
        variable: str,
        filters: Sequence[ir.Condition],
        *,
        ends: Mapping[str, str],
    ) -> DataFrame:
        columns = self.columns.get(variable, NOTHING)
        properties = {
            each.property: property_column(variable, each.property) for each in columns.properties
        }
        ids = {} if variable in self.nameless else {"id": id_column(variable)}
        inputs = self.expressions.inputs
        statistics = partial(self.frames.count_words, declared)
        pushed = (each for each in filters if can_push_down(each))
        frame = self.frames.rows(
            declared,
            columns={**ids, **ends, **properties},
            condition=And(tuple(bind(each, kind=TypeKind.NODE, inputs=inputs) for each in pushed)),
            measures={
                self.searches[each]: measure_of(each, inputs, self.vectors, statistics)
                for each in columns.searches
            },
        )
        for condition in self.unpushed(filters):
            frame = frame.where(self.expressions.condition(condition))
        return frame


def measure_of(
    search: Search,
    inputs: Inputs,
    vectors: QueryVectors,
    statistics: Callable[[str, str, TextLanguage], TextStatistics],
) -> Measure:
    """The measure of a search for each row.

    `statistics` is called with the property, the words and the language if scores need the
    statistics of all texts.
    """
    name = search.field.property
    match search:
        case ir.TextMatch(is_negated=is_negated, language=language):
            return HoldsWords(name, text_query(search, inputs), is_negated, language)
        case ir.Nearest():
            found = vectors.find(search)
            return Distance(name, None if found is None else tuple(found.tolist()))
        case ir.Bm25(query=query, language=language):
            words = inputs.value_of(query)
            if words is None:
                return Relevance(name, None, EMPTY_STATISTICS, language)
            assert isinstance(words, str)
            return Relevance(name, words, statistics(name, words, language), language)


def find_binding(step: ExpandStep) -> str | None:
    """The variable of an expansion's edges; None if it is not used."""
    binding = step.expand.edge_binding
    if binding == ir.ANONYMOUS or not (binding in step.live or step.edge_filters):
        return None
    return binding


def _orient(edges: DataFrame, direction: ir.Direction) -> DataFrame:
    turned = {NEAR: f.col(FAR).alias(NEAR), FAR: f.col(NEAR).alias(FAR)}
    names = edges.columns
    backwards = [turned.get(name, f.col(name)) for name in names]
    match direction:
        case ir.Direction.OUT:
            return edges
        case ir.Direction.IN:
            return edges.select(*backwards)
        case ir.Direction.BOTH:
            # A self-loop counts once, although both its ends lead to the node.
            others = edges.where(f.col(NEAR) != f.col(FAR))
            return edges.unionByName(others.select(*backwards))
