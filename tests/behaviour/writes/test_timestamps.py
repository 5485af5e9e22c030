"""A `DateTime` keeps its time of day: in results, differences, exports, stored tables and loads.

A value that a `Date` or a `DateTime` cannot store is refused by every write, never truncated.
"""

import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import CompileError, InvalidValueError
from tests.support.graphs import (
    build_graph,
    contents,
    ndjson,
    node,
    root_of,
    rows,
    table_paths,
    unchanged,
)
from tests.support.queries import query

TIMESTAMP = pa.timestamp("ms", tz="UTC")

SCHEMA = "node Event { name: String @key  at: DateTime?  marks: [DateTime]?  day: Date? }"
AT = datetime(2024, 5, 1, 10, 0, 0, 123000, tzinfo=UTC)
TEXT = "2024-05-01T10:00:00.123Z"

ALL = query("match { $e: Event } return { $e.at as at, $e.marks as marks, $e.day as day }")


def event_graph(path: Path) -> Graph:
    """A graph of one event."""
    return build_graph(
        path, SCHEMA, node("Event", name="may", at=TEXT, marks=[TEXT], day="2024-05-01")
    )


# Out


def test_an_arrow_result_has_timestamps(tmp_path: Path) -> None:
    found = event_graph(tmp_path).query(ALL).to_arrow()

    assert found.schema.field("at").type == TIMESTAMP
    assert found.schema.field("marks").type == pa.list_(pa.field("item", TIMESTAMP))
    assert found.to_pylist() == [{"at": AT, "marks": [AT], "day": date(2024, 5, 1)}]


def test_pandas_sees_the_time_through_arrow(tmp_path: Path) -> None:
    result = event_graph(tmp_path).query(ALL)

    through_arrow = result.to_arrow().to_pandas()

    assert through_arrow["at"][0] == pd.Timestamp(AT)
    assert result.to_pandas()["at"][0] == pd.Timestamp(AT)


def test_polars_sees_the_time_through_arrow(tmp_path: Path) -> None:
    result = event_graph(tmp_path).query(ALL)

    through_arrow = pl.DataFrame(result)

    assert through_arrow["at"].dtype == pl.Datetime("ms", "UTC")
    assert through_arrow["at"][0] == result.to_polars()["at"][0] == AT
    assert through_arrow["marks"].to_list() == [[AT]]


def test_duckdb_sees_the_time_through_arrow(tmp_path: Path) -> None:
    events = event_graph(tmp_path).query(ALL).to_arrow()

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("events", events)
        found = connection.execute(
            'SELECT epoch_ms("at"), epoch_ms(marks[1]), day FROM events'
        ).fetchall()

    assert found == [(1714557600123, 1714557600123, date(2024, 5, 1))]


def test_a_difference_has_timestamps_in_its_typed_rows(tmp_path: Path) -> None:
    graph = event_graph(tmp_path)
    before = graph.head()
    graph.mutate(query(f'insert Event {{ name: "new", at: datetime("{TEXT}") }}'))

    (change,) = graph.diff(before, "main").to_arrow("Event").to_pylist()

    assert change["after"]["at"] == AT


def test_parquet_and_arrow_exports_hold_the_time(tmp_path: Path) -> None:
    graph = event_graph(tmp_path / "graph")

    graph.export_files(tmp_path / "files", format="parquet")
    graph.query(ALL).write(tmp_path / "result.parquet")
    streamed = graph.export_batches("Event").read_all()

    (file,) = (tmp_path / "files").glob("Event*")
    for found in (pq.read_table(file), pq.read_table(tmp_path / "result.parquet"), streamed):
        assert found.schema.field("at").type == TIMESTAMP
        assert found["at"].to_pylist() == [AT]
        assert found["marks"].to_pylist() == [[AT]]
    with duckdb.connect() as connection:
        read = connection.execute(f"SELECT epoch_ms(\"at\") FROM '{file}'").fetchall()
    assert read == [(1714557600123,)]


