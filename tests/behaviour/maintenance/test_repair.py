"""Repair: external changes to a type are shown, and adopted only on request."""

from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from omnigraph import Graph
from omnigraph.engine.maintenance.repair import RepairReport
from omnigraph.errors import (
    DriftError,
    ForbiddenError,
    GraphError,
    InvalidValueError,
    RecoveryRequiredError,
)
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    contents,
    head_versions,
    ndjson,
    node,
    open_with,
    pins,
    root_of,
    row_counts,
    social_graph,
    unchanged,
)
from tests.support.queries import query
from tests.support.sweeps import open_plain

Drift = Callable[[Graph], None]


def worn_graph(root: Path) -> Graph:
    """A graph whose people lie in several files."""
    graph = social_graph(root)
    for name in ("eve", "fay"):
        graph.load(ndjson(node("Person", name=name, age=1)), mode="append")
    return graph


def compact(graph: Graph) -> None:
    """A change made with Lance, outside the graph."""
    table(graph).optimize.compact_files()


def delete(graph: Graph) -> None:
    table(graph).delete("id = 'Bob'")


def lose_record(graph: Graph) -> None:
    """A compaction whose Lance transaction file is missing."""
    before = set(records(graph))
    compact(graph)
    for file in set(records(graph)) - before:
        file.unlink()


def records(graph: Graph) -> list[Path]:
    return list(Path(graph.tables()["node:Person"].path, "_transactions").glob("*.txn"))


def table(graph: Graph) -> lance.LanceDataset:
    return lance.dataset(graph.tables()["node:Person"].path)


def of_people(reports: list[RepairReport]) -> RepairReport:
    (report,) = [each for each in reports if each.type == "Person"]
    return report


def test_an_unmodified_graph_needs_no_repair(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")

    with unchanged(graph):
        reports = graph.repair(confirm=True, force=True)

    assert [(each.table_key, each.classification, each.action) for each in reports] == [
        ("edge:Knows", "no_drift", "no_op"),
        ("edge:WorksAt", "no_drift", "no_op"),
        ("node:Company", "no_drift", "no_op"),
        ("node:Person", "no_drift", "no_op"),
    ]


@pytest.mark.parametrize(
    ("drift", "classification", "operations"),
    [
        (compact, "verified_maintenance", ("ReserveFragments", "Rewrite")),
        (delete, "suspicious", ("Delete",)),
        (lose_record, "unverifiable", ("unknown", "unknown")),
    ],
    ids=["compact", "delete", "unknown"],
)
def test_without_consent_it_only_shows_what_it_found(
    tmp_path: Path, drift: Drift, classification: str, operations: tuple[str, ...]
) -> None:
    graph = worn_graph(tmp_path / "graph")
    drift(graph)

    with unchanged(graph):
        found = of_people(graph.repair())

    assert (found.classification, found.action) == (classification, "preview")
    assert found.operations == operations
    assert found.manifest_version == pins(graph)["node:Person"]
    assert found.lance_head_version == found.manifest_version + len(operations)


def test_a_layout_that_moved_an_index_is_known_for_one(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    graph.ensure_indices()
    compact(graph)

    found = of_people(graph.repair())

    assert found.classification == "verified_maintenance"
    assert found.operations == ("ReserveFragments", "Rewrite")


def test_j04_a_layout_is_adopted_when_it_is_confirmed(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    rows = contents(graph)
    compact(graph)
    with pytest.raises(DriftError, match="omnigraph repair"):
        graph.mutate(query('delete Person where name = "eve"'))

    done = of_people(graph.repair(confirm=True))

    assert done.action == "healed"
    assert pins(graph) == head_versions(tmp_path / "graph")
    assert graph.commits()[-1].actor == "omnigraph:repair"
    assert contents(graph) == rows
    graph.mutate(query('delete Person where name = "eve"'))
    assert "eve" not in contents(graph)["Person"]


@pytest.mark.parametrize("drift", [delete, lose_record], ids=["delete", "unknown"])
def test_j05_anything_else_is_refused_unless_it_is_forced(tmp_path: Path, drift: Drift) -> None:
    graph = worn_graph(tmp_path / "graph")
    drift(graph)

    with unchanged(graph):
        refused = of_people(graph.repair(confirm=True))
    forced = of_people(graph.repair(confirm=True, force=True))

    assert (refused.action, forced.action) == ("refused", "forced")
    assert graph.commits()[-1].actor == "omnigraph:repair:force"
    assert pins(graph) == head_versions(tmp_path / "graph")
    assert row_counts(graph)["node:Person"] == len(contents(graph)["Person"])


def test_a_forced_version_is_the_one_read_afterwards(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    delete(graph)

    graph.repair(confirm=True, force=True)

    assert sorted(contents(open_plain(tmp_path / "graph"))["Person"]) == [
        "Alice",
        "Charlie",
        "Diana",
        "eve",
        "fay",
    ]


def test_all_types_are_adopted_by_one_commit(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    compact(graph)
    lance.dataset(graph.tables()["edge:Knows"].path).delete("src = 'Bob'")
    before = len(graph.commits())

    reports = graph.repair(confirm=True, force=True)

    assert {each.type: each.action.value for each in reports} == {
        "Knows": "forced",
        "WorksAt": "no_op",
        "Company": "no_op",
        "Person": "healed",
    }
    assert len(graph.commits()) == before + 1
    assert {each.action.value for each in graph.repair(confirm=True)} == {"no_op"}


def test_forcing_without_confirming_is_refused(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    delete(graph)

    with unchanged(graph), pytest.raises(InvalidValueError, match="confirm"):
        graph.repair(force=True)


def test_a_graph_opened_for_reading_is_not_repaired(tmp_path: Path) -> None:
    worn_graph(tmp_path / "graph")

    with pytest.raises(ForbiddenError):
        open_plain(tmp_path / "graph", is_read_only=True).repair()


@pytest.mark.parametrize("confirm", [False, True])
def test_j02_a_write_that_stopped_half_way_is_recovered_first(
    tmp_path: Path, *, confirm: bool
) -> None:
    graph = worn_graph(tmp_path / "graph")
    failpoints = Failpoints()
    stopped = open_with(root_of(graph), failpoints)
    with (
        failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
        pytest.raises(GraphError),
    ):
        stopped.mutate(query('delete Person where name = "eve"'))

    with unchanged(graph), pytest.raises(RecoveryRequiredError):
        graph.repair(confirm=confirm)
    graph.refresh()

    assert {each.action.value for each in graph.repair(confirm=confirm)} == {"no_op"}
    assert "eve" not in contents(graph)["Person"]


def test_a_type_that_lost_versions_is_reported_and_unchanged(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    newest = table(graph).version
    for file in Path(graph.tables()["node:Person"].path, "_versions").glob("*"):
        if not file.stem.isdigit() or 2**64 - 1 - int(file.stem) == newest:
            file.unlink()

    found = of_people(open_plain(tmp_path / "graph").repair(confirm=True, force=True))

    assert (found.classification, found.action) == ("unverifiable", "refused")
    assert found.lance_head_version == newest - 1
    assert found.error is not None
    assert "from a copy" in found.error
