"""Every commit stays readable: rows, single entities and plans of any branch at any time."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.manifest import manifest_ref
from omnigraph.errors import InvalidNameError, InvalidValueError, NotFoundError, Outcome
from omnigraph.model.names import BranchName
from omnigraph.storage.ports import TableRef
from tests.support.graphs import build_graph, edge, ndjson, node, rows, social_graph, table_paths
from tests.support.queries import query

NAMES = query("match { $p: Person } return { $p.name }")
AGES = query("match { $p: Person } return { $p.name, $p.age }")
FRIENDS = query('match { $p: Person { name: "Alice" } $p knows $f } return { $f.name }')


def names(
    graph: Graph, *, branch: str | None = None, commit: str | None = None, text: str = NAMES
) -> Sequence[object]:
    """The first column of a query's rows."""
    found = graph.query(text, branch=branch, commit=commit)
    return [row[found.columns[0]] for row in found]


def write_history(graph: Graph) -> Sequence[str]:
    """The head, and four commits after it, one for each kind of write."""
    steps = [graph.head()]
    for text in (
        'insert Person { name: "Eve" } insert Knows { from: "Alice", to: "Eve" }',
        'update Person set { age: 99 } where name = "Bob"',
        'delete Person where name = "Charlie"',
    ):
        steps.append(str(graph.mutate(query(text)).commit_id))
    loaded = graph.load(ndjson(edge("Knows", "Diana", "Alice")), mode="overwrite")
    return [*steps, str(loaded.commit_id)]


# Commits of a branch


