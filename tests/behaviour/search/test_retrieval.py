"""A retrieval of a text fits a prompt, and its receipt reproduces the result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph import CallLimits, Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.retrieval.results import NodeName, Retrieval
from omnigraph.engine.settings import make_settings
from omnigraph.errors import (
    EmbeddingError,
    InvalidValueError,
    LimitExceededError,
    NotFoundError,
)
from omnigraph.model.limits import NEIGHBOURS_MAX, REACHED_MAX
from omnigraph.model.ports import Event, Phase, TypeView
from tests.support.embedders import Listening, embedding
from tests.support.graphs import build_graph, edge, ndjson, node
from tests.support.later_graphs import clean_later
from tests.support.queries import query
from tests.support.restricted_graphs import RED, team_graph
from tests.support.retrieval_oracle import SCHEMA, Expected, RetrievalInput, expected_retrieval
from tests.support.views import TypeViews, see_as_reader

EXAMPLES_MAX = 25
EMBEDDED = """
node Memo { head: String @key  note: String?  emb: Vector(4)? @embed("note", model="A") }
node Tag { name: String @key  place: Vector(4)? }
edge Marks: Tag -> Memo
"""


def library(path: Path) -> Graph:
    """Three papers about engines and storms, and who wrote them."""
    return build_graph(
        path,
        SCHEMA,
        node("Author", name="Ada"),
        node("Author", name="Grace", about="admiral"),
        node("Paper", title="Notes", abstract="the engine and its numbers", topic=[0, 1]),
        node("Paper", title="Compilers", abstract="an engine compiles\nprograms", topic=[1, 0]),
        node("Paper", title="Weather", abstract="storms", year=1961),
        edge("Wrote", "Ada", "Notes"),
        edge("Wrote", "Grace", "Compilers"),
        edge("Cites", "Weather", "Compilers"),
        edge("Cites", "Compilers", "Notes"),
    )


def named(found: Retrieval) -> list[tuple[str, str]]:
    """The nodes of a result, in order."""
    return [(each.type, each.id) for each in found.passages]


def test_the_best_nodes_are_followed_by_their_neighbours_with_paths(
    tmp_path: Path,
) -> None:
    graph = library(tmp_path)

    found = graph.retrieve("numbers of an engine", k=2)

    assert found.text == (
        'Paper "Notes"\n'
        "  abstract: the engine and its numbers\n"
        "  title: Notes\n"
        "\n"
        'Paper "Compilers"\n'
        "  abstract: an engine compiles\n"
        "    programs\n"
        "  title: Compilers\n"
        "\n"
        'Author "Ada" (Paper "Notes" <-Wrote- Author "Ada")\n'
        "  name: Ada\n"
        "\n"
        'Paper "Weather" (Paper "Compilers" <-Cites- Paper "Weather")\n'
        "  abstract: storms\n"
        "  title: Weather\n"
        "  year: 1961\n"
        "\n"
        'Author "Grace" (Paper "Compilers" <-Wrote- Author "Grace")\n'
        "  about: admiral\n"
        "  name: Grace"
    )
    assert found.tokens == -(-len(found.text) // 4)
    assert [each.rank for each in found.passages] == [1, 2, 3, 4, 5]
    assert found.receipt.commit_id == graph.head()


def test_zero_hops_add_no_neighbours_and_two_hops_add_more(tmp_path: Path) -> None:
    graph = library(tmp_path)

    none, two = (graph.retrieve("numbers", k=1, hops=hops) for hops in (0, 2))

    assert named(none) == [("Paper", "Notes")]
    assert named(two)[-2:] == [("Paper", "Weather"), ("Author", "Grace")]
    (first, second) = two.passages[-1].place.path
    assert (first.edge, first.direction, first.node) == (
        "Cites",
        "in",
        NodeName("Paper", "Compilers"),
    )
    assert (second.edge, second.direction) == ("Wrote", "in")
    assert two.passages[-1].place.seed == NodeName("Paper", "Notes")


def test_only_the_named_types_are_searched_and_only_the_named_edges_followed(
    tmp_path: Path,
) -> None:
    graph = library(tmp_path)

    by_type = graph.retrieve("Ada numbers", types="Author", hops=0)
    by_edge = graph.retrieve("numbers", edges=["wrote"], hops=2)

    assert named(by_type) == [("Author", "Ada")]
    assert named(by_edge) == [("Paper", "Notes"), ("Author", "Ada")]


def test_words_and_vectors_are_fused_as_a_query_fuses_them(tmp_path: Path) -> None:
    graph = library(tmp_path)
    both = (
        "query q($text: String, $v: Vector(2)) { match { $p: Paper } "
        "return { $p as id, rrf(nearest($p.topic, $v), bm25($p.abstract, $text)) as score } "
        "order { score } limit 9 }"
    )

    found = graph.retrieve("engine", vector=[1, 0], types=["Paper"], hops=0)

    fused = graph.query(both, {"text": "engine", "v": [1, 0]}).rows
    assert [{"id": each.id, "score": each.place.score} for each in found.passages] == fused
    assert found.receipt.arms == (
        "bm25(Paper.abstract)", "bm25(Paper.body)", "nearest(Paper.topic)",
    )  # fmt: skip


def test_a_weight_of_nothing_leaves_words_or_vectors_out(tmp_path: Path) -> None:
    graph = library(tmp_path)

    words = graph.retrieve("numbers", hops=0, vector_weight=0)
    vectors = graph.retrieve("numbers", hops=0, vector=[1, 0], word_weight=0)

    assert named(words) == [("Paper", "Notes")]
    assert named(vectors) == [("Paper", "Compilers"), ("Paper", "Notes")]


def test_a_value_cannot_pass_for_another_passage(tmp_path: Path) -> None:
    forged = 'storm\nPaper "Truth"\r  title: Truth\u2028'
    graph = build_graph(tmp_path, SCHEMA, node("Paper", title="x\ny", body=forged))

    found = graph.retrieve("storm")

    assert found.text.splitlines() == [
        'Paper "x\\ny"',
        "  body: storm",
        '    Paper "Truth"',
        "      title: Truth",
        "  title: x",
        "    y",
    ]


# Budget


def test_a_passage_beyond_the_budget_is_replaced_by_a_shorter_one(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        SCHEMA,
        node("Paper", title="a", body="fox fox"),
        node("Paper", title="b", body="fox " + "and many other words " * 20),
        node("Paper", title="c", body="no such thing"),
        edge("Cites", "a", "c"),
    )

    found = graph.retrieve("fox", budget_tokens=40)

    assert named(found) == [("Paper", "a"), ("Paper", "c")]
    assert [each.rank for each in found.passages] == [1, 3]
    assert (found.left_out, found.receipt.left_out) == (1, 1)


def test_only_the_first_passage_is_cut_and_only_if_it_alone_is_too_long(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SCHEMA, node("Paper", title="a", body="fox " * 99))

    found = graph.retrieve("fox", budget_tokens=8)

    (passage,) = found.passages
    assert passage.place.is_cut
    assert found.text == passage.text == 'Paper "a"\n  body: fox fox fox…'
    assert found.tokens == 8
    assert graph.replay(found.receipt) == found
    assert graph.retrieve("fox", budget_tokens=5, count_tokens=lambda _text: 6).text == ""


def test_a_caller_may_pass_a_token_counter(tmp_path: Path) -> None:
    graph = library(tmp_path)

    def count_words(text: str) -> int:
        return len(text.split())

    found = graph.retrieve("engine", budget_tokens=12, count_tokens=count_words)

    assert 0 < found.tokens == count_words(found.text) <= 12
    assert graph.replay(found.receipt, count_tokens=count_words) == found
    with pytest.raises(InvalidValueError, match="give it again"):
        graph.replay(found.receipt)
    with pytest.raises(InvalidValueError, match="not a number of tokens"):
        graph.retrieve("engine", count_tokens=lambda _text: -1)


def test_a_hub_does_not_push_out_the_neighbours_of_others(tmp_path: Path) -> None:
    many = [f"n{number:03d}" for number in range(2 * NEIGHBOURS_MAX)]
    graph = build_graph(
        tmp_path,
        SCHEMA,
        node("Paper", title="hub", abstract="fox fox"),
        node("Paper", title="lone", abstract="a fox"),
        node("Paper", title="near", abstract="cat"),
        *(node("Paper", title=each, abstract="cat") for each in many),
        *(edge("Cites", "hub", each) for each in many),
        edge("Cites", "lone", "near"),
    )

    found = graph.retrieve("fox", budget_tokens=100_000)

    assert [id for _, id in named(found)[:4]] == ["hub", "lone", "n000", "near"]
    assert len(found.passages) == 3 + NEIGHBOURS_MAX
    assert NEIGHBOURS_MAX < REACHED_MAX


def test_neighbours_that_the_search_also_found_are_ranked_first(tmp_path: Path) -> None:
    many = [f"n{number:03d}" for number in range(2 * NEIGHBOURS_MAX)]
    last = many[-1]
    graph = build_graph(
        tmp_path,
        SCHEMA,
        node("Paper", title="hub", abstract="fox fox"),
        *(node("Paper", title=each, abstract="fox" if each == last else "cat") for each in many),
        *(edge("Cites", "hub", each) for each in many),
    )

    found = graph.retrieve("fox", types=["Paper"], k=1, budget_tokens=100_000)

    assert [id for _, id in named(found)[:3]] == ["hub", last, "n000"]
    near = found.passages[1].place
    assert (near.score > 0, [each.rank for each in near.arms], len(near.path)) == (True, [2], 1)
    assert len(found.passages) == 1 + 1 + NEIGHBOURS_MAX


# Replays


def test_a_receipt_replays_to_the_same_result_after_later_writes(tmp_path: Path) -> None:
    graph = library(tmp_path)
    found = graph.retrieve("engine", vector=[1, 0], hops=2)
    graph.mutate(query('update Paper set { abstract: "no more" } where title = "Notes"'))
    graph.mutate(query('delete Author where name = "Ada"'))

    stored = json.loads(json.dumps(found.receipt.to_json()))

    assert graph.replay(found.receipt) == found
    assert graph.replay(stored) == found
    assert graph.retrieve("engine", vector=[1, 0], hops=2) != found


def test_a_commit_or_a_tag_is_retrieved_from_like_a_branch(tmp_path: Path) -> None:
    graph = library(tmp_path)
    graph.tag("v1", graph.head())
    found = graph.retrieve("engine")
    graph.mutate(query('delete Paper where title = "Notes"'))

    assert graph.retrieve("engine", commit="v1") == found
    assert graph.retrieve("engine", commit=found.receipt.commit_id) == found


def test_a_receipt_of_a_commit_that_was_cleaned_up_is_refused(tmp_path: Path) -> None:
    graph = library(tmp_path)
    found = graph.retrieve("engine")
    graph.mutate(query('update Paper set { abstract: "no more" } where title = "Notes"'))
    clean_later(graph)

    with pytest.raises(NotFoundError, match="cleaned up"):
        embedding(graph, None).replay(found.receipt)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"commit_id": None},
        {"query_hash": "0" * 64},
        {"text_hash": "0" * 64},
        {"tokens": 1},
        {"places": []},
        {"request": {}},
        {"vectors": [1]},
        {"vectors": [{"model": "\ud800", "text_hash": None, "numbers": [1]}]},
        {"vectors": [{"model": "A", "text_hash": 5, "numbers": [1]}]},
        {"more": 1},
    ],
)
def test_a_receipt_that_was_changed_is_refused(
    change: Mapping[str, object], tmp_path: Path
) -> None:
    graph = library(tmp_path)
    receipt = graph.retrieve("engine").receipt.to_json()

    with pytest.raises(InvalidValueError):
        graph.replay({**receipt, **change})


def test_indexes_and_compaction_change_no_byte_of_a_result(tmp_path: Path) -> None:
    graph = library(tmp_path)
    graph.load(ndjson(node("Paper", title="More", body="another engine")), mode="append")
    found = graph.retrieve("engine", vector=[1, 0], hops=2)

    graph.ensure_indices()
    graph.optimize()

    again = graph.retrieve("engine", vector=[1, 0], hops=2)
    assert again.text == found.text
    assert again.receipt.places == found.receipt.places
    assert graph.replay(found.receipt) == found


# Vectors


def memos(path: Path) -> Graph:
    """Two memos with the vectors of their notes, one without, and a tag with one of its own."""
    made = Listening("A")
    return build_graph(
        path,
        EMBEDDED,
        node("Memo", head="m1", note="red fox", emb=list(made.embed("red fox", 4))),
        node("Memo", head="m2", note="grey wolf", emb=list(made.embed("grey wolf", 4))),
        node("Memo", head="m3", note="none"),
        node("Tag", name="t", place=[0, 0, 0, 1]),
    )


def test_a_text_is_embedded_once_and_a_replay_embeds_nothing(tmp_path: Path) -> None:
    provider = Listening("A")
    graph = embedding(memos(tmp_path), provider)

    found = graph.retrieve("grey wolf")

    assert provider.requested == ["grey wolf"]
    assert named(found)[0] == ("Memo", "m2")
    assert found.receipt.arms[-1] == "nearest(Memo.emb)"
    assert [each.model for each in found.receipt.vectors] == ["A"]
    assert embedding(graph, None).replay(found.receipt.to_json()) == found
    assert embedding(graph, Listening("B")).replay(found.receipt) == found
    assert provider.requested == ["grey wolf"]


def test_a_search_without_a_text_vector_is_refused(tmp_path: Path) -> None:
    graph = memos(tmp_path)

    with pytest.raises(EmbeddingError, match="vector_weight=0"):
        embedding(graph, None).retrieve("wolf")
    with pytest.raises(InvalidValueError, match="'A'"):
        embedding(graph, Listening("B")).retrieve("wolf")

    assert named(embedding(graph, None).retrieve("wolf", vector_weight=0)) == [("Memo", "m2")]


def test_a_given_vector_is_compared_with_all_of_its_length(tmp_path: Path) -> None:
    graph = embedding(memos(tmp_path), None)

    found = graph.retrieve("nothing", vector=[0, 0, 0, 1], hops=0)

    assert {type for type, _ in named(found)} == {"Memo", "Tag"}
    assert found.receipt.vectors[0].numbers == (0.0, 0.0, 0.0, 1.0)


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"types": ["Papr"]}, "Paper"),
        ({"types": ["Cites"]}, "edge type"),
        ({"types": []}, "at least one"),
        ({"edges": ["Writes"]}, "Wrote"),
        ({"hops": 3}, "from 0 to 2"),
        ({"k": 0}, "from 1"),
        ({"k": True}, "from 1"),
        ({"k": 10**5000}, "from 1"),
        ({"word_weight": 10**400}, "from 0"),
        ({"budget_tokens": 0}, "from 1"),
        ({"vector": [1, 2, 3]}, "3 numbers"),
        ({"vector": [1, float("nan")]}, "not a finite 32-bit number"),
        ({"vector": "ab"}, "a list of numbers"),
        ({"vector": [1, 0], "vector_weight": 0}, "omit it"),
        ({"word_weight": -1}, "from 0"),
        ({"word_weight": 0, "vector_weight": 0}, "nothing is searched"),
        ({"word_weight": 0}, "no property to search"),
        ({"types": "Author", "word_weight": 0, "vector": [1, 0]}, "has vectors of 2"),
    ],
)
def test_invalid_arguments_are_refused_with_advice(
    arguments: Mapping[str, object], message: str, tmp_path: Path
) -> None:
    graph = library(tmp_path)

    with pytest.raises((InvalidValueError, NotFoundError), match=message):
        graph.retrieve("x", **arguments)  # type: ignore[arg-type]  # what callers without types do


def test_a_type_with_nothing_to_search_is_refused_and_can_be_reached(tmp_path: Path) -> None:
    schema = """
    node Place { x: I32 @key }
    node Person { name: String @key }
    edge At: Person -> Place
    """
    graph = build_graph(
        tmp_path, schema, node("Place", x=1), node("Person", name="Ann"), edge("At", "Ann", "1")
    )

    with pytest.raises(InvalidValueError, match=r"Place has no property.*over its edges"):
        graph.retrieve("1", types=["Place"])

    assert named(graph.retrieve("ann")) == [("Person", "Ann"), ("Place", "1")]


def test_a_text_without_matches_finds_nothing(tmp_path: Path) -> None:
    graph = library(tmp_path)

    found = graph.retrieve("zebra")

    assert (found.passages, found.text, found.tokens) == ((), "", 0)
    assert graph.replay(found.receipt) == found


def test_all_reads_of_a_retrieval_share_the_time_of_one(tmp_path: Path) -> None:
    graph = library(tmp_path)

    with pytest.raises(LimitExceededError, match="time of a"):
        graph.retrieve("engine", limits=CallLimits(seconds_max=1e-6))


class RunCounter:
    """Counts the reads that a graph runs."""

    def __init__(self) -> None:
        self.runs = 0

    def count(self, event: Event) -> None:
        """Not used."""

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """One more, if it is a read."""
        self.runs += phase is Phase.RUN
        return nullcontext()


@pytest.mark.parametrize("size", [1, 60])
def test_the_number_of_reads_depends_on_the_schema_and_not_on_the_rows(
    size: int, tmp_path: Path
) -> None:
    papers = [f"p{number:03d}" for number in range(size)]
    build_graph(
        tmp_path,
        SCHEMA,
        node("Author", name="fox"),
        *(node("Paper", title=each, abstract="fox", topic=[1, 0]) for each in papers),
        *(edge("Wrote", "fox", each) for each in papers),
        *(edge("Cites", papers[0], each) for each in papers),
    )
    counter = RunCounter()
    plain = make_settings(str(tmp_path), storage_options=None, durability="relaxed")
    watched = open_graph(replace(plain, observer=counter), actor=None, is_read_only=False)

    found = watched.retrieve("fox", vector=[1, 0], hops=2, k=size, budget_tokens=100_000)

    assert len(found.passages) == 1 + size
    arms, edge_ends, types = 5, 4, 2
    assert arms + types < counter.runs <= arms + 2 * edge_ends + types


# Restricted callers


def test_a_hidden_row_is_in_no_passage_and_on_no_path(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    found = restricted.retrieve("fox", types=["Person"], hops=2)

    assert named(found) == [("Person", "ann")]
    assert found.left_out == 0
    assert not {"bob", "dan", "d1"} & set(found.text.replace('"', " ").split())


def test_a_hidden_property_is_neither_searched_nor_shown(tmp_path: Path) -> None:
    hiding: TypeViews = {"Person": TypeView(None, frozenset({"bio", "pay"}))}
    restricted = see_as_reader(team_graph(tmp_path), hiding)

    assert named(restricted.retrieve("fox")) == []
    assert "pay" not in restricted.retrieve("ann").text


def test_a_score_reveals_nothing_of_hidden_rows(tmp_path: Path) -> None:
    whole = team_graph(tmp_path / "whole")
    part = build_graph(
        tmp_path / "part",
        whole.schema_source,
        node("Person", name="ann", team="red", pay=10, bio="fox"),
        node("Person", name="cat", team="red", pay=30, bio="a red dog and a cat"),
    )

    found = see_as_reader(whole, RED).retrieve("fox", types="Person", hops=0)

    assert found.receipt.places == part.retrieve("fox", types="Person", hops=0).receipt.places


def test_a_restricted_caller_cannot_replay_the_receipt_of_another(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    found = graph.retrieve("fox")

    with pytest.raises(InvalidValueError, match="see another part") as refused:
        see_as_reader(graph, RED).replay(found.receipt)

    assert "bob" not in str(refused.value)


# Generated graphs

WORDS = ("fox", "wolf", "engine", "storm", "red")
TEXT = st.none() | st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
NUMBER = st.sampled_from([0.0, 0.5, 1.0])
VECTOR = st.tuples(NUMBER, NUMBER)
PAPERS = tuple(f"p{number}" for number in range(6))
AUTHORS = ("Änne", "Bo", "fox")
RECORDS = st.fixed_dictionaries(
    {
        "papers": st.lists(
            st.tuples(st.sampled_from(PAPERS), TEXT, TEXT, st.none() | VECTOR),
            unique_by=lambda each: each[0],
            min_size=1,
        ),
        "authors": st.lists(
            st.tuples(st.sampled_from(AUTHORS), TEXT), unique_by=lambda each: each[0]
        ),
        "cites": st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8),
        "wrote": st.sets(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=6),
    }
)
REQUESTS = st.builds(
    RetrievalInput,
    text=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    vector=st.none() | VECTOR,
    hops=st.integers(0, 2),
    k=st.integers(1, 5),
    budget=st.integers(1, 120),
    weights=st.sampled_from([(1.0, 1.0), (2.0, 0.5), (1.0, 3.0)]),
)


def generated_graph(path: Path, records: Mapping[str, Sequence[tuple[object, ...]]]) -> Graph:
    """A graph of generated papers and authors, with the edges whose ends are there."""
    papers = [
        node("Paper", title=title, abstract=abstract, body=body, topic=topic)
        for title, abstract, body, topic in records["papers"]
    ]
    authors = [node("Author", name=name, about=about) for name, about in records["authors"]]
    there = {each[0] for each in (*records["papers"], *records["authors"])}
    ends = [("Cites", PAPERS, each) for each in sorted(records["cites"], key=str)]
    ends += [("Wrote", AUTHORS, each) for each in sorted(records["wrote"], key=str)]
    edges = []
    for name, sources, (source, target) in ends:
        assert isinstance(source, int)
        assert isinstance(target, int)
        if {sources[source], PAPERS[target]} <= there:
            edges.append(edge(name, sources[source], PAPERS[target]))
    return build_graph(path, SCHEMA, *papers, *authors, *edges)


def retrieve(graph: Graph, request: RetrievalInput, *, branch: str = "main") -> Retrieval:
    """The result of the graph for a request that the oracle gets too."""
    has_vectors = request.vector is not None
    return graph.retrieve(
        request.text,
        hops=request.hops,
        k=request.k,
        budget_tokens=request.budget,
        branch=branch,
        vector=request.vector,
        word_weight=request.weights[0],
        vector_weight=request.weights[1] if has_vectors else 1.0,
    )


def summary(found: Retrieval) -> Expected:
    """A result, as plain values."""
    nodes = [
        (
            (each.type, each.id),
            tuple(
                (step.edge, step.direction, (step.node.type, step.node.id))
                for step in each.place.path
            ),
        )
        for each in found.passages
    ]
    return Expected(nodes, found.text, found.left_out)


@given(records=RECORDS, questions=st.lists(REQUESTS, min_size=1, max_size=6))
@settings(max_examples=EXAMPLES_MAX)
def test_results_are_those_of_plain_python_within_the_budget_and_replay_exactly(
    records: Mapping[str, Sequence[tuple[object, ...]]], questions: Sequence[RetrievalInput]
) -> None:
    with TemporaryDirectory() as folder, generated_graph(Path(folder, "g"), records) as graph:
        graph.create_branch("twin")
        for request in questions:
            found = retrieve(graph, request)

            assert summary(found) == expected_retrieval(graph, request)
            assert found.tokens <= request.budget
            assert len(found.text.encode()) <= 4 * request.budget
            assert graph.replay(json.loads(json.dumps(found.receipt.to_json()))) == found
            twin = retrieve(graph, request, branch="twin")
            assert (twin.text, twin.receipt.places) == (found.text, found.receipt.places)
