"""Writes that really stop midway: at a table, at a sidecar, on a branch that is deleted.

Each dies because its storage failed at one durable effect, as a full disk or a lost network does,
so the remains are those of a writer and none is edited by hand.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.commit.recover import Facts, PinClass, classify
from omnigraph.engine.commit.sidecar import RECOVERY_PREFIX, Pin, decode_sidecar
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.manifest import manifest_ref
from omnigraph.errors import (
    CorruptError,
    DriftError,
    RecoveryRequiredError,
    UnavailableError,
)
from omnigraph.model.names import RECOVERY_ACTOR, BranchName
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.ports import Listing, ObjectStore, Stores, TableRef, TableVersion
from tests.support.crashing import Fault, Scope, When
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    Contents,
    contents,
    edge,
    head_versions,
    ndjson,
    node,
    open_with,
    pins,
    require_linear,
    rows,
    sidecars,
    social_graph,
    table_paths,
)
from tests.support.queries import query
from tests.support.sweeps import open_crashing

EVE = query('insert Person { name: "Eve" }')
FRANK = query('insert Person { name: "Frank" }')
INITECH = query('insert Company { name: "Initech" }')
BEFORE_PUBLISH = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER
THREE_TYPES = ("edge:WorksAt", "node:Company", "node:Person")

# The effects of a write in order: its record, then one version a type.
RECORD, FIRST_TYPE, SECOND_TYPE = 1, 2, 3

# More effects than the discarding of a write has.
EFFECTS_MAX = 8

GHOST = "01ARZ3NDEKTSV4RRFFQ69G5FAV.json"


@dataclass(frozen=True, slots=True)
class Stopped:
    """A graph on which a write stopped, and what it was before."""

    graph: Graph
    before: Contents
    pins: dict[str, int]


def load_three_types(graph: Graph, *, branch: str = "main") -> object:
    """Eve comes to work at Initech."""
    return graph.load(
        ndjson(
            node("Person", name="Eve"),
            node("Company", name="Initech"),
            edge("WorksAt", "Eve", "Initech"),
        ),
        mode="append",
        branch=branch,
        actor="ann",
    )


def stop(root: Path, write: Callable[[Graph], object], *, at: int) -> Stopped:
    """Fail a write at its N-th effect; later effects succeed."""
    fault = Fault(at=at, when=When.ERROR_ONCE, scope=Scope.EFFECTS)
    graph = open_crashing(root, fault)
    before, pinned = contents(graph), dict(pins(graph))
    with pytest.raises(RecoveryRequiredError):
        write(graph)
    assert len(sidecars(root)) == 1
    return Stopped(graph, before, pinned)


def require_recovered(graph: Graph, root: Path) -> None:
    """Nothing is left of a recovery but its result."""
    assert sidecars(root) == []
    assert head_versions(root) == pins(graph)
    require_linear(graph.commits())


def remove_branch(name: str, *, root: Path) -> None:
    """Delete a branch of the history and of every table without any open graph."""
    tables = open_stores(make_settings(root, storage_options=None, durability="relaxed")).tables
    tables.delete_branch(manifest_ref(BranchName(name)))
    for path in table_paths(root).values():
        tables.delete_branch(TableRef(str(path.relative_to(root)), name))


# Applied types


def test_g04_a_load_of_three_types_is_finished_by_the_next_load(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)
    with failpoints.activate(BEFORE_PUBLISH, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        load_three_types(graph)

    graph.load(ndjson(node("Person", name="Frank")), mode="append")

    assert {"Eve", "Frank"} <= rows(graph, "Person").keys()
    assert "Initech" in rows(graph, "Company")
    (recovery,) = graph.recoveries()
    assert (recovery.kind, recovery.writer_kind) == ("RolledForward", "Load")
    assert sorted(each.table_key for each in recovery.outcomes) == list(THREE_TYPES)
    require_recovered(graph, tmp_path)


def test_g05_a_load_on_a_branch_is_finished_there_behind_its_head(tmp_path: Path) -> None:
    with social_graph(tmp_path) as built:
        built.create_branch("feature")
        built.mutate(FRANK, branch="feature")
        main, head = (dict(pins(built)), built.head()), built.head("feature")
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)
    with failpoints.activate(BEFORE_PUBLISH, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        load_three_types(graph, branch="feature")

    with omnigraph.open(tmp_path) as reopened:
        last = reopened.commits("feature")[-1]
        assert (last.parent_id, last.actor) == (head, "ann")
        assert {"Eve", "Frank"} <= rows(reopened, "Person", "feature").keys()
        assert (pins(reopened), reopened.head()) == main


def test_g13_a_running_graph_undoes_a_write_that_moved_some_of_its_types(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    stopped = stop(tmp_path, load_three_types, at=SECOND_TYPE)

    stopped.graph.mutate(FRANK)

    assert rows(stopped.graph, "Person").keys() == stopped.before["Person"].keys() | {"Frank"}
    assert "Initech" not in rows(stopped.graph, "Company")
    require_recovered(stopped.graph, tmp_path)


def test_g14_undoing_says_from_which_version_to_which(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    stopped = stop(tmp_path, load_three_types, at=SECOND_TYPE)
    ahead = {
        key: newest
        for key, newest in head_versions(tmp_path).items()
        if newest != stopped.pins[key]
    }

    with omnigraph.open(tmp_path) as graph:
        assert contents(graph) == stopped.before
        (recovery,) = graph.recoveries()
        assert recovery.kind == "RolledBack"
        assert {each.table_key: each.from_version for each in recovery.outcomes} == ahead
        assert all(each.to_version == stopped.pins[each.table_key] for each in recovery.outcomes)
        assert all(pins(graph)[key] > newest for key, newest in ahead.items())
        assert graph.commits()[-1].actor == RECOVERY_ACTOR
        require_recovered(graph, tmp_path)


def test_g16_a_version_of_another_writer_is_not_undone(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    stopped = stop(tmp_path, lambda graph: graph.mutate(EVE), at=FIRST_TYPE)
    people = lance.dataset(str(table_paths(tmp_path)["node:Person"]))
    stranger = pa.table({"id": ["X"], "age": pa.array([1], pa.int32()), "name": ["X"]})
    lance.write_dataset(stranger.cast(people.schema), people.uri, mode="append")
    moved = head_versions(tmp_path)

    with omnigraph.open(tmp_path) as graph:
        assert head_versions(tmp_path) == moved
        assert contents(graph) == stopped.before
        assert pins(graph) == stopped.pins
        assert sidecars(tmp_path) == []
        with pytest.raises(DriftError, match="omnigraph repair"):
            graph.mutate(EVE)


def test_g17_a_running_graph_stops_too_when_a_type_is_behind_history(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    stopped = stop(tmp_path, lambda graph: graph.mutate(EVE), at=FIRST_TYPE)
    min((table_paths(tmp_path)["node:Person"] / "_versions").glob("*.manifest")).unlink()

    with pytest.raises(CorruptError, match=r"__recovery/.* is kept"):
        omnigraph.open(tmp_path).mutate(INITECH)
    with pytest.raises(CorruptError, match=r"__recovery/.* is kept"):
        stopped.graph.mutate(INITECH)

    assert len(sidecars(tmp_path)) == 1


def test_g19_a_write_that_died_before_its_first_type_makes_no_commit(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    stopped = stop(tmp_path, load_three_types, at=FIRST_TYPE)
    commits = stopped.graph.commits()

    stopped.graph.refresh()

    assert contents(stopped.graph) == stopped.before
    assert stopped.graph.commits() == commits
    (recovery,) = stopped.graph.recoveries()
    assert (recovery.kind, recovery.outcomes) == ("EmptyIntentDiscarded", ())
    require_recovered(stopped.graph, tmp_path)


# Records


@pytest.mark.parametrize("when", [When.ERROR_ONCE, When.LOST], ids=["refused", "lost"])
def test_g07_a_record_that_could_not_be_written_leaves_types_where_they_are(
    tmp_path: Path, when: When
) -> None:
    social_graph(tmp_path).close()
    graph = open_crashing(tmp_path, Fault(at=RECORD, when=when, scope=Scope.EFFECTS))
    before = head_versions(tmp_path)

    with pytest.raises(UnavailableError):
        graph.mutate(EVE)

    assert head_versions(tmp_path) == before == pins(graph)
    graph.mutate(EVE)
    assert "Eve" in rows(graph, "Person")
    require_recovered(graph, tmp_path)


class RetoldObjects:
    """Real objects with altered listings."""

    def __init__(self, objects: ObjectStore, change: Callable[[str, Listing], Listing]) -> None:
        self._objects = objects
        self._change = change
        self.find = objects.find
        self.put = objects.put
        self.put_if_absent = objects.put_if_absent
        self.put_if_match = objects.put_if_match
        self.delete = objects.delete
        self.delete_prefix = objects.delete_prefix

    def list(self, prefix: str) -> Listing:
        return self._change(prefix, self._objects.list(prefix))

    def tokens(self, prefix: str) -> Mapping[str, str]:
        return self.list(prefix).token_by_name


def open_retold(root: Path, change: Callable[[str, Listing], Listing]) -> Graph:
    """The graph of a directory with altered listings."""
    settings = make_settings(root, storage_options=None, durability="relaxed")
    stores = open_stores(settings)
    retold = Stores(RetoldObjects(stores.objects, change), stores.tables)
    return Graph(settings, retold, actor=None, is_read_only=False)


def test_a_sidecar_deleted_before_it_is_read_blocks_no_writer(tmp_path: Path) -> None:
    social_graph(tmp_path).close()

    def add_a_ghost(prefix: str, listed: Listing) -> Listing:
        if prefix == "__recovery":
            return Listing({**listed.token_by_name, GHOST: "1"}, listed.prefixes)
        return Listing(listed.token_by_name, listed.prefixes | {"__recovery"})

    graph = open_retold(tmp_path, add_a_ghost)

    graph.refresh()
    graph.mutate(EVE)

    assert "Eve" in rows(graph, "Person")
    assert graph.recoveries() == []


def test_g23_rows_from_outside_are_classified_only_with_readable_sidecars(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    people = lance.dataset(str(table_paths(tmp_path)["node:Person"]))
    lance.write_dataset(people.to_table().slice(0, 0), people.uri, mode="append")

    def refuse_records(prefix: str, listed: Listing) -> Listing:
        if prefix == "__recovery":
            raise UnavailableError(action="list records", reason="the storage did not answer")
        return listed

    graph = open_retold(tmp_path, refuse_records)

    with pytest.raises(UnavailableError):
        graph.mutate(EVE)

    assert sidecars(tmp_path) == []
    with omnigraph.open(tmp_path) as plain, pytest.raises(DriftError, match="omnigraph repair"):
        plain.mutate(EVE)


# Branches


def write_on_feature(graph: Graph) -> object:
    """Eve comes, on a branch."""
    return graph.load(ndjson(node("Person", name="Eve")), mode="append", branch="feature")


def stop_on_branch_that_goes_away(root: Path) -> Stopped:
    """A write that stopped on a branch, which was deleted before the write was recovered."""
    with social_graph(root) as built:
        built.create_branch("feature")
    # The table branch comes first, then the sidecar, then the type.
    stopped = stop(root, write_on_feature, at=1 + FIRST_TYPE)
    remove_branch("feature", root=root)
    return stopped


def test_g20_the_next_write_discards_a_write_on_a_branch_that_was_deleted(tmp_path: Path) -> None:
    stopped = stop_on_branch_that_goes_away(tmp_path)
    commits = len(stopped.graph.commits())

    stopped.graph.mutate(FRANK)

    (recovery,) = stopped.graph.recoveries()
    assert (recovery.kind, recovery.outcomes) == ("OrphanedBranchDiscarded", ())
    assert len(stopped.graph.commits()) == commits + 2
    assert "Eve" not in rows(stopped.graph, "Person")
    require_recovered(stopped.graph, tmp_path)


@pytest.mark.parametrize("when", [When.ERROR_ONCE, When.LOST], ids=["refused", "lost"])
def test_g20_a_discard_that_fails_anywhere_is_completed_once(tmp_path: Path, when: When) -> None:
    failed = 0
    for at in range(1, EFFECTS_MAX):
        root = tmp_path / str(at)
        commits = len(stop_on_branch_that_goes_away(root).graph.commits())
        fault = Fault(at=at, when=when, scope=Scope.EFFECTS)
        with suppress(UnavailableError):
            open_crashing(root, fault).refresh()
        failed += fault.hit is not None

        with omnigraph.open(root) as graph:
            assert [each.kind for each in graph.recoveries()] == ["OrphanedBranchDiscarded"]
            assert len(graph.commits()) == commits + 1
            require_recovered(graph, root)

    assert 3 <= failed < EFFECTS_MAX - 1, "a commit, a row of the audit and a record, and no more"


# Writes of several steps a type


def worn_people(root: Path) -> None:
    """People in many small files, behind an index that knows few of them."""
    graph = social_graph(root)
    graph.ensure_indices()
    for number in range(12):
        graph.load(ndjson(node("Person", name=f"p{number}")), mode="append")
    graph.close()


def test_a_partially_applied_type_is_undone_by_the_next_write_of_the_same_process(
    tmp_path: Path,
) -> None:
    # Given an optimization that dies between two steps of one type
    worn_people(tmp_path)
    died = stop(tmp_path, lambda graph: graph.optimize(), at=SECOND_TYPE)
    (name,) = sidecars(tmp_path)
    path = f"{RECOVERY_PREFIX}/{name}"
    (pin,) = (
        each
        for each in decode_sidecar((tmp_path / path).read_bytes(), path=path).pins
        if each.table_key == "node:Person"
    )
    newest = head_versions(tmp_path)["node:Person"]
    facts = Facts(
        newest=newest,
        named=died.pins["node:Person"],
        has_landed=_transaction_of(tmp_path, pin, newest) in pin.earlier_uuids,
        is_complete=False,
        is_undone=False,
    )
    assert classify(pin, facts) is PinClass.INCOMPLETE_PHASE_B

    # When the same handle writes again
    died.graph.mutate(FRANK)

    # Then the steps are undone, no row has changed, and optimizing works
    (recovery,) = died.graph.recoveries()
    assert (recovery.kind, recovery.writer_kind) == ("RolledBack", "Optimize")
    assert died.before["Person"].keys() | {"Frank"} == rows(died.graph, "Person").keys()
    require_recovered(died.graph, tmp_path)
    assert {each.type for each in died.graph.optimize() if each.committed} >= {"Person"}


def _transaction_of(root: Path, pin: Pin, version: int) -> str | None:
    tables = open_stores(make_settings(root, storage_options=None, durability="relaxed")).tables
    made = tables.find_transaction(TableVersion(TableRef(pin.table_path, None), version))
    return None if made is None else made.uuid
