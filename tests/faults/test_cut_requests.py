"""A request that is cut short anywhere and then asked again under its key is done exactly once."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import GraphError
from tests.support.crashing import Fault, Scope, SimulatedCrash, When
from tests.support.graphs import SOCIAL, edge, ndjson, node, require_linear, social_graph
from tests.support.queries import query
from tests.support.sweeps import (
    State,
    copies_of,
    each_fault,
    open_crashing,
    open_plain,
    require_sound,
    require_writable,
    state_of,
)

KEY = "request 1"

Request = Callable[[Graph], object]


def mutate(graph: Graph) -> object:
    """Rows of three types."""
    text = (
        'insert Person { name: "Eve" } insert Company { name: "Initech" } '
        'insert WorksAt { from: "Eve", to: "Initech" }'
    )
    return graph.mutate(query(text), actor="ann", idempotency_key=KEY)


def delete(graph: Graph) -> object:
    """A strict write, which finds nothing when it is done a second time."""
    return graph.mutate(query('delete Person where name = "Alice"'), idempotency_key=KEY)


def load(graph: Graph) -> object:
    """Rows of two types, some of them with ids that are made up."""
    given = ndjson(node("Person", name="Eve"), edge("Knows", "Eve", "Bob"))
    return graph.load(given, mode="append", idempotency_key=KEY)


def merge(graph: Graph) -> object:
    """What a branch has added."""
    return graph.merge("draft", idempotency_key=KEY)


def revert(graph: Graph) -> object:
    """The commit of the rows."""
    return graph.revert(graph.commits()[1].id, idempotency_key=KEY)


def apply_schema(graph: Graph) -> object:
    """A property and a type more."""
    company = "node Company { name: String @key"
    wider = SOCIAL.replace(company, f"{company}  town: String?") + "node Place { n: I32? }"
    return graph.apply_schema(wider, idempotency_key=KEY)


@pytest.mark.parametrize(
    ("call", "effects"), [(mutate, 6), (delete, 6), (load, 5), (revert, 6), (apply_schema, 6)]
)
def test_a_request_interrupted_anywhere_and_retried_is_one_commit(
    tmp_path: Path, call: Request, effects: int
) -> None:
    prepare = copies_of(social_graph(tmp_path / "built"))

    assert sweep_request(tmp_path, prepare, call) >= effects, "the sweep went blind"


def test_a_merge_interrupted_anywhere_and_retried_is_one_commit(tmp_path: Path) -> None:
    copy = copies_of(social_graph(tmp_path / "built"))

    def prepare(root: Path) -> None:
        copy(root)
        graph = open_plain(root)
        graph.create_branch("draft")
        graph.mutate(query('insert Person { name: "Eve" }'), branch="draft")

    assert sweep_request(tmp_path, prepare, merge) >= 4, "the sweep went blind"


def sweep_request(tmp_path: Path, prepare: Callable[[Path], object], call: Request) -> int:
    """How many effects a request has, after each of them was cut in every way."""
    prepare(tmp_path / "unharmed")
    unharmed = open_plain(tmp_path / "unharmed")
    expected = without_commit(call(unharmed))
    state, folders = state_of(unharmed), itertools.count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        prepare(root)
        first = result_under_fault(call, open_crashing(root, fault))
        graph = open_plain(root)
        again = call(graph)
        assert without_commit(again) == expected
        assert first in (None, again), "two results of one request"
        require_applied_once(graph, state, again)
        shutil.rmtree(root)

    return each_fault(play, whens=list(When), scope=Scope.EFFECTS).effects


def result_under_fault(call: Request, graph: Graph) -> object:
    """The result of a call, None if it did not learn the outcome of its request."""
    try:
        return call(graph)
    except (SimulatedCrash, GraphError):
        return None


def require_applied_once(graph: Graph, state: State, result: object) -> None:
    """Fail unless the request made one commit, the reported one, and the graph is sound."""
    assert state_of(graph) == state
    require_sound(graph, state)
    commits = graph.commits()
    require_linear(commits)
    keyed = [each.id for each in commits if each.notes.request is not None]
    assert keyed == [getattr(result, "commit_id", None)]
    require_writable(graph, state)


def without_commit(result: object) -> dict[str, object]:
    """A result without the id that is new in every run."""
    assert hasattr(result, "__dataclass_fields__")
    return {
        name: getattr(result, name) for name in result.__dataclass_fields__ if name != "commit_id"
    }
