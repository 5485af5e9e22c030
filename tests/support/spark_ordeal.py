"""Bulk loads whose processes are killed at any moment, and what must be true afterwards.

The expected rows with and without a load are known. Afterwards the graph must hold one of the two,
the one that was reported to the driver, and the next write must work. What is killed when
depends on the machine, so a seed makes a run similar,
never the same.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import lance

import omnigraph
from omnigraph import Graph
from omnigraph.engine.maintenance.doctor_report import Severity
from omnigraph.errors import Outcome
from tests.support.graphs import build_graph, ndjson, node, pins, row_counts, sidecars
from tests.support.spark_kills import NOT_REPORTED, Driver, Victim, await_that

SCHEMA = """
node Person { name: String @key  mark: I32 }
edge Knows: Person -> Person { mark: I32 }
"""
BRANCHES = ("main", "draft")
MODES = ("append", "merge", "overwrite")
MASTERS = ("local[2]", "local[2,3]")
"""Where a task that fails is not tried again, and where it is."""

KILLS_OF_DRIVER_MAX = 6
LOADS_MAX = 8
PEOPLE, EDGES = 40_000, 60_000


# What a graph holds


@dataclass(frozen=True, slots=True)
class Held:
    """The rows of one branch: the mark of each person, and how many edges of a mark there are."""

    people: Mapping[str, int]
    edges: Mapping[tuple[str, str, int], int]


def look(graph: Graph, branch: str) -> Held:
    """What a branch holds, read past the engine at the versions that history names."""
    tables = graph.tables(branch)
    people, edges = (
        lance.dataset(tables[key].path, version=tables[key].version).to_table()
        for key in ("node:Person", "edge:Knows")
    )
    names, marks = people["name"].to_pylist(), people["mark"].to_pylist()
    assert len(set(names)) == len(names), "a person is there twice"
    columns = (edges[name].to_pylist() for name in ("src", "dst", "mark"))
    return Held(dict(zip(names, marks, strict=True)), Counter(zip(*columns, strict=True)))


@dataclass(frozen=True, slots=True)
class Load:
    """One load: what it brings, all of it with its number as the mark."""

    number: int
    mode: str
    branch: str
    people: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]

    def onto(self, held: Held) -> Held:
        """What a branch holds with this load."""
        people = dict.fromkeys(self.people, self.number)
        edges = Counter((source, target, self.number) for source, target in self.edges)
        if self.mode == "overwrite":
            return Held(people, edges)
        return Held({**held.people, **people}, Counter(held.edges) + edges)


def plan_load(number: int, held: Held, branch: str, mode: str, chance: random.Random) -> Load:
    """A load of many people, some of whom are there already if it is a merge, and of edges."""
    known = sorted(held.people) if mode == "merge" else []
    again = chance.sample(known, min(len(known), PEOPLE // 2))
    people = (*again, *(f"p{number}-{each}" for each in range(PEOPLE - len(again))))
    ends = chance.choices(people, k=2 * EDGES)
    return Load(number, mode, branch, people, tuple(zip(ends[::2], ends[1::2], strict=True)))


def write_input(load: Load, folder: Path) -> Sequence[Path]:
    """The files that a driver reads a load from."""
    folder.mkdir()
    mark = load.number
    lines = [
        *(
            f'{{"type":"Person","data":{{"name":"{name}","mark":{mark}}}}}\n'
            for name in load.people
        ),
        *(
            f'{{"edge":"Knows","from":"{source}","to":"{target}","data":{{"mark":{mark}}}}}\n'
            for source, target in load.edges
        ),
    ]
    cut = len(lines) // 2
    paths = [folder / "a.ndjson", folder / "b.ndjson"]
    for path, some in zip(paths, (lines[:cut], lines[cut:]), strict=True):
        path.write_text("".join(some), encoding="utf-8")
    return paths


# Kills


class KillPoint(StrEnum):
    """When: so long after a stage was begun, while armed, or so long after the call."""

    READ = "read"
    CHECK = "check"
    REPLACE = "replace"
    COMMIT = "commit"
    ANY = "any time"


# From seeing such a moment to the kill: about as long as the moment lasts.
DELAY_S_MAX = {
    KillPoint.READ: 1.0,
    KillPoint.CHECK: 1.5,
    KillPoint.REPLACE: 0.3,
    KillPoint.COMMIT: 0.03,
    KillPoint.ANY: 4.0,
}


@dataclass(frozen=True, slots=True)
class Kill:
    """Who is killed, and when."""

    victim: Victim
    kill_point: KillPoint

    @property
    def mode(self) -> str | None:
        """The mode of load that has such a moment, if not every one has."""
        return "merge" if self.kill_point is KillPoint.REPLACE else None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a load ended: for its caller, if there is one left, and on disk.

    `strays` are files of the load that stay although it is not there.
    """

    kill: Kill
    reported: str
    is_there: bool
    has_staged_all: bool
    strays: int

    def __str__(self) -> str:
        return f"{self.kill.victim} in {self.kill.kill_point}: {self.reported}"


