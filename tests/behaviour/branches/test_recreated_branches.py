"""A branch that another handle deletes or recreates during a read: rows of the two branches are
never mixed.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import GraphError, NotFoundError
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.ports import TableDelta, TableStore, TableVersion
from tests.support.crashing import CrashingTables, Fault, Scope, When
from tests.support.failpoints import Failpoints, Park
from tests.support.graphs import open_with, rows
from tests.support.queries import query
from tests.support.teams import does, team

Change = Callable[[Graph], None]
Call = Callable[[Graph, str], object]


def delete(graph: Graph) -> None:
    """Delete the branch."""
    graph.delete_branch("feature")


def recreate(graph: Graph) -> None:
    """Recreate the branch with as many commits."""
    graph.delete_branch("feature")
    graph.create_branch("feature")
    does('insert Person { name: "Mallory" }')(graph, "feature")


class InterruptedTables(CrashingTables):
    """A table store that runs an interruption before rows are compared for the first time."""

    def __init__(self, tables: TableStore, interrupt: Callable[[], None]) -> None:
        super().__init__(tables, Fault(at=0, when=When.ERROR_ONCE, scope=Scope.EFFECTS))
        pending = [interrupt]

        def find_delta(
            old: TableVersion, new: TableVersion, *, columns: Sequence[str]
        ) -> TableDelta:
            while pending:
                pending.pop()()
            return tables.find_delta(old, new, columns=columns)

        self.find_delta = find_delta


def open_interrupted(path: Path, interrupt: Callable[[], None]) -> Graph:
    """A handle that is interrupted while it compares rows."""
    settings = make_settings(path, storage_options=None, durability="relaxed")
    stores = open_stores(settings)
    tables = InterruptedTables(stores.tables, interrupt)
    return Graph(settings, replace(stores, tables=tables), actor=None, is_read_only=False)


@pytest.mark.parametrize("change", [delete, recreate])
@pytest.mark.parametrize(
    "call",
    [
        lambda graph, _: graph.merge("feature"),
        lambda graph, _: graph.merge("feature", dry_run=True),
        lambda graph, commit: graph.cherry_pick(commit),
        lambda graph, commit: graph.diff("main", commit),
        lambda graph, _: graph.diff("feature", "main"),
    ],
    ids=["merge", "dry run", "pick", "diff with a commit", "diff with a branch"],
)
def test_rows_of_a_recreated_branch_are_not_read_as_those_of_its_predecessor(
    tmp_path: Path, call: Call, change: Change
) -> None:
    built = team(tmp_path)
    eve = built.mutate(query('insert Person { name: "Eve" }'), branch="feature").commit_id
    graph, before = open_interrupted(tmp_path, lambda: change(built)), built.head()

    with pytest.raises(NotFoundError) as lost:
        call(graph, str(eve))

    assert built.head() == before
    assert (lost.value.kind, lost.value.name) == ("branch", "feature")
    assert "__manifest" not in str(lost.value)


def test_a_merge_ignores_later_commits_of_its_source(tmp_path: Path) -> None:
    built = team(tmp_path)
    does('insert Person { name: "Eve" }')(built, "feature")

    def go_on() -> None:
        does('insert Person { name: "Fay" }')(built, "feature")

    open_interrupted(tmp_path, go_on).merge("feature")

    assert rows(built, "Person").keys() - {"Alice", "Bob", "Carol", "Dan"} == {"Eve"}


@pytest.mark.parametrize("change", [delete, recreate])
def test_a_merge_that_is_prepared_again_requires_its_source(tmp_path: Path, change: Change) -> None:
    does('insert Person { name: "Eve" }')(team(tmp_path), "feature")
    failpoints, errors = Failpoints(), list[GraphError]()
    graph, other = open_with(tmp_path, failpoints), omnigraph.open(tmp_path)

    def merge() -> None:
        try:
            graph.merge("feature")
        except GraphError as error:
            errors.append(error)

    place = Failpoint.BRANCH_MERGE_POST_CANDIDATE_VALIDATION
    with failpoints.activate(place, Park(timeout_s=60)) as parked:
        merging = threading.Thread(target=merge)
        merging.start()
        parked.wait_for_arrival()
        change(other)
        does('insert Person { name: "Fay" }')(other, "main")
        parked.release()
        merging.join()

    (error,) = errors
    assert isinstance(error, NotFoundError)
    assert (error.kind, error.name) == ("branch", "feature")
    assert str(error).endswith("nothing was merged")
    assert rows(other, "Person").keys() - {"Alice", "Bob", "Carol", "Dan"} == {"Fay"}
