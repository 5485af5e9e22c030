"""Decisions: Cedar's are those of the rules, and what a rule shows of types adds up."""

import logging
from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.model.errors import InvalidValueError, Outcome, PolicyDeniedError
from omnigraph.model.ports import Access, Action, TypeView, View
from omnigraph.policy.bundle import (
    BRANCH_ACTIONS,
    SERVER_ACTIONS,
    TARGET_ACTIONS,
    Bundle,
    BundleKind,
    Rule,
    Scope,
    parse_bundle,
)
from omnigraph.policy.cedar import compile_bundle
from omnigraph.policy.gate import DefaultDenyGate, PolicyGate, open_gate
from tests.support.policies import graph_gate, make_access, matching_rules, team_bundle

NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=3)
ACTORS = st.sampled_from(["ann", "bob", 'o"neil', "ünal\\", "日本"])
BRANCHES = st.none() | st.sampled_from(["main", "draft", "a/b"])


PROMOTING = """
version: 1
groups:
  team: [andrew, bruno, ragnor]
  admins: [ragnor]
protected_branches: [main]
rules:
  - id: team-reads
    allow: {actors: {group: team}, actions: [read], branch_scope: any}
  - id: admins-export
    allow: {actors: {group: admins}, actions: [export], branch_scope: any}
  - id: team-writes
    allow: {actors: {group: team}, actions: [change], branch_scope: unprotected}
  - id: admins-promote
    allow: {actors: {group: admins}, actions: [branch_delete, branch_merge],
            target_branch_scope: protected}
"""


@st.composite
def rules(draw: st.DrawFn, *, id: str, groups: list[str]) -> Rule:
    """A valid rule, of any actions that may stand together."""
    graph = sorted(set(Action) - SERVER_ACTIONS)
    actions = draw(st.frozensets(st.sampled_from(graph), min_size=1))
    scopes = st.sampled_from([None, *Scope])
    return Rule(
        id=id,
        group=draw(st.sampled_from(groups)),
        actions=actions,
        branch_scope=draw(scopes) if actions <= BRANCH_ACTIONS else None,
        target_scope=draw(scopes) if actions <= TARGET_ACTIONS else None,
        limits=None,
    )


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    """A valid bundle."""
    members = st.frozensets(ACTORS, min_size=1)
    groups = draw(st.dictionaries(NAMES, members, min_size=1, max_size=3))
    ids = draw(st.lists(NAMES, max_size=6, unique=True))
    return Bundle(
        name="generated",
        kind=BundleKind.GRAPH,
        groups=groups,
        protected_branches=draw(st.frozensets(st.sampled_from(["main", "draft"]))),
        rules=tuple(draw(rules(id=id, groups=sorted(groups))) for id in ids),
        warnings=(),
    )


@st.composite
def requests(draw: st.DrawFn) -> Access:
    """A request of an actor that may be unknown."""
    actor = draw(ACTORS | st.just("stranger"))
    action = draw(st.sampled_from(sorted(set(Action) - SERVER_ACTIONS)))
    return Access(actor, action, draw(BRANCHES), draw(BRANCHES))


@settings(deadline=None)
@given(bundles(), st.lists(requests(), min_size=1, max_size=12))
def test_cedar_decides_as_the_rules_say(bundle: Bundle, accesses: list[Access]) -> None:
    gate = PolicyGate(compile_bundle(bundle), graph_id="default")

    decisions = [gate.decide(each) for each in accesses]

    matching = [sorted(rule.id for rule in matching_rules(bundle, each)) for each in accesses]
    assert [each.is_allowed for each in decisions] == [bool(rules) for rules in matching]
    assert [each.rule for each in decisions] == [next(iter(rules), None) for rules in matching]


@settings(deadline=None)
@given(st.text(), st.text(), st.text())
@example("bruno", "main", "\ud800")
@example("bruno", "\udfff", "main")
@example("\ud800", "main", "main")
@example("bruno", "main", "\x00\n\u2028")
def test_any_names_are_decided_on(actor: str, branch: str, target: str) -> None:
    decision = _team_gate().decide(Access(actor, Action.CHANGE, branch, target))

    assert not decision.is_allowed


