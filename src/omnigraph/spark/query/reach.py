"""Reach: which nodes are how many hops away from each of some nodes.

A breadth-first search from all starts at once: each pair of a start and a node is met once, at its
shortest distance. A start is never met again through a cycle; an edge from it to itself reaches it
at the first hop. Few hops are one plan; many are worked out hop by hop, until nothing new is met.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.spark.query.entities import FAR, NEAR
from omnigraph.spark.spark_errors import spark_errors

_START, _NODE, _HOP, _LOOPS = "start", "node", "hop", "loops"

PLANNED_HOPS_MAX = 3
"""Most hops in one plan: without looking at what was met before, walks meet it again and again."""


def find_reach(starts: DataFrame, edges: DataFrame, *, hops_min: int, hops_max: int) -> DataFrame:
    """The pairs of a start and what it reaches within the bounds, each once."""
    met = starts.select(f.col(NEAR).alias(_START), f.col(NEAR).alias(_NODE))
    if hops_max > PLANNED_HOPS_MAX:
        pairs = _hop_by_hop(met, edges, hops_min=hops_min, hops_max=hops_max)
    else:
        pairs = _in_one_plan(met, edges, hops_min=hops_min, hops_max=hops_max)
    return pairs.select(f.col(_START).alias(NEAR), f.col(_NODE).alias(FAR))


def _in_one_plan(starts: DataFrame, edges: DataFrame, *, hops_min: int, hops_max: int) -> DataFrame:
    """All walks first, then the shortest of each pair: the plan grows with the hops alone."""
    walked = [starts.withColumn(_HOP, f.lit(0))]
    for hop in range(1, hops_max + 1):
        walked.append(_walk(walked[-1], edges).withColumn(_HOP, f.lit(hop)))
    is_loop = (f.col(_HOP) == 1) & (f.col(_START) == f.col(_NODE))
    pairs = reduce(DataFrame.unionByName, walked)
    met = pairs.groupBy(_START, _NODE).agg(f.min(_HOP).alias(_HOP), f.max(is_loop).alias(_LOOPS))
    is_wanted = f.col(_HOP) >= hops_min
    return met.where(is_wanted | f.col(_LOOPS) if hops_min == 1 else is_wanted)


def _hop_by_hop(starts: DataFrame, edges: DataFrame, *, hops_min: int, hops_max: int) -> DataFrame:
    met = frontier = starts
    found = list[DataFrame]()
    for hop in range(1, hops_max + 1):
        reached = _walk(frontier, edges)
        if hop == 1 and hops_min == 1:
            found.append(reached.where(f.col(_START) == f.col(_NODE)))
        with spark_errors(action="follow edges"):
            frontier = reached.join(met, [_START, _NODE], "left_anti").localCheckpoint()
            is_over = frontier.isEmpty()
        if is_over:
            break
        if hop >= hops_min:
            found.append(frontier)
        met = met.unionByName(frontier)
    if not found:
        found.append(met.limit(0))
    return reduce(DataFrame.unionByName, found)


def _walk(frontier: DataFrame, edges: DataFrame) -> DataFrame:
    walked = frontier.join(edges, f.col(_NODE) == f.col(NEAR), "inner")
    return walked.select(_START, f.col(FAR).alias(_NODE)).dropDuplicates()
