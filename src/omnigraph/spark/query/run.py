"""Queries on Spark: a read plan compiled to one frame over pinned versions.

The plan, the snapshot and the result are those of the executor in process. Invalid calls fail at
once; rows are computed when they are collected. Rankings, text scores and long expansions run jobs
while the frame is built. Needs PySpark.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from omnigraph.compiler.ir import Aggregate, Column
from omnigraph.engine.context import GraphContext
from omnigraph.engine.ops.query import QueryCall
from omnigraph.engine.read.output import Window, find_window
from omnigraph.engine.read.ranking import QueryVectors
from omnigraph.engine.results import Result, ResultColumn
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.state.branch_state import Basis
from omnigraph.spark.errors import spark_errors
from omnigraph.spark.jobs import run_job_quietly
from omnigraph.spark.query.column_pruning import find_nameless, find_referenced_columns
from omnigraph.spark.query.entities import Entities
from omnigraph.spark.query.expand import Expander
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.output import Output
from omnigraph.spark.query.pipeline import Pipeline
from omnigraph.spark.query.tables import TypeFrames
from omnigraph.spark.sessions import find_working_session, require_same_session
from omnigraph.storage.row_files import arrow_type


def _to_stored(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray | pa.Array:
    if not pa.types.is_fixed_size_list(target):
        return column.cast(target)
    lists = column.combine_chunks()
    # Arrow's own cast reads past the end of a column that contains only nulls.
    is_there = lists.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.zeros((len(lists), target.list_size), np.float32)
    numbers[is_there] = lists.flatten().to_numpy().reshape(-1, target.list_size)
    return pa.FixedSizeListArray.from_arrays(
        pa.array(numbers.ravel()), type=target, mask=pa.array(~is_there)
    )


def run_query(call: QueryCall, *, basis: Basis, opened: GraphContext, spark: object) -> Result:
    """The result of a read on Spark, at the commit of the basis."""
    ir = call.plan.ir
    return Result(
        _make_query(call, basis, opened, spark),
        columns=[
            ResultColumn(each.name, each.type, isinstance(each.expression, Aggregate))
            for each in ir.columns
        ],
        query_name=ir.name,
        branch=basis.branch,
        commit_id=basis.head.id,
    )


def explain_query(call: QueryCall, *, basis: Basis, opened: GraphContext, spark: object) -> str:
    """The Spark plan of a read, as text; no rows are computed."""
    frame = _make_query(call, basis, opened, spark).numbered
    shown = StringIO()
    # This is the only access to a plan that both kinds of sessions support.
    with redirect_stdout(shown), spark_errors(action="explain the query"):
        frame.explain("formatted")
    return shown.getvalue().strip()


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """A read as a frame with numbered columns."""

    session: SparkSession
    numbered: DataFrame
    columns: tuple[Column, ...]

    def collect(self) -> pa.Table:
        """The rows, collected in this process."""
        rows = run_job_quietly(self.session, self.numbered.toArrow, stage="query")
        columns = [
            _to_stored(values, arrow_type(column.type))
            for values, column in zip(rows.columns, self.columns, strict=True)
        ]
        return pa.Table.from_arrays(columns, names=rows.column_names)

    def frame(self, session: object) -> DataFrame:
        """The rows as a frame that is not computed yet.

        Raises `InvalidValueError` if another session is given.
        """
        require_same_session(session, self.session)
        return self.numbered.toDF(*(each.name for each in self.columns))


_ROWS_MAX = 2**63 - 1
"""The largest number that Spark counts with, which exceeds any row count."""


def _make_query(call: QueryCall, basis: Basis, opened: GraphContext, spark: object) -> SparkQuery:
    plan, inputs = call.plan, Inputs(call.values, call.now)
    found = find_window(plan.ir, inputs)
    stop = None if found.stop is None else min(found.stop, _ROWS_MAX)
    window = Window(min(found.start, _ROWS_MAX), stop)
    referenced = find_referenced_columns(plan)
    searches = {
        each: f"search__{number}"
        for number, each in enumerate(
            each for some in referenced.values() for each in some.searches
        )
    }
    session = find_working_session(spark)
    vectors = QueryVectors(inputs, opened.settings.embedder, basis.catalog, plan.type_by_variable)
    entities = Entities(
        frames=TypeFrames(session, opened, basis),
        catalog=basis.catalog,
        columns=referenced,
        nameless=find_nameless(plan),
        searches=searches,
        vectors=vectors,
        expressions=Expressions(inputs, lambda condition: f.col(searches[condition])),
    )
    output = Output(plan.ir, plan.ordering_variables, window, entities)
    with spark_errors(action="plan the query"):
        matched = Pipeline(entities, Expander(entities)).run(plan.steps)
        return SparkQuery(session, output.frame(matched), plan.ir.columns)
