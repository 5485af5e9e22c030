"""Section I of the language and D of the engine: the rows that a load writes and replaces."""

import io
import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import (
    IntegrityError,
    InvalidValueError,
    KeyConflictError,
    NotFoundError,
    Outcome,
)
from tests.support.graphs import (
    FLEET,
    Record,
    build_graph,
    contents,
    edge,
    ends,
    fleet_graph,
    head_versions,
    manifest,
    ndjson,
    node,
    pins,
    row_counts,
    rows,
    social_graph,
    unchanged,
    values,
)
from tests.support.writes import Mode

MODES: list[Mode] = ["append", "merge", "overwrite"]


def test_i01_a_load_counts_the_rows_of_each_type(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, FLEET)

    result = graph.load(
        ndjson(
            node("Pilot", handle="ada"),
            edge("Mentors", "ada", "ben"),
            node("Ship", reg="S1"),
            node("Pilot", handle="ben"),
        ),
        mode="append",
    )

    assert result.nodes_loaded == {"Pilot": 2, "Ship": 1}
    assert result.edges_loaded == {"Mentors": 1}
    assert result.commit_id == graph.head()
    assert (result.branch_created, result.engine) == (False, "inline")


def test_i02_blank_lines_are_skipped(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, FLEET)
    lines = (
        '\n\n{"type":"Pilot","data":{"handle":"ada"}}\n  \t\r\n{"type":"Ship","data":{"reg":"S1"}}'
    )

    graph.load(io.StringIO(lines), mode="append")

    assert {type: list(by_id) for type, by_id in contents(graph).items()} == {
        "Pilot": ["ada"],
        "Ship": ["S1"],
    }


def test_i02_an_object_over_several_lines_is_refused(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, FLEET)
    pretty = json.dumps(node("Pilot", handle="ada"), indent=2)

    with unchanged(graph), pytest.raises(InvalidValueError, match="record 1"):
        graph.load(io.StringIO(pretty), mode="append")


