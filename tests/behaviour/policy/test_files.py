"""A policy comes from a file: a bundle, or policies that Cedar reads as they are."""

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    CorruptError,
    InvalidValueError,
    LimitExceededError,
    PolicyDeniedError,
    UnreadableError,
)
from omnigraph.model.limits import POLICY_BYTES_MAX
from omnigraph.model.ports import Action
from omnigraph.policy.bundle import BundleKind
from omnigraph.policy.gate import PolicyGate, open_gate
from tests.support.graphs import build_graph, node, root_of
from tests.support.policies import TEAM, make_access, team_bundle
from tests.support.queries import query

SCHEMA = "node Person { name: String @key }"
ADD_BEN = query('insert Person { name: "Ben" }')

CEDAR = """
@id("team reads")
permit (principal in Omnigraph::Group::"team", action == Omnigraph::Action::"read", resource);

@id("ann writes")
permit (
  principal == Omnigraph::Actor::"ann",
  action in [Omnigraph::Action::"change", Omnigraph::Action::"read"],
  resource == Omnigraph::Graph::"default"
);

@id("frozen")
forbid (principal, action == Omnigraph::Action::"change", resource)
when { context.has_branch && context.branch_is_protected };
"""


def test_a_graph_is_opened_with_the_file_of_a_bundle(tmp_path: Path) -> None:
    graph = _graph(tmp_path)
    path = _write(tmp_path, "team.yaml", TEAM)

    policed = omnigraph.open(root_of(graph), actor="bruno", policy=path)

    assert policed.head() == graph.head()
    with pytest.raises(PolicyDeniedError, match="'change' on branch 'main' for actor 'bruno'"):
        policed.mutate(ADD_BEN)


def test_a_tilde_in_the_path_of_a_policy_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    graph = _graph(tmp_path)
    _write(tmp_path, "team.yaml", TEAM)

    policed = omnigraph.open(root_of(graph), actor="bruno", policy="~/team.yaml")

    assert policed.head() == graph.head()


def test_a_graph_is_opened_with_a_bundle(tmp_path: Path) -> None:
    graph = _graph(tmp_path)

    policed = omnigraph.open(root_of(graph), actor="andrew", policy=team_bundle())

    assert policed.mutate(ADD_BEN).affected_nodes == 1


def test_a_read_only_graph_is_opened_before_any_authorization(tmp_path: Path) -> None:
    graph = _graph(tmp_path)

    policed = omnigraph.open(root_of(graph), read_only=True, policy=team_bundle())

    with pytest.raises(PolicyDeniedError):
        policed.head()
    assert policed.for_actor("bruno").head() == graph.head()


def test_a_policy_that_is_not_valid_opens_nothing(tmp_path: Path) -> None:
    graph = _graph(tmp_path)
    path = _write(tmp_path, "team.yaml", TEAM.replace("version: 1", "version: 2"))

    with pytest.raises(InvalidValueError, match=r"team\.yaml: version: 2 is unknown"):
        omnigraph.open(root_of(graph), actor="andrew", policy=path)


@pytest.mark.parametrize("name", ["missing.yaml", "missing.cedar"])
def test_a_missing_policy_opens_nothing(name: str, tmp_path: Path) -> None:
    graph = _graph(tmp_path)

    with pytest.raises(UnreadableError, match="No such file"):
        omnigraph.open(root_of(graph), actor="andrew", policy=tmp_path / name)


def test_a_file_of_policies_is_taken_as_it_is(tmp_path: Path) -> None:
    gate = _cedar_gate(tmp_path, CEDAR)

    assert gate.decide(make_access("ann", Action.READ, branch="main")).rule == "ann writes"
    assert gate.decide(make_access("ann", Action.CHANGE, branch="main")).rule == "ann writes"
    assert not gate.decide(make_access("ben", Action.READ, branch="main")).is_allowed


