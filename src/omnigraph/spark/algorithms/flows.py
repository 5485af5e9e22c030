"""What spreads over a network round by round, worked out by joins: rank, and labels.

A round is one join, one aggregation and one look at what it changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.engine.analysis.requests import Progression
from omnigraph.spark.algorithms.network import FrameNetwork, either_way, held, keep, link


@dataclass(frozen=True, slots=True)
class Spread:
    """A value of each node after some rounds, `node` first."""

    values: DataFrame
    progression: Progression


def rank_nodes(
    network: FrameNetwork, *, damping: float, tolerance: float, iterations_max: int
) -> Spread:
    """PageRank, as it is defined for networks in memory: `rank`."""
    count = max(network.nodes.count(), 1)
    with held(_share_out(network)) as shares:
        leading_on = shares.select(f.col("source").alias("node")).distinct()
        start = network.nodes.select("node").join(
            leading_on.withColumn("leads_on", f.lit(1)), "node", "left"
        )
        ranks = keep(start.withColumn("rank", f.lit(1.0 / count)))
        _, stranded = _sum_up(ranks, was=None)
        for iteration in range(1, iterations_max + 1):
            given = f.coalesce("arrived", f.lit(0.0)) + stranded / count
            new = f.lit(damping) * given + (1.0 - damping) / count
            found = keep(
                ranks.join(_send(ranks, shares), "node", "left").select(
                    "node", "leads_on", new.alias("rank"), f.col("rank").alias("was")
                )
            )
            change, stranded = _sum_up(found, was="was")
            ranks = found.drop("was")
            if change <= tolerance:
                return Spread(ranks.drop("leads_on"), Progression(iteration, has_converged=True))
    return Spread(ranks.drop("leads_on"), Progression(iterations_max, has_converged=False))


def spread_labels(network: FrameNetwork, *, iterations_max: int) -> Spread:
    """Label propagation, as it is defined for networks in memory: `label`."""
    own = network.nodes.select("node", f.col("node").alias("other"))
    labels = network.nodes.select("node", f.col("node").alias("label"))
    with held(either_way(link(network), "high", "low").union(own)) as voters:
        for iteration in range(1, iterations_max + 1):
            found = keep(labels.join(_elect(labels, voters), "node"))
            is_same = found.where(f.col("chosen") != f.col("label")).isEmpty()
            labels = found.select("node", f.col("chosen").alias("label"))
            if is_same:
                return Spread(labels, Progression(iteration, has_converged=True))
    return Spread(labels, Progression(iterations_max, has_converged=False))


def _send(ranks: DataFrame, shares: DataFrame) -> DataFrame:
    """What arrives at a node when every node sends its rank on."""
    sent = shares.join(ranks.select(f.col("node").alias("source"), "rank"), "source")
    amount = f.sum(f.col("rank") * f.col("share"))
    return sent.groupBy(f.col("target").alias("node")).agg(amount.alias("arrived"))


def _elect(labels: DataFrame, voters: DataFrame) -> DataFrame:
    """The label with the most votes at a node: `chosen`."""
    of_others = labels.select(f.col("node").alias("other"), "label")
    voted = voters.join(of_others, "other")
    counted = voted.groupBy("node", "label").agg(f.count("*").alias("votes"))
    # The greatest of these has the most votes and, of several, the smallest label.
    best = f.max(f.struct("votes", (-f.col("label")).alias("minus_label")))
    return counted.groupBy("node").agg((-best["minus_label"]).alias("chosen"))


def _share_out(network: FrameNetwork) -> DataFrame:
    """Which part of a node's rank goes to another in each round; parallel edges add up."""
    weighed = network.edges.groupBy("source", "target").agg(f.count("*").alias("weight"))
    leaving = network.edges.groupBy("source").agg(f.count("*").alias("leaving"))
    share = f.col("weight") / f.col("leaving")
    return weighed.join(leaving, "source").select("source", "target", share.alias("share"))


def _sum_up(ranks: DataFrame, *, was: str | None) -> tuple[float, float]:
    """By how much ranks differ from what they were, and what nodes have that no edge leaves."""
    change = f.lit(0.0) if was is None else f.abs(f.col("rank") - f.col(was))
    stranded = f.when(f.col("leads_on").isNull(), f.col("rank")).otherwise(0.0)
    (sums,) = ranks.agg(f.sum(change), f.sum(stranded)).collect()
    return float(sums[0] or 0.0), float(sums[1] or 0.0)
