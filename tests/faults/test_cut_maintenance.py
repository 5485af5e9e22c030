"""Clean-ups and repairs that are cut short anywhere: nothing that is needed is lost."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import lance
import pytest

from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import GraphError, Outcome
from omnigraph.model.runtime import SystemRuntime
from tests.support.crashing import Fault, Scope, SimulatedCrash, When, crashing
from tests.support.graphs import (
    build_graph,
    edge,
    head_versions,
    ndjson,
    node,
    pins,
    table_paths,
)
from tests.support.later_graphs import A_DAY_S, LaterRuntime, open_later
from tests.support.queries import query
from tests.support.sweeps import (
    Swept,
    copies_of,
    each_fault,
    open_crashing,
    open_plain,
    require_sound,
    require_writable,
    state_of,
)

SCHEMA = """
node Person { name: String @key  age: I64? @index }
edge Knows: Person -> Person
"""


def grown_graph(root: Path) -> Graph:
    """Versions that a branch, a tag or nothing needs, and an unreferenced table branch."""
    people = [node("Person", name=name, age=0) for name in ("ann", "bob")]
    graph = build_graph(root, SCHEMA, *people, edge("Knows", "ann", "bob"))
    for age in (1, 2):
        grow(graph, age)
    graph.create_branch("inheriting")
    grow(graph, 3)
    graph.tag("then", graph.head())
    grow(graph, 4)
    graph.create_branch("writing")
    grow(graph, 40, branch="writing")
    grow(graph, 41, branch="writing")
    grow(graph, 5)
    orphan(root)
    return graph


def grow(graph: Graph, age: int, *, branch: str = "main") -> None:
    graph.mutate(query(f'update Person set {{ age: {age} }} where name = "ann"'), branch=branch)


def orphan(root: Path) -> None:
    """What an interrupted deletion of a branch leaves."""
    table = lance.dataset(str(table_paths(root)["node:Person"]))
    table.create_branch("left", table.version)


def query_results(graph: Graph) -> Mapping[str, object]:
    """Every row on every branch, and one at a tag."""
    return {**state_of(graph), "then": graph.entity("Person", "ann", commit="then")}


def retained(root: Path) -> Mapping[str, object]:
    """The versions and table branches that a graph has."""
    found = {}
    for key, path in table_paths(root).items():
        lines = {"main": path} | {
            line: path / "tree" / line for line in lance.dataset(str(path)).branches.list()
        }
        for line, folder in lines.items():
            refs = lance.dataset(str(folder)).version_refs()
            found[f"{key} {line}"] = sorted(each["version"] for each in refs)
    return found


def open_crashing_later(root: Path, fault: Fault) -> Graph:
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    later = replace(settings, runtime=LaterRuntime(A_DAY_S, SystemRuntime()))
    stores = crashing(open_stores(settings), fault)
    return Graph(later, stores, actor=None, is_read_only=False)


def test_a_clean_up_interrupted_anywhere_loses_nothing_and_can_be_repeated(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    built = grown_graph(tmp_path / "built")
    before = retained(tmp_path / "built")

    swept = sweep_cleanup(tmp_path, built, prepare=grown_graph, whens=ways, scope=Scope.EFFECTS)

    # An unreferenced table branch, doomed versions, two types on main and one on a branch.
    assert swept.effects >= 6
    assert before.keys() - retained(tmp_path / "built").keys() == {"node:Person left"}


def test_a_clean_up_refused_at_any_storage_call_loses_nothing(tmp_path: Path) -> None:
    # Without branches, which cannot be copied: a graph for each call would take long to build.
    built = build_graph(tmp_path / "built", SCHEMA, node("Person", name="ann", age=0))
    grow(built, 1)
    built.tag("then", built.head())
    grow(built, 2)

    swept = sweep_cleanup(
        tmp_path, built, prepare=copies_of(built), whens=[When.ERROR_ONCE], scope=Scope.CALLS
    )

    assert swept.effects >= 20


def sweep_cleanup(
    tmp_path: Path,
    built: Graph,
    *,
    prepare: Callable[[Path], object],
    whens: Sequence[When],
    scope: Scope,
) -> Swept:
    """Cut a clean-up at each of its effects; nothing that is asked for is ever missing."""
    expected = query_results(built)
    prepare(tmp_path / "unharmed")
    open_later(tmp_path / "unharmed").cleanup(keep=1)
    left = retained(tmp_path / "unharmed")
    folders = count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        prepare(root)
        attempt(lambda graph: graph.cleanup(keep=1), open_crashing_later(root, fault))
        assert query_results(open_plain(root, is_read_only=True)) == expected
        open_later(root).cleanup(keep=1)
        assert retained(root) == left
        graph = open_plain(root)
        assert query_results(graph) == expected
        require_sound(graph, state_of(graph))
        require_writable(graph, state_of(graph))
        shutil.rmtree(root)

    swept = each_fault(play, whens=whens, scope=scope)
    open_later(tmp_path / "built").cleanup(keep=1)
    assert retained(tmp_path / "built") == left
    return swept


@pytest.mark.parametrize(
    ("whens", "scope"),
    [(list(When), Scope.EFFECTS), ([When.ERROR_ONCE], Scope.CALLS)],
    ids=["cut", "refused"],
)
def test_a_repair_interrupted_anywhere_is_atomic(
    tmp_path: Path, whens: Sequence[When], scope: Scope
) -> None:
    def prepare(root: Path) -> Graph:
        graph = build_graph(root, SCHEMA)
        for name in ("ann", "bob"):
            rows = [node("Person", name=name), edge("Knows", name, name)]
            graph.load(ndjson(*rows), mode="append")
        for path in table_paths(root).values():
            lance.dataset(str(path)).optimize.compact_files()
        return graph

    swept = sweep_repair(tmp_path, prepare, whens=whens, scope=scope)

    # One publish is all there is to it.
    assert swept.effects >= 1


def sweep_repair(
    tmp_path: Path, prepare: Callable[[Path], Graph], *, whens: Sequence[When], scope: Scope
) -> Swept:
    built = prepare(tmp_path / "built")
    expected, copy = state_of(built), copies_of(built)
    folders = count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        copy(root)
        drifted = pins(open_plain(root, is_read_only=True))
        is_reported = attempt(lambda graph: graph.repair(confirm=True), open_crashing(root, fault))
        named = pins(open_plain(root, is_read_only=True))
        assert named in ([head_versions(root)] if is_reported else [drifted, head_versions(root)])
        graph = open_plain(root)
        graph.repair(confirm=True)
        assert pins(graph) == head_versions(root)
        assert state_of(graph) == expected
        require_sound(graph, expected)
        require_writable(graph, expected)
        shutil.rmtree(root)

    return each_fault(play, whens=whens, scope=scope)


def attempt(operate: Callable[[Graph], object], graph: Graph) -> bool:
    """Whether the call reported success."""
    try:
        operate(graph)
    except SimulatedCrash:
        return False
    except GraphError as error:
        if error.outcome is Outcome.BROKEN:
            raise
        return False
    return True
