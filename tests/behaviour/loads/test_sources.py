"""Sources of a load: open files, paths, directories and Arrow are equivalent."""

import gzip
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidValueError, NotFoundError, UnreadableError
from tests.support.graphs import (
    FLEET,
    build_graph,
    contents,
    edge,
    ends,
    fleet_graph,
    ndjson,
    node,
    pins,
    rows,
    table_paths,
    unchanged,
)

PILOTS = [node("Pilot", handle="ada", hours=410), node("Pilot", handle="ben")]
MENTORS = [edge("Mentors", "ada", "ben", id="m1", since="2024-06-01")]
LOADED = {
    "Pilot": {"ada": {"handle": "ada", "hours": 410}, "ben": {"handle": "ben", "hours": None}},
    "Mentors": {"m1": {"from": "ada", "to": "ben", "since": "2024-06-01"}},
}
PILOT_TABLE = pa.table({"handle": ["ada", "ben"], "hours": [410, None]})
MENTOR_TABLE = pa.table(
    {"id": ["m1"], "src": ["ada"], "dst": ["ben"], "since": pa.array([date(2024, 6, 1)])}
)


def empty_graph(path: Path) -> Graph:
    return build_graph(path / "graph", FLEET)


def write_lines(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def test_an_open_text_file_is_loaded(tmp_path: Path) -> None:
    graph = empty_graph(tmp_path)
    path = write_lines(tmp_path / "fleet.jsonl", *PILOTS, *MENTORS)

    with path.open(encoding="utf-8") as lines:
        graph.load(lines, mode="append")

    assert contents(graph) == LOADED


def test_an_open_binary_file_is_loaded(tmp_path: Path) -> None:
    graph = empty_graph(tmp_path)
    text = "".join(f"{json.dumps(record)}\n" for record in [*PILOTS, *MENTORS])

    graph.load(io.BytesIO(text.encode()), mode="append")

    assert contents(graph) == LOADED


@pytest.mark.parametrize("write_path", [str, Path, lambda path: path.as_uri()])
def test_a_file_is_named_by_path_or_uri(tmp_path: Path, write_path: type[str] | type[Path]) -> None:
    graph = empty_graph(tmp_path)
    path = write_lines(tmp_path / "fleet.jsonl", *PILOTS, *MENTORS)

    graph.load(write_path(path), mode="append")

    assert contents(graph) == LOADED


def test_several_files_are_one_load(tmp_path: Path) -> None:
    graph = empty_graph(tmp_path)
    before = len(graph.commits())
    paths = [
        write_lines(tmp_path / "mentors.ndjson", *MENTORS),
        write_lines(tmp_path / "pilots.jsonl", *PILOTS),
    ]

    graph.load([str(path) for path in paths], mode="append")

    assert contents(graph) == LOADED
    assert len(graph.commits()) == before + 1


def test_parquet_files_name_their_type(tmp_path: Path) -> None:
    graph = empty_graph(tmp_path)
    pq.write_table(PILOT_TABLE, tmp_path / "Pilot.parquet")
    (tmp_path / "Mentors").mkdir()
    pq.write_table(MENTOR_TABLE, tmp_path / "Mentors" / "part-0.parquet")

    graph.load(
        [str(tmp_path / "Pilot.parquet"), str(tmp_path / "Mentors" / "part-0.parquet")],
        mode="append",
    )

    assert contents(graph) == LOADED


def test_a_mapping_gives_the_type_of_arrow_tables(tmp_path: Path) -> None:
    graph = empty_graph(tmp_path)

    result = graph.load({"Mentors": MENTOR_TABLE, "Pilot": PILOT_TABLE}, mode="append")

    assert contents(graph) == LOADED
    assert (result.nodes_loaded, result.edges_loaded) == ({"Pilot": 2}, {"Mentors": 1})


def test_anything_that_exports_an_arrow_stream_is_loaded(tmp_path: Path) -> None:
    graph = empty_graph(tmp_path)

    class Foreign:
        """An object that knows Arrow's protocol and nothing else."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return PILOT_TABLE.__arrow_c_stream__(requested_schema)

    graph.load({"Pilot": Foreign()}, mode="append")

    assert contents(graph) == {"Pilot": LOADED["Pilot"]}


EDGES_BY_EITHER_NAME = {
    "Arrow, from and to": {"Mentors": MENTOR_TABLE.rename_columns(["id", "from", "to", "since"])},
    "Arrow, mixed": {"Mentors": MENTOR_TABLE.rename_columns(["id", "src", "to", "since"])},
    "pandas": {
        "Mentors": MENTOR_TABLE.rename_columns(["id", "from", "to", "since"])
        .to_pandas()
        .astype({"since": "datetime64[ns]"})
    },
    "dicts, from and to": {
        "Mentors": [{"id": "m1", "from": "ada", "to": "ben", "since": date(2024, 6, 1)}]
    },
    "dicts, src and dst": {
        "Mentors": ({"id": "m1", "src": "ada", "dst": "ben", "since": "2024-06-01"},)
    },
    "records, src and dst": [
        {"edge": "Mentors", "src": "ada", "dst": "ben", "data": {"id": "m1", "since": "2024-06-01"}}
    ],
    "lines, src and dst": io.StringIO(
        '{"edge":"Mentors","src":"ada","dst":"ben","data":{"id":"m1","since":"2024-06-01"}}'
    ),
}


@pytest.mark.parametrize("given", EDGES_BY_EITHER_NAME.values(), ids=EDGES_BY_EITHER_NAME)
def test_the_ends_of_edges_go_by_either_pair_of_names(tmp_path: Path, given: object) -> None:
    graph = build_graph(tmp_path / "graph", FLEET, *PILOTS)

    graph.load(given, mode="append")

    assert contents(graph) == LOADED


@pytest.mark.parametrize("header", ["id,from,to,since", "id,src,dst,since", "id,from,dst,since"])
def test_the_ends_of_edges_in_a_csv_file_go_by_either_pair_of_names(
    tmp_path: Path, header: str
) -> None:
    graph = build_graph(tmp_path / "graph", FLEET, *PILOTS)
    (tmp_path / "Mentors.csv").write_text(f"{header}\nm1,ada,ben,2024-06-01\n")

    graph.load(tmp_path / "Mentors.csv", mode="append")

    assert contents(graph) == LOADED


@pytest.mark.parametrize("names", [("from", "to"), ("src", "dst"), ("from", "dst")])
def test_the_ends_of_edges_in_a_parquet_file_go_by_either_pair_of_names(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    graph = build_graph(tmp_path / "graph", FLEET, *PILOTS)
    named = MENTOR_TABLE.rename_columns(["id", *names, "since"])
    pq.write_table(named, tmp_path / "Mentors.parquet")

    graph.load(tmp_path / "Mentors.parquet", mode="append")

    assert contents(graph) == LOADED


def test_many_lines_with_either_pair_of_names_mean_the_same(tmp_path: Path) -> None:
    pairs = [(f"p{number}", f"p{number + 1}") for number in range(5000)]
    graph = build_graph(
        tmp_path / "graph", FLEET, *(node("Pilot", handle=f"p{n}") for n in range(5001))
    )
    lines = [
        {"edge": "Mentors", **dict(zip(names, pair, strict=True))}
        for names, some in ((("src", "dst"), pairs[:4000]), (("from", "to"), pairs[4000:]))
        for pair in some
    ]

    graph.load(write_lines(tmp_path / "lines.jsonl", *lines), mode="append")

    assert sorted(ends(graph, "Mentors")) == sorted(pairs)


def test_a_list_of_dicts_holds_records_of_any_types(tmp_path: Path) -> None:
    graph = empty_graph(tmp_path)

    result = graph.load([*PILOTS, *MENTORS], mode="append")

    assert contents(graph) == LOADED
    assert (result.nodes_loaded, result.edges_loaded) == ({"Pilot": 2}, {"Mentors": 1})


def test_lists_of_dicts_by_type_hold_rows(tmp_path: Path) -> None:
    graph = empty_graph(tmp_path)

    graph.load(
        {
            "Pilot": [{"handle": "ada", "hours": 410}, {"handle": "ben"}],
            "Mentors": [{"id": "m1", "from": "ada", "to": "ben", "since": date(2024, 6, 1)}],
        },
        mode="append",
    )

    assert contents(graph) == LOADED


PYTHON_VALUES = """
node Thing {
  name: String @key
  day: Date?
  at: DateTime?
  size: F64?
  whole: I64?
  data: Blob?
  place: Vector(2)?
  tags: [String]?
}
"""


def test_values_of_python_and_numpy_in_dicts_are_stored_as_what_they_are(tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", PYTHON_VALUES)

    graph.load(
        {
            "Thing": [
                {
                    "name": "one",
                    "day": date(2024, 6, 1),
                    "at": datetime(2024, 6, 1, 12, 30, tzinfo=UTC),
                    "size": np.float32(0.5),
                    "whole": np.int64(7),
                    "data": b"abc",
                    "place": np.array([1.0, 2.0], np.float32),
                    "tags": np.array(["a", "b"]),
                },
                {
                    "name": "two",
                    "at": np.datetime64("2024-06-01T12:30:00.000000000"),
                    "size": Decimal("0.5"),
                    "whole": Decimal(7),
                },
            ]
        },
        mode="append",
    )

    query = "query q() { match { $t: Thing } return { $t.name, $t.at, $t.size, $t.whole, $t.day } }"
    one, two = sorted(graph.query(query), key=lambda row: str(row["t.name"]))
    assert one["t.at"] == two["t.at"]
    assert (one["t.size"], one["t.whole"]) == (two["t.size"], two["t.whole"]) == (0.5, 7)
    assert str(one["t.day"]) == "2024-06-01"
    assert graph.read_blob("Thing", "one", "data").content == b"abc"
    thing = graph.entity("Thing", "one")
    assert thing is not None
    assert (thing["place"], thing["tags"]) == ([1.0, 2.0], ["a", "b"])


UNFIT_DICTS = {
    "wrong value": ({"Pilot": [{"handle": "x"}, {"handle": "y", "hours": "many"}]}, "row 2.*hours"),
    "unknown property": ({"Pilot": [{"handle": "x", "speed": 1}]}, "row 1.*speed"),
    "missing end": ({"Flies": [{"from": "ada"}]}, "row 1: edge missing 'to'"),
    "an end under both names": (
        {"Flies": [{"from": "ada", "src": "ada", "to": "S1"}]},
        "'from' and 'src' name the same end",
    ),
    "no record": ([{"handle": "x"}], "row 1: expected 'type' or 'edge'"),
    "not a number": ({"Pilot": [{"handle": "x", "hours": float("nan")}]}, "give None where"),
    "bytes as a text": (
        {"Pilot": [{"handle": b"x"}]},
        "row 1, Pilot.handle: a String .* not bytes",
    ),
    "bytes as a text of a record": (
        [{"type": "Pilot", "data": {"handle": bytearray(b"x")}}],
        "row 1, Pilot.handle: a String .* not bytearray",
    ),
    "a date as a text": ({"Pilot": [{"handle": date(2024, 6, 1)}]}, "a String .* not date"),
    "a value without a form": ({"Pilot": [{"handle": object()}]}, "row 1.*object"),
    "paths and dicts": (["lines.jsonl", {"type": "Pilot"}], "a list holds paths or dicts"),
}


@pytest.mark.parametrize(("given", "problem"), UNFIT_DICTS.values(), ids=UNFIT_DICTS)
def test_dicts_that_do_not_fit_are_refused_by_their_row(
    tmp_path: Path, given: object, problem: str
) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph), pytest.raises(InvalidValueError, match=problem):
        graph.load(given, mode="append")


def test_a_stream_of_batches_is_loaded(tmp_path: Path) -> None:
    graph = empty_graph(tmp_path)
    batches = PILOT_TABLE.to_batches(max_chunksize=1)

    graph.load(
        {"Pilot": pa.RecordBatchReader.from_batches(PILOT_TABLE.schema, batches)}, mode="append"
    )

    assert contents(graph) == {"Pilot": LOADED["Pilot"]}


def test_edges_in_a_mapping_get_an_id_when_they_bring_none(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    graph.load({"Flies": pa.table({"src": ["eve", "cyd"], "dst": ["S1", "S3"]})}, mode="append")

    assert {("eve", "S1"), ("cyd", "S3")} < set(ends(graph, "Flies"))
    assert all(len(id) == 26 for id in rows(graph, "Flies"))


def test_d23_an_overwrite_with_no_rows_empties_a_type(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
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
    graph = fleet_graph(tmp_path)

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
    "rows that are no Arrow": ({"Pilot": [1]}, "a list of dicts"),
    "an end under both names": (
        {"Flies": pa.table({"src": ["ada"], "from": ["ada"], "to": ["S1"]})},
        "'src' and 'from' name the same end",
    ),
    "the same column twice": (
        {"Pilot": pa.Table.from_arrays([pa.array(["x"])] * 2, ["handle", "handle"])},
        "handle",
    ),
}


@pytest.mark.parametrize(("tables", "problem"), UNFIT_TABLES.values(), ids=UNFIT_TABLES)
def test_tables_that_do_not_fit_their_type_are_refused(
    tmp_path: Path, tables: dict[str, object], problem: str
) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph), pytest.raises((InvalidValueError, NotFoundError), match=problem):
        graph.load(tables, mode="append")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path / "graph")

    with unchanged(graph), pytest.raises(NotFoundError, match=r"nowhere\.jsonl"):
        graph.load(str(tmp_path / "nowhere.jsonl"), mode="append")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path / "graph")
    (tmp_path / "Pilot.parquet").write_bytes(b"PAR1 and nothing else")
    (tmp_path / "fleet.jsonl").write_bytes(gzip.compress(b'{"type":"Pilot"}'))

    with unchanged(graph):
        for name in ("Pilot.parquet", "fleet.jsonl"):
            with pytest.raises((UnreadableError, InvalidValueError)):
                graph.load(str(tmp_path / name), mode="append")


def test_a_record_is_named_by_its_file(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path / "graph")
    fine = write_lines(tmp_path / "fine.jsonl", *PILOTS)
    unfit = write_lines(tmp_path / "unfit.jsonl", *MENTORS, node("Pilot", handle=5))

    with unchanged(graph), pytest.raises(InvalidValueError, match="record 2") as refused:
        graph.load([str(fine), str(unfit)], mode="merge")

    assert "unfit.jsonl" in str(refused.value)
