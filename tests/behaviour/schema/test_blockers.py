"""A plan says whether an apply would be refused because of other branches."""

from pathlib import Path

import pytest

from omnigraph.errors import StillNeededError
from tests.support.commands import invoke_command
from tests.support.graphs import SOCIAL, social_graph
from tests.support.stored_people import write_text


def test_a_plan_reports_the_branches_that_an_apply_is_refused_for(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    desired = SOCIAL.replace("  age: I32?", "", 1)
    free = graph.plan_schema(desired)
    graph.create_branch("side")

    plan = graph.plan_schema(desired)
    with pytest.raises(StillNeededError) as refused:
        graph.apply_schema(desired)
    graph.close()
    file = write_text(tmp_path, "desired.pg", desired)
    shown = invoke_command("schema", "plan", tmp_path / "graph", "--schema", file)

    assert (free.supported, free.blockers) == (True, ())
    assert (plan.supported, plan.blockers) == (False, (str(refused.value),))
    assert "branch 'side'" in plan.blockers[0]
    assert "supported: no" in shown.out, shown
    assert "blocked: " in shown.out
