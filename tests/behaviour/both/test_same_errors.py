"""A graph refuses the same calls with the same errors whether opened by URI or through a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.client.remote import AnyGraph
from omnigraph.engine.read.budget import CallLimits
from omnigraph.errors import (
    AlreadyExistsError,
    CompileError,
    ForbiddenError,
    GraphError,
    IntegrityError,
    InvalidNameError,
    InvalidValueError,
    KeyConflictError,
    LimitExceededError,
    MergeConflictError,
    NotFoundError,
    PreconditionFailedError,
    UnsupportedChangeError,
)
from tests.support.both_graphs import (
    ADD_THING,
    EVERYTHING,
    FIND_THING,
    NAMES,
    PICTURE,
    SET_SMALL,
    Both,
    both_graphs,
    lines,
)

Call = Callable[[AnyGraph], object]

MISSING = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
PAIRS = "query pairs() { match { $a: Thing  $b: Thing } return { $a.name, $b.name } }"


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A graph with two branches that cannot be merged, and a tag."""
    with both_graphs(tmp_path_factory.mktemp("graphs")) as both:
        graph = both.embedded
        graph.tag("start", graph.head())
        graph.create_branch("side")
        graph.mutate(SET_SMALL, {"name": "a", "small": 7}, branch="side")
        graph.mutate(SET_SMALL, {"name": "a", "small": 8})
        graph.create_branch("twin", base="side")
        yield both


def load(*records: str, mode: str = "append", branch: str = "main") -> Call:
    return lambda graph: graph.load(lines(*records), mode=mode, branch=branch)


def thing(fields: str) -> str:
    return f'{{"type":"Thing","data":{{{fields}}}}}'


