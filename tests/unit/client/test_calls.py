"""Both graphs offer the same calls: mypy checks the types here, a test the defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from omnigraph import Graph, RemoteGraph
from omnigraph.client.calls import GraphCalls


def as_embedded(graph: Graph) -> GraphCalls:
    return graph


def as_remote(graph: RemoteGraph) -> GraphCalls:
    return graph


CALLS = sorted(
    name for name, value in vars(GraphCalls).items() if callable(value) and not name.startswith("_")
)


def signature_of(call: Callable[..., object]) -> list[tuple[str, object, object, object]]:
    found = inspect.signature(call).parameters.values()
    return [(each.name, each.kind, each.default, each.annotation) for each in found]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_same_arguments_on_both_graphs(name: str) -> None:
    expected = signature_of(getattr(GraphCalls, name))

    assert signature_of(getattr(Graph, name)) == expected
    assert signature_of(getattr(RemoteGraph, name)) == expected


def test_the_calls_are_those_of_the_published_interface() -> None:
    published = {
        "query", "mutate", "load", "export", "branches", "create_branch", "delete_branch",
        "merge", "commits", "head", "diff", "revert", "cherry_pick", "tag", "tags", "transaction",
        "changes", "plan_schema", "apply_schema", "tables", "entity", "recoveries", "explain",
        "close", "commit", "delete_tag", "read_blob", "snapshot", "retrieve",
        "retrieve_by", "replay",
    }  # fmt: skip

    assert set(CALLS) == published
