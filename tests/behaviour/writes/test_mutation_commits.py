"""Section C of the engine: a mutation is one commit or nothing, whichever rows it touches."""

import signal
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import DriftError, IntegrityError, Outcome
from tests.support.graphs import (
    build_graph,
    contents,
    counts,
    edge,
    ends,
    head_versions,
    manifest,
    ndjson,
    node,
    pins,
    root_of,
    rows,
    sidecars,
    social_graph,
    table_paths,
    unchanged,
    values,
)
from tests.support.queries import query
from tests.support.writes import Write, load, mutate

PEOPLE = ["Alice", "Bob", "Charlie", "Diana"]


def test_c01_a_mutation_of_two_types_is_one_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before, version = graph.head(), manifest(tmp_path).version

    result = graph.mutate(
        query('insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Alice" }')
    )

    assert counts(result) == (1, 1)
    assert manifest(tmp_path).version == version + 1
    assert graph.commits()[-1].parent_id == before
    assert "Eve" in rows(graph, "Person")
    assert ("Eve", "Alice") in ends(graph, "Knows")


def test_c02_a_mutation_that_fails_moves_no_table(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with unchanged(graph), pytest.raises(IntegrityError, match="'Missing' not found"):
        graph.mutate(
            query('insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Missing" }')
        )

    assert head_versions(tmp_path) == pins(graph)
    graph.mutate(query('insert Person { name: "Frank" }'))
    assert "Eve" not in rows(graph, "Person")
    assert "Frank" in rows(graph, "Person")


def test_c04_a_row_that_is_inserted_and_updated_is_one_version(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before = pins(graph)

    result = graph.mutate(
        query('insert Person { name: "X", age: 1 } update Person set { age: 2 } where name = "X"')
    )

    assert counts(result) == (2, 0)
    assert rows(graph, "Person")["X"] == {"name": "X", "age": 2}
    assert pins(graph) == {**before, "node:Person": before["node:Person"] + 1}


def test_c05_a_second_update_sees_the_first_and_both_are_one_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    version = manifest(tmp_path).version

    result = graph.mutate(
        query(
            'update Person set { age: 99 } where name = "Alice"'
            " update Person set { age: 10 } where age > 50"
        )
    )

    assert counts(result) == (2, 0)
    assert values(graph, "Person", "age") == {"Alice": 10, "Bob": 25, "Charlie": 35, "Diana": 28}
    assert manifest(tmp_path).version == version + 1


def test_c07_inserting_an_existing_key_replaces_the_row(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    graph.mutate(query('insert Person { name: "Alice", age: 99 }'))

    assert values(graph, "Person", "age") == {"Alice": 99, "Bob": 25, "Charlie": 35, "Diana": 28}
    assert graph.tables()["node:Person"].row_count == 4


def test_c10_deletes_reach_rows_whose_property_is_null(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node Person { name: String @key  age: I32? } edge Knows: Person -> Person",
        node("Person", name="Charlie", age=35),
        node("Person", name="Zoe"),
        edge("Knows", "Zoe", "Charlie"),
    )

    result = graph.mutate(query('delete Person where age > 30 delete Person where name = "Zoe"'))

    assert counts(result) == (2, 1)
    assert contents(graph) == {}
    assert [table.row_count for table in graph.tables().values()] == [0, 0]


def test_c11_a_delete_without_edges_leaves_the_edge_types_alone(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.mutate(query('insert Person { name: "Hermit" }'))
    before = pins(graph)

    result = graph.mutate(query('delete Person where name = "Hermit"'))

    assert counts(result) == (1, 0)
    assert pins(graph) == {**before, "node:Person": before["node:Person"] + 1}
    assert head_versions(tmp_path) == pins(graph)
    graph.mutate(query('delete Knows where from = "Bob"'))
    assert ends(graph, "Knows") == [("Alice", "Bob"), ("Alice", "Charlie")]


def test_c13_an_edge_from_a_node_to_itself_counts_once(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.mutate(query('insert Knows { from: "Diana", to: "Diana" }'))

    result = graph.mutate(query('delete Person where name = "Diana"'))

    assert counts(result) == (1, 2)
    assert ends(graph, "Knows") == [("Alice", "Bob"), ("Alice", "Charlie")]


def test_c14_a_delete_that_matches_nothing_makes_no_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with unchanged(graph):
        result = graph.mutate(query('delete Person where name = "Absent"'))

    assert counts(result) == (0, 0)
    assert result.commit_id is None


def test_an_update_that_changes_no_value_is_a_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before = contents(graph)

    result = graph.mutate(query('update Person set { age: 30 } where name = "Alice"'))

    assert counts(result) == (1, 0)
    assert result.commit_id == graph.head()
    assert contents(graph) == before


def test_c16_two_graphs_of_one_directory_see_each_other(tmp_path: Path) -> None:
    first = social_graph(tmp_path)
    second = omnigraph.open(str(tmp_path))

    second.mutate(query('insert Person { name: "Eve" }'))
    first.mutate(query('insert Person { name: "Frank" }'))
    second.mutate(query('update Person set { age: 1 } where name = "Frank"'))

    assert {"Eve", "Frank"} < set(rows(first, "Person"))
    assert contents(first) == contents(second)
    assert values(first, "Person", "age")["Frank"] == 1


class StoppedError(Exception):
    """An error that a progress callback of the caller raises."""


def test_c17_a_load_that_its_caller_stops_has_not_happened(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    def stop(_stage: str, _done: int, _total: int | None) -> None:
        raise StoppedError

    with unchanged(graph), pytest.raises(StoppedError):
        graph.load(ndjson(node("Person", name="Eve")), mode="merge", progress=stop)

    graph.load(ndjson(node("Person", name="Frank")), mode="merge")
    assert "Eve" not in rows(graph, "Person")


DIE_WHILE_LOADING = """
import io, os, signal, sys
import omnigraph

def die(stage, done, total):
    os.kill(os.getpid(), signal.SIGKILL)

graph = omnigraph.open(sys.argv[1])
graph.load(io.StringIO('{"type":"Person","data":{"name":"Eve"}}'), mode="merge", progress=die)
"""


def test_c17_a_writer_that_dies_before_its_commit_leaves_only_files(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with unchanged(graph):
        died = subprocess.run(
            [sys.executable, "-c", DIE_WHILE_LOADING, str(tmp_path)],
            check=False,
            capture_output=True,
        )

    assert died.returncode == -signal.SIGKILL, died.stderr
    graph.mutate(query('insert Person { name: "Frank" }'))
    with omnigraph.open(str(tmp_path)) as reopened:
        assert sorted(rows(reopened, "Person")) == [*PEOPLE, "Frank"]


def test_c19_a_blob_that_an_update_omits_is_unchanged(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Doc { slug: String @key  body: Blob?  n: I32? }")

    result = graph.mutate(
        query(
            'insert Doc { slug: "d", body: "base64:AQID" } update Doc set { n: 1 } where slug = "d"'
        )
    )

    assert counts(result) == (2, 0)
    assert rows(graph, "Doc")["d"] == {"slug": "d", "body": "base64:AQID", "n": 1}


OVER_STRANGE_ROWS = {
    "insert": mutate('insert Person { name: "Eve" }'),
    "update": mutate("update Person set { age: 1 } where age > 0"),
    "delete": mutate('delete Person where name = "Alice"'),
    "append": load(node("Person", name="Eve")),
    "merge": load(node("Person", name="Eve"), mode="merge"),
    "overwrite": load(*(node("Person", name=name) for name in PEOPLE), mode="overwrite"),
}


@pytest.mark.parametrize("write", OVER_STRANGE_ROWS.values(), ids=OVER_STRANGE_ROWS)
def test_c20_a_write_over_rows_from_outside_is_refused_and_says_how_to_repair(
    tmp_path: Path, write: Write
) -> None:
    graph = social_graph(tmp_path)
    people = lance.dataset(str(table_paths(tmp_path)["node:Person"]))
    stranger = pa.table({"id": ["Mallory"], "age": [1], "name": ["Mallory"]})
    lance.write_dataset(stranger.cast(people.schema), people.uri, mode="append")

    with unchanged(graph), pytest.raises(DriftError, match="omnigraph repair") as refused:
        write(graph)

    assert refused.value.outcome is Outcome.MOVED
    assert refused.value.type == "Person"
    assert refused.value.actual == refused.value.expected + 1
    assert "Mallory" not in rows(graph, "Person")


def test_c20_types_without_external_changes_stay_writable(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    people = lance.dataset(str(table_paths(tmp_path)["node:Person"]))
    people.delete("name = 'Diana'")

    graph.mutate(query('insert Company { name: "Initech" }'))

    assert "Initech" in rows(graph, "Company")
    assert "Diana" in rows(graph, "Person")


def test_c22_a_mutation_has_one_now(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path, "node Event { name: String @key  start: DateTime?  end: DateTime? }"
    )

    graph.mutate(
        query(
            'insert Event { name: "a", start: now(), end: now() }'
            ' insert Event { name: "b", start: now() }'
        )
    )
    graph.mutate(query('insert Event { name: "c", start: now() }'))

    events = rows(graph, "Event")
    assert events["a"]["start"] == events["a"]["end"] == events["b"]["start"]
    assert str(events["c"]["start"]) >= str(events["a"]["start"])


def test_a_write_leaves_no_record_of_itself_under_way(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    graph.mutate(query('delete Person where name = "Alice"'))

    assert sidecars(root_of(graph)) == []
    assert head_versions(tmp_path) == pins(graph)


def test_rows_that_a_write_does_not_touch_keep_their_row_versions(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    people = table_paths(tmp_path)["node:Person"]
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]

    before = lance.dataset(str(people)).to_table(columns=columns).to_pylist()
    graph.mutate(query('update Person set { age: 31 } where name = "Alice"'))
    after = lance.dataset(str(people)).to_table(columns=columns).to_pylist()

    changed = [row for row in after if row not in before]
    assert [row["id"] for row in changed] == ["Alice"]
    (alice,) = (row for row in before if row["id"] == "Alice")
    assert changed[0]["_row_created_at_version"] == alice["_row_created_at_version"]