def test_a_file_of_policies_may_have_its_groups_in_a_bundle_beside_it(tmp_path: Path) -> None:
    _write(
        tmp_path, "roles.yaml", "version: 1\ngroups: {team: [ben]}\nprotected_branches: [main]\n"
    )
    gate = _cedar_gate(tmp_path, CEDAR)

    assert gate.decide(make_access("ben", Action.READ, branch="main")).rule == "team reads"
    assert gate.decide(make_access("ann", Action.CHANGE, branch="draft")).is_allowed
    with pytest.raises(PolicyDeniedError, match="for actor 'ann': rule 'frozen' forbids it"):
        gate.require(make_access("ann", Action.CHANGE, branch="main"))


def test_a_file_of_policies_may_have_its_groups_as_entities_beside_it(tmp_path: Path) -> None:
    team = {"type": "Omnigraph::Group", "id": "team"}
    ben = {"type": "Omnigraph::Actor", "id": "ben"}
    entities = [
        {"uid": team, "attrs": {}, "parents": []},
        {"uid": ben, "attrs": {}, "parents": [team]},
    ]
    _write(tmp_path, "roles.entities.json", json.dumps(entities))
    gate = _cedar_gate(tmp_path, CEDAR)

    assert gate.decide(make_access("ben", Action.READ)).rule == "team reads"
    assert not gate.decide(make_access("cyd", Action.READ)).is_allowed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("permit (principal", "unexpected end"),
        ("permit (principal, action, resource) when { context.colour };", "colour"),
        ('permit (principal, action == Omnigraph::Action::"fly", resource);', "fly"),
        ('permit (principal, action == Omnigraph::Action::"graph_list", resource);', "graph_list"),
        ("permit (principal is User, action, resource);", "User"),
    ],
)
def test_policies_that_do_not_fit_are_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match=message):
        _cedar_gate(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("roles.entities.json", "{", "valid actors and groups"),
        (
            "roles.entities.json",
            '[{"uid": {"type": "User", "id": "x"}}]',
            "valid actors and groups",
        ),
        ("roles.yaml", TEAM, "the rules are in roles.cedar"),
        ("roles.yml", "version: 7", "version"),
    ],
)
def test_invalid_groups_beside_policies_are_refused(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    _write(tmp_path, name, content)

    with pytest.raises(InvalidValueError, match=message):
        _cedar_gate(tmp_path, CEDAR)


def test_policies_with_groups_from_two_places_are_refused(tmp_path: Path) -> None:
    _write(tmp_path, "roles.yaml", "version: 1")
    _write(tmp_path, "roles.entities.json", "[]")

    with pytest.raises(InvalidValueError, match="both declare its groups"):
        _cedar_gate(tmp_path, CEDAR)


def test_a_policy_that_is_too_long_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LimitExceededError):
        _cedar_gate(tmp_path, " " * (POLICY_BYTES_MAX + 1))
    (tmp_path / "roles.cedar").write_bytes(b"\xff")
    with pytest.raises(InvalidValueError, match="not valid UTF-8"):
        open_gate(tmp_path / "roles.cedar", kind=BundleKind.GRAPH, graph_id="default")


def test_a_policy_that_fails_to_evaluate_allows_nothing(tmp_path: Path) -> None:
    # An overflow: one of the few things that Cedar cannot see before it evaluates.
    overflow = f"when {{ {2**63 - 1} + (if context.has_branch then 1 else 0) > 0 }}"
    gate = _cedar_gate(
        tmp_path,
        f"permit (principal, action, resource);\nforbid (principal, action, resource) {overflow};",
    )

    assert not gate.decide(make_access("ann", Action.READ)).is_allowed
    with pytest.raises(CorruptError, match="cannot be evaluated"):
        gate.require(make_access("ann", Action.READ, branch="main"))


def _graph(tmp_path: Path) -> Graph:
    return build_graph(tmp_path / "graph", SCHEMA, node("Person", name="Ann"))


def _write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def _cedar_gate(folder: Path, text: str) -> PolicyGate:
    path = _write(folder, "roles.cedar", text)
    return open_gate(path, kind=BundleKind.GRAPH, graph_id="default")
