"""What writers recorded about their calls, and what a graph must contain for it to be true.

A call brings rows that carry its marker, stamps those of an earlier call, or removes them; a marker
says how many rows it stands for. So every snapshot can be checked by itself, and the last one
against the ledgers of all writers. Does not know how writers are started or ended.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import omnigraph
from omnigraph import Graph
from omnigraph.engine.state.history import Commit
from omnigraph.errors import DriftError, Outcome
from tests.support.graphs import (
    Contents,
    contents,
    head_versions,
    pins,
    require_linear,
    row_counts,
)

SEATED = "seated"  # the mark of the rows that are there from the start


# The ledger


class Action(StrEnum):
    """What a writer does in one call."""

    PAIR = "pair"
    LOAD = "load"
    SEAT = "seat"
    STAMP = "stamp"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Entry:
    """One call: its marker, what it was on, and how it ended, if its writer lived to say so."""

    writer: str
    marker: str
    action: Action
    target: str
    commit_id: str | None
    failure: tuple[Outcome, str] | None

    @property
    def is_open(self) -> bool:
        """Whether the call has no known outcome."""
        return self.commit_id is None and self.failure is None


class Ledger:
    """The file in which one writer writes down its calls."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *words: str) -> None:
        """Add a line durably."""
        os.write(self._descriptor, f"{' '.join(words)}\n".encode())
        os.fsync(self._descriptor)


def read_ledger(path: Path) -> Sequence[Entry]:
    """The calls of one writer, in order."""
    lines = [line.split(" ") for line in path.read_text().splitlines()]
    endings = {words[1]: words for words in lines if words[0] != "intend"}
    return [
        Entry(
            writer=path.stem,
            marker=marker,
            action=Action(action),
            target=target,
            commit_id=ending[2] if ending and ending[0] == "done" else None,
            failure=(Outcome(ending[2]), ending[3]) if ending and ending[0] == "failed" else None,
        )
        for _, marker, action, target in (words for words in lines if words[0] == "intend")
        for ending in [endings.get(marker)]
    ]


def read_ledgers(folder: Path) -> Sequence[Entry]:
    """The calls of all writers."""
    return [entry for path in sorted(folder.glob("*.ledger")) for entry in read_ledger(path)]


def ending_of(entry: Entry) -> str:
    """A short description of how a call ended."""
    if entry.failure is not None:
        return " ".join(entry.failure)
    return "open" if entry.is_open else "done"


# What a snapshot must look like


def shape_of(marker: str) -> tuple[int, int, int]:
    """How many people, places and edges a call with this marker brings."""
    pairs = int(marker.rpartition(".")[2])
    return (pairs, pairs, pairs) if pairs else (0, 1, 1)


def shapes(found: Contents) -> Mapping[str, tuple[int, int, int]]:
    """How many people, places and edges of each marker are there."""
    people, places, edges = (
        Counter(str(row["mark"]) for row in found.get(name, {}).values())
        for name in ("Person", "Place", "At")
    )
    marks = (people | places | edges).keys() - {SEATED}
    return {mark: (people[mark], places[mark], edges[mark]) for mark in marks}


def stamps(found: Contents) -> Mapping[str, set[str | None]]:
    """The stamps on the nodes of each marker."""
    by_mark: dict[str, set[str | None]] = defaultdict(set)
    for name in ("Person", "Place"):
        for row in found.get(name, {}).values():
            stamp = row["stamp"]
            by_mark[str(row["mark"])].add(None if stamp is None else str(stamp))
    return by_mark


def find_flaws(found: Contents) -> Iterator[str]:
    """What no reader may ever see: half of a write, or a broken rule of the schema."""
    for mark, shape in shapes(found).items():
        if shape != shape_of(mark):
            yield f"{mark} is torn: it has {shape} of {shape_of(mark)} people, places, edges"
    for mark, found_stamps in stamps(found).items():
        if len(found_stamps) > 1:
            yield f"{mark} is stamped partially: {found_stamps}"
    people, places, edges = (found.get(name, {}) for name in ("Person", "Place", "At"))
    badges = Counter(row["badge"] for row in people.values() if row["badge"] is not None)
    yield from (f"badge {badge} is there {n} times" for badge, n in badges.items() if n > 1)
    sources = Counter(str(row["from"]) for row in edges.values())
    yield from (f"{source} is at {n} places" for source, n in sources.items() if n > 1)
    for id, row in edges.items():
        if row["from"] not in people or row["to"] not in places:
            yield f"edge {id} has lost an end"


