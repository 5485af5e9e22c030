"""An embedded and a remote graph offer the same calls: names, arguments, defaults and types."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from omnigraph import Graph, RemoteGraph

CALLS = (
    "apply_schema", "branches", "changes", "cherry_pick", "close", "commit", "commits",
    "create_branch", "delete_branch", "delete_tag", "diff", "entity", "explain", "export", "head",
    "load", "merge", "mutate", "plan_schema", "query", "read_blob", "recoveries", "replay",
    "retrieve", "retrieve_by", "revert", "snapshot", "tables", "tag", "tags", "transaction",
)  # fmt: skip
"""The published calls that work on a graph in storage and on a served one."""


def signature_of(call: Callable[..., object]) -> list[tuple[str, object, object, object]]:
    found = inspect.signature(call).parameters.values()
    return [(each.name, each.kind, each.default, each.annotation) for each in found]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_same_arguments_on_both_graphs(name: str) -> None:
    assert signature_of(getattr(RemoteGraph, name)) == signature_of(getattr(Graph, name))


def test_every_call_of_a_remote_graph_is_one_of_an_embedded_graph() -> None:
    own = {"graph_id", "invoke", "retrieve_stored", "stored_queries"}

    public = {name for name in dir(RemoteGraph) if not name.startswith("_")}

    assert public - own <= {name for name in dir(Graph) if not name.startswith("_")}
    assert set(CALLS) <= public
