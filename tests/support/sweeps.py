"""Sweeps: an operation hit at its first effect, its second, and so on, until a run is unharmed.

After each hit the graph is what it was or what it should have become, nothing between: to a reader
at once, and to every caller after the next open. The result of an unharmed run is taken as the
expected one; other tests check that it is right. Every round has a graph of its own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import count
from pathlib import Path

import lance

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import GraphError, Outcome
from tests.support.crashing import Fault, Scope, SimulatedCrash, When, crashing
from tests.support.graphs import contents, ndjson, node, require_linear, root_of
from tests.support.run_report import report_states

State = Mapping[str, Mapping[str, Sequence[str]]]
"""The rows of each type on each branch, without the ids that are new in every run."""

ROUNDS_MAX = 200


class Reached(Enum):
    """Which of its two states a graph is in."""

    OLD = "as it was"
    NEW = "as it should become"


EITHER = frozenset(Reached)


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that is done to a graph of people, and what the graph may be before it is done.

    `steps` are further states that are no harm to leave behind, made from the old one.
    """

    prepare: Callable[[Path], object]
    operate: Callable[[Graph], object]
    steps: Callable[[State], Sequence[State]]


@dataclass(frozen=True, slots=True)
class Swept:
    """How many effects an unharmed run has, and how many times a run was hit."""

    effects: int
    states: int


def no_steps(old: State) -> Sequence[State]:
    """The steps of an operation that happens all at once."""
    del old
    return ()


def sweep(
    tmp_path: Path, operation: Operation, *, whens: Sequence[When], scope: Scope = Scope.EFFECTS
) -> Swept:
    """Hit an operation at each of its effects in each way, and look at the graph afterwards."""
    states = states_of_unharmed(tmp_path / "unharmed", operation)
    folders = count(1)
    return each_fault(
        lambda fault: _play_round(tmp_path / str(next(folders)), operation, states, fault),
        whens=whens,
        scope=scope,
    )


def each_fault(play: Callable[[Fault], None], *, whens: Sequence[When], scope: Scope) -> Swept:
    """Play a round for each effect and way to hit it, until a round is unharmed."""
    rounds, effects = 0, 0
    for when in whens:
        for at in range(1, ROUNDS_MAX + 1):
            fault = Fault(at=at, when=when, scope=scope)
            with naming(fault):
                play(fault)
            if fault.hit is None:
                effects = fault.seen
                break
            rounds += 1
        else:
            raise AssertionError(f"no end after {ROUNDS_MAX} rounds: {when}")
    report_states(rounds)
    return Swept(effects, rounds)


def copies_of(graph: Graph) -> Callable[[Path], object]:
    """Prepare a directory by copying a graph without branches, which is faster than writing it.

    Branches cannot be copied: Lance notes in them where the files of their base are.
    """
    assert graph.branches() == ["main"]
    source = root_of(graph)
    return lambda root: shutil.copytree(source, root)


@contextmanager
def naming(fault: Fault) -> Iterator[None]:
    """Add the fault to whatever goes wrong in the block."""
    try:
        yield
    except (AssertionError, GraphError) as error:
        error.add_note(str(fault))
        raise


def open_plain(root: Path, *, is_read_only: bool = False) -> Graph:
    """The graph of a directory, as any process finds it."""
    return omnigraph.open(str(root), read_only=is_read_only, durability="relaxed")


def open_crashing(root: Path, fault: Fault) -> Graph:
    """The graph of a directory with a fault between it and its stores."""
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    stores = crashing(open_stores(settings), fault)
    return Graph(settings, stores, actor=None, is_read_only=False)


# One round


@dataclass(frozen=True, slots=True)
class States:
    """The two states of an operation, the first of them with its harmless steps."""

    old: tuple[State, ...]
    new: State

    def reached(self, state: State) -> Reached:
        """Which of the two a state is; fail if it is neither."""
        if state == self.new:
            return Reached.NEW
        assert state in self.old, "neither what it was nor what it should become"
        return Reached.OLD


def states_of_unharmed(root: Path, operation: Operation) -> States:
    """What a graph is before an operation that nothing disturbs, and after it."""
    operation.prepare(root)
    graph = open_plain(root)
    old = state_of(graph)
    operation.operate(graph)
    new = state_of(graph)
    assert new != old, "the operation does nothing, so a sweep of it proves nothing"
    require_sound(graph, new)
    return States((old, *operation.steps(old)), new)


