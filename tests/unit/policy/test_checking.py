"""Trying a policy out: what it would say, and cases that it has to get right."""

import pytest

from omnigraph.model.errors import InvalidValueError
from omnigraph.model.ports import Action
from omnigraph.policy.bundle import BundleKind
from omnigraph.policy.checking import describe, explain, parse_cases, run_cases
from omnigraph.policy.gate import PolicyGate, open_gate
from tests.support.policies import make_access, team_bundle


def test_a_decision_is_explained_with_its_rule() -> None:
    decision = explain(
        _gate(), actor="bruno", action="branch-merge", branch="a", target="unprotected"
    )

    assert describe(decision) == (
        "decision: allow",
        "actor: bruno",
        "action: branch_merge",
        "branch: a",
        "target_branch: unprotected",
        "matched_rule: branch-out",
        "message: policy allowed action 'branch_merge' for actor 'bruno' by rule 'branch-out'",
    )


def test_a_denial_is_explained_without_a_rule() -> None:
    decision = explain(_gate(), actor="bruno", action="change", branch="main", target=None)

    assert describe(decision) == (
        "decision: deny",
        "actor: bruno",
        "action: change",
        "branch: main",
        "message: policy denied action 'change' on branch 'main' for actor 'bruno'",
    )


@pytest.mark.parametrize(("actor", "action"), [(" ", "read"), ("ann", "fly")])
def test_a_request_that_cannot_be_meant_is_refused(actor: str, action: str) -> None:
    with pytest.raises(InvalidValueError):
        explain(_gate(), actor=actor, action=action, branch=None, target=None)


def test_cases_that_a_policy_gets_wrong_are_named() -> None:
    cases = parse_cases(
        """
version: 1
cases:
  - {id: drafts, actor: bruno, action: change, branch: draft, expect: allow}
  - {id: main, actor: bruno, action: change, branch: main, expect: allow}
  - {id: merge, actor: bruno, action: branch-merge, branch: a, target_branch: main, expect: deny}
""",
        name="cases.yaml",
    )

    report = run_cases(_gate(), cases)

    assert cases[2].access == make_access("bruno", Action.BRANCH_MERGE, branch="a", target="main")
    assert report.case_count == 3
    assert [each.case.id for each in report.mismatches] == ["main"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cases: []", "version"),
        ("version: 1\ncases: x", "expected a list"),
        ("version: 1\ncases: [1]", "expected fields"),
        ("version: 1\ncases: [{id: a, actor: x, action: read}]", "`expect` is missing"),
        ("version: 1\ncases: [{id: a, actor: x, action: fly, expect: allow}]", "'fly' is unknown"),
        ("version: 1\ncases: [{id: a, actor: ' ', action: read, expect: allow}]", "blank"),
        ("version: 1\ncases: [{id: '', actor: x, action: read, expect: allow}]", "blank"),
        ("version: 1\ncases: [{id: a, actor: x, action: read, expect: yes}]", "expected a name"),
        ("version: 1\ncases: [{id: a, actor: x, action: read, expect: maybe}]", "neither"),
        ("version: 1\ncases: [{id: a, actor: x, action: read, expects: deny}]", "unknown"),
        (
            "version: 1\ncases: [{id: a, actor: x, action: read, expect: deny},"
            " {id: a, actor: y, action: read, expect: deny}]",
            "two cases have the id 'a'",
        ),
    ],
)
def test_cases_that_cannot_be_meant_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        parse_cases(text, name="cases.yaml")


def _gate() -> PolicyGate:
    return open_gate(team_bundle(), kind=BundleKind.GRAPH, graph_id="default")
