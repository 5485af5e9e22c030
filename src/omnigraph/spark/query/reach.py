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

_START, _NODE = "start", "node"

_PLANNED_HOPS_MAX = 3
"""Most hops in one plan: each looks at all hops before it, so plans grow by powers."""


def find_reach(starts: DataFrame, edges: DataFrame, *, hops_min: int, hops_max: int) -> DataFrame:
    """The pairs of a start and what it reaches within the bounds, each once."""
    met = starts.select(f.col(NEAR).alias(_START), f.col(NEAR).alias(_NODE))
    frontier, found = met, list[DataFrame]()
    for hop in range(1, hops_max + 1):
        walked = frontier.join(edges, f.col(_NODE) == f.col(NEAR), "inner")
        reached = walked.select(_START, f.col(FAR).alias(_NODE)).dropDuplicates()
        if hop == 1 and hops_min == 1:
            found.append(reached.where(f.col(_START) == f.col(_NODE)))
        frontier = reached.join(met, [_START, _NODE], "left_anti")
        if hops_max > _PLANNED_HOPS_MAX:
            with spark_errors(action="follow edges"):
                frontier = frontier.localCheckpoint()
                is_over = frontier.isEmpty()
            if is_over:
                break
        if hop >= hops_min:
            found.append(frontier)
        met = met.unionByName(frontier)
    if not found:
        found.append(met.limit(0))
    pairs = reduce(lambda some, more: some.unionByName(more), found)
    return pairs.select(f.col(_START).alias(NEAR), f.col(_NODE).alias(FAR))
