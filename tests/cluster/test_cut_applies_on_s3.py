"""An apply in a bucket that loses any request is finished by the next one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from omnigraph.cluster.apply import apply
from omnigraph.cluster.commands import approve, force_unlock, import_cluster, status
from omnigraph.cluster.context import ClusterContext, make_context
from omnigraph.cluster.reports import ApplyReport
from tests.support.clusters import (
    FIND_EMAIL,
    PEOPLE_WITH_EMAIL,
    codes_of,
    knowledge_cluster,
    require_converged,
    two_graph_cluster,
    write_config,
    write_files,
)
from tests.support.s3_faults import (
    FaultyS3,
    RequestFault,
    Scope,
    Way,
    serve_faulty_s3,
)

Prepare = Callable[[Path, FaultyS3], None]


@pytest.fixture(scope="module")
def faulty() -> Iterator[FaultyS3]:
    """One endpoint for the module."""
    with serve_faulty_s3() as running:
        yield running


def context_of(faulty: FaultyS3) -> ClusterContext:
    return make_context(storage_options=faulty.options, durability="full")


def at_place(folder: Path, faulty: FaultyS3) -> Path:
    """The folder, with its cluster where the bucket is now."""
    lines = (folder / "cluster.yaml").read_text().splitlines()
    remaining = [line for line in lines if not line.startswith("storage:")]
    (folder / "cluster.yaml").write_text("\n".join([*remaining, f"storage: {faulty.uri}", ""]))
    return folder


def changed(folder: Path, faulty: FaultyS3) -> None:
    """A graph to create, one to migrate, a query to publish."""
    at_place(knowledge_cluster(folder), faulty)
    import_cluster(folder, context_of(faulty), actor=None)
    require_converged(apply(folder, context_of(faulty), actor="ann"))
    at_place(two_graph_cluster(folder), faulty)
    write_files(folder, {"people.pg": PEOPLE_WITH_EMAIL, "queries/email.gq": FIND_EMAIL})


def agreed(folder: Path, faulty: FaultyS3) -> None:
    """A graph to delete, with an approval."""
    at_place(two_graph_cluster(folder), faulty)
    import_cluster(folder, context_of(faulty), actor=None)
    require_converged(apply(folder, context_of(faulty), actor="ann"))
    write_config(folder, {"graphs": {"knowledge": {"schema": "people.pg"}}})
    at_place(folder, faulty)
    report = approve(folder, context_of(faulty), resource="graph.map", actor="ann")
    assert report.heading.is_ok, report.heading.findings


@pytest.mark.parametrize("way", [Way.CUT, Way.LOST])
@pytest.mark.parametrize(("prepare", "writes"), [(changed, 8), (agreed, 6)])
def test_an_apply_that_loses_what_it_writes_down_is_finished_by_the_next(
    tmp_path: Path, faulty: FaultyS3, prepare: Prepare, writes: int, way: Way
) -> None:
    round_of = rounds(tmp_path, faulty, prepare)

    for at in range(1, writes + 2):
        fault = RequestFault(at=at, way=way, scope=Scope.WRITES, part="/__cluster/")
        first = round_of(fault)
        assert (fault.hit is None) == (at > writes), "there is more, or less, to be lost"
        if way is Way.LOST:
            # It is sent again, and finds what it has written itself.
            require_converged(first)


@pytest.mark.parametrize(
    ("prepare", "at"), [(changed, 2), (changed, 12), (changed, 22), (agreed, 1)]
)
def test_an_apply_whose_graph_is_cut_on_its_way_is_finished_by_the_next(
    tmp_path: Path, faulty: FaultyS3, prepare: Prepare, at: int
) -> None:
    # Every request of a graph is cut by the sweeps over graphs; here it is what a cluster makes
    # of some of them.
    fault = RequestFault(at=at, way=Way.CUT, scope=Scope.WRITES, part="/graphs/")

    first = rounds(tmp_path, faulty, prepare)(fault)

    assert fault.hit is not None
    assert not first.is_converged


def rounds(
    folder: Path, faulty: FaultyS3, prepare: Prepare
) -> Callable[[RequestFault], ApplyReport]:
    """Applies that meet a fault, each from the same state, and each finished by a second one."""
    faulty.start_over({})
    prepare(folder, faulty)
    before = faulty.stored()
    require_converged(apply(folder, context_of(faulty), actor="ann"))
    wanted = ending_of(faulty.stored())

    def play(fault: RequestFault) -> ApplyReport:
        faulty.set_back(before)
        with faulty.failing(fault):
            first = apply(folder, context_of(faulty), actor="ann")
        unlock(folder, faulty)
        require_converged(apply(folder, context_of(faulty), actor="ann"))
        ended = faulty.stored()
        assert ending_of(ended) == wanted, fault
        assert not [path for path in ended if path.startswith("__cluster/recoveries/")], fault
        assert "__cluster/lock.json" not in ended
        return first

    return play


def ending_of(stored: Mapping[str, bytes]) -> object:
    """What an apply leaves, without ids and times."""
    state = json.loads(stored["__cluster/state.json"])
    graphs = {path.split("/")[1] for path in stored if path.startswith("graphs/")}
    return state["applied_revision"], state["resource_statuses"], graphs


def unlock(folder: Path, faulty: FaultyS3) -> None:
    """What an operator does after a crash when no process is running."""
    facts = status(folder, context_of(faulty)).facts
    assert facts is not None
    if facts.held is not None:
        refused = apply(folder, context_of(faulty), actor="bob")
        assert codes_of(refused.heading.findings) == {"state_lock_held"}
        assert force_unlock(folder, context_of(faulty), lock_id=facts.held.id).removed is not None
