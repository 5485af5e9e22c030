"""What has to change, what it touches, and whose word it needs; no storage is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from omnigraph.cluster.approvals import Approval
from omnigraph.cluster.config import ClusterConfig, GraphDeclaration
from omnigraph.cluster.desired import Desired, Resource, find_dependencies
from omnigraph.cluster.plan import Change, Plan, make_plan
from omnigraph.cluster.resources import Kind, kind_of
from omnigraph.cluster.sources import SourceFile, Sources
from omnigraph.cluster.state import APPLIED, EMPTY, AppliedResource, ClusterState

BINDINGS = {"policy.p": ("graph.a",)}
PROVIDERS = {"graph.a": "provider.embedding.e"}


def entry(address: str, digest: str) -> AppliedResource:
    return AppliedResource(digest, BINDINGS.get(address), PROVIDERS.get(address))


def desiring(**digests: str) -> Desired:
    """Resources by address, with `_` for a dot."""
    resources = {
        (address := name.replace("_", ".")): Resource(address, None, None, entry(address, digest))
        for name, digest in digests.items()
    }
    graphs = {
        address.partition(".")[2]: GraphDeclaration(address.partition(".")[2], "", (), {}, None)
        for address in resources
        if kind_of(address) is Kind.GRAPH
    }
    return Desired(
        config=ClusterConfig(None, None, True, {}, graphs, {}),  # noqa: FBT003
        sources=Sources(Path(), SourceFile("cluster.yaml", b""), {}, {}),
        resources=resources,
        graphs={},
        dependencies=find_dependencies(
            {address: each.entry for address, each in resources.items()}
        ),
        config_digest="wanted",
    )


def knowing(**digests: str) -> ClusterState:
    ledger = EMPTY
    for name, digest in digests.items():
        address = name.replace("_", ".")
        ledger = ledger.having(address, entry(address, digest), APPLIED)
    return ledger


def approval() -> Approval:
    return Approval("01", "graph.a", "delete", "wanted", "1", None, "ann", "then", None)


def planned(
    desired: Desired,
    ledger: ClusterState,
    *,
    pending: frozenset[str] = frozenset(),
    approvals: tuple[Approval, ...] = (),
) -> Plan:
    return make_plan(desired, ledger, pending=pending, approvals=approvals, migrations={})


def outcomes(changes: tuple[Change, ...]) -> dict[str, str]:
    return {
        each.resource: f"{each.operation} {each.disposition} {each.reason or ''}".strip()
        for each in changes
    }


ALL = {"graph_a": "1", "schema_a": "1", "query_a_q": "1", "policy_p": "1"}


def test_what_is_applied_as_desired_needs_no_change() -> None:
    plan = planned(desiring(**ALL), knowing(**ALL))

    assert plan == Plan((), (), (), ())


def test_what_is_not_there_is_created() -> None:
    plan = planned(desiring(**ALL), EMPTY)

    assert set(outcomes(plan.changes).values()) == {"create applied"}


def test_a_graph_changes_by_its_parts() -> None:
    plan = planned(desiring(**{**ALL, "graph_a": "2", "query_a_q": "2"}), knowing(**ALL))

    assert outcomes(plan.changes) == {"graph.a": "update derived", "query.a.q": "update applied"}


def test_a_deletion_waits_for_one_approval_and_keeps_its_policy_until_then() -> None:
    plan = planned(desiring(), knowing(**ALL))

    assert outcomes(plan.changes) == {
        "graph.a": "delete blocked approval_required",
        "policy.p": "delete blocked dependency_not_applied",
        "query.a.q": "delete blocked approval_required",
        "schema.a": "delete blocked approval_required",
    }
    assert [(each.resource, each.approval) for each in plan.gates] == [("graph.a", None)]


def test_an_approved_deletion_deletes_every_part() -> None:
    plan = planned(desiring(), knowing(**ALL), approvals=(approval(),))

    assert set(outcomes(plan.changes).values()) == {"delete applied"}
    assert plan.gates[0].approval == approval()


def test_an_approval_of_another_change_does_not_count() -> None:
    others = (
        replace(approval(), config_digest="another"),
        replace(approval(), before_digest="2"),
        replace(approval(), operation="update"),
    )

    plan = planned(desiring(), knowing(**ALL), approvals=others)

    assert plan.stale == others
    assert plan.gates[0].approval is None


def test_an_approval_counts_once() -> None:
    used = replace(approval(), consumed_at="then")
    recorded = replace(knowing(**ALL), approval_records={"01": {"consumed_at": "then"}})

    by_its_mark = planned(desiring(), knowing(**ALL), approvals=(used,))
    by_the_ledger = planned(desiring(), recorded, approvals=(approval(),))

    assert by_its_mark.gates[0].approval is None
    assert by_the_ledger.gates[0].approval is None


def test_a_graph_with_an_unresolved_change_and_its_policy_stay_unchanged() -> None:
    wanted = {**ALL, "graph_a": "2", "schema_a": "2", "policy_p": "2"}

    plan = planned(desiring(**wanted), knowing(**ALL), pending=frozenset({"a"}))

    assert outcomes(plan.changes) == {
        "graph.a": "update blocked cluster_recovery_pending",
        "policy.p": "update blocked dependency_not_applied",
        "schema.a": "update blocked cluster_recovery_pending",
    }


def test_a_schema_without_a_graph_is_deferred() -> None:
    plan = planned(desiring(), knowing(schema_a="1"))

    assert outcomes(plan.changes) == {"schema.a": "delete deferred apply_unsupported_kind"}


def test_a_provider_stays_for_a_graph_that_stays() -> None:
    ledger = knowing(graph_a="1", schema_a="1", provider_embedding_e="1")

    plan = planned(desiring(), ledger)

    assert outcomes(plan.changes)["provider.embedding.e"] == "delete blocked dependency_not_applied"


def test_a_change_reaches_all_that_needs_it() -> None:
    wanted = {**ALL, "provider_embedding_e": "2", "graph_a": "2"}
    had = {**ALL, "provider_embedding_e": "1"}

    plan = planned(desiring(**wanted), knowing(**had))

    assert [(each.resource, each.affected) for each in plan.reaches] == [
        ("provider.embedding.e", ("graph.a", "policy.p", "query.a.q", "schema.a"))
    ]
