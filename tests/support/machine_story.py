"""One graph and its model, through a story: actions are performed, stopped, and checked afterwards.

Two handles perform actions; a third one is stopped by a crash, the first one by a failure that it
survives. The outcome of a stopped action is read from the graph, never guessed: it took effect or
not, in agreement with its result and with what readers saw, and recovery makes it final.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import event, note

from omnigraph import Graph
from omnigraph.engine.state.history import Commit
from omnigraph.errors import MergeConflictError
from omnigraph.model.errors import Conflict
from omnigraph.model.names import RECOVERY_ACTOR
from omnigraph.storage.failpoints import Failpoint
from tests.differential.test_write_path import require_refusal
from tests.support.crashing import Fault
from tests.support.failpoints import Failpoints, fail_times
from tests.support.graph_model import Accepted, Refused
from tests.support.graphs import build_graph, contents, ndjson, open_with, read_export
from tests.support.machine_actions import (
    BRANCHES,
    FIRST,
    Action,
    Breaks,
    Call,
    Conflicts,
    Declines,
    Ends,
    Expected,
    Lands,
    Nothing,
    Starts,
    Tags,
)
from tests.support.machine_checks import (
    find_adopted,
    require_adopted,
    require_conflicts,
    require_quiet,
)
from tests.support.machine_model import SCHEMA, ModelHistory, Sides, merge
from tests.support.queries import query
from tests.support.sweeps import Reached, naming, open_crashing, open_plain, operate_under_fault

NO_CHANGE = query('delete Person where name = "absent"')
"""A write that changes nothing, and so only recovers what other writes left."""


class Cure(StrEnum):
    """How a stopped action is recovered."""

    OPEN = "open again"
    REFRESH = "refresh"
    WRITE = "write"


@dataclass(slots=True)
class Story:
    """A graph, opened twice, and what should be in it."""

    root: Path
    history: ModelHistory = field(default_factory=ModelHistory)
    failpoints: Failpoints = field(default_factory=Failpoints)
    graphs: list[Graph] = field(default_factory=list)

    def begin(self) -> None:
        """Make the graph, and two branches of it."""
        graph = build_graph(self.root, SCHEMA)
        (first,) = graph.commits()
        self.history.land("main", first.id, version=first.manifest_version, parents=(), state={})
        graph.load(ndjson(*FIRST), mode="append")
        self._learn_commits(graph, "main", Lands("main", contents(graph), None))
        for branch in BRANCHES[:2]:
            graph.create_branch(branch)
            self.history.start(branch, "main")
        self.open_again()

    def open_again(self) -> None:
        """Start again from what is stored; nothing of a dead transaction is left then."""
        for graph in self.graphs:
            graph.close()
        self.graphs = [open_with(self.root, self.failpoints) for _ in range(2)]
        assert list(self.root.glob("__transactions/*.json")) == []

    # Doing

    def perform(self, action: Action, graph: Graph) -> None:
        """Do something, and fail unless what should come of it does."""
        note(action.words)
        event(f"{action.name}: {type(action.expected).__name__}")
        match action.expected:
            case Breaks(refused):
                require_refusal(lambda: action.do(graph), refused)
            case Conflicts(sides, merged):
                with pytest.raises(MergeConflictError) as raised:
                    action.do(graph)
                require_conflicts(raised.value.conflicts, sides, merged)
            case Declines(error):
                with pytest.raises(error):
                    action.do(graph)
            case Nothing():
                assert action.do(graph) is None
            case Lands(branch) as lands:
                made = action.do(graph)
                self._learn_commits(graph, branch, lands)
                assert made == self.history.heads[branch]
            case Starts() | Ends() | Tags():
                action.do(graph)
                assert self._find_reached(graph, action) is Reached.NEW
                self._take_over(action.expected)

    def race(self, branch: str, mine: Call, theirs: Call) -> None:
        """Begin a transaction, let another change the branch meanwhile, and end it."""
        before = self.history.state(branch)
        left, right = mine.predict(before), theirs.predict(before)
        if not _both_land(left, right):
            return
        assert isinstance(left, Accepted)
        assert isinstance(right, Accepted)
        note(f"within a transaction on {branch}: {mine.words}; meanwhile: {theirs.words}")
        graph, other = self.graphs
        sides, conflicts = Sides({}, {}, {}), tuple[Conflict, ...]()
        try:
            with graph.transaction(branch) as begun:
                mine.send_within(begun)
                private = require_adopted(left.state, read_export(begun.export()))
                theirs.send(other, branch)
                self._learn_commits(other, branch, Lands(branch, right.state, None))
                sides = Sides(before, private, self.history.state(branch))
        except MergeConflictError as error:
            conflicts = error.conflicts
        merged = merge(sides)
        require_conflicts(conflicts, sides, merged)
        event(f"race: {'Lands' if merged.is_clean else 'Conflicts'}")
        if merged.is_clean:
            self._learn_commits(graph, branch, Lands(branch, merged.state, None))

    # Stopping

    def crash(self, action: Action, fault: Fault) -> frozenset[Reached]:
        """Do something in a process that dies of it, or whose storage fails: where it may be."""
        note(f"{action.words}, stopped at {fault}")
        with naming(fault):
            allowed = operate_under_fault(action.do, open_crashing(self.root, fault))
        event(f"stopped {action.name}: {fault.hit or 'not'} {fault.when.name}")
        return allowed

    def fail(self, action: Action, failpoint: Failpoint, times: int) -> frozenset[Reached]:
        """Do something that fails at a failpoint, in a process that lives on: where it may be."""
        note(f"{action.words}, failing {times} times at {failpoint}")
        with self.failpoints.activate(failpoint, fail_times(times)) as activation:
            allowed = operate_under_fault(action.do, self.graphs[0])
        event(f"failed {action.name}: {failpoint if activation.arrivals else 'not'}")
        return allowed

    def recover(
        self, action: Action, allowed: frozenset[Reached], cure: Cure, interruption: Fault | None
    ) -> None:
        """Recover what a stopped action left, and learn its outcome.

        An interruption stops a recovery first.
        """
        with open_plain(self.root, is_read_only=True) as reader:
            seen = self._find_reached(reader, action)
        self._require_allowed(action, allowed, seen)
        if interruption is not None:
            operate_under_fault(Graph.refresh, open_crashing(self.root, interruption))
        match cure:
            case Cure.OPEN:
                self.open_again()
            case Cure.REFRESH:
                self.graphs[1].refresh()
            case Cure.WRITE:
                self.graphs[1].mutate(NO_CHANGE)
        note(f"recovered by: {cure}")
        require_quiet(self.root)
        reached = self._learn(self.graphs[1], action)
        event(f"recovered: {reached.name}")
        self._require_allowed(action, allowed, reached)
        assert seen is Reached.OLD or reached is Reached.NEW, "what a reader has seen was undone"

    @staticmethod
    def _require_allowed(action: Action, allowed: frozenset[Reached], reached: Reached) -> None:
        match action.expected:
            case Breaks() | Conflicts() | Declines():
                assert allowed != {Reached.NEW}, "it was not refused"
            case Nothing():
                return
            case Lands() | Starts() | Ends() | Tags():
                assert reached in allowed, f"it is {reached.value}"

    # Learning

    def _find_reached(self, graph: Graph, action: Action) -> Reached:
        """Whether an action took effect, by the state of the graph."""
        match action.expected:
            case Lands(branch, state):
                found = contents(graph, branch)
                if not any(map(_is_own, self._find_fresh(graph, branch))):
                    assert found == self.history.state(branch), "it is not done, but shows"
                    return Reached.OLD
                assert find_adopted(state, found) is not None, "half of it is done"
                return Reached.NEW
            case Starts(name):
                return Reached.NEW if name in graph.branches() else Reached.OLD
            case Ends(name):
                return Reached.OLD if name in graph.branches() else Reached.NEW
            case Tags(name, commit_id):
                return Reached.NEW if graph.tags().get(name) == commit_id else Reached.OLD
            case Nothing() | Breaks() | Conflicts() | Declines():
                return Reached.OLD

    def _learn(self, graph: Graph, action: Action) -> Reached:
        """Take over the outcome of an action, and what recovery recorded about it."""
        reached = self._find_reached(graph, action)
        if reached is Reached.NEW:
            self._take_over(action.expected)
        for branch in self.history.branches:
            lands = action.expected if isinstance(action.expected, Lands) else None
            is_its = lands is not None and lands.branch == branch
            self._learn_commits(graph, branch, lands if is_its else None)
        return reached

    def _take_over(self, expected: Expected) -> None:
        match expected:
            case Starts(name, base):
                self.history.start(name, base)
            case Ends(name):
                self.history.end(name)
            case Tags(name, commit_id):
                self.history.tags.pop(name, None)
                self.history.tags |= {} if commit_id is None else {name: commit_id}
            case Lands() | Nothing() | Breaks() | Conflicts() | Declines():
                return

    def _learn_commits(self, graph: Graph, branch: str, lands: Lands | None) -> None:
        """Take over the new commits of a branch: those of recovery and at most one of an action."""
        for commit in self._find_fresh(graph, branch):
            state, merged = self.history.state(branch), tuple[str, ...]()
            event(f"commit: {'of an action' if _is_own(commit) else 'of recovery'}")
            if _is_own(commit):
                assert lands is not None, (
                    f"no action made commit {commit.id}, or one took effect twice"
                )
                state = require_adopted(lands.state, read_export(graph.export(commit=commit.id)))
                merged = () if lands.merged is None else (lands.merged,)
                lands = None
            assert commit.branch == branch
            parents = (str(commit.parent_id), *merged)
            self.history.land(
                branch, commit.id, version=commit.manifest_version, parents=parents, state=state
            )

    def _find_fresh(self, graph: Graph, branch: str) -> list[Commit]:
        """The commits of a branch that the model does not know yet."""
        if graph.head(branch) == self.history.heads[branch]:
            return []
        known = self.history.chain(branch)
        commits = graph.commits(branch)
        assert [each.id for each in commits[: len(known)]] == known, "history has changed"
        return commits[len(known) :]


def _is_own(commit: Commit) -> bool:
    return commit.actor != RECOVERY_ACTOR


def _both_land(left: Accepted | Refused, right: Accepted | Refused) -> bool:
    return all(isinstance(each, Accepted) and each.is_commit for each in (left, right))
