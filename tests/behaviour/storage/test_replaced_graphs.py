"""A name that is reused for another graph or branch: the new one is not mistaken for the old."""

import threading
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.manifest import manifest_ref
from omnigraph.errors import (
    AlreadyExistsError,
    CorruptError,
    GraphError,
    IntegrityError,
    NotFoundError,
    SchemaChangedError,
)
from omnigraph.model.names import BranchName
from omnigraph.storage.ports import TableRef
from tests.support.graphs import contents, head_versions, pins, require_linear, rows, social_graph
from tests.support.queries import query

LOOSE = "node Note { text: String? }"
NOTE = query('insert Note { text: "x" }')


def remove_branch(path: Path, name: str) -> None:
    """Delete a branch of the manifest and of every table without any open graph."""
    tables = open_stores(make_settings(path, storage_options=None, durability="relaxed")).tables
    with omnigraph.open(path, read_only=True) as graph:
        places = [Path(table.path).relative_to(path) for table in graph.tables().values()]
    tables.delete_branch(manifest_ref(BranchName(name)))
    for place in places:
        tables.delete_branch(TableRef(str(place), name))


def test_a_recreated_branch_is_distinguished_from_its_predecessor(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    for name in ("Old", "Older"):
        graph.mutate(query(f'insert Person {{ name: "{name}" }}'), branch="draft")
    onlooker = omnigraph.open(tmp_path)
    assert {"Old", "Older"} <= rows(onlooker, "Person", "draft").keys()
    remove_branch(tmp_path, "draft")
    renewed = omnigraph.open(tmp_path)
    renewed.create_branch("draft")
    for name in ("New", "Newer"):
        renewed.mutate(query(f'insert Person {{ name: "{name}" }}'), branch="draft")

    onlooker.mutate(query('insert Person { name: "Newest" }'), branch="draft")

    added = rows(onlooker, "Person", "draft").keys() - rows(onlooker, "Person").keys()
    assert added == {"New", "Newer", "Newest"}
    assert contents(onlooker, "draft") == contents(omnigraph.open(tmp_path), "draft")


@pytest.mark.parametrize("is_missed", [False, True])
@pytest.mark.parametrize(("remover", "maker", "writer"), [*product((0, 1), repeat=3)])
def test_no_handle_reads_the_predecessor_of_a_recreated_branch(
    tmp_path: Path, remover: int, maker: int, writer: int, *, is_missed: bool
) -> None:
    social_graph(tmp_path).create_branch("draft")
    graphs = [omnigraph.open(tmp_path) for _ in range(2)]
    graphs[0].mutate(query('insert Person { name: "Old" }'), branch="draft")
    for graph in graphs:
        assert "Old" in rows(graph, "Person", "draft")

    graphs[remover].delete_branch("draft")
    if is_missed:
        for graph in graphs:
            with pytest.raises(NotFoundError):
                rows(graph, "Person", "draft")
    graphs[maker].create_branch("draft")
    graphs[writer].mutate(query('insert Person { name: "New" }'), branch="draft")

    for graph in graphs:
        assert rows(graph, "Person", "draft").keys() - rows(graph, "Person").keys() == {"New"}


def test_a_recreated_graph_is_distinguished_from_its_predecessor(tmp_path: Path) -> None:
    old = omnigraph.init(tmp_path, LOOSE)
    for _ in range(2):
        old.mutate(NOTE)
    new = omnigraph.init(tmp_path, LOOSE, force=True)
    for _ in range(2):
        new.mutate(NOTE)

    old.mutate(NOTE)

    for graph in (old, new, omnigraph.open(tmp_path)):
        assert len(rows(graph, "Note")) == 3
        require_linear(graph.commits())
    assert head_versions(tmp_path) == pins(new)


FOREIGN = (
    "notes.txt",
    "src/main.py",
    "nodes/notes.txt",
    "nodes/mine/notes.txt",
    "edges/0123/notes.txt",
    ".hidden",
)


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_holds_other_files_does_not_become_a_graph(
    tmp_path: Path, name: str, *, force: bool
) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine", encoding="utf-8")

    with pytest.raises(AlreadyExistsError, match="nothing was created") as refused:
        omnigraph.init(tmp_path, LOOSE, force=force)

    assert "new or empty" in str(refused.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]
    assert file.read_text(encoding="utf-8") == "mine"


def test_force_deletes_only_what_the_graph_owns(tmp_path: Path) -> None:
    with omnigraph.init(tmp_path, LOOSE) as graph:
        graph.mutate(NOTE)
        graph.create_branch("draft")
    for name in FOREIGN:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine", encoding="utf-8")

    with omnigraph.init(tmp_path, LOOSE, force=True) as renewed:
        assert rows(renewed, "Note") == {}
        assert (len(renewed.commits()), renewed.branches()) == (1, ["main"])

    assert [(tmp_path / name).read_text(encoding="utf-8") for name in FOREIGN] == ["mine"] * 6


def test_empty_folders_do_not_prevent_the_creation_of_a_graph(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "nodes" / "mine").mkdir(parents=True)

    with omnigraph.init(tmp_path, LOOSE) as graph:
        graph.mutate(NOTE)

        assert len(rows(graph, "Note")) == 1


def test_a_graph_that_lost_its_schema_is_damaged_and_not_created_again(tmp_path: Path) -> None:
    with omnigraph.init(tmp_path, LOOSE) as graph:
        graph.create_branch("draft")
        graph.mutate(NOTE, branch="draft")
    for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json"):
        (tmp_path / name).unlink()

    with pytest.raises(CorruptError, match=r"_schema\.pg is missing"):
        omnigraph.open(tmp_path)
    with pytest.raises(AlreadyExistsError):
        omnigraph.init(tmp_path, LOOSE)


def test_a_schema_that_history_does_not_name_is_refused(tmp_path: Path) -> None:
    omnigraph.init(tmp_path, "node Note { text: String?  size: I32?  @range(size, 0..9) }").close()
    for name in ("_schema.ir.json", "__schema_state.json"):
        (tmp_path / name).unlink()
    (tmp_path / "_schema.pg").write_text("node Note { text: String?  size: I32? }", "utf-8")

    with pytest.raises(SchemaChangedError, match="no longer matches"):
        omnigraph.open(tmp_path)


def test_schema_files_of_another_graph_are_refused(tmp_path: Path) -> None:
    omnigraph.init(tmp_path / "one", LOOSE).close()
    omnigraph.init(tmp_path / "other", "node Note { text: I32? }").close()
    for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json"):
        (tmp_path / "one" / name).write_bytes((tmp_path / "other" / name).read_bytes())

    with pytest.raises(SchemaChangedError, match="no longer match"):
        omnigraph.open(tmp_path / "one")


def test_of_many_concurrent_creations_of_a_branch_one_succeeds(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    outcomes: list[str] = []

    def create() -> None:
        graph = omnigraph.open(tmp_path)
        try:
            graph.create_branch("draft")
        except GraphError as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append("made")

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["AlreadyExistsError"] * 3 + ["made"]


def test_a_refused_load_creates_no_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    dangling = pa.table({"src": ["Alice"], "dst": ["Absent"]})
    with pytest.raises(IntegrityError):
        graph.load({"Knows": dangling}, mode="append", branch="new", base="main")

    assert graph.branches() == ["main"]
