"""Shortest paths from one node, worked out by joins, a hop at a time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from omnigraph.engine.analysis.requests import PathsRequest
from omnigraph.engine.analysis.solving import refuse_source
from omnigraph.spark.algorithms.network import FrameNetwork, held, keep, orient

_LEVELS_KEPT_APART = 8
"""After so many hops what was reached is put together: rows move seldom, plans stay short."""


def find_paths(network: FrameNetwork, request: PathsRequest) -> DataFrame:
    """The nodes that can be reached: `node`, `distance`, and the nodes on the way if wanted.

    `NotFoundError` if there is no such node to start from.
    """
    type_name, id = request.source
    start = network.nodes.where((f.col("type") == type_name) & (f.col("id") == id))
    # Arrays of numbers compare as paths do, element by element.
    frontier = keep(_select(start.select("node"), request, hops=0, path=f.array("node")))
    if frontier.isEmpty():
        raise refuse_source(request.source)
    reached, hops = frontier, 0
    with held(orient(network, request.direction)) as steps:
        while hops != request.hops_max:
            hops += 1
            frontier = keep(_step(frontier, steps, reached, request, hops=hops))
            if frontier.isEmpty():
                break
            reached = reached.union(frontier)
            if hops % _LEVELS_KEPT_APART == 0:
                reached = keep(reached)
    return _name_ways(reached, network) if request.with_paths else reached


def _step(
    frontier: DataFrame, steps: DataFrame, reached: DataFrame, request: PathsRequest, *, hops: int
) -> DataFrame:
    """What is one hop further and was not reached before."""
    met = (
        frontier.drop("distance")
        .join(steps, "node")
        .drop("node")
        .withColumnRenamed("other", "node")
    )
    known = reached.select("node")
    if not request.with_paths:
        fresh = met.distinct().join(known, "node", "left_anti")
        return _select(fresh, request, hops=hops, path=None)
    fresh = met.join(known, "node", "left_anti").groupBy("node").agg(f.min("path").alias("path"))
    return _select(fresh, request, hops=hops, path=f.concat("path", f.array("node")))


def _select(
    nodes: DataFrame, request: PathsRequest, *, hops: int, path: Column | None
) -> DataFrame:
    distance = f.lit(hops).cast("long").alias("distance")
    if path is None or not request.with_paths:
        return nodes.select("node", distance)
    return nodes.select("node", distance, path.alias("path"))


def _name_ways(reached: DataFrame, network: FrameNetwork) -> DataFrame:
    """Paths of numbers as paths of types and ids."""
    steps = reached.select(f.col("node").alias("end"), f.posexplode("path").alias("place", "node"))
    named = steps.join(network.nodes, "node").groupBy("end")
    step = f.struct("place", "type", "id")
    ways = named.agg(f.sort_array(f.collect_list(step)).alias("way"))
    return reached.drop("path").join(
        ways.select(
            f.col("end").alias("node"),
            f.col("way.type").alias("path_types"),
            f.col("way.id").alias("path"),
        ),
        "node",
    )
