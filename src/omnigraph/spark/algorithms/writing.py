"""Values that executors keep, written to the graph by a bulk load that merges whole rows.

The rows of the branch are read with all their properties, get the value where they have another,
and are loaded: checked like any other rows, and one commit or nothing.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from omnigraph.engine.analysis.writing import WriteCall, require_fitting
from omnigraph.engine.loads import Input, LoadCall, parse_call
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.results import MutationResult
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import NodeType
from omnigraph.model.errors import PreconditionFailedError
from omnigraph.model.limits import PREPARE_ATTEMPTS_MAX
from omnigraph.model.policy import Action
from omnigraph.model.types import Scalar
from omnigraph.spark.algorithms.network import read_rows
from omnigraph.spark.loading.load import load


def write_values(
    call: WriteCall, values: DataFrame, *, session: SparkSession, opened: OpenGraph
) -> MutationResult:
    """Make the values of a column a property of their nodes, as one commit or not at all."""
    opened.require_writable("write a property")
    opened.require_allowed(Action.CHANGE, branch=call.branch, target=None, actor=call.actor)
    opened.require_whole("write a property", branch=call.branch)
    attempts_left = PREPARE_ATTEMPTS_MAX
    while True:
        attempts_left -= 1
        basis = opened.pin(call.branch)
        inputs = [
            Input(
                table_key_of(declared),
                _change(call, values, declared, session=session, opened=opened, basis=basis),
            )
            for declared in require_fitting(call, basis.catalog)
        ]
        try:
            done = load(inputs, _load_call(call, session, expected_head=basis.head.id), opened)
        except PreconditionFailedError:
            # Whole rows would undo what somebody wrote meanwhile, so they are read again.
            if not attempts_left:
                raise
        else:
            return MutationResult(sum(done.nodes_loaded.values()), 0, done.commit_id)


def _change(
    call: WriteCall,
    values: DataFrame,
    declared: NodeType,
    *,
    session: SparkSession,
    opened: OpenGraph,
    basis: Basis,
) -> DataFrame:
    """The rows of a type that get another value, with that value."""
    columns = ["id", *sorted(declared.properties)]
    rows = read_rows(session, declared, columns, opened=opened, basis=basis)
    own = values.where(f.col("type") == declared.name)
    value = f.col(call.column)
    if declared.properties[call.property].type.element is Scalar.F32:
        # Or a value would never be what it was written as.
        value = value.cast("float")
    # No property has a name with a space.
    given = own.select("id", value.alias("a value"))
    met = rows.join(given, "id").where(~f.col(call.property).eqNullSafe(f.col("a value")))
    return met.drop(call.property).withColumnRenamed("a value", call.property).select(columns)


def _load_call(call: WriteCall, session: SparkSession, *, expected_head: str) -> LoadCall:
    parsed = parse_call(
        mode="merge",
        branch=call.branch,
        base=None,
        actor=call.actor,
        progress=None,
        spark=session,
        on_error="raise",
        quarantine=None,
    )
    return replace(parsed, expected_head=expected_head)
