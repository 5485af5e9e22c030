"""Graphs whose `DateTime` columns an earlier version stored as `date64`: read, written, converted.

The graph was made by these statements:

    load      the rows may, eve, first and Ulm; then the row last and the edge; build indexes
    tag       v1, then branches idle and draft
    on draft  load the row draft, and set may.seen to 2024-06-01T00:00:00.777Z
    on main   load the row july, and delete the row first
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import Graph
from omnigraph.errors import KeyConflictError
from tests.support.archived_graphs import date64_graph
from tests.support.graphs import contents, edge, ndjson, node, root_of, rows, table_paths, values
from tests.support.queries import query

TIMESTAMP = pa.timestamp("ms", tz="UTC")

MAY, EVE, FIRST = "2024-05-01T10:00:00.123Z", "1969-12-31T23:59:59.999Z", "0001-01-01T00:00:00.000Z"
LAST, JULY, DRAFT = (
    "9999-12-31T23:59:59.999Z",
    "2024-07-01T00:00:00.000Z",
    "2025-01-01T00:00:00.250Z",
)
MAY_ID = "1714557600123"

SEEN_ON_MAIN = {
    "may": "2024-05-02T00:00:00.001Z",
    "eve": EVE,
    "last": LAST,
    "july": None,
}

BY_TIME = query(
    "match { $e: Event  $e.seen < $t } return { $e.name as name, $e.seen as seen } "
    "order { $e.seen desc }",
    parameters="$t: DateTime",
)


@pytest.fixture
def root() -> Iterator[Path]:
    """A copy of the graph."""
    with date64_graph() as found:
        yield found


def open_graph(root: Path) -> Graph:
    return omnigraph.open(str(root), durability="relaxed")


def stored_types(root: Path, table_key: str, branch: str | None = None) -> Mapping[str, str]:
    """The types of the columns of a table, as Lance has them."""
    path = table_paths(root)[table_key]
    at = path if branch is None else path / "tree" / branch
    return {field.name: str(field.type) for field in lance.dataset(str(at)).schema}


def seen(graph: Graph, branch: str = "main") -> Mapping[str, object]:
    """The time of each event, by its name."""
    return {str(row["name"]): row["seen"] for row in rows(graph, "Event", branch).values()}


def names(graph: Graph, text: str, branch: str = "main", **params: object) -> list[object]:
    return [row["name"] for row in graph.query(text, params, branch=branch)]


@pytest.fixture(params=["as it was written", "converted"])
def graph(request: pytest.FixtureRequest, root: Path) -> Graph:
    """The graph, before and after `optimize` has converted main."""
    opened = open_graph(root)
    if request.param == "converted":
        opened.optimize()
    return opened


def test_the_stored_columns_are_of_the_old_type(root: Path) -> None:
    found = stored_types(root, "node:Event")

    assert (found["at"], found["seen"]) == ("date64[ms]", "date64[ms]")
    assert found["marks"] == "list<item: date64[ms]>"


def test_optimize_converts_every_table_of_the_branch_in_one_commit(root: Path) -> None:
    graph = open_graph(root)
    before, commits = contents(graph), len(graph.commits())

    reports = graph.optimize()

    assert {each.type for each in reports if each.committed} == {"Event", "Place", "During"}
    assert len(graph.commits()) == commits + 1
    event = stored_types(root, "node:Event")
    assert {event[name] for name in ("at", "seen")} == {str(TIMESTAMP)}
    assert event["marks"] == f"list<item: {TIMESTAMP}>"
    assert stored_types(root, "node:Place")["opened"] == str(TIMESTAMP)
    assert stored_types(root, "edge:During")["since"] == str(TIMESTAMP)
    assert contents(graph) == before
    assert not any(each.committed for each in graph.optimize())


def test_a_converted_table_has_its_indexes_again(root: Path) -> None:
    graph = open_graph(root)

    reports = graph.optimize()

    indexed = lance.dataset(str(table_paths(root)["node:Event"])).describe_indices()
    assert {"at", "seen", "name"} <= {name for each in indexed for name in each.field_names}
    assert not any(each.pending_indexes for each in reports)


def test_results_are_timestamps_with_their_time(graph: Graph) -> None:
    found = graph.query(
        query("match { $e: Event } return { $e.at, $e.seen, $e.marks, $e.day } order { $e.at }")
    ).to_arrow()

    assert found.schema.field("e.at").type == TIMESTAMP
    assert found.schema.field("e.marks").type.value_type == TIMESTAMP
    assert found["e.seen"].cast(pa.int64()).to_pylist() == [
        -1,
        1714608000001,
        None,
        253402300799999,
    ]


def test_filters_order_and_keys_find_every_year(graph: Graph) -> None:
    before_may = graph.query(BY_TIME, {"t": MAY})
    at_the_end = names(
        graph,
        query(f'match {{ $e: Event {{ at: datetime("{LAST}") }} }} return {{ $e.name as name }}'),
    )
    among = names(
        graph,
        query(
            "match { $e: Event  $e.seen in $t } return { $e.name as name } order { $e.seen }",
            parameters="$t: [DateTime]",
        ),
        t=[LAST, EVE, FIRST],
    )
    marked = names(
        graph,
        query(
            "match { $e: Event  $e.marks contains $t } return { $e.name as name }",
            parameters="$t: DateTime",
        ),
        t=MAY,
    )

    assert list(before_may) == [{"name": "eve", "seen": EVE}]
    assert at_the_end == ["last"]
    assert among == ["eve", "last"]
    assert marked == ["may"]


def test_text_in_the_form_of_a_literal_is_compared_as_text(graph: Graph) -> None:
    strange = "x' arrow_cast(1, 'Timestamp(Millisecond, Some(\"UTC\"))')"
    graph.load(ndjson(node("Event", at="2030-01-01T00:00:00Z", name=strange)), mode="append")

    found = names(
        graph,
        query(
            "match { $e: Event { name: $n } } return { $e.name as name }", parameters="$n: String"
        ),
        n=strange,
    )

    assert found == [strange]


def test_rows_are_inserted_updated_merged_and_deleted(graph: Graph) -> None:
    graph.load(
        ndjson(node("Event", at=MAY, name="may", seen="2024-05-03T00:00:00.003Z")), mode="merge"
    )
    graph.mutate(
        query(
            f'insert Event {{ at: datetime("2026-02-03T04:05:06.789Z"), name: "new", '
            f'marks: [datetime("{LAST}")] }}'
        )
    )
    graph.mutate(query(f'update Event set {{ seen: datetime("{JULY}") }} where name = "july"'))
    graph.mutate(query(f'delete Event where at = datetime("{LAST}")'))

    assert seen(graph) == {
        "may": "2024-05-03T00:00:00.003Z",
        "eve": EVE,
        "july": JULY,
        "new": None,
    }
    assert values(graph, "Event", "marks")["1770091506789"] == [LAST]
    with pytest.raises(KeyConflictError):
        graph.load(ndjson(node("Event", at=MAY)), mode="append")


def test_a_write_before_conversion_keeps_the_type_of_the_table(root: Path) -> None:
    graph = open_graph(root)

    graph.load(ndjson(node("Event", at="2026-01-01T00:00:00.001Z", name="new")), mode="append")

    assert stored_types(root, "node:Event")["at"] == "date64[ms]"
    assert values(graph, "Event", "name")["1767225600001"] == "new"


def test_a_property_that_is_added_before_conversion_is_converted_too(root: Path) -> None:
    graph = open_graph(root)
    wider = graph.schema_source.replace("day: Date?", "day: Date?  ended: DateTime?")

    graph.apply_schema(wider)
    graph.load(ndjson(node("Event", at=MAY, ended=LAST)), mode="merge")
    before = values(graph, "Event", "ended")
    graph.optimize()

    assert before[MAY_ID] == LAST
    assert values(graph, "Event", "ended") == before
    assert stored_types(root, "node:Event")["ended"] == str(TIMESTAMP)


def test_an_overwrite_stores_timestamps(root: Path) -> None:
    graph = open_graph(root)

    graph.load(
        ndjson(
            node("Event", at=MAY, name="may", marks=[EVE]),
            node("Place", name="Ulm"),
            edge("During", MAY_ID, "Ulm"),
        ),
        mode="overwrite",
    )

    assert stored_types(root, "node:Event")["at"] == str(TIMESTAMP)
    assert values(graph, "Event", "marks") == {MAY_ID: [EVE]}


def test_history_is_read_in_both_types(graph: Graph) -> None:
    then = {
        row["name"]: row["seen"]
        for row in graph.query(
            query("match { $e: Event } return { $e.name as name, $e.seen as seen }"), commit="v1"
        )
    }

    assert then == {"may": "2024-05-02T00:00:00.001Z", "eve": EVE, "first": FIRST, "last": LAST}


def test_differences_across_the_conversion_are_those_of_values(graph: Graph) -> None:
    found = graph.diff("v1", "main")
    events = found.to_arrow("node:Event")

    assert sorted((each.op, each.id) for each in found if each.type == "Event") == [
        ("delete", "-62135596800000"),
        ("insert", "1719792000000"),
    ]
    before, after = (events.schema.field(name).type for name in ("before", "after"))
    assert before.field("seen").type == after.field("at").type == TIMESTAMP


def test_a_branch_from_before_the_conversion_is_read_written_and_merged(graph: Graph) -> None:
    on_draft = {**SEEN_ON_MAIN, "may": "2024-06-01T00:00:00.777Z", "first": FIRST, "draft": DRAFT}
    del on_draft["july"]
    assert seen(graph, "draft") == on_draft
    assert seen(graph, "idle") == {
        "may": "2024-05-02T00:00:00.001Z",
        "eve": EVE,
        "first": FIRST,
        "last": LAST,
    }

    graph.mutate(
        query(
            'update Event set { seen: datetime("2024-12-24T18:00:00.018Z") } where name = "last"'
        ),
        branch="draft",
    )
    graph.merge("draft")

    assert seen(graph) == {
        "may": "2024-06-01T00:00:00.777Z",
        "eve": EVE,
        "july": None,
        "draft": DRAFT,
        "last": "2024-12-24T18:00:00.018Z",
    }


def test_a_converted_branch_is_merged_into_an_unconverted_one(root: Path) -> None:
    graph = open_graph(root)
    graph.optimize(branch="draft")
    assert stored_types(root, "node:Event")["at"] == "date64[ms]"

    graph.merge("draft")

    assert seen(graph)["may"] == "2024-06-01T00:00:00.777Z"
    assert seen(graph)["draft"] == DRAFT
    graph.optimize()
    assert stored_types(root, "node:Event")["at"] == str(TIMESTAMP)


def test_a_conflict_shows_both_times(graph: Graph) -> None:
    graph.mutate(
        query('update Event set { seen: datetime("2030-01-01T00:00:00Z") } where name = "may"')
    )

    (conflict,) = graph.merge("draft", dry_run=True).conflicts

    sides = (conflict.base, conflict.source, conflict.target)
    assert [side and side["seen"] for side in sides] == [
        "2024-05-02T00:00:00.001Z",
        "2024-06-01T00:00:00.777Z",
        "2030-01-01T00:00:00.000Z",
    ]


def test_exports_hold_timestamps(graph: Graph, tmp_path: Path) -> None:
    graph.export_files(tmp_path / "files", format="parquet")
    again = omnigraph.init(
        str(tmp_path / "again"), schema=graph.schema_source, durability="relaxed"
    )

    again.load(tmp_path / "files", mode="append")

    assert contents(again) == contents(graph)


# On Spark


def test_spark_reads_the_time_in_both_types(graph: Graph, spark: SparkSession) -> None:
    frame = spark.read.format("omnigraph").option("type", "Event").load(graph.uri)

    shown = frame.selectExpr(
        "name", "unix_millis(seen) AS seen", "unix_millis(get(marks, 0)) AS mark"
    )
    late = frame.where("seen > timestamp_millis(1714557600123)").select("name")

    assert {row["name"]: (row["seen"], row["mark"]) for row in shown.collect()} == {
        "may": (1714608000001, 1714557600123),
        "eve": (-1, None),
        "last": (253402300799999, None),
        "july": (None, 1719813600006),
    }
    assert {row["name"] for row in late.collect()} == {"may", "last"}


def test_spark_loads_queries_and_merges_both_types(graph: Graph, spark: SparkSession) -> None:
    given = ndjson(
        node("Event", at=MAY, name="may", seen="2024-05-03T00:00:00.003Z", marks=[LAST]),
        node("Event", at="2026-01-01T00:00:00.001Z", name="new", seen=FIRST),
    )

    loaded = graph.load(given, mode="merge", engine="spark", spark=spark)
    found = graph.query(BY_TIME, {"t": MAY}, engine="spark", spark=spark)
    listed = [(row["name"], row["seen"]) for row in found]
    changed = graph.diff("v1", "main", engine="spark", spark=spark)
    differing = sorted(each.id for each in changed if each.type == "Event")
    graph.optimize(engine="spark", spark=spark)

    assert loaded.nodes_loaded == {"Event": 2}
    assert listed == [("eve", EVE), ("new", FIRST)]
    assert differing == ["-62135596800000", MAY_ID, "1719792000000", "1767225600001"]
    assert seen(graph) == {
        **SEEN_ON_MAIN,
        "may": "2024-05-03T00:00:00.003Z",
        "new": FIRST,
    }
    assert values(graph, "Event", "marks")[MAY_ID] == [LAST]
    assert stored_types(root_of(graph), "node:Event")["at"] == str(TIMESTAMP)


def test_spark_writes_frames_to_both_types(graph: Graph, spark: SparkSession) -> None:
    rows_to_write = spark.sql(
        "SELECT timestamp_millis(1767225600001) AS at, 'new' AS name, "
        "array(timestamp_millis(-1)) AS marks"
    )

    rows_to_write.write.format("omnigraph").options(type="Event").mode("append").save(graph.uri)

    graph.refresh()
    assert rows(graph, "Event")["1767225600001"]["marks"] == [EVE]
    assert rows(graph, "Event")["1767225600001"]["at"] == "2026-01-01T00:00:00.001Z"