def test_a_stored_table_has_timestamps(tmp_path: Path) -> None:
    graph = event_graph(tmp_path)

    stored = lance.dataset(str(table_paths(root_of(graph))["node:Event"])).to_table()

    assert stored.schema.field("at").type == TIMESTAMP
    assert stored["at"].to_pylist() == [AT]
    assert stored["marks"].to_pylist() == [[AT]]


def test_an_export_writes_dates_and_times_as_iso_text(tmp_path: Path) -> None:
    graph = event_graph(tmp_path)

    (line,) = graph.export()

    assert json.loads(line)["data"] == {
        "id": "may",
        "name": "may",
        "at": TEXT,
        "marks": [TEXT],
        "day": "2024-05-01",
    }


def test_an_export_that_is_loaded_gives_the_same_graph(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path / "graph",
        SCHEMA,
        node("Event", name="first", at="0001-01-01T00:00:00Z", day="0001-01-01"),
        node("Event", name="eve", at="1969-12-31T23:59:59.999Z", day="1969-12-31", marks=[]),
        node("Event", name="last", at="9999-12-31T23:59:59.999Z", day="9999-12-31", marks=[TEXT]),
        node("Event", name="none"),
    )
    again = build_graph(tmp_path / "again", SCHEMA)

    again.load(io.StringIO("\n".join(graph.export())), mode="append")

    assert contents(again) == contents(graph)
    assert rows(again, "Event")["first"]["at"] == "0001-01-01T00:00:00.000Z"


def test_an_export_of_an_earlier_version_is_loaded(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SCHEMA)

    graph.load(ndjson(node("Event", name="may", at=1714557600123, marks=[0])), mode="append")

    assert rows(graph, "Event")["may"]["at"] == TEXT
    assert rows(graph, "Event")["may"]["marks"] == ["1970-01-01T00:00:00.000Z"]


# In

Load = Callable[[Graph, Path, str, object], None]


def load_lines(graph: Graph, folder: Path, name: str, value: object) -> None:
    del folder
    graph.load(ndjson(node("Event", name="x", **{name: value})), mode="append")


def load_lines_in_lists(graph: Graph, folder: Path, name: str, value: object) -> None:
    del folder
    graph.apply_schema(graph.schema_source.replace("day: Date?", "day: Date?  days: [Date]?"))
    given = {"at": "marks", "day": "days"}[name]
    graph.load(ndjson(node("Event", name="x", **{given: [value]})), mode="append")


def load_dicts(graph: Graph, folder: Path, name: str, value: object) -> None:
    del folder
    graph.load({"Event": [{"name": "x", name: value}]}, mode="append")


def load_csv(graph: Graph, folder: Path, name: str, value: object) -> None:
    (folder / "Event.csv").write_text(f"name,{name}\nx,{value}\n", encoding="utf-8")
    graph.load(folder / "Event.csv", mode="append")


def insert_parameter(graph: Graph, folder: Path, name: str, value: object) -> None:
    del folder
    type = {"at": "DateTime", "day": "Date"}[name]
    text = query(f'insert Event {{ name: "x", {name}: $v }}', parameters=f"$v: {type}")
    graph.mutate(text, {"v": value})


def read_with_parameter(graph: Graph, folder: Path, name: str, value: object) -> None:
    del folder
    type = {"at": "DateTime", "day": "Date"}[name]
    text = query(
        f"match {{ $e: Event {{ {name}: $v }} }} return {{ $e.name }}", parameters=f"$v: {type}"
    )
    graph.query(text, {"v": value})


WAYS: dict[str, Load] = {
    "lines": load_lines,
    "lists in lines": load_lines_in_lists,
    "dicts": load_dicts,
    "CSV": load_csv,
    "parameters of mutations": insert_parameter,
    "parameters of queries": read_with_parameter,
}

