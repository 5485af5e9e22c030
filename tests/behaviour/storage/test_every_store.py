"""The same guarantees on every kind of storage, and the requests of a commit to an object store.

Counts of requests are the cost of a commit where each one takes tens of milliseconds; they may not
grow with history. With OMNIGRAPH_S3_TEST_BUCKET, and OMNIGRAPH_S3_TEST_PREFIX if needed, the same
tests run on an external bucket, by the variables of the AWS tools; nothing is left there.
"""

import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lance
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    AlreadyExistsError,
    IntegrityError,
    KeyConflictError,
    MovedError,
    NotFoundError,
)
from omnigraph.model.limits import MANIFEST_FRAGMENTS_MAX
from omnigraph.storage.environment import make_storage_options
from omnigraph.storage.objects import open_bucket
from tests.support.graphs import (
    SOCIAL,
    contents,
    counts,
    edge,
    ends,
    ndjson,
    node,
    require_linear,
    row_counts,
    rows,
    social_graph,
    values,
)
from tests.support.queries import query
from tests.support.s3_server import S3Server, serve_s3

ONE_TYPE_REQUESTS_MAX = 19.5
"""Requests of a commit that adds a node, on average over a window of commits."""

TWO_TYPE_REQUESTS_MAX = 24.5
"""The same for a commit that adds a node and an edge."""

WINDOW = MANIFEST_FRAGMENTS_MAX
"""Commits over which requests are averaged: as many as from one compaction to the next."""

SHALLOW, DEEP = 10, 300

BUCKET = os.environ.get("OMNIGRAPH_S3_TEST_BUCKET")
PREFIX = os.environ.get("OMNIGRAPH_S3_TEST_PREFIX", "").strip("/") or "omnigraph-tests"


@dataclass(frozen=True, slots=True)
class Store:
    """A place for one graph."""

    uri: str
    options: dict[str, str] | None

    def init(self, schema: str, *, force: bool = False) -> Graph:
        return omnigraph.init(self.uri, schema=schema, force=force, storage_options=self.options)

    def open(self, *, read_only: bool = False) -> Graph:
        return omnigraph.open(self.uri, read_only=read_only, storage_options=self.options)

    def social(self) -> Graph:
        """Two people who know each other, and where one of them works."""
        graph = self.init(SOCIAL)
        graph.load(
            ndjson(
                node("Person", name="Alice", age=30),
                node("Person", name="Bob", age=25),
                node("Company", name="Acme"),
                edge("Knows", "Alice", "Bob"),
                edge("WorksAt", "Bob", "Acme"),
            ),
            mode="append",
        )
        return graph


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module; every graph has a bucket of its own."""
    with serve_s3() as running:
        yield running


@pytest.fixture(params=["local", "memory", "s3", *(["yours"] if BUCKET else [])])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty place."""
    match request.param:
        case "local":
            yield Store(str(tmp_path / "graph"), None)
        case "memory":
            yield Store(f"memory://{tmp_path.name}", None)
        case "yours":
            prefix = f"{PREFIX}/{uuid.uuid4().hex}"
            yield Store(f"s3://{BUCKET}/{prefix}", None)
            empty_bucket(prefix)
        case _:
            server: S3Server = request.getfixturevalue("server")
            yield s3_store(server)


def empty_bucket(prefix: str) -> None:
    assert BUCKET is not None
    store = open_bucket(BUCKET, prefix, make_storage_options(os.environ, {}))
    for page in store.list():
        store.delete([found["path"] for found in page])


def s3_store(server: S3Server) -> Store:
    return Store(f"s3://{server.create_bucket()}/some/graph", server.lance_options())


def test_a_graph_is_created_written_and_reopened(store: Store) -> None:
    graph = store.social()

    graph.mutate(query('insert Person { name: "Eve", age: 22 }'))

    with store.open() as reopened:
        assert reopened.uri == graph.uri == store.uri
        assert reopened.schema_source == SOCIAL
        assert contents(reopened) == contents(graph)
        assert values(reopened, "Person", "age") == {"Alice": 30, "Bob": 25, "Eve": 22}
        assert reopened.tables() == graph.tables()
        require_linear(reopened.commits())


def test_a_graph_is_not_created_twice(store: Store) -> None:
    graph = store.social()
    before = contents(graph)

    with pytest.raises(AlreadyExistsError):
        store.init(SOCIAL)

    assert contents(store.open()) == before
    assert contents(store.init(SOCIAL, force=True)) == {}


def test_a_location_without_a_graph_is_not_found(store: Store) -> None:
    for read_only in (True, False):
        with pytest.raises(NotFoundError):
            store.open(read_only=read_only)


def test_mutations_insert_update_and_delete(store: Store) -> None:
    graph = store.social()

    inserted = graph.mutate(
        query('insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Alice" }')
    )
    updated = graph.mutate(query("update Person set { age: 40 } where age < 40"))
    deleted = graph.mutate(query('delete Person where name = "Alice"'))

    assert [counts(each) for each in (inserted, updated, deleted)] == [(1, 1), (2, 0), (1, 2)]
    assert values(graph, "Person", "age") == {"Bob": 40, "Eve": None}
    assert ends(graph, "Knows") == []
    assert row_counts(graph) == {
        "edge:Knows": 0,
        "edge:WorksAt": 1,
        "node:Company": 1,
        "node:Person": 2,
    }


