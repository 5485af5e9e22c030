"""Whatever a graph is asked, it answers alike: opened by its uri, and through a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from omnigraph.client.calls import GraphCalls
from omnigraph.engine.changes import ChangeSet
from omnigraph.engine.results import Result
from tests.support.both_graphs import (
    ADD_THING,
    ALL_THINGS,
    EVERYTHING,
    FIND_THING,
    NAMES,
    PICTURE,
    SET_BIG,
    SET_SMALL,
    Both,
    both_graphs,
    fresh_branch,
    lines,
)

Question = Callable[[GraphCalls], object]

BY_DAY = """
query by_day($day: Date, $moment: DateTime, $big: I64, $words: [String]) {
    match { $t: Thing  $t.day >= $day  $t.moment >= $moment  $t.big = $big }
    return { $t.name, $t.words }
}
"""
TOTALS = """
query totals() {
    match { $t: Thing }
    return { count($t) as things, sum($t.small) as small, avg($t.small) as average }
}
"""
NOTHING = 'query nothing() { match { $t: Thing { name: "none" } } return { $t.name, $t.big } }'
PAIRS = """
query pairs() {
    match { $a: Thing  $a near $b }
    return { $a.name as from, $b.name as to }
    order { $a.name }
}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A graph with some history: branches, a merge with a conflict to come, tags."""
    with both_graphs(tmp_path_factory.mktemp("told")) as both:
        graph = both.embedded
        graph.tag("start", graph.head())
        graph.create_branch("side")
        graph.mutate(SET_SMALL, {"name": "a", "small": 7}, branch="side")
        graph.mutate(SET_SMALL, {"name": "a", "small": 8})
        graph.mutate(ADD_THING, {"name": "new"}, branch="side")
        graph.create_branch("clean/side", base="side")
        graph.mutate(SET_BIG, {"name": "b", "big": 5}, branch="clean/side")
        graph.tag("end/now", graph.head())
        yield both


def rows_of(result: Result) -> object:
    return (
        result.columns,
        result.rows,
        result.query_name,
        result.branch,
        result.commit_id,
        result.result_columns,
        str(result.to_arrow().schema),
        len(result),
        repr(result),
    )


def changes_of(found: ChangeSet) -> object:
    page = found.page(limit=2)
    return (
        list(found),
        found.stats,
        len(found),
        (found.old_commit_id, found.new_commit_id),
        found.to_arrow().to_pylist(),
        list(page.changes),
        page.next_token,
        [] if page.next_token is None else list(found.page(page.next_token).changes),
        repr(found),
    )


QUESTIONS: dict[str, Question] = {
    "values of every type": lambda g: rows_of(g.query(ALL_THINGS)),
    "rows as pandas": lambda g: g.query(ALL_THINGS).to_pandas().to_json(),
    "a parameter": lambda g: rows_of(g.query(FIND_THING, {"name": "a"})),
    "a strange parameter": lambda g: rows_of(g.query(FIND_THING, {"name": "ü/%?#& c"})),
    "totals": lambda g: rows_of(g.query(TOTALS)),
    "no rows": lambda g: rows_of(g.query(NOTHING)),
    "edges": lambda g: rows_of(g.query(PAIRS)),
    "parameters of every type": lambda g: rows_of(
        g.query(
            BY_DAY,
            {
                "day": date(2024, 1, 1),
                "moment": datetime(2024, 1, 1, tzinfo=UTC),
                "big": 2**63 - 1,
                "words": ["x"],
            },
        )
    ),
    "one query of several": lambda g: rows_of(g.query(f"{NAMES}\n{TOTALS}", name="totals")),
    "a branch": lambda g: rows_of(g.query(FIND_THING, {"name": "a"}, branch="side")),
    "a branch with a slash": lambda g: rows_of(g.query(NAMES, branch="clean/side")),
    "a tag": lambda g: rows_of(g.query(FIND_THING, {"name": "a"}, commit="start")),
    "a commit": lambda g: rows_of(g.query(NAMES, commit=g.commits("side")[-1].id)),
    "an explanation": lambda g: g.explain(FIND_THING),
    "an explanation elsewhere": lambda g: g.explain(NAMES, branch="side"),
    "a node": lambda g: g.entity("Thing", "a"),
    "a node at a tag": lambda g: g.entity("Thing", "a", commit="start"),
    "a node that is not there": lambda g: g.entity("Thing", "nobody"),
    "a node with numbers that are not finite": lambda g: g.entity("Thing", "nan"),
    "a node with a strange name": lambda g: g.entity("Thing", "ü/%?#& c", branch="side"),
    "a blob": lambda g: g.read_blob("Thing", "nan", "picture"),
    "a part of a blob": lambda g: g.read_blob("Thing", "nan", "picture", start=5, length=7),
    "the end of a blob": lambda g: g.read_blob("Thing", "nan", "picture", start=len(PICTURE) - 3),
    "behind the last byte": lambda g: g.read_blob("Thing", "nan", "picture", start=len(PICTURE)),
    "no byte of a blob": lambda g: g.read_blob("Thing", "nan", "picture", start=3, length=0),
    "an empty blob": lambda g: g.read_blob("Thing", "inf", "picture"),
    "a retrieval": lambda g: g.retrieve("a keyless ü c", hops=2, k=4),
    "a retrieval by a vector": lambda g: g.retrieve(
        "x", types="Thing", edges=["near"], vector=[1, 2, 3], word_weight=0, k=2
    ),
    "a retrieval with little room": lambda g: g.retrieve("a", budget_tokens=8, vector_weight=0),
    "a retrieval elsewhere": lambda g: g.retrieve("new", branch="side", types=["Thing"]),
    "a retrieval at a tag": lambda g: g.retrieve("new", commit="start"),
    "a retrieval by a query": lambda g: g.retrieve_by(FIND_THING, {"name": "a"}, hops=2),
    "a retrieval by one query of several": lambda g: g.retrieve_by(
        f"{NAMES}\n{BY_DAY}",
        {
            "day": date(2024, 1, 1),
            "moment": datetime(2024, 1, 1, tzinfo=UTC),
            "big": 2**63 - 1,
            "words": ["x"],
        },
        name="by_day",
    ),
    "a receipt": lambda g: g.retrieve("ü c", vector=[1, 2, 3]).receipt.to_json(),
    "a replay": lambda g: g.replay(g.retrieve("a keyless ü c", commit="start").receipt),
    "a replay of a query": lambda g: g.replay(
        json.loads(json.dumps(g.retrieve_by(FIND_THING, {"name": "a"}).receipt.to_json()))
    ),
    "branches": lambda g: g.branches(),
    "commits": lambda g: g.commits("side"),
    "a commit by its tag": lambda g: g.commit("end/now"),
    "a head": lambda g: g.head("clean/side"),
    "tags": lambda g: g.tags(),
    "recoveries": lambda g: g.recoveries(),
    "a snapshot's commit": lambda g: g.snapshot("side").commit,
    "a snapshot's types": lambda g: {
        key: (table.version, table.branch, table.row_count)
        for key, table in g.tables("side").items()
    },
    "a difference": lambda g: changes_of(g.diff("start", "clean/side")),
    "a difference of some": lambda g: changes_of(
        g.diff("start", "side", types=["Thing"], ops=["insert"])
    ),
    "a difference of nothing": lambda g: changes_of(g.diff("main", "main", types=[])),
    "a difference from the beginning": lambda g: changes_of(g.diff(g.commits()[0].id, "main")),
    "typed changes": lambda g: g.diff("start", "side").to_arrow("Thing").to_pylist(),
    "a feed": lambda g: [
        (each.commit, each.cursor, list(each.changes)) for each in g.changes("beginning", "side")
    ],
    "a feed's cursor": lambda g: g.changes("now", "clean/side").cursor,
    "a feed after a commit": lambda g: [
        each.commit.id for each in g.changes(f"after:{g.commits('side')[1].id}", "side")
    ],
    "a merge that would conflict": lambda g: g.merge("side", dry_run=True),
    "a merge by property that would work": lambda g: g.merge(
        "clean/side", into="side", dry_run=True, granularity="property"
    ),
    "an export": lambda g: list(g.export(types=["Note", "Near"])),
    "an export at a tag": lambda g: list(g.export(commit="start", types=["Near"])),
    "an export of nothing": lambda g: list(g.export(types=[])),
    "a schema": lambda g: g.schema_source,
    "a plan": lambda g: g.plan_schema(f"{EVERYTHING}\nnode More {{ x: String }}"),
    "a plan for less": lambda g: g.plan_schema("node Note { text: String }", allow_data_loss=True),
    "an actor": lambda g: g.actor,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_one_answer(told: Both, question: str) -> None:
    ask = QUESTIONS[question]

    assert ask(told.remote) == ask(told.embedded)


def test_a_table_of_a_remote_snapshot_is_named_by_its_place_in_the_graph(told: Both) -> None:
    here, there = told.embedded.tables("side"), told.remote.tables("side")

    assert here.keys() == there.keys()
    assert all(here[key].path.endswith(f"/{there[key].path}") for key in here)


def test_a_result_can_be_written_to_a_file(
    told: Both, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("files")

    for kind in ("embedded", "remote"):
        told.find(kind).query(ALL_THINGS).write(folder / f"{kind}.ndjson")

    assert (folder / "remote.ndjson").read_bytes() == (folder / "embedded.ndjson").read_bytes()


def test_a_revert_is_what_it_says_in_both_histories(told: Both) -> None:
    branch = fresh_branch(told.embedded, base="side")
    undone = told.embedded.head(branch)

    told.remote.revert(undone, branch=branch)

    assert told.remote.commits(branch)[-1].notes.reverted_id == undone
    # What a commit says of the request that it answered stays with the server.
    assert told.remote.commits(branch) == [
        replace(each, notes=mine.notes)
        for each, mine in zip(
            told.embedded.commits(branch), told.remote.commits(branch), strict=True
        )
    ]


def test_what_one_loads_the_other_sees_at_once(told: Both) -> None:
    branch = fresh_branch(told.embedded)

    told.remote.load(lines('{"type":"Note","data":{"text":"hi"}}'), mode="append", branch=branch)

    notes = "query notes() { match { $n: Note } return { $n.text } order { $n.text } }"
    assert [row["n.text"] for row in told.embedded.query(notes, branch=branch)] == ["hi", "keyless"]
