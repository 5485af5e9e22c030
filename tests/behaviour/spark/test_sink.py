"""Writing DataFrames and streams: each write, and each batch, is one commit or nothing."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from omnigraph import Graph
from omnigraph.engine.state.history import StreamBatch
from omnigraph.errors import GraphError, InvalidValueError, SchemaChangedError
from omnigraph.spark.connector.options import parse_write_options
from omnigraph.spark.connector.writer import (
    BatchWriter,
    CommitMessage,
    WriteJob,
    commit_rows,
    plan_write,
    stage_rows,
)
from tests.support.graphs import (
    build_graph,
    contents,
    edge,
    ends,
    node,
    rows,
    table_paths,
    unchanged,
)
from tests.support.queries import query
from tests.support.spark_servers import printed_by, started_script

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String?
  photo: Blob?
  @unique(email)
  @range(age, 0..150)
}
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: Date? }
edge Has: Person -> Note @card(1..3)
"""

MADE_ID = re.compile(r"\b[0-9A-Z]{26}\b")

PEOPLE = (
    node("Person", name="ann", age=30, email="ann@x"),
    node("Person", name="bob", age=40),
    node("Person", name="cyd"),
    edge("Knows", "ann", "bob"),
)


def people_graph(root: Path) -> Graph:
    return build_graph(root, SCHEMA, *PEOPLE)


def data_files(graph: Graph) -> set[Path]:
    folders = table_paths(Path(graph.uri)).values()
    return {file for each in folders for file in each.rglob("*.lance") if file.is_file()}


# Without Spark: the steps of a write, in this process


def plan(graph: Graph, columns: pa.Schema, **options: str) -> WriteJob:
    given = {"uri": graph.uri, **options}
    return plan_write(parse_write_options(given, is_overwrite=False), columns)


def write(
    graph: Graph, given: pa.Table, *, batch: StreamBatch | None = None, **options: str
) -> None:
    """Write rows as Spark would in two tasks, each with half of them."""
    reported = {"uri": graph.uri, **options}
    is_overwrite = options.get("mode") == "overwrite"
    job = plan_write(parse_write_options(reported, is_overwrite=is_overwrite), given.schema)
    half = given.num_rows // 2
    parts = (given.slice(half), given.slice(0, half))
    staged = [stage_rows(job, 1 - number, part.to_batches()) for number, part in enumerate(parts)]
    commit_rows(job, staged, batch=batch)


def people(*given: tuple[str, int | None, str | None]) -> pa.Table:
    names, ages, emails = zip(*given, strict=True) if given else ((), (), ())
    return pa.table(
        {
            "name": pa.array(names, pa.string()),
            "age": pa.array(ages, pa.int64()),
            "email": pa.array(emails, pa.string()),
        }
    )


def edges(*ends: tuple[str, str], ids: Sequence[str] = ()) -> pa.Table:
    sources, targets = zip(*ends, strict=True)
    columns = {"src": list(sources), "dst": list(targets)}
    return pa.table(({"id": list(ids)} if ids else {}) | columns)


GIVEN = {
    "new people": ("Person", people(("dan", 1, "dan@x"), ("eve", None, None), ("fay", 3, None))),
    "known people": ("Person", people(("ann", 31, "ann@y"), ("dan", 1, None))),
    "no people": ("Person", people()),
    "a repeated key": ("Person", people(("dan", 1, None), ("eve", 2, None), ("dan", 3, None))),
    "a shared email": ("Person", people(("dan", 1, "ann@x"), ("eve", 2, "e@x"), ("fay", 3, "e@x"))),
    "an email that moves": ("Person", people(("ann", 1, "new@x"), ("dan", 2, "ann@x"))),
    "ages out of range": (
        "Person",
        people(("dan", -1, None), ("eve", 2, None), ("fay", 151, None)),
    ),
    "an age that is too large": ("Person", people(("dan", 1, None), ("eve", 2**31, None))),
    "no name": ("Person", pa.table({"age": [1, 2]})),
    "several faults": ("Person", people(("dan", -1, "e@x"), ("dan", 1, "e@x"), ("eve", 1, "e@x"))),
    "edges": ("Knows", edges(("ann", "cyd"), ("bob", "ann"), ("bob", "cyd"))),
    "edges from and to": (
        "Knows",
        edges(("ann", "cyd"), ("bob", "ann")).rename_columns(["from", "to"]),
    ),
    "an end under both names": (
        "Knows",
        pa.table({"src": ["ann"], "from": ["ann"], "dst": ["cyd"]}),
    ),
    "edges without nodes": ("Knows", edges(("ann", "zoe"), ("zed", "ann"))),
    "too many edges": ("Knows", edges(("ann", "cyd"), ("ann", "ann"), ("bob", "cyd"))),
    "edges with ids": ("Knows", edges(("ann", "bob"), ("bob", "cyd"), ids=("k1", "k2"))),
    "an unknown column": ("Person", pa.table({"name": ["dan"], "agee": [3]})),
    "a wrong type": ("Person", pa.table({"name": [1.5]})),
    "notes": ("Note", pa.table({"text": ["a", "b", "c"]})),
}


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
@pytest.mark.parametrize("name", GIVEN)
def test_a_write_does_and_refuses_what_a_load_of_the_same_rows_does(
    tmp_path: Path, name: str, mode: str
) -> None:
    type_name, given = GIVEN[name]
    loaded, written = people_graph(tmp_path / "loaded"), people_graph(tmp_path / "written")

    refusals = []
    for run in (
        lambda: loaded.load({type_name: given}, mode=mode),
        lambda: write(written, given, type=type_name, mode=mode),
    ):
        try:
            run()
        except GraphError as error:
            refusals.append((type(error), MADE_ID.sub("…", str(error))))

    assert len(refusals) in (0, 2)
    assert without_made_ids(loaded) == without_made_ids(written)
    assert len(set(refusals)) <= 1
    assert len(written.commits()) == len(loaded.commits())


