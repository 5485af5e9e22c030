"""Where a load takes its rows from: open files, paths, directories, Arrow; all mean the same."""

import gzip
import io
import json
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidValueError, NotFoundError, UnreadableError
from tests.support.graphs import (
    CREW,
    build_graph,
    contents,
    crew_graph,
    edge,
    ends,
    ndjson,
    node,
    pins,
    rows,
    table_paths,
    unchanged,
)

PILOTS = [node("Pilot", handle="ada", hours=410), node("Pilot", handle="ben")]
MENTORS = [edge("Mentors", "ada", "ben", id="m1", since=19875)]
LOADED = {
    "Pilot": {"ada": {"handle": "ada", "hours": 410}, "ben": {"handle": "ben", "hours": None}},
    "Mentors": {"m1": {"from": "ada", "to": "ben", "since": 19875}},
}
PILOT_TABLE = pa.table({"handle": ["ada", "ben"], "hours": [410, None]})
MENTOR_TABLE = pa.table(
    {"id": ["m1"], "src": ["ada"], "dst": ["ben"], "since": pa.array([19875]).cast("int32")}
)


def empty_crew(path: Path) -> Graph:
    return build_graph(path / "graph", CREW)


def write_lines(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def test_an_open_text_file_is_loaded(tmp_path: Path) -> None:
    graph = empty_crew(tmp_path)
    path = write_lines(tmp_path / "crew.jsonl", *PILOTS, *MENTORS)

    with path.open(encoding="utf-8") as lines:
        graph.load(lines, mode="append")

    assert contents(graph) == LOADED


def test_an_open_binary_file_is_loaded(tmp_path: Path) -> None:
    graph = empty_crew(tmp_path)
    text = "".join(f"{json.dumps(record)}\n" for record in [*PILOTS, *MENTORS])

    graph.load(io.BytesIO(text.encode()), mode="append")

    assert contents(graph) == LOADED


@pytest.mark.parametrize("spell", [str, Path, lambda path: path.as_uri()])
def test_a_file_is_named_by_path_or_uri(tmp_path: Path, spell: type[str] | type[Path]) -> None:
    graph = empty_crew(tmp_path)
    path = write_lines(tmp_path / "crew.jsonl", *PILOTS, *MENTORS)

    graph.load(spell(path), mode="append")

    assert contents(graph) == LOADED


def test_several_files_are_one_load(tmp_path: Path) -> None:
    graph = empty_crew(tmp_path)
    before = len(graph.commits())
    paths = [
        write_lines(tmp_path / "mentors.ndjson", *MENTORS),
        write_lines(tmp_path / "pilots.jsonl", *PILOTS),
    ]

    graph.load([str(path) for path in paths], mode="append")

    assert contents(graph) == LOADED
    assert len(graph.commits()) == before + 1


def test_parquet_files_name_their_type(tmp_path: Path) -> None:
    graph = empty_crew(tmp_path)
    pq.write_table(PILOT_TABLE, tmp_path / "Pilot.parquet")
    (tmp_path / "Mentors").mkdir()
    pq.write_table(MENTOR_TABLE, tmp_path / "Mentors" / "part-0.parquet")

    graph.load(
        [str(tmp_path / "Pilot.parquet"), str(tmp_path / "Mentors" / "part-0.parquet")],
        mode="append",
    )

    assert contents(graph) == LOADED


def test_a_mapping_gives_the_type_of_arrow_tables(tmp_path: Path) -> None:
    graph = empty_crew(tmp_path)

    result = graph.load({"Mentors": MENTOR_TABLE, "Pilot": PILOT_TABLE}, mode="append")

    assert contents(graph) == LOADED
    assert (result.nodes_loaded, result.edges_loaded) == ({"Pilot": 2}, {"Mentors": 1})


def test_anything_that_exports_an_arrow_stream_is_loaded(tmp_path: Path) -> None:
    graph = empty_crew(tmp_path)

    class Foreign:
        """An object that knows Arrow's protocol and nothing else."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return PILOT_TABLE.__arrow_c_stream__(requested_schema)

    graph.load({"Pilot": Foreign()}, mode="append")

    assert contents(graph) == {"Pilot": LOADED["Pilot"]}


def test_a_stream_of_batches_is_loaded(tmp_path: Path) -> None:
    graph = empty_crew(tmp_path)
    batches = PILOT_TABLE.to_batches(max_chunksize=1)

    graph.load(
        {"Pilot": pa.RecordBatchReader.from_batches(PILOT_TABLE.schema, batches)}, mode="append"
    )

    assert contents(graph) == {"Pilot": LOADED["Pilot"]}


def test_edges_in_a_mapping_get_an_id_when_they_bring_none(tmp_path: Path) -> None:
    graph = crew_graph(tmp_path)

    graph.load({"Flies": pa.table({"src": ["eve", "cyd"], "dst": ["S1", "S3"]})}, mode="append")

    assert {("eve", "S1"), ("cyd", "S3")} < set(ends(graph, "Flies"))
    assert all(len(id) == 26 for id in rows(graph, "Flies"))


def test_d23_an_overwrite_with_no_rows_empties_a_type(tmp_path: Path) -> None:
    graph = crew_graph(tmp_path)
    before = pins(graph)
    nothing = pa.table({"src": pa.array([], pa.string()), "dst": pa.array([], pa.string())})

    result = graph.load({"Flies": nothing}, mode="overwrite")

    emptied = lance.dataset(str(table_paths(tmp_path)["edge:Flies"]))
    assert result.edges_loaded == {"Flies": 0}
    assert pins(graph) == {**before, "edge:Flies": before["edge:Flies"] + 1}
    assert graph.tables()["edge:Flies"].row_count == 0
    assert (emptied.count_rows(), emptied.get_fragments()) == (0, [])
    assert emptied.schema.names == ["id", "src", "dst"]
    graph.load(ndjson(edge("Flies", "eve", "S1")), mode="append")
    assert ends(graph, "Flies") == [("eve", "S1")]


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_d23_adding_no_rows_makes_no_commit(tmp_path: Path, mode: str) -> None:
    graph = crew_graph(tmp_path)

    with unchanged(graph):
        result = graph.load({"Pilot": PILOT_TABLE.slice(0, 0)}, mode=mode)

    assert result.commit_id is None


UNFIT_TABLES = {
    "unknown type": ({"Robot": PILOT_TABLE}, "Robot"),
    "unknown column": ({"Ship": pa.table({"reg": ["x"], "speed": [1]})}, "speed"),
    "no key": ({"Pilot": pa.table({"hours": [1]})}, "handle"),
    "null in the key": ({"Pilot": pa.table({"handle": pa.array([None], pa.string())})}, "handle"),
    "no end": ({"Flies": pa.table({"src": ["ada"]})}, "dst"),
    "null end": (
        {"Flies": pa.table({"src": ["ada"], "dst": pa.array([None], pa.string())})},
        "dst",
    ),
    "text for a number": ({"Pilot": pa.table({"handle": ["x"], "hours": ["many"]})}, "hours"),
    "rows that are no Arrow": ({"Pilot": [{"handle": "x"}]}, "Pilot"),
    "the same column twice": (
        {"Pilot": pa.Table.from_arrays([pa.array(["x"])] * 2, ["handle", "handle"])},
        "handle",
    ),
}


@pytest.mark.parametrize(("tables", "problem"), UNFIT_TABLES.values(), ids=UNFIT_TABLES)
def test_tables_that_do_not_fit_their_type_are_refused(
    tmp_path: Path, tables: dict[str, object], problem: str
) -> None:
    graph = crew_graph(tmp_path)

    with unchanged(graph), pytest.raises((InvalidValueError, NotFoundError), match=problem):
        graph.load(tables, mode="append")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    graph = crew_graph(tmp_path / "graph")

    with unchanged(graph), pytest.raises(NotFoundError, match=r"nowhere\.jsonl"):
        graph.load(str(tmp_path / "nowhere.jsonl"), mode="append")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    graph = crew_graph(tmp_path / "graph")
    (tmp_path / "Pilot.parquet").write_bytes(b"PAR1 and nothing else")
    (tmp_path / "crew.jsonl").write_bytes(gzip.compress(b'{"type":"Pilot"}'))

    with unchanged(graph):
        for name in ("Pilot.parquet", "crew.jsonl"):
            with pytest.raises((UnreadableError, InvalidValueError)):
                graph.load(str(tmp_path / name), mode="append")


def test_a_record_is_named_by_its_file(tmp_path: Path) -> None:
    graph = crew_graph(tmp_path / "graph")
    fine = write_lines(tmp_path / "fine.jsonl", *PILOTS)
    unfit = write_lines(tmp_path / "unfit.jsonl", *MENTORS, node("Pilot", handle=5))

    with unchanged(graph), pytest.raises(InvalidValueError, match="record 2") as refused:
        graph.load([str(fine), str(unfit)], mode="merge")

    assert "unfit.jsonl" in str(refused.value)
