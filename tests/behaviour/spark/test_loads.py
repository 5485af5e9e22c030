"""Loads on Spark: any number of rows of any types, from any source, as one commit or not at all."""

import gzip
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.engine.results import LoadResult
from omnigraph.errors import (
    GraphError,
    IntegrityError,
    InvalidValueError,
    KeyConflictError,
    MovedError,
    UnavailableError,
    UnreadableError,
)
from tests.support.graphs import (
    SOCIAL,
    build_graph,
    contents,
    edge,
    ends,
    ndjson,
    node,
    root_of,
    rows,
    social_graph,
    unchanged,
    values,
)
from tests.support.s3_server import S3Server
from tests.support.spark_loads import files_below, share_small_inputs, write_lines

LOGS = "node Log { text: String  level: I32? }"
AGED = SOCIAL.replace("age: I32?", "age: I32?  height: F64?")
AGELESS = SOCIAL.replace("age: I32?", "")

Progress = Callable[[str, int, int | None], None]


def people(*names: str) -> list[dict[str, object]]:
    """A person of each name, as a load reads it."""
    return [dict(node("Person", name=name)) for name in names]


def when_checking(act: Callable[[], object]) -> Progress:
    """A progress callback that acts once, when the rows of a load are about to be checked."""
    is_due = threading.Lock()

    def progress(stage: str, _done: int, _total: int | None) -> None:
        if stage == "check" and is_due.acquire(blocking=False):
            act()

    return progress


# Jobs


def test_a_job_of_many_inputs_is_one_commit(tmp_path: Path, spark: SparkSession) -> None:
    graph = build_graph(tmp_path / "graph", SOCIAL)
    persons = spark.createDataFrame([("Ann", 1), ("Bob", None)], "name string, age int")
    parquet.write_table(pa.table({"src": ["Ann"], "dst": ["Bob"]}), tmp_path / "knows.parquet")
    reported: list[str] = []

    with graph.bulk(
        mode="append",
        spark=spark,
        branch="side",
        base="main",
        actor="loader",
        progress=lambda stage, _done, _total: reported.append(stage),
    ) as job:
        job.nodes("Person", persons)
        job.nodes("Company", pa.table({"name": ["Acme"]}))
        job.edges("Knows", tmp_path / "knows.parquet")
        job.records(write_lines(tmp_path / "more.jsonl", edge("WorksAt", "Ann", "Acme")))

    head = graph.commits("side")[-1]
    assert job.result == LoadResult(
        nodes_loaded={"Company": 1, "Person": 2},
        edges_loaded={"Knows": 1, "WorksAt": 1},
        commit_id=head.id,
        branch="side",
        base_branch="main",
        branch_created=True,
        engine="spark",
    )
    assert head.actor == "loader"
    assert head.parent_id == graph.head("main")
    assert contents(graph) == {}
    assert values(graph, "Person", "age", "side") == {"Ann": 1, "Bob": None}
    assert ends(graph, "Knows", "side") == [("Ann", "Bob")]
    assert ends(graph, "WorksAt", "side") == [("Ann", "Acme")]
    assert list(dict.fromkeys(reported)) == ["read", "check", "commit"]


def test_ends_go_by_either_name_and_rows_may_be_dicts_on_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = build_graph(tmp_path / "graph", SOCIAL)
    friends = spark.createDataFrame([("Ann", "Bob")], "from string, to string")

    result = graph.load(
        {
            "Person": [{"name": "Ann", "age": 1}, {"name": "Bob"}],
            "Company": pa.table({"name": ["Acme"]}),
            "Knows": friends,
            "WorksAt": [{"from": "Ann", "to": "Acme"}],
        },
        mode="append",
        engine="spark",
        spark=spark,
    )
    graph.load([node("Person", name="Cyd")], mode="append", engine="spark", spark=spark)

    assert result.engine == "spark"
    assert values(graph, "Person", "age") == {"Ann": 1, "Bob": None, "Cyd": None}
    assert ends(graph, "Knows") == [("Ann", "Bob")]
    assert ends(graph, "WorksAt") == [("Ann", "Acme")]


