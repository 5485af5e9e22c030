"""Nodes and edges as frames, each with all that the query looks at of them.

A condition that Lance can evaluate is part of the scan; the others are asked of what it returns.
What the catalog and the counts of the snapshot promise about edges is known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.compiler.ir import ANONYMOUS, Condition, Direction, Expand, NodeScan
from omnigraph.engine.read.conditions import ALWAYS, BoundCondition, Every, bind
from omnigraph.engine.read.explain import share_of_all
from omnigraph.engine.read.matching import can_push_down
from omnigraph.engine.read.plan import ExpandStep
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind, Unique
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.looks import NOTHING, Looks, Search
from omnigraph.spark.query.names import id_column, property_column
from omnigraph.spark.query.parts import Part
from omnigraph.spark.query.search import Seeker
from omnigraph.spark.query.tables import TypeFrames

NEAR, FAR = "near", "far"
"""The ends of an edge: where an expansion comes from, and where it leads."""


@dataclass(frozen=True, slots=True)
class Entities:
    """Reads the entities of one query; `searches` are the columns of what they are searched for."""

    frames: TypeFrames
    catalog: Catalog
    looks: Mapping[str, Looks]
    nameless: frozenset[str]
    """Variables whose ids nobody asks for."""

    searches: Mapping[Search, str]
    seeker: Seeker
    expressions: Expressions

    def scan(self, scan: NodeScan) -> Part:
        """The nodes of a type that pass the filters."""
        declared = self.catalog.nodes[scan.type_name]
        columns = self.columns_of(scan.variable)
        is_whole = not scan.filters and len(columns) == 1
        return Part(
            frame=self._read(declared, scan.variable, scan.filters, ends={}),
            columns={scan.variable: columns},
            is_weighted=False,
            is_distinct=True,
            whole=scan.variable if is_whole else None,
            estimate=self.frames.count(declared) * share_of_all(scan.filters),
            leaves=1,
        )

    def list_all(self, declared: NodeType, variable: str) -> Part:
        """Every node of a type, known by its id alone."""
        name = id_column(variable)
        return Part(
            frame=self.frames.rows(declared, columns={"id": name}, condition=ALWAYS, measures={}),
            columns={variable: (name,)},
            is_weighted=False,
            is_distinct=True,
            whole=variable,
            estimate=self.frames.count(declared),
            leaves=1,
        )

    def columns_of(self, variable: str) -> tuple[str, ...]:
        """The columns of a variable, its id first, unless nobody asks for that."""
        looks = self.looks.get(variable, NOTHING)
        ids = () if variable in self.nameless else (id_column(variable),)
        properties = (property_column(variable, each.property) for each in looks.properties)
        return (*ids, *properties, *(self.searches[each] for each in looks.searches))

    def look_at_target(self, expand: Expand, part: Part) -> Part:
        """The rows whose target passes the filters, with what is looked at of it."""
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
        """The ends of a type's edges, once for each way to follow them, with what is looked at."""
        expand, binding = step.expand, find_binding(step)
        if binding is None:
            return self.read_ends(expand)
        declared = self.catalog.edges[expand.edge_type]
        wanted = [each for each in step.edge_filters if can_push_down(each)]
        edges = self._read(declared, binding, wanted, ends={"src": NEAR, "dst": FAR})
        return _orient(edges, expand.direction)

    def read_ends(self, expand: Expand) -> DataFrame:
        """The ends of a type's edges, once for each way to follow them."""
        declared = self.catalog.edges[expand.edge_type]
        ends = self.frames.rows(
            declared, columns={"src": NEAR, "dst": FAR}, condition=ALWAYS, measures={}
        )
        return _orient(ends, expand.direction)

    def unpushed(self, conditions: Iterable[Condition]) -> list[Condition]:
        """The conditions that Lance cannot evaluate."""
        return [each for each in conditions if not can_push_down(each)]

    def has_single_edges(self, expand: Expand) -> bool:
        """Whether the schema rules out parallel edges, for the way that they are followed."""
        declared = self.catalog.edges[expand.edge_type]
        if expand.direction is Direction.BOTH and declared.source == declared.target:
            return False
        return declared.cardinality.maximum == 1 or any(
            isinstance(each, Unique) and {"src", "dst"} >= set(each.columns)
            for each in declared.constraints
        )

    def near_type(self, expand: Expand) -> NodeType:
        """The type of the nodes that an expansion starts from."""
        declared = self.catalog.edges[expand.edge_type]
        is_reversed = expand.direction is Direction.IN
        return self.catalog.nodes[declared.target if is_reversed else declared.source]

    def count_edges(self, expand: Expand) -> int:
        """How many edges of the type there are."""
        return self.frames.count(self.catalog.edges[expand.edge_type])

    def degree(self, expand: Expand) -> float:
        """About how many neighbours an entity has."""
        sources = self.frames.count(self.near_type(expand))
        each_hop = self.count_edges(expand) / max(sources, 1)
        return float(sum(each_hop**hop for hop in range(expand.hops_min, expand.hops_max + 1)))

    def _read(
        self,
        declared: NodeType | EdgeType,
        variable: str,
        filters: Sequence[Condition],
        *,
        ends: Mapping[str, str],
    ) -> DataFrame:
        looks = self.looks.get(variable, NOTHING)
        properties = {
            each.property: property_column(variable, each.property) for each in looks.properties
        }
        ids = {} if variable in self.nameless else {"id": id_column(variable)}
        measure = partial(self.seeker.bind, statistics=partial(self.frames.count_words, declared))
        frame = self.frames.rows(
            declared,
            columns={**ids, **ends, **properties},
            condition=self._bind(each for each in filters if can_push_down(each)),
            measures={self.searches[each]: measure(each) for each in looks.searches},
        )
        for condition in self.unpushed(filters):
            frame = frame.where(self.expressions.condition(condition))
        return frame

    def _bind(self, conditions: Iterable[Condition]) -> BoundCondition:
        inputs = self.expressions.inputs
        return Every(
            tuple(
                bind(each, kind=TypeKind.NODE, values=inputs.values, now=inputs.now)
                for each in conditions
            )
        )


def find_binding(step: ExpandStep) -> str | None:
    """The variable of an expansion's edges, None if nobody asks for them."""
    binding = step.expand.edge_binding
    if binding == ANONYMOUS or not (binding in step.live or step.edge_filters):
        return None
    return binding


def _orient(edges: DataFrame, direction: Direction) -> DataFrame:
    turned = {NEAR: f.col(FAR).alias(NEAR), FAR: f.col(NEAR).alias(FAR)}
    names = edges.columns
    backwards = [turned.get(name, f.col(name)) for name in names]
    match direction:
        case Direction.OUT:
            return edges
        case Direction.IN:
            return edges.select(*backwards)
        case Direction.BOTH:
            # A self-loop is met once, though it leads there from either end.
            others = edges.where(f.col(NEAR) != f.col(FAR))
            return edges.unionByName(others.select(*backwards))
