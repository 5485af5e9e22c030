"""Tags: a tag names a commit and keeps it readable."""

import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    AlreadyExistsError,
    CorruptError,
    ForbiddenError,
    GraphError,
    InvalidNameError,
    InvalidValueError,
    NotFoundError,
    StillNeededError,
)
from tests.support.crashing import Fault, Scope, When
from tests.support.graphs import build_graph, node, social_graph
from tests.support.queries import query
from tests.support.sweeps import Reached, each_fault, open_crashing, open_plain, operate_under_fault
from tests.support.table_stores import Place

EVE = query('insert Person { name: "Eve" }')
FRANK = query('insert Person { name: "Frank" }')
NAMES = "query q() { match { $p: Person } return { $p.name as name } order { $p.name } }"


def names_at(graph: Graph, commit: str) -> list[object]:
    """The people at a commit or tag, by a read."""
    return [row["name"] for row in graph.query(NAMES, commit=commit).rows]


def test_a_tag_names_a_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    first = graph.head()
    second = graph.mutate(EVE).commit_id
    assert second is not None

    graph.tag("v1", first)
    graph.tag(" release/2.0 ", second)

    assert graph.tags() == {"release/2.0": second, "v1": first}
    assert omnigraph.open(tmp_path, read_only=True).tags() == graph.tags()
    assert graph.commits()[-1].id == second, "a tag is not a commit"


def test_every_read_accepts_a_tag_as_a_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.tag("before", graph.head())

    graph.mutate(EVE)

    assert "Eve" not in names_at(graph, "before")
    assert graph.query(NAMES, commit="before").commit_id == graph.tags()["before"]
    assert not any("Eve" in line for line in graph.export(commit="before"))
    assert graph.entity("Person", "Eve", commit="before") is None
    assert graph.entity("Person", "Bob", commit=" before ") is not None


def test_a_tag_of_a_tag_names_its_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    first = graph.head()
    graph.tag("v1", first)
    graph.mutate(EVE)

    graph.tag("stable", "v1")

    assert graph.tags() == {"stable": first, "v1": first}


