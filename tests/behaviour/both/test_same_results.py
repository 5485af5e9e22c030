"""A graph returns the same results whether opened by URI or through a server."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from omnigraph.client.remote import AnyGraph
from omnigraph.engine.changes import ChangeSet
from omnigraph.engine.results import Result
from omnigraph.model.errors import InvalidValueError, MergeConflictError
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
from tests.support.commands import invoke_command

Question = Callable[[AnyGraph], object]

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
NUMBERS = """
query numbers() {
    match { $t: Thing  $t.small is not null }
    return { $t.name as name, $t.small as small }
    order { $t.name }
}
"""
NOTHING = 'query nothing() { match { $t: Thing { name: "none" } } return { $t.name, $t.big } }'
LITERALS = 'query literals() { match { $t: Thing { name: "a" } } return { 1, 2 } }'
WITHIN = """
query within($line: String) {
    match { $t: Thing  $line contains $t.name }
    return { $t.name }
}
"""
WITHOUT_VALUE = """
query without_value() {
    match { $t: Thing  null > 3 or null = $t.big or 3 in null or now() in null }
    return { $t.name }
}
"""
PAIRS = """
query pairs() {
    match { $a: Thing  $a near $b }
    return { $a.name as from, $b.name as to }
    order { $a.name }
}
"""


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A graph with some history: branches, two of which conflict, and tags."""
    with both_graphs(tmp_path_factory.mktemp("graphs")) as both:
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
    "columns of literals": lambda g: rows_of(g.query(LITERALS)),
    "a text around a property": lambda g: rows_of(g.query(WITHIN, {"line": "xx a yy"})),
    "comparisons with null": lambda g: rows_of(g.query(WITHOUT_VALUE)),
    "one query of several": lambda g: rows_of(g.query(f"{NAMES}\n{TOTALS}", name="totals")),
    "a branch": lambda g: rows_of(g.query(FIND_THING, {"name": "a"}, branch="side")),
    "a branch with a slash": lambda g: rows_of(g.query(NAMES, branch="clean/side")),
    "a tag": lambda g: rows_of(g.query(FIND_THING, {"name": "a"}, commit="start")),
    "a commit": lambda g: rows_of(g.query(NAMES, commit=g.commits("side")[-1].id)),
    "an explanation": lambda g: g.explain(FIND_THING),
    "a prepared query": lambda g: rows_of(g.prepare(FIND_THING)(name="a")),
    "a prepared query elsewhere": lambda g: rows_of(g.prepare(NAMES)(branch="side")),
    "a prepared query of the past": lambda g: rows_of(g.prepare(NAMES)(commit="start")),
    "the parameters of a prepared query": lambda g: g.prepare(FIND_THING).parameters,
    "an analyzed plan": lambda g: re.sub(
        r"[\d,.]+ ms.*", "", g.explain(FIND_THING, {"name": "a"}, analyze=True)
    ),
    "an explanation elsewhere": lambda g: g.explain(NAMES, branch="side"),
    "a node": lambda g: g.entity("Thing", "a"),
    "a node at a tag": lambda g: g.entity("Thing", "a", commit="start"),
    "a node that is not there": lambda g: g.entity("Thing", "absent"),
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
    "a plan for less": lambda g: g.plan_schema(
        EVERYTHING.replace("node Note { text: String }", ""), allow_data_loss=True
    ),
    "an actor": lambda g: g.actor,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_read_returns_the_same_embedded_and_served(graphs: Both, question: str) -> None:
    read = QUESTIONS[question]

    assert read(graphs.remote) == read(graphs.embedded)


def test_a_table_of_a_remote_snapshot_has_a_path_relative_to_the_graph(graphs: Both) -> None:
    here, there = graphs.embedded.tables("side"), graphs.remote.tables("side")

    assert here.keys() == there.keys()
    assert all(here[key].path.endswith(f"/{there[key].path}") for key in here)


def read_back(file: Path) -> list[dict[str, object]]:
    """The rows of a file that a result was written to, by a reader of its format."""
    rows: list[dict[str, object]]
    match file.suffix:
        case ".parquet":
            rows = parquet.read_table(file).to_pylist()
        case ".arrow" | ".feather" | ".ipc":
            rows = pa.ipc.open_file(file).read_all().to_pylist()
        case ".ndjson" | ".jsonl":
            rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        case ".json":
            rows = json.loads(file.read_text(encoding="utf-8"))
        case _:
            between = "," if file.suffix == ".csv" else "\t"
            with file.open(encoding="utf-8", newline="") as lines:
                rows = [dict(row) for row in csv.DictReader(lines, delimiter=between)]
    return rows


