"""A retrieval may start from the nodes of a query; its receipt reproduces the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.engine.retrieval.results import QueryRequest, Retrieval
from omnigraph.errors import (
    CompileError,
    EmbeddingError,
    InvalidValueError,
    LimitExceededError,
    NotFoundError,
)
from omnigraph.model.limits import FOUND_MAX
from omnigraph.model.types import format_datetime
from tests.support.embedders import Listening, embedding
from tests.support.graphs import build_graph, edge, node
from tests.support.later_graphs import A_DAY_S, open_later
from tests.support.queries import query
from tests.support.restricted_graphs import RED, team_graph
from tests.support.views import see_as_reader

SCHEMA = """
node Author { name: String @key }
node Paper {
  title: String @key
  abstract: String?
  year: I32?
  seen: DateTime?
  topic: Vector(4)? @embed("abstract", model="A")
}
edge Wrote: Author -> Paper { on: Date? }
edge Cites: Paper -> Paper
"""
BY_YEAR = """
query since($year: I32) {
  match { $p: Paper  $p.year >= $year }
  return { $p.title, $p.year }
  order { $p.year desc }
}
"""
BY_WORDS = """
query about($text: String) {
  match { $p: Paper }
  return { bm25($p.abstract, $text) as relevance, $p.title }
  order { bm25($p.abstract, $text) }
  limit 2
}
"""
BY_VECTOR = """
query near($text: String) {
  match { $p: Paper }
  return { $p.title, nearest($p.topic, $text) as distance }
  order { nearest($p.topic, $text) }
  limit 2
}
"""


def library(path: Path) -> Graph:
    """Three papers of three years, and who wrote them."""
    made = Listening("A")

    def topic(text: str) -> list[float]:
        return list(made.embed(text, 4))

    return build_graph(
        path,
        SCHEMA,
        node("Author", name="Ada"),
        node("Author", name="Grace"),
        node("Paper", title="Notes", abstract="engine", year=1843, topic=topic("engine")),
        node("Paper", title="Compilers", abstract="an engine compiles", year=1952),
        node("Paper", title="Weather", abstract="storms", year=1961, topic=topic("storms")),
        edge("Wrote", "Ada", "Notes", on="1843-08-01"),
        edge("Wrote", "Grace", "Compilers"),
        edge("Cites", "Compilers", "Notes"),
    )


def named(found: Retrieval) -> list[tuple[str, str]]:
    """The nodes of a result, in order."""
    return [(each.type, each.id) for each in found.passages]


def test_the_nodes_of_the_rows_are_followed_by_their_neighbours(
    tmp_path: Path,
) -> None:
    graph = library(tmp_path)

    found = graph.retrieve_by(BY_YEAR, {"year": 1900})

    assert named(found) == [
        ("Paper", "Weather"), ("Paper", "Compilers"), ("Paper", "Notes"), ("Author", "Grace"),
    ]  # fmt: skip
    first, second, *near = found.passages
    assert [(each.arm, each.rank, each.score) for each in second.place.arms] == [("since", 2, None)]
    assert first.place.score > second.place.score > 0
    assert [(each.place.score, each.place.arms) for each in near] == [(0, ()), (0, ())]
    assert near[0].place.seed == second.place.node
    assert found.receipt.arms == ("since",)


def test_a_node_of_several_rows_is_returned_once_and_missing_nodes_are_skipped(
    tmp_path: Path,
) -> None:
    graph = library(tmp_path)
    source = """
    query q() {
      match { $p: Paper  optional { $p cites $cited  $a: Author  $a wrote $cited } }
      return { $a.name, $p.title }
      order { $p.title }
    }
    """

    found = graph.retrieve_by(source, hops=0)

    assert named(found) == [("Author", "Ada")]


def test_a_score_that_the_query_returns_is_in_the_receipt(tmp_path: Path) -> None:
    graph = library(tmp_path)

    found = graph.retrieve_by(BY_WORDS, {"text": "engine"}, hops=0)

    rows = graph.query(BY_WORDS, {"text": "engine"}).rows
    scored = [(each.id, each.place.arms[0].score) for each in found.passages]
    assert scored == [(row["p.title"], row["relevance"]) for row in rows]


def test_the_budget_the_hops_and_the_edges_are_those_of_a_search(tmp_path: Path) -> None:
    graph = library(tmp_path)

    far = graph.retrieve_by(BY_YEAR, {"year": 1960}, hops=2)
    over = graph.retrieve_by(BY_YEAR, {"year": 1900}, edges=["wrote"])
    short = graph.retrieve_by(BY_YEAR, {"year": 1900}, budget_tokens=16)
    by_words = graph.retrieve_by(
        BY_YEAR, {"year": 1900}, budget_tokens=9, count_tokens=lambda text: len(text.split())
    )

    assert named(far) == [("Paper", "Weather")]
    assert ("Paper", "Notes") not in named(over)
    assert short.tokens <= 16
    assert short.left_out > 0
    assert by_words.tokens == len(by_words.text.split()) <= 9


# Replays


def replays(graph: Graph, found: Retrieval) -> bool:
    """Whether the receipt, stored as JSON, reproduces the result."""
    return graph.replay(json.loads(json.dumps(found.receipt.to_json()))) == found


def test_a_receipt_replays_to_the_same_result_after_later_writes(tmp_path: Path) -> None:
    graph = library(tmp_path)
    found = graph.retrieve_by(f"{BY_WORDS}{BY_YEAR}", {"year": 1900}, name="since", hops=2)
    graph.mutate(query('update Paper set { year: 1700 } where title = "Weather"'))

    request = found.receipt.request

    assert isinstance(request, QueryRequest)
    assert (request.name, request.params, request.now) == ("since", {"year": 1900}, None)
    assert graph.replay(found.receipt) == found
    assert replays(graph, found)
    assert graph.retrieve_by(BY_YEAR, {"year": 1900}, hops=2) != found


def test_values_of_every_kind_are_recorded_as_json(tmp_path: Path) -> None:
    graph = library(tmp_path)
    source = """
    query q($day: Date, $moment: DateTime?, $names: [String], $v: Vector(4), $least: F64) {
      match { $a: Author  $a $w:wrote $p  $w.on >= $day  $p.title in $names  $p.year >= $least }
      return { $p.title, nearest($p.topic, $v) as distance }
    }
    """
    values = {
        "day": date(1843, 1, 1), "names": ["Notes", "ü"], "v": [0.1, 0, 0, 1], "least": 1.5,
    }  # fmt: skip

    found = graph.retrieve_by(source, values)

    assert named(found)[0] == ("Paper", "Notes")
    assert found.receipt.to_json()["request"] == {
        **found.receipt.to_json()["request"],  # type: ignore[dict-item]  # an object, as checked below
        "params": {
            "day": "1843-01-01",
            "least": 1.5,
            "moment": None,
            "names": ["Notes", "ü"],
            "v": [0.1, 0.0, 0.0, 1.0],
        },
    }
    assert replays(graph, found)
    with pytest.raises(InvalidValueError, match="the format of receipts"):
        graph.retrieve_by(source, {**values, "least": float("nan")})


def test_a_query_of_the_current_time_is_replayed_at_its_time(tmp_path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    graph = build_graph(tmp_path, SCHEMA, node("Paper", title="soon", seen=format_datetime(soon)))
    source = "query q() { match { $p: Paper  $p.seen >= now() } return { $p.title } }"

    found = graph.retrieve_by(source)

    later = open_later(tmp_path, ahead_s=A_DAY_S)
    assert named(found) == [("Paper", "soon")]
    assert named(later.retrieve_by(source)) == []
    assert replays(later, found)


def test_a_text_is_embedded_once_and_a_replay_embeds_nothing(tmp_path: Path) -> None:
    provider = Listening("A")
    graph = embedding(library(tmp_path), provider)

    found = graph.retrieve_by(BY_VECTOR, {"text": "storms"}, hops=0)

    assert provider.requested == ["storms"]
    assert named(found) == [("Paper", "Weather"), ("Paper", "Notes")]
    assert [each.score for each in found.passages[0].place.arms] == [0]
    assert [each.model for each in found.receipt.vectors] == ["A"]
    assert replays(embedding(graph, None), found)
    assert replays(embedding(graph, Listening("B")), found)
    with pytest.raises(EmbeddingError):
        embedding(graph, None).retrieve_by(BY_VECTOR, {"text": "storms"})


@pytest.mark.parametrize(
    "change",
    [
        {"vectors": []},
        {"query_hash": "0" * 64},
        {"request": {"query": BY_YEAR}},
        {"request": {"params": {"text": "engine"}}},
        {"request": {"params": None}},
        {"request": {"params": {"text": b"storms"}}},
        {"request": {"params": {"text": 2**70}}},
        {"request": {"params": {"text": "\ud800"}}},
        {"request": {"params": {"text": [["storms"]]}}},
        {"request": {"params": {"\ud800": "storms"}}},
        {"request": {"name": "other"}},
        {"request": {"query": None}},
        {"request": {"now": "some day"}},
        {"request": {"hops": 2}},
        {"places": []},
    ],
)
def test_a_receipt_that_was_changed_is_refused(
    change: Mapping[str, object], tmp_path: Path
) -> None:
    graph = embedding(library(tmp_path), Listening("A"))
    receipt = graph.retrieve_by(BY_VECTOR, {"text": "storms"}).receipt.to_json()
    request = receipt["request"]
    assert isinstance(request, dict)

    edited = change.get("request")
    changed = {**change, "request": {**request, **edited}} if isinstance(edited, dict) else change

    with pytest.raises(InvalidValueError):
        graph.replay({**receipt, **changed})


# Refusals


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('insert Author { name: "x" }', "a read is needed"),
        ("match { $a: Author  $a $w:wrote $p } return { $w.on, $p.title }", "which is an edge"),
        ("match { $p: Paper } return { $p.year, count($p) as n }", "returns groups, not nodes"),
        ("match { $p: Paper } return { count($p) as n }", "returns groups, not nodes"),
        ('match { $p: Paper } return { bm25($p.abstract, "x") as s }', "no property of a node"),
        ("match { $p: Papr } return { $p.title }", "Paper"),
    ],
)
def test_a_query_that_finds_no_nodes_is_refused_before_it_runs(
    source: str, message: str, tmp_path: Path
) -> None:
    graph = library(tmp_path)

    with pytest.raises(CompileError, match=message) as refused:
        graph.retrieve_by(query(source))

    assert refused.value.diagnostics[0].span is not None


def test_invalid_arguments_are_refused_with_advice(tmp_path: Path) -> None:
    graph = library(tmp_path)

    with pytest.raises(InvalidValueError, match="from 0 to 2"):
        graph.retrieve_by(BY_YEAR, {"year": 1}, hops=3)
    with pytest.raises(InvalidValueError, match="year"):
        graph.retrieve_by(BY_YEAR)
    with pytest.raises(NotFoundError, match="Wrote"):
        graph.retrieve_by(BY_YEAR, {"year": 1}, edges="Writes")
    with pytest.raises(NotFoundError, match="since"):
        graph.retrieve_by(BY_YEAR, {"year": 1}, name="sinc")


def test_more_nodes_than_the_bound_are_refused(tmp_path: Path) -> None:
    papers = [node("Paper", title=f"p{number:04d}") for number in range(FOUND_MAX + 1)]
    graph = build_graph(tmp_path, SCHEMA, *papers)
    source = "query q($n: I64) { match { $p: Paper } return { $p.title } limit $n }"

    with pytest.raises(LimitExceededError, match="limit"):
        graph.retrieve_by(source, {"n": FOUND_MAX + 1})

    assert graph.retrieve_by(source, {"n": FOUND_MAX}).passages[0].id == "p0000"


def test_a_restricted_caller_retrieves_only_visible_rows(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    source = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"

    found = see_as_reader(graph, RED).retrieve_by(source, hops=2)

    assert ("Person", "ann") in named(found)
    assert not {"bob", "dan", "d1"} & set(found.text.replace('"', " ").split())
    with pytest.raises(InvalidValueError, match="see another part"):
        see_as_reader(graph, RED).replay(graph.retrieve_by(source).receipt)
