"""A load of several types writes their files at the same time, up to a bound."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores, parse_load_concurrency
from omnigraph.errors import InvalidValueError, UnavailableError
from omnigraph.model.limits import (
    LOAD_CONCURRENCY_MAX,
    LOAD_CONCURRENCY_USUAL_MAX,
    STAGED_TOGETHER_BYTES_MIN,
)
from omnigraph.storage.ports import StagedWrite, Stores, TableStore, TableVersion
from tests.support.crashing import CrashingTables, Fault, Scope, When
from tests.support.graphs import ndjson, node, rows, unchanged

NAMES = ("A", "B", "C", "D")
SCHEMA = "\n".join(f"node {name} {{ k: String @key  text: String? }}" for name in NAMES)
TEXT = "x" * (STAGED_TOGETHER_BYTES_MIN // len(NAMES))
WAIT_S = 10.0

Watch = Callable[[str], object]
"""Called with the id of the row that is about to be written."""


class WatchedTables(CrashingTables):
    """A table store in which a test synchronizes with staged appends."""

    def __init__(self, tables: TableStore, watch: Watch) -> None:
        super().__init__(tables, Fault(at=0, when=When.BEFORE, scope=Scope.EFFECTS))

        def stage_append(rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
            watch(rows["id"][0].as_py())
            return tables.stage_append(rows, onto=onto)

        self.stage_append = stage_append


def open_watched(root: Path, watch: Watch, *, concurrency: int) -> Graph:
    """A new graph of four types, whose loads a test observes."""
    omnigraph.init(root, SCHEMA, durability="relaxed").close()
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    stores = open_stores(settings)
    watched = Stores(objects=stores.objects, tables=WatchedTables(stores.tables, watch))
    settings = replace(settings, load_concurrency=concurrency)
    return Graph(settings, watched, actor=None, is_read_only=False)


def load_all(graph: Graph, text: str = TEXT) -> None:
    records = [node(name, k=name.lower(), text=text) for name in NAMES]
    graph.load(ndjson(*records), mode="append")


def test_types_of_a_load_are_written_at_the_same_time(tmp_path: Path) -> None:
    together = threading.Barrier(len(NAMES), timeout=WAIT_S)
    graph = open_watched(tmp_path, lambda _: together.wait(), concurrency=len(NAMES))

    load_all(graph)

    assert [list(rows(graph, name)) for name in NAMES] == [["a"], ["b"], ["c"], ["d"]]
    assert len(graph.commits()) == 2


@pytest.mark.parametrize("concurrency", [1, 2])
def test_no_more_types_are_written_at_a_time_than_the_bound(
    tmp_path: Path, concurrency: int
) -> None:
    lock, free = threading.Lock(), threading.Semaphore(concurrency)
    seen: list[str] = []

    def watch(id: str) -> None:
        assert free.acquire(blocking=False), "more than the bound are written at a time"
        try:
            with lock:
                seen.append(id)
            threading.Event().wait(0.05)
        finally:
            free.release()

    load_all(open_watched(tmp_path, watch, concurrency=concurrency))

    assert sorted(seen) == ["a", "b", "c", "d"]
    assert concurrency > 1 or seen == ["a", "b", "c", "d"]


def test_of_several_types_that_cannot_be_written_the_first_is_reported(tmp_path: Path) -> None:
    has_failed = threading.Event()

    def watch(id: str) -> None:
        if id == "b":
            assert has_failed.wait(WAIT_S)
        if id in ("b", "c"):
            has_failed.set()
            raise UnavailableError(action=f"write {id}", reason="the disk is full")

    graph = open_watched(tmp_path, watch, concurrency=len(NAMES))

    with unchanged(graph), pytest.raises(UnavailableError, match="write b"):
        load_all(graph)

    assert [list(rows(graph, name)) for name in NAMES] == [[], [], [], []]


def test_only_a_load_writes_types_at_the_same_time(tmp_path: Path) -> None:
    threads: set[int] = set()
    graph = open_watched(
        tmp_path, lambda _: threads.add(threading.get_ident()), concurrency=len(NAMES)
    )

    graph.mutate(
        'query m($t: String) { insert A { k: "x", text: $t } insert B { k: "y", text: $t } }',
        {"t": TEXT * 2},
    )

    assert threads == {threading.get_ident()}


def test_a_small_load_writes_one_type_after_the_other(tmp_path: Path) -> None:
    threads: set[int] = set()
    graph = open_watched(
        tmp_path, lambda _: threads.add(threading.get_ident()), concurrency=len(NAMES)
    )

    load_all(graph, text="short")

    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "65", "9" * 5000])
def test_a_bound_that_is_not_a_sensible_number_is_refused(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_LOAD_CONCURRENCY", text)

    with pytest.raises(InvalidValueError, match=f"from 1 to {LOAD_CONCURRENCY_MAX}"):
        omnigraph.init(tmp_path / "graph", SCHEMA)

    assert not (tmp_path / "graph").exists()


def test_without_a_bound_there_are_as_many_threads_as_processors_up_to_eight() -> None:
    assert 1 <= parse_load_concurrency({}) <= LOAD_CONCURRENCY_USUAL_MAX == 8
    assert parse_load_concurrency({"OMNIGRAPH_LOAD_CONCURRENCY": " 3 "}) == 3
    assert parse_load_concurrency({"OMNIGRAPH_LOAD_CONCURRENCY": ""}) == parse_load_concurrency({})
