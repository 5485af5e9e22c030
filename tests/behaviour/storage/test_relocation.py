"""A moved or copied graph: its branches are refused until relocation, and its own afterwards."""

import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.maintenance.repair import relocate
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import CorruptError, GraphError, NotFoundError, RecoveryRequiredError
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.lance.branches import rewrite_base_paths
from tests.support.crashing import Fault, Scope, SimulatedCrash, When, crashing
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    Contents,
    contents,
    edge,
    ndjson,
    node,
    open_with,
    rows,
    social_graph,
)
from tests.support.queries import query
from tests.support.s3_server import S3Server
from tests.support.sweeps import each_fault

ADD = query("insert Person { name: $name }", parameters="$name: String")
BRANCHES = ("main", "draft", "other", "team/deep")


def branched_graph(root: Path) -> Graph:
    """A social graph with a branch and two made from it, one of them with a folder in its name.

    Each has rows of its own; the first also deletions and an index.
    """
    graph = social_graph(root)
    graph.ensure_indices()
    graph.create_branch("draft")
    graph.mutate(ADD, {"name": "Eve"}, branch="draft")
    graph.mutate(query('delete Person where name = "Bob"'), branch="draft")
    graph.ensure_indices(branch="draft")
    graph.tag("kept", graph.commits("draft")[-1].id)
    graph.create_branch("team/deep", base="draft")
    graph.load(
        ndjson(node("Person", name="Finn"), edge("Knows", "Eve", "Finn")),
        mode="append",
        branch="team/deep",
    )
    graph.create_branch("other", base="draft")
    graph.mutate(ADD, {"name": "Gus"}, branch="other")
    return graph


def all_contents(graph: Graph) -> Mapping[str, Contents]:
    return {name: contents(graph, name) for name in BRANCHES}


def find_contents(graph: Graph, name: str) -> Contents | None:
    """The rows of a branch; None if it is refused because it is not relocated."""
    try:
        return contents(graph, name)
    except CorruptError as error:
        if "--relocate" not in str(error):
            raise
        return None