def without_made_ids(graph: Graph) -> object:
    """All rows of a graph, in an order that made ids have no part in."""
    return {
        name: sorted(json.dumps({**row, "id": None}, sort_keys=True) for row in found.values())
        for name, found in contents(graph).items()
    }


def test_ids_that_are_made_differ_in_all_tasks_and_batches(tmp_path: Path) -> None:
    graph = people_graph(tmp_path / "graph")
    notes = pa.table({"text": [f"note {number}" for number in range(100)]})
    job = plan(graph, notes.schema, type="Note")

    for number in range(3):
        staged = [stage_rows(job, each, notes.to_batches()) for each in range(2)]
        commit_rows(job, staged, batch=StreamBatch("stream", number))

    assert len(rows(graph, "Note")) == 600


def test_a_refused_write_leaves_nothing_behind(tmp_path: Path) -> None:
    graph = people_graph(tmp_path / "graph")
    files = data_files(graph)

    with unchanged(graph), pytest.raises(GraphError):
        write(graph, people(("dan", 1, None), ("ann", 2, None)), type="Person")

    assert data_files(graph) == files


def test_a_write_by_a_schema_that_was_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    graph = people_graph(tmp_path / "graph")
    given = people(("dan", 1, None))
    job = plan(graph, given.schema, type="Person")
    staged = stage_rows(job, 0, given.to_batches())
    graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"))

    with unchanged(graph), pytest.raises(SchemaChangedError, match="retry"):
        commit_rows(job, [staged], batch=None)


def test_columns_that_cannot_be_written_are_refused_before_anything_is_staged(
    tmp_path: Path,
) -> None:
    graph = people_graph(tmp_path / "graph")

    with pytest.raises(InvalidValueError, match="Person has no property 'agee'"):
        plan(graph, pa.schema({"name": pa.string(), "agee": pa.int32()}), type="Person")


def test_a_write_to_a_branch_leaves_others_alone(tmp_path: Path) -> None:
    graph = people_graph(tmp_path / "graph")
    graph.create_branch("side")

    write(
        graph,
        people(("ann", 77, None), ("dan", 1, None)),
        type="Person",
        branch="side",
        mode="merge",
    )

    assert rows(graph, "Person", "side")["ann"]["age"] == 77
    assert set(rows(graph, "Person", "side")) == {"ann", "bob", "cyd", "dan"}
    assert set(rows(graph, "Person")) == {"ann", "bob", "cyd"}


def test_a_write_is_checked_again_after_a_concurrent_commit(tmp_path: Path) -> None:
    graph = people_graph(tmp_path / "graph")
    given = people(("ann", 77, None), ("dan", 1, None))
    job = plan(graph, given.schema, type="Person", mode="merge")
    staged = stage_rows(job, 0, given.to_batches())
    graph.mutate(query('delete Person where name = "ann"'))

    commit_rows(job, [staged], batch=None)

    assert set(rows(graph, "Person")) == {"ann", "bob", "cyd", "dan"}


def test_a_batch_is_committed_once_however_often_it_is_written(tmp_path: Path) -> None:
    graph = people_graph(tmp_path / "graph")
    notes = pa.table({"text": ["a", "b"]})

    for number in (0, 0, 1, 0, 1):
        write(graph, notes, type="Note", batch=StreamBatch("one", number))
    files = data_files(graph)
    write(graph, notes, type="Note", batch=StreamBatch("one", 1))
    write(graph, notes, type="Note", batch=StreamBatch("other", 0))

    reported = [each.notes.batch for each in graph.commits() if each.notes.batch is not None]
    assert reported == [StreamBatch("one", 0), StreamBatch("one", 1), StreamBatch("other", 0)]
    assert len(rows(graph, "Note")) == 6
    assert len(data_files(graph)) == len(files) + 2


