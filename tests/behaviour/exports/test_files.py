"""An export into files: a folder that is complete or absent, and lists its contents."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from omnigraph.engine.results import ExportedType
from omnigraph.errors import (
    AlreadyExistsError,
    InvalidValueError,
    NotFoundError,
    UnavailableError,
)
from tests.support.graphs import build_graph, contents, edge, fleet_graph, node
from tests.support.queries import query

FORMATS = ("ndjson", "parquet", "arrow")
NUMBERS = "node Number { name: String @key  f: F64?  g: F32?  v: Vector(2)? }"


def names_in(folder: Path) -> list[str]:
    """Everything in a folder, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("format", FORMATS)
def test_the_report_names_the_rows_and_the_file_of_each_type(tmp_path: Path, format: str) -> None:
    graph = fleet_graph(tmp_path / "graph")

    report = graph.export_files(tmp_path / "files", format=format)

    rows = {"Flies": 3, "Mentors": 4, "Pilot": 5, "Ship": 3}
    assert report.types == tuple(
        ExportedType(name, count, str(tmp_path / "files" / f"{name}.{format}"))
        for name, count in rows.items()
    )
    assert (report.commit_id, report.format) == (graph.head(), format)
    assert names_in(tmp_path / "files") == [f"{name}.{format}" for name in rows]


@pytest.mark.parametrize("format", FORMATS)
def test_each_exported_file_can_be_loaded_alone(tmp_path: Path, format: str) -> None:
    graph = fleet_graph(tmp_path / "graph")
    graph.export_files(tmp_path / "files", format=format, types=["Ship"])
    copy = build_graph(tmp_path / "copy", graph.schema_source)

    copy.load(tmp_path / "files" / f"Ship.{format}", mode="append")

    assert contents(copy) == {"Ship": contents(graph)["Ship"]}


def test_a_type_without_rows_has_a_file_without_rows(tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", NUMBERS)

    for format in FORMATS:
        report = graph.export_files(tmp_path / format, format=format)

        assert [each.rows for each in report.types] == [0]
        assert graph.load(tmp_path / format, mode="append").commit_id is None


def test_a_name_of_a_node_type_and_an_edge_type_makes_two_files(tmp_path: Path) -> None:
    schema = """
    node KNOWS { name: String @key }
    edge Knows: KNOWS -> KNOWS
    """
    music = node("KNOWS", name="music")
    graph = build_graph(tmp_path / "graph", schema, music, edge("Knows", "music", "music"))

    graph.export_files(tmp_path / "files", format="arrow")

    copy = build_graph(tmp_path / "copy", schema)
    copy.load(tmp_path / "files", mode="append")
    assert contents(copy) == contents(graph)
    assert names_in(tmp_path / "files") == ["edge:Knows.arrow", "node:KNOWS.arrow"]


def test_other_libraries_read_timestamps_with_their_time(tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", "node Event { at: DateTime }", node("Event", at=1))

    graph.export_files(tmp_path / "files", format="parquet")

    found = parquet.read_table(tmp_path / "files" / "Event.parquet")["at"]
    assert found.type == pa.timestamp("ms", tz="UTC")
    assert found.cast(pa.int64()).to_pylist() == [1]


@pytest.mark.parametrize("name", ["f", "g", "v"])
def test_a_number_without_a_json_form_leaves_no_folder_and_other_formats_store_it(
    tmp_path: Path, name: str
) -> None:
    graph = build_graph(tmp_path / "graph", NUMBERS)
    infinite = pa.array([[float("inf"), 0.0]] if name == "v" else [float("inf")])
    graph.load({"Number": pa.table({"name": ["n"], name: infinite})}, mode="append")

    with pytest.raises(InvalidValueError, match=f"Number 'n', property '{name}': inf") as caught:
        graph.export_files(tmp_path / "lines", format="ndjson")
    graph.export_files(tmp_path / "files", format="parquet")

    assert "Parquet" in str(caught.value)
    assert names_in(tmp_path) == ["files", "graph"]
    found = parquet.read_table(tmp_path / "files" / "Number.parquet")[name]
    assert found.to_pylist() == infinite.to_pylist()


def test_a_folder_that_is_not_empty_is_refused_and_unchanged(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path / "graph")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "notes.txt").write_text("mine")

    with pytest.raises(AlreadyExistsError, match="new or empty folder"):
        graph.export_files(tmp_path / "files")

    assert names_in(tmp_path / "files") == ["notes.txt"]
    assert names_in(tmp_path) == ["files", "graph"]


def test_an_empty_folder_is_filled_and_missing_parents_are_created(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path / "graph")
    (tmp_path / "empty").mkdir()

    graph.export_files(tmp_path / "empty", types=["Ship"])
    graph.export_files((tmp_path / "a" / "b").as_uri(), types=["Ship"])

    assert names_in(tmp_path / "empty") == names_in(tmp_path / "a" / "b") == ["Ship.ndjson"]


def test_an_invalid_export_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path / "graph")
    (tmp_path / "file").touch()

    with pytest.raises(NotFoundError, match="type 'Shop' not found; did you mean `Ship`"):
        graph.export_files(tmp_path / "files", types=["Pilot", "Shop"])
    with pytest.raises(InvalidValueError, match="'csv' is none of ndjson, parquet and arrow"):
        graph.export_files(tmp_path / "files", format="csv")
    with pytest.raises(InvalidValueError, match="local disks only"):
        graph.export_files("s3://bucket/files")
    with pytest.raises(UnavailableError, match="cannot write"):
        graph.export_files(tmp_path / "file" / "files")

    assert names_in(tmp_path) == ["file", "graph"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_result_is_written_to_a_file_in_place_of_the_one_there(
    tmp_path: Path, format: str
) -> None:
    graph = fleet_graph(tmp_path / "graph")
    result = graph.query(
        query("match { $s: Ship } return { $s.reg as reg, $s.tons as tons } order { $s.reg asc }")
    )
    target = tmp_path / f"ships.{format}"
    target.write_text("old")

    result.write(target)

    match format:
        case "ndjson":
            lines = target.read_text().splitlines()
            assert lines[0] == '{"reg":"S1","tons":120.5}'
            assert len(lines) == 3
        case "parquet":
            assert parquet.read_table(target).equals(result.to_arrow())
        case _:
            assert pa.ipc.open_file(target).read_all().equals(result.to_arrow())
    assert names_in(tmp_path) == ["graph", target.name]
