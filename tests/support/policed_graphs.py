"""Graphs under a policy, and every call of a graph with what it asks of the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph import Graph
from omnigraph.embed.providers import MockEmbedder
from omnigraph.engine.graph import open_graph
from omnigraph.engine.retrieval.results import Receipt
from omnigraph.engine.settings import make_settings
from omnigraph.model.ports import Action, Gate
from omnigraph.policy.bundle import SERVER_ACTIONS
from tests.support.graphs import build_graph, edge, ndjson, node, root_of
from tests.support.policies import graph_gate
from tests.support.queries import query

PEOPLE = """
node Person {
  name: String @key
  rank: F64?
  note: String?
  place: Vector(3)? @embed("note")
  face: Blob?
}
edge Knows: Person -> Person
"""
NAMES = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"
ADD_EVE = query('insert Person { name: "Eve" }')

EVERYTHING = frozenset(Action) - SERVER_ACTIONS


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a call asks the policy for."""

    action: Action
    branch: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class GuardedCall:
    """One call of a graph, what it asks for, and whether it can be done without Spark."""

    run: Callable[[Graph], object]
    needs: tuple[Need, ...]
    is_local: bool = True


def guarded_call(run: Callable[[Graph], object], *needs: Need) -> GuardedCall:
    """A call that this process carries out."""
    return GuardedCall(run, needs)


def people_graph(path: Path) -> Graph:
    """Ann and Ben on `main`, Cyd too on the branch `draft`; the tag `v1` is the first commit."""
    face = node("Person", name="Ben", face="base64:QUJD")
    graph = build_graph(path, PEOPLE, node("Person", name="Ann", note="tall"), face)
    graph.tag("v1", graph.head())
    graph.load(ndjson(edge("Knows", "Ann", "Ben")), mode="append")
    graph.create_branch("draft")
    graph.mutate(query('insert Person { name: "Cyd" }'), branch="draft")
    return graph


def allowing(actions: Iterable[Action]) -> Gate:
    """A gate whose only rule allows `ann` some actions, and nothing else."""
    allow = {"actors": {"group": "team"}, "actions": sorted(actions)}
    rules = [{"id": "allowed", "allow": allow}] if allow["actions"] else []
    return graph_gate({"version": 1, "groups": {"team": ["ann"]}, "rules": rules})


def under(graph: Graph, gate: Gate | None, *, actor: str | None = "ann") -> Graph:
    """The same graph, opened again under a gate."""
    plain = make_settings(root_of(graph), storage_options=None, durability="relaxed")
    settings = replace(
        plain, gate=gate, embedder=MockEmbedder("A"), spark_package="omnigraph.spark"
    )
    return open_graph(settings, actor=actor, is_read_only=False)


READ_MAIN = Need(Action.READ, "main")
READ_ANYWHERE = Need(Action.READ)
EXPORT_MAIN = Need(Action.EXPORT, "main")
CHANGE_MAIN = Need(Action.CHANGE, "main")
ADMIN = Need(Action.ADMIN)


def _transact(graph: Graph) -> None:
    with graph.transaction() as tx:
        tx.mutate(ADD_EVE)


def _keep_up(graph: Graph) -> None:
    done = graph.reconciler(keep=1).run_once()
    assert done.errors == ()


def _receipt(graph: Graph) -> Receipt:
    # Given out without a gate: only what is asked of it is asked about.
    return under(graph, None, actor=None).retrieve("tall").receipt


def _last_commit(graph: Graph, branch: str) -> str:
    # Looked up without a gate: naming a commit is not what is asked about.
    return under(graph, None, actor=None).head(branch)


