"""Graph algorithms on Spark as iterative joins, their results as frames, and write-back.

Nodes have numbers in the order of type and id, and joins use numbers only. Each round is
checkpointed on the executors, so plans do not grow. Results equal those of the algorithms in
process. An algorithm runs to its end as one cancellable action, and its rows stay on executors
until they are collected. Write-back is a bulk load with all checks: one commit or no change. Needs
PySpark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f

from omnigraph.compiler.ir import Direction
from omnigraph.engine.analysis.algorithms import make_result
from omnigraph.engine.analysis.requests import (
    NOT_ITERATIVE,
    ComponentsRequest,
    CoresRequest,
    DegreesRequest,
    LabelsRequest,
    PathsRequest,
    Progression,
    RankRequest,
    Request,
    Selection,
    TrianglesRequest,
    shape_of,
)
from omnigraph.engine.analysis.solve import refuse_source
from omnigraph.engine.analysis.write_back import WriteCall, require_assignable
from omnigraph.engine.context import GraphContext
from omnigraph.engine.graph_load import Input, parse_call
from omnigraph.engine.results import MutationResult, Result
from omnigraph.engine.rows.conditions import ALWAYS
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import PreconditionFailedError
from omnigraph.model.limits import PREPARE_ATTEMPTS_MAX
from omnigraph.model.ports import Action
from omnigraph.model.types import STRING, Scalar
from omnigraph.spark.jobs import run_job_quietly
from omnigraph.spark.load.load import load
from omnigraph.spark.query.tables import TypeFrames
from omnigraph.spark.sessions import find_working_session, require_same_session
from omnigraph.storage.row_files import arrow_type


def open_runner(
    selection: Selection, *, basis: Basis, opened: GraphContext, spark: object
) -> SparkRunner:
    """The runner of algorithms over the types of a commit in a session."""
    return SparkRunner(selection, TypeFrames(find_working_session(spark), opened, basis))


class SparkRunner:
    """Runs algorithms over a network, which it reads once."""

    def __init__(self, selection: Selection, frames: TypeFrames) -> None:
        self._selection, self._frames = selection, frames
        self._network: FrameNetwork | None = None

    def run(self, request: Request) -> SparkResult:
        """Run an algorithm to its end."""

        def solve() -> IterationResult:
            if self._network is None:
                self._network = read_network(self._selection, self._frames)
            return _solve(request, self._network)

        spread = run_job_quietly(self._frames.session, solve, stage=shape_of(request).title)
        return SparkResult(spread, request, self._frames)


@dataclass(frozen=True, slots=True)
class SparkResult:
    """Result rows that stay on the executors, with the number of each node."""

    spread: IterationResult
    request: Request
    frames: TypeFrames

    @property
    def progression(self) -> Progression:
        """How many iterations the result took, and whether it converged."""
        return self.spread.progression

    def result(self) -> Result:
        """All rows in this process, in node order."""
        ordered = self.spread.values.orderBy("node").drop("node")
        rows: pa.Table = run_job_quietly(self.frames.session, ordered.toArrow, stage="fetch")
        shape = shape_of(self.request)
        types = {"type": STRING, "id": STRING, **shape.values}
        columns = {name: rows[name].cast(arrow_type(type)) for name, type in types.items()}
        return make_result(pa.table(columns), shape, self.frames.basis)

    def frame(self, session: object) -> DataFrame:
        """All rows as a frame of the session that computed them.

        `InvalidValueError` if another session is given.
        """
        require_same_session(session, self.frames.session)
        return self.spread.values.drop("node")

    def write(self, call: WriteCall) -> MutationResult:
        """Write values to a property of their nodes, as one commit or not at all."""
        return _write_values(call, self.frame(None), self.frames)


def _solve(request: Request, network: FrameNetwork) -> IterationResult:
    match request:
        case ComponentsRequest():
            return _name_value(network, find_components(network), "component")
        case RankRequest(damping, tolerance, iterations_max):
            ranked = rank_nodes(
                network, damping=damping, tolerance=tolerance, iterations_max=iterations_max
            )
            return IterationResult(network.nodes.join(ranked.values, "node"), ranked.progression)
        case PathsRequest():
            return _exact(network.nodes.join(find_paths(network, request), "node"))
        case TrianglesRequest():
            return _count_all(network, count_triangles(network))
        case LabelsRequest(iterations_max):
            spread = spread_labels(network, iterations_max=iterations_max)
            named = _name_value(network, spread.values, "label")
            return IterationResult(named.values, spread.progression)
        case DegreesRequest():
            return _count_all(network, count_degrees(network))
        case CoresRequest():
            return _count_all(network, find_cores(network))


def _exact(values: DataFrame) -> IterationResult:
    return IterationResult(values, NOT_ITERATIVE)


def _count_all(network: FrameNetwork, counts: DataFrame) -> IterationResult:
    """Counts of all nodes; a node without a count has 0."""
    return _exact(network.nodes.join(counts, "node", "left").fillna(0))


def _name_value(network: FrameNetwork, values: DataFrame, column: str) -> IterationResult:
    """Values that are nodes, as types and ids; a node without a value gets itself."""
    own = f.coalesce(column, "node").alias("named")
    values = network.nodes.join(values, "node", "left").select("node", "type", "id", own)
    names = network.nodes.select(
        f.col("node").alias("named"),
        f.col("type").alias(f"{column}_type"),
        f.col("id").alias(column),
    )
    return _exact(values.join(names, "named").drop("named"))


def _write_values(call: WriteCall, values: DataFrame, frames: TypeFrames) -> MutationResult:
    """Write the values of a column to a property of their nodes, as one commit or not at all."""
    opened = frames.opened
    opened.require_writable("write a property")
    opened.require_allowed(Action.CHANGE, branch=call.branch, target=None, actor=call.actor)
    opened.require_full_view("write a property", branch=call.branch)
    load_call = parse_call(
        mode="merge",
        branch=call.branch,
        base=None,
        actor=call.actor,
        progress=None,
        spark=frames.session,
        on_error="raise",
        quarantine=None,
        expected_head=None,
        idempotency_key=None,
        # A written score has no text to embed.
        embed="later",
    )
    attempts_left = PREPARE_ATTEMPTS_MAX
    while True:
        attempts_left -= 1
        current = replace(frames, basis=opened.pin(call.branch))
        inputs = [
            Input(table_key_of(declared), _change(call, values, declared, current))
            for declared in require_assignable(call, current.basis.catalog)
        ]
        head = current.basis.head.id
        try:
            done = load(inputs, replace(load_call, expected_head=head), opened)
        except PreconditionFailedError:
            # Whole rows would overwrite concurrent changes, so the rows are read again.
            if not attempts_left:
                raise
        else:
            return MutationResult(sum(done.nodes_loaded.values()), 0, done.commit_id)


def _change(
    call: WriteCall, values: DataFrame, declared: NodeType, frames: TypeFrames
) -> DataFrame:
    """The rows of a type whose value changes, with the new value."""
    columns = ["id", *sorted(declared.properties)]
    rows = read_rows(frames, declared, columns)
    typed = values.where(f.col("type") == declared.name)
    value = f.col(call.column)
    if declared.properties[call.property].type.element is Scalar.F32:
        # Without the cast, a value would never compare equal to its stored form.
        value = value.cast("float")
    # Property names cannot contain a space, so this name cannot collide.
    given = typed.select("id", value.alias("a value"))
    changed = rows.join(given, "id").where(~f.col(call.property).eqNullSafe(f.col("a value")))
    return changed.drop(call.property).withColumnRenamed("a value", call.property).select(columns)


@dataclass(frozen=True, slots=True)
class FrameNetwork:
    """Nodes as (`node`, `type`, `id`) and edges as (`source`, `target`), both checkpointed."""

    nodes: DataFrame
    edges: DataFrame


def checkpoint(frame: DataFrame) -> DataFrame:
    """Compute a frame now and drop its lineage.

    Plans that grow with every round would otherwise take ever longer to plan. The partitions live
    as long as the frame, but not longer than their executors.
    """
    return frame.localCheckpoint(eager=True)


@contextmanager
def cached(frame: DataFrame) -> Iterator[DataFrame]:
    """A frame that is computed once for the block; caching takes far less memory than a checkpoint.

    Frames derived from it have to be checkpointed before the block ends.
    """
    held_frame = frame.persist()
    try:
        yield held_frame
    finally:
        held_frame.unpersist()


def read_network(selection: Selection, frames: TypeFrames) -> FrameNetwork:
    """The network of a selection at a commit."""
    named = [
        read_rows(frames, each, ["id"]).select(f.lit(each.name).alias("type"), "id")
        for each in selection.nodes
    ]
    # The partitions of a sorted frame and the rows within them are in order, which is all that the
    # numbers depend on. The numbers are stable once the frame is checkpointed.
    ordered = _stack(named).orderBy("type", "id")
    number = f.monotonically_increasing_id().alias("node")
    nodes = checkpoint(ordered.select(number, "type", "id"))
    pairs = [_read_edges(frames, each, nodes) for each in selection.edges]
    return FrameNetwork(nodes, checkpoint(_stack(pairs)))


def read_rows(
    frames: TypeFrames, declared: NodeType | EdgeType, columns: Sequence[str]
) -> DataFrame:
    """Some columns of all rows of a type."""
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


def _stack(frames: Sequence[DataFrame]) -> DataFrame:
    # Spark Connect frames have another `union`, so the method is taken from each frame.
    return reduce(lambda one, other: one.union(other), frames)


def _read_edges(frames: TypeFrames, declared: EdgeType, nodes: DataFrame) -> DataFrame:
    """The edges of a type by the numbers of their endpoints."""
    edges = read_rows(frames, declared, ["src", "dst"])
    sources = _named(nodes, declared.source, number="source", id="src")
    targets = _named(nodes, declared.target, number="target", id="dst")
    return edges.join(sources, "src").join(targets, "dst").select("source", "target")


def _named(nodes: DataFrame, type_name: str, *, number: str, id: str) -> DataFrame:
    own = nodes.where(f.col("type") == type_name)
    return own.select(f.col("node").alias(number), f.col("id").alias(id))


def count_degrees(network: FrameNetwork) -> DataFrame:
    """The edges that enter and leave each node: `in_degree`, `out_degree`, `degree`."""
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
    """The smallest node that each node is connected with: `component`.

    Two steps alternate to turn links into stars: the children of a node move to the smallest parent
    of that node, and the parents of a node move to its smallest parent. Chains become shorter by a
    factor in each round, so the number of rounds is logarithmic in their length. When a round
    changes nothing, all components are stars.
    """
    links = checkpoint(link(network))
    mark, last = _mark(links), None
    while mark != last:
        links = checkpoint(_hang_lower(_hang_upper(links)))
        mark, last = _mark(links), mark
    return links.select(f.col("high").alias("node"), f.col("low").alias("component"))


def find_cores(network: FrameNetwork) -> DataFrame:
    """The core number of each node: `core`.

    Starts with the number of neighbours, and lowers each number to the largest k such that k
    neighbours have at least k, until nothing is lowered. A round visits only nodes with a neighbour
    that was lowered in the previous round.
    """
    with cached(either_way(link(network), "high", "low")) as pairs:
        start = pairs.groupBy("node").agg(f.count("*").alias("core"))
        cores = checkpoint(start.withColumn("is_lowered", f.col("core") >= 0))
        while not cores.where("is_lowered").isEmpty():
            cores = checkpoint(_lower(cores, pairs))
    return cores.drop("is_lowered")


def count_triangles(network: FrameNetwork) -> DataFrame:
    """The number of triangles that each node is part of: `triangles`.

    Each link points from the end with fewer neighbours to the end with more, so no node has many
    outgoing links. A node that both ends of a link point to closes a triangle.
    """
    with cached(_turn_upward(network)) as upward:
        led_to = upward.groupBy("lower").agg(f.collect_list("upper").alias("led_to"))
        of_upper = led_to.select(f.col("lower").alias("upper"), f.col("led_to").alias("on_to"))
        closing = f.explode(f.array_intersect("led_to", "on_to")).alias("top")
        closed = upward.join(led_to, "lower").join(of_upper, "upper")
        triangles = closed.select("lower", "upper", closing)
        corners = triangles.select(f.explode(f.array("lower", "upper", "top")).alias("node"))
        return checkpoint(corners.groupBy("node").agg(f.count("*").alias("triangles")))


def _lower(cores: DataFrame, pairs: DataFrame) -> DataFrame:
    """One round: the core numbers that the neighbours of lowered nodes still support."""
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
    new = f.least("core", "supported")  # `least` ignores nulls
    return cores.join(support, "node", "left").select(
        "node", new.alias("core"), (new < f.col("core")).alias("is_lowered")
    )


def _turn_upward(network: FrameNetwork) -> DataFrame:
    """Links ordered by the rank of their ends, fewer neighbours first: (`lower`, `upper`)."""
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
    """Move the children of a node to the smallest parent of that node, if it has one."""
    smallest = links.groupBy("high").agg(f.min("low").alias("smallest"))
    of_low = smallest.select(f.col("high").alias("low"), "smallest")
    return links.join(of_low, "low", "left").select(
        "high", f.coalesce("smallest", "low").alias("low")
    )


def _hang_lower(links: DataFrame) -> DataFrame:
    """Move the parents of a node, and the node itself, to its smallest parent."""
    smallest = links.groupBy("high").agg(f.min("low").alias("smallest"))
    others = links.join(smallest, "high").where(f.col("low") > f.col("smallest"))
    moved = others.select(f.col("low").alias("high"), f.col("smallest").alias("low"))
    return moved.union(smallest.select("high", f.col("smallest").alias("low"))).distinct()


def _mark(links: DataFrame) -> Row:
    """A fingerprint of a set of links, independent of their order."""
    mixed = f.bit_xor(f.xxhash64("high", "low"))
    (found,) = links.agg(f.count("*").alias("count"), mixed.alias("mixed")).collect()
    return found


@dataclass(frozen=True, slots=True)
class IterationResult:
    """A value for each node after some iterations, with `node` first."""

    values: DataFrame
    progression: Progression


def rank_nodes(
    network: FrameNetwork, *, damping: float, tolerance: float, iterations_max: int
) -> IterationResult:
    """PageRank with the same definition as for networks in memory: `rank`."""
    count = max(network.nodes.count(), 1)
    with cached(_share_out(network)) as shares:
        leading_on = shares.select(f.col("source").alias("node")).distinct()
        start = network.nodes.select("node").join(
            leading_on.withColumn("leads_on", f.lit(1)), "node", "left"
        )
        ranks = checkpoint(start.withColumn("rank", f.lit(1.0 / count)))
        _, stranded = _sum_up(ranks, was=None)
        for iteration in range(1, iterations_max + 1):
            given = f.coalesce("arrived", f.lit(0.0)) + stranded / count
            new = f.lit(damping) * given + (1.0 - damping) / count
            found = checkpoint(
                ranks.join(_send(ranks, shares), "node", "left").select(
                    "node", "leads_on", new.alias("rank"), f.col("rank").alias("was")
                )
            )
            change, stranded = _sum_up(found, was="was")
            ranks = found.drop("was")
            if change <= tolerance:
                return IterationResult(
                    ranks.drop("leads_on"), Progression(iteration, has_converged=True)
                )
    return IterationResult(ranks.drop("leads_on"), Progression(iterations_max, has_converged=False))


def spread_labels(network: FrameNetwork, *, iterations_max: int) -> IterationResult:
    """Label propagation with the same definition as for networks in memory: `label`."""
    own = network.nodes.select("node", f.col("node").alias("other"))
    labels = network.nodes.select("node", f.col("node").alias("label"))
    with cached(either_way(link(network), "high", "low").union(own)) as voters:
        for iteration in range(1, iterations_max + 1):
            found = checkpoint(labels.join(_elect(labels, voters), "node"))
            is_same = found.where(f.col("chosen") != f.col("label")).isEmpty()
            labels = found.select("node", f.col("chosen").alias("label"))
            if is_same:
                return IterationResult(labels, Progression(iteration, has_converged=True))
    return IterationResult(labels, Progression(iterations_max, has_converged=False))


def _send(ranks: DataFrame, shares: DataFrame) -> DataFrame:
    """The rank that arrives at each node when every node sends its rank on."""
    sent = shares.join(ranks.select(f.col("node").alias("source"), "rank"), "source")
    amount = f.sum(f.col("rank") * f.col("share"))
    return sent.groupBy(f.col("target").alias("node")).agg(amount.alias("arrived"))


def _elect(labels: DataFrame, voters: DataFrame) -> DataFrame:
    """The label with the most votes at a node: `chosen`."""
    of_others = labels.select(f.col("node").alias("other"), "label")
    voted = voters.join(of_others, "other")
    counted = voted.groupBy("node", "label").agg(f.count("*").alias("votes"))
    # The greatest struct has the most votes and, among equals, the smallest label.
    best = f.max(f.struct("votes", (-f.col("label")).alias("minus_label")))
    return counted.groupBy("node").agg((-best["minus_label"]).alias("chosen"))


def _share_out(network: FrameNetwork) -> DataFrame:
    """The share of a node's rank that goes to each other node per round; parallel edges add up."""
    weighed = network.edges.groupBy("source", "target").agg(f.count("*").alias("weight"))
    leaving = network.edges.groupBy("source").agg(f.count("*").alias("leaving"))
    share = f.col("weight") / f.col("leaving")
    return weighed.join(leaving, "source").select("source", "target", share.alias("share"))


