"""Where an agent's writes go: a branch that every actor can have, and none that is protected."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.mcp.ports import ToolError, WritePlacement, agent_branch
from omnigraph.model.errors import InvalidNameError
from omnigraph.model.limits import ACTOR_CHARACTERS_MAX
from omnigraph.model.names import parse_branch_name

ACTORS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("actor", "branch"),
    [
        (None, "agent/local"),
        ("ann", "agent/ann"),
        ("act-ann.b_2", "agent/act-ann.b_2"),
    ],
)
def test_a_plain_name_is_the_name_of_the_branch(actor: str | None, branch: str) -> None:
    assert agent_branch(actor) == branch


@given(ACTORS)
@example("")
@example("..")
@example("a..b")
@example("x.lock")
@example("a/b")
@example("ann\n")
@example("a" * (ACTOR_CHARACTERS_MAX + 1))
def test_every_actor_has_a_branch_below_agent(actor: str) -> None:
    branch = agent_branch(actor)

    assert parse_branch_name(branch) == branch
    assert branch.startswith("agent/")
    assert branch.count("/") == 1


@pytest.mark.parametrize(("one", "other"), [("a b", "a-b"), ("ann ", "ann"), ("ä", "ö")])
def test_actors_with_similar_names_have_separate_branches(one: str, other: str) -> None:
    assert agent_branch(one) != agent_branch(other)


def test_a_protected_branch_is_refused_in_every_spelling() -> None:
    rule = WritePlacement(agent_branch("ann"), frozenset({"main"}))

    for named in ("main", " main "):
        with pytest.raises(ToolError, match="tools do not write to the branch 'main'"):
            rule.place(named)


def test_a_write_goes_to_the_named_branch_or_to_that_of_the_actor() -> None:
    rule = WritePlacement(agent_branch("ann"), frozenset({"main"}))

    assert rule.place(None) == "agent/ann"
    assert rule.place("draft") == "draft"
    with pytest.raises(InvalidNameError):
        rule.place(7)
