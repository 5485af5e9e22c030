"""Recovery that is cut short or refused by its storage ends, the next time, where it would have."""

import itertools
import json
import shutil
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.support.crashing import Fault, Scope, SimulatedCrash, When
from tests.support.graphs import edge, ndjson, node, sidecars, social_graph
from tests.support.sweeps import (
    EITHER,
    Operation,
    Reached,
    State,
    copies_of,
    each_fault,
    no_steps,
    open_crashing,
    open_plain,
    operate_under_fault,
    require_recovered,
    require_sound,
    require_writable,
    state_of,
    states_of_unharmed,
    try_to_recover,
)
from tests.support.writes import mutate

DELETE_ALICE = mutate('delete Person where name = "Alice"')

# What a write of three types leaves when it dies after its N-th effect, and where that ends: the
# record alone, one table moved, two, all three, all published.
DELETE_ENDS = {
    1: Reached.OLD,
    2: Reached.OLD,
    3: Reached.OLD,
    4: Reached.NEW,
    5: Reached.NEW,
}

# The same for two types for which a branch first gets table branches, and then a record of them.
BRANCH_ENDS = {
    3: Reached.OLD,
    4: Reached.OLD,
    5: Reached.NEW,
    6: Reached.NEW,
}

# The others leave nothing on the storage that these do not leave one effect earlier.
WHENS = (When.AFTER, When.LOST, When.ERROR_ONCE)

# What a recovery does at least: it is written down, and the record of the write goes.
EFFECTS_MIN = 2


def deletion(tmp_path: Path) -> Operation:
    """A delete of a person and the edges of two types."""
    return Operation(copies_of(social_graph(tmp_path / "built")), DELETE_ALICE, no_steps)


def first_write_on_a_branch(tmp_path: Path) -> Operation:
    """A load of two types that a branch has not written yet."""
    copy = copies_of(social_graph(tmp_path / "built"))

    def prepare(root: Path) -> None:
        copy(root)
        open_plain(root).create_branch("draft")

    def operate(graph: Graph) -> object:
        rows = ndjson(node("Person", name="Eve"), edge("Knows", "Eve", "Bob"))
        return graph.load(rows, mode="append", branch="draft")

    return Operation(prepare, operate, no_steps)


@pytest.mark.parametrize(("at", "end"), DELETE_ENDS.items())
def test_a_recovery_interrupted_anywhere_has_the_same_outcome(
    tmp_path: Path, at: int, end: Reached
) -> None:
    require_same_end(tmp_path, deletion(tmp_path), at=at, end=end)


@pytest.mark.parametrize(("at", "end"), BRANCH_ENDS.items())
def test_a_recovery_on_a_branch_interrupted_anywhere_has_the_same_outcome(
    tmp_path: Path, at: int, end: Reached
) -> None:
    require_same_end(tmp_path, first_write_on_a_branch(tmp_path), at=at, end=end)


@pytest.mark.parametrize("when", [When.LOST, When.ERROR_ONCE], ids=["lost", "refused"])
def test_a_handle_whose_write_failed_goes_on_with_the_next_write(
    tmp_path: Path, when: When
) -> None:
    operation = deletion(tmp_path)
    states = states_of_unharmed(tmp_path / "unharmed", operation)
    folders = itertools.count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        operation.prepare(root)
        graph = open_crashing(root, fault)
        allowed = operate_under_fault(operation.operate, graph)
        fault.end()

        graph.load(ndjson(node("Company", name="Initech")), mode="append")

        state = state_of(graph)
        require_sound(graph, state)
        assert states.reached(without_company(state, "Initech")) in allowed
        assert state_of(open_plain(root)) == state
        shutil.rmtree(root)

    swept = each_fault(play, whens=[when], scope=Scope.EFFECTS)

    assert swept.states >= len(DELETE_ENDS), "the sweep went blind"


def require_same_end(tmp_path: Path, operation: Operation, *, at: int, end: Reached) -> None:
    """Cut a write after an effect, then the recovery of it everywhere; fail if ends differ."""
    states = states_of_unharmed(tmp_path / "unharmed", operation)
    folders = itertools.count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        operation.prepare(root)
        commits_before = count_commits(open_plain(root, is_read_only=True))
        leave_half_way(root, operation, at=at)

        try_to_recover(open_crashing(root, fault))

        assert require_recovered(root, states, allowed=EITHER) is end
        graph = open_plain(root)
        assert len(graph.recoveries()) == 1
        assert count_commits(graph) - commits_before <= 1, "a write was ended twice"
        require_writable(graph, states.new if end is Reached.NEW else states.old[0])
        shutil.rmtree(root)

    swept = each_fault(play, whens=WHENS, scope=Scope.EFFECTS)

    assert swept.effects >= EFFECTS_MIN, "the sweep went blind"
    assert swept.states >= len(WHENS) * EFFECTS_MIN


def leave_half_way(root: Path, operation: Operation, *, at: int) -> None:
    """A graph whose last writer died after an effect, and left a record of what it was doing."""
    fault = Fault(at=at, when=When.AFTER, scope=Scope.EFFECTS)
    with pytest.raises(SimulatedCrash):
        operation.operate(open_crashing(root, fault))
    assert len(sidecars(root)) == 1


def without_company(state: State, name: str) -> State:
    """A state before a company came, which must be there."""
    company = json.dumps({"name": name})
    assert company in state["main"]["Company"]
    others = [each for each in state["main"]["Company"] if each != company]
    return {**state, "main": {**state["main"], "Company": others}}


def count_commits(graph: Graph) -> int:
    """How many commits there are on all branches together."""
    return sum(len(graph.commits(branch)) for branch in graph.branches())