REFUSED: dict[str, tuple[type[GraphError], Call]] = {
    # Texts
    "a type that is not there": (
        CompileError,
        lambda g: g.query("query q() { match { $p: Thng } return { $p.name } }"),
    ),
    "several mistakes": (
        CompileError,
        lambda g: g.query("query q() {\n match { $p: Thing { nme: 1 } }\n return { $p.x, $q.y } }"),
    ),
    "two columns of one name": (
        CompileError,
        lambda g: g.query("query q() { match { $p: Thing } return { $p.name, $p.name } }"),
    ),
    "the least of nodes": (
        CompileError,
        lambda g: g.query("query q() { match { $p: Thing } return { min($p) } }"),
    ),
    "a list in null": (
        CompileError,
        lambda g: g.query("query q() { match { $p: Thing  [1, 2] in null } return { $p.name } }"),
    ),
    "no text at all": (InvalidValueError, lambda g: g.query(None)),  # type: ignore[arg-type]
    "a mutation as a query": (CompileError, lambda g: g.query(ADD_THING)),
    "a query as a mutation": (CompileError, lambda g: g.mutate(NAMES)),
    "a mutation to explain": (CompileError, lambda g: g.explain(ADD_THING)),
    "a name that is none of the text": (NotFoundError, lambda g: g.query(NAMES, name="other")),
    "two queries and no name": (GraphError, lambda g: g.query(f"{NAMES}\n{PAIRS}")),
    "a schema with a mistake": (CompileError, lambda g: g.plan_schema("node { }")),
    "a schema to apply with a mistake": (CompileError, lambda g: g.apply_schema("node X {")),
    # Parameters
    "a parameter that is missing": (InvalidValueError, lambda g: g.query(FIND_THING)),
    "a parameter of another type": (
        InvalidValueError,
        lambda g: g.query(FIND_THING, {"name": 5}),
    ),
    "a parameter too many": (
        InvalidValueError,
        lambda g: g.query(FIND_THING, {"name": "a", "nme": "b"}),
    ),
    "a number that is too large": (
        InvalidValueError,
        lambda g: g.mutate(ADD_THING, {"name": "x", "small": 2**31}),
    ),
    "null for a required property": (
        InvalidValueError,
        lambda g: g.mutate("query q($text: String?) { insert Note { text: $text } }"),
    ),
    "a prepared mutation": (CompileError, lambda g: g.prepare(ADD_THING)),
    "a prepared query of no name": (NotFoundError, lambda g: g.prepare(NAMES, name="other")),
    "a prepared query without its parameter": (
        InvalidValueError,
        lambda g: g.prepare(FIND_THING)(),
    ),
    "a prepared query with a parameter too many": (
        InvalidValueError,
        lambda g: g.prepare(FIND_THING)(name="a", nme="b"),
    ),
    # Places
    "a branch that is not there": (NotFoundError, lambda g: g.query(NAMES, branch="nope")),
    "a commit that is not there": (NotFoundError, lambda g: g.query(NAMES, commit=MISSING)),
    "a tag that is not there": (NotFoundError, lambda g: g.query(NAMES, commit="no-tag")),
    "a branch and a commit": (
        InvalidValueError,
        lambda g: g.query(NAMES, branch="main", commit="start"),
    ),
    "a name that no branch has": (InvalidNameError, lambda g: g.query(NAMES, branch="a//b")),
    "a branch of ours": (InvalidNameError, lambda g: g.head("__tx__1")),
    "commits of no branch": (NotFoundError, lambda g: g.commits("nope")),
    "a head of no branch": (NotFoundError, lambda g: g.head("nope")),
    "a commit of no id": (NotFoundError, lambda g: g.commit(MISSING)),
    "a snapshot of no branch": (NotFoundError, lambda g: g.snapshot("nope")),
    "a difference from nowhere": (NotFoundError, lambda g: g.diff("nope", "main")),
    "a difference of no type": (NotFoundError, lambda g: g.diff("start", "main", types=["No"])),
    "a difference of no sort": (InvalidValueError, lambda g: g.diff("start", "main", ops=["x"])),
    "a feed from nowhere": (InvalidValueError, lambda g: g.changes("then")),
    "a feed after no commit": (NotFoundError, lambda g: g.changes(f"after:{MISSING}")),
    "an entity of no type": (NotFoundError, lambda g: g.entity("Nothing", "a")),
    "a blob of a missing node": (NotFoundError, lambda g: g.read_blob("Thing", "zz", "picture")),
    "a blob that is null": (NotFoundError, lambda g: g.read_blob("Thing", "a", "picture")),
    "a blob that is none": (InvalidValueError, lambda g: g.read_blob("Thing", "a", "small")),
    "behind the end of a blob": (
        InvalidValueError,
        lambda g: g.read_blob("Thing", "nan", "picture", start=len(PICTURE) + 1),
    ),
    "a blob from before its start": (
        InvalidValueError,
        lambda g: g.read_blob("Thing", "nan", "picture", start=-1),
    ),
    "an export of no type": (NotFoundError, lambda g: g.export(types=["No"])),
    # Retrievals
    "a retrieval of no text": (InvalidValueError, lambda g: g.retrieve(None)),  # type: ignore[arg-type]
    "a retrieval too far": (InvalidValueError, lambda g: g.retrieve("a", hops=3)),
    "a retrieval from no type": (NotFoundError, lambda g: g.retrieve("a", types=["Thng"])),
    "a retrieval over no edge": (NotFoundError, lambda g: g.retrieve("a", edges="Far")),
    "a retrieval by no vector": (InvalidValueError, lambda g: g.retrieve("a", vector=["b"])),  # type: ignore[list-item]
    "a retrieval by a short vector": (InvalidValueError, lambda g: g.retrieve("a", vector=[1])),
    "a retrieval from nowhere": (NotFoundError, lambda g: g.retrieve("a", branch="nope")),
    "a retrieval of two states": (
        InvalidValueError,
        lambda g: g.retrieve("a", branch="main", commit="start"),
    ),
    "a retrieval by a mutation": (CompileError, lambda g: g.retrieve_by(ADD_THING)),
    "a retrieval by groups": (
        CompileError,
        lambda g: g.retrieve_by("query q() { match { $t: Thing } return { count($t) as n } }"),
    ),
    "a retrieval by a query that is not there": (
        NotFoundError,
        lambda g: g.retrieve_by(NAMES, name="other"),
    ),
    "a retrieval by a query without its parameter": (
        InvalidValueError,
        lambda g: g.retrieve_by(FIND_THING),
    ),
    "no receipt": (InvalidValueError, lambda g: g.replay(5)),  # type: ignore[arg-type]
    "an empty receipt": (InvalidValueError, lambda g: g.replay({})),
    "a receipt that was changed": (
        InvalidValueError,
        lambda g: g.replay({**g.retrieve("a").receipt.to_json(), "tokens": 1}),
    ),
    "a receipt of no commit": (
        NotFoundError,
        lambda g: g.replay({**g.retrieve("a").receipt.to_json(), "commit_id": MISSING}),
    ),
    # Engines and bounds
    "an engine that is none": (InvalidValueError, lambda g: g.query(NAMES, engine="cloud")),
    "a query that may cost nothing": (
        LimitExceededError,
        lambda g: g.query(PAIRS, limits=CallLimits(bytes_max=8)),
    ),
    "an engine of a difference that is none": (
        InvalidValueError,
        lambda g: g.diff("start", "main", engine=""),
    ),
    "an engine of a merge that is none": (
        InvalidValueError,
        lambda g: g.merge("side", engine="cloud"),
    ),
    "an engine of a load that is none": (
        InvalidValueError,
        lambda g: g.load(lines(), mode="merge", engine="cloud"),
    ),
    "a text for several types": (
        InvalidValueError,
        lambda g: g.diff("start", "main", types="Thing"),
    ),
    # Rows
    "a key that is there": (KeyConflictError, load(thing('"name":"a"'))),
    "a value out of range": (IntegrityError, load(thing('"name":"x","small":101'))),
    "a value that is taken": (IntegrityError, load(thing('"name":"x","email":"b@x"'))),
    "several rows that break rules": (
        IntegrityError,
        load(thing('"name":"x","small":101'), thing('"name":"y","small":-1')),
    ),
    "an edge to a missing node": (
        IntegrityError,
        load('{"edge":"Near","from":"a","to":"absent","data":{"id":"e"}}'),
    ),
    "a row of another shape": (
        InvalidValueError,
        load('{"type":"Note","data":{"text":"fine"}}', thing('"name":"x","small":"many"')),
    ),
    "a row of no type": (GraphError, load('{"type":"No","data":{}}')),
    "a line that is no JSON": (InvalidValueError, load("{")),
    "a mode that is none": (InvalidValueError, load(thing('"name":"x"'), mode="upsert")),
    "a load to nowhere": (NotFoundError, load(thing('"name":"x"'), branch="nope")),
    "bytes to load": (InvalidValueError, lambda g: g.load(b"{}", mode="append")),
    "a number to load": (InvalidValueError, lambda g: g.load(5, mode="append")),
    "a file that is not there": (NotFoundError, lambda g: g.load("no.jsonl", mode="append")),
    "rows of no type": (
        GraphError,
        lambda g: g.load({"No": pa.table({"x": [1]})}, mode="append"),
    ),
    "rows with a column too many": (
        GraphError,
        lambda g: g.load({"Note": pa.table({"text": ["x"], "more": [1]})}, mode="append"),
    ),
    "a mutation that breaks a rule": (
        IntegrityError,
        lambda g: g.mutate(ADD_THING, {"name": "x", "small": -5}),
    ),
    # Branches, tags, merges, undoing
    "a branch that is there": (AlreadyExistsError, lambda g: g.create_branch("side")),
    "a branch from nowhere": (NotFoundError, lambda g: g.create_branch("x", base="nope")),
    "the end of main": (GraphError, lambda g: g.delete_branch("main")),
    "the end of no branch": (NotFoundError, lambda g: g.delete_branch("nope")),
    "a tag that is there": (GraphError, lambda g: g.tag("start", g.head())),
    "a tag of no commit": (NotFoundError, lambda g: g.tag("new", MISSING)),
    "a tag that looks like a commit": (InvalidNameError, lambda g: g.tag(MISSING, g.head())),
    "the end of no tag": (NotFoundError, lambda g: g.delete_tag("no-tag")),
    "a merge that conflicts": (MergeConflictError, lambda g: g.merge("side")),
    "a merge with itself": (InvalidValueError, lambda g: g.merge("side", into="side")),
    "a merge of nothing": (NotFoundError, lambda g: g.merge("nope")),
    "a merge by what is none": (InvalidValueError, lambda g: g.merge("side", granularity="x")),
    "a decision about no type": (
        NotFoundError,
        lambda g: g.merge("side", resolve={("No", "a"): "source"}),
    ),
    "a decision that is none": (
        InvalidValueError,
        lambda g: g.merge("side", resolve={("Thing", "a"): "both"}),
    ),
    "a revert of nothing": (NotFoundError, lambda g: g.revert(MISSING)),
    "a pick of nothing": (NotFoundError, lambda g: g.cherry_pick(MISSING)),
    "a write at another commit": (
        PreconditionFailedError,
        lambda g: g.mutate(ADD_THING, {"name": "x"}, if_commit=MISSING),
    ),
    "a transaction on nothing": (NotFoundError, lambda g: g.transaction("nope").__enter__()),
    # Schemas
    "a schema that cannot be applied": (
        UnsupportedChangeError,
        lambda g: g.apply_schema(EVERYTHING.replace("big: I64?", "big: String?")),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_call_raises_the_same_error_embedded_and_served(
    graphs: Both, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, call = REFUSED[case]
    monkeypatch.chdir(tmp_path)
    before = graphs.embedded.head(), graphs.embedded.branches(), graphs.embedded.tags()

    with pytest.raises(kind) as here:
        call(graphs.embedded)
    with pytest.raises(kind) as there:
        call(graphs.remote)

    assert type(there.value) is type(here.value)
    assert str(there.value) == str(here.value)
    assert vars(there.value) == vars(here.value)
    assert (there.value.code, there.value.outcome) == (here.value.code, here.value.outcome)
    assert (graphs.embedded.head(), graphs.embedded.branches(), graphs.embedded.tags()) == before


def test_a_closed_graph_raises_the_same_error_embedded_and_served(graphs: Both) -> None:
    refused: list[str] = []

    for graph in _closed(graphs):
        with pytest.raises(ForbiddenError) as caught:
            graph.query(NAMES)
        refused.append(str(caught.value))

    assert refused[0] == refused[1]


def _closed(graphs: Both) -> list[AnyGraph]:
    opened: list[AnyGraph] = [
        omnigraph.open(graphs.server.store, read_only=True),
        omnigraph.connect(graphs.server.url),
    ]
    for each in opened:
        each.close()
        each.close()
    return opened