def everything_at(root: Path) -> Mapping[str, bytes]:
    files = sorted(each for each in root.rglob("*") if each.is_file())
    return {str(each.relative_to(root)): each.read_bytes() for each in files}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that every test copies and none changes."""
    root = tmp_path_factory.mktemp("original") / "graph"
    branched_graph(root).close()
    return root


def test_a_moved_graph_has_all_of_its_branches_after_relocation(
    original: Path, tmp_path: Path
) -> None:
    expected = all_contents(omnigraph.open(original, read_only=True))
    shutil.copytree(original, tmp_path / "first")
    omnigraph.relocate(tmp_path / "first")
    (tmp_path / "first").rename(tmp_path / "a 'second' place")

    reports = omnigraph.relocate(tmp_path / "a 'second' place")

    assert [each.branch for each in reports] == ["draft", "other", "team/deep"]
    assert {each.old_place for each in reports} == {str(tmp_path / "first")}
    with omnigraph.open(tmp_path / "a 'second' place") as moved:
        assert all_contents(moved) == expected
        assert all(each.severity != "error" for each in moved.doctor().findings)


def test_a_relocated_copy_does_not_read_the_original(original: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "graph")
    omnigraph.relocate(tmp_path / "graph")
    expected = all_contents(omnigraph.open(tmp_path / "graph", read_only=True))
    shutil.copytree(tmp_path / "graph", tmp_path / "copy")

    omnigraph.relocate(tmp_path / "copy")
    with omnigraph.open(tmp_path / "graph") as changed:
        changed.mutate(ADD, {"name": "Zoe"}, branch="draft")
    seen = all_contents(omnigraph.open(tmp_path / "copy", read_only=True))
    shutil.rmtree(tmp_path / "graph")

    assert seen == expected
    assert all_contents(omnigraph.open(tmp_path / "copy", read_only=True)) == expected


def test_a_relocated_copy_does_not_write_to_the_original(original: Path, tmp_path: Path) -> None:
    before = everything_at(original)
    shutil.copytree(original, tmp_path / "copy")

    omnigraph.relocate(tmp_path / "copy")
    with omnigraph.open(tmp_path / "copy") as copied:
        copied.mutate(ADD, {"name": "Zoe"}, branch="draft")
        copied.delete_branch("other")
        copied.optimize(branch="draft")
        copied.cleanup(keep=1)

    assert everything_at(original) == before


def test_every_earlier_commit_and_tag_of_a_relocated_branch_is_readable(
    original: Path, tmp_path: Path
) -> None:
    history = query("match { $p: Person } return { $p.name } order { $p.name }")
    with omnigraph.open(original, read_only=True) as first:
        commits = [each.id for name in BRANCHES for each in first.commits(branch=name)]
        expected = [first.query(history, commit=each).rows for each in commits]
    shutil.copytree(original, tmp_path / "copy")

    omnigraph.relocate(tmp_path / "copy")

    with omnigraph.open(tmp_path / "copy", read_only=True) as copied:
        assert [copied.query(history, commit=each).rows for each in commits] == expected
        assert copied.query(history, commit="kept").rows in expected


def test_branches_are_written_merged_and_deleted_after_relocation(
    original: Path, tmp_path: Path
) -> None:
    shutil.copytree(original, tmp_path / "copy")
    omnigraph.relocate(tmp_path / "copy")

    with omnigraph.open(tmp_path / "copy") as graph:
        graph.mutate(ADD, {"name": "Hal"}, branch="team/deep")
        graph.create_branch("new", base="team/deep")
        graph.mutate(ADD, {"name": "Ida"}, branch="new")
        graph.merge("new", into="team/deep")
        graph.merge("team/deep", into="main")
        graph.merge("other", into="main")
        graph.delete_tag("kept")
        for name in ("new", "team/deep", "other", "draft"):
            graph.delete_branch(name)
        graph.optimize()

        assert {"Eve", "Finn", "Gus", "Hal", "Ida"} <= rows(graph, "Person").keys()
        assert "Bob" not in rows(graph, "Person")
        assert graph.branches() == ["main"]


def test_a_branch_of_a_moved_graph_is_refused_with_the_command_that_relocates_it(
    original: Path, tmp_path: Path
) -> None:
    shutil.copytree(original, tmp_path / "a copy")

    with omnigraph.open(tmp_path / "a copy") as copied:
        for use in (
            lambda: rows(copied, "Person", "draft"),
            lambda: copied.mutate(ADD, {"name": "Zoe"}, branch="draft"),
            lambda: copied.create_branch("new", base="draft"),
            lambda: copied.merge("draft", into="main"),
        ):
            with pytest.raises(CorruptError) as refused:
                use()
            assert f"`omnigraph repair '{tmp_path / 'a copy'}' --relocate`" in str(refused.value)

        omnigraph.relocate(tmp_path / "a copy")

        assert "Eve" in rows(copied, "Person", "draft")
        copied.mutate(ADD, {"name": "Zoe"}, branch="draft")


def test_a_graph_that_was_moved_one_folder_up_is_refused_too(
    original: Path, tmp_path: Path
) -> None:
    shutil.copytree(original, tmp_path / "graph" / "old")
    omnigraph.relocate(tmp_path / "graph" / "old")
    (tmp_path / "graph").rename(tmp_path / "outer")
    (tmp_path / "outer" / "old").rename(tmp_path / "graph")

    with (
        omnigraph.open(tmp_path / "graph") as moved,
        pytest.raises(CorruptError, match="--relocate"),
    ):
        rows(moved, "Person", "draft")


def test_relocation_of_a_graph_that_stayed_changes_no_file(original: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "copy")
    omnigraph.relocate(tmp_path / "copy")
    before = everything_at(tmp_path / "copy")

    again = omnigraph.relocate(tmp_path / "copy")

    assert again == []
    assert everything_at(tmp_path / "copy") == before


def test_a_place_without_a_graph_cannot_be_relocated(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        omnigraph.relocate(tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("foreign", ["/elsewhere/nodes/0123", "/elsewhere", "s3://bucket/x"])
def test_a_path_that_is_not_of_a_copy_of_the_graph_is_refused_and_nothing_rewritten(
    original: Path, tmp_path: Path, foreign: str
) -> None:
    shutil.copytree(original, tmp_path / "copy")
    file = max((tmp_path / "copy" / "__manifest/tree/other/_versions").glob("*.manifest"))
    rewritten = rewrite_base_paths(file.read_bytes(), lambda _: foreign, file=file.name)
    assert rewritten is not None
    file.write_bytes(rewritten)
    before = everything_at(tmp_path / "copy")

    with pytest.raises(CorruptError, match="nothing was rewritten"):
        omnigraph.relocate(tmp_path / "copy")

    assert everything_at(tmp_path / "copy") == before


def test_a_path_to_a_branch_that_is_not_here_is_refused(original: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "__manifest/tree/draft")

    with pytest.raises(CorruptError, match="this graph has no such folder"):
        omnigraph.relocate(tmp_path / "copy")


def test_an_interrupted_relocation_is_finished_by_the_next(tmp_path: Path) -> None:
    names = ("main", "draft", "other")
    with social_graph(tmp_path / "graph") as graph:
        graph.create_branch("draft")
        graph.mutate(ADD, {"name": "Eve"}, branch="draft")
        graph.create_branch("other", base="draft")
        graph.mutate(ADD, {"name": "Finn"}, branch="other")
        expected = {name: contents(graph, name) for name in names}
    hidden = (tmp_path / "graph").rename(tmp_path / "hidden")
    numbers = count()

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(numbers))
        shutil.copytree(hidden, root)
        settings = make_settings(str(root), storage_options=None, durability="relaxed")
        stores = crashing(open_stores(settings), fault)
        try:
            relocate(settings.location, stores=stores, locking=settings.locking)
        except (SimulatedCrash, GraphError):
            assert fault.hit is not None
        seen = omnigraph.open(root, read_only=True)
        for name in names:
            assert find_contents(seen, name) in (None, expected[name])
        omnigraph.relocate(root, durability="relaxed")
        after = omnigraph.open(root, read_only=True)
        assert {name: contents(after, name) for name in names} == expected

    swept = each_fault(play, whens=(When.BEFORE, When.LOST), scope=Scope.EFFECTS)

    assert swept.effects >= len(names)


def test_a_write_that_stopped_on_a_branch_is_recovered_after_relocation(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph").create_branch("draft")
    failpoints = Failpoints()
    with (
        open_with(tmp_path / "graph", failpoints) as graph,
        failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        graph.mutate(ADD, {"name": "Eve"}, branch="draft")
    (tmp_path / "graph").rename(tmp_path / "moved")

    omnigraph.relocate(tmp_path / "moved")

    with omnigraph.open(tmp_path / "moved") as moved:
        moved.mutate(ADD, {"name": "Finn"}, branch="draft")
        assert {"Eve", "Finn"} <= rows(moved, "Person", "draft").keys()


def test_a_version_that_a_loss_of_power_cut_off_does_not_stop_a_relocation(
    original: Path, tmp_path: Path
) -> None:
    shutil.copytree(original, tmp_path / "copy")
    (table,) = (tmp_path / "copy" / "nodes").glob("*/tree/other/_versions")
    newest = min(table.glob("*.manifest"))
    cut = newest.with_name(f"{int(newest.stem) - 1:020}.manifest")
    cut.write_bytes(bytes(100))

    omnigraph.relocate(tmp_path / "copy")

    assert cut.read_bytes() == bytes(100)
    with omnigraph.open(tmp_path / "copy") as copied:
        assert "Gus" in rows(copied, "Person", "other")
        copied.mutate(ADD, {"name": "Zoe"}, branch="other")


def test_a_graph_whose_prefix_in_a_bucket_was_copied_is_its_own_after_relocation(
    server: S3Server,
) -> None:
    bucket, options = server.create_bucket(), server.lance_options()
    first, second = f"s3://{bucket}/first", f"s3://{bucket}/deep/second"
    with omnigraph.init(
        first, schema="node Person { name: String @key }", storage_options=options
    ) as graph:
        graph.create_branch("draft")
        graph.mutate(ADD, {"name": "Eve"}, branch="draft")
        graph.create_branch("other", base="draft")
        graph.mutate(ADD, {"name": "Finn"}, branch="other")
    source = server.object_store(bucket, prefix="first")
    target = server.object_store(bucket, prefix="deep/second")
    keys = [each["path"] for page in source.list() for each in page]
    for key in keys:
        target.put(key, bytes(source.get(key).bytes()))

    with (
        omnigraph.open(second, storage_options=options) as copied,
        pytest.raises(CorruptError, match=f"omnigraph repair {second} --relocate"),
    ):
        rows(copied, "Person", "draft")
    reports = omnigraph.relocate(second, storage_options=options)
    source.delete(keys)

    assert {each.old_place for each in reports} == {first}
    with omnigraph.open(second, storage_options=options) as copied:
        copied.mutate(ADD, {"name": "Gus"}, branch="other")
        copied.merge("other", into="main")
        copied.delete_branch("other")
        assert rows(copied, "Person", "draft").keys() == {"Eve"}
        assert rows(copied, "Person").keys() == {"Eve", "Finn", "Gus"}
