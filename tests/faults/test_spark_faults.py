"""A bulk load whose storage fails, or with a concurrent commit, is there or not there."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph import Graph
from omnigraph.errors import IntegrityError, RecoveryRequiredError, UnavailableError
from omnigraph.storage.failpoints import Failpoint
from tests.support.crashing import Fault, Scope, When
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    edge,
    ndjson,
    node,
    root_of,
    rows,
    social_graph,
    unchanged,
    values,
)
from tests.support.queries import query
from tests.support.spark_loads import files_below, write_lines
from tests.support.staged_files import once, open_bulk
from tests.support.sweeps import (
    Operation,
    Reached,
    copies_of,
    each_fault,
    no_steps,
    open_plain,
    operate_under_fault,
    require_recovered,
    require_sound,
    require_writable,
    state_of,
    states_of_unharmed,
)
from tests.support.writes import Mode

EVE = (node("Person", name="Eve"), edge("Knows", "Eve", "Bob"))
OLDER_BOB = (node("Person", name="Bob", age=26), node("Person", name="Fay", age=1))


def test_a_bulk_load_whose_storage_fails_anywhere_is_atomic(
    tmp_path: Path, spark: SparkSession
) -> None:
    prepare = copies_of(social_graph(tmp_path / "built"))
    path = write_lines(tmp_path / "given.jsonl", *OLDER_BOB, edge("Knows", "Fay", "Bob"))

    def write(graph: Graph) -> object:
        return graph.load(path, mode="merge", engine="spark", spark=spark)

    def write_unharmed(graph: Graph) -> object:
        return write(open_bulk(root_of(graph)))

    operation = Operation(prepare, write_unharmed, no_steps)
    states = states_of_unharmed(tmp_path / "unharmed", operation)
    folders = itertools.count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        prepare(root)
        allowed = operate_under_fault(write, open_bulk(root, fault=fault))
        if fault.hit is None:
            assert allowed == {Reached.NEW}
            return
        reached = require_recovered(root, states, allowed=allowed)
        graph = open_plain(root)
        if reached is Reached.NEW:
            require_writable(graph, states.new)
        shutil.rmtree(root)

    swept = each_fault(play, whens=[When.LOST, When.ERROR_ONCE], scope=Scope.EFFECTS)

    # A sidecar written and deleted, two tables applied, one publish.
    assert swept.effects >= 5, "the sweep went blind"


def test_a_bulk_load_that_stopped_after_it_was_armed_is_finished_with_all_its_rows(
    tmp_path: Path, spark: SparkSession
) -> None:
    root, path = tmp_path / "graph", write_lines(tmp_path / "given.jsonl", *EVE)
    social_graph(root)
    failpoints = Failpoints()
    graph = open_bulk(root, failpoints=failpoints)

    with (
        failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        load_on_spark(graph, path, spark)

    recovered = open_plain(root)
    assert "Eve" in rows(recovered, "Person")
    require_sound(recovered, state_of(recovered))


def test_a_bulk_load_that_stopped_before_it_was_armed_leaves_no_file(
    tmp_path: Path, spark: SparkSession
) -> None:
    root, path = tmp_path / "graph", write_lines(tmp_path / "given.jsonl", *EVE)
    social_graph(root)
    failpoints = Failpoints()
    graph = open_bulk(root, failpoints=failpoints)
    files = files_below(root)

    with (
        unchanged(graph),
        failpoints.activate(Failpoint.RECOVERY_SIDECAR_WRITE, FAIL_ALWAYS),
        pytest.raises(UnavailableError),
    ):
        load_on_spark(graph, path, spark)

    assert files_below(root) == files


def test_edges_whose_node_goes_while_a_bulk_load_is_checked_are_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    root = tmp_path / "graph"
    # A person without edges, so that no type of the load moves when he goes.
    social_graph(root).mutate(query('insert Person { name: "Hermit" }'))
    graph = open_bulk(root)
    path = write_lines(tmp_path / "given.jsonl", edge("Knows", "Alice", "Hermit"))
    delete = query('delete Person where name = "Hermit"')
    meddle = once("check", lambda: open_plain(root).mutate(delete))

    with pytest.raises(IntegrityError, match="Hermit"):
        load_on_spark(graph, path, spark, meanwhile=meddle)

    assert "Hermit" not in rows(graph, "Person")
    require_sound(graph, state_of(graph))


def test_a_bulk_merge_with_a_concurrent_commit_loses_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    root = tmp_path / "graph"
    social_graph(root).create_branch("draft")
    graph = open_bulk(root)
    path = write_lines(tmp_path / "given.jsonl", *OLDER_BOB)
    update = query('update Person set { age: 77 } where name = "Diana"')
    meddle = once("replace", lambda: open_plain(root).mutate(update, branch="draft"))

    load_on_spark(graph, path, spark, mode="merge", branch="draft", meanwhile=meddle)

    ages = values(graph, "Person", "age", "draft")
    assert ages == {"Alice": 30, "Bob": 26, "Charlie": 35, "Diana": 77, "Fay": 1}
    assert values(graph, "Person", "age")["Bob"] == 25
    require_sound(graph, state_of(graph))


def test_a_bulk_merge_retried_does_not_wait_for_itself(tmp_path: Path, spark: SparkSession) -> None:
    # The branch has no line of Knows yet, and only the nodes of its edges move meanwhile.
    root = tmp_path / "graph"
    known = edge("Knows", "Alice", "Bob", id="k1")
    social_graph(root).load(ndjson(known), mode="append")
    open_plain(root).create_branch("draft")
    graph = open_bulk(root)
    path = write_lines(tmp_path / "given.jsonl", edge("Knows", "Bob", "Alice", id="k1"))
    update = query('update Person set { age: 77 } where name = "Diana"')
    meddle = once("replace", lambda: open_plain(root).mutate(update, branch="draft"))

    load_on_spark(graph, path, spark, mode="merge", branch="draft", meanwhile=meddle)

    moved, before = (graph.entity("Knows", "k1", branch=each) for each in ("draft", "main"))
    assert moved is not None
    assert before is not None
    assert (moved["src"], before["src"]) == ("Bob", "Alice")
    assert values(graph, "Person", "age", "draft")["Diana"] == 77


def test_input_that_changes_while_rows_are_left_out_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    root = tmp_path / "graph"
    graph = open_bulk(root_of(social_graph(root)))
    lost = edge("Knows", "Bob", "Absent")
    path = write_lines(tmp_path / "given.jsonl", node("Person", name="Eve1"), lost)

    def change() -> None:
        write_lines(path, node("Person", name="Eve2"), lost)

    with unchanged(graph), pytest.raises(UnavailableError, match="other rows"):
        load_on_spark(graph, path, spark, on_error="quarantine", meanwhile=once("check", change))


def load_on_spark(
    graph: Graph,
    path: Path,
    spark: SparkSession,
    *,
    mode: Mode = "append",
    branch: str = "main",
    on_error: str = "raise",
    meanwhile: Callable[[str], object] = str,
) -> None:
    """Load a file on Spark, while something happens at each stage."""

    def progress(stage: str, done: int, total: int | None) -> None:  # noqa: ARG001
        meanwhile(stage)

    graph.load(
        path,
        mode=mode,
        branch=branch,
        engine="spark",
        spark=spark,
        on_error=on_error,
        progress=progress,
    )
