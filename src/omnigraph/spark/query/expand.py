"""Expansion to neighbours as joins with edges, and variable-length reach.

Each reached node appears once per row, or once per edge if edges are bound. Reach is a
breadth-first search from all starts that gives each pair at its shortest distance. A few hops form
one plan; more hops run one by one until no new node is found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.compiler.ir import Direction, Expand
from omnigraph.engine.read.plan import ExpandStep, cap_hops
from omnigraph.spark.errors import spark_errors
from omnigraph.spark.query.entities import FAR, NEAR, Entities, find_binding
from omnigraph.spark.query.relation import WEIGHT, Relation, id_column

_START, _NODE, _HOP, _LOOPS = "start", "node", "hop", "loops"

PLANNED_HOPS_MAX = 3
"""Most hops in one plan, because walks without a check revisit nodes again and again."""


def find_reach(starts: DataFrame, edges: DataFrame, *, hops_min: int, hops_max: int) -> DataFrame:
    """The pairs of a start and each node it reaches within the bounds, each once."""
    visited = starts.select(f.col(NEAR).alias(_START), f.col(NEAR).alias(_NODE))
    if hops_max > PLANNED_HOPS_MAX:
        pairs = _hop_by_hop(visited, edges, hops_min=hops_min, hops_max=hops_max)
    else:
        pairs = _in_one_plan(visited, edges, hops_min=hops_min, hops_max=hops_max)
    return pairs.select(f.col(_START).alias(NEAR), f.col(_NODE).alias(FAR))


def _in_one_plan(starts: DataFrame, edges: DataFrame, *, hops_min: int, hops_max: int) -> DataFrame:
    """Compute all walks, then the shortest of each pair.

    The size of the plan depends only on the number of hops.
    """
    walked = [starts.withColumn(_HOP, f.lit(0))]
    for hop in range(1, hops_max + 1):
        walked.append(_walk(walked[-1], edges).withColumn(_HOP, f.lit(hop)))
    is_loop = (f.col(_HOP) == 1) & (f.col(_START) == f.col(_NODE))
    pairs = reduce(DataFrame.unionByName, walked)
    visited = pairs.groupBy(_START, _NODE).agg(
        f.min(_HOP).alias(_HOP), f.max(is_loop).alias(_LOOPS)
    )
    is_wanted = f.col(_HOP) >= hops_min
    return visited.where(is_wanted | f.col(_LOOPS) if hops_min == 1 else is_wanted)


def _hop_by_hop(starts: DataFrame, edges: DataFrame, *, hops_min: int, hops_max: int) -> DataFrame:
    visited = frontier = starts
    found = list[DataFrame]()
    for hop in range(1, hops_max + 1):
        reached = _walk(frontier, edges)
        if hop == 1 and hops_min == 1:
            found.append(reached.where(f.col(_START) == f.col(_NODE)))
        with spark_errors(action="follow edges"):
            frontier = reached.join(visited, [_START, _NODE], "left_anti").localCheckpoint()
            is_over = frontier.isEmpty()
        if is_over:
            break
        if hop >= hops_min:
            found.append(frontier)
        visited = visited.unionByName(frontier)
    if not found:
        found.append(visited.limit(0))
    return reduce(DataFrame.unionByName, found)


def _walk(frontier: DataFrame, edges: DataFrame) -> DataFrame:
    walked = frontier.join(edges, f.col(_NODE) == f.col(NEAR), "inner")
    return walked.select(_START, f.col(FAR).alias(_NODE)).dropDuplicates()


_FEW = 4
"""Duplicates are removed after a join that is expected to find this many times fewer edges."""


@dataclass(frozen=True, slots=True)
class Expander:
    """Compiles the expansions of one read to frames."""

    entities: Entities

    def expand(self, step: ExpandStep, part: Relation) -> Relation:
        """The rows after an expansion."""
        step = replace(step, expand=cap_hops(step.expand, self.entities.catalog))
        expand = step.expand
        if expand.hops_min > expand.hops_max:
            # Edges between two different types have no second hop.
            nothing = replace(step, expand=replace(expand, hops_min=1, hops_max=1))
            return self.expand(nothing, part).where(f.lit(col=False))
        is_bound = {expand.target, expand.edge_binding} & step.live
        if not (is_bound or expand.filters or step.edge_filters):
            # Only the number of neighbours is needed.
            return self._count(expand, part)
        if expand.hops_max > 1:
            return self._follow(step, part, self._reach(expand, part), is_clean=True)
        edges = self.entities.read_edges(step)
        is_clean = expand.edge_binding is not None or self.entities.has_single_edges(expand)
        return self._follow(step, part, edges, is_clean=is_clean)

    def _follow(
        self, step: ExpandStep, part: Relation, edges: DataFrame, *, is_clean: bool
    ) -> Relation:
        """One row for each neighbour of each row.

        Clean edges are not parallel, or all of them count.
        """
        expand = step.expand
        target_id = id_column(expand.target)
        binding = find_binding(step)
        estimate = part.estimate * self.entities.degree(expand)
        is_small = estimate * _FEW < self.entities.count_edges(expand)
        is_joined_first = part.is_distinct and is_small
        if not is_clean and not is_joined_first:
            edges = _sort_out(edges, by=FAR if part.whole == expand.source else NEAR)
        frame = self._join(part, expand, edges)
        ids = part.ids(part.columns)
        if not is_clean and is_joined_first:
            frame = frame.dropDuplicates([*ids, FAR])
        frame = frame.withColumnRenamed(FAR, target_id)
        columns = {**part.columns, expand.target: (target_id,)}
        if binding is not None:
            columns[binding] = self.entities.columns_of(binding)
        has_edge_ids = binding is not None and binding not in self.entities.nameless
        is_distinct = part.is_distinct and (expand.edge_binding is None or has_edge_ids)
        found = replace(
            part,
            frame=frame,
            columns=columns,
            is_distinct=is_distinct,
            whole=None,
            estimate=estimate,
            leaves=_count_leaves(expand, part),
        )
        found = self.entities.join_target(expand, found)
        for condition in self.entities.unpushed(step.edge_filters):
            found = found.where(self.entities.expressions.condition(condition))
        return found

    def _count(self, expand: Expand, part: Relation) -> Relation:
        """Compute only the number of neighbours."""
        if expand.hops_max > 1:
            pairs = self._reach(expand, part)
        else:
            pairs = self.entities.read_ends(expand)
            if expand.edge_binding is None and not self.entities.has_single_edges(expand):
                pairs = _sort_out(pairs, by=NEAR)
        times = f"found_{WEIGHT}"
        degrees = pairs.groupBy(NEAR).agg(f.count(f.lit(1)).alias(times))
        joined = self._join(part, expand, degrees)
        weight = (part.weight * f.col(times)).alias(WEIGHT)
        return replace(
            part,
            frame=joined.select(*part.names, weight),
            is_weighted=True,
            whole=None,
            leaves=_count_leaves(expand, part),
        )

    def _join(self, part: Relation, expand: Expand, edges: DataFrame) -> DataFrame:
        (source_id,) = part.ids([expand.source])
        if part.whole == expand.source:
            # Every edge starts at an entity, so the edges alone are sufficient.
            return edges.withColumnRenamed(NEAR, source_id)
        return part.frame.join(edges, f.col(source_id) == f.col(NEAR), "inner").drop(NEAR)

    def _reach(self, expand: Expand, part: Relation) -> DataFrame:
        (source_id,) = part.ids([expand.source])
        starts = part.frame.select(f.col(source_id).alias(NEAR)).where(f.col(NEAR).isNotNull())
        if part.whole is None:
            starts = starts.dropDuplicates()
        edges = self.entities.read_ends(expand)
        return find_reach(starts, edges, hops_min=expand.hops_min, hops_max=expand.hops_max)


def _count_leaves(expand: Expand, part: Relation) -> int:
    """The number of scans in the plan of an expansion."""
    hops, sides = expand.hops_max, 2 if expand.direction is Direction.BOTH else 1
    if hops == 1:
        return part.leaves + sides
    if hops > PLANNED_HOPS_MAX:
        return 2 * part.leaves + sides + hops
    # Each hop contains the plans of all hops before it.
    return (hops + 2) * part.leaves + sides * hops * (hops + 1) // 2


def _sort_out(edges: DataFrame, *, by: str) -> DataFrame:
    """Edges without parallel duplicates, partitioned by the end that a join or count uses."""
    return edges.repartition(f.col(by)).dropDuplicates([NEAR, FAR])