@pytest.mark.parametrize(
    "suffix",
    [".parquet", ".arrow", ".feather", ".ipc", ".ndjson", ".jsonl", ".json", ".csv", ".tsv"],
)
def test_embedded_remote_and_command_line_choose_the_same_format_by_suffix(
    graphs: Both, tmp_path: Path, suffix: str
) -> None:
    files = [tmp_path / f"{name}{suffix}" for name in ("embedded", "remote", "command")]

    graphs.embedded.query(NUMBERS).write(files[0])
    graphs.remote.query(NUMBERS).write(files[1])
    ended = invoke_command(
        "query", "-e", NUMBERS, "--store", graphs.embedded.uri, "--out", files[2]
    )

    assert ended.code == 0, ended.err
    rows = graphs.embedded.query(NUMBERS).rows
    if suffix in (".csv", ".tsv"):
        rows = [{name: str(cell) for name, cell in row.items()} for row in rows]
    for file in files:
        assert read_back(file) == rows
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()


@pytest.mark.parametrize("kind", ["embedded", "remote"])
def test_an_unknown_file_suffix_is_refused(graphs: Both, tmp_path: Path, kind: str) -> None:
    with pytest.raises(InvalidValueError, match=r"'\.xlsx'.*\.csv and \.tsv"):
        graphs.find(kind).query(NUMBERS).write(tmp_path / "found.xlsx")

    assert not list(tmp_path.iterdir())


def test_a_revert_is_recorded_the_same_in_both_histories(graphs: Both) -> None:
    branch = fresh_branch(graphs.embedded, base="side")
    undone = graphs.embedded.head(branch)

    graphs.remote.revert(undone, branch=branch)

    assert graphs.remote.commits(branch)[-1].notes.reverted_id == undone
    # The request recorded in a commit stays on the server.
    assert graphs.remote.commits(branch) == [
        replace(each, notes=mine.notes)
        for each, mine in zip(
            graphs.embedded.commits(branch), graphs.remote.commits(branch), strict=True
        )
    ]


def test_a_load_through_one_graph_is_visible_through_the_other_at_once(graphs: Both) -> None:
    branch = fresh_branch(graphs.embedded)

    graphs.remote.load(lines('{"type":"Note","data":{"text":"hi"}}'), mode="append", branch=branch)

    notes = "query notes() { match { $n: Note } return { $n.text } order { $n.text } }"
    assert [row["n.text"] for row in graphs.embedded.query(notes, branch=branch)] == [
        "hi",
        "keyless",
    ]


@pytest.mark.parametrize(
    ("arguments", "route", "body", "exit_code"),
    [
        (("merge", "side"), "branches/merge", {"source": "side"}, 1),
        (("branch", "create", "side"), "branches", {"name": "side"}, 1),
        (
            ("query", "-e", "query q() { match { $x: Nope } return { $x.name } }"),
            "query",
            {"query": "query q() { match { $x: Nope } return { $x.name } }"},
            1,
        ),
        (
            ("query", "-e", NOTHING, "--branch", "gone"),
            "query",
            {"query": NOTHING, "branch": "gone"},
            1,
        ),
        (
            ("mutate", "-e", ADD_THING, "--params", '{"name": "x"}', "--if-commit", "0" * 26),
            None,
            {},
            4,
        ),
    ],
    ids=["conflicts", "a name that is taken", "a wrong query", "no branch", "a lost swap"],
)
def test_an_error_of_a_command_is_json_with_the_code_of_the_server(
    graphs: Both,
    arguments: tuple[str, ...],
    route: str | None,
    body: dict[str, object],
    exit_code: int,
) -> None:
    served = ("--server", graphs.server.url, "--graph", "default")

    here = invoke_command(*arguments, "--store", graphs.embedded.uri, "--json")
    there = invoke_command(*arguments, *served, "--json")

    assert (here.code, there.code) == (exit_code, exit_code), here.err + there.err
    assert here.fields == there.fields
    assert str(here.fields["error"]) in here.err.replace("\n", " ") or "-->" in here.err
    code = "precondition_failed"
    if route is not None:
        code = graphs.server.request(
            "POST", f"/graphs/default/{route}", token=None, json=body
        ).json()["code"]
    assert here.fields["code"] == code


def test_conflicts_of_a_merge_name_the_same_rows_embedded_and_served(graphs: Both) -> None:
    with pytest.raises(MergeConflictError) as here:
        graphs.embedded.merge("side")
    with pytest.raises(MergeConflictError) as there:
        graphs.remote.merge("side")
    response = graphs.server.request(
        "POST", "/graphs/default/branches/merge", token=None, json={"source": "side"}
    ).json()

    assert there.value.conflicts == here.value.conflicts
    assert str(there.value) == str(here.value)
    assert "Thing 'a'" in str(there.value)
    assert [(each["table_key"], each["row_id"]) for each in response["merge_conflicts"]] == [
        (f"node:{each.type}", each.id) for each in here.value.conflicts
    ]
