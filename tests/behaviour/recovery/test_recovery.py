"""Recovery: an interrupted write is finished or undone by the next writer, once."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lance
import orjson
import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    CorruptError,
    DriftError,
    GraphError,
    RecoveryRequiredError,
    UnavailableError,
)
from omnigraph.model.names import RECOVERY_ACTOR
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints, Park
from tests.support.graphs import (
    Contents,
    contents,
    head_versions,
    ndjson,
    node,
    open_with,
    pins,
    require_linear,
    rows,
    sidecars,
    social_graph,
)
from tests.support.queries import query

EVE = query('insert Person { name: "Eve" }')
EVE_AT_INITECH = query(
    'insert Person { name: "Eve" } insert Company { name: "Initech" } '
    'insert WorksAt { from: "Eve", to: "Initech" }'
)
FRANK = query('insert Person { name: "Frank" }')
LATER = "01JZZZZZZZZZZZZZZZZZZZZZZZ"
BEFORE_PUBLISH = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER


@dataclass(frozen=True)
class Stopped:
    """A graph on which a write has died, and what it was before."""

    graph: Graph
    failpoints: Failpoints
    before: Contents
    operation_id: str


def stop(path: Path, text: str, *, branch: str = "main", at: Failpoint = BEFORE_PUBLISH) -> Stopped:
    """Start a write and let it die at a failpoint, its record on disk."""
    failpoints = Failpoints()
    graph = open_with(path, failpoints)
    before = contents(graph, branch)
    with failpoints.activate(at, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError) as died:
        graph.mutate(text, branch=branch, actor="ann")
    return Stopped(graph, failpoints, before, died.value.operation_id)


def require_recovered(graph: Graph, path: Path, branch: str = "main") -> None:
    """Nothing is left of a recovery but its result."""
    assert sidecars(path) == []
    assert head_versions(path) == pins(graph)
    require_linear(graph.commits(branch))


def edit_sidecar(path: Path, **fields: object) -> None:
    """Change fields of the only sidecar there is."""
    (name,) = sidecars(path)
    file = path / "__recovery" / name
    file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), **fields}))


def test_g01_opening_finishes_a_write_that_died_before_its_publish(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)

    with omnigraph.open(str(tmp_path)) as graph:
        assert "Eve" in rows(graph, "Person")
        require_recovered(graph, tmp_path)
        (recovery,) = graph.recoveries()
        head = graph.commits()[-1]

    assert (recovery.kind, recovery.operation_id) == ("RolledForward", died.operation_id)
    assert (recovery.actor, recovery.commit_id) == ("ann", head.id)
    assert head.actor == "ann"


def test_g01_opening_again_changes_nothing(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    stop(tmp_path, EVE)
    with omnigraph.open(str(tmp_path)) as graph:
        recovered = (graph.commits(), graph.tables(), graph.recoveries())

    with omnigraph.open(str(tmp_path)) as graph:
        assert (graph.commits(), graph.tables(), graph.recoveries()) == recovered


def test_g02_the_next_write_of_the_same_graph_finishes_it_first(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)

    died.graph.mutate(FRANK)

    assert {"Eve", "Frank"} <= rows(died.graph, "Person").keys()
    require_recovered(died.graph, tmp_path)
    assert len(died.graph.recoveries()) == 1


MERGED_BEFORE_PUBLISH = Failpoint.BRANCH_MERGE_POST_PHASE_B_PRE_MANIFEST_COMMIT
HELEN = query('insert Person { name: "Helen" }')


def load_eve(graph: Graph) -> object:
    return graph.load(ndjson(node("Person", name="Eve")), mode="merge")


def merge_side(graph: Graph) -> object:
    return graph.merge("side", into="main")


def add_nickname(graph: Graph) -> object:
    text = graph.schema_source.replace("age: I32?", "age: I32?\n    nickname: String?", 1)
    assert text != graph.schema_source
    return graph.apply_schema(text)


@pytest.mark.parametrize(
    ("operate", "at", "writer_kind", "is_on_side"),
    [
        (lambda graph: graph.mutate(EVE), BEFORE_PUBLISH, "Mutation", False),
        (load_eve, BEFORE_PUBLISH, "Load", False),
        (add_nickname, Failpoint.SCHEMA_APPLY_AFTER_STAGING_WRITE, "SchemaApply", False),
        (merge_side, MERGED_BEFORE_PUBLISH, "BranchMerge", True),
    ],
    ids=["mutation", "load", "schema-apply", "merge"],
)
def test_every_kind_of_write_is_recovered_by_the_next_write_of_the_same_process(
    tmp_path: Path,
    operate: Callable[[Graph], object],
    at: Failpoint,
    writer_kind: str,
    *,
    is_on_side: bool,
) -> None:
    social_graph(tmp_path).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)
    if is_on_side:
        graph.create_branch("side")
        graph.mutate(EVE, branch="side")
        # Main moves on too, so that the merge is not a fast-forward.
        graph.mutate(HELEN)
    head = graph.head()
    with failpoints.activate(at, FAIL_ALWAYS) as reached, pytest.raises(RecoveryRequiredError):
        operate(graph)
    assert (reached.arrivals, graph.head()) == (1, head)

    graph.mutate(FRANK)

    (recovery,) = graph.recoveries()
    assert (recovery.kind, recovery.writer_kind) == ("RolledForward", writer_kind)
    commits = graph.commits()
    assert [each.id for each in commits[-3:-1]] == [head, recovery.commit_id]
    assert "Frank" in rows(graph, "Person")
    if writer_kind == "SchemaApply":
        assert "nickname: String?" in graph.schema_source
    else:
        assert "Eve" in rows(graph, "Person")
    assert (commits[-2].merged_parent_id is not None) == is_on_side
    require_recovered(graph, tmp_path)


def mutate_frank(graph: Graph) -> object:
    return graph.mutate(FRANK)


def load_frank(graph: Graph) -> object:
    return graph.load(ndjson(node("Person", name="Frank")), mode="append")


@pytest.mark.parametrize("operate", [mutate_frank, load_frank, add_nickname, merge_side])
def test_every_kind_of_write_first_recovers_what_died_in_the_same_process(
    tmp_path: Path, operate: Callable[[Graph], object]
) -> None:
    with social_graph(tmp_path) as graph:
        graph.create_branch("side")
        graph.mutate(FRANK, branch="side")
    died = stop(tmp_path, EVE_AT_INITECH)

    operate(died.graph)

    (recovery,) = died.graph.recoveries()
    assert (recovery.kind, recovery.writer_kind) == ("RolledForward", "Mutation")
    commits = died.graph.commits()
    assert [each.id for each in commits[-2:]] == [recovery.commit_id, died.graph.head()]
    people = rows(died.graph, "Person")
    assert {*died.before["Person"], "Eve"} == people.keys() - {"Frank"}
    assert ("Frank" in people) is (operate is not add_nickname)
    assert ("nickname" in people["Eve"]) is (operate is add_nickname)
    assert "Initech" in rows(died.graph, "Company")
    require_recovered(died.graph, tmp_path)


def test_g04_all_types_of_a_write_are_finished_together(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE_AT_INITECH)

    died.graph.load(ndjson(node("Person", name="Frank")), mode="append")

    assert {"Eve", "Frank"} <= rows(died.graph, "Person").keys()
    assert "Initech" in rows(died.graph, "Company")
    require_recovered(died.graph, tmp_path)


def test_g05_a_write_on_a_branch_is_finished_there(tmp_path: Path) -> None:
    with social_graph(tmp_path) as graph:
        graph.create_branch("feature")
        main = (pins(graph), graph.head())
    stop(tmp_path, EVE, branch="feature")

    with omnigraph.open(str(tmp_path)) as graph:
        graph.mutate(FRANK, branch="feature")

        assert {"Eve", "Frank"} <= contents(graph, "feature")["Person"].keys()
        assert (pins(graph), graph.head()) == main
        assert sidecars(tmp_path) == []
        require_linear(graph.commits("feature"))


def test_a_write_recovers_what_died_on_any_branch_and_of_any_type(tmp_path: Path) -> None:
    with social_graph(tmp_path) as graph:
        graph.create_branch("feature")
    died = stop(tmp_path, EVE, branch="feature")
    assert len(sidecars(tmp_path)) == 1

    died.graph.mutate(query('insert Company { name: "Initech" }'))

    assert sidecars(tmp_path) == []
    assert "Eve" in contents(died.graph, "feature")["Person"]
    assert [each.kind for each in died.graph.recoveries()] == ["RolledForward"]


def test_g08_a_record_that_could_not_be_deleted_is_consumed_later(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)
    with failpoints.activate(Failpoint.RECOVERY_SIDECAR_DELETE, FAIL_ALWAYS):
        done = graph.mutate(EVE)
    assert len(sidecars(tmp_path)) == 1

    graph.mutate(FRANK)

    assert len(rows(graph, "Person")) == 6
    require_recovered(graph, tmp_path)
    (recovery,) = graph.recoveries()
    assert (recovery.kind, recovery.commit_id) == ("RolledForward", done.commit_id)


@pytest.mark.parametrize(
    "content", [b"{", b'{"schema_version": 99}'], ids=["G10 corrupt", "G11 newer"]
)
def test_an_unreadable_sidecar_stops_writers_and_is_retained(
    tmp_path: Path, content: bytes
) -> None:
    graph = social_graph(tmp_path)
    (tmp_path / "__recovery").mkdir(exist_ok=True)
    (tmp_path / "__recovery" / "01J.json").write_bytes(content)

    with pytest.raises(CorruptError, match=r"01J\.json"):
        graph.mutate(EVE)
    with pytest.raises(CorruptError, match=r"01J\.json"):
        omnigraph.open(str(tmp_path))

    with omnigraph.open(str(tmp_path), read_only=True) as reader:
        assert len(rows(reader, "Person")) == 4
    assert sidecars(tmp_path) == ["01J.json"]


def test_g14_a_write_that_moved_some_of_its_types_is_undone(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE_AT_INITECH)
    # As if one of the three had never been applied: another transaction was planned for it.
    pinned = orjson.loads((tmp_path / "__recovery" / sidecars(tmp_path)[0]).read_bytes())["tables"]
    pinned[0]["transaction_uuid"] = "00000000-0000-4000-8000-000000000000"
    drifted = pinned[0]["table_key"]
    edit_sidecar(tmp_path, tables=pinned)

    with omnigraph.open(str(tmp_path)) as graph:
        assert contents(graph) == died.before
        assert sidecars(tmp_path) == []
        (recovery,) = graph.recoveries()
        assert recovery.kind == "RolledBack"
        assert graph.commits()[-1].actor == RECOVERY_ACTOR
        ahead = {
            key for key, newest in head_versions(tmp_path).items() if newest != pins(graph)[key]
        }
        assert ahead == {drifted}, "a version of another writer is not undone"


def test_g19_a_write_that_died_before_its_first_apply_is_discarded(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)
    record = (tmp_path / "__recovery" / f"{died.operation_id}.json").read_bytes()
    died.graph.refresh()
    # The same record again, as a writer leaves it that dies right after it, for other versions.
    later = {
        **orjson.loads(record),
        "operation_id": "01JZZZZZZZZZZZZZZZZZZZZZZZ",
        "commit_id": "none",
    }
    for pin in later["tables"]:
        pin["expected_version"], pin["post_commit_pin"] = 3, 4
    later["relied_on"] = dict.fromkeys(later["relied_on"], 3)
    (tmp_path / "__recovery" / f"{LATER}.json").write_bytes(orjson.dumps(later))

    died.graph.mutate(FRANK)

    assert [each.kind for each in died.graph.recoveries()] == [
        "RolledForward",
        "EmptyIntentDiscarded",
    ]
    require_recovered(died.graph, tmp_path)


def test_g20_a_write_on_a_deleted_branch_is_discarded(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    stop(tmp_path, EVE)
    edit_sidecar(tmp_path, branch="gone", commit_id="none")

    with omnigraph.open(str(tmp_path)) as graph:
        (recovery,) = graph.recoveries()
        assert recovery.kind == "OrphanedBranchDiscarded"
        assert graph.commits()[-1].id == recovery.commit_id
        assert graph.commits()[-1].actor == RECOVERY_ACTOR
        assert sidecars(tmp_path) == []


def test_g20_a_discard_interrupted_before_its_audit_is_not_repeated(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    stop(tmp_path, EVE)
    edit_sidecar(tmp_path, branch="gone", commit_id="none")
    failpoints = Failpoints()
    place = Failpoint.RECOVERY_ORPHAN_DISCARD_AUDIT_APPEND
    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(UnavailableError):
        open_with(tmp_path, failpoints)

    with omnigraph.open(str(tmp_path)) as graph:
        assert [each.actor for each in graph.commits()].count(RECOVERY_ACTOR) == 1
        assert [each.commit_id for each in graph.recoveries()] == [graph.head()]


def test_a_write_that_fails_after_its_publish_is_true(tmp_path: Path) -> None:
    social_graph(tmp_path).close()

    died = stop(tmp_path, EVE, at=Failpoint.GRAPH_PUBLISH_AFTER_MANIFEST_COMMIT)

    assert "Eve" in rows(died.graph, "Person")
    died.graph.refresh()
    require_recovered(died.graph, tmp_path)
    assert [each.kind for each in died.graph.recoveries()] == ["RolledForward"]


def test_g17_a_table_that_is_behind_history_stops_recovery(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)
    folder = Path(died.graph.tables()["node:Person"].path) / "_versions"
    for file in sorted(folder.glob("*.manifest"))[:2]:
        file.unlink()

    with pytest.raises(CorruptError, match="is kept"):
        omnigraph.open(str(tmp_path))

    assert sidecars(tmp_path) == [f"{died.operation_id}.json"]


def test_g22_rows_from_outside_are_not_explained_by_a_record_of_another_type(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, query('insert Company { name: "Initech" }'))
    before = pins(died.graph)["node:Person"]
    people = lance.dataset(died.graph.tables()["node:Person"].path)
    stranger = pa.table({"id": ["X"], "age": pa.array([1], pa.int32()), "name": ["X"]})
    lance.write_dataset(stranger.cast(people.schema), people.uri, mode="append")

    with pytest.raises(DriftError, match="omnigraph repair"):
        died.graph.mutate(EVE)

    assert "Initech" in rows(died.graph, "Company")
    assert pins(died.graph)["node:Person"] == before


def test_g34_other_types_are_not_blocked(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)

    died.graph.mutate(query('insert Company { name: "Initech" }'))

    assert "Initech" in rows(died.graph, "Company")
    require_recovered(died.graph, tmp_path)


def test_g40_a_recovery_that_dies_after_undoing_does_not_undo_twice(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)
    # What the write relied on has moved since, so it cannot be finished.
    edit_sidecar(tmp_path, relied_on={"node:Person": 2, "node:Company": 1})
    failpoints = Failpoints()
    place = Failpoint.GRAPH_PUBLISH_BEFORE_COMMIT_APPEND
    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(GraphError):
        open_with(tmp_path, failpoints)
    undone = head_versions(tmp_path)["node:Person"]

    with omnigraph.open(str(tmp_path)) as graph:
        assert contents(graph) == died.before
        assert head_versions(tmp_path)["node:Person"] == undone
        require_recovered(graph, tmp_path)


def test_an_undo_interrupted_before_its_audit_is_reported_once(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)
    edit_sidecar(tmp_path, relied_on={"node:Person": 2, "node:Company": 1})
    failpoints = Failpoints()
    with (
        failpoints.activate(Failpoint.RECOVERY_RECORD_AUDIT, FAIL_ALWAYS),
        pytest.raises(UnavailableError),
    ):
        open_with(tmp_path, failpoints)

    with omnigraph.open(str(tmp_path)) as graph:
        (recovery,) = graph.recoveries()
        assert (recovery.kind, recovery.operation_id) == ("RolledBack", died.operation_id)
        assert [(each.from_version, each.to_version) for each in recovery.outcomes] == [(3, 2)]
        assert recovery.commit_id == graph.head()
        assert contents(graph) == died.before


@pytest.mark.parametrize(
    "place", [Failpoint.RECOVERY_RECORD_AUDIT, Failpoint.RECOVERY_BEFORE_ROLL_FORWARD_PUBLISH]
)
def test_a_failed_recovery_is_finished_by_the_next(tmp_path: Path, place: Failpoint) -> None:
    social_graph(tmp_path).close()
    stop(tmp_path, EVE)
    failpoints = Failpoints()
    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(UnavailableError):
        open_with(tmp_path, failpoints)

    with omnigraph.open(str(tmp_path)) as graph:
        assert "Eve" in rows(graph, "Person")
        require_recovered(graph, tmp_path)
        assert len(graph.recoveries()) == 1


def test_a_reader_never_recovers(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)

    with omnigraph.open(str(tmp_path), read_only=True) as reader:
        assert contents(reader) == died.before
        assert reader.recoveries() == []

    assert sidecars(tmp_path) == [f"{died.operation_id}.json"]


def test_refreshing_recovers(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)

    died.graph.refresh()

    assert "Eve" in rows(died.graph, "Person")
    require_recovered(died.graph, tmp_path)


def test_g25_of_two_writers_that_find_a_dead_writer_one_recovers_and_neither_fails(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path).close()
    stop(tmp_path, EVE)
    failpoints = Failpoints()
    opened: list[Graph] = []
    place = Failpoint.RECOVERY_BEFORE_ROLL_FORWARD_PUBLISH

    with failpoints.activate(place, Park(timeout_s=30)) as parked:
        first = threading.Thread(target=lambda: opened.append(open_with(tmp_path, failpoints)))
        first.start()
        parked.wait_for_arrival()
        with omnigraph.open(str(tmp_path)) as second:
            assert "Eve" not in rows(second, "Person")
        parked.release()
        first.join()

    (graph,) = opened
    assert "Eve" in rows(graph, "Person")
    assert len(graph.recoveries()) == 1
    require_recovered(graph, tmp_path)


def test_records_that_cannot_be_listed_stop_writers_and_no_reader(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)

    with died.failpoints.activate(Failpoint.RECOVERY_SIDECAR_LIST, FAIL_ALWAYS):
        with pytest.raises(UnavailableError):
            died.graph.mutate(FRANK)
        with pytest.raises(UnavailableError):
            open_with(tmp_path, died.failpoints)
        with omnigraph.open(str(tmp_path), read_only=True) as reader:
            assert contents(reader) == died.before

    died.graph.mutate(FRANK)
    assert {"Eve", "Frank"} <= rows(died.graph, "Person").keys()


def test_a_recreated_graph_has_no_recoveries_of_its_predecessor(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path).close()
    stop(tmp_path, EVE)
    with omnigraph.open(str(tmp_path)) as graph:
        assert graph.recoveries()
        schema = graph.schema_source

    replacement = omnigraph.init(str(tmp_path), schema=schema, force=True)

    assert replacement.recoveries() == []


def test_a_deletion_that_dies_between_the_edges_and_their_node_is_undone(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(
        tmp_path,
        query('delete Person where name = "Alice"'),
        at=Failpoint.MUTATION_DELETE_NODE_PRE_PRIMARY_DELETE,
    )

    with omnigraph.open(str(tmp_path)) as graph:
        assert contents(graph) == died.before
        require_recovered(graph, tmp_path)
        (recovery,) = graph.recoveries()

    assert recovery.kind == "RolledBack"


def test_a_sidecar_that_cannot_be_classified_yet_is_retained(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    died = stop(tmp_path, EVE)

    unreadable = died.failpoints.activate(Failpoint.CLASSIFY_FRESH_READ, FAIL_ALWAYS)
    with unreadable, pytest.raises(UnavailableError):
        died.graph.refresh()

    assert len(sidecars(tmp_path)) == 1
    died.graph.refresh()
    assert "Eve" in rows(died.graph, "Person")
    require_recovered(died.graph, tmp_path)


def test_a_branch_that_was_created_before_the_error_exists(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)

    made = Failpoint.BRANCH_CREATE_AFTER_MANIFEST_BRANCH_CREATE
    with failpoints.activate(made, FAIL_ALWAYS):
        graph.create_branch("draft")

    assert graph.branches() == ["main", "draft"]
