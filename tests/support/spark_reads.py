"""Reads that both executors are asked, and where they differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from omnigraph import Graph
from omnigraph.engine.results import Result
from omnigraph.errors import GraphError
from tests.support.generated_graphs import GeneratedRead

Outcome = tuple[list[str], list[str], list[str]] | tuple[str, str]
"""Columns, their types and rows as texts, or the error that was raised instead."""

_FOR_FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}


@contextmanager
def planned_for_few_rows(spark: SparkSession) -> Iterator[None]:
    """Settings with which Spark runs small queries several times faster."""
    before = {name: spark.conf.get(name) for name in _FOR_FEW_ROWS}
    for name, value in _FOR_FEW_ROWS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            assert known is not None
            spark.conf.set(name, known)


def run_both(graph: Graph, read: GeneratedRead, spark: SparkSession) -> tuple[Outcome, Outcome]:
    """The result of the executor in process, and that of Spark."""
    return _run(graph, read, None), _run(graph, read, spark)


def _run(graph: Graph, read: GeneratedRead, spark: SparkSession | None) -> Outcome:
    engine = "local" if spark is None else "spark"
    try:
        found = graph.query(read.text, read.params, engine=engine, spark=spark)
        return _describe(found)
    except GraphError as error:
        return type(error).__name__, str(error)


def _describe(found: Result) -> Outcome:
    # As texts, because NaN is unequal to itself and the two zeros are equal.
    table = found.to_arrow()
    types = [str(field.type) for field in table.schema]
    return table.column_names, types, [repr(row) for row in table.to_pylist()]
