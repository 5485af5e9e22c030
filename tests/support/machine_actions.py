"""Actions: writes of every kind to a graph with branches, each with its expected outcome.

An action is drawn from the model, so it names ids, branches and commits that exist or existed. Few
ids and few values: the changes of two branches overlap often. Performs nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from omnigraph import Graph
from omnigraph.engine.ops.transaction import Transaction
from omnigraph.errors import (
    AlreadyExistsError,
    GraphError,
    NotFoundError,
    StillNeededError,
)
from tests.support import graph_model
from tests.support.choices import Choices
from tests.support.generated_writes import write_mutation
from tests.support.graph_model import (
    MADE_UP,
    Accepted,
    Compare,
    Delete,
    Insert,
    Refused,
    Statement,
    Update,
)
from tests.support.graphs import Contents, Record, edge, ndjson, node
from tests.support.machine_model import (
    CATALOG,
    Merged,
    ModelHistory,
    Sides,
)
from tests.support.writes import Mode

FIRST: Sequence[Record] = [
    *(node("Person", name=name, age=1) for name in "abc"),
    node("Place", floor=1, room="r"),
    node("Place", floor=2, room="r"),
    edge("Knows", "a", "b", id="e1", kind="work"),
    edge("Sits", "a", '["1","r"]', id="e1"),
]
"""Rows to start from."""

NAMES = ("a", "b", "c", "d")
PLACES = ('["1","r"]', '["2","r"]')
AGES = (None, *(1, 2, 3, 4) * 4, 151)
EMAILS = (*[None] * 5, "x", "y")
NOTES = (None, "n", "m")
KINDS = (None, "work", "home")
EDGE_IDS = (None, "e1", "e2", "e3")
BRANCHES = ("b1", "b2", "b3")
TAGS = ("t1", "t2")
MODES: Sequence[Mode] = ("merge", "merge", "append", "merge", "overwrite")


# The expected outcome of an action


@dataclass(frozen=True, slots=True)
class Lands:
    """A commit on a branch; its rows may have ids that the model made up."""

    branch: str
    state: Contents
    merged: str | None


@dataclass(frozen=True, slots=True)
class Starts:
    """A branch is created."""

    name: str
    base: str


@dataclass(frozen=True, slots=True)
class Ends:
    """A branch is deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No commit and no error."""


@dataclass(frozen=True, slots=True)
class Breaks:
    """A refusal, for the rules that rows break."""

    refused: Refused


@dataclass(frozen=True, slots=True)
class Conflicts:
    """A refusal, for what two sides contradict each other in."""

    sides: Sides
    merged: Merged


@dataclass(frozen=True, slots=True)
class Declines:
    """A refusal, because something is not there, is there already, or is needed."""

    error: type[GraphError]


@dataclass(frozen=True, slots=True)
class Tags:
    """A commit has a tag; without a commit, the tag is deleted."""

    name: str
    commit_id: str | None


Expected = Lands | Starts | Ends | Tags | Nothing | Breaks | Conflicts | Declines


@dataclass(frozen=True, slots=True)
class Action:
    """One write: its description, how it is performed, and its expected outcome.

    Performing it returns the id of the commit that it made, if any. An action performed on a
    branch of its own leaves that branch behind when it is stopped, until the graph is opened again.
    """

    words: str
    do: Callable[[Graph], str | None] = field(repr=False)
    expected: Expected = field(repr=False)
    is_private: bool = False

    @property
    def name(self) -> str:
        """The first of its words."""
        return self.words.partition(" ")[0]

    @property
    def effects(self) -> Sequence[int]:
        """The numbers of its durable effects; those more often between which it is half done."""
        if self.is_private:
            return range(1, 20)
        return (1, 2, 2, 3, 3, 3, 4, 4, 5, 6) if isinstance(self.expected, Lands) else (1, 1, 2, 3)


# Rows


def draw_statements(choices: Choices, state: Contents) -> list[Statement]:
    """The statements of one mutation: changes, or removals."""
    make = _removal if choices.count(3) == 3 else _change
    return [make(choices, state) for _ in range(1 + choices.count(2))]


def draw_records(choices: Choices, state: Contents) -> list[Record]:
    """What a load brings."""
    return [_record(choices, state) for _ in range(1 + choices.count(3))]


def _change(choices: Choices, state: Contents) -> Statement:
    match choices.one(("Person", "set", "set", "Knows", "Sits", "Place", "note")):
        case "Person":
            return Insert("Person", _person(choices))
        case "set":
            where = Compare("name", "=", choices.one(NAMES))
            if choices.often():
                return Update("Person", {"age": choices.one(AGES)}, where)
            return Update("Person", {"email": choices.one(EMAILS)}, where)
        case "note":
            where = Compare("floor", choices.one(("=", ">=")), 1 + choices.count(1))
            return Update("Place", {"note": choices.one(NOTES)}, where)
        case "Place":
            return Insert("Place", _place(choices))
        case "Knows":
            return Insert("Knows", {**_ends(choices, state, "Knows"), "kind": choices.one(KINDS)})
        case _:
            return Insert("Sits", _ends(choices, state, "Sits"))


def _removal(choices: Choices, state: Contents) -> Statement:
    match choices.one(("Person", "Person", "Place", "Knows", "Sits")):
        case "Person":
            return Delete("Person", Compare("name", "=", choices.one(NAMES)))
        case "Place":
            return Delete("Place", Compare("floor", "=", 1 + choices.count(1)))
        case name:
            end = choices.one(("from", "to"))
            return Delete(name, Compare(end, "=", _ends(choices, state, name)[end]))


def _record(choices: Choices, state: Contents) -> Record:
    match choices.one(("Person", "Person", "Knows", "Knows", "Place", "Sits")):
        case "Person":
            return node("Person", **_person(choices))
        case "Place":
            return node("Place", **_place(choices))
        case name:
            ends, id = _ends(choices, state, name), choices.one(EDGE_IDS)
            values = {"kind": choices.one(KINDS)} if name == "Knows" else {}
            values |= {} if id is None else {"id": id}
            return edge(name, ends["from"], ends["to"], **values)


def _person(choices: Choices) -> dict[str, object]:
    return {
        "name": choices.one(NAMES),
        "age": choices.one(AGES),
        "email": choices.one(EMAILS),
    }


def _place(choices: Choices) -> dict[str, object]:
    return {"floor": 1 + choices.count(1), "room": "r", "note": choices.one(NOTES)}


def _ends(choices: Choices, state: Contents, name: str) -> dict[str, str]:
    """Nodes that are most likely there."""
    pools = {"Person": NAMES, "Place": PLACES}
    declared = CATALOG.edges[name]
    return {
        end: choices.one([*sorted(state.get(type_name, {})) * 6, *pools[type_name]])
        for end, type_name in (("from", declared.source), ("to", declared.target))
    }


# Writes to one branch


@dataclass(frozen=True, slots=True)
class Call:
    """A mutation or a load, wherever it is sent to."""

    words: str
    predict: Callable[[Contents], Accepted | Refused] = field(repr=False)
    send: Callable[[Graph, str], str | None] = field(repr=False)
    send_within: Callable[[Transaction], object] = field(repr=False)


def draw_call(choices: Choices, state: Contents) -> Call:
    """A mutation or a load."""
    if choices.often():
        return call_of(draw_statements(choices, state))
    records, mode = draw_records(choices, state), choices.one(MODES)
    return Call(
        f"load {mode} {list(records)}",
        lambda state: graph_model.load(CATALOG, state, records, mode),
        lambda graph, branch: graph.load(ndjson(*records), mode=mode, branch=branch).commit_id,
        lambda within: within.load(ndjson(*records), mode=mode),
    )


def call_of(statements: Sequence[Statement]) -> Call:
    """A mutation."""
    source, given = write_mutation(statements)
    return Call(
        f"{source} {given or ''}",
        lambda state: graph_model.mutate(CATALOG, state, statements),
        lambda graph, branch: graph.mutate(source, given, branch=branch).commit_id,
        lambda within: within.mutate(source, given),
    )


def draw_write(choices: Choices, history: ModelHistory) -> Action:
    """A mutation or a load of a branch."""
    branch = choices.one(history.branches)
    call = draw_call(choices, history.state(branch))
    return Action(
        f"{call.words} on {branch}",
        lambda graph: call.send(graph, branch),
        _expect(branch, call.predict(history.state(branch))),
    )


def _expect(branch: str, predicted: Accepted | Refused) -> Expected:
    match predicted:
        case Refused():
            return Breaks(predicted)
        case Accepted():
            return Lands(branch, predicted.state, None) if predicted.is_commit else Nothing()


def draw_race(choices: Choices, history: ModelHistory) -> tuple[str, Call, Call]:
    """A branch, and what two do to it at the same time."""
    branch = choices.one(history.branches)
    state = history.state(branch)
    mine, theirs = (call_of(draw_statements(choices, state)) for _ in range(2))
    return branch, mine, theirs


class AbandonedError(RuntimeError):
    """What ends a transaction that is not to be."""


def draw_transaction(choices: Choices, history: ModelHistory) -> Action:
    """Several calls as one commit, or as none because something else went wrong."""
    branch, is_abandoned = choices.one(history.branches), choices.seldom()
    calls, state, has_moved = list[Call](), history.state(branch), False
    refused: Refused | None = None
    for number in range(1 + choices.count(2)):
        call = draw_call(choices, state)
        predicted = call.predict(state)
        if isinstance(predicted, Refused) and not choices.seldom():
            continue
        calls.append(call)
        if isinstance(predicted, Refused):
            refused = predicted
            break
        state = set_apart(predicted.state, number)
        has_moved |= predicted.is_commit
    words = f"transaction on {branch}: {[each.words for each in calls]}"

    def do(graph: Graph) -> str | None:
        with suppress(AbandonedError), graph.transaction(branch) as begun:
            for each in calls:
                each.send_within(begun)
            if is_abandoned:
                raise AbandonedError
        return begun.commit_id

    if refused is not None:
        return Action(words, do, Breaks(refused), is_private=True)
    if is_abandoned or not has_moved:
        return Action(f"abandon {words}", do, Nothing(), is_private=True)
    return Action(words, do, Lands(branch, state, None), is_private=True)


def set_apart(state: Contents, number: int) -> Contents:
    """A state whose made-up ids no later call makes up again."""
    return {
        name: {
            f"{id}/{number}" if id.startswith(MADE_UP) and "/" not in id else id: row
            for id, row in rows.items()
        }
        for name, rows in state.items()
    }


# Branches and tags


def draw_start(choices: Choices, history: ModelHistory) -> Action:
    """A new branch."""
    return start(choices.one(BRANCHES), choices.one([*history.branches * 2, "b3"]), history)


def start(name: str, base: str, history: ModelHistory) -> Action:
    """A branch of a name, started from another."""
    expected: Expected = Starts(name, base)
    if name in history.heads:
        expected = Declines(AlreadyExistsError)
    elif base not in history.heads:
        expected = Declines(NotFoundError)
    words = f"start {name} from {base}"
    return Action(words, lambda graph: graph.create_branch(name, base=base), expected)


def draw_end(choices: Choices, history: ModelHistory) -> Action:
    """The end of a branch."""
    return end(choices.one([*sorted(set(history.heads) - {"main"}) * 2, "b3"]), history)


def end(name: str, history: ModelHistory) -> Action:
    """The end of the branch of a name."""
    expected: Expected = Ends(name)
    if name not in history.heads:
        expected = Declines(NotFoundError)
    elif history.what_needs(name) is not None:
        expected = Declines(StillNeededError)
    return Action(f"end {name}", lambda graph: graph.delete_branch(name), expected)


def draw_tag(choices: Choices, history: ModelHistory) -> Action:
    """A name for a commit, or the end of one."""
    name = choices.one(TAGS)
    if name in history.tags and choices.often():
        return Action(f"untag {name}", lambda graph: graph.delete_tag(name), Tags(name, None))
    # What was made last is tagged more often: it is more likely to be on a branch that can go.
    known = list(history.commits)
    commit = history.commits[choices.one([*known, *known[-3:] * 3])]
    expected: Expected = Tags(name, commit.id)
    if not history.is_readable(commit):
        expected = Declines(NotFoundError)
    elif history.tags.get(name, commit.id) != commit.id:
        expected = Declines(AlreadyExistsError)
    return Action(f"tag {commit.id} as {name}", lambda graph: graph.tag(name, commit.id), expected)
