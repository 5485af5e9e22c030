"""A branch that another handle deletes, or makes anew, while its rows are read: never the rows of
one for those of the other."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import GraphError, NotFoundError
from omnigraph.storage.failpoints import Failpoint, Failpoints, Park
from omnigraph.storage.ports import TableDelta, TableStore, TableVersion
from tests.support.crashing import CrashingTables, Fault, Scope, When
from tests.support.graphs import open_with, rows
from tests.support.queries import query
from tests.support.teams import does, team

Deed = Callable[[Graph], None]
Call = Callable[[Graph, str], object]


def delete(graph: Graph) -> None:
    """The branch goes."""
    graph.delete_branch("feature")


def make_anew(graph: Graph) -> None:
    """Another branch of that name, with as many commits."""
    graph.delete_branch("feature")
    graph.create_branch("feature")
    does('insert Person { name: "Mallory" }')(graph, "feature")


class InterruptedTables(CrashingTables):
    """A table store in which something else happens before rows are compared for the first time."""

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
    """A handle that is overtaken while it compares rows."""
    settings = make_settings(path, storage_options=None, durability="relaxed")
    stores = open_stores(settings)
    tables = InterruptedTables(stores.tables, interrupt)
    return Graph(settings, replace(stores, tables=tables), actor=None, is_read_only=False)


@pytest.mark.parametrize("deed", [delete, make_anew])
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
def test_rows_of_a_branch_that_is_another_by_now_are_not_taken_for_its_own(
    tmp_path: Path, call: Call, deed: Deed
) -> None:
    built = team(tmp_path)
    eve = built.mutate(query('insert Person { name: "Eve" }'), branch="feature").commit_id
    graph, before = open_interrupted(tmp_path, lambda: deed(built)), built.head()

    with pytest.raises(NotFoundError) as lost:
        call(graph, str(eve))

    assert built.head() == before
    assert (lost.value.kind, lost.value.name) == ("branch", "feature")
    assert "__manifest" not in str(lost.value)


def test_a_commit_of_a_branch_that_goes_on_meanwhile_is_still_its_own(tmp_path: Path) -> None:
    built = team(tmp_path)
    does('insert Person { name: "Eve" }')(built, "feature")

    def go_on() -> None:
        does('insert Person { name: "Fay" }')(built, "feature")

    open_interrupted(tmp_path, go_on).merge("feature")

    assert rows(built, "Person").keys() - {"Alice", "Bob", "Carol", "Dan"} == {"Eve"}


@pytest.mark.parametrize("deed", [delete, make_anew])
def test_a_merge_that_must_be_worked_out_anew_needs_its_source(tmp_path: Path, deed: Deed) -> None:
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
        deed(other)
        does('insert Person { name: "Fay" }')(other, "main")
        parked.release()
        merging.join()

    (error,) = errors
    assert isinstance(error, NotFoundError)
    assert (error.kind, error.name) == ("branch", "feature")
    assert str(error).endswith("nothing was merged")
    assert rows(other, "Person").keys() - {"Alice", "Bob", "Carol", "Dan"} == {"Fay"}