UNSTORABLE: dict[str, tuple[str, object, str]] = {
    "a number for a date": ("day", 2024, "Date|date"),
    "a time of day for a date": ("day", "2024-05-01T10:00:00Z", "it has a time of day"),
    "midnight for a date": ("day", "2024-05-01T00:00:00", "it has a time of day"),
    "microseconds": ("at", "2024-05-01T10:00:00.123456Z", "digits below the millisecond"),
}


@pytest.mark.parametrize("case", UNSTORABLE.values(), ids=UNSTORABLE)
@pytest.mark.parametrize("give", WAYS.values(), ids=WAYS)
def test_values_that_cannot_be_stored_are_refused(
    tmp_path: Path, give: Load, case: tuple[str, object, str]
) -> None:
    graph = build_graph(tmp_path / "graph", SCHEMA)
    name, value, problem = case

    with pytest.raises(InvalidValueError, match=problem):
        give(graph, tmp_path, name, value)

    assert contents(graph) == {}


@pytest.mark.parametrize("give", WAYS.values(), ids=WAYS)
def test_zeros_below_the_millisecond_are_accepted(tmp_path: Path, give: Load) -> None:
    graph = build_graph(tmp_path / "graph", SCHEMA)

    give(graph, tmp_path, "at", "2024-05-01T10:00:00.123000000Z")


@pytest.mark.parametrize(
    ("literal", "advice"),
    [
        ('day: date("2024-05-01T10:00:00Z")', 'write `date("2024-05-01")`'),
        ('at: datetime("2024-05-01T10:00:00.1239Z")', 'datetime("2024-05-01T10:00:00.123Z")'),
        ("day: 2024", "Date"),
    ],
)
def test_a_literal_that_cannot_be_stored_does_not_compile(
    tmp_path: Path, literal: str, advice: str
) -> None:
    graph = build_graph(tmp_path, SCHEMA)

    with pytest.raises(CompileError) as refused:
        graph.mutate(query(f'insert Event {{ name: "x", {literal} }}'))

    (diagnostic,) = refused.value.diagnostics
    assert advice in f"{diagnostic.message} {diagnostic.suggestion}"


FINE = pd.DataFrame({"name": ["x"], "at": [pd.Timestamp("2024-05-01T10:00:00.000000001Z")]})
TIMED = pd.DataFrame({"name": ["x"], "day": [pd.Timestamp("2024-05-01T10:00:00")]})
NUMBERED = pa.table({"name": ["x"], "day": [19844]})


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (pa.Table.from_pandas(FINE), "digits below the millisecond"),
        (pl.from_pandas(FINE), "digits below the millisecond"),
        (pa.Table.from_pandas(TIMED), "it has a time of day"),
        (NUMBERED, "a Date is needed, not int64"),
    ],
    ids=["pandas", "polars", "times for dates", "numbers for dates"],
)
def test_columns_that_cannot_be_stored_are_refused(
    tmp_path: Path, frame: pa.Table, problem: str
) -> None:
    graph = build_graph(tmp_path / "graph", SCHEMA)
    pq.write_table(pa.table(frame), tmp_path / "Event.parquet")

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match=problem):
            graph.load({"Event": frame}, mode="append")
        with pytest.raises(InvalidValueError, match=problem):
            graph.load(tmp_path / "Event.parquet", mode="append")


def test_a_pandas_frame_of_a_result_is_loaded_again(tmp_path: Path) -> None:
    graph = event_graph(tmp_path / "graph")
    frame = graph.query(
        query("match { $e: Event } return { $e.name as name, $e.at as at, $e.day as day }")
    ).to_pandas()
    again = omnigraph.init(str(tmp_path / "again"), schema=SCHEMA)

    again.load({"Event": pa.Table.from_pandas(frame)}, mode="append")

    assert rows(again, "Event")["may"]["at"] == TEXT
    assert rows(again, "Event")["may"]["day"] == "2024-05-01"
