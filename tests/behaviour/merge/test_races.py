"""Merges of several handles into one branch: each is applied whole, none is lost."""

from contextlib import suppress
from pathlib import Path

import omnigraph
from omnigraph.errors import MergeConflictError, MovedError
from tests.support.graphs import (
    ends,
    head_versions,
    pins,
    require_linear,
    sidecars,
    social_graph,
    values,
)
from tests.support.processes import race
from tests.support.queries import query

ROUNDS = 4


def branch_with(graph: omnigraph.Graph, name: str) -> str:
    """A branch on which a person with an edge was added, and another person changed."""
    graph.create_branch(name)
    insert = f'insert Person {{ name: "{name}" }} insert Knows {{ from: "{name}", to: "Alice" }}'
    graph.mutate(query(insert), branch=name)
    return name


def require_full_view(graph: omnigraph.Graph, root: Path) -> None:
    """Fail unless history is linear and names the newest version of everything."""
    require_linear(graph.commits())
    assert pins(graph) == head_versions(root)
    assert sidecars(root) == []


def test_one_branch_that_is_merged_twice_at_once_is_merged_once(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    branch_with(graph, "draft")

    outcomes = race(lambda _: omnigraph.open(tmp_path).merge("draft").outcome, count=2)

    assert sorted(outcomes) == ["already_up_to_date", "fast_forward"]
    assert len([each for each in ends(graph, "Knows") if each[0] == "draft"]) == 1
    require_full_view(graph, tmp_path)


def test_a_merge_and_a_mutation_of_one_row_never_both_succeed_unnoticed(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    for number in range(ROUNDS):
        name = f"draft{number}"
        graph.create_branch(name)
        graph.mutate(
            query(f'update Person set {{ age: {number} }} where name = "Bob"'), branch=name
        )
        ours = query(f'update Person set {{ age: {100 + number} }} where name = "Bob"')

        def attempt(turn: int, *, name: str = name, ours: str = ours) -> str | None:
            handle = omnigraph.open(tmp_path)
            while turn:
                # The caller retries an overtaken update.
                with suppress(MovedError):
                    return handle.mutate(ours).commit_id
            try:
                return handle.merge(name).commit_id
            except MergeConflictError:
                return None

        merged, mutated = race(attempt, count=2)

        order = [each.id for each in graph.commits() if each.id in (merged, mutated)]
        # If the mutation came first, there was a conflict; if the merge did, it was overwritten.
        assert order == ([mutated] if merged is None else [merged, mutated])
        assert values(graph, "Person", "age")["Bob"] == 100 + number
    require_full_view(graph, tmp_path)
