"""The numbered cases of migrations, each applied to a graph that has rows."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import CompileError, StillNeededError, UnsupportedChangeError
from tests.support.graphs import (
    build_graph,
    contents,
    fleet_graph,
    hub_graph,
    ndjson,
    node,
    unchanged,
    values,
)
from tests.support.queries import query
from tests.support.schema_changes import bytes_untouched
from tests.support.schemas import FLEET

HOURS = {"ada": 410, "ben": 330, "cyd": None, "dax": 330, "eve": 120}


def apply(graph: Graph, old: str, new: str) -> tuple[Mapping[str, object], ...]:
    """The steps of applying the accepted schema with one part replaced."""
    assert old in graph.schema_source
    return graph.apply_schema(graph.schema_source.replace(old, new)).steps


def kinds(steps: tuple[Mapping[str, object], ...]) -> list[object]:
    """The kinds of steps."""
    return [step["kind"] for step in steps]


def refuse(graph: Graph, schema: str) -> list[dict[str, object]]:
    """The steps that prevent a schema from being applied; nothing may have changed."""
    with bytes_untouched(Path(graph.uri.removeprefix("file://"))):
        with pytest.raises(UnsupportedChangeError) as refused:
            graph.apply_schema(schema)
        assert not graph.plan_schema(schema).supported
    return [dict(step) for step in refused.value.steps]


def test_n01_a_nullable_property_and_an_index_are_added(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    steps = apply(graph, "hours: I32?", "hours: I32? @index  nick: String?")

    assert kinds(steps) == ["add_property", "add_constraint"]
    assert values(graph, "Pilot", "nick") == dict.fromkeys(HOURS)
    assert values(graph, "Pilot", "hours") == HOURS


def test_n02_a_required_property_is_refused(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    (step,) = refuse(graph, FLEET.replace("hours: I32?", "hours: I32?  nick: String"))

    assert (step["entity"], step["code"]) == ("node:Pilot.nick", "OG-MF-103")


@pytest.mark.parametrize(("is_final", "mode"), [(False, "soft"), (True, "hard")])
def test_n04_a_property_is_dropped(tmp_path: Path, *, is_final: bool, mode: str) -> None:
    graph = fleet_graph(tmp_path)
    schema = FLEET.replace("hours: I32?", "")

    done = graph.apply_schema(schema, allow_data_loss=is_final)

    assert [(step["kind"], step["mode"]) for step in done.steps] == [("drop_property", mode)]
    assert contents(graph)["Pilot"] == {name: {"handle": name} for name in HOURS}


def test_n05_a_property_that_has_an_index_is_not_dropped(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    apply(graph, "hours: I32?", "hours: I32? @index")

    (step,) = refuse(graph, FLEET.replace("hours: I32?", ""))

    assert "removing constraints" in str(step["reason"])
    assert values(graph, "Pilot", "hours") == HOURS


def test_n07_a_type_that_edges_lead_to_is_not_dropped(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    without = "\n".join(line for line in FLEET.splitlines() if not line.startswith("node Ship"))

    with unchanged(graph), pytest.raises(CompileError) as refused:
        graph.apply_schema(without)

    assert "Ship" in str(refused.value)


def test_n08_a_type_and_its_key_are_renamed_with_all_that_refers_to_them(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    before = contents(graph)
    renamed = (
        FLEET.replace("node Pilot", 'node Flyer @rename_from("Pilot")')
        .replace("handle: String @key", 'callsign: String @key @rename_from("handle")')
        .replace("Pilot -> Pilot", "Flyer -> Flyer")
        .replace("Pilot -> Ship", "Flyer -> Ship")
    )

    done = graph.apply_schema(renamed)

    assert kinds(done.steps) == ["rename_type", "rename_property"]
    assert values(graph, "Flyer", "hours") == HOURS
    assert values(graph, "Flyer", "callsign") == {name: name for name in HOURS}
    assert contents(graph)["Mentors"] == before["Mentors"]
    mentored = query(
        'match { $f: Flyer { callsign: "ada" }  $f mentors $x } return { $x.callsign }'
    )
    assert [row["x.callsign"] for row in graph.query(mentored)] == ["ben", "cyd"]
    graph.load(ndjson(node("Flyer", callsign="fay")), mode="append")
    graph.mutate(query('delete Flyer where callsign = "ada"'))
    assert len(contents(graph)["Mentors"]) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("email: String?", "email: String?  more: String? @unique"),
        ("@range(score, 0..100)", '@range(score, 0..100)  @check(email, "@")'),
        ("score: I32?", "score: I32? @unique"),
        ("@range(score, 0..100)", ""),
        ("@unique(email)", ""),
    ],
    ids=["unique", "check", "unique on old", "without range", "without unique"],
)
def test_n10_rules_are_neither_added_nor_removed(tmp_path: Path, old: str, new: str) -> None:
    graph = hub_graph(tmp_path)
    assert old in graph.schema_source

    steps = refuse(graph, graph.schema_source.replace(old, new))

    assert steps


def test_n10_an_index_is_not_removed(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    apply(graph, "hours: I32?", "hours: I32? @index")

    assert refuse(graph, FLEET)


@pytest.mark.parametrize("new", ["Pilot -> Ship @card(0..1)", "Ship -> Pilot"])
def test_n11_neither_cardinality_nor_ends_of_an_edge_change(tmp_path: Path, new: str) -> None:
    graph = fleet_graph(tmp_path)

    (step,) = refuse(graph, FLEET.replace("Pilot -> Ship", new))

    assert step["entity"] == "edge:Flies"


KINDS = "node Thing { key: String @key  kind: enum(a, b) }"


def kinds_graph(path: Path) -> Graph:
    """A thing of a kind."""
    return build_graph(path, KINDS, node("Thing", key="t", kind="a"))


def test_n13_an_enum_gets_a_value_more(tmp_path: Path) -> None:
    graph = kinds_graph(tmp_path)

    (step,) = apply(graph, "enum(a, b)", "enum(a, b, c)")
    graph.load(ndjson(node("Thing", key="u", kind="c")), mode="append")

    assert (step["kind"], step["added_values"]) == ("extend_enum", ["c"])
    assert values(graph, "Thing", "kind") == {"t": "a", "u": "c"}


def test_n14_the_order_of_an_enum_does_not_matter(tmp_path: Path) -> None:
    graph = kinds_graph(tmp_path)

    with unchanged(graph):
        done = graph.apply_schema(KINDS.replace("enum(a, b)", "enum(b, a)"))

    assert (done.applied, done.steps) == (False, ())


@pytest.mark.parametrize("new", ["enum(a)", "enum(a, b, c)?", "enum(a, c)", "String"])
def test_n14_an_enum_changes_in_no_other_way(tmp_path: Path, new: str) -> None:
    graph = kinds_graph(tmp_path)

    (step,) = refuse(graph, KINDS.replace("enum(a, b)", new))

    assert step["code"] == "OG-MF-106"


@pytest.mark.parametrize("text", [FLEET, f"// fleet\n{FLEET}"], ids=["identical", "comment"])
def test_n16_a_schema_that_says_the_same_is_not_applied(tmp_path: Path, text: str) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph):
        done = graph.apply_schema(text)

    assert (done.applied, done.steps, done.commit_id) == (False, (), None)


def test_n17_a_change_that_is_not_additive_needs_a_graph_with_only_main(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    graph.create_branch("dev")

    with unchanged(graph), pytest.raises(StillNeededError, match="only main"):
        graph.apply_schema(FLEET.replace("hours: I32?", ""))
    assert kinds(apply(graph, "hours: I32?", "hours: I32?  nick: String?")) == ["add_property"]
