"""An export on Spark: the rows of an export in process, in several files, in a folder that is
complete or absent.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyarrow import parquet
from pyspark.sql import SparkSession

from omnigraph import Graph
from omnigraph.errors import AlreadyExistsError, InvalidValueError, NotFoundError
from tests.support.generated_rows import EVERYTHING, Row, thing_table, things
from tests.support.graphs import build_graph, contents, edge, ndjson, node

FORMATS = ("ndjson", "parquet", "arrow")
PEOPLE = 500
NETWORK = """
node Person { name: String @key  age: I32? }
node Empty { name: String @key }
edge Knows: Person -> Person
"""


@pytest.fixture(autouse=True)
def _many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of any number are read by several tasks and make several parts."""
    monkeypatch.setattr("omnigraph.spark.ops.range_shuffle.UNSAMPLED_ROWS_MAX", 10)
    monkeypatch.setattr("omnigraph.spark.ops.range_shuffle.RANGE_BYTES_MAX", 2_000)
    monkeypatch.setattr("omnigraph.spark.ops.export.SPARK_PART_ROWS_MAX", 100)


def network(path: Path) -> Graph:
    """People in no order of their ids, in several files, some deleted, and who knows whom."""
    graph = build_graph(path, NETWORK)
    names = [f"p{number * 7919 % 1000:03}" for number in range(PEOPLE)]
    for start in range(0, PEOPLE, 100):
        people = [node("Person", name=each, age=start) for each in names[start : start + 100]]
        graph.load(ndjson(*people), mode="append")
    graph.load(ndjson(*(edge("Knows", *pair) for pair in pairwise(names))), mode="append")
    graph.mutate("query q() { delete Person where age = 200 }")
    return graph


def read_parts(folder: Path, format: str) -> object:
    """The rows of all parts of a type, one behind the other."""
    paths = sorted(folder.iterdir())
    assert [each.name for each in paths] == [
        f"part-{number:05}.{format}" for number in range(len(paths))
    ]
    return read_files(paths, format)


def read_files(paths: Sequence[Path], format: str) -> object:
    """The rows of some files in a form that can be compared."""
    match format:
        case "ndjson":
            return b"".join(each.read_bytes() for each in paths)
        case "parquet":
            return repr(pa.concat_tables(map(parquet.read_table, paths)).to_pydict())
        case _:
            read = [pa.ipc.open_file(each).read_all() for each in paths]
            return repr(pa.concat_tables(read).to_pydict())


def names_in(folder: Path) -> list[str]:
    """Everything in a folder, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("format", FORMATS)
def test_the_parts_of_a_type_are_the_file_of_an_export_in_process(
    tmp_path: Path, spark: SparkSession, format: str
) -> None:
    graph = network(tmp_path / "graph")
    expected = graph.export_files(tmp_path / "local", format=format, engine="local")

    report = graph.export_files(tmp_path / "parts", format=format, engine="spark", spark=spark)

    assert [(each.type, each.rows) for each in report.types] == [
        (each.type, each.rows) for each in expected.types
    ]
    assert (report.commit_id, report.format) == (expected.commit_id, format)
    for each in report.types:
        found = read_parts(Path(each.file), format)
        assert found == read_files([tmp_path / "local" / f"{each.type}.{format}"], format)
    assert len(names_in(tmp_path / "parts" / "Person")) > 3
    assert names_in(tmp_path / "parts" / "Empty") == [f"part-00000.{format}"]

    copy = build_graph(tmp_path / "copy", NETWORK)
    copy.load(tmp_path / "parts", mode="append")
    assert contents(copy) == contents(graph)


@given(rows=things())
@settings(
    max_examples=3,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_value_is_written_as_in_process(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, rows: Sequence[Row]
) -> None:
    folder = tmp_path_factory.mktemp("values")
    graph = build_graph(folder / "graph", EVERYTHING)
    graph.load({"Thing": thing_table(rows)}, mode="append")
    graph.export_files(folder / "local", format="arrow", engine="local")

    graph.export_files(folder / "parts", format="arrow", engine="spark", spark=spark)

    found = read_parts(folder / "parts" / "Thing", "arrow")
    assert found == read_files([folder / "local" / "Thing.arrow"], "arrow")


def test_a_job_that_fails_leaves_nothing(tmp_path: Path, spark: SparkSession) -> None:
    graph = build_graph(tmp_path / "graph", "node Number { name: String @key  f: F64? }")
    infinite = pa.table({"name": ["n"], "f": [float("inf")]})
    graph.load({"Number": infinite}, mode="append")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")

    with pytest.raises(InvalidValueError, match="Number 'n', property 'f': inf"):
        graph.export_files(tmp_path / "files", engine="spark", spark=spark)
    with pytest.raises(AlreadyExistsError, match="new or empty folder"):
        graph.export_files(tmp_path / "mine", engine="spark", spark=spark)
    with pytest.raises(NotFoundError, match="type 'Nummer' not found"):
        graph.export_files(tmp_path / "files", types=["Nummer"], engine="spark", spark=spark)

    assert names_in(tmp_path) == ["graph", "mine"]
    assert names_in(tmp_path / "mine") == ["notes.txt"]


def test_many_rows_are_processed_by_spark_and_few_in_process(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # the session that is found running
    graph = build_graph(tmp_path / "graph", NETWORK, *(node("Person", name=n) for n in "abc"))

    few = graph.export_files(tmp_path / "few")
    monkeypatch.setattr("omnigraph.engine.ops.export.EXPORT_INLINE_ROWS_MAX", 2)
    many = graph.export_files(tmp_path / "many", types=["Person"])
    reported = graph.export_files(tmp_path / "reported", types=["Person"], engine="local")

    assert Path(few.types[0].file).is_file()
    assert Path(many.types[0].file).is_dir()
    assert Path(reported.types[0].file).is_file()