@pytest.mark.parametrize(
    ("actor", "action", "branch", "target", "rule"),
    [
        ("bruno", Action.CHANGE, "main", None, None),
        ("bruno", Action.CHANGE, "feature", None, "team-writes"),
        ("bruno", Action.EXPORT, "main", None, None),
        ("ragnor", Action.EXPORT, "main", None, "admins-export"),
        ("bruno", Action.BRANCH_DELETE, None, "feature", None),
        ("ragnor", Action.BRANCH_DELETE, None, "feature", None),
        ("ragnor", Action.BRANCH_DELETE, None, "main", "admins-promote"),
        ("ragnor", Action.BRANCH_MERGE, "feature", "main", "admins-promote"),
        ("andrew", Action.READ, None, None, "team-reads"),
        ("andrew", Action.INVOKE_QUERY, None, None, None),
    ],
)
def test_a_team_promotes_by_its_admins(
    actor: str, action: Action, branch: str | None, target: str | None, rule: str | None
) -> None:
    gate = graph_gate(PROMOTING)

    decision = gate.decide(Access(actor, action, branch, target))

    assert (decision.is_allowed, decision.rule) == (rule is not None, rule)


def test_a_scope_denies_requests_without_a_branch() -> None:
    gate = _team_gate()

    assert gate.decide(make_access("ragnor", Action.READ, branch="main")).rule == "take-out"
    assert not gate.decide(make_access("ragnor", Action.READ)).is_allowed
    assert not gate.decide(make_access("bruno", Action.BRANCH_CREATE, branch="main")).is_allowed


def test_a_denial_names_the_request() -> None:
    with pytest.raises(PolicyDeniedError) as denied:
        _team_gate().require(
            make_access("bruno", Action.BRANCH_MERGE, branch="draft", target="main")
        )

    error = denied.value
    assert str(error) == (
        "policy denied action 'branch_merge' on branch 'draft' targeting branch 'main' "
        "for actor 'bruno'"
    )
    assert (error.code, error.outcome) == ("forbidden", Outcome.UNCHANGED)
    assert (error.actor, error.action) == ("bruno", "branch_merge")
    assert (error.branch, error.target) == ("draft", "main")


def test_a_denial_says_that_an_actor_is_unknown() -> None:
    message = "policy denied action 'read' on branch 'main' for actor 'zed': unknown actor 'zed'"

    with pytest.raises(PolicyDeniedError, match=message):
        _team_gate().require(make_access("zed", Action.READ, branch="main"))


def test_an_anonymous_caller_is_allowed_nothing() -> None:
    for gate in (_team_gate(), DefaultDenyGate()):
        with pytest.raises(PolicyDeniedError, match="for a caller without a name"):
            gate.require(make_access(None, Action.READ, branch="main"))


def test_what_is_allowed_once_is_allowed_again_and_so_is_a_denial() -> None:
    gate = _team_gate()
    requests = [make_access("bruno", Action.CHANGE, branch=each) for each in ("draft", "main")] * 3

    decisions = [gate.decide(each) for each in requests]

    assert [each.is_allowed for each in decisions] == [True, False] * 3
    assert decisions[0] is decisions[2], "Cedar was asked again"


def test_a_graphs_policy_says_nothing_about_the_server() -> None:
    with pytest.raises(PolicyDeniedError, match="server-scoped, but this is the policy of a graph"):
        _team_gate().require(make_access("andrew", Action.GRAPH_LIST))


def test_a_servers_policy_says_who_lists_its_graphs() -> None:
    allow = {"actors": {"group": "ops"}, "actions": ["graph_list"]}
    bundle = parse_bundle(
        {"version": 1, "groups": {"ops": ["ann"]}, "rules": [{"id": "list", "allow": allow}]},
        kind=BundleKind.SERVER,
        name="server",
    )

    gate = open_gate(bundle, kind=BundleKind.SERVER, graph_id=None)

    assert gate.decide(make_access("ann", Action.GRAPH_LIST)).rule == "list"
    assert not gate.decide(make_access("bob", Action.GRAPH_LIST)).is_allowed
    assert "per-graph" in gate.decide(make_access("ann", Action.READ)).reason
    with pytest.raises(InvalidValueError, match="it is the bundle of a server"):
        open_gate(bundle, kind=BundleKind.GRAPH, graph_id="default")


