"""Command lines with Spark: a session as they describe it, or the running one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.commands import invoke_command
from tests.support.graphs import node
from tests.support.stored_people import ALL, store_people, write_rows

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture
def partitions(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, which gets its partitions back: other tests run in it too."""
    before = spark.conf.get(PARTITIONS)
    yield spark
    spark.conf.set(PARTITIONS, str(before))


def test_a_load_uses_the_session_that_its_flags_describe(
    tmp_path: Path, partitions: SparkSession
) -> None:
    store = store_people(tmp_path)
    rows = write_rows(tmp_path, node("Person", name="Eve"), node("Person", name="Fay", age="old"))

    ended = invoke_command(
        *("load", store, "--data", rows, "--mode", "append", "--json"),
        *("--spark-conf", f"{PARTITIONS}=2"),
        *("--on-error", "quarantine", "--quarantine", tmp_path / "left-out"),
    )

    assert ended.code == 0, ended.err
    assert (ended.fields["engine"], ended.fields["nodes_loaded"]) == ("spark", 1)
    assert ended.fields["rejected"] == 1
    assert partitions.conf.get(PARTITIONS) == "2"
    (left_out,) = (tmp_path / "left-out").glob("*/rejected.ndjson")
    assert "Fay" in left_out.read_text(encoding="utf-8")


def test_refused_rows_are_printed(tmp_path: Path, spark: SparkSession) -> None:
    del spark
    store = store_people(tmp_path)
    rows = write_rows(tmp_path, node("Person", name="Eve"), node("Person", name="Fay", age="old"))

    ended = invoke_command(
        *("load", store, "--data", rows, "--mode", "append", "--engine", "spark"),
        *("--on-error", "quarantine", "--quarantine", tmp_path / "left-out"),
    )

    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[1] == "quarantined 1 row:"
    assert "a whole number is needed" in ended.out


def test_a_query_on_spark_prints_the_same_rows(tmp_path: Path, spark: SparkSession) -> None:
    del spark
    store = store_people(tmp_path)

    here = invoke_command("query", "-e", ALL, "--store", store, "--format", "csv")
    there = invoke_command(
        "query", "-e", ALL, "--store", store, "--format", "csv", "--engine", "spark"
    )

    assert there.code == 0, there.err
    assert there.out == here.out
