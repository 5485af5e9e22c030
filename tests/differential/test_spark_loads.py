"""A load on Spark and one in process leave the same graph, or refuse in the same words."""

import json
import re
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import settings
from pyarrow import csv, parquet
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import Graph
from omnigraph.engine.results import LoadResult
from tests.support.generated_loads import SCHEMA, Blemish, LoadStory, make_story, make_tables
from tests.support.graphs import build_graph, contents
from tests.support.spark_loads import plain_rows, run_to_end, share_small_inputs, write_files

CASES = [
    (mode, blemish)
    for mode in ("append", "merge", "overwrite")
    for blemish in Blemish
    if mode == "append" or blemish is not Blemish.EXISTING
]
SEEDS = range(max(settings().max_examples // 50, 1))
FEWER_SEEDS = range(max(settings().max_examples // 100, 1))


@pytest.fixture(autouse=True)
def _tiny_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Input of any size is shared by several tasks."""
    share_small_inputs(monkeypatch)


FORMATS = [
    ("frame", "append", Blemish.RULES),
    ("frame", "merge", Blemish.NOTHING),
    ("frame", "overwrite", Blemish.UNREADABLE),
    ("parquet", "merge", Blemish.RULES),
    ("parquet", "append", Blemish.UNREADABLE),
    ("lance", "append", Blemish.NOTHING),
    ("lance", "merge", Blemish.RULES),
    ("csv", "append", Blemish.RULES),
    ("csv", "merge", Blemish.UNREADABLE),
]

REJECTING = [
    ("append", Blemish.EXISTING),
    ("append", Blemish.UNREADABLE),
    ("merge", Blemish.RULES),
    ("overwrite", Blemish.RULES),
]


def two_graphs(folder: Path, story: LoadStory) -> tuple[Graph, Graph]:
    """Two graphs with the rows that a story starts with."""
    build_graph(folder / "one", SCHEMA, *story.first)
    shutil.copytree(folder / "one", folder / "other")
    one, other = (
        omnigraph.open(str(folder / name), durability="relaxed") for name in ("one", "other")
    )
    return one, other


@pytest.mark.parametrize(("mode", "blemish"), CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_records_become_the_same_rows_or_the_same_refusal(
    tmp_path: Path, spark: SparkSession, seed: int, mode: str, blemish: Blemish
) -> None:
    story = make_story(seed, mode=mode, blemish=blemish)
    paths = write_files(tmp_path / "input", story.files)
    branch = "main" if seed % 2 else "side"
    inline, staged = two_graphs(tmp_path, story)
    known = contents(inline)

    def load(graph: Graph, session: SparkSession | None) -> LoadResult:
        engine = "spark" if session else "inline"
        return graph.load(
            paths, mode=mode, branch=branch, base="main", engine=engine, spark=session
        )

    expected = run_to_end(inline, lambda: load(inline, None), known=known)
    found = run_to_end(staged, lambda: load(staged, spark), known=known)

    assert found == expected


@pytest.mark.parametrize(("format", "mode", "blemish"), FORMATS)
@pytest.mark.parametrize("seed", FEWER_SEEDS)
def test_columns_become_the_same_rows_or_the_same_refusal(
    tmp_path: Path, spark: SparkSession, format: str, seed: int, mode: str, blemish: Blemish
) -> None:
    story = make_story(seed, mode=mode, blemish=blemish)
    tables = make_tables(story.records, is_fit=blemish is not Blemish.UNREADABLE)
    inline, staged = two_graphs(tmp_path, story)
    known = contents(inline)
    given: dict[str, object] = {}
    for_spark: dict[str, object] = {}
    for name, rows in tables.items():
        if format == "frame":
            given[name], for_spark[name] = rows, spark.createDataFrame(rows)
        elif format != "csv" or not has_lists(rows):
            given[name] = for_spark[name] = write_columns(tmp_path / f"{name}.{format}", rows)

    expected = run_to_end(
        inline, lambda: inline.load(given, mode=mode, engine="inline"), known=known
    )
    found = run_to_end(
        staged,
        lambda: staged.load(for_spark, mode=mode, engine="spark", spark=spark),
        known=known,
    )

    assert found == expected


@pytest.mark.parametrize("format", ["frame", "parquet", "csv"])
def test_columns_without_rows_are_the_same_to_both(
    tmp_path: Path, spark: SparkSession, format: str
) -> None:
    story = make_story(0, mode="overwrite", blemish=Blemish.NOTHING)
    empty = pa.table({"src": ["p1"], "dst": ["p2"]}).slice(0, 0)
    inline, staged = two_graphs(tmp_path, story)
    known = contents(inline)
    given: object = write_columns(tmp_path / f"Reads.{format}", empty)
    for_spark = given
    if format == "frame":
        given, for_spark = empty, spark.createDataFrame([], "src string, dst string")

    expected = run_to_end(
        inline, lambda: inline.load({"Reads": given}, mode="overwrite"), known=known
    )
    found = run_to_end(
        staged,
        lambda: staged.load({"Reads": for_spark}, mode="overwrite", spark=spark),
        known=known,
    )

    assert found == expected


@pytest.mark.parametrize(("mode", "blemish"), REJECTING)
def test_without_the_rows_that_are_set_aside_a_load_in_process_does_the_same(
    tmp_path: Path, spark: SparkSession, mode: str, blemish: Blemish
) -> None:
    story = make_story(0, mode=mode, blemish=blemish)
    paths = write_files(tmp_path / "input", story.files)
    inline, staged = two_graphs(tmp_path, story)
    known = contents(inline)

    done = staged.load(paths, mode=mode, spark=spark, on_error="quarantine")

    assert done.rejected
    drop_set_aside(done)
    expected = run_to_end(inline, lambda: inline.load(paths, mode=mode), known=known)
    reported = (done.nodes_loaded, done.edges_loaded, ("main", None, False), False)
    assert reported == expected.reported
    assert plain_rows(staged, known=known) == expected.rows


def drop_set_aside(done: LoadResult) -> None:
    """Blank the lines of the input that a load has left out."""
    reasons = Path(str(done.report.location)) / "reasons.ndjson"
    for line in reasons.read_text().splitlines():
        found = re.fullmatch(r"(.*): record \d+ \(line (\d+)\)", json.loads(line)["place"])
        assert found is not None
        path, number = Path(found[1]), int(found[2])
        lines = path.read_bytes().split(b"\n")
        lines[number - 1] = b""
        path.write_bytes(b"\n".join(lines))


def has_lists(rows: pa.Table) -> bool:
    """Whether some column holds lists, which CSV does not know."""
    return any(pa.types.is_list(each) for each in rows.schema.types)


def write_columns(path: Path, rows: pa.Table) -> Path:
    """A file of columns in many small parts, as far as its format has any."""
    match path.suffix:
        case ".parquet":
            parquet.write_table(rows, path, row_group_size=5)
        case ".lance":
            lance.write_dataset(rows, path, max_rows_per_file=5)
        case _:
            csv.write_csv(rows, path)
    return path