def test_a_batch_is_known_again_behind_many_commits_of_others(tmp_path: Path) -> None:
    graph = people_graph(tmp_path / "graph")
    notes = pa.table({"text": ["a", "b"]})
    write(graph, notes, type="Note", batch=StreamBatch("one", 0))
    for number in range(80):
        graph.mutate(query(f'update Person set {{ age: {number} }} where name = "ann"'))

    write(graph, notes, type="Note", batch=StreamBatch("one", 0))

    assert len(rows(graph, "Note")) == 2


def test_files_of_tasks_are_removed_when_another_task_failed_and_not_otherwise(
    tmp_path: Path,
) -> None:
    graph = people_graph(tmp_path / "graph")
    before = data_files(graph)
    given = people(("dan", 1, None))
    job = plan(graph, given.schema, type="Person")
    message = CommitMessage(job, stage_rows(job, 0, given.to_batches()), None)
    sink = BatchWriter(job)

    # With all messages a commit was attempted: the files may be part of the graph.
    sink.abort([message])
    retained = data_files(graph)
    sink.abort([message, None])

    assert len(retained - before) == 1
    assert data_files(graph) == before


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "name the type of the rows"),
        ({"type": "Persn"}, "did you mean 'Person'?"),
        ({"type": "Person", "mode": "upsert"}, "none of append, merge and overwrite"),
        ({"type": "Person", "mode": "overwrite"}, "`.mode('overwrite')`"),
        ({"type": "Person", "where": "age > 3"}, "unknown option"),
        ({"type": "Person", "branch": "nope"}, "branch 'nope' not found"),
    ],
)
def test_a_write_that_cannot_be_planned_is_refused_with_the_reason(
    tmp_path: Path, options: dict[str, str], problem: str
) -> None:
    graph = people_graph(tmp_path / "graph")

    with pytest.raises(GraphError) as refused:
        plan(graph, people().schema, **options)

    assert problem in str(refused.value)


# With Spark


def save(frame: DataFrame, graph: Graph, saving: str, **options: str) -> None:
    frame.write.format("omnigraph").options(**options).mode(saving).save(graph.uri)


@pytest.mark.parametrize("names", [("from", "to"), ("src", "dst"), ("src", "to")])
def test_the_ends_of_edges_in_a_frame_go_by_either_pair_of_names(
    spark: SparkSession, tmp_path: Path, names: tuple[str, str]
) -> None:
    graph = people_graph(tmp_path / "graph")
    frame = spark.createDataFrame([("bob", "cyd")], " string, ".join(names) + " string")

    save(frame, graph, "append", type="Knows")

    assert ("bob", "cyd") in ends(graph, "Knows")