def test_edges_of_a_job_go_by_either_name_in_every_form(
    tmp_path: Path, spark: SparkSession
) -> None:
    names = ["Ann", "Bob", "Cyd", "Dan", "Eve", "Fay"]
    graph = build_graph(tmp_path / "graph", SOCIAL, *people(*names))
    (tmp_path / "more.csv").write_text("from,to\nCyd,Dan\n")
    parquet.write_table(pa.table({"from": ["Dan"], "to": ["Eve"]}), tmp_path / "more.parquet")

    with graph.bulk(mode="append", spark=spark) as job:
        job.edges("Knows", spark.createDataFrame([("Ann", "Bob")], "from string, to string"))
        job.edges("Knows", pa.table({"from": ["Bob"], "to": ["Cyd"]}))
        job.edges("Knows", str(tmp_path / "more.csv"))
        job.edges("Knows", str(tmp_path / "more.parquet"))
        job.edges("Knows", pa.table({"src": ["Eve"], "to": ["Fay"]}).to_pandas())

    assert sorted(ends(graph, "Knows")) == list(pairwise(names))


def test_a_job_whose_block_fails_loads_nothing(tmp_path: Path, spark: SparkSession) -> None:
    graph = build_graph(tmp_path / "graph", SOCIAL)
    job = graph.bulk(mode="append", spark=spark)

    def fail_midway() -> None:
        with job:
            job.nodes("Person", pa.table({"name": ["Ann"]}))
            raise ZeroDivisionError

    with unchanged(graph), pytest.raises(ZeroDivisionError):
        fail_midway()

    with pytest.raises(UnavailableError, match="its block has not succeeded"):
        _ = job.result


def test_arguments_of_the_wrong_kind_are_refused_with_advice(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = build_graph(tmp_path / "graph", SOCIAL)
    frame = spark.createDataFrame([("Ann",)], "name string")
    job = graph.bulk(mode="append", spark=spark)

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match="use `edges`"):
            job.nodes("Knows", frame)
        with pytest.raises(InvalidValueError, match="use `nodes`"):
            job.edges("Person", frame)
        with pytest.raises(InvalidValueError, match="name the type of its rows"):
            graph.load(frame, mode="append", engine="spark")
        with pytest.raises(InvalidValueError, match="nothing is rejected unless"):
            graph.load(frame, mode="append", engine="spark", quarantine=tmp_path)


# Which engine


