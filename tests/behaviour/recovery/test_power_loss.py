"""Power lost before a version is on disk: the write was not acknowledged, and nothing else is lost.

The state after a power loss is made by hand: a file that has its name and lacks its content.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import CorruptError, RecoveryRequiredError, UnavailableError
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.fsync import Durability
from omnigraph.storage.lance.branches import fork, list_branches
from omnigraph.storage.lance.handles import DatasetCache
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    contents,
    head_versions,
    open_with,
    pins,
    require_linear,
    rows,
    sidecars,
    social_graph,
    table_paths,
)
from tests.support.queries import query
from tests.support.table_stores import PATH, append, create_people, place_on_disk

EVE = query('insert Person { name: "Eve" }')
FRANK = query('insert Person { name: "Frank" }')
EVE_AT_INITECH = query(
    'insert Person { name: "Eve" } insert Company { name: "Initech" } '
    'insert WorksAt { from: "Eve", to: "Initech" }'
)
BEFORE_PUBLISH = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER
AFTER_PUBLISH = Failpoint.GRAPH_PUBLISH_AFTER_MANIFEST_COMMIT

Cut = Callable[[bytes], bytes]
CUTS: dict[str, Cut] = {
    "nothing": lambda whole: whole[:0],
    "a part": lambda whole: whole[: len(whole) // 2],
    "zeros": lambda whole: bytes(len(whole)),
    "zeros at the end": lambda whole: whole[:64] + bytes(len(whole) - 64),
}
each_cut = pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())


def stop(root: Path, text: str, *, at: Failpoint, branch: str = "main") -> None:
    """Start a write and let it die at a failpoint."""
    failpoints = Failpoints()
    graph = open_with(root, failpoints)
    with failpoints.activate(at, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        graph.mutate(text, branch=branch)


def newest_version(folder: Path) -> Path:
    """The file that describes the newest version of a table."""
    return min((folder / "_versions").glob("*.manifest"))


def cut_off(folder: Path, cut: Cut) -> Path:
    """Leave the newest version of a table as a power loss leaves it."""
    file = newest_version(folder)
    file.write_bytes(cut(file.read_bytes()))
    return file


def require_recovered(graph: Graph, root: Path) -> None:
    """Nothing is under way, and history names the newest version of every type."""
    assert sidecars(root) == []
    assert head_versions(root) == pins(graph)
    require_linear(graph.commits())


@each_cut
def test_a_write_whose_version_was_cut_off_has_not_happened(tmp_path: Path, cut: Cut) -> None:
    before = contents(social_graph(tmp_path))
    stop(tmp_path, EVE, at=BEFORE_PUBLISH)
    cut_off(table_paths(tmp_path)["node:Person"], cut)

    with omnigraph.open(tmp_path) as graph:
        assert contents(graph) == before
        assert [each.kind for each in graph.recoveries()] == ["EmptyIntentDiscarded"]
        graph.mutate(FRANK)

    with omnigraph.open(tmp_path) as graph:
        assert rows(graph, "Person").keys() == before["Person"].keys() | {"Frank"}
        require_recovered(graph, tmp_path)


@each_cut
def test_a_write_of_which_one_version_was_cut_off_is_undone(tmp_path: Path, cut: Cut) -> None:
    before = contents(social_graph(tmp_path))
    stop(tmp_path, EVE_AT_INITECH, at=BEFORE_PUBLISH)
    cut_off(table_paths(tmp_path)["node:Company"], cut)

    with omnigraph.open(tmp_path) as graph:
        assert contents(graph) == before
        assert [each.kind for each in graph.recoveries()] == ["RolledBack"]
        graph.mutate(EVE_AT_INITECH)

        assert "Initech" in rows(graph, "Company")
        require_recovered(graph, tmp_path)


def test_a_first_write_on_a_branch_whose_version_was_cut_off_has_not_happened(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    stop(tmp_path, EVE, at=BEFORE_PUBLISH, branch="draft")
    cut_off(table_paths(tmp_path)["node:Person"] / "tree" / "draft", CUTS["nothing"])

    graph.mutate(FRANK, branch="draft")

    added = rows(graph, "Person", "draft").keys() - rows(graph, "Person").keys()
    assert added == {"Frank"}
    assert sidecars(tmp_path) == []


def test_readers_do_not_notice_a_version_that_was_cut_off(tmp_path: Path) -> None:
    before = contents(social_graph(tmp_path))
    stop(tmp_path, EVE, at=BEFORE_PUBLISH)
    file = cut_off(table_paths(tmp_path)["node:Person"], CUTS["nothing"])

    with omnigraph.open(tmp_path, read_only=True) as reader:
        assert contents(reader) == before

    assert file.read_bytes() == b""
    assert len(sidecars(tmp_path)) == 1


def test_a_record_of_a_recovery_that_was_cut_off_is_written_again(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    stop(tmp_path, EVE, at=AFTER_PUBLISH)
    omnigraph.open(tmp_path).close()
    stop(tmp_path, FRANK, at=AFTER_PUBLISH)
    (record,) = (tmp_path / "__recovery").iterdir()
    content = record.read_bytes()
    omnigraph.open(tmp_path).close()
    cut_off(tmp_path / "_graph_commit_recoveries.lance", CUTS["nothing"])
    record.write_bytes(content)

    with omnigraph.open(tmp_path) as graph:
        assert len(graph.recoveries()) == 2
        require_recovered(graph, tmp_path)


@each_cut
def test_a_cut_off_version_that_history_names_is_reported_and_not_overwritten(
    tmp_path: Path, cut: Cut
) -> None:
    social_graph(tmp_path).close()
    with omnigraph.open(tmp_path) as graph:
        graph.mutate(EVE)
    folder = table_paths(tmp_path)["node:Person"]
    whole = newest_version(folder).read_bytes()
    file = cut_off(folder, cut)

    with omnigraph.open(tmp_path) as graph, pytest.raises(CorruptError, match="from a copy"):
        graph.mutate(FRANK)

    assert file.read_bytes() == cut(whole)
    file.write_bytes(whole)
    with omnigraph.open(tmp_path) as graph:
        graph.mutate(FRANK)
        assert {"Eve", "Frank"} <= rows(graph, "Person").keys()


@each_cut
def test_a_cut_off_history_says_how_to_repair_it_without_loss(tmp_path: Path, cut: Cut) -> None:
    social_graph(tmp_path).close()
    stop(tmp_path, EVE, at=AFTER_PUBLISH)
    file = cut_off(tmp_path / "__manifest", cut)

    for read_only in (True, False):
        with pytest.raises(CorruptError, match=f"{file.name}.*if the power failed, move"):
            omnigraph.open(tmp_path, read_only=read_only)

    file.rename(tmp_path.parent / "aside")
    with omnigraph.open(tmp_path) as graph:
        assert "Eve" in rows(graph, "Person")
        assert [each.kind for each in graph.recoveries()] == ["RolledForward"]
        require_recovered(graph, tmp_path)


@each_cut
def test_a_branch_whose_creation_was_cut_off_can_be_created(tmp_path: Path, cut: Cut) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    cut_off(tmp_path / "__manifest" / "tree" / "draft", cut)
    (tmp_path / "__manifest" / "_refs" / "branches" / "draft.json").unlink()

    with omnigraph.open(tmp_path) as reopened:
        assert reopened.branches() == ["main"]
        reopened.create_branch("draft")
        reopened.mutate(EVE, branch="draft")

        assert "Eve" in rows(reopened, "Person", "draft")
        assert "Eve" not in rows(reopened, "Person")


def test_a_branch_that_cannot_be_flushed_is_not_created(tmp_path: Path) -> None:
    place = place_on_disk(tmp_path)
    store = place.open()
    at = append(store, create_people(store, ann=1), bob=2)
    handles = DatasetCache(place.root, storage_options={}, is_local=True)

    def refuse(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    with pytest.raises(UnavailableError, match="disk reported a fault"):
        fork(handles, at, "draft", disk=Durability(Path(place.root), flush=refuse))

    assert list_branches(handles, PATH) == frozenset()
    draft = place.open().fork(at, branch="draft")
    assert place.open().find_head(draft) == at.version
