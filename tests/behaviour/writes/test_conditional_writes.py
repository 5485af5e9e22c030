"""A write that names an expected commit is applied at that commit or not at all."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import Outcome, PreconditionFailedError
from tests.support.graphs import SOCIAL, ndjson, node, rows, social_graph, unchanged
from tests.support.queries import query

ADD_EVE = query('insert Person { name: "Eve" }')
ADD_FAY = query('insert Person { name: "Fay" }')
WIDER = SOCIAL.replace("age: I32?", "age: I32?  town: String?")

Conditional = Callable[[Graph, str], object]


def load(graph: Graph, at: str) -> object:
    """A load into main."""
    return graph.load(ndjson(node("Person", name="Gus")), mode="append", if_commit=at)


def load_new_branch(graph: Graph, at: str) -> object:
    """A load into a branch that it starts from main."""
    given = ndjson(node("Person", name="Gus"))
    return graph.load(given, mode="append", branch="new", base="main", if_commit=at)


def merge(graph: Graph, at: str) -> object:
    """A merge into main."""
    return graph.merge("draft", if_commit=at)


def preview_merge(graph: Graph, at: str) -> object:
    """A dry run of one."""
    return graph.merge("draft", dry_run=True, if_commit=at)


def revert(graph: Graph, at: str) -> object:
    """A revert on main, of its first rows."""
    return graph.revert(graph.commits()[2].id, if_commit=at)


def cherry_pick(graph: Graph, at: str) -> object:
    """A picked commit on main."""
    return graph.cherry_pick(graph.head("draft"), if_commit=at)


def apply_schema(graph: Graph, at: str) -> object:
    """A wider schema."""
    return graph.apply_schema(WIDER, if_commit=at)


def create_branch(graph: Graph, at: str) -> object:
    """A branch from main."""
    graph.create_branch("made", if_commit=at)
    return graph.head("made")


ON_MAIN: tuple[Conditional, ...] = (
    load,
    load_new_branch,
    merge,
    preview_merge,
    revert,
    cherry_pick,
    apply_schema,
    create_branch,
)


def graph_with_draft(root: Path) -> Graph:
    """People, one of them added by a commit of her own, and a branch with a commit more."""
    graph = social_graph(root)
    graph.mutate(query('insert Person { name: "Zoe" }'))
    graph.create_branch("draft")
    graph.mutate(ADD_EVE, branch="draft")
    return graph


@pytest.mark.parametrize("write", ON_MAIN, ids=lambda write: write.__name__)
def test_a_write_at_the_commit_that_it_names_happens(tmp_path: Path, write: Conditional) -> None:
    graph = graph_with_draft(tmp_path)

    done = write(graph, graph.head())

    assert done is not None


@pytest.mark.parametrize("write", ON_MAIN, ids=lambda write: write.__name__)
def test_a_write_at_another_commit_than_it_names_has_not_happened(
    tmp_path: Path, write: Conditional
) -> None:
    graph = graph_with_draft(tmp_path)
    seen = graph.head()
    graph.mutate(ADD_FAY)

    with unchanged(graph), pytest.raises(PreconditionFailedError) as refused:
        write(graph, seen)

    assert (refused.value.expected, refused.value.actual) == (seen, graph.head())
    assert refused.value.outcome is Outcome.MOVED


def test_a_branch_is_deleted_at_the_commit_that_was_named_only(tmp_path: Path) -> None:
    graph = graph_with_draft(tmp_path)
    seen = graph.head("draft")
    graph.mutate(ADD_FAY, branch="draft")

    with unchanged(graph), pytest.raises(PreconditionFailedError):
        graph.delete_branch("draft", if_commit=seen)
    graph.delete_branch("draft", if_commit=graph.head("draft"))

    assert graph.branches() == ["main"]


def test_a_branch_is_created_from_the_named_commit_of_its_base(tmp_path: Path) -> None:
    graph = graph_with_draft(tmp_path)

    graph.create_branch("made", base="draft", if_commit=graph.head("draft"))

    assert "Eve" in rows(graph, "Person", "made")
    with pytest.raises(PreconditionFailedError):
        graph.create_branch("other", base="draft", if_commit=graph.head())
    assert "other" not in graph.branches()
