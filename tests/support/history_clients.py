"""Clients that read and write one graph at once, each a process that writes its history down.

Lists are properties of nodes: a client rewrites some of them on what it read (`if_commit`), or one
of them on the condition that it is as long as it was. Sets are nodes that are added, on nothing at
all. A look is one snapshot of everything. Who does what depends on a seed; when, on the machine.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import omnigraph
from omnigraph import Graph
from omnigraph.errors import DriftError, MovedError, UncertainError
from tests.support.graphs import ndjson, node
from tests.support.histories import (
    Append,
    HistoryLog,
    Operation,
    Outcome,
    Read,
    ReadList,
    ReadSet,
)
from tests.support.process_meetings import meet

SCHEMA = """
node Left { name: String @key  size: I64  entries: [I64] }
node Right { name: String @key  size: I64  entries: [I64] }
node Entry { name: String @key  bag: String  number: I64 }
"""
# Two types and two rows of each, so that a rewrite touches one table twice or two tables at once.
LISTS = (("Left", "a"), ("Left", "b"), ("Right", "a"), ("Right", "b"))
BAGS = ("bag/a", "bag/b")

VALUES_PER_CLIENT = 1_000_000


class Action(StrEnum):
    """What a client does in one turn."""

    LOOK = "look"
    REWRITE = "rewrite"
    SWAP = "swap"
    ADD = "add"


# One client


@dataclass(frozen=True, slots=True)
class View:
    """One snapshot of everything: where it is of, and what was read."""

    commit_id: str
    reads: tuple[Read, ...]

    def of(self, key: str) -> Read:
        """What one key held."""
        return next(each for each in self.reads if each.key == key)


class Client:
    """A running client: every call is logged before it is made and after it ended."""

    def __init__(self, root: str, log: Path, seed: str, number: int) -> None:
        self._chance = random.Random(seed)
        self._name = log.stem
        self._graph = omnigraph.open(root, durability="relaxed")
        self._reader = omnigraph.open(root, read_only=True)
        self._log = HistoryLog(log)
        self._count = 0
        self._value = number * VALUES_PER_CLIENT

    def act(self) -> None:
        """Do one thing, whatever chance wants."""
        match self._chance.choice(list(Action)):
            case Action.LOOK:
                self._chance.choice([self.look, self._glance])(self._reader)
            case Action.REWRITE:
                self._rewrite()
            case Action.SWAP:
                self._swap()
            case Action.ADD:
                self._add()

    def look(self, graph: Graph) -> View:
        """Read everything; a second time, at the same commit, now and then."""
        started = time.monotonic_ns()
        commit_id = graph.head()
        reads = read_all(graph, commit_id)
        again = read_all(graph, commit_id) if self._chance.random() < 0.2 else ()
        number = self._next_number()
        self._log.begin(number, started, [*reads, *again])
        self._log.end(number, time.monotonic_ns(), Outcome.OK, commit_id)
        return View(commit_id, tuple(reads))

    def _glance(self, graph: Graph) -> None:
        """Read everything as it is now, without knowing at which commit."""
        started = time.monotonic_ns()
        reads = read_all(graph, None)
        number = self._next_number()
        self._log.begin(number, started, reads)
        self._log.end(number, time.monotonic_ns(), Outcome.OK, None)

    def _rewrite(self) -> None:
        """Append to some lists, and perhaps to a set, if nothing at all has changed since."""
        view = self.look(self._graph)
        chosen = self._chance.sample(LISTS, self._chance.randint(1, 3))
        bags = self._chance.sample(BAGS, self._chance.randint(0, 1))
        appends = self._appends([*map(list_key, chosen), *bags])
        text, parameters = make_mutation(view, appends)
        self._call(
            [*view.reads, *appends],
            lambda actor: (
                self._graph.mutate(
                    text, parameters, actor=actor, if_commit=view.commit_id
                ).commit_id
            ),
        )

    def _swap(self) -> None:
        """Append to one list, if it is as long as it was; the write itself looks whether it is."""
        view = self.look(self._graph)
        chosen = self._chance.choice(LISTS)
        read = view.of(list_key(chosen))
        appends = self._appends([read.key])
        text, parameters = make_swap(read, appends[0])
        self._call(
            [read, *appends],
            lambda actor: self._graph.mutate(text, parameters, actor=actor).commit_id,
        )

    def _add(self) -> None:
        """Append to a set or two without a look at anything, by a mutation or a load."""
        appends = self._appends(self._chance.choices(BAGS, k=self._chance.randint(1, 3)))
        text, parameters = make_mutation(View("", ()), appends)
        nodes = [
            node("Entry", name=str(each.value), bag=each.key, number=each.value) for each in appends
        ]

        def mutate(actor: str) -> str | None:
            return self._graph.mutate(text, parameters, actor=actor).commit_id

        def load(actor: str) -> str | None:
            return self._graph.load(ndjson(*nodes), mode="append", actor=actor).commit_id

        self._call(appends, self._chance.choice([mutate, load]))

    def _call(self, operations: Sequence[Operation], write: Callable[[str], str | None]) -> None:
        number = self._next_number()
        # What was read before counts as read by the write: it must hold when the write lands.
        self._log.begin(number, time.monotonic_ns(), operations)
        try:
            # Every call is an actor of its own, so that history itself says which call it was.
            commit_id = write(f"{self._name}#{number}")
        except DriftError:
            raise
        except MovedError:
            outcome, commit_id = Outcome.FAILED, None
        except UncertainError:
            outcome, commit_id = Outcome.UNKNOWN, None
        else:
            outcome = Outcome.FAILED if commit_id is None else Outcome.OK
        self._log.end(number, time.monotonic_ns(), outcome, commit_id)

    def _appends(self, keys: Sequence[str]) -> Sequence[Append]:
        self._value += len(keys)
        return [Append(key, self._value - place) for place, key in enumerate(keys)]

    def _next_number(self) -> int:
        self._count += 1
        return self._count


def list_key(chosen: tuple[str, str]) -> str:
    """The key of a list: its type and its name."""
    return "/".join(chosen)


def read_all(graph: Graph, commit_id: str | None) -> Sequence[Read]:
    """What every list and every set held at a commit, or holds now."""
    found: dict[str, tuple[int, ...]] = {}
    bags: dict[str, list[int]] = {bag: [] for bag in BAGS}
    for line in graph.export(commit=commit_id):
        record = json.loads(line)
        fields = record["data"]
        if record["type"] == "Entry":
            bags[fields["bag"]].append(fields["number"])
        else:
            key = list_key((record["type"], fields["name"]))
            assert key not in found, f"{key} is there twice"
            found[key] = tuple(fields["entries"])
    return [
        *(ReadList(key, found[key]) for key in map(list_key, LISTS)),
        *(ReadSet(bag, tuple(numbers)) for bag, numbers in bags.items()),
    ]


def make_mutation(view: View, appends: Sequence[Append]) -> tuple[str, Mapping[str, object]]:
    """One query that appends to lists, longer than in a view, and to sets."""
    statements, declared, parameters = list[str](), list[str](), dict[str, object]()
    for place, each in enumerate(appends):
        if each.key in BAGS:
            statements.append(
                f'insert Entry {{ name: "{each.value}", bag: "{each.key}", number: {each.value} }}'
            )
            continue
        entries = [*view.of(each.key).values, each.value]
        declared.append(f"$entries{place}: [I64]")
        parameters[f"entries{place}"] = entries
        type_name, _, name = each.key.partition("/")
        statements.append(
            f"update {type_name} set {{ entries: $entries{place}, size: {len(entries)} }} "
            f'where name = "{name}"'
        )
    return f"query q({', '.join(declared)}) {{ {' '.join(statements)} }}", parameters


def make_swap(read: Read, append: Append) -> tuple[str, Mapping[str, object]]:
    """A query that appends to a list if it is as long as it was."""
    type_name, _, name = read.key.partition("/")
    text = (
        f"query q($entries: [I64]) {{ update {type_name} "
        f"set {{ entries: $entries, size: {len(read.values) + 1} }} "
        f'where name = "{name}" and size = {len(read.values)} }}'
    )
    return text, {"entries": [*read.values, append.value]}


def main() -> None:
    """Be a client for so many turns, from the moment on at which all are there."""
    root, log, seed, number, turns = sys.argv[1:]
    client = Client(root, Path(log), seed, int(number))
    meet(Path(log).parent, Path(log).stem, "go")
    parent = os.getppid()
    for _ in range(int(turns)):
        if os.getppid() != parent:
            break
        client.act()


if __name__ == "__main__":
    main()
