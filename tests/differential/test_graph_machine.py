"""Everything that can be done to a graph, in any order, against a graph of dictionaries.

Branches come and go, rows change on them by mutations, loads and transactions, branches are merged,
commits undone, picked and tagged, and any of it may be interrupted. After every step the graph
is what the model says, and in the end all of its past is.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import isqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.strategies import DataObject, DrawFn, SearchStrategy

from tests.support.choices import Choices
from tests.support.crashing import Fault, Scope, When
from tests.support.graphs import read_export
from tests.support.machine_actions import BRANCHES, Action, draw_race, draw_write, end, start
from tests.support.machine_checks import (
    require_difference,
    require_feed,
    require_history,
    require_merged_once,
    require_one_result,
    require_past,
    require_present,
    require_quiet,
    require_rows,
    require_tagged,
)
from tests.support.machine_merges import draw_any, draw_effective, draw_merge_of, failpoints_of
from tests.support.machine_model import ModelHistory
from tests.support.machine_story import Cure, Story
from tests.support.sweeps import Reached

STEPS_MAX = 20

# A story costs as much as some thousand generated texts.
EXAMPLES_MAX = isqrt(settings().max_examples)

READS_MAX = 6
WRITERS = st.sampled_from([0, 0, 1])

T = TypeVar("T")
Drawing = Callable[[Choices, ModelHistory], T]


@st.composite
def drawn(draw: DrawFn, make: Drawing[T], history: ModelHistory) -> T:
    """Something that may happen in a world."""
    return make(Choices(draw), history)


def faults(effects: Sequence[int], whens: Sequence[When]) -> SearchStrategy[Fault]:
    """A fault at one of some effects."""
    at, when = st.sampled_from(effects), st.sampled_from(whens)
    return st.builds(Fault, at=at, when=when, scope=st.just(Scope.EFFECTS))


INTERRUPTIONS = st.one_of(
    st.none(), faults(range(1, 5), [When.BEFORE, When.AFTER, When.ERROR_ONCE])
)


class Turn(StrEnum):
    """What may happen next."""

    ACT = "write to a branch, start, end or merge one, undo, pick or tag a commit"
    WEAVE = "two branches take from each other"
    CRASH = "a process dies of it"
    FAIL = "a process survives it"
    RACE = "another changes the branch of a transaction"
    REOPEN = "start again from what is stored"
    READ = "read while another handle writes"
    LOOK_BACK = "look at the past"


TURNS = [
    *[Turn.ACT] * 15,
    *[Turn.CRASH] * 5,
    *[Turn.FAIL] * 2,
    *[Turn.WEAVE] * 2,
    *(Turn.RACE, Turn.REOPEN, Turn.READ, Turn.LOOK_BACK),
]


class GraphMachine(RuleBasedStateMachine):
    """A story, performed step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.story = Story(Path(self.folder.name) / "graph")
        self.story.begin()
        self.seen: dict[str, str] = {}
        self.reads = 0
        self.is_between_steps = True

    @property
    def history(self) -> ModelHistory:
        """What should be there."""
        return self.story.history

    def teardown(self) -> None:
        """Look at all that was, and forget it."""
        try:
            # What went wrong in a step is not to be hidden by what came of it.
            if self.is_between_steps:
                self.look_at_everything()
        finally:
            self.folder.cleanup()

    # What can happen

    @rule(data=st.data(), turn=st.sampled_from(TURNS))
    def take_turn(self, data: DataObject, turn: Turn) -> None:
        """Let something happen.

        One rule, because Hypothesis leaves out rules at random: of few stories, half would do
        without merges, and others without writes.
        """
        self.is_between_steps = False
        match turn:
            case Turn.ACT:
                self.act(data, draw_any)
            case Turn.WEAVE:
                self.weave(data)
            case Turn.CRASH:
                self.crash(data)
            case Turn.FAIL:
                self.fail(data)
            case Turn.RACE:
                self.story.race(*data.draw(drawn(draw_race, self.history)))
            case Turn.REOPEN:
                self.story.open_again()
            case Turn.READ:
                self.read_meanwhile(data)
            case Turn.LOOK_BACK:
                self.look_back(data)
        self.is_between_steps = True

    def act(self, data: DataObject, draw: Drawing[Action]) -> None:
        """Do something."""
        self.perform(data, data.draw(drawn(draw, self.history)))

    def perform(self, data: DataObject, action: Action) -> None:
        """Do it with one of the handles."""
        self.story.perform(action, self.story.graphs[data.draw(WRITERS)])

    def weave(self, data: DataObject) -> None:
        """Let two branches take from each other, each what the other was before.

        They have two last commits in common then, and no single one to be measured from.
        """
        free = [name for name in BRANCHES if name not in self.history.heads]
        if len(self.history.heads) == 1 or not free:
            return
        left, right = data.draw(st.permutations(self.history.branches))[:2]
        self.perform(data, start(free[0], left, self.history))
        self.act(data, partial(draw_merge_of, right, left))
        self.act(data, partial(draw_merge_of, free[0], right))
        self.perform(data, end(free[0], self.history))

    def crash(self, data: DataObject) -> None:
        """Stop a process at any of its effects, in any way."""
        action = data.draw(drawn(draw_effective, self.history))
        fault = data.draw(faults(action.effects, list(When)))
        allowed = self.story.crash(action, fault)
        self.recover(data, action, allowed)

    def fail(self, data: DataObject) -> None:
        """Let a process fail at a failpoint and go on afterwards."""
        action = data.draw(drawn(draw_effective, self.history))
        failpoint = data.draw(st.sampled_from(failpoints_of(action)))
        allowed = self.story.fail(action, failpoint, times=data.draw(st.integers(1, 2)))
        self.recover(data, action, allowed)

    def recover(self, data: DataObject, action: Action, allowed: frozenset[Reached]) -> None:
        """Recover a stopped action, sometimes at the second attempt."""
        # What is left of a transaction keeps its branch till the graph is opened or refreshed.
        cures = [Cure.OPEN, Cure.REFRESH] if action.is_private else list(Cure)
        cure, interruption = data.draw(st.sampled_from(cures)), data.draw(INTERRUPTIONS)
        self.story.recover(action, allowed, cure, interruption)

    def read_meanwhile(self, data: DataObject) -> None:
        """Continue a read after a write."""
        branch = data.draw(st.sampled_from(self.history.branches))
        expected = self.history.state(branch)
        lines = self.story.graphs[0].export(branch=branch)
        taken = [line for line in [next(lines, None)] if line is not None]

        self.act(data, draw_write)

        assert read_export([*taken, *lines]) == expected

    def look_back(self, data: DataObject) -> None:
        """Compare any two commits, and read from every branch."""
        graph, known = self.story.graphs[0], list(self.history.commits.values())
        chosen = data.draw(st.lists(st.sampled_from(known), min_size=2, max_size=READS_MAX))
        require_past(graph, self.history, chosen)
        for old, new in pairwise(filter(self.history.is_readable, chosen)):
            require_difference(graph, old, new)
        for branch in self.history.branches:
            require_one_result(graph, self.history, branch)

    def look_at_everything(self) -> None:
        """Start again from what is stored, and look at the whole of history."""
        self.story.open_again()
        graph, other = self.story.graphs
        require_history(graph, self.history)
        require_past(other, self.history, self.history.commits.values())
        require_tagged(graph, self.history)
        for branch in self.history.branches:
            require_rows(graph, self.history, branch)
            require_feed(other, self.history, branch)
        require_merged_once(graph, self.history)

    # What must always hold

    @invariant()
    def branches_heads_and_tags_are_those_of_the_model(self) -> None:
        """For the handle that writes less, and so learns of other writes only from the storage."""
        require_present(self.story.graphs[1], self.history)

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        """Where something happened, and in turns on the other branches."""
        branches, graph = self.history.branches, self.story.graphs[1]
        self.reads += 1
        moved = [each for each in branches if self.seen.get(each) != self.history.heads[each]]
        for branch in {*moved, branches[self.reads % len(branches)]}:
            require_rows(graph, self.history, branch)
        self.seen = dict(self.history.heads)

    @invariant()
    def no_write_is_under_way(self) -> None:
        """What was stopped has been settled."""
        require_quiet(self.story.root)


TestGraphMachine = GraphMachine.TestCase
TestGraphMachine.settings = settings(max_examples=EXAMPLES_MAX, stateful_step_count=STEPS_MAX)
