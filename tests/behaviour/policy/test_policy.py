"""A policy applies to every call of a graph that was opened with it, and to nothing else."""

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import ForbiddenError, PolicyDeniedError
from omnigraph.model.ports import Action
from omnigraph.policy.gate import PolicyGate
from tests.support.graphs import ndjson, node, unchanged
from tests.support.policed_graphs import (
    ADD_EVE,
    CALL_BY_NAME,
    EVERYTHING,
    NAMES,
    allowing,
    people_graph,
    under,
)
from tests.support.policies import graph_gate
from tests.support.queries import query

LOCAL_CALLS = sorted(name for name, each in CALL_BY_NAME.items() if each.is_local)
GUARDED_CALLS = sorted(name for name, each in CALL_BY_NAME.items() if each.needs)


def test_every_call_of_a_graph_is_listed_with_its_permissions() -> None:
    public = {name for name in dir(Graph) if not name.startswith("_")}

    assert public == set(CALL_BY_NAME)


@pytest.mark.parametrize("name", LOCAL_CALLS)
def test_an_actor_with_the_needed_permissions_may_make_a_call(name: str, tmp_path: Path) -> None:
    call = CALL_BY_NAME[name]
    graph = under(people_graph(tmp_path), allowing(need.action for need in call.needs))

    call.run(graph)


@pytest.mark.parametrize("name", GUARDED_CALLS)
def test_an_actor_without_one_needed_permission_is_denied(name: str, tmp_path: Path) -> None:
    call = CALL_BY_NAME[name]
    graph = people_graph(tmp_path)

    for need in call.needs:
        policed = under(graph, allowing(EVERYTHING - {need.action}))
        with unchanged(graph), pytest.raises(PolicyDeniedError) as denied:
            call.run(policed)

        error = denied.value
        assert error.actor == "ann"
        found = (error.action, error.branch, error.target)
        # Of two needs of one action the first is checked first.
        assert found in {(each.action, each.branch, each.target) for each in call.needs}
        assert error.action == need.action


@pytest.mark.parametrize("name", GUARDED_CALLS)
def test_under_a_policy_a_call_needs_an_actor(name: str, tmp_path: Path) -> None:
    graph = people_graph(tmp_path)
    policed = under(graph, allowing(EVERYTHING), actor=None)

    with unchanged(graph), pytest.raises(PolicyDeniedError, match="open the graph for an actor"):
        CALL_BY_NAME[name].run(policed)


def test_without_a_policy_any_actor_may_make_any_call(tmp_path: Path) -> None:
    graph = under(people_graph(tmp_path), None, actor=None)

    graph.mutate(ADD_EVE, actor="anyone")

    assert graph.commits()[-1].actor == "anyone"


def test_access_to_a_commit_is_that_to_its_branch(tmp_path: Path) -> None:
    graph = people_graph(tmp_path)
    on_main, on_draft = graph.head(), graph.head("draft")
    policed = under(graph, _reading_only("protected"))

    assert len(policed.query(NAMES, commit=on_main)) == 2
    assert len(policed.query(NAMES, commit="v1")) == 2
    with pytest.raises(PolicyDeniedError, match="on branch 'draft'"):
        policed.query(NAMES, commit=on_draft)
    with pytest.raises(PolicyDeniedError, match="on branch 'draft'"):
        list(policed.diff(on_main, on_draft))
    with pytest.raises(PolicyDeniedError, match="action 'read' for actor"):
        policed.branches()


def test_an_unreadable_branch_is_refused_like_a_missing_one(
    tmp_path: Path,
) -> None:
    policed = under(people_graph(tmp_path), _reading_only("protected"))

    for branch in ("draft", "nowhere"):
        with pytest.raises(PolicyDeniedError):
            policed.query(NAMES, branch=branch)


def test_a_call_cannot_name_another_actor(tmp_path: Path) -> None:
    graph = people_graph(tmp_path)
    policed = under(graph, allowing(EVERYTHING))

    policed.mutate(ADD_EVE, actor="ann")

    with unchanged(graph):
        for call in (
            lambda: policed.mutate(ADD_EVE, actor="ben"),
            lambda: policed.load(ndjson(node("Person", name="Fay")), mode="merge", actor="ben"),
            lambda: policed.create_branch("more", actor="ben"),
            lambda: policed.delete_branch("draft", actor="ben"),
            lambda: policed.merge("draft", actor="ben"),
            lambda: policed.tag("v2", "v1", actor="ben"),
            lambda: policed.transaction(actor="ben"),
        ):
            with pytest.raises(ForbiddenError, match="ann may not act as 'ben'"):
                call()


def test_a_graph_for_another_actor_is_the_same_graph(tmp_path: Path) -> None:
    graph = people_graph(tmp_path)
    policed = under(graph, allowing(EVERYTHING))

    ben = policed.for_actor("ben")

    policed.mutate(ADD_EVE)
    assert ben.uri == policed.uri
    with pytest.raises(PolicyDeniedError, match="unknown actor 'ben'"):
        ben.head()
    assert policed.commits()[-1].actor == "ann"


