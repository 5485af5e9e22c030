"""Algorithms on Spark: a request over the types of one commit becomes a frame of rows.

An algorithm runs to its end when it is asked for, as one action that can be cancelled; its rows
stay with the executors until somebody asks for them. Says the same as its twin in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from omnigraph.engine.analysis.algorithms import make_result
from omnigraph.engine.analysis.requests import (
    AT_ONCE,
    ComponentsRequest,
    CoresRequest,
    DegreesRequest,
    LabelsRequest,
    PathsRequest,
    Progression,
    RankRequest,
    Request,
    TrianglesRequest,
    shape_of,
)
from omnigraph.engine.analysis.selection import Selection
from omnigraph.engine.analysis.writing import WriteCall
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.results import MutationResult, Result
from omnigraph.engine.state.authority import Basis
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.types import STRING
from omnigraph.spark.algorithms.connections import (
    count_degrees,
    count_triangles,
    find_components,
    find_cores,
)
from omnigraph.spark.algorithms.flows import Spread, rank_nodes, spread_labels
from omnigraph.spark.algorithms.network import FrameNetwork, read_network
from omnigraph.spark.algorithms.paths import find_paths
from omnigraph.spark.algorithms.writing import write_values
from omnigraph.spark.jobs import run_silently
from omnigraph.spark.sessions import find_session
from omnigraph.storage.arrow_schema import arrow_type

T = TypeVar("T")


def open_runner(
    selection: Selection, *, basis: Basis, opened: OpenGraph, spark: object
) -> SparkRunner:
    """What runs algorithms over the types of a commit in a session."""
    return SparkRunner(selection, basis=basis, opened=opened, session=find_session(spark))


class SparkRunner:
    """Runs algorithms over a network that it reads once."""

    def __init__(
        self, selection: Selection, *, basis: Basis, opened: OpenGraph, session: SparkSession
    ) -> None:
        self._selection, self._basis = selection, basis
        self._opened, self._session = opened, session
        self._network: FrameNetwork | None = None

    def answer(self, request: Request) -> SparkAnswer:
        """Run an algorithm to its end."""
        spread = run_silently(
            self._session,
            lambda: _solve(request, self._read_network()),
            stage=shape_of(request).title,
        )
        return SparkAnswer(
            spread,
            request=request,
            session=self._session,
            basis=self._basis,
            opened=self._opened,
        )

    def _read_network(self) -> FrameNetwork:
        if self._network is None:
            self._network = read_network(
                self._session, self._selection, opened=self._opened, basis=self._basis
            )
        return self._network


@dataclass(frozen=True, slots=True)
class SparkAnswer:
    """Rows that executors keep, with the number of each node."""

    spread: Spread
    request: Request
    session: SparkSession
    basis: Basis
    opened: OpenGraph

    @property
    def progression(self) -> Progression:
        """How they were come by."""
        return self.spread.progression

    def result(self) -> Result:
        """All rows in this process, in order."""
        ordered = self.spread.values.orderBy("node").drop("node")
        rows: pa.Table = run_silently(self.session, ordered.toArrow, stage="fetch")
        shape = shape_of(self.request)
        types = {"type": STRING, "id": STRING, **shape.values}
        columns = {name: rows[name].cast(arrow_type(type)) for name, type in types.items()}
        return make_result(pa.table(columns), shape, self.basis)

    def frame(self, session: object) -> DataFrame:
        """All rows as a frame of the session that they were worked out in."""
        if session is not None and session is not self.session:
            raise InvalidValueError(
                subject="session",
                expected="the session of the analysis",
                value=session,
                problem="the rows are in another session, which worked them out; name none",
            )
        return self.spread.values.drop("node")

    def write(self, call: WriteCall) -> MutationResult:
        """Make values a property of their nodes, as one commit or not at all."""
        return write_values(call, self.frame(None), session=self.session, opened=self.opened)


def _solve(request: Request, network: FrameNetwork) -> Spread:
    match request:
        case ComponentsRequest():
            return _name_value(network, find_components(network), "component")
        case RankRequest(damping, tolerance, iterations_max):
            ranked = rank_nodes(
                network, damping=damping, tolerance=tolerance, iterations_max=iterations_max
            )
            return Spread(network.nodes.join(ranked.values, "node"), ranked.progression)
        case PathsRequest():
            return _exact(network.nodes.join(find_paths(network, request), "node"))
        case TrianglesRequest():
            return _count_all(network, count_triangles(network))
        case LabelsRequest(iterations_max):
            spread = spread_labels(network, iterations_max=iterations_max)
            named = _name_value(network, spread.values, "label")
            return Spread(named.values, spread.progression)
        case DegreesRequest():
            return _count_all(network, count_degrees(network))
        case CoresRequest():
            return _count_all(network, find_cores(network))


def _exact(values: DataFrame) -> Spread:
    return Spread(values, AT_ONCE)


def _count_all(network: FrameNetwork, counts: DataFrame) -> Spread:
    """Counts of all nodes; what is missing has none."""
    return _exact(network.nodes.join(counts, "node", "left").fillna(0))


def _name_value(network: FrameNetwork, values: DataFrame, column: str) -> Spread:
    """Values that are nodes, by their types and ids; a node without one is its own."""
    own = f.coalesce(column, "node").alias("named")
    values = network.nodes.join(values, "node", "left").select("node", "type", "id", own)
    names = network.nodes.select(
        f.col("node").alias("named"),
        f.col("type").alias(f"{column}_type"),
        f.col("id").alias(column),
    )
    return _exact(values.join(names, "named").drop("named"))
