"""How a network hangs together, worked out by joins: degrees, components, cores and triangles.

Every frame that is returned has a row a node, `node` first; nodes without edges may be missing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from omnigraph.spark.algorithms.network import FrameNetwork, either_way, held, keep, link


def count_degrees(network: FrameNetwork) -> DataFrame:
    """How many edges arrive at a node and leave it: `in_degree`, `out_degree`, `degree`."""
    one, none = f.lit(1).cast("long"), f.lit(0).cast("long")
    ends = network.edges.select(
        f.explode(
            f.array(
                f.struct(f.col("source").alias("node"), none.alias("into"), one.alias("from")),
                f.struct(f.col("target").alias("node"), one.alias("into"), none.alias("from")),
            )
        ).alias("end")
    )
    return (
        ends.select("end.*")
        .groupBy("node")
        .agg(f.sum("into").alias("in_degree"), f.sum("from").alias("out_degree"))
        .withColumn("degree", f.col("in_degree") + f.col("out_degree"))
    )


def find_components(network: FrameNetwork) -> DataFrame:
    """The smallest node that a node is connected with: `component`.

    Links are turned into stars by two steps in turn: what hangs on a node moves to the smallest
    node that this one hangs on, and what a node hangs on moves to the smallest of it. Chains become
    shorter by a factor in each round, so that the number of rounds grows with the logarithm of
    their length only; when a round changes nothing, all are stars.
    """
    links = keep(link(network))
    mark, last = _mark(links), None
    while mark != last:
        links = keep(_hang_lower(_hang_upper(links)))
        mark, last = _mark(links), mark
    return links.select(f.col("high").alias("node"), f.col("low").alias("component"))


def find_cores(network: FrameNetwork) -> DataFrame:
    """The core number of a node: `core`.

    Begins with how many neighbours there are, and lowers a number to the most neighbours that have
    at least as much, until nothing is lowered. Only those are looked at of whom a neighbour was.
    """
    with held(either_way(link(network), "high", "low")) as pairs:
        start = pairs.groupBy("node").agg(f.count("*").alias("core"))
        cores = keep(start.withColumn("is_lowered", f.col("core") >= 0))
        while not cores.where("is_lowered").isEmpty():
            cores = keep(_lower(cores, pairs))
    return cores.drop("is_lowered")


def count_triangles(network: FrameNetwork) -> DataFrame:
    """How many triangles a node is part of: `triangles`.

    A link leads from the end with fewer neighbours to the one with more, so that no node has many
    that it leads to; what both ends of a link lead to closes a triangle.
    """
    with held(_turn_upward(network)) as upward:
        led_to = upward.groupBy("lower").agg(f.collect_list("upper").alias("led_to"))
        of_upper = led_to.select(f.col("lower").alias("upper"), f.col("led_to").alias("on_to"))
        closing = f.explode(f.array_intersect("led_to", "on_to")).alias("top")
        closed = upward.join(led_to, "lower").join(of_upper, "upper")
        triangles = closed.select("lower", "upper", closing)
        corners = triangles.select(f.explode(f.array("lower", "upper", "top")).alias("node"))
        return keep(corners.groupBy("node").agg(f.count("*").alias("triangles")))


def _lower(cores: DataFrame, pairs: DataFrame) -> DataFrame:
    """One round: what the neighbours of those that were lowered support now."""
    lowered = cores.where("is_lowered").select(f.col("node").alias("other"))
    touched = pairs.join(lowered, "other", "left_semi").select("node").distinct()
    of_others = cores.select(f.col("node").alias("other"), f.col("core").alias("their"))
    falling = f.sort_array(f.collect_list("their"), asc=False)
    supported = f.size(f.filter(falling, lambda core, place: core > place)).cast("long")
    support = (
        pairs.join(touched, "node", "left_semi")
        .join(of_others, "other")
        .groupBy("node")
        .agg(supported.alias("supported"))
    )
    new = f.least("core", "supported")  # which leaves a null out
    return cores.join(support, "node", "left").select(
        "node", new.alias("core"), (new < f.col("core")).alias("is_lowered")
    )


def _turn_upward(network: FrameNetwork) -> DataFrame:
    """Links by the place of their ends among all, by neighbours first: (`lower`, `upper`)."""
    links = link(network)
    degrees = either_way(links, "high", "low").groupBy("node").agg(f.count("*").alias("degree"))
    places = degrees.select("node", f.struct("degree", "node").alias("place"))
    of_high = places.select(f.col("node").alias("high"), f.col("place").alias("high_place"))
    of_low = places.select(f.col("node").alias("low"), f.col("place").alias("low_place"))
    placed = links.join(of_high, "high").join(of_low, "low")
    return placed.select(
        f.least("high_place", "low_place")["node"].alias("lower"),
        f.greatest("high_place", "low_place")["node"].alias("upper"),
    )


def _hang_upper(links: DataFrame) -> DataFrame:
    """What hangs on a node moves to the smallest node that this one hangs on, if on any."""
    smallest = links.groupBy("high").agg(f.min("low").alias("smallest"))
    of_low = smallest.select(f.col("high").alias("low"), "smallest")
    return links.join(of_low, "low", "left").select(
        "high", f.coalesce("smallest", "low").alias("low")
    )


def _hang_lower(links: DataFrame) -> DataFrame:
    """What a node hangs on moves, and the node too, to the smallest of it."""
    smallest = links.groupBy("high").agg(f.min("low").alias("smallest"))
    others = links.join(smallest, "high").where(f.col("low") > f.col("smallest"))
    moved = others.select(f.col("low").alias("high"), f.col("smallest").alias("low"))
    return moved.union(smallest.select("high", f.col("smallest").alias("low"))).distinct()


def _mark(links: DataFrame) -> Row:
    """What tells one set of links from another; they come in any order."""
    mixed = f.bit_xor(f.xxhash64("high", "low"))
    (found,) = links.agg(f.count("*").alias("count"), mixed.alias("mixed")).collect()
    return found