def test_a_name_is_given_once(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    first = graph.head()
    graph.tag("v1", first)
    second = graph.mutate(EVE).commit_id
    assert second is not None

    graph.tag("v1", first)
    with pytest.raises(AlreadyExistsError, match="with `delete_tag`"):
        graph.tag("v1", second)

    assert graph.tags() == {"v1": first}
    graph.delete_tag("v1")
    graph.tag("v1", second)
    assert graph.tags() == {"v1": second}


def test_deleting_a_tag_keeps_its_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    first = graph.head()
    graph.tag("v1", first)

    graph.delete_tag("v1")

    assert graph.tags() == {}
    assert len(names_at(graph, first)) == 4
    with pytest.raises(NotFoundError, match="'v1' not found"):
        names_at(graph, "v1")
    with pytest.raises(NotFoundError) as refused:
        graph.delete_tag("v1")
    assert refused.value.kind == "tag"


def test_a_missing_tag_is_reported_with_the_nearest_name(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.tag("release", graph.head())

    with pytest.raises(NotFoundError, match="did you mean 'release'"):
        graph.delete_tag("releese")

    assert list(graph.tags()) == ["release"]


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a//b", "..", "ä", "x" * 81, "01HZY3V5W8Q2N4R6T8X0ABCDEF", "a~b"]
)
def test_an_invalid_tag_name_is_refused(tmp_path: Path, name: str) -> None:
    graph = social_graph(tmp_path)

    calls: list[Callable[[], object]] = [
        lambda: graph.tag(name, graph.head()),
        lambda: graph.delete_tag(name),
    ]
    for call in calls:
        with pytest.raises(InvalidNameError) as refused:
            call()
        assert refused.value.kind == "tag"

    assert graph.tags() == {}


def test_a_missing_commit_cannot_be_tagged(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    for nothing in ("01HZY3V5W8Q2N4R6T8X0ABCDEF", "nope"):
        with pytest.raises(NotFoundError, match=nothing) as refused:
            graph.tag("v1", nothing)
        assert refused.value.kind == "commit"

    assert graph.tags() == {}


def test_a_read_takes_either_a_tag_or_a_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.tag("v1", graph.head())

    with pytest.raises(InvalidValueError):
        graph.query(NAMES, branch="main", commit="v1")


def test_a_read_only_handle_tags_nothing(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.tag("v1", graph.head())
    reader = omnigraph.open(tmp_path, read_only=True)

    with pytest.raises(ForbiddenError):
        reader.tag("v2", reader.head())
    with pytest.raises(ForbiddenError):
        reader.delete_tag("v1")

    assert reader.tags() == {"v1": graph.head()}


def test_a_recreated_graph_has_no_tags(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.tag("v1", graph.head())

    renewed = omnigraph.init(tmp_path, "node Person { name: String @key }", force=True)

    assert renewed.tags() == {}


# Tags and branches


def test_a_branch_with_a_tagged_commit_cannot_be_deleted(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    graph.mutate(EVE, branch="feature")
    graph.tag("trial", graph.head("feature"))
    graph.mutate(FRANK, branch="feature")

    with pytest.raises(StillNeededError, match="tag 'trial' still depends on it"):
        graph.delete_branch("feature")

    assert names_at(graph, "trial") == ["Alice", "Bob", "Charlie", "Diana", "Eve"]
    graph.delete_tag("trial")
    graph.delete_branch("feature")
    assert graph.branches() == ["main"]


def test_a_branch_whose_tagged_commit_is_inherited_can_be_deleted(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    graph.tag("start", graph.head("feature"))
    graph.mutate(EVE, branch="feature")

    graph.delete_branch("feature")

    assert names_at(graph, "start") == ["Alice", "Bob", "Charlie", "Diana"]


def test_a_tagged_commit_survives_a_concurrent_branch_deletion(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    for number in range(8):
        branch, tag = f"b{number}", f"t{number}"
        graph.create_branch(branch)
        graph.mutate(EVE, branch=branch)
        commit = graph.head(branch)
        errors: list[GraphError] = []

        def delete(branch: str = branch, errors: list[GraphError] = errors) -> None:
            try:
                omnigraph.open(tmp_path, durability="relaxed").delete_branch(branch)
            except StillNeededError as error:
                errors.append(error)

        deleter = threading.Thread(target=delete)
        deleter.start()
        try:
            graph.tag(tag, commit)
        except NotFoundError:
            assert tag not in graph.tags()
        deleter.join()

        assert (branch in graph.branches()) == (tag in graph.tags()) == bool(errors)
        if errors:
            assert "Eve" in names_at(graph, tag)


def test_a_tag_names_a_commit_on_every_store(place: Place) -> None:
    options = dict(place.storage_options)
    graph = omnigraph.init(place.root, "node Person { name: String @key }", storage_options=options)
    graph.create_branch("team/feature")
    graph.mutate(EVE, branch="team/feature")

    graph.tag("release/1", graph.head("team/feature"))

    assert names_at(graph, "release/1") == ["Eve"]
    with pytest.raises(StillNeededError):
        graph.delete_branch("team/feature")
    graph.delete_tag("release/1")
    graph.delete_branch("team/feature")
    assert (graph.branches(), graph.tags()) == (["main"], {})


# Failures


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not valid JSON"),
        (b"[]", "a field is missing"),
        (b'{"format_version": 2}', "format 2"),
        (b'{"format_version": 1, "commit_id": 7}', "a field is missing"),
    ],
)
def test_a_damaged_tag_is_named_and_deletes_no_branch(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    graph.tag("v1", graph.head())
    (tmp_path / "__tags" / "v1.json").write_bytes(content)

    for call in (
        graph.tags,
        lambda: names_at(graph, "v1"),
        lambda: graph.delete_branch("feature"),
    ):
        with pytest.raises(CorruptError, match=rf"__tags/v1\.json.*{problem}"):
            call()

    assert graph.branches() == ["main", "feature"]


def test_an_interrupted_tag_creation_is_complete_or_absent(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Person { name: String @key }", node("Person", name="Ann"))
    head, names = graph.head(), (f"tag-{number}" for number in count())

    def play(fault: Fault) -> None:
        name = next(names)
        allowed = operate_under_fault(
            lambda cut: cut.tag(name, head), open_crashing(tmp_path, fault)
        )
        assert (Reached.NEW if name in open_plain(tmp_path).tags() else Reached.OLD) in allowed

    swept = each_fault(play, whens=[When.LOST, When.ERROR_ONCE], scope=Scope.EFFECTS)

    assert swept.effects == 1


def test_an_interrupted_tag_deletion_is_complete_or_absent(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Person { name: String @key }", node("Person", name="Ann"))
    names = (f"tag-{number}" for number in count())

    def play(fault: Fault) -> None:
        name = next(names)
        graph.tag(name, graph.head())
        allowed = operate_under_fault(
            lambda cut: cut.delete_tag(name), open_crashing(tmp_path, fault)
        )
        assert (Reached.OLD if name in open_plain(tmp_path).tags() else Reached.NEW) in allowed

    swept = each_fault(play, whens=[When.LOST, When.ERROR_ONCE], scope=Scope.EFFECTS)

    assert swept.effects == 1
