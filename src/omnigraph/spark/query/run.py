"""Queries on Spark: the plan of a read as one frame over the pinned versions of its types.

The same plan, the same snapshot and the same answer as in process. Whatever is wrong with a call is
told at once; rows are worked out when somebody asks for them. A ranking, words that are scored,
walks of many hops and blocks behind large patterns need Spark's answers to make the frame: those
are asked for at that moment.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from omnigraph.compiler.ir import Aggregate, Column
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.query import QueryCall
from omnigraph.engine.read.matching import Inputs
from omnigraph.engine.read.output import Window, find_window
from omnigraph.engine.read.ranking_inputs import QueryVectors
from omnigraph.engine.results import Result, ResultColumn
from omnigraph.engine.state.authority import Basis
from omnigraph.model.errors import InvalidValueError
from omnigraph.spark.jobs import run_silently
from omnigraph.spark.query.answers import to_local
from omnigraph.spark.query.entities import Entities
from omnigraph.spark.query.expand import Expander
from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.looks import find_looks, find_nameless
from omnigraph.spark.query.output import Output
from omnigraph.spark.query.pipeline import Pipeline
from omnigraph.spark.query.search import Seeker
from omnigraph.spark.query.tables import TypeFrames
from omnigraph.spark.sessions import find_session
from omnigraph.spark.spark_errors import spark_errors


def run_query(call: QueryCall, *, basis: Basis, opened: OpenGraph, spark: object) -> Result:
    """The answer of a read at the commit that the basis is, from Spark."""
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


def explain_query(call: QueryCall, *, basis: Basis, opened: OpenGraph, spark: object) -> str:
    """How Spark would run a read, as text; no rows are worked out."""
    frame = _make_query(call, basis, opened, spark).numbered
    shown = StringIO()
    # The only way to a plan that both kinds of sessions have.
    with redirect_stdout(shown), spark_errors(action="explain the query"):
        frame.explain("formatted")
    return shown.getvalue().strip()


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """A read as a frame, whose columns are called by their numbers."""

    session: SparkSession
    numbered: DataFrame
    columns: tuple[Column, ...]

    def collect(self) -> pa.Table:
        """The rows, here."""
        collect = self.numbered.toArrow
        rows = run_silently(self.session, collect, stage="query")
        return to_local(rows, [each.type for each in self.columns])

    def frame(self, session: object) -> DataFrame:
        """The rows as a frame that nobody has worked out yet."""
        if session is not None and session is not self.session:
            raise InvalidValueError(
                subject="session",
                expected="the session that the query runs in",
                value=session,
                problem="the query runs in another session; give that one, or none",
            )
        return self.numbered.toDF(*(each.name for each in self.columns))


_ROWS_MAX = 2**63 - 1
"""More rows than there can be, and the largest number that Spark counts with."""


def _bounded(window: Window) -> Window:
    stop = None if window.stop is None else min(window.stop, _ROWS_MAX)
    return Window(min(window.start, _ROWS_MAX), stop)


def _make_query(call: QueryCall, basis: Basis, opened: OpenGraph, spark: object) -> SparkQuery:
    plan, inputs = call.plan, Inputs(call.values, call.now)
    window = _bounded(find_window(plan.ir, inputs))
    looks = find_looks(plan)
    searches = {
        each: f"search__{number}"
        for number, each in enumerate(each for some in looks.values() for each in some.searches)
    }
    session = find_session(spark)
    vectors = QueryVectors(inputs, opened.settings.embedder, basis.catalog, plan.type_by_variable)
    entities = Entities(
        frames=TypeFrames(session, opened, basis),
        catalog=basis.catalog,
        looks=looks,
        nameless=find_nameless(plan),
        searches=searches,
        seeker=Seeker(inputs, vectors),
        expressions=Expressions(inputs, lambda condition: f.col(searches[condition])),
    )
    output = Output(plan.ir, plan.ordering_variables, window, entities)
    with spark_errors(action="plan the query"):
        matched = Pipeline(entities, Expander(entities)).run(plan.steps)
        return SparkQuery(session, output.frame(matched), plan.ir.columns)