def test_a_graph_for_another_actor_writes_in_that_actors_name(tmp_path: Path) -> None:
    graph = people_graph(tmp_path)

    graph.for_actor("ben").mutate(ADD_EVE)

    assert graph.commits()[-1].actor == "ben"


def test_a_graph_for_another_actor_is_closed_alone_or_with_the_one_it_is_of(
    tmp_path: Path,
) -> None:
    graph = people_graph(tmp_path)
    ben, cyd = graph.for_actor("ben"), graph.for_actor("cyd")

    ben.close()

    with pytest.raises(ForbiddenError, match="closed"):
        ben.head()
    assert cyd.head() == graph.head()
    graph.close()
    with pytest.raises(ForbiddenError, match="closed"):
        cyd.head()


def test_the_reconciler_of_another_actor_stops_with_the_graph(tmp_path: Path) -> None:
    graph = people_graph(tmp_path)
    reconciler = graph.for_actor("ben").reconciler()
    reconciler.start()

    graph.close()

    assert not reconciler.is_running


def test_a_transaction_is_authorized_on_the_branch_that_it_began_on(tmp_path: Path) -> None:
    graph = people_graph(tmp_path)
    policed = under(graph, _drafting())

    with policed.transaction("draft") as tx:
        tx.mutate(ADD_EVE)
        tx.load(ndjson(node("Person", name="Fay")), mode="append")
        assert len(tx.query(NAMES)) == 5
        assert tx.entity("Person", "Eve") is not None
        with pytest.raises(PolicyDeniedError, match="action 'export' on branch 'draft'"):
            tx.export()

    assert len(policed.query(NAMES, branch="draft")) == 5
    with unchanged(graph), pytest.raises(PolicyDeniedError, match="'change' on branch 'main'"):
        policed.transaction("main")


def test_a_load_that_creates_a_branch_needs_both_permissions(tmp_path: Path) -> None:
    graph = people_graph(tmp_path)
    rows = node("Person", name="Fay")

    with unchanged(graph), pytest.raises(PolicyDeniedError) as denied:
        under(graph, allowing(EVERYTHING - {Action.BRANCH_CREATE})).load(
            ndjson(rows), mode="merge", branch="more", base="draft"
        )
    under(graph, allowing({Action.CHANGE})).load(
        ndjson(rows), mode="merge", branch="draft", base="main"
    )
    under(graph, allowing({Action.CHANGE, Action.BRANCH_CREATE})).load(
        ndjson(rows), mode="merge", branch="more", base="draft"
    )

    error = denied.value
    assert (error.action, error.branch, error.target) == ("branch_create", "draft", "more")
    assert "more" in graph.branches()


def test_writing_back_a_result_needs_the_change_permission(tmp_path: Path) -> None:
    graph = people_graph(tmp_path)
    ranks = under(graph, allowing({Action.READ})).algorithms("Knows").pagerank()
    allowed = under(graph, allowing({Action.READ, Action.CHANGE})).algorithms("Knows").pagerank()

    with unchanged(graph), pytest.raises(PolicyDeniedError, match="'change' on branch 'main'"):
        ranks.write_property("rank")

    assert allowed.write_property("rank").affected_nodes == 2


def test_recovery_needs_no_permission(tmp_path: Path) -> None:
    graph = people_graph(tmp_path)

    under(graph, allowing(()), actor=None).refresh()


def test_a_dry_run_of_a_merge_needs_the_merge_permission(tmp_path: Path) -> None:
    policed = under(people_graph(tmp_path), allowing({Action.READ}))

    with pytest.raises(PolicyDeniedError, match="branch_merge"):
        policed.merge("draft", dry_run=True)


def test_a_denied_write_costs_no_commit_and_leaves_no_trace(tmp_path: Path) -> None:
    graph = people_graph(tmp_path)
    policed = under(graph, _drafting())

    with unchanged(graph), pytest.raises(PolicyDeniedError):
        policed.mutate(query('delete Person where name = "Ann"'))

    policed.mutate(ADD_EVE, branch="draft")
    assert graph.commits("draft")[-1].actor == "ann"


def _reading_only(scope: str) -> PolicyGate:
    allow = {"actors": {"group": "team"}, "actions": ["read"], "branch_scope": scope}
    return _gate_of({"id": "read", "allow": allow})


def _drafting() -> PolicyGate:
    return _gate_of(
        {"id": "read", "allow": {"actors": {"group": "team"}, "actions": ["read"]}},
        {
            "id": "draft",
            "allow": {
                "actors": {"group": "team"},
                "actions": ["change"],
                "branch_scope": "unprotected",
            },
        },
    )


def _gate_of(*rules: object) -> PolicyGate:
    return graph_gate(
        {
            "version": 1,
            "groups": {"team": ["ann"]},
            "protected_branches": ["main"],
            "rules": list(rules),
        }
    )
