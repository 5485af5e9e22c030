"""From entities to their neighbours: joins with the edges of a type.

Promises what the engine in process promises: each reached node once for a row, or once for each
edge where edges are bound. Parallel edges are sorted out where that is cheaper: among all edges of
the type before the join, or among the few that the join finds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.compiler.ir import Direction, Expand
from omnigraph.engine.read.plan import ExpandStep, cap_hops
from omnigraph.spark.query.entities import FAR, NEAR, Entities, find_binding
from omnigraph.spark.query.names import id_column
from omnigraph.spark.query.parts import WEIGHT, Part
from omnigraph.spark.query.reach import PLANNED_HOPS_MAX, find_reach

_FEW = 4
"""Edges are sorted out after a join if it finds so many times fewer than there are."""


@dataclass(frozen=True, slots=True)
class Expander:
    """Turns the expansions of one read into frames."""

    entities: Entities

    def expand(self, step: ExpandStep, part: Part) -> Part:
        """The rows after an expansion."""
        step = replace(step, expand=cap_hops(step.expand, self.entities.catalog))
        expand = step.expand
        if expand.hops_min > expand.hops_max:
            return self._find_nothing(step, part)
        if _is_counted(step):
            return self._count(expand, part)
        if expand.hops_max > 1:
            return self._follow(step, part, self._reach(expand, part), is_clean=True)
        edges = self.entities.read_edges(step)
        is_clean = expand.edge_binding is not None or self.entities.has_single_edges(expand)
        return self._follow(step, part, edges, is_clean=is_clean)

    def _follow(self, step: ExpandStep, part: Part, edges: DataFrame, *, is_clean: bool) -> Part:
        """One row for each neighbour of each row; clean edges are not parallel, or all count."""
        expand = step.expand
        target_id = id_column(expand.target)
        binding = find_binding(step)
        is_joined_first = part.is_distinct and self._is_small(expand, part)
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
        tells_edges_apart = binding is not None and binding not in self.entities.nameless
        is_distinct = part.is_distinct and (expand.edge_binding is None or tells_edges_apart)
        found = replace(
            part,
            frame=frame,
            columns=columns,
            is_distinct=is_distinct,
            whole=None,
            estimate=part.estimate * self.entities.degree(expand),
            leaves=_count_leaves(expand, part),
        )
        found = self.entities.look_at_target(expand, found)
        for condition in self.entities.unpushed(step.edge_filters):
            found = found.where(self.entities.expressions.condition(condition))
        return found

    def _count(self, expand: Expand, part: Part) -> Part:
        """Only how many neighbours there are is asked for."""
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

    def _join(self, part: Part, expand: Expand, edges: DataFrame) -> DataFrame:
        (source_id,) = part.ids([expand.source])
        if part.whole == expand.source:
            # Every edge starts at an entity, so the edges are all there is to know.
            return edges.withColumnRenamed(NEAR, source_id)
        return part.frame.join(edges, f.col(source_id) == f.col(NEAR), "inner").drop(NEAR)

    def _reach(self, expand: Expand, part: Part) -> DataFrame:
        (source_id,) = part.ids([expand.source])
        starts = part.frame.select(f.col(source_id).alias(NEAR)).where(f.col(NEAR).isNotNull())
        if part.whole is None:
            starts = starts.dropDuplicates()
        edges = self.entities.read_ends(expand)
        return find_reach(starts, edges, hops_min=expand.hops_min, hops_max=expand.hops_max)

    def _find_nothing(self, step: ExpandStep, part: Part) -> Part:
        # Edges between two types lead nowhere after the first hop.
        nothing = replace(step, expand=replace(step.expand, hops_min=1, hops_max=1))
        return self.expand(nothing, part).where(f.lit(col=False))

    def _is_small(self, expand: Expand, part: Part) -> bool:
        found = part.estimate * self.entities.degree(expand)
        return found * _FEW < self.entities.count_edges(expand)


def _count_leaves(expand: Expand, part: Part) -> int:
    """How many scans the plan of an expansion has."""
    hops, sides = expand.hops_max, 2 if expand.direction is Direction.BOTH else 1
    if hops == 1:
        return part.leaves + sides
    if hops > PLANNED_HOPS_MAX:
        return 2 * part.leaves + sides + hops
    # Each hop starts with all hops before it.
    return (hops + 2) * part.leaves + sides * hops * (hops + 1) // 2


def _is_counted(step: ExpandStep) -> bool:
    """Whether nobody asks which neighbours there are."""
    expand = step.expand
    is_bound = {expand.target, expand.edge_binding} & step.live
    return not (is_bound or expand.filters or step.edge_filters)


def _sort_out(edges: DataFrame, *, by: str) -> DataFrame:
    """Parallel edges once; rows come to lie where a join or a count by one end needs them."""
    return edges.repartition(f.col(by)).dropDuplicates([NEAR, FAR])
