"""Graph algorithms on Spark: the runner, its results as frames, and write-back to a property.

Results equal those of the algorithms in process. An algorithm runs to its end as one cancellable
action, and its rows stay on executors until they are collected. Write-back is a bulk load with all
checks: one commit or no change. Needs PySpark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

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
from omnigraph.engine.analysis.write_back import WriteCall, require_assignable
from omnigraph.engine.context import GraphContext
from omnigraph.engine.graph_load import Input, parse_call
from omnigraph.engine.results import MutationResult, Result
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import NodeType
from omnigraph.model.errors import PreconditionFailedError
from omnigraph.model.limits import PREPARE_ATTEMPTS_MAX
from omnigraph.model.ports import Action
from omnigraph.model.types import STRING, Scalar
from omnigraph.spark.jobs import run_job_quietly
from omnigraph.spark.load.load import load
from omnigraph.spark.network import (
    FrameNetwork,
    IterationResult,
    count_degrees,
    count_triangles,
    find_components,
    find_cores,
    find_paths,
    rank_nodes,
    read_network,
    read_rows,
    spread_labels,
)
from omnigraph.spark.query.tables import TypeFrames
from omnigraph.spark.sessions import find_working_session, require_same_session
from omnigraph.storage.row_files import arrow_type


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