# The story


class Ordeal:
    """One graph, its drivers one after the other, and what the graph must hold."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder, self._chance = folder, chance
        self.root = folder / "graph"
        first = [node("Person", name="first", mark=0)]
        with build_graph(self.root, SCHEMA, *first) as graph:
            graph.create_branch("draft")
            self._pins = {branch: pins(graph, branch) for branch in BRANCHES}
        self._held = dict.fromkeys(BRANCHES, Held({"first": 0}, {}))
        self._number = 0

    @contextmanager
    def driver(self, master: str) -> Iterator[Driver]:
        """A driver, gone at the end of the block with all that it has started."""
        home = self._folder / f"driver{self._number}"
        home.mkdir()
        driver = Driver(self.root, home, master)
        try:
            yield driver
        finally:
            driver.end()

    def suffer(self, kill: Kill, driver: Driver, *, is_last: bool = False) -> Ending:
        """Run a load, kill a process meanwhile, and look at what is left.

        The driver is not asked for more after its last load.
        """
        load = self._plan(kill)
        files = data_files(self.root)
        paths = write_input(load, self._folder / f"input{load.number}")
        driver.begin(load.number, paths, mode=load.mode, branch=load.branch, is_last=is_last)
        self._await(kill.kill_point, driver, load.number)
        time.sleep(self._chance.uniform(0, DELAY_S_MAX[kill.kill_point]))
        driver.kill(kill.victim, load.number)
        reported = driver.await_ending(load.number)
        is_there = self._require_whole(load, reported)
        return Ending(
            kill=kill,
            reported=reported,
            is_there=is_there,
            has_staged_all=any(each[0] == "check" for each in driver.events(load.number)),
            strays=0 if is_there else len(data_files(self.root) - files),
        )

    def write(self) -> None:
        """Write to every branch as anybody does, and see that it counts."""
        self._number += 1
        name = f"next{self._number}"
        with omnigraph.open(str(self.root), durability="relaxed") as graph:
            for branch in BRANCHES:
                rows = ndjson(node("Person", name=name, mark=self._number))
                graph.load(rows, mode="append", branch=branch)
                held = self._held[branch]
                people = {**held.people, name: self._number}
                self._held[branch] = Held(people, held.edges)
                counts = row_counts(graph, branch)
                assert counts == {
                    "node:Person": len(people),
                    "edge:Knows": sum(held.edges.values()),
                }
            self._pins = {branch: pins(graph, branch) for branch in BRANCHES}

    def examine(self) -> None:
        """See that nothing is wrong with the graph beyond what was left behind."""
        with omnigraph.open(str(self.root), read_only=True) as graph:
            report = graph.doctor()
        assert all(each.severity is Severity.NOTE for each in report.findings), str(report)

    def _plan(self, kill: Kill) -> Load:
        self._number += 1
        branch = self._chance.choice(BRANCHES)
        mode = kill.mode or self._chance.choice(MODES)
        return plan_load(self._number, self._held[branch], branch, mode, self._chance)

    def _await(self, kill_point: KillPoint, driver: Driver, number: int) -> None:
        def has_come() -> bool:
            begun = {each[0] for each in driver.events(number)}
            is_any = kill_point is KillPoint.ANY and bool(begun)
            is_over = driver.find_ending(number) is not None
            return is_any or kill_point.value in begun or is_over

        if kill_point is KillPoint.COMMIT:
            self._await(KillPoint.CHECK, driver, number)
            # It lasts for some milliseconds, and to look for it must not take as long.
            polls = itertools.count(1)
            await_that(
                lambda: sidecars(self.root) or (next(polls) % 50 == 0 and has_come()),
                look_s=0.001,
            )
        else:
            await_that(has_come)

    def _require_whole(self, load: Load, reported: str) -> bool:
        """Whether a load is there; fail if it is partial or differs from what was reported."""
        old = self._held[load.branch]
        new = load.onto(old)
        with omnigraph.open(str(self.root), read_only=True) as graph:
            seen = self._is_there(graph, load, old, new)
        with omnigraph.open(str(self.root), durability="relaxed") as graph:
            is_there = self._is_there(graph, load, old, new)
        assert is_there or not seen, "what a reader has seen was undone"
        if reported == "done":
            assert is_there, "it was reported as done"
        if reported.startswith((Outcome.UNCHANGED, Outcome.MOVED)):
            assert not is_there, f"it was reported as not done: {reported}"
        assert not reported.startswith(Outcome.BROKEN), reported
        self._held[load.branch] = new if is_there else old
        return is_there

    def _is_there(self, graph: Graph, load: Load, old: Held, new: Held) -> bool:
        found = look(graph, load.branch)
        assert found in (old, new), f"neither what it was nor what it should become: {load.mode}"
        for branch in set(BRANCHES) - {load.branch}:
            assert pins(graph, branch) == self._pins[branch], "another branch has changed"
        return found == new


def data_files(root: Path) -> set[Path]:
    """Every file of rows of a graph."""
    return {path for kind in ("nodes", "edges") for path in (root / kind).rglob("data/*.lance")}


# Many kills


@dataclass(frozen=True, slots=True)
class OrdealReport:
    """What was killed when, what became of the loads, and how many files stay of those that are
    not there."""

    seed: int
    endings: Sequence[Ending]

    def __str__(self) -> str:
        return f"seed {self.seed}: {sum_up_kills(self.endings)}"


def sum_up_kills(endings: Sequence[Ending]) -> str:
    """How many kills of which kind there were, and what became of the graph."""
    kills = Counter(f"{each.kill.victim} in {each.kill.kill_point}" for each in endings)
    reported = Counter(each.reported.partition(":")[0] for each in endings)
    there = sum(each.is_there for each in endings)
    strays = sum(each.strays for each in endings)
    return (
        f"{len(endings)} kills {dict(sorted(kills.items()))}, callers heard {dict(reported)}, "
        f"{there} loads are there and {len(endings) - there} are not, none partially, "
        f"{strays} files of these stay"
    )


def run_ordeal(folder: Path, *, seed: int, kills_min: int, seconds: float) -> OrdealReport:
    """Load and kill on one new graph for so long and so often; fail at the first flaw."""
    chance = random.Random(seed)
    ordeal = Ordeal(folder, chance)
    endings: list[Ending] = []
    deadline = time.monotonic() + seconds
    try:
        # A graph that grows makes loads slower, and the next round has a new one.
        while len(endings) < kills_min or (
            time.monotonic() < deadline and sum(each.is_there for each in endings) < LOADS_MAX
        ):
            with ordeal.driver(chance.choice(MASTERS)) as driver:
                for _ in range(KILLS_OF_DRIVER_MAX):
                    endings.append(ordeal.suffer(choose_kill(chance), driver))
                    require_tidy(endings[-1])
                    ordeal.write()
                    if driver.is_spent or time.monotonic() > deadline:
                        break
            ordeal.examine()
    except AssertionError as error:
        error.add_note(f"seed {seed}, in {folder}, after {[*map(str, endings)]}")
        raise
    return OrdealReport(seed, endings)


def choose_kill(chance: random.Random) -> Kill:
    """A process and a time; Java and the driver are expensive, so they die less often."""
    victims = chance.choices(list(Victim), weights=[4, 2, 3, 3])
    return Kill(victims[0], chance.choice(list(KillPoint)))


def require_tidy(ending: Ending) -> None:
    """Fail unless a caller who lives and whose rows were staged finds no file of them."""
    has_caller = ending.reported != NOT_REPORTED
    if has_caller and ending.has_staged_all and not ending.is_there:
        assert not ending.strays, f"{ending}: {ending.strays} files stay"
