"""Graph algorithms as callers use them, and their results as rows, frames or written properties.

All results of one instance describe the commit that was pinned when it was created. The local and
the Spark runner give the same results, and identical ones where they count. A Spark result stays
on Spark until the caller reads its rows. The algorithms themselves are implemented elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from omnigraph.engine.analysis.network import Network
from omnigraph.engine.analysis.requests import (
    ComponentsRequest,
    CoresRequest,
    DegreesRequest,
    Progression,
    Request,
    ResultShape,
    Selection,
    TrianglesRequest,
    parse_labels,
    parse_node,
    parse_paths,
    parse_rank,
    shape_of,
)
from omnigraph.engine.analysis.solve import NodeIndex, Solution, read_network, solve
from omnigraph.engine.analysis.write_back import WriteCall, prepare_values
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.context import GraphContext
from omnigraph.engine.executors import Engine, get_spark_module
from omnigraph.engine.ops.retry import Prepared, run_write
from omnigraph.engine.results import MutationResult, Result, ResultColumn
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.branch_state import Basis
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.names import parse_branch_name, require_text
from omnigraph.model.ports import Action
from omnigraph.model.types import STRING

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame


class AlgorithmResult(Protocol):
    """The rows of an analysis, in this process or on Spark."""

    @property
    def progression(self) -> Progression:
        """The iterations of the algorithm, and whether it converged."""

    def result(self) -> Result:
        """All rows in this process, in order."""

    def frame(self, session: object) -> DataFrame:
        """All rows as a Spark DataFrame."""

    def write(self, call: WriteCall) -> MutationResult:
        """Write values as a property of their nodes, as one commit or not at all."""


class Analysis:
    """The result of an algorithm: `type`, `id` and values of each node, ordered by type and id."""

    def __init__(
        self,
        output: AlgorithmResult,
        *,
        shape: ResultShape,
        titles: tuple[str, ...],
        branch: str | None,
    ) -> None:
        self._output, self._shape, self._titles, self._branch = output, shape, titles, branch

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return ["type", "id", *self._shape.values]

    @property
    def iterations(self) -> int:
        """The number of iterations; 1 for an algorithm that is not iterative."""
        return self._output.progression.iterations

    @property
    def has_converged(self) -> bool:
        """Whether the algorithm converged before it reached the maximum number of iterations."""
        return self._output.progression.has_converged

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows as dicts of JSON values."""
        return self._result.rows

    def __len__(self) -> int:
        return len(self._result)

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(self._result)

    def __repr__(self) -> str:
        return f"<Analysis: {self._shape.title} of {', '.join(self._titles)}>"

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._result.to_arrow()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow C stream."""
        return self._result.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        return self._result.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars DataFrame."""
        return self._result.to_polars()

    def to_spark(self, session: object = None) -> DataFrame:
        """The rows as a Spark DataFrame, in no order; rows that are on Spark stay there."""
        return self._output.frame(session)

    def write_property(
        self,
        property: str,
        *,
        column: str | None = None,
        type: str | None = None,
        branch: str | None = None,
        actor: str | None = None,
    ) -> MutationResult:
        """Write a column as a property of the nodes on a branch, as one commit or not at all.

        `column` defaults to the principal column of the algorithm, `type` to all types, and
        `branch` to the branch that was analyzed. The property must be declared. Other properties
        are unchanged, and so are nodes that already have the value or have no row.
        """
        require_text(property, subject="property")
        chosen = self._shape.main if column is None else column
        if chosen not in self._shape.values:
            problem = f"{chosen!r} is none of {', '.join(self._shape.values)}"
            raise _refuse("column", chosen, problem)
        if type is not None and type not in self._titles:
            raise _refuse("type", type, f"{type!r} is none of {', '.join(self._titles)}")
        target = self._branch if branch is None else branch
        if target is None:
            raise _refuse("branch", None, "the result is of a commit; name the branch to write to")
        return self._output.write(
            WriteCall(
                column=chosen,
                value_type=self._shape.values[chosen],
                property=property,
                type_names=self._titles if type is None else (type,),
                branch=parse_branch_name(target),
                actor=actor,
            )
        )

    @cached_property
    def _result(self) -> Result:
        return self._output.result()


def _refuse(subject: str, value: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=subject, expected="an argument that fits", value=value, problem=problem
    )


class Runner(Protocol):
    """Runs algorithms over the types of one commit."""

    def run(self, request: Request) -> AlgorithmResult:
        """Run an algorithm to completion."""


