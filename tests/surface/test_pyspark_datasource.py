"""What PySpark 4.3 does with data sources written in Python, as our own relies on it."""

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrameReader, SparkSession

from tests.support.spark_probes import calls_in, configured, known_to, names_in

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def numbers(spark: SparkSession, notes: Path) -> DataFrameReader:
    known_to(spark)
    return spark.read.format("numbers").option("notes", str(notes))


# Reads


def test_a_filter_that_was_pushed_down_once_is_there_for_every_later_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = numbers(spark, tmp_path / "notes").load()

    with configured(spark, PUSH_DOWN, "true"):
        assert frame.where("a > 6").count() == 3
        # Ten would be right, here and below: as soon as it is ten, filters can be pushed down.
        assert frame.count() == 3
        assert frame.where("a > 6").union(frame.where("a > 2")).count() == 14


def test_another_load_has_a_read_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    source = numbers(spark, tmp_path / "notes")

    with configured(spark, PUSH_DOWN, "true"):
        assert source.load().where("a > 6").count() == 3
        assert source.load().count() == 10


def test_a_source_that_takes_filters_is_refused_unless_the_session_allows_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = numbers(spark, tmp_path / "notes")

    with pytest.raises(AnalysisException, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        source.load().count()


def test_columns_that_are_not_selected_are_read_all_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"

    with configured(spark, PUSH_DOWN, "true"):
        numbers(spark, notes).load().select("a").collect()

    assert ("reader", [["a", "b"], "something"]) in calls_in(notes)


def test_state_that_a_source_stores_in_schema_reaches_its_reader(
    spark: SparkSession, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"

    with configured(spark, PUSH_DOWN, "true"):
        numbers(spark, notes).option("Some.Name", "Some Value").load().count()

    schema, reader, _ = calls_in(notes)
    assert schema == ("schema", {"some.name": "Some Value", "notes": str(notes)})
    assert reader == ("reader", [["a", "b"], "something"])


def test_a_plan_is_made_once_for_all_actions_on_a_frame(
    spark: SparkSession, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    frame = numbers(spark, notes).load()

    with configured(spark, PUSH_DOWN, "true"):
        frame.count()
        frame.select("a").collect()

    assert names_in(notes) == ["schema", "reader", "partitions"]


def test_a_given_schema_replaces_that_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    frame = numbers(spark, notes).schema("a bigint").load()

    with configured(spark, PUSH_DOWN, "true"):
        assert frame.count() == 10
    assert calls_in(notes)[0] == ("reader", [["a"], "nothing"])


# Writes


def test_the_committer_of_a_write_has_no_session(spark: SparkSession, tmp_path: Path) -> None:
    known_to(spark)
    notes = tmp_path / "notes"
    frame = spark.sql("select timestamp'2024-01-01 00:00:00' t, 1.0BD d, date'2024-01-01' day")
    writer = frame.write.format("keeping").option("notes", str(notes))

    with configured(spark, "spark.sql.session.timeZone", "America/New_York"):
        writer.mode("append").save()

    fields = [["t", "timestamp[us, tz=America/New_York]"], ["d", "decimal128(2, 1)"]]
    assert calls_in(notes) == [
        ("writer", False),
        ("session", False),
        ("commit", [[*fields, ["day", "date32[day]"]]]),
    ]


def test_a_partition_without_rows_is_written_without_a_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    known_to(spark)
    notes = tmp_path / "notes"
    frame = spark.range(0, 1, 1, 2)

    frame.write.format("keeping").option("notes", str(notes)).mode("overwrite").save()

    assert calls_in(notes)[0] == ("writer", True)
    assert calls_in(notes)[-1] == ("commit", [[], [["id", "int64"]]])


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_other_modes_are_refused_by_spark(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    known_to(spark)
    writer = spark.range(1).write.format("keeping").option("notes", str(tmp_path / "notes"))

    with pytest.raises(AnalysisException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        writer.mode(mode).save()


def test_a_task_that_fails_aborts_the_write_and_its_message_is_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    known_to(spark)
    notes = tmp_path / "notes"
    writer = spark.range(0, 2, 1, 2).write.format("keeping").option("notes", str(notes))

    with pytest.raises(PySparkException, match="the task broke"):
        writer.option("fail", "task").mode("append").save()

    name, messages = calls_in(notes)[-1]
    assert name == "abort"
    assert messages in ([True, False], [False, False])


def test_a_commit_that_fails_aborts_the_write_with_all_messages(
    spark: SparkSession, tmp_path: Path
) -> None:
    known_to(spark)
    notes = tmp_path / "notes"
    writer = spark.range(0, 1, 1, 1).write.format("keeping").option("notes", str(notes))

    with pytest.raises(PySparkException, match="the commit broke"):
        writer.option("fail", "commit").mode("append").save()

    assert names_in(notes) == ["writer", "session", "commit", "abort"]
    assert calls_in(notes)[-1] == ("abort", [True])


def test_the_tasks_of_a_stream_know_the_query_and_it_is_the_same_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    known_to(spark)
    notes, lines = tmp_path / "notes", tmp_path / "lines"
    lines.mkdir()

    def run() -> str:
        stream = spark.readStream.schema("a bigint").json(str(lines))
        sink = stream.writeStream.format("keeping").option("notes", str(notes))
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination()
        return str(query.id)

    (lines / "1.json").write_text('{"a": 1}\n', encoding="utf-8")
    first = run()
    (lines / "2.json").write_text('{"a": 2}\n', encoding="utf-8")
    second = run()
    # There is nothing new: no writer is requested.
    third = run()

    assert first == second == third
    assert calls_in(notes) == [("commit", [0, [first]]), ("commit", [1, [first]])]
    assert json.loads((tmp_path / "checkpoint" / "metadata").read_text()) == {"id": first}
