"""From any declaration to any other, cut anywhere: the cluster ends as what was declared last."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import approve, force_unlock, import_cluster, plan, status
from omnigraph.cluster.context import open_cluster
from omnigraph.cluster.desired import read_desired
from omnigraph.cluster.resources import Findings
from omnigraph.cluster.serving import read_serving_snapshot
from tests.support.clusters import (
    FIND_EMAIL,
    FIND_PERSON,
    PEOPLE,
    PEOPLE_WITH_EMAIL,
    TEAM_POLICY,
    faulty_context,
    plain_context,
    require_converged,
    write_config,
    write_files,
)
from tests.support.crashing import Fault, Scope, SimulatedCrash, When

ROUNDS_MAX = 4


@dataclass(frozen=True, slots=True)
class Declared:
    """A graph as a folder may declare it."""

    has_email: bool
    has_query: bool
    is_policed: bool
    is_embedded: bool

    @property
    def schema(self) -> str:
        return PEOPLE_WITH_EMAIL if self.has_email else PEOPLE

    @property
    def queries(self) -> str:
        return FIND_PERSON + (FIND_EMAIL if self.has_email else "") if self.has_query else ""


GRAPHS = st.builds(
    Declared,
    has_email=st.booleans(),
    has_query=st.booleans(),
    is_policed=st.booleans(),
    is_embedded=st.booleans(),
)
DECLARATIONS = st.dictionaries(st.sampled_from(["a", "b"]), GRAPHS, max_size=2)


def declare(folder: Path, graphs: dict[str, Declared]) -> None:
    write_files(folder, {"team.yaml": TEAM_POLICY})
    for id, graph in graphs.items():
        write_files(folder, {f"{id}.pg": graph.schema, f"{id}.gq": graph.queries})
    policed = [id for id, graph in graphs.items() if graph.is_policed]
    policies = {"team": {"file": "team.yaml", "applies_to": policed}} if policed else {}
    embedded = any(graph.is_embedded for graph in graphs.values())
    write_config(
        folder,
        {
            "providers": {"embedding": {"fake": {"kind": "mock"}}} if embedded else {},
            "graphs": {
                id: {
                    "schema": f"{id}.pg",
                    "queries": [f"{id}.gq"],
                    **({"embedding_provider": "fake"} if graph.is_embedded else {}),
                }
                for id, graph in graphs.items()
            },
            "policies": policies,
        },
    )


def converge(folder: Path) -> None:
    """Apply until there is nothing left to do."""
    for _ in range(ROUNDS_MAX):
        prepare(folder)
        report = apply(folder, plain_context(), actor="ann")
        assert report.heading.is_ok, report.heading.findings
        if report.is_converged:
            return
    raise AssertionError(f"not converged after {ROUNDS_MAX} rounds")


def require_as_declared(folder: Path, graphs: dict[str, Declared]) -> None:
    desired = read_desired(folder, Findings())
    facts = status(folder, plain_context()).facts
    assert facts is not None
    assert facts.ledger is not None
    assert facts.ledger.digests == desired.digests
    assert facts.ledger.config_digest == desired.config_digest
    assert {each.status for each in facts.ledger.statuses.values()} <= {"applied"}
    stored = filter(holds_more_than_locks, (folder / "graphs").glob("*.omni"))
    assert {path.stem for path in stored} == set(graphs)
    for id, graph in graphs.items():
        with omnigraph.open(folder / f"graphs/{id}.omni", read_only=True) as opened:
            assert opened.schema_source == graph.schema
    if graphs:
        served = read_serving_snapshot(open_cluster(str(folder), plain_context()))
        assert {
            each.id: (len(each.queries), each.policy is not None, each.embedding is not None)
            for each in served.graphs
        } == {
            id: (graph.queries.count("query "), graph.is_policed, graph.is_embedded)
            for id, graph in graphs.items()
        }


def holds_more_than_locks(path: Path) -> bool:
    return any(each.is_file() and "__locks" not in each.parts for each in path.rglob("*"))


def prepare(folder: Path) -> None:
    """What a person does before an apply: take a dead lock away, agree to what is to go."""
    facts = status(folder, plain_context()).facts
    assert facts is not None
    if facts.held is not None:
        force_unlock(folder, plain_context(), lock_id=facts.held.id)
    planned = plan(folder, plain_context()).plan
    assert planned is not None
    for gate in planned.gates:
        if gate.approval is None:
            approve(folder, plain_context(), resource=gate.resource, actor="ann")


@settings(max_examples=20)
@given(
    first=DECLARATIONS,
    later=st.lists(
        st.tuples(DECLARATIONS, st.integers(1, 30), st.sampled_from(When)), min_size=1, max_size=2
    ),
)
def test_a_cluster_ends_as_what_was_declared_last(
    first: dict[str, Declared], later: list[tuple[dict[str, Declared], int, When]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        declare(folder, first)
        import_cluster(folder, plain_context(), actor=None)
        require_converged(apply(folder, plain_context(), actor="ann"))

        for graphs, at, when in later:
            declare(folder, graphs)
            prepare(folder)
            with suppress(SimulatedCrash):
                fault = Fault(at=at, when=when, scope=Scope.EFFECTS)
                apply(folder, faulty_context(fault), actor="ann")
        converge(folder)

        require_as_declared(folder, later[-1][0])
        assert not apply(folder, plain_context(), actor="ann").is_written