class Algorithms:
    """The algorithms that can be run over some types of a graph."""

    def __init__(
        self,
        selection: Selection,
        *,
        basis: Basis,
        is_past: bool,
        engine: Engine,
        spark: object,
        opened: GraphContext,
    ) -> None:
        self._selection, self._basis, self._is_past = selection, basis, is_past
        self._engine, self._spark, self._opened = engine, spark, opened

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self._selection.edges)
        return f"<Algorithms over {names} at commit {self._basis.head.id}>"

    def connected_components(self) -> Analysis:
        """The connected components, ignoring the direction of edges.

        `component_type` and `component` name the first node, by type and id, of a node's component.
        """
        return self._analyze(ComponentsRequest())

    def pagerank(
        self, *, damping: float = 0.85, tolerance: float = 1e-6, iterations_max: int = 100
    ) -> Analysis:
        """PageRank: `rank` is the share of a random walk spent at a node; all ranks sum to one.

        Parallel edges count separately. From a node without outgoing edges, and otherwise with
        probability 1 - `damping`, the walk continues at a random node. The algorithm ends when an
        iteration changes the ranks by no more than `tolerance`, summed over all nodes, or after
        `iterations_max` iterations.
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
        """The nodes that are reachable from a source node, given by its id or by (type, id).

        `distance` is in edges; `path_types` and `path` name the nodes of the path, including both
        ends. Of several shortest paths it is the first, compared node by node by type and id.
        `direction` is `out`, `in` or `both`.
        """
        node = parse_node(source, self._selection)
        return self._analyze(
            parse_paths(node, direction=direction, hops_max=hops_max, with_paths=with_paths)
        )

    def triangles(self) -> Analysis:
        """The number of triangles of distinct nodes that contain a node: `triangles`.

        The direction of edges is ignored, and parallel edges count once.
        """
        return self._analyze(TrianglesRequest())

    def label_propagation(self, *, iterations_max: int = 20) -> Analysis:
        """Communities: `label_type` and `label` name the node whose label a node has adopted.

        In each iteration, all nodes simultaneously adopt the most frequent label among their
        neighbours and themselves; ties go to the first by type and id. The number and direction of
        the edges between two nodes are ignored. The algorithm ends when no label changes, or after
        `iterations_max` iterations.
        """
        return self._analyze(parse_labels(iterations_max=iterations_max))

    def degrees(self) -> Analysis:
        """The number of incoming, outgoing and all edges: `in_degree`, `out_degree`, `degree`.

        Parallel edges count separately, and a self-loop counts in both directions.
        """
        return self._analyze(DegreesRequest())

    def core_numbers(self) -> Analysis:
        """The core number of each node: `core`.

        It is the largest k for which the node is in a group whose nodes have at least k neighbours
        within it. Neighbours are counted, not edges, and the direction of edges is ignored.
        """
        return self._analyze(CoresRequest())

    def _analyze(self, request: Request) -> Analysis:
        self._opened.require_open()
        return Analysis(
            self._runner.run(request),
            shape=shape_of(request),
            titles=self._selection.titles,
            branch=None if self._is_past else self._basis.branch,
        )

    @cached_property
    def _runner(self) -> Runner:
        if self._engine is Engine.LOCAL:
            with self._opened.reading(self._basis, is_past=self._is_past):
                network, members = read_network(
                    self._selection, basis=self._basis, path=self._opened.reads
                )
            return LocalRunner(network, members, basis=self._basis, opened=self._opened)
        settings = self._opened.settings
        part = get_spark_module("algorithms", settings=settings, action="run an algorithm")
        runner: Runner = part.open_runner(
            self._selection, basis=self._basis, opened=self._opened, spark=self._spark
        )
        return runner


class LocalRunner:
    """Runs algorithms over a network in this process."""

    def __init__(
        self, network: Network, members: NodeIndex, *, basis: Basis, opened: GraphContext
    ) -> None:
        self._network, self._members = network, members
        self._basis, self._opened = basis, opened

    def run(self, request: Request) -> LocalResult:
        solution = solve(request, self._network, self._members)
        return LocalResult(solution, shape_of(request), self._basis, self._opened)


class LocalResult:
    """A result whose rows are in this process."""

    def __init__(
        self, solution: Solution, shape: ResultShape, basis: Basis, opened: GraphContext
    ) -> None:
        self._solution, self._opened = solution, opened
        self._result = make_result(solution.rows, shape, basis)

    @property
    def progression(self) -> Progression:
        return self._solution.progression

    def result(self) -> Result:
        return self._result

    def frame(self, session: object) -> DataFrame:
        return self._result.to_spark(session)

    def write(self, call: WriteCall) -> MutationResult:
        self._opened.require_writable("write a property")
        change = Action.CHANGE
        self._opened.require_allowed(change, branch=call.branch, target=None, actor=call.actor)
        self._opened.require_full_view("write a property", branch=call.branch)

        def prepare(basis: Basis, committed: SnapshotRows) -> Prepared[MutationResult]:
            return prepare_values(
                call, self._solution.rows, catalog=basis.catalog, committed=committed
            )

        done = run_write(
            call.branch,
            prepare=prepare,
            codec=None,
            inputs=None,
            authorship=self._opened.author(call.actor, WriterKind.MUTATION, expected_head=None),
            path=self._opened.writes,
        )
        return replace(done.result, commit_id=done.commit_id)


def make_result(rows: pa.Table, shape: ResultShape, basis: Basis) -> Result:
    """The rows of an analysis as a `Result` at a commit."""
    columns = {"type": STRING, "id": STRING, **shape.values}
    return Result(
        rows,
        columns=[ResultColumn(name, type, is_aggregate=False) for name, type in columns.items()],
        query_name=shape.title,
        branch=basis.branch,
        commit_id=basis.head.id,
    )