def _sum_up(ranks: DataFrame, *, was: str | None) -> tuple[float, float]:
    """The total change of the ranks, and the total rank of nodes without outgoing edges."""
    change = f.lit(0.0) if was is None else f.abs(f.col("rank") - f.col(was))
    stranded = f.when(f.col("leads_on").isNull(), f.col("rank")).otherwise(0.0)
    (sums,) = ranks.agg(f.sum(change), f.sum(stranded)).collect()
    return float(sums[0] or 0.0), float(sums[1] or 0.0)


_HOPS_PER_CHECKPOINT = 8
"""The number of hops between checkpoints of the reached nodes: few moves, short plans."""


def find_paths(network: FrameNetwork, request: PathsRequest) -> DataFrame:
    """The reachable nodes: `node`, `distance`, and the nodes on the path if requested.

    `NotFoundError` if the source node does not exist.
    """
    type_name, id = request.source
    start = network.nodes.where((f.col("type") == type_name) & (f.col("id") == id))
    # Arrays of node numbers compare like paths, element by element.
    frontier = checkpoint(_select(start.select("node"), request, hops=0, path=f.array("node")))
    if frontier.isEmpty():
        raise refuse_source(request.source)
    reached, hops = frontier, 0
    with cached(orient(network, request.direction)) as steps:
        while hops != request.hops_max:
            hops += 1
            frontier = checkpoint(_step(frontier, steps, reached, request, hops=hops))
            if frontier.isEmpty():
                break
            reached = reached.union(frontier)
            if hops % _HOPS_PER_CHECKPOINT == 0:
                reached = checkpoint(reached)
    return _name_ways(reached, network) if request.with_paths else reached


def _step(
    frontier: DataFrame, steps: DataFrame, reached: DataFrame, request: PathsRequest, *, hops: int
) -> DataFrame:
    """The nodes one hop further that were not reached before."""
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
    """Paths of node numbers as paths of types and ids."""
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