def test_i04_an_edge_type_is_named_in_any_case(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.load(ndjson(edge("mENTORS", "eve", "ada")), mode="append")

    assert result.edges_loaded == {"Mentors": 1}
    assert ("eve", "ada") in ends(graph, "Mentors")


NO_RECORDS = {
    "I05 unknown node type": ('{"type":"Robot","data":{}}', "unknown node type 'Robot'"),
    "I05 node type in another case": ('{"type":"pilot","data":{}}', "unknown node type 'pilot'"),
    "I05 unknown edge type": ('{"edge":"Likes","from":"a","to":"b"}', "unknown edge type 'Likes'"),
    "I05 neither": ('{"data":{"handle":"x"}}', "expected 'type' or 'edge'"),
    "I05 an array": ("[1]", "expected 'type' or 'edge'"),
    "no start": ('{"edge":"Mentors","to":"ada"}', "edge missing 'from'"),
    "no end": ('{"edge":"Mentors","from":"ada"}', "edge missing 'to'"),
    "an end that is not text": ('{"edge":"Mentors","from":1,"to":"ada"}', "from"),
    "no JSON": ('{"type":', "invalid JSON"),
    "NaN": ('{"type":"Ship","data":{"reg":"x","tons":NaN}}', "invalid JSON"),
    "unknown property": ('{"type":"Pilot","data":{"handle":"x","speed":1}}', "speed"),
    "no key": ('{"type":"Pilot","data":{"hours":1}}', "handle"),
    "no data and no key": ('{"type":"Pilot"}', "handle"),
    "I20 unknown field": ('{"type":"Pilot","data":{"handle":"x"},"extra":1}', "extra"),
    "I20 duplicate member": ('{"type":"Pilot","data":{"handle":"x","handle":"y"}}', "handle"),
    "I20 both": ('{"type":"Pilot","edge":"Mentors","from":"a","to":"b"}', "'type'"),
    "I20 two on a line": (
        '{"type":"Pilot","data":{"handle":"x"}} {"type":"Pilot","data":{"handle":"y"}}',
        "invalid JSON",
    ),
    "physical column": ('{"type":"Pilot","data":{"handle":"x","_rowid":1}}', "_rowid"),
    "ends among the properties": (
        '{"edge":"Mentors","from":"a","to":"b","data":{"src":"c"}}',
        "src",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("line", "problem"), NO_RECORDS.values(), ids=NO_RECORDS)
def test_a_line_that_is_not_a_record_is_refused_and_named(
    tmp_path: Path, line: str, problem: str
) -> None:
    graph = fleet_graph(tmp_path)
    text = f'{{"type":"Pilot","data":{{"handle":"fine"}}}}\n\n{line}\n'

    with unchanged(graph), pytest.raises(InvalidValueError) as refused:
        graph.load(io.StringIO(text), mode="merge")

    assert problem in str(refused.value)
    assert "record 2" in str(refused.value)
    assert "line 3" in str(refused.value)
    assert refused.value.outcome is Outcome.UNCHANGED


def test_i07_d01_a_merge_replaces_and_adds(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    version = manifest(tmp_path).version

    graph.load(
        ndjson(node("Pilot", handle="ada", hours=1), node("Pilot", handle="fay")), mode="merge"
    )

    assert values(graph, "Pilot", "hours") == {
        "ada": 1,
        "ben": 330,
        "cyd": None,
        "dax": 330,
        "eve": 120,
        "fay": None,
    }
    assert manifest(tmp_path).version == version + 1


def test_i08_a_merge_clears_what_its_row_leaves_out(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    graph.load(ndjson(node("Pilot", handle="ada")), mode="merge")

    assert values(graph, "Pilot", "hours")["ada"] is None


def test_a_merge_adds_edges_and_nodes_without_an_id(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Note { text: String }  edge Next: Note -> Note")

    for _ in range(2):
        graph.load(ndjson(node("Note", text="a")), mode="merge")

    assert sorted(str(text) for text in values(graph, "Note", "text").values()) == ["a", "a"]
    assert all(len(id) == 26 for id in rows(graph, "Note"))


def test_a_merge_replaces_rows_by_the_id_they_give(tmp_path: Path) -> None:
    schema = "node Note { text: String }  edge Next: Note -> Note { n: I32? }"
    graph = build_graph(
        tmp_path,
        schema,
        node("Note", id="n1", text="a"),
        node("Note", id="n2", text="b"),
        edge("Next", "n1", "n2", id="e1", n=1),
    )

    graph.load(
        ndjson(node("Note", id="n1", text="c"), edge("Next", "n2", "n1", id="e1", n=2)),
        mode="merge",
    )

    assert contents(graph) == {
        "Note": {"n1": {"text": "c"}, "n2": {"text": "b"}},
        "Next": {"e1": {"from": "n2", "to": "n1", "n": 2}},
    }


def test_i10_d17_appending_an_existing_key_is_refused(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph), pytest.raises(KeyConflictError) as refused:
        graph.load(ndjson(node("Pilot", handle="fay"), node("Pilot", handle="ada")), mode="append")

    assert (refused.value.type, refused.value.id) == ("Pilot", "ada")
    assert refused.value.outcome is Outcome.UNCHANGED


def test_i10_appending_an_existing_edge_id_is_refused(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    graph.load(ndjson(edge("Mentors", "eve", "ada", id="m1")), mode="append")

    with unchanged(graph), pytest.raises(KeyConflictError) as refused:
        graph.load(ndjson(edge("Mentors", "eve", "ben", id="m1")), mode="append")

    assert (refused.value.type, refused.value.id) == ("Mentors", "m1")


def test_i10_a_key_is_free_again_once_its_row_is_deleted(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    graph.mutate('query q() { delete Pilot where handle = "eve" }')

    graph.load(ndjson(node("Pilot", handle="eve", hours=1)), mode="append")

    assert values(graph, "Pilot", "hours")["eve"] == 1


@pytest.mark.parametrize("mode", MODES)
def test_d02_a_load_that_repeats_a_key_is_refused(tmp_path: Path, mode: Mode) -> None:
    graph = build_graph(tmp_path, FLEET)
    twice = ndjson(node("Pilot", handle="ada", hours=1), node("Pilot", handle="ada", hours=2))

    with unchanged(graph), pytest.raises(IntegrityError, match="ada") as refused:
        graph.load(twice, mode=mode)

    assert refused.value.violations[0].type == "Pilot"
    assert refused.value.violations[0].id == "ada"


def test_d07_a_merge_that_repeats_an_edge_id_keeps_the_last(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    twice = ndjson(edge("Flies", "eve", "S1", id="e1"), edge("Flies", "eve", "S3", id="e1"))

    result = graph.load(twice, mode="merge")

    assert result.edges_loaded == {"Flies": 1}
    assert rows(graph, "Flies")["e1"] == {"from": "eve", "to": "S3"}


def test_d04_an_overwrite_replaces_the_types_it_brings_and_no_others(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before = pins(graph)

    graph.load(
        ndjson(
            node("Person", name="Alice"), node("Person", name="Bob"), edge("Knows", "Alice", "Bob")
        ),
        mode="overwrite",
    )

    assert row_counts(graph) == {
        "edge:Knows": 1,
        "edge:WorksAt": 2,
        "node:Company": 2,
        "node:Person": 2,
    }
    after = pins(graph)
    assert {key for key in after if after[key] != before[key]} == {"edge:Knows", "node:Person"}


@pytest.mark.parametrize("mode", MODES)
def test_a_load_of_nothing_makes_no_commit(tmp_path: Path, mode: Mode) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph):
        result = graph.load(io.StringIO("\n \n"), mode=mode)

    assert (result.nodes_loaded, result.edges_loaded, result.commit_id) == ({}, {}, None)


@pytest.mark.parametrize("mode", MODES)
def test_a_load_of_several_types_is_one_commit(tmp_path: Path, mode: Mode) -> None:
    graph = build_graph(tmp_path, FLEET)
    before = graph.commits()

    graph.load(
        ndjson(
            edge("Mentors", "ada", "ben"),
            edge("Flies", "ada", "S1"),
            node("Ship", reg="S1"),
            node("Pilot", handle="ada"),
            node("Pilot", handle="ben"),
        ),
        mode=mode,
    )

    assert len(graph.commits()) == len(before) + 1
    assert row_counts(graph) == {
        "edge:Flies": 1,
        "edge:Mentors": 1,
        "node:Pilot": 2,
        "node:Ship": 1,
    }
    assert head_versions(tmp_path) == pins(graph)


def test_d20_i11_an_id_that_is_not_what_the_key_says_is_refused(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, FLEET)

    with unchanged(graph), pytest.raises(InvalidValueError, match="does not match"):
        graph.load(ndjson(node("Pilot", id="x", handle="ada")), mode="append")

    graph.load(ndjson(node("Pilot", id="ada", handle="ada")), mode="append")
    assert list(rows(graph, "Pilot")) == ["ada"]


KEYS: dict[str, tuple[str, Record, str]] = {
    "I16 whole number": ("k: I64 @key", {"k": 42}, "42"),
    "negative": ("k: I32 @key", {"k": -7}, "-7"),
    "U64": ("k: U64 @key", {"k": 2**64 - 1}, "18446744073709551615"),
    "truth": ("k: Bool @key", {"k": True}, "true"),
    "date": ("k: Date @key", {"k": "2024-06-01"}, "19875"),
    "time": ("k: DateTime @key", {"k": "2024-06-01T12:00:00Z"}, "1717243200000"),
    "float": ("k: F64 @key", {"k": 2.5}, "2.5"),
    "integral float": ("k: F64 @key", {"k": 2.0}, "2"),
    "negative zero": ("k: F64 @key", {"k": -0.0}, "0"),
    "narrow float": ("k: F32 @key", {"k": 0.1}, "0.1"),
    "enum": ("k: enum(a, b) @key", {"k": "a"}, "a"),
    "empty text": ("k: String @key", {"k": ""}, ""),
    "I17 composite": (
        "zeta: String  alpha: String  @key(alpha, zeta)",
        {"zeta": "z", "alpha": "a"},
        '["a","z"]',
    ),
    "composite of another type": (
        "a: String  b: I32  @key(b, a)",
        {"a": 'x","y', "b": 7},
        '["x\\",\\"y","7"]',
    ),
}


@pytest.mark.parametrize(("declared", "properties", "id"), KEYS.values(), ids=KEYS)
def test_the_key_of_a_node_is_its_id(
    tmp_path: Path, declared: str, properties: Record, id: str
) -> None:
    graph = build_graph(tmp_path, f"node N {{ {declared}  n: I32? }}  edge E: N -> N")

    graph.load(ndjson({"type": "N", "data": properties}, edge("E", id, id)), mode="append")
    graph.load(ndjson({"type": "N", "data": {**properties, "n": 1}}), mode="merge")

    assert list(rows(graph, "N")) == [id]
    assert rows(graph, "N")[id]["n"] == 1


def test_i19_a_branch_must_exist_unless_its_base_is_given(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph), pytest.raises(NotFoundError, match="feature"):
        graph.load(ndjson(node("Pilot", handle="fay")), mode="append", branch="feature")
    result = graph.load(
        ndjson(node("Pilot", handle="fay")), mode="append", branch="feature", base="main"
    )

    assert result.branch_created
    assert graph.branches() == ["main", "feature"]
    assert "fay" in rows(graph, "Pilot", branch="feature")
    assert "fay" not in rows(graph, "Pilot")


def test_d19_the_base_of_a_branch_that_exists_changes_nothing(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    graph.create_branch("other")
    graph.mutate('query q() { delete Pilot where handle = "ada" }', branch="other")
    graph.create_branch("feature")

    result = graph.load(
        ndjson(node("Pilot", handle="fay")), mode="append", branch="feature", base="other"
    )

    assert not result.branch_created
    assert {"ada", "fay"} < set(rows(graph, "Pilot", branch="feature"))


def test_i19_a_failed_load_leaves_no_new_branch(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph), pytest.raises(IntegrityError):
        graph.load(ndjson(edge("Flies", "ada", "S9")), mode="append", branch="b", base="main")


def test_a_load_reports_progress(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, FLEET)
    reports: list[tuple[str, int, int | None]] = []

    graph.load(
        ndjson(node("Pilot", handle="ada")),
        mode="append",
        progress=lambda stage, done, total: reports.append((stage, done, total)),
    )

    assert reports
    assert all(done >= 0 and (total is None or done <= total) for _, done, total in reports)


def test_an_unknown_mode_or_engine_is_refused(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match="append, merge and overwrite"):
            graph.load(ndjson(node("Pilot", handle="fay")), mode="upsert")
        with pytest.raises(InvalidValueError, match="engine"):
            graph.load(ndjson(node("Pilot", handle="fay")), mode="merge", engine="abacus")


def test_d01_a_second_graph_reads_what_was_loaded(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    graph.load(
        ndjson(node("Person", name="Alice", age=31), node("Person", name="Eve", age=22)),
        mode="merge",
    )

    with omnigraph.open(str(tmp_path), read_only=True) as reader:
        assert values(reader, "Person", "age") == {
            "Alice": 31,
            "Bob": 25,
            "Charlie": 35,
            "Diana": 28,
            "Eve": 22,
        }
