"""A request that is retried under its key is applied once and returns the same result."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.results import MutationResult
from omnigraph.engine.settings import make_settings
from omnigraph.errors import (
    AlreadyExistsError,
    GraphError,
    IntegrityError,
    InvalidValueError,
    Outcome,
    PreconditionFailedError,
    RecoveryRequiredError,
)
from omnigraph.model.limits import LEASE_S
from omnigraph.model.runtime import SystemClock, SystemRuntime
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.locks import Locking, ProcessLocks
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    SOCIAL,
    build_graph,
    contents,
    edge,
    ndjson,
    node,
    open_with,
    require_linear,
    root_of,
    rows,
    sidecars,
    social_graph,
    unchanged,
    values,
)
from tests.support.queries import query
from tests.support.s3_server import S3Server

NOTES = "node Note { text: String }\nnode Tag { name: String @key }"
BOTH = 'insert Person { name: $a } insert Knows { from: $a, to: "Bob" }'
NOTE = query('insert Note { text: "once" }')
WIDER = SOCIAL.replace("age: I32?", "age: I32?  town: String?")

Keyed = Callable[[Graph, str], object]


def mutate(graph: Graph, key: str) -> object:
    """Two people and an edge."""
    text = query(BOTH, parameters="$a: String")
    return graph.mutate(text, {"a": "Eve"}, idempotency_key=key)


def update(graph: Graph, key: str) -> object:
    """Another age for those who are young."""
    return graph.mutate(query("update Person set { age: 99 } where age < 30"), idempotency_key=key)


def load(graph: Graph, key: str) -> object:
    """A person, and an edge with a generated id."""
    given = ndjson(node("Person", name="Eve"), edge("Knows", "Eve", "Bob"))
    return graph.load(given, mode="merge", idempotency_key=key)


def load_new_branch(graph: Graph, key: str) -> object:
    """The same into a branch that the load creates."""
    given = ndjson(node("Person", name="Eve"), edge("Knows", "Eve", "Bob"))
    return graph.load(given, mode="append", branch="new", base="main", idempotency_key=key)


def merge(graph: Graph, key: str) -> object:
    """A merge."""
    return graph.merge("draft", idempotency_key=key)


def revert(graph: Graph, key: str) -> object:
    """A revert of the change that only main has."""
    made = next(each for each in graph.commits() if each.actor == "zoe")
    return graph.revert(made.id, idempotency_key=key)


def cherry_pick(graph: Graph, key: str) -> object:
    """A picked commit."""
    return graph.cherry_pick(graph.head("draft"), idempotency_key=key)


def apply_schema(graph: Graph, key: str) -> object:
    """A wider schema."""
    return graph.apply_schema(WIDER, idempotency_key=key)


EVERY: tuple[Keyed, ...] = (
    mutate,
    update,
    load,
    load_new_branch,
    merge,
    revert,
    cherry_pick,
    apply_schema,
)


def graph_with_draft(root: Path) -> Graph:
    """People, one of them added by a commit of her own, and a branch with a commit more."""
    graph = social_graph(root)
    graph.mutate(query('insert Person { name: "Zoe" }'), actor="zoe")
    graph.create_branch("draft")
    graph.mutate(query('insert Person { name: "Dan" }'), branch="draft")
    return graph


@pytest.mark.parametrize("write", EVERY, ids=lambda write: write.__name__)
def test_a_retried_request_returns_the_first_result(tmp_path: Path, write: Keyed) -> None:
    graph = graph_with_draft(tmp_path)

    first = write(graph, "k1")
    with unchanged(graph):
        second = write(graph, "k1")
    with omnigraph.open(str(tmp_path), durability="relaxed") as reopened, unchanged(reopened):
        third = write(reopened, "k1")

    assert first == second == third
    assert getattr(first, "commit_id", None) is not None


def test_a_request_with_another_key_is_applied_again(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, NOTES)

    made = [graph.mutate(NOTE, idempotency_key=key).commit_id for key in ("a", "b", "a")]

    assert made[0] != made[1]
    assert made[0] == made[2]
    assert len(rows(graph, "Note")) == 2


def test_a_key_is_stored_for_the_lifetime_of_its_branch(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, NOTES)
    first = graph.mutate(NOTE, idempotency_key="old")
    for number in range(40):
        graph.mutate(query(f'insert Tag {{ name: "t{number}" }}'))
    graph.optimize()

    assert graph.mutate(NOTE, idempotency_key="old") == first
    assert len(rows(graph, "Note")) == 1


@pytest.mark.parametrize("key", ["a'b", 'a"b', "a\\n", "a\nb", "ключ", "%_", "a,b]", " "])
def test_a_key_is_any_text(tmp_path: Path, key: str) -> None:
    graph = build_graph(tmp_path, NOTES)

    first = graph.mutate(NOTE, idempotency_key=key)

    assert graph.mutate(NOTE, idempotency_key=key) == first
    assert graph.mutate(NOTE, idempotency_key=f"{key}2") != first
    assert len(rows(graph, "Note")) == 2


@pytest.mark.parametrize("key", ["", "k" * 256, 7, "half \ud800"])
def test_an_invalid_key_is_refused(tmp_path: Path, key: object) -> None:
    graph = build_graph(tmp_path, NOTES)

    with unchanged(graph), pytest.raises(InvalidValueError):
        graph.mutate(NOTE, idempotency_key=key)  # type: ignore[arg-type]


def test_the_key_of_another_request_is_refused(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    text = query("insert Person { name: $a }", parameters="$a: String")
    graph.mutate(text, {"a": "Eve"}, idempotency_key="k")

    for request in (
        lambda: graph.mutate(text, {"a": "Fay"}, idempotency_key="k"),
        lambda: graph.mutate(query('insert Person { name: "Eve" }'), idempotency_key="k"),
        lambda: graph.load(ndjson(node("Person", name="Eve")), mode="merge", idempotency_key="k"),
        lambda: graph.apply_schema(WIDER, idempotency_key="k"),
    ):
        with unchanged(graph), pytest.raises(AlreadyExistsError) as refused:
            request()
        assert refused.value.name == "k"
        assert refused.value.outcome is Outcome.UNCHANGED


def test_loads_of_other_rows_are_other_requests(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    given = [edge("Knows", "Alice", "Diana"), node("Person", name="Eve", age=1)]
    first = graph.load(ndjson(*given), mode="append", idempotency_key="k")

    assert graph.load(ndjson(*given), mode="append", idempotency_key="k") == first
    for other in (
        [edge("Knows", "Alice", "Bob"), node("Person", name="Eve", age=1)],
        [edge("Knows", "Alice", "Diana"), node("Person", name="Eve", age=2)],
        [edge("Knows", "Alice", "Diana")],
    ):
        with unchanged(graph), pytest.raises(AlreadyExistsError):
            graph.load(ndjson(*other), mode="append", idempotency_key="k")
    with unchanged(graph), pytest.raises(AlreadyExistsError):
        graph.load(ndjson(*given), mode="merge", idempotency_key="k")


def test_a_load_is_known_by_its_rows_however_they_are_given(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    lines = ndjson(node("Person", name="Eve", age=1), node("Person", name="Fay", age=2)).getvalue()
    (tmp_path / "rows.jsonl").write_text(lines)
    parts = pa.chunked_array([["Eve"], ["Fay"]]), pa.chunked_array([pa.array([1, 2], pa.int32())])

    first = graph.load(tmp_path / "rows.jsonl", mode="merge", idempotency_key="k")
    columns = pa.table(dict(zip(("name", "age"), parts, strict=True)))
    second = graph.load({"Person": columns}, mode="merge", idempotency_key="k")

    assert second == first


def test_a_key_is_its_actors_and_its_branches(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, NOTES)

    for branch, actor in (("main", "ann"), ("main", "bob"), ("main", None)):
        graph.mutate(NOTE, branch=branch, actor=actor, idempotency_key="k")
        graph.mutate(NOTE, branch=branch, actor=actor, idempotency_key="k")
    graph.create_branch("draft")
    graph.mutate(NOTE, branch="draft", actor="ann", idempotency_key="k")
    graph.mutate(NOTE, branch="draft", actor="ann", idempotency_key="k")

    assert len(rows(graph, "Note")) == 3
    assert len(rows(graph, "Note", "draft")) == 4


def test_a_request_that_changed_nothing_is_applied_on_retry(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    older = query('update Person set { age: 31 } where name = "Eve"')

    with unchanged(graph):
        assert graph.mutate(older, idempotency_key="k").commit_id is None
    graph.mutate(query('insert Person { name: "Eve", age: 1 }'))
    graph.mutate(older, idempotency_key="k")

    assert values(graph, "Person", "age")["Eve"] == 31


def test_a_refused_request_is_applied_on_retry(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    given = edge("Knows", "Eve", "Eve")

    with unchanged(graph), pytest.raises(IntegrityError):
        graph.load(ndjson(given), mode="append", idempotency_key="k")
    graph.mutate(query('insert Person { name: "Eve" }'))

    assert graph.load(ndjson(given), mode="append", idempotency_key="k").commit_id is not None


def test_a_retried_request_returns_its_result_after_later_commits(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, NOTES)
    seen = graph.head()
    first = graph.mutate(NOTE, if_commit=seen, idempotency_key="k")
    graph.mutate(query('insert Tag { name: "t" }'))

    assert graph.mutate(NOTE, if_commit=seen, idempotency_key="k") == first
    with pytest.raises(PreconditionFailedError):
        graph.mutate(NOTE, if_commit=seen, idempotency_key="other")


def test_a_retried_merge_returns_its_result_after_its_source_was_deleted(tmp_path: Path) -> None:
    graph = graph_with_draft(tmp_path)
    first = graph.merge("draft", idempotency_key="k")
    graph.delete_branch("draft")

    assert graph.merge("draft", idempotency_key="k") == first


def test_a_merge_that_brings_no_rows_is_one_commit(tmp_path: Path) -> None:
    graph = graph_with_draft(tmp_path)
    for branch in ("main", "draft"):
        graph.mutate(query('insert Person { name: "Eve" }'), branch=branch)
    graph.merge("draft")
    graph.mutate(query('delete Person where name = "Eve"'), branch="draft")
    graph.mutate(query('insert Person { name: "Eve" }'), branch="draft")

    first = graph.merge("draft", idempotency_key="k")

    assert graph.merge("draft", idempotency_key="k") == first


def test_a_load_on_spark_is_applied_once(tmp_path: Path, spark: SparkSession) -> None:
    graph = build_graph(tmp_path / "graph", NOTES)
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(ndjson(node("Note", text=name)).getvalue())

    def load_from(name: str) -> object:
        path = tmp_path / f"{name}.jsonl"
        return graph.load(path, mode="append", spark=spark, idempotency_key="k")

    first = load_from("one")
    with unchanged(graph):
        second = load_from("one")

    assert first == second
    with unchanged(graph), pytest.raises(AlreadyExistsError):
        load_from("two")


def test_rows_without_a_name_are_not_loaded_on_spark_by_a_key(tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", NOTES)
    rows = {"Note": pa.table({"text": ["one"]})}

    with unchanged(graph), pytest.raises(InvalidValueError, match="pass paths"):
        graph.load(rows, mode="append", engine="spark", idempotency_key="k")


# Races


@pytest.mark.parametrize("write", [mutate, update, load, merge, apply_schema])
def test_of_concurrent_calls_with_one_key_one_is_applied_and_all_get_its_result(
    tmp_path: Path, write: Keyed
) -> None:
    graph = graph_with_draft(tmp_path)
    before = len(graph.commits())
    handles = [graph, *(omnigraph.open(str(tmp_path), durability="relaxed") for _ in range(3))]
    results: list[object] = []
    barrier = threading.Barrier(len(handles))

    def request(handle: Graph) -> None:
        barrier.wait()
        results.append(write(handle, "k"))

    run_all([threading.Thread(target=request, args=(each,)) for each in handles])

    assert len(results) == len(handles)
    assert all(each == results[0] for each in results)
    require_keyed_once(graph, "k")
    if write is not merge:
        assert len(graph.commits()) == before + 1


def test_different_requests_with_one_key_are_not_both_applied(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, NOTES)
    texts = [NOTE, query('insert Tag { name: "t" }')]
    results: list[object] = []
    barrier = threading.Barrier(len(texts))

    def request(text: str) -> None:
        handle = omnigraph.open(str(tmp_path), durability="relaxed")
        barrier.wait()
        results.append(result_of(lambda: handle.mutate(text, idempotency_key="k")))

    run_all([threading.Thread(target=request, args=(text,)) for text in texts])

    assert sorted(type(each).__name__ for each in results) == [
        "AlreadyExistsError",
        "MutationResult",
    ]
    assert sum(map(len, contents(graph).values())) == 1


def test_processes_that_share_an_object_store_apply_a_request_once(server: S3Server) -> None:
    uri = f"s3://{server.create_bucket()}/graph"
    options = server.lance_options()
    graph = omnigraph.init(uri, schema=NOTES, storage_options=options)
    settings = make_settings(uri, storage_options=options, durability="relaxed")
    results: list[object] = []
    barrier = threading.Barrier(3)

    def request() -> None:
        locking = Locking(ProcessLocks(), SystemClock(), LEASE_S)
        other = open_graph(replace(settings, locking=locking), actor=None, is_read_only=False)
        barrier.wait()
        results.append(other.mutate(NOTE, idempotency_key="k"))

    run_all([threading.Thread(target=request) for _ in range(3)])

    assert len(results) == 3
    assert all(each == results[0] for each in results)
    require_keyed_once(graph, "k")
    assert len(rows(graph, "Note")) == 1


def test_a_keyed_request_costs_one_history_lookup_and_its_retry_writes_nothing(
    server: S3Server,
) -> None:
    uri = f"s3://{server.create_bucket()}/graph"
    graph = omnigraph.init(uri, schema=NOTES, storage_options=server.lance_options())
    graph.mutate(NOTE)
    graph.mutate(NOTE, idempotency_key="first")

    with server.recording() as plain:
        graph.mutate(NOTE)
    with server.recording() as keyed:
        graph.mutate(NOTE, idempotency_key="second")
    with server.recording() as repeated:
        graph.mutate(NOTE, idempotency_key="second")

    # A file or two for each of the few commits.
    assert len(plain) < len(keyed) <= len(plain) + 10
    assert {each.method for each in repeated} <= {"GET", "HEAD"}


@pytest.mark.parametrize("other", [NOTE, query('insert Tag { name: "t" }')])
def test_a_request_applied_by_another_caller_while_prepared_is_not_applied_twice(
    tmp_path: Path, other: str
) -> None:
    graph = build_graph(tmp_path, NOTES)
    stranger = omnigraph.open(str(tmp_path), durability="relaxed")
    meeting = MeetingRuntime(lambda: stranger.mutate(other, idempotency_key="k"))
    settings = make_settings(str(tmp_path), storage_options=None, durability="relaxed")
    late = open_graph(replace(settings, runtime=meeting), actor=None, is_read_only=False)

    result = result_of(lambda: late.mutate(NOTE, idempotency_key="k"))

    assert isinstance(result, MutationResult if other == NOTE else AlreadyExistsError)
    require_keyed_once(graph, "k")
    assert sum(map(len, contents(graph).values())) == 1


class MeetingRuntime(SystemRuntime):
    """The clock and ids of the machine, with an interruption at the first requested id."""

    def __init__(self, meet: Callable[[], object]) -> None:
        super().__init__()
        self._meetings = [meet]

    def new_ids(self, count: int) -> list[str]:
        if self._meetings:
            self._meetings.pop()()
        return super().new_ids(count)


def result_of(request: Callable[[], object]) -> object:
    """The result or the error of a call."""
    try:
        return request()
    except GraphError as error:
        return error


# Lost responses


def test_a_call_whose_response_was_lost_returns_its_result_on_retry(tmp_path: Path) -> None:
    build_graph(tmp_path, NOTES).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)

    with (
        failpoints.activate(Failpoint.GRAPH_PUBLISH_AFTER_MANIFEST_COMMIT, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        graph.mutate(NOTE, idempotency_key="k")
    result = graph.mutate(NOTE, idempotency_key="k")

    assert result.affected_nodes == 1
    assert result.commit_id == graph.head()
    assert len(rows(graph, "Note")) == 1


def test_a_write_finished_by_recovery_returns_its_result_on_retry(tmp_path: Path) -> None:
    build_graph(tmp_path, NOTES).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)

    with (
        failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        graph.mutate(NOTE, actor="ann", idempotency_key="k")
    result = graph.mutate(NOTE, actor="ann", idempotency_key="k")

    assert [each.kind for each in graph.recoveries()] == ["RolledForward"]
    assert result.commit_id == graph.recoveries()[0].commit_id
    assert len(rows(graph, "Note")) == 1


def test_an_interrupted_write_is_undone_if_its_request_was_applied_meanwhile(
    tmp_path: Path,
) -> None:
    build_graph(tmp_path, NOTES).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)
    with (
        failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        graph.mutate(NOTE, idempotency_key="k")
    (name,) = sidecars(tmp_path)
    record = tmp_path / "__recovery" / name

    # As on a storage that shows what was written elsewhere only after a while.
    content = record.read_bytes()
    record.unlink()
    graph.mutate(query('insert Tag { name: "t" }'), idempotency_key="k")
    record.write_bytes(content)
    graph.refresh()

    assert [each.kind for each in graph.recoveries()] == ["RolledBack"]
    require_keyed_once(graph, "k")
    assert contents(graph).keys() == {"Tag"}


def run_all(threads: list[threading.Thread]) -> None:
    """Start threads and wait for them."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def require_keyed_once(graph: Graph, key: str) -> None:
    """Fail unless exactly one commit has a key."""
    commits = graph.commits()
    require_linear(commits)
    keyed = [each.id for each in commits if each.notes.request and each.notes.request.key == key]
    assert len(keyed) == 1, f"{root_of(graph)}: {keyed}"