def _play_round(root: Path, operation: Operation, states: States, fault: Fault) -> None:
    operation.prepare(root)

    allowed = operate_under_fault(operation.operate, open_crashing(root, fault))
    if fault.hit is None:
        # Where an unharmed run ends is known, and this one reported the same.
        assert allowed == {Reached.NEW}
        return

    reached = require_recovered(root, states, allowed=allowed)
    graph = open_plain(root)
    if reached is Reached.OLD:
        operation.operate(graph)
    require_writable(graph, states.new)
    shutil.rmtree(root)


def try_to_recover(graph: Graph) -> None:
    """Recover a graph, as far as its stores allow."""
    try:
        graph.refresh()
    except SimulatedCrash:
        return
    except GraphError as error:
        if error.outcome is Outcome.BROKEN:
            raise


def operate_under_fault(operate: Callable[[Graph], object], graph: Graph) -> frozenset[Reached]:
    """The states that the graph may be in, by the result of the call."""
    try:
        operate(graph)
    except SimulatedCrash:
        return EITHER
    except GraphError as error:
        match error.outcome:
            case Outcome.UNCHANGED | Outcome.MOVED:
                return frozenset({Reached.OLD})
            case Outcome.UNCERTAIN:
                return EITHER
            case Outcome.BROKEN:
                raise
    return frozenset({Reached.NEW})


# Looking


def require_recovered(root: Path, states: States, *, allowed: frozenset[Reached]) -> Reached:
    """Where a graph is once it has been opened; fail unless it is whole there, and stays there."""
    seen = states.reached(state_of(open_plain(root, is_read_only=True)))
    assert seen in allowed, f"a reader finds it {seen.value}"
    graph = open_plain(root)
    state = state_of(graph)
    reached = states.reached(state)
    assert reached in allowed, f"the next open leaves it {reached.value}"
    assert seen is Reached.OLD or reached is Reached.NEW, "what a reader has seen was undone"
    require_sound(graph, state)
    with files_untouched(root):
        open_plain(root)
    return reached


def state_of(graph: Graph) -> State:
    """Every row on every branch."""
    return {
        branch: {
            type_name: sorted(json.dumps(row, sort_keys=True) for row in by_id.values())
            for type_name, by_id in contents(graph, branch).items()
        }
        for branch in graph.branches()
    }


def require_sound(graph: Graph, state: State) -> None:
    """Fail unless nothing is under way, history is a line, and it names what there is."""
    assert list((root_of(graph) / "__recovery").glob("*")) == []
    require_consistent(graph, state, newest=lambda path: lance.dataset(path).latest_version)


def require_consistent(graph: Graph, state: State, *, newest: Callable[[str], int]) -> None:
    """Fail unless history is a line, and names the newest version and the rows of each table."""
    for branch, rows_by_type in state.items():
        require_linear(graph.commits(branch))
        tables = graph.tables(branch)
        own = None if branch == "main" else branch
        ahead = {
            key: (table.version, found)
            for key, table in tables.items()
            if table.branch == own and (found := newest(table.path)) != table.version
        }
        assert not ahead, f"history and table differ on {branch}: {ahead}"
        counted = {key.partition(":")[2]: table.row_count for key, table in tables.items()}
        assert counted == {name: len(rows_by_type.get(name, ())) for name in counted}


def require_writable(graph: Graph, state: State) -> None:
    """Fail unless every branch of a graph in this state takes a write and is sound after it."""
    for branch in state:
        graph.load(ndjson(node("Person", name="Zed", age=99)), mode="append", branch=branch)
    zed = json.dumps({"age": 99, "name": "Zed"})
    written = {
        branch: {**rows, "Person": sorted([*rows.get("Person", ()), zed])}
        for branch, rows in state.items()
    }
    assert state_of(graph) == written
    require_sound(graph, written)


@contextmanager
def files_untouched(root: Path) -> Iterator[None]:
    """Fail if the block adds, removes or changes a file."""
    before = _files(root)
    yield
    assert _files(root) == before


def _files(root: Path) -> Mapping[Path, tuple[int, int]]:
    found = {path: path.stat() for path in root.rglob("*") if path.is_file()}
    return {path: (each.st_size, each.st_mtime_ns) for path, each in found.items()}
