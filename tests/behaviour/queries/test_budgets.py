"""One call may have a smaller budget than the graph allows, and its caller may stop it."""

import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.read.budget import Allowance, CallLimits
from omnigraph.engine.settings import make_settings
from omnigraph.errors import InvalidValueError, LimitExceededError, Outcome, UnavailableError
from tests.support.graphs import (
    SOCIAL,
    build_graph,
    edge,
    ndjson,
    node,
    rows,
    social_graph,
    unchanged,
)
from tests.support.queries import query

PAIRS = query("match { $p: Person $q: Person } return { $p.name, $q.name }")
WALKS = query("match { $p: Person $p knows $f $f knows $g } return { $p.name, $g.name }")
PEOPLE = 30


def crowd(path: Path, *, clock: Callable[[], float], seconds_max: float = 10.0) -> Graph:
    """Thirty people who all know each other, queried under the given clock."""
    names = [f"p{number:02d}" for number in range(PEOPLE)]
    build_graph(
        path,
        SOCIAL,
        *(node("Person", name=name) for name in names),
        *(edge("Knows", one, other) for one in names for other in names),
    ).close()
    settings = make_settings(path, storage_options=None, durability="relaxed")
    allowance = Allowance(2**30, seconds_max, clock)
    return open_graph(replace(settings, allowance=allowance), actor=None, is_read_only=False)


def stand_still() -> float:
    """No time passes."""
    return 0.0


def test_a_call_may_be_given_less_memory_than_the_graph_allows(tmp_path: Path) -> None:
    graph = crowd(tmp_path, clock=stand_still)
    little = PEOPLE * PEOPLE * 8 - 1

    with pytest.raises(LimitExceededError) as refused:
        graph.query(PAIRS, limits=CallLimits(bytes_max=little))

    assert refused.value.limit == little
    assert len(graph.query(PAIRS)) == PEOPLE * PEOPLE


def test_a_call_may_be_given_less_time_than_the_graph_allows(tmp_path: Path) -> None:
    seconds = itertools.count(0, 0.5)
    graph = crowd(tmp_path, clock=partial(next, seconds), seconds_max=1e6)

    with pytest.raises(LimitExceededError) as refused:
        graph.query(WALKS, limits=CallLimits(seconds_max=1))

    assert refused.value.resource == "the time of a query in seconds"
    assert refused.value.limit == 1
    assert len(graph.query(WALKS)) == PEOPLE**3


def test_a_call_cannot_take_more_than_the_graph_allows(tmp_path: Path) -> None:
    seconds = itertools.count(0, 6)
    graph = crowd(tmp_path, clock=partial(next, seconds), seconds_max=10.0)

    with pytest.raises(LimitExceededError) as refused:
        graph.query(WALKS, limits=CallLimits(seconds_max=1e9, bytes_max=2**60))

    assert refused.value.limit == 10


@pytest.mark.parametrize("spent", [0, -1, math.nan])
def test_limits_that_leave_nothing_are_refused(spent: float) -> None:
    with pytest.raises(InvalidValueError):
        CallLimits(seconds_max=spent)


def test_a_query_that_its_caller_stops_ends(tmp_path: Path) -> None:
    cancelled = threading.Event()
    checks = itertools.count()

    def give_up() -> float:
        if next(checks) == 3:
            cancelled.set()
        return 0.0

    graph = crowd(tmp_path, clock=give_up)

    with unchanged(graph), pytest.raises(UnavailableError) as stopped:
        graph.query(WALKS, limits=CallLimits(cancelled=cancelled))

    assert "stopped it" in str(stopped.value)
    assert stopped.value.outcome is Outcome.UNCHANGED
    assert next(checks) <= 5, "it went on"
    assert len(graph.query(WALKS)) == PEOPLE**3


def test_a_query_that_was_stopped_before_it_began_reads_nothing(tmp_path: Path) -> None:
    graph = crowd(tmp_path, clock=stand_still)
    cancelled = threading.Event()
    cancelled.set()

    with pytest.raises(UnavailableError):
        graph.query(PAIRS, limits=CallLimits(cancelled=cancelled))


# Loads


class StoppedError(Exception):
    """An error that a progress callback of the caller raises."""


def stages_of_load(graph: Graph, **options: str) -> list[str]:
    """The stages that a complete load reports, one for each report."""
    stages: list[str] = []
    graph.load(
        rows_to_load(), mode="merge", progress=lambda stage, *_: stages.append(stage), **options
    )
    return stages


def rows_to_load() -> object:
    """Rows of two types."""
    return ndjson(node("Person", name="Eve"), edge("Knows", "Eve", "Bob"))


@pytest.mark.parametrize("branch", ["main", "new"])
def test_a_load_that_is_stopped_at_any_report_has_written_nothing_and_holds_nothing(
    tmp_path: Path, branch: str
) -> None:
    reports = len(stages_of_load(social_graph(tmp_path / "other"), branch=branch, base="main"))
    graph = social_graph(tmp_path / "graph")

    for last in range(reports):
        left = itertools.count()

        def stop(*_: object, left: "itertools.count[int]" = left, last: int = last) -> None:
            if next(left) == last:
                raise StoppedError

        with unchanged(graph), pytest.raises(StoppedError):
            graph.load(rows_to_load(), mode="merge", branch=branch, base="main", progress=stop)

    assert reports >= 3
    graph.load(rows_to_load(), mode="merge", branch=branch, base="main")
    assert "Eve" in rows(graph, "Person", branch)


def test_a_load_reports_while_it_reads(tmp_path: Path) -> None:
    lines = [f'{{"type":"Person","data":{{"name":"{n:06d}{"x" * 90}"}}}}\n' for n in range(60_000)]
    (tmp_path / "people.jsonl").write_text("".join(lines))
    graph = build_graph(tmp_path / "graph", SOCIAL)
    read: list[int] = []

    def progress(stage: str, done: int, _total: int | None) -> None:
        if stage == "read":
            read.append(done)

    graph.load(tmp_path / "people.jsonl", mode="append", engine="inline", progress=progress)

    assert read == sorted(read)
    assert read[-1] == len(lines)
    assert read[0] < len(lines), "it reported nothing before the end"


def test_cached_data_fit_the_configured_memory_and_change_no_result(tmp_path: Path) -> None:
    crowd(tmp_path, clock=stand_still).close()
    settings = make_settings(tmp_path, storage_options=None, durability="relaxed")
    little = open_graph(replace(settings, cache_bytes_max=16_000), actor=None, is_read_only=True)
    much = open_graph(settings, actor=None, is_read_only=True)

    for text in (PAIRS, WALKS, PAIRS):
        assert little.query(text).rows == much.query(text).rows

    assert little.stats().bytes <= little.stats().bytes_max == 16_000
    assert little.stats().evictions > 0
    assert much.stats().bytes_by_kind.keys() == {"adjacency", "columns", "edges", "ids"}
    assert (much.stats().evictions, much.stats().hits > 0) == (0, True)