# What must be true in the end


def find_broken_promises(graph: Graph, root: Path, entries: Sequence[Entry]) -> Iterator[str]:
    """What is wrong with a graph that was opened once after the last writer was gone."""
    found = contents(graph)
    yield from find_flaws(found)
    landed = find_landed(found, entries)
    yield from find_wrong_endings(landed, entries)
    yield from find_wrong_history(graph.commits(), landed, entries)
    left = [path.name for path in (root / "__recovery").glob("[!#]*")]
    if left:
        yield f"records are left: {left}"
    if head_versions(root) != pins(graph):
        yield f"tables are at {head_versions(root)}, history names {pins(graph)}"
    counted = {key: len(found.get(key.partition(":")[2], {})) for key in row_counts(graph)}
    if counted != row_counts(graph):
        yield f"there are {counted} rows, history says {row_counts(graph)}"
    operations = Counter(each.operation_id for each in graph.recoveries())
    yield from (f"{id} was recovered {n} times" for id, n in operations.items() if n > 1)
    head = graph.head()
    with omnigraph.open(str(root)) as again:
        if again.head() != head:
            yield f"opening again moved the head from {head} to {again.head()}"


def find_landed(found: Contents, entries: Sequence[Entry]) -> set[str]:
    """The markers of the calls whose effect the graph shows."""
    marks, found_stamps = shapes(found).keys(), stamps(found)
    removals = [entry for entry in entries if entry.action is Action.REMOVE]
    removed = {entry.target for entry in removals if entry.target not in marks}

    def shows(entry: Entry) -> bool:
        match entry.action:
            case Action.PAIR | Action.LOAD | Action.SEAT:
                return entry.marker in marks or entry.marker in removed
            case Action.STAMP:
                return entry.marker in found_stamps.get(entry.target, set())
            case Action.REMOVE:
                return entry.target in removed

    return {entry.marker for entry in entries if shows(entry)}


def find_wrong_endings(landed: set[str], entries: Sequence[Entry]) -> Iterator[str]:
    """The calls whose result contradicts the graph."""
    for entry in entries:
        match entry.failure:
            case None:
                if entry.marker not in landed and not entry.is_open:
                    yield f"{entry} is not there"
            case (outcome, error):
                if outcome is Outcome.BROKEN or error == DriftError.__name__:
                    yield f"{entry} met a broken graph"
                if entry.marker in landed and outcome is not Outcome.UNCERTAIN:
                    yield f"{entry} is there"


def find_wrong_history(
    commits: Sequence[Commit], landed: set[str], entries: Sequence[Entry]
) -> Iterator[str]:
    """Where the commits disagree with each other, with the ledgers or with the rows."""
    require_linear(commits)
    writer_by_commit = {commit.id: commit.actor for commit in commits}
    if len(writer_by_commit) != len(commits):
        yield "two commits have one id"
    acknowledged = Counter(entry.commit_id for entry in entries if entry.commit_id is not None)
    yield from (f"{id} was acknowledged {n} times" for id, n in acknowledged.items() if n > 1)
    for entry in entries:
        if entry.commit_id is not None and writer_by_commit.get(entry.commit_id) != entry.writer:
            yield f"{entry} is not in the history"
    # A writer killed in a call has one more commit than it recorded, if and only if its rows show.
    commit_count = Counter(writer_by_commit.values())
    landed_count = Counter(entry.writer for entry in entries if entry.marker in landed)
    for writer in {entry.writer for entry in entries}:
        if commit_count[writer] != landed_count[writer]:
            yield f"{writer} has {commit_count[writer]} commits, {landed_count[writer]} calls show"