def test_a_missing_option_of_a_write_is_one_line_with_an_example(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = people_graph(tmp_path / "graph")

    with pytest.raises(PySparkException) as refused:
        save(spark.createDataFrame([("dan",)], "name string"), graph, "append")

    said, *rest = str(refused.value).splitlines()
    assert """option 'type': not given; name the type of the rows, as in .option(""" in said
    assert [line.strip() for line in rest] == ["SQLSTATE: 38000"]


def test_a_frame_becomes_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    graph = people_graph(tmp_path / "graph")
    frame = spark.range(0, 100, 1, 4).selectExpr("concat('p', id) name", "int(id) age")
    count = len(graph.commits())

    save(frame, graph, "append", type="Person", actor="spark")

    assert len(rows(graph, "Person")) == 103
    assert len(graph.commits()) == count + 1
    assert graph.commits()[-1].actor == "spark"


def test_a_frame_replaces_rows_by_their_ids_or_all_of_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = people_graph(tmp_path / "graph")
    frame = spark.sql("select 'ann' name, 31 age, cast('abc' as binary) photo")

    save(frame, graph, "append", type="Person", mode="merge")
    save(spark.sql("select 'only' text"), graph, "overwrite", type="Note")

    assert rows(graph, "Person")["ann"]["age"] == 31
    assert graph.read_blob("Person", "ann", "photo").content == b"abc"
    assert len(rows(graph, "Person")) == 3
    assert [row["text"] for row in rows(graph, "Note").values()] == ["only"]


def test_a_frame_that_breaks_a_rule_changes_nothing_and_spark_says_why(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = people_graph(tmp_path / "graph")
    files = data_files(graph)
    frame = spark.range(0, 10, 1, 2).selectExpr("concat('p', id) name", "int(id - 1) age")

    with unchanged(graph), pytest.raises(PySparkException) as refused:
        save(frame, graph, "append", type="Person")

    assert "@range violation on Person.age: value -1 < min 0 (row 'p0')" in str(refused.value)
    assert data_files(graph) == files


def test_a_task_that_dies_leaves_the_graph_as_it_was_and_no_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = people_graph(tmp_path / "graph")
    files = data_files(graph)
    frame = spark.range(0, 10, 1, 1).selectExpr("concat('p', id) name", "int(id) age")
    failing = frame.selectExpr("if(age = 9, raise_error('a dead source'), name) name", "age")

    with unchanged(graph), pytest.raises(PySparkException, match="a dead source"):
        save(failing, graph, "append", type="Person")

    assert data_files(graph) == files


def start_stream(spark: SparkSession, graph: Graph, home: Path) -> StreamingQuery:
    """Write a note for each line of the files of a folder, a file in each batch."""
    lines = spark.readStream.schema("text string").option("maxFilesPerTrigger", 1)
    sink = lines.json(str(home / "lines")).writeStream.format("omnigraph")
    sink = sink.option("uri", graph.uri).option("type", "Note")
    sink = sink.option("checkpointLocation", str(home / "checkpoint"))
    return sink.trigger(availableNow=True).start()


def add_lines(home: Path, name: str, *texts: str) -> None:
    (home / "lines").mkdir(exist_ok=True)
    lines = "".join(json.dumps({"text": each}) + "\n" for each in texts)
    (home / "lines" / f"{name}.json").write_text(lines, encoding="utf-8")


def texts_in(graph: Graph) -> list[str]:
    return sorted(str(row["text"]) for row in rows(graph, "Note").values())


def test_each_batch_of_a_stream_is_recorded_in_its_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = people_graph(tmp_path / "graph")
    add_lines(tmp_path, "1", "a", "b")
    add_lines(tmp_path, "2", "c")

    stream = start_stream(spark, graph, tmp_path)
    stream.awaitTermination()

    assert texts_in(graph) == ["a", "b", "c"]
    reported = [each.notes.batch for each in graph.commits()[-2:]]
    assert reported == [StreamBatch(str(stream.id), 0), StreamBatch(str(stream.id), 1)]


def test_a_batch_that_was_committed_before_its_query_died_is_not_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = people_graph(tmp_path / "graph")
    add_lines(tmp_path, "1", "a", "b")
    start_stream(spark, graph, tmp_path).awaitTermination()
    # Spark notes last of all that a batch is done.
    shutil.rmtree(tmp_path / "checkpoint" / "commits")
    add_lines(tmp_path, "2", "c")

    start_stream(spark, graph, tmp_path).awaitTermination()

    assert texts_in(graph) == ["a", "b", "c"]


def test_a_stream_that_violates_a_rule_stops_and_resumes_after_a_fix(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = build_graph(tmp_path / "graph", "node Note { text: String @key }")
    add_lines(tmp_path, "1", "a", "a")

    with pytest.raises(PySparkException, match=r"@key violation on Note\.text"):
        start_stream(spark, graph, tmp_path).awaitTermination()

    assert texts_in(graph) == []
    add_lines(tmp_path, "1", "a", "b")
    start_stream(spark, graph, tmp_path).awaitTermination()
    assert texts_in(graph) == ["a", "b"]


STREAM = """
import sys
from pathlib import Path
import omnigraph, omnigraph.spark
from tests.behaviour.spark.test_sink import start_stream
home = Path(sys.argv[1])
spark = omnigraph.spark.session("local[2]")
start_stream(spark, omnigraph.open(str(home / "graph")), home).awaitTermination()
"""


def test_a_stream_that_is_killed_between_write_and_commit_has_every_line_once(
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    graph = people_graph(tmp_path / "graph")
    for number in range(3):
        add_lines(tmp_path, str(number), *(f"line {number}-{each}" for each in range(50)))
    expected = sorted(f"line {number}-{each}" for number in range(3) for each in range(50))
    files = data_files(graph)

    with started_script(STREAM, str(tmp_path)) as child:
        # Rows are staged, and no process has committed them.
        await_that(lambda: data_files(graph) > files, child)
    head = graph.head()
    with started_script(STREAM, str(tmp_path)) as child:
        # They are committed, and perhaps Spark has not yet noted it.
        await_that(lambda: graph.head() != head, child)
    start_stream(spark, graph, tmp_path).awaitTermination()

    assert texts_in(graph) == expected
    batches = [each.notes.batch for each in graph.commits() if each.notes.batch is not None]
    assert [each.batch_id for each in batches] == list(range(3))


def await_that(holds: Callable[[], bool], child: subprocess.Popen[bytes]) -> None:
    """Wait until something holds, which must be before a process has ended."""
    while not holds():
        assert child.poll() is None, printed_by(child)
        time.sleep(0.05)