CALL_BY_NAME = {
    # Reading
    "prepare": guarded_call(lambda graph: graph.prepare(NAMES)(), READ_MAIN),
    "query": guarded_call(lambda graph: graph.query(NAMES), READ_MAIN),
    "explain": guarded_call(lambda graph: graph.explain(NAMES), READ_MAIN),
    "entity": guarded_call(lambda graph: graph.entity("Person", "Ann"), READ_MAIN),
    "read_blob": guarded_call(lambda graph: graph.read_blob("Person", "Ben", "face"), READ_MAIN),
    "algorithms": guarded_call(lambda graph: graph.algorithms("Knows").degrees(), READ_MAIN),
    "retrieve": guarded_call(lambda graph: graph.retrieve("tall"), READ_MAIN),
    "retrieve_by": guarded_call(lambda graph: graph.retrieve_by(NAMES), READ_MAIN),
    "replay": guarded_call(lambda graph: graph.replay(_receipt(graph)), READ_MAIN),
    "spark_views": GuardedCall(lambda graph: graph.spark_views(), (READ_MAIN,), is_local=False),
    "commits": guarded_call(lambda graph: graph.commits(), READ_MAIN),
    "head": guarded_call(lambda graph: graph.head(), READ_MAIN),
    "tables": guarded_call(lambda graph: graph.tables(), READ_MAIN),
    "snapshot": guarded_call(lambda graph: graph.snapshot(), READ_MAIN),
    "changes": guarded_call(lambda graph: list(graph.changes("beginning")), READ_MAIN),
    "diff": guarded_call(
        lambda graph: list(graph.diff("main", "draft")), READ_MAIN, Need(Action.READ, "draft")
    ),
    "branches": guarded_call(lambda graph: graph.branches(), READ_ANYWHERE),
    "tags": guarded_call(lambda graph: graph.tags(), READ_ANYWHERE),
    "commit": guarded_call(lambda graph: graph.commit("v1"), READ_ANYWHERE),
    "schema_source": guarded_call(lambda graph: graph.schema_source, READ_ANYWHERE),
    "plan_schema": guarded_call(lambda graph: graph.plan_schema(PEOPLE), READ_ANYWHERE),
    # Taking out
    "export": guarded_call(lambda graph: list(graph.export()), EXPORT_MAIN),
    "export_batches": guarded_call(
        lambda graph: graph.export_batches("Person").read_all(), EXPORT_MAIN
    ),
    "export_files": guarded_call(
        lambda graph: graph.export_files(root_of(graph) / "exported"), EXPORT_MAIN
    ),
    # Changing
    "mutate": guarded_call(lambda graph: graph.mutate(ADD_EVE), CHANGE_MAIN),
    "load": guarded_call(
        lambda graph: graph.load(ndjson(node("Person", name="Eve")), mode="append"), CHANGE_MAIN
    ),
    "bulk": guarded_call(lambda graph: graph.bulk(mode="merge"), CHANGE_MAIN),
    "transaction": guarded_call(_transact, CHANGE_MAIN),
    "embed": guarded_call(lambda graph: graph.embed("Person"), CHANGE_MAIN),
    "revert": guarded_call(
        lambda graph: graph.revert(_last_commit(graph, "main")), CHANGE_MAIN, READ_MAIN
    ),
    "cherry_pick": guarded_call(
        lambda graph: graph.cherry_pick(_last_commit(graph, "draft")),
        CHANGE_MAIN,
        Need(Action.READ, "draft"),
    ),
    "apply_schema": guarded_call(
        lambda graph: graph.apply_schema(PEOPLE.replace("note: String?", "note: String? n: I32?")),
        Need(Action.SCHEMA_APPLY, None, "main"),
    ),
    "create_branch": guarded_call(
        lambda graph: graph.create_branch("more", base="draft"),
        Need(Action.BRANCH_CREATE, "draft", "more"),
    ),
    "delete_branch": guarded_call(
        lambda graph: graph.delete_branch("draft"), Need(Action.BRANCH_DELETE, None, "draft")
    ),
    "merge": guarded_call(
        lambda graph: graph.merge("draft"), Need(Action.BRANCH_MERGE, "draft", "main")
    ),
    # Maintenance
    "tag": guarded_call(lambda graph: graph.tag("v2", "v1"), ADMIN),
    "delete_tag": guarded_call(lambda graph: graph.delete_tag("v1"), ADMIN),
    "ensure_indices": guarded_call(lambda graph: graph.ensure_indices(), ADMIN),
    "optimize": guarded_call(lambda graph: graph.optimize(), ADMIN),
    "cleanup": guarded_call(lambda graph: graph.cleanup(keep=1), ADMIN),
    "repair": guarded_call(lambda graph: graph.repair(), ADMIN),
    "recoveries": guarded_call(lambda graph: graph.recoveries(), ADMIN),
    "doctor": guarded_call(lambda graph: graph.doctor(), ADMIN),
    "stats": guarded_call(lambda graph: graph.stats(), ADMIN),
    "reconciler": guarded_call(_keep_up, ADMIN),
    # Calls that no policy covers, or that disclose nothing about the graph
    "refresh": guarded_call(lambda graph: graph.refresh()),
    "for_actor": guarded_call(lambda graph: graph.for_actor("ben")),
    "actor": guarded_call(lambda graph: graph.actor),
    "uri": guarded_call(lambda graph: graph.uri),
    "close": guarded_call(lambda graph: graph.close()),
}
"""Every public name of a graph, with a call of it and what that asks for."""