def test_without_a_policy_actors_only_read() -> None:
    gate = DefaultDenyGate()

    gate.require(make_access("ann", Action.READ, branch="main"))

    assert gate.view(make_access("ann", Action.READ, branch="main")) is None
    for action in set(Action) - {Action.READ}:
        with pytest.raises(PolicyDeniedError, match="default-deny"):
            gate.require(make_access("ann", action, branch="main"))


def test_each_decision_is_logged_with_its_rule(caplog: pytest.LogCaptureFixture) -> None:
    gate = _team_gate()
    denied = make_access("bruno", Action.BRANCH_DELETE, target="draft")

    with caplog.at_level(logging.INFO, logger="omnigraph.policy"):
        for _ in range(2):
            gate.require(make_access("bruno", Action.CHANGE, branch="draft"))
        with pytest.raises(PolicyDeniedError):
            gate.require(denied)

    names = ("actor", "action", "branch", "target", "allowed", "rule")
    logged = [tuple(getattr(record, name) for name in names) for record in caplog.records]
    allowed = ("bruno", "change", "draft", None, True, "draft")
    assert logged == [allowed, allowed, ("bruno", "branch_delete", None, "draft", False, None)]


@pytest.mark.parametrize(
    ("limits", "seen"),
    [
        ([None], None),
        ([None, {"Person": {"hide": ["salary"]}}], None),
        (
            [{"Person": {"where": "age > 1", "hide": ["salary"]}}],
            {"Person": TypeView(("age > 1",), frozenset({"salary"}))},
        ),
        (
            [{"Person": {"where": "a = 1"}}, {"Person": {"where": "b = 2", "hide": ["x"]}}],
            {"Person": TypeView(("a = 1", "b = 2"), frozenset({"x"}))},
        ),
        (
            [{"Person": {"where": "none"}}, {"Person": {"where": "b = 2"}}],
            {"Person": TypeView(("b = 2",), frozenset())},
        ),
        ([{"Person": {"where": "none"}}], {"Person": TypeView((), frozenset())}),
        (
            [{"Person": {"where": "a = 1"}}, {"Person": {"hide": ["x"]}}],
            {"Person": TypeView(None, frozenset({"x"}))},
        ),
        (
            [{"Person": {"where": "a = 1", "hide": ["x"]}}, {"Team": {"where": "none"}}],
            {"Person": TypeView(None, frozenset({"x"}))},
        ),
        ([{"Person": {"where": "a = 1"}}, {"Team": {"where": "none"}}], None),
    ],
)
def test_rules_show_what_any_shows_and_hide_what_any_hides(
    limits: list[Mapping[str, object] | None], seen: dict[str, TypeView] | None
) -> None:
    gate = _restricted_gate(limits)

    view = gate.view(make_access("ann", Action.READ, branch="main"))

    assert view == (None if seen is None else View("ann", seen))


def test_only_rules_that_allow_a_request_limit_it() -> None:
    gate = graph_gate(
        """
version: 1
groups: {team: [ann], others: [bob]}
protected_branches: [main]
rules:
  - id: main
    allow: {actors: {group: team}, actions: [read], branch_scope: protected,
            types: {Person: {where: none}}}
  - id: drafts
    allow: {actors: {group: team}, actions: [read, export], branch_scope: unprotected}
  - id: others
    allow: {actors: {group: others}, actions: [read], types: {Team: {where: none}}}
"""
    )

    assert gate.view(make_access("ann", Action.READ, branch="draft")) is None
    assert gate.view(make_access("ann", Action.READ, branch="main")) == View(
        "ann", {"Person": TypeView((), frozenset())}
    )
    assert gate.view(make_access("bob", Action.READ, branch="main")) == View(
        "bob", {"Team": TypeView((), frozenset())}
    )
    with pytest.raises(PolicyDeniedError):
        gate.view(make_access("bob", Action.EXPORT, branch="main"))


def _team_gate() -> PolicyGate:
    return open_gate(team_bundle(), kind=BundleKind.GRAPH, graph_id="default")


def _restricted_gate(limits: list[Mapping[str, object] | None]) -> PolicyGate:
    return graph_gate(
        {
            "version": 1,
            "groups": {"team": ["ann"]},
            "rules": [
                {
                    "id": f"rule-{at}",
                    "allow": {"actors": {"group": "team"}, "actions": ["read"]}
                    | ({} if each is None else {"types": each}),
                }
                for at, each in enumerate(limits)
            ],
        }
    )