def test_a_load_reports_its_engine(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = build_graph(tmp_path / "graph", SOCIAL)
    frame = spark.createDataFrame([("Ann",)], "name string")
    path = write_lines(tmp_path / "people.jsonl", *people(*map(str, range(40))))
    packed = tmp_path / "people.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes().replace(b'"name": "', b'"name": "x')))
    size = path.stat().st_size
    monkeypatch.setattr("omnigraph.engine.graph_load.INLINE_BYTES_MAX", size)

    def engine_of(given: object, session: SparkSession | None = None) -> str:
        return graph.load(given, mode="merge", spark=session).engine

    assert engine_of(path) == "inline"
    assert engine_of(ndjson(*people("Ann"))) == "inline"
    assert engine_of(path, spark) == "spark"
    assert engine_of({"Person": frame}) == "spark"
    assert engine_of([path, packed]) == "spark"


def test_an_engine_that_does_not_support_the_request_is_rejected(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = build_graph(tmp_path / "graph", SOCIAL)
    frame = spark.createDataFrame([("Ann",)], "name string")

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match="does not accept a session"):
            graph.load({"Person": frame}, mode="append", engine="inline", spark=spark)
        with pytest.raises(InvalidValueError, match="quarantine rows"):
            graph.load(ndjson(), mode="append", engine="inline", on_error="quarantine")
        with pytest.raises(InvalidValueError, match="none of auto, inline and spark"):
            graph.load(ndjson(), mode="append", engine="flink")
        with pytest.raises(InvalidValueError, match='needs engine="spark"'):
            graph.load({"Person": frame}, mode="append", engine="inline")


# Inputs of all kinds


def test_packed_files_patterns_and_folders_are_read(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_small_inputs(monkeypatch)
    graph = build_graph(tmp_path / "graph", SOCIAL)
    plain = write_lines(tmp_path / "a.jsonl", *people("Ann1", "Bob1")).read_bytes()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "one.jsonl").write_bytes(plain)
    (folder / "two.jsonl.gz").write_bytes(gzip.compress(plain.replace(b"1", b"2")))
    (folder / "three.jsonl.zst").write_bytes(zstandard.compress(plain.replace(b"1", b"3")))
    (folder / "four.jsonl").write_bytes(b"")
    (folder / "Company.csv").write_text("name\nAcme\n")

    done = graph.load([folder / "*.jsonl*", folder / "C*"], mode="merge", spark=spark)

    assert done.nodes_loaded == {"Company": 1, "Person": 6}


def test_a_graph_in_a_bucket_is_loaded_from_a_bucket(
    server: S3Server, spark: SparkSession, tmp_path: Path
) -> None:
    bucket = server.create_bucket()
    content = write_lines(tmp_path / "rows", *people("Ann", "Bob"), edge("Knows", "Ann", "Bob"))
    server.object_store(bucket, prefix="in").put("rows.jsonl", content.read_bytes())
    graph = omnigraph.init(
        f"s3://{bucket}/graph", schema=SOCIAL, storage_options=server.lance_options()
    )

    graph.load(f"s3://{bucket}/in/*.jsonl", mode="append", spark=spark)
    graph.load(f"s3://{bucket}/in/*.jsonl", mode="merge", spark=spark, branch="b", base="main")

    assert sorted(rows(graph, "Person")) == ["Ann", "Bob"]
    assert ends(graph, "Knows") == [("Ann", "Bob")]
    assert ends(graph, "Knows", "b") == [("Ann", "Bob")] * 2
    with pytest.raises(KeyConflictError):
        graph.load(f"s3://{bucket}/in/*.jsonl", mode="append", spark=spark)


def test_ten_thousand_tiny_files_are_one_load(tmp_path: Path, spark: SparkSession) -> None:
    graph = build_graph(tmp_path / "graph", LOGS)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(10_000):
        (folder / f"{number}.jsonl").write_text('{"type":"Log","data":{"text":"t"}}\n')

    done = graph.load(folder, mode="append", spark=spark)

    assert done.nodes_loaded == {"Log": 10_000}
    assert len(files_below(root_of(graph))) <= 16


def test_a_large_file_is_shared_by_tasks(tmp_path: Path, spark: SparkSession) -> None:
    graph = build_graph(tmp_path / "graph", LOGS)
    line = b'{"type":"Log","data":{"text":"%s"}}\n' % (b"t" * 1000)
    count = 64 * 1024
    (tmp_path / "large.jsonl").write_bytes(line * count)
    planned: list[int] = []

    def progress(stage: str, _done: int, total: int | None) -> None:
        if stage == "read":
            planned.append(total or 0)

    done = graph.load(tmp_path / "large.jsonl", mode="append", spark=spark, progress=progress)

    assert done.nodes_loaded == {"Log": count}
    assert planned[-1] >= 6


def test_frames_with_empty_partitions_and_empty_columns_are_loaded(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = build_graph(tmp_path / "graph", SOCIAL)
    named = spark.createDataFrame([("Ann",), ("Bob",)], "name string").repartition(8)
    (tmp_path / "blank.jsonl").write_bytes(b"\n \n\r\n")
    nothing = pa.table({"name": ["Cyd"], "age": pa.nulls(1)})
    parquet.write_table(nothing, tmp_path / "Person.parquet")

    with graph.bulk(mode="append", spark=spark) as job:
        job.nodes("Person", named.selectExpr("name", "null as age"))
        job.nodes("Person", tmp_path / "Person.parquet")
        job.edges("Knows", spark.createDataFrame([], "src string, dst string, since date"))
        job.records(tmp_path / "blank.jsonl")

    assert job.result.nodes_loaded == {"Person": 3}
    assert job.result.edges_loaded == {}
    assert values(graph, "Person", "age") == dict.fromkeys(["Ann", "Bob", "Cyd"])


def test_an_empty_load_makes_no_commit(tmp_path: Path, spark: SparkSession) -> None:
    graph = social_graph(tmp_path / "graph")
    (tmp_path / "blank.jsonl").write_bytes(b"")

    with unchanged(graph):
        done = graph.load(tmp_path / "blank.jsonl", mode="overwrite", spark=spark)

    assert done.commit_id is None


def test_a_key_that_nearly_all_rows_reference_is_loaded(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_small_inputs(monkeypatch)
    graph = build_graph(tmp_path / "graph", SOCIAL, *people("Hub"))
    names = [f"p{number}" for number in range(20_000)]
    knows = pa.table({"src": names, "dst": ["Hub"] * len(names)})
    persons = pa.table({"name": names})
    for name, table in (("Person", persons), ("Knows", knows)):
        parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=4000)

    done = graph.load(
        [tmp_path / "Knows.parquet", tmp_path / "Person.parquet"], mode="append", spark=spark
    )

    assert done.edges_loaded == {"Knows": 20_000}
    assert graph.tables()["edge:Knows"].row_count == 20_000


# Input that cannot be read


def test_a_corrupt_line_is_named_by_its_file_and_line(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_small_inputs(monkeypatch)
    graph = social_graph(tmp_path / "graph")
    good = write_lines(tmp_path / "good.jsonl", *people(*map(str, range(100))))
    lines = good.read_bytes().replace(b'"name": "', b'"name": "b').splitlines()
    lines[70:70] = [b"", b'{"type": "Person", "data": {']
    (tmp_path / "bad.jsonl").write_bytes(b"\n".join(lines))
    before = files_below(root_of(graph))

    with unchanged(graph), pytest.raises(InvalidValueError) as refused:
        graph.load([good, tmp_path / "bad.jsonl", good], mode="append", spark=spark)

    place = f"{tmp_path}/bad.jsonl: record 71 (line 72): invalid JSON at column "
    assert str(refused.value).startswith(place)
    assert files_below(root_of(graph)) == before


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_file_in_another_encoding_is_refused(
    tmp_path: Path, spark: SparkSession, encoding: str
) -> None:
    graph = social_graph(tmp_path / "graph")
    path = tmp_path / "people.jsonl"
    path.write_bytes('{"type":"Person","data":{"name":"Zoë"}}\n'.encode(encoding))

    with unchanged(graph), pytest.raises(InvalidValueError) as refused:
        graph.load(path, mode="append", spark=spark)

    assert str(refused.value).startswith(f"{path}: record 1 (line 1): invalid UTF-8 at byte ")


def test_a_file_that_is_cut_off_changes_nothing(tmp_path: Path, spark: SparkSession) -> None:
    graph = social_graph(tmp_path / "graph")
    path = tmp_path / "people.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"type":"Person","data":{"name":"Zoe"}}\n' * 50)[:-4])

    with unchanged(graph), pytest.raises(UnreadableError, match=r"people\.jsonl\.gz"):
        graph.load(path, mode="merge", spark=spark)


# Merges


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_merge_replaces_rows_and_records_it_in_history(
    tmp_path: Path, spark: SparkSession, branch: str
) -> None:
    graph = social_graph(tmp_path / "graph")
    before = graph.head()
    knows = rows(graph, "Knows")
    (id,) = [each for each, row in knows.items() if row["to"] == "Diana"]
    path = write_lines(
        tmp_path / "more.jsonl",
        node("Person", name="Bob", age=26),
        node("Person", name="Eve"),
        edge("Knows", "Bob", "Eve", id=id),
    )

    done = graph.load(path, mode="merge", branch=branch, base="main", spark=spark)

    changes = graph.diff(before, str(done.commit_id))
    assert [(each.op, each.type, each.id) for each in changes] == [
        ("update", "Person", "Bob"),
        ("insert", "Person", "Eve"),
        ("update", "Knows", id),
    ]
    assert values(graph, "Person", "age", branch)["Bob"] == 26
    assert ends(graph, "Knows", branch)[-1] == ("Bob", "Eve")
    assert len(rows(graph, "Knows", branch)) == len(knows)
    assert graph.doctor().is_healthy


def test_rows_without_keys_are_edited_by_a_merge_and_the_last_edit_counts(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_small_inputs(monkeypatch)
    graph = build_graph(tmp_path / "graph", LOGS, node("Log", id="a", text="old"))
    edits = [node("Log", id="ab"[number % 2], text=str(number)) for number in range(60)]
    path = write_lines(tmp_path / "logs.jsonl", *edits, node("Log", text="new"))

    done = graph.load(path, mode="merge", spark=spark)

    assert done.nodes_loaded == {"Log": 3}
    assert sorted(map(str, values(graph, "Log", "text").values())) == ["58", "59", "new"]
    assert values(graph, "Log", "text")["b"] == "59"
    assert len(graph.commits()) == 3


# Concurrent writes


def test_a_schema_that_changes_meanwhile_is_the_one_that_rows_are_read_by(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = social_graph(tmp_path / "graph")
    other = omnigraph.open(str(tmp_path / "graph"))
    path = write_lines(tmp_path / "people.jsonl", node("Person", name="Zoe", age=7))
    change = when_checking(lambda: other.apply_schema(AGED))

    graph.load(path, mode="append", spark=spark, progress=change)

    assert rows(graph, "Person")["Zoe"] == {"name": "Zoe", "age": 7, "height": None}
    assert graph.doctor().is_healthy


def test_rows_that_a_changed_schema_does_not_know_are_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = social_graph(tmp_path / "graph")
    other = omnigraph.open(str(tmp_path / "graph"))
    path = write_lines(tmp_path / "people.jsonl", node("Person", name="Zoe", age=7))
    before = files_below(root_of(graph))
    change = when_checking(lambda: other.apply_schema(AGELESS))

    with pytest.raises(InvalidValueError, match=r"people\.jsonl: record 1 \(line 1\).*age"):
        graph.load(path, mode="append", spark=spark, progress=change)

    assert "Zoe" not in rows(graph, "Person")
    assert len(graph.commits()) == 3
    assert files_below(root_of(graph)) - before == set()


def test_two_loads_of_different_keys_both_land(tmp_path: Path, spark: SparkSession) -> None:
    graph = social_graph(tmp_path / "graph")
    before = len(graph.commits())
    paths = [write_lines(tmp_path / f"{name}.jsonl", *people(name)) for name in ("Yan", "Zoe")]

    with ThreadPoolExecutor() as threads:
        done = list(threads.map(lambda path: graph.load(path, mode="append", spark=spark), paths))

    assert {"Yan", "Zoe"} <= set(rows(graph, "Person"))
    assert {each.commit_id for each in done} == {each.id for each in graph.commits()[before:]}
    assert graph.doctor().is_healthy


def test_of_two_loads_of_one_key_one_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    graph = social_graph(tmp_path / "graph")
    path = write_lines(tmp_path / "people.jsonl", node("Person", name="Zoe", age=1))
    overtake = when_checking(
        lambda: graph.load(ndjson(node("Person", name="Zoe", age=2)), mode="append")
    )

    with pytest.raises(KeyConflictError) as refused:
        graph.load(path, mode="append", spark=spark, progress=overtake)

    assert refused.value.id == "Zoe"
    assert values(graph, "Person", "age")["Zoe"] == 2


def test_an_overwrite_that_was_overtaken_changes_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = social_graph(tmp_path / "graph")
    path = write_lines(tmp_path / "people.jsonl", *people("Alice", "Bob", "Charlie", "Diana"))
    before = files_below(root_of(graph))
    overtaking: list[frozenset[str]] = []

    def overtake() -> None:
        mine = files_below(root_of(graph)) - before
        graph.load(ndjson(*people("Zoe")), mode="append")
        overtaking.append(files_below(root_of(graph)) - mine)

    with pytest.raises(MovedError):
        graph.load(path, mode="overwrite", spark=spark, progress=when_checking(overtake))

    assert "Zoe" in rows(graph, "Person")
    assert files_below(root_of(graph)) == overtaking[0]


# Leftover files


def test_a_load_that_is_refused_leaves_no_file_and_the_next_one_works(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = social_graph(tmp_path / "graph")
    path = write_lines(tmp_path / "rows.jsonl", *people("Zoe"), edge("Knows", "Zoe", "Absent"))
    before = files_below(root_of(graph))
    findings = graph.doctor().findings

    with unchanged(graph), pytest.raises(IntegrityError):
        graph.load(path, mode="append", spark=spark)

    assert files_below(root_of(graph)) == before
    assert graph.doctor().findings == findings
    graph.load(ndjson(*people("Zoe")), mode="append")
    assert "Zoe" in rows(graph, "Person")


def test_a_cancelled_load_leaves_no_file(tmp_path: Path, spark: SparkSession) -> None:
    graph = social_graph(tmp_path / "graph")
    path = write_lines(tmp_path / "rows.jsonl", *people("Zoe"))
    before = files_below(root_of(graph))

    def give_up() -> None:
        raise KeyboardInterrupt

    with unchanged(graph), pytest.raises(KeyboardInterrupt):
        graph.load(path, mode="append", spark=spark, progress=when_checking(give_up))

    assert files_below(root_of(graph)) == before


def test_a_branch_that_a_refused_load_would_have_started_is_not_there(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = social_graph(tmp_path / "graph")
    path = write_lines(tmp_path / "rows.jsonl", *people("Alice"))

    with unchanged(graph), pytest.raises(GraphError):
        graph.load(path, mode="append", branch="side", base="main", spark=spark)

    assert graph.branches() == ["main"]
