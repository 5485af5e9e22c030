"""A schema change on an object store that pauses, loses its lease and resumes does no harm.

It is stopped after each of its durable effects while another process recovers what it left and goes
on; its clock pauses as well. Whatever it reports, the graph has one schema with all that
belongs to it, its files say so, and it takes writes and further changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import lance
import pytest

from omnigraph import Graph
from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.graph import init_graph
from omnigraph.engine.settings import Settings, make_settings, open_stores
from omnigraph.engine.state.schema_files import FILES, STAGED_FILE, encode_schema_files
from omnigraph.errors import GraphError, Outcome
from omnigraph.model.source import Source
from tests.support.clocks import TTL_S, HandClock, make_locking
from tests.support.graphs import contents, ndjson, node, require_linear
from tests.support.parking import Parking, Stop, stopping
from tests.support.s3_server import S3Server, serve_s3
from tests.support.tiers import sample

SCHEMA = "node Person { name: String @key }\nnode Note { title: String @key  old: I32? }\n"
CHANGED = """node Person { name: String @key }
node Memo @rename_from("Note") { title: String @key  new: I32? }
node Pet { name: String @key }
"""
FOR_GOOD = "node Person { name: String @key }\n"

PATIENCE_S = 120.0
EFFECTS_MAX = 40

# Two turns, a table, a record, a version, a text kept and staged, a publish, three files.
EFFECTS_MIN = 2 + 1 + 1 + 1 + 2 + 1 + 3


@dataclass(frozen=True)
class Place:
    """A graph in a bucket, which any number of processes open."""

    settings: Settings

    def open(self, stop: Stop | None) -> tuple[Graph, HandClock]:
        """The graph as a process of its own has it, and its clock."""
        clock = HandClock()
        settings = replace(self.settings, locking=make_locking(clock))
        stores = open_stores(settings)
        return (
            Graph(
                settings, stopping(stores, stop) if stop else stores, actor=None, is_read_only=False
            ),
            clock,
        )


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """One endpoint for the module."""
    with serve_s3() as running:
        yield running


def make_place(server: S3Server) -> Place:
    """A graph with a person and a note in a bucket of its own."""
    uri = f"s3://{server.create_bucket()}/graph"
    settings = make_settings(uri, storage_options=server.lance_options(), durability="relaxed")
    graph = init_graph(settings, schema=SCHEMA, is_forced=False)
    graph.load(ndjson(node("Person", name="Ann"), node("Note", title="n", old=1)), mode="append")
    return Place(settings)


def recover(place: Place) -> Graph:
    """Wait until the other's time is up, and recover what it left."""
    graph, clock = place.open(None)
    # It has two turns, that of its branch and that of the schema, and each is waited for.
    for _ in range(3):
        graph.refresh()
        clock.sleep(TTL_S)
    return graph


def recover_and_apply(place: Place) -> None:
    """Recover, and then change the schema again."""
    graph = recover(place)
    graph.apply_schema(f"{graph.schema_source}node Late {{ key: String @key }}\n")


def recover_and_write(place: Place) -> None:
    """Recover, and then write to what was being changed."""
    graph = recover(place)
    name = "Memo" if "Memo" in graph.schema_source else "Note"
    if f"node {name}" in graph.schema_source:
        graph.load(ndjson(node(name, title="late")), mode="append")


Action = Callable[[Place], object]
STORIES = {
    "it is recovered and the schema changes again": (recover_and_apply, CHANGED),
    "it is recovered and rows are added": (recover_and_write, CHANGED),
    "a drop is recovered": (recover_and_write, FOR_GOOD),
}


@pytest.mark.parametrize(
    ("action", "schema"), sample(STORIES, representative=(next(iter(STORIES)),))
)
def test_a_schema_change_resumed_without_its_lease_does_no_harm(
    server: S3Server, action: Action, schema: str
) -> None:
    for at in range(1, EFFECTS_MAX):
        place = make_place(server)
        parking = Parking(timeout_s=PATIENCE_S)
        stop = Stop(at=at, is_after=True, stand_still=parking.stand_still)
        outcomes = apply_with_a_stop(place, schema, stop, parking, action)
        try:
            require_harmless(place, schema, outcomes)
        except (AssertionError, GraphError) as error:
            error.add_note(f"{stop}; outcomes: {outcomes}")
            raise
        if stop.hit is None:
            assert at > EFFECTS_MIN - 2, "the sweep went blind"
            return
    raise AssertionError("no end")


def apply_with_a_stop(
    place: Place, schema: str, stop: Stop, parking: Parking, action: Action
) -> Outcome | None:
    """Change the schema, stop, run something else, resume; the reported outcome."""
    outcomes: list[Outcome | None] = []
    graph, _ = place.open(stop)
    graph.head()
    stop.arm()

    def run() -> None:
        try:
            graph.apply_schema(schema, allow_data_loss=True)
        except GraphError as error:
            outcomes.append(error.outcome)
        else:
            outcomes.append(None)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        if parking.has_arrived(thread):
            action(place)
    finally:
        parking.release()
        thread.join()
    return outcomes[0]


def require_harmless(place: Place, schema: str, outcomes: Outcome | None) -> None:
    """Fail unless the graph is whole under one schema, and the reported outcome is true."""
    graph = recover(place)
    source = graph.schema_source.partition("node Late")[0]
    assert source in (SCHEMA, schema)
    match outcomes:
        case None:
            assert source == schema
        case Outcome.UNCHANGED | Outcome.MOVED:
            assert source == SCHEMA
        case Outcome.UNCERTAIN:
            pass
        case Outcome.BROKEN:
            raise AssertionError("nothing is broken")
    found = contents(graph)
    notes = {**found.get("Note", {}), **found.get("Memo", {})}
    assert ("n" in notes) is (source != FOR_GOOD)
    require_sound(graph, place)
    graph.load(ndjson(node("Person", name="Eve")), mode="append")
    graph.apply_schema(f"{graph.schema_source}node Last {{ key: String @key }}\n")
    require_sound(graph, place)


def require_sound(graph: Graph, place: Place) -> None:
    """Fail unless nothing is under way, history names what there is, and the files say so."""
    objects, location = open_stores(place.settings).objects, place.settings.location
    assert objects.list("__recovery").token_by_name == {}
    require_linear(graph.commits())
    for key, table in graph.tables().items():
        opened = lance.dataset(table.path, storage_options=dict(location.storage_options))
        assert opened.latest_version == table.version, f"{key} is ahead of history"
    source = graph.schema_source
    expected = encode_schema_files(source, compile_schema(Source("<schema>", source)))
    stored = {name: objects.find(name) for name in FILES}
    assert {name: each and each.content for name, each in stored.items()} == expected
    assert objects.find(STAGED_FILE) is None