def test_loads_append_merge_and_overwrite(store: Store) -> None:
    graph = store.social()

    graph.load(ndjson(node("Person", name="Eve")), mode="append")
    graph.load(ndjson(node("Person", name="Eve", age=1), node("Person", name="Fay")), mode="merge")
    graph.load(ndjson(node("Company", name="Acme"), node("Company", name="B")), mode="overwrite")
    with pytest.raises(KeyConflictError):
        graph.load(ndjson(node("Person", name="Eve")), mode="append")

    assert values(graph, "Person", "age") == {"Alice": 30, "Bob": 25, "Eve": 1, "Fay": None}
    assert sorted(rows(graph, "Company")) == ["Acme", "B"]


def test_a_refused_write_changes_nothing(store: Store) -> None:
    graph = store.social()
    before = contents(graph), graph.commits(), graph.tables()

    with pytest.raises(IntegrityError):
        graph.mutate(
            query('insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Absent" }')
        )

    assert (contents(graph), graph.commits(), graph.tables()) == before
    graph.mutate(query('insert Person { name: "Eve" }'))
    assert "Eve" in rows(graph, "Person")


def test_branches_keep_to_themselves(store: Store) -> None:
    graph = store.social()
    graph.create_branch("team/feature")

    graph.mutate(query('delete Person where name = "Alice"'), branch="team/feature")
    graph.mutate(query('insert Person { name: "Eve" }'))

    assert graph.branches() == ["main", "team/feature"]
    assert sorted(rows(graph, "Person")) == ["Alice", "Bob", "Eve"]
    assert sorted(rows(graph, "Person", branch="team/feature")) == ["Bob"]
    assert ends(graph, "Knows", branch="team/feature") == []
    with store.open() as reopened:
        assert sorted(rows(reopened, "Person", branch="team/feature")) == ["Bob"]


def test_two_handles_of_one_graph_write_alternately(store: Store) -> None:
    first = store.social()
    second = store.open()

    for number in range(3):
        first.mutate(query(f'insert Person {{ name: "first-{number}" }}'))
        second.mutate(query(f'insert Person {{ name: "second-{number}" }}'))

    assert contents(first) == contents(second)
    assert len(rows(first, "Person")) == 8
    require_linear(first.commits())


def test_concurrent_writers_make_one_chain(store: Store) -> None:
    graph = store.social()
    start = threading.Barrier(3)

    def write(number: int) -> None:
        own = store.open()
        start.wait()
        for _ in range(50):
            try:
                own.mutate(query(f'insert Person {{ name: "p{number}" }}'))
            except MovedError:
                continue
            return

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert sorted(rows(graph, "Person")) == ["Alice", "Bob", "p0", "p1", "p2"]
    require_linear(graph.commits())


def test_the_tables_are_plain_lance(server: S3Server) -> None:
    store = s3_store(server)
    graph = store.social()

    people = graph.tables()["node:Person"]
    stored = lance.dataset(people.path, version=people.version, storage_options=store.options)

    assert sorted(stored.to_table().column("name").to_pylist()) == ["Alice", "Bob"]


def test_a_graph_is_moved_by_copying_its_files(server: S3Server, tmp_path: Path) -> None:
    original = social_graph(tmp_path)

    copy = upload(tmp_path, server).open()

    assert contents(copy) == contents(original)
    assert copy.commits() == original.commits()
    copy.mutate(query('delete Person where name = "Alice"'))
    assert "Alice" in rows(original, "Person")
    require_linear(copy.commits())


def test_the_requests_of_a_commit_do_not_grow_with_history(
    server: S3Server, tmp_path: Path
) -> None:
    shallow, deep = (
        upload(grow(tmp_path / str(depth), depth), server).open() for depth in (SHALLOW, DEEP)
    )

    spent = [requests_of_commits(graph, server) for graph in (shallow, deep)]

    (one_before, two_before), (one_after, two_after) = spent
    assert one_after <= ONE_TYPE_REQUESTS_MAX
    assert two_after <= TWO_TYPE_REQUESTS_MAX
    assert abs(one_after - one_before) <= 1
    assert abs(two_after - two_before) <= 1


def grow(path: Path, commit_count: int) -> Path:
    """A graph with a history, made where commits are cheap."""
    graph = social_graph(path)
    for number in range(commit_count - len(graph.commits())):
        graph.mutate(query(f'insert Person {{ name: "p{number}" }}'))
    return path


def upload(root: Path, server: S3Server) -> Store:
    """A copy of a graph in a bucket of its own.

    Descriptions of old versions stay behind, as after a cleanup: no request reads them, and moto
    is slow to list them.
    """
    bucket = server.create_bucket()
    objects = server.object_store(bucket, prefix="some/graph")
    for path in sorted(root.rglob("*")):
        is_newest = path.parent.name != "_versions" or path == min(path.parent.iterdir())
        if path.is_file() and is_newest and path.parent.name != "_transactions":
            objects.put(str(path.relative_to(root)), path.read_bytes())
    return Store(f"s3://{bucket}/some/graph", server.lance_options())


def requests_of_commits(graph: Graph, server: S3Server) -> tuple[float, float]:
    """The requests of a commit of one type and one of two, with warm caches."""
    person = query("insert Person { name: $n }", parameters="$n: String")
    person_and_edge = query(
        'insert Person { name: $n } insert Knows { from: "Alice", to: $n }',
        parameters="$n: String",
    )

    def average(source: str, prefix: str) -> float:
        graph.mutate(source, {"n": prefix})
        with server.recording() as requests:
            for number in range(WINDOW):
                graph.mutate(source, {"n": f"{prefix}{number}"})
        return len(requests) / WINDOW

    return average(person, "one"), average(person_and_edge, "two")
