"""Prepared queries: compiled once, called often, and never under a schema that has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph import CallLimits, Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.settings import make_settings
from omnigraph.errors import (
    CompileError,
    ForbiddenError,
    InvalidValueError,
    LimitExceededError,
    NotFoundError,
)
from omnigraph.model.ports import Event, Phase
from tests.support.graphs import build_graph, ndjson, node
from tests.support.queries import query

SCHEMA = "node Note { tag: String @key  rank: I32? }"
RANK_OF = query(
    "match { $n: Note { tag: $tag } } return { $n.rank as rank }", parameters="$tag: String"
)


def notes(path: Path, **rank_by_tag: int) -> Graph:
    """A graph of ranked notes."""
    return build_graph(
        path, SCHEMA, *(node("Note", tag=tag, rank=rank) for tag, rank in rank_by_tag.items())
    )


class CountingObserver:
    """Counts events."""

    def __init__(self) -> None:
        self.counts: Counter[Event] = Counter()

    def count(self, event: Event) -> None:
        self.counts[event] += 1

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        del phase
        return nullcontext()


# Calls


def test_a_prepared_query_returns_what_the_query_returns(tmp_path: Path) -> None:
    graph = notes(tmp_path, a=1, b=2)

    rank_of = graph.prepare(RANK_OF)

    for tag in ("a", "b", "none"):
        expected = graph.query(RANK_OF, {"tag": tag})
        assert rank_of(tag=tag).rows == expected.rows
        assert rank_of({"tag": tag}).rows == expected.rows
        assert rank_of(tag=tag).commit_id == expected.commit_id


def test_a_prepared_query_describes_its_parameters(tmp_path: Path) -> None:
    rank_of = notes(tmp_path).prepare(RANK_OF)

    assert (rank_of.name, [each.name for each in rank_of.parameters]) == ("q", ["tag"])
    assert repr(rank_of) == "PreparedQuery(q($tag: String))"


def test_a_prepared_query_reads_the_current_state_of_its_branch(tmp_path: Path) -> None:
    graph = notes(tmp_path, a=1)
    rank_of, before = graph.prepare(RANK_OF), graph.head()
    graph.create_branch("side")
    graph.load(ndjson(node("Note", tag="a", rank=2)), mode="merge", branch="side")
    graph.load(ndjson(node("Note", tag="a", rank=3)), mode="merge")

    found = [rank_of(tag="a"), rank_of(tag="a", branch="side"), rank_of(tag="a", commit=before)]

    assert [each.rows for each in found] == [[{"rank": 3}], [{"rank": 2}], [{"rank": 1}]]


def test_a_parameter_with_the_name_of_an_option_is_given_in_the_mapping(tmp_path: Path) -> None:
    graph = notes(tmp_path, a=1)
    text = query(
        "match { $n: Note { tag: $branch } } return { $n.rank as rank }",
        parameters="$branch: String",
    )

    assert graph.prepare(text)({"branch": "a"}, branch="main").rows == [{"rank": 1}]


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "not provided"),
        ({"tag": 3}, "a string is needed"),
        ({"tag": "a", "tga": "b"}, "no such parameter"),
    ],
)
def test_the_parameters_of_every_call_are_checked(
    tmp_path: Path, params: Mapping[str, object], problem: str
) -> None:
    rank_of = notes(tmp_path, a=1).prepare(RANK_OF)

    with pytest.raises(InvalidValueError, match=problem):
        rank_of(**params)  # type: ignore[arg-type]  # not what the query declares


def test_a_parameter_is_given_once(tmp_path: Path) -> None:
    rank_of = notes(tmp_path, a=1).prepare(RANK_OF)

    with pytest.raises(InvalidValueError, match="by keyword and in `params`"):
        rank_of({"tag": "a"}, tag="b")


def test_a_call_of_a_prepared_query_has_limits(tmp_path: Path) -> None:
    pairs = notes(tmp_path, a=1, b=2).prepare(
        query("match { $m: Note $n: Note } return { $m.tag, $n.tag as other }")
    )

    with pytest.raises(LimitExceededError):
        pairs(limits=CallLimits(bytes_max=1))


def test_only_a_read_that_compiles_is_prepared(tmp_path: Path) -> None:
    graph = notes(tmp_path)

    with pytest.raises(CompileError):
        graph.prepare('query q() { insert Note { tag: "b" } }')
    with pytest.raises(CompileError):
        graph.prepare(query("match { $n: Note } return { $n.rnk }"))
    with pytest.raises(NotFoundError):
        graph.prepare(RANK_OF, name="other")


def test_a_prepared_query_ends_with_its_graph(tmp_path: Path) -> None:
    graph = notes(tmp_path, a=1)
    rank_of = graph.prepare(RANK_OF)

    graph.close()

    with pytest.raises(ForbiddenError):
        rank_of(tag="a")


def test_threads_share_a_prepared_query(tmp_path: Path) -> None:
    ranks = {f"n{number}": number for number in range(20)}
    rank_of = notes(tmp_path, **ranks).prepare(RANK_OF)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda tag: rank_of(tag=tag).rows, list(ranks) * 5))

    assert found == [[{"rank": rank}] for rank in ranks.values()] * 5


# Compilation


def test_a_prepared_query_is_compiled_once(tmp_path: Path) -> None:
    notes(tmp_path, a=1).close()
    observer = CountingObserver()
    settings = make_settings(tmp_path, storage_options=None, durability="relaxed")
    graph = open_graph(replace(settings, observer=observer), actor=None, is_read_only=True)

    rank_of = graph.prepare(RANK_OF)
    for _ in range(5):
        rank_of(tag="a")

    assert (observer.counts[Event.COMPILED_MISS], observer.counts[Event.COMPILED_HIT]) == (1, 0)


def test_a_prepared_query_follows_the_schema(tmp_path: Path) -> None:
    graph = notes(tmp_path, a=1)
    rank_of, before = graph.prepare(RANK_OF), graph.head()
    assert rank_of(tag="a").rows == [{"rank": 1}]

    with omnigraph.open(tmp_path) as other:
        other.apply_schema('node Note { tag: String @key  level: I32? @rename_from("rank") }')
    with pytest.raises(CompileError, match="rank"):
        rank_of(tag="a")
    graph.apply_schema("node Note { tag: String @key  level: I32?  rank: String? }")
    graph.load(ndjson(node("Note", tag="a", level=1, rank="first")), mode="merge")

    assert rank_of(tag="a").rows == [{"rank": "first"}]
    assert rank_of(tag="a", commit=before).rows == [{"rank": 1}]
    assert rank_of(tag="a").rows == [{"rank": "first"}]
