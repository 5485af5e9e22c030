"""Algorithms over the nodes and edges of some types at one commit, in memory or on Spark.

What each one means is the same for both engines, to the last bit where it counts things. The state
that is looked at is pinned when this is made, so that several answers tell of one commit.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from omnigraph.engine.analysis.answers import Analysis, Answer, result_columns
from omnigraph.engine.analysis.members import Members, read_members
from omnigraph.engine.analysis.network import Network
from omnigraph.engine.analysis.requests import (
    ComponentsRequest,
    CoresRequest,
    DegreesRequest,
    Progression,
    Request,
    Shape,
    TrianglesRequest,
    parse_labels,
    parse_paths,
    parse_rank,
    shape_of,
)
from omnigraph.engine.analysis.selection import Selection, parse_node
from omnigraph.engine.analysis.solving import Solution, solve
from omnigraph.engine.analysis.writing import PreparedValues, WriteCall, prepare_values
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.engines import Engine, find_part
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.attempts import write_on
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import MutationResult, Result
from omnigraph.engine.state.authority import Basis
from omnigraph.model.policy import Action

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Runner(Protocol):
    """Runs algorithms over the types of one commit."""

    def answer(self, request: Request) -> Answer:
        """Run an algorithm to its end."""


class Algorithms:
    """The algorithms that can be run over some types of a graph; see each for what it means."""

    def __init__(
        self,
        selection: Selection,
        *,
        basis: Basis,
        is_past: bool,
        engine: Engine,
        spark: object,
        opened: OpenGraph,
    ) -> None:
        self._selection, self._basis, self._is_past = selection, basis, is_past
        self._engine, self._spark, self._opened = engine, spark, opened

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self._selection.edges)
        return f"<Algorithms over {names} at commit {self._basis.head.id}>"

    def connected_components(self) -> Analysis:
        """Which nodes hang together, whatever the direction of edges.

        `component_type` and `component` name the first node, by type and id, of a node's component.
        """
        return self._analyze(ComponentsRequest())

    def pagerank(
        self, *, damping: float = 0.85, tolerance: float = 1e-6, iterations_max: int = 100
    ) -> Analysis:
        """How often a walk along edges comes by: `rank`, of which all nodes together have one.

        Parallel edges count each. From a node that no edge leaves, and with the chance that
        `damping` leaves over, the walk goes on at any node. It ends when a round changes all ranks
        together by no more than `tolerance`, or after `iterations_max` rounds.
        """
        return self._analyze(
            parse_rank(damping=damping, tolerance=tolerance, iterations_max=iterations_max)
        )

    def shortest_paths(
        self,
        source: str | tuple[str, str],
        *,
        direction: str = "out",
        hops_max: int | None = None,
        with_paths: bool = True,
    ) -> Analysis:
        """The nodes that can be reached from one, named by its id or by (type, id).

        `distance` is in edges; `path_types` and `path` name the nodes on the way, both ends
        included: of several shortest paths the first, compared node by node by type and id.
        `direction` is `out`, `in` or `both`.
        """
        node = parse_node(source, self._selection)
        return self._analyze(
            parse_paths(node, direction=direction, hops_max=hops_max, with_paths=with_paths)
        )

    def triangles(self) -> Analysis:
        """How many triangles of different nodes a node is part of, whatever the direction of
        edges and however many are parallel: `triangles`."""
        return self._analyze(TrianglesRequest())

    def label_propagation(self, *, iterations_max: int = 20) -> Analysis:
        """Communities: `label_type` and `label` name the node whose label a node has taken on.

        In each round all nodes at once take the label that most neighbours have, their own one
        vote among them; of several the first by type and id. How many edges connect two nodes, and
        in which direction, does not matter. It ends when nothing changes, or after `iterations_max`
        rounds.
        """
        return self._analyze(parse_labels(iterations_max=iterations_max))

    def degrees(self) -> Analysis:
        """How many edges arrive, leave, and both: `in_degree`, `out_degree`, `degree`.

        Parallel edges count each, and one from a node to itself counts both ways.
        """
        return self._analyze(DegreesRequest())

    def core_numbers(self) -> Analysis:
        """The largest k for which a node is in a group whose nodes have k neighbours or more
        within it: `core`. Counts neighbours, not edges, whatever the direction."""
        return self._analyze(CoresRequest())

    def _analyze(self, request: Request) -> Analysis:
        self._opened.require_open()
        return Analysis(
            self._runner.answer(request),
            shape=shape_of(request),
            titles=self._selection.titles,
            branch=None if self._is_past else self._basis.branch,
        )

    @cached_property
    def _runner(self) -> Runner:
        if self._engine is Engine.LOCAL:
            with self._opened.reading(self._basis, is_past=self._is_past):
                network, members = read_members(
                    self._selection, basis=self._basis, path=self._opened.reads
                )
            return LocalRunner(network, members, basis=self._basis, opened=self._opened)
        settings = self._opened.settings
        part = find_part("algorithms.run", settings=settings, action="run an algorithm")
        runner: Runner = part.open_runner(
            self._selection, basis=self._basis, opened=self._opened, spark=self._spark
        )
        return runner


class LocalRunner:
    """Runs algorithms over a network in this process."""

    def __init__(
        self, network: Network, members: Members, *, basis: Basis, opened: OpenGraph
    ) -> None:
        self._network, self._members = network, members
        self._basis, self._opened = basis, opened

    def answer(self, request: Request) -> LocalAnswer:
        """Run an algorithm to its end."""
        solution = solve(request, self._network, self._members)
        return LocalAnswer(solution, shape_of(request), self._basis, self._opened)


class LocalAnswer:
    """Rows that are in this process."""

    def __init__(self, solution: Solution, shape: Shape, basis: Basis, opened: OpenGraph) -> None:
        self._solution, self._opened = solution, opened
        self._result = make_result(solution.rows, shape, basis)

    @property
    def progression(self) -> Progression:
        """How they were come by."""
        return self._solution.progression

    def result(self) -> Result:
        """All rows, in order."""
        return self._result

    def frame(self, session: object) -> DataFrame:
        """All rows as a frame of Spark."""
        return self._result.to_spark(session)

    def write(self, call: WriteCall) -> MutationResult:
        """Make values a property of their nodes, as one commit or not at all."""
        self._opened.require_writable("write a property")
        change = Action.CHANGE
        self._opened.require_allowed(change, branch=call.branch, target=None, actor=call.actor)
        self._opened.require_whole("write a property", branch=call.branch)

        def prepare(basis: Basis, committed: SnapshotRows) -> PreparedValues:
            return prepare_values(
                call, self._solution.rows, catalog=basis.catalog, committed=committed
            )

        done, commit = write_on(
            call.branch,
            prepare=prepare,
            authorship=self._opened.author(call.actor, WriterKind.MUTATION, expected_head=None),
            path=self._opened.writes,
        )
        return MutationResult(done.affected_nodes, 0, commit.id if commit else None)


def make_result(rows: pa.Table, shape: Shape, basis: Basis) -> Result:
    """Rows of an answer as a result that tells of a commit."""
    return Result(
        rows,
        columns=result_columns(shape),
        query_name=shape.title,
        branch=basis.branch,
        commit_id=basis.head.id,
    )
