"""A network as frames: nodes with numbers, and edges as pairs of these.

Numbers are in the order of types and ids and not dense, so that the smaller number is the smaller
node, as it is in memory. Strings are joined once, when a network is read; what algorithms do round
by round, they do with numbers. Frames are kept where they were made, by executors, and have no past
that would be worked out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from omnigraph.compiler.ir import Direction
from omnigraph.engine.analysis.selection import Selection
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.read.conditions import ALWAYS
from omnigraph.engine.state.authority import Basis
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.spark.query.tables import TypeFrames


@dataclass(frozen=True, slots=True)
class FrameNetwork:
    """Nodes as (`node`, `type`, `id`) and edges as (`source`, `target`), both kept."""

    nodes: DataFrame
    edges: DataFrame


def keep(frame: DataFrame) -> DataFrame:
    """Work a frame out now and forget how: plans that grow with every round end up planning only.

    The parts of it live as long as the frame does, and no longer than their executors.
    """
    return frame.localCheckpoint(eager=True)


@contextmanager
def held(frame: DataFrame) -> Iterator[DataFrame]:
    """A frame that is worked out once for the block, and takes far less memory than one kept.

    What is made of it has to be kept before the block ends.
    """
    held_frame = frame.persist()
    try:
        yield held_frame
    finally:
        held_frame.unpersist()


def read_network(
    session: SparkSession, selection: Selection, *, opened: OpenGraph, basis: Basis
) -> FrameNetwork:
    """The network that a selection is at a commit."""
    nodes = keep(_number(_read_nodes(session, selection, opened, basis)))
    pairs = [
        _read_edges(session, each, nodes, opened=opened, basis=basis) for each in selection.edges
    ]
    return FrameNetwork(nodes, keep(_stack(pairs)))


def read_rows(
    session: SparkSession,
    declared: NodeType | EdgeType,
    columns: Sequence[str],
    *,
    opened: OpenGraph,
    basis: Basis,
) -> DataFrame:
    """Some columns of all rows of a type."""
    frames = TypeFrames(session, opened, basis)
    named = {name: name for name in columns}
    return frames.rows(declared, columns=named, condition=ALWAYS, measures={})


def link(network: FrameNetwork) -> DataFrame:
    """The pairs of different nodes that an edge connects, each once, as (`high`, `low`)."""
    source, target = f.col("source"), f.col("target")
    return (
        network.edges.where(source != target)
        .select(f.greatest(source, target).alias("high"), f.least(source, target).alias("low"))
        .distinct()
    )


def either_way(pairs: DataFrame, one: str, other: str) -> DataFrame:
    """Pairs in both orders, as (`node`, `other`)."""
    return _pair(pairs, one, other).union(_pair(pairs, other, one))


def orient(network: FrameNetwork, direction: Direction) -> DataFrame:
    """The steps that can be taken, each once, as (`node`, `other`)."""
    match direction:
        case Direction.OUT:
            return _pair(network.edges, "source", "target").distinct()
        case Direction.IN:
            return _pair(network.edges, "target", "source").distinct()
        case Direction.BOTH:
            return either_way(network.edges, "source", "target").distinct()


def _pair(pairs: DataFrame, one: str, other: str) -> DataFrame:
    return pairs.select(f.col(one).alias("node"), f.col(other).alias("other"))


def _read_nodes(
    session: SparkSession, selection: Selection, opened: OpenGraph, basis: Basis
) -> DataFrame:
    frames = [
        read_rows(session, each, ["id"], opened=opened, basis=basis).select(
            f.lit(each.name).alias("type"), "id"
        )
        for each in selection.nodes
    ]
    return _stack(frames)


def _stack(frames: Sequence[DataFrame]) -> DataFrame:
    # A frame of Spark Connect has a `union` of its own.
    return reduce(lambda one, other: one.union(other), frames)


def _number(nodes: DataFrame) -> DataFrame:
    # Parts of a sorted frame are in order and so are rows within them, which is all that the
    # numbers look at; they are good once the frame is kept.
    ordered = nodes.orderBy("type", "id")
    return ordered.select(f.monotonically_increasing_id().alias("node"), "type", "id")


def _read_edges(
    session: SparkSession,
    declared: EdgeType,
    nodes: DataFrame,
    *,
    opened: OpenGraph,
    basis: Basis,
) -> DataFrame:
    """The edges of a type by the numbers of their ends."""
    edges = read_rows(session, declared, ["src", "dst"], opened=opened, basis=basis)
    sources = _named(nodes, declared.source, number="source", id="src")
    targets = _named(nodes, declared.target, number="target", id="dst")
    return edges.join(sources, "src").join(targets, "dst").select("source", "target")


def _named(nodes: DataFrame, type_name: str, *, number: str, id: str) -> DataFrame:
    own = nodes.where(f.col("type") == type_name)
    return own.select(f.col("node").alias(number), f.col("id").alias(id))