def test_every_commit_reads_as_the_graph_was(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    history = write_history(graph)

    assert [names(graph, commit=commit) for commit in history] == [
        ["Alice", "Bob", "Charlie", "Diana"],
        ["Alice", "Bob", "Charlie", "Diana", "Eve"],
        ["Alice", "Bob", "Charlie", "Diana", "Eve"],
        ["Alice", "Bob", "Diana", "Eve"],
        ["Alice", "Bob", "Diana", "Eve"],
    ]
    assert [names(graph, commit=commit, text=FRIENDS) for commit in history] == [
        ["Bob", "Charlie"],
        ["Bob", "Charlie", "Eve"],
        ["Bob", "Charlie", "Eve"],
        ["Bob", "Eve"],
        [],
    ]


def test_an_old_commit_reads_the_same_later_and_through_a_read_only_graph(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    history = write_history(graph)
    seen = [graph.query(AGES, commit=commit).rows for commit in history]

    for reader in (omnigraph.open(tmp_path), omnigraph.open(tmp_path, read_only=True)):
        assert [reader.query(AGES, commit=commit).rows for commit in history] == seen


def test_a_result_says_which_commit_it_is_of(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    history = write_history(graph)

    assert [graph.query(NAMES, commit=each).commit_id for each in history] == list(history)
    assert graph.query(NAMES).commit_id == graph.head() == history[-1]
    assert graph.query(NAMES).branch == "main"


def test_the_first_commit_of_a_graph_has_every_type_and_no_rows(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    first = graph.commits()[0].id

    found = graph.query(AGES, commit=first)

    assert (len(found), found.columns) == (0, ["p.name", "p.age"])
    assert graph.entity("Person", "Alice", commit=first) is None


def test_building_indexes_is_a_commit_that_reads_as_the_one_before(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before = graph.head()

    graph.ensure_indices()

    assert graph.head() != before
    assert graph.query(AGES, commit=before).rows == graph.query(AGES).rows


# Branches


def test_a_commit_of_a_branch_is_found_without_naming_the_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    on_draft = graph.mutate(query('insert Person { name: "Eve" }'), branch="draft").commit_id
    graph.mutate(query('delete Person where name = "Bob"'), branch="draft")
    graph.mutate(query('insert Person { name: "Zoe" }'))

    found = graph.query(NAMES, commit=on_draft)

    assert [row["p.name"] for row in found] == ["Alice", "Bob", "Charlie", "Diana", "Eve"]
    assert (found.branch, found.commit_id) == ("draft", on_draft)
    assert names(graph, branch="draft") == ["Alice", "Charlie", "Diana", "Eve"]
    assert names(graph) == ["Alice", "Bob", "Charlie", "Diana", "Zoe"]


def test_a_branch_reads_as_its_base_until_it_is_written(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    start = graph.head()
    graph.create_branch("draft")
    graph.mutate(query('insert Person { name: "Zoe" }'))

    assert names(graph, branch="draft") == names(graph, commit=start)
    assert graph.query(NAMES, branch="draft").commit_id == start
    assert names(graph, branch="draft", text=FRIENDS) == ["Bob", "Charlie"]


def test_a_branch_of_a_branch_reads_what_either_of_them_wrote(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    graph.mutate(query('insert Person { name: "Eve" }'), branch="draft")
    graph.create_branch("second", base="draft")
    graph.mutate(
        query('insert Knows { from: "Alice", to: "Eve" }'),
        branch="second",
    )

    assert names(graph, branch="second", text=FRIENDS) == ["Bob", "Charlie", "Eve"]
    assert names(graph, branch="draft", text=FRIENDS) == ["Bob", "Charlie"]
    assert graph.entity("Person", "Eve", branch="second") == {
        "id": "Eve",
        "name": "Eve",
        "age": None,
    }


def test_commits_of_a_deleted_branch_are_not_found_and_others_are(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    on_main = graph.head()
    graph.create_branch("draft")
    on_draft = graph.mutate(query('insert Person { name: "Eve" }'), branch="draft").commit_id
    assert on_draft is not None
    assert len(names(graph, commit=on_draft)) == 5
    remove_branch(tmp_path, "draft")

    for look in (
        lambda: graph.query(NAMES, branch="draft"),
        lambda: graph.query(NAMES, commit=on_draft),
        lambda: graph.entity("Person", "Eve", branch="draft"),
        lambda: graph.entity("Person", "Eve", commit=on_draft),
        lambda: graph.explain(NAMES, branch="draft"),
    ):
        with pytest.raises(NotFoundError) as refused:
            look()
        assert refused.value.outcome is Outcome.UNCHANGED
    assert len(names(graph, commit=on_main)) == len(names(graph)) == 4


def test_a_recreated_branch_is_not_read_from_a_cache_of_its_predecessor(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    deleted = graph.mutate(query('insert Person { name: "Old" }'), branch="draft").commit_id
    assert "Old" in names(graph, branch="draft")
    remove_branch(tmp_path, "draft")
    renewed = omnigraph.open(tmp_path)
    renewed.create_branch("draft")
    renewed.mutate(query('insert Person { name: "New" }'), branch="draft")

    found = names(graph, branch="draft")

    assert set(found) == {"Alice", "Bob", "Charlie", "Diana", "New"}
    assert graph.entity("Person", "Old", branch="draft") is None
    with pytest.raises(NotFoundError):
        graph.query(NAMES, commit=deleted)


def test_a_recreated_graph_is_not_read_from_a_cache_of_its_predecessor(
    tmp_path: Path,
) -> None:
    old = social_graph(tmp_path)
    assert len(names(old)) == 4
    assert names(old, text=FRIENDS) == ["Bob", "Charlie"]
    schema = old.schema_source
    renewed = omnigraph.init(tmp_path, schema, force=True, durability="relaxed")
    renewed.load(
        ndjson(
            node("Person", name="Alice", age=1),
            node("Person", name="Ida", age=2),
            node("Company", name="Initech"),
            edge("Knows", "Alice", "Ida"),
            edge("WorksAt", "Ida", "Initech"),
        ),
        mode="append",
    )

    assert names(old) == ["Alice", "Ida"]
    assert names(old, text=FRIENDS) == ["Ida"]
    assert old.query(AGES).rows == renewed.query(AGES).rows


def remove_branch(root: Path, name: str) -> None:
    """Delete a branch of the history and of every table without any open graph."""
    tables = open_stores(make_settings(root, storage_options=None, durability="relaxed")).tables
    tables.delete_branch(manifest_ref(BranchName(name)))
    for path in table_paths(root).values():
        tables.delete_branch(TableRef(str(path.relative_to(root)), name))


# Single entities


def test_an_entity_is_shown_with_all_its_properties_as_it_was(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    history = write_history(graph)

    bob = [graph.entity("Person", "Bob", commit=commit) for commit in history]
    charlie = [graph.entity("Person", "Charlie", commit=commit) for commit in history]

    young, old = ({"id": "Bob", "name": "Bob", "age": age} for age in (25, 99))
    assert bob == [young, young, old, old, old]
    assert [each is not None for each in charlie] == [True, True, True, False, False]


def test_an_edge_is_shown_with_its_ends(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path / "graph",
        social_graph(tmp_path / "other").schema_source,
        node("Person", name="Alice"),
        node("Person", name="Bob"),
        edge("Knows", "Alice", "Bob", since="2024-05-06", id="k1"),
    )

    shown = {"id": "k1", "src": "Alice", "dst": "Bob", "since": "2024-05-06"}
    assert graph.entity("Knows", "k1") == shown
    assert graph.entity("knows", "k1") == shown


def test_a_missing_id_is_none(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    an_edge = next(iter(rows(graph, "Knows")))

    for type_name, id in [("Person", "Zed"), ("Person", ""), ("Person", an_edge), ("Knows", "Bob")]:
        assert graph.entity(type_name, id) is None


def test_an_id_is_taken_literally(tmp_path: Path) -> None:
    odd = ["O'Hara", '"', "a\\b", "%", "id", "x' OR '1'='1", "Zoë", "日本"]
    schema = "node Person { name: String @key }"
    graph = build_graph(tmp_path, schema, *(node("Person", name=name) for name in odd))

    for name in odd:
        assert graph.entity("Person", name) == {"id": name, "name": name}
    assert graph.entity("Person", "absent' OR '1'='1") is None


def test_a_type_that_is_not_declared_is_not_found(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with pytest.raises(NotFoundError) as refused:
        graph.entity("Persn", "Alice")

    assert (refused.value.kind, refused.value.name) == ("type", "Persn")
    assert "`Person`" in str(refused.value)


# Invalid requests


@pytest.mark.parametrize(
    "commit", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "", "main", "node:Person", "graph_head:main", "a'b"]
)
def test_a_commit_that_is_not_there_is_not_found(tmp_path: Path, commit: str) -> None:
    graph = social_graph(tmp_path)

    for look in (
        lambda: graph.query(NAMES, commit=commit),
        lambda: graph.entity("Person", "Alice", commit=commit),
        lambda: list(graph.export(commit=commit)),
    ):
        with pytest.raises(NotFoundError) as refused:
            look()
        assert (refused.value.kind, refused.value.name) == ("commit", commit)


def test_a_read_takes_either_a_branch_or_a_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    head = graph.head()

    for look in (
        lambda: graph.query(NAMES, branch="main", commit=head),
        lambda: graph.entity("Person", "Alice", branch="main", commit=head),
    ):
        with pytest.raises(InvalidValueError) as refused:
            look()
        assert "not at both" in str(refused.value)


def test_a_branch_that_is_not_there_is_not_found_and_a_bad_name_is_refused(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)

    with pytest.raises(NotFoundError):
        graph.query(NAMES, branch="draft")
    with pytest.raises(InvalidNameError):
        graph.query(NAMES, branch="a//b")
    with pytest.raises(NotFoundError):
        graph.explain(NAMES, branch="draft")


# Plans


def test_a_plan_is_made_for_the_requested_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    graph.mutate(query('insert Person { name: "Eve" }'), branch="draft")

    assert "of 4 nodes" in graph.explain(NAMES)
    assert "of 5 nodes" in graph.explain(NAMES, branch="draft")


def test_a_closed_graph_reads_nothing(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    head = graph.head()
    graph.close()

    for look in (
        lambda: graph.query(NAMES),
        lambda: graph.query(NAMES, commit=head),
        lambda: graph.entity("Person", "Alice"),
        lambda: graph.explain(NAMES),
        graph.ensure_indices,
    ):
        with pytest.raises(omnigraph.errors.ForbiddenError):
            look()
