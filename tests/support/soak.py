"""Writers that are killed at any moment, readers beside them, and what must be true afterwards.

Every writer is a process of its own and keeps a ledger: what it is about to do, flushed before the
call, and how that ended, flushed after it. A killer ends writers with SIGKILL and starts others in
their place. The ledgers alone say what the graph must hold in the end.

What is killed when depends on the machine, so a seed makes a run similar, never the same. Run as a
program this repeats the story, on a new graph each time, for as long as one likes; bulk loads and
their processes are killed in turn with it. Servers under many clients are a story of their own.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle
from pathlib import Path

import omnigraph
from omnigraph import Graph
from omnigraph.errors import DriftError, GraphError, MovedError
from tests.support.graphs import Record, build_graph, contents, edge, ndjson, node, sidecars
from tests.support.server_stories import run_story as run_server_story
from tests.support.soak_ledger import (
    SEATED,
    Action,
    Ledger,
    ending_of,
    find_broken_promises,
    find_flaws,
    read_ledgers,
    shape_of,
    shapes,
)
from tests.support.source_tree import ROOT
from tests.support.spark_ordeal import Ending, run_ordeal, sum_up_kills

SCHEMA = """
node Person { name: String @key  mark: String  stamp: String?  badge: String? @unique }
node Place { name: String @key  mark: String  stamp: String? }
edge At: Person -> Place @card(0..1) { mark: String }
"""
PAIR = """query pair($name: String, $mark: String, $badge: String?) {
  insert Person { name: $name, mark: $mark, badge: $badge }
  insert Place { name: $name, mark: $mark }
  insert At { from: $name, to: $name, mark: $mark }
}"""
SEAT = """query seat($mark: String, $seat: String) {
  insert Place { name: $mark, mark: $mark }
  insert At { from: $seat, to: $mark, mark: $mark }
}"""
STAMP = """query stamp($mark: String, $target: String) {
  update Person set { stamp: $mark } where mark = $target
  update Place set { stamp: $mark } where mark = $target
}"""
REMOVE = """query remove($target: String) {
  delete Person where mark = $target
  delete Place where mark = $target
}"""

WRITERS = 4
SEATS = 40
BADGES = 40
TURNS_MAX = 5
WAIT_S_MAX = 60.0
KILL_WAIT_S_MAX = 5.0
PAUSE_S_MAX = 2.5
LOOK_S_MIN = 0.02
ROUND_S = 20.0
BULK_ROUND_S = 100.0
BULK_S_MIN = 120.0
SERVER_ROUND_S = 60.0


# The writer


def write_until_killed(root: str, ledger_path: str, seed: str) -> None:
    """Write in a loop, each call with a marker of its own, until this process is killed."""
    chance, ledger, name = random.Random(seed), Ledger(Path(ledger_path)), Path(ledger_path).stem
    durability = chance.choice(["full", "relaxed"])
    graph = omnigraph.open(root, actor=name, durability=durability)
    targets: list[str] = []
    parent, number = os.getppid(), 0
    while os.getppid() == parent:
        number += 1
        action = chance.choice(list(Action) if targets else [Action.PAIR, Action.LOAD, Action.SEAT])
        pairs = {Action.PAIR: 1, Action.LOAD: chance.randint(1, 3)}.get(action, 0)
        marker = f"{name}.{number}.{pairs}"
        is_insert = action not in (Action.STAMP, Action.REMOVE)
        # Each target is used up by one call, so that its end says how that call ended.
        target = marker if is_insert else targets.pop(chance.randrange(len(targets)))
        ledger.write("intend", marker, action, target)
        try:
            commit_id = until_it_lands(plan_call(graph, action, marker, target, chance))
        except GraphError as error:
            ledger.write("failed", marker, error.outcome, type(error).__name__)
            continue
        ledger.write("done", marker, str(commit_id))
        if is_insert:
            targets.append(marker)


def plan_call(
    graph: Graph, action: Action, marker: str, target: str, chance: random.Random
) -> Callable[[], str | None]:
    """One call, not yet made; it returns the id of its commit."""
    badge = f"b{chance.randrange(BADGES)}" if chance.random() < 0.3 else None
    seat, mode = f"seat{chance.randrange(SEATS)}", chance.choice(["append", "merge"])
    match action:
        case Action.PAIR:
            given = {"name": marker, "mark": marker, "badge": badge}
            return lambda: graph.mutate(PAIR, given).commit_id
        case Action.LOAD:
            records = pair_records(marker, badge)
            return lambda: graph.load(ndjson(*records), mode=mode).commit_id
        case Action.SEAT:
            return lambda: graph.mutate(SEAT, {"mark": marker, "seat": seat}).commit_id
        case Action.STAMP:
            return lambda: graph.mutate(STAMP, {"mark": marker, "target": target}).commit_id
        case Action.REMOVE:
            return lambda: graph.mutate(REMOVE, {"target": target}).commit_id


def pair_records(marker: str, badge: str | None) -> Sequence[Record]:
    """As many pairs as the marker says, each a person at a place."""
    names = [f"{marker}/{number}" for number in range(shape_of(marker)[0])]
    badges = [badge, *([None] * len(names))]
    return [
        *(node("Person", name=name, mark=marker, badge=badges.pop(0)) for name in names),
        *(node("Place", name=name, mark=marker) for name in names),
        *(edge("At", name, name, mark=marker) for name in names),
    ]


def until_it_lands(write: Callable[[], str | None]) -> str | None:
    """Call a few times, as applications do that are overtaken by others."""
    for _ in range(TURNS_MAX - 1):
        try:
            return write()
        except DriftError:
            raise
        except MovedError:
            continue
    return write()


# The reader


def read_until_stopped(root: str, folder: str, seed: str) -> None:
    """Take snapshots until a file says stop; write down how many, and every flaw in one."""
    chance, home = random.Random(seed), Path(folder)
    parent, snapshots, flaws = os.getppid(), 0, list[str]()
    while os.getppid() == parent and not (home / "stop").exists():
        with omnigraph.open(root, read_only=True) as graph:
            for _ in range(chance.randint(1, 8)):
                flaws.extend(look(graph, home))
                snapshots += 1
                # Without a pause one reader would keep half of a small machine from the writers.
                time.sleep(LOOK_S_MIN)
    (home / "seen.json").write_text(json.dumps({"snapshots": snapshots, "flaws": flaws}))


def look(graph: Graph, home: Path) -> Iterator[str]:
    """The flaws of one snapshot, and what was acknowledged before it and is not in it."""
    acknowledged = {
        entry.marker
        for entry in read_ledgers(home)
        if entry.target == entry.marker and entry.commit_id is not None
    }
    found = contents(graph)
    removed = {entry.target for entry in read_ledgers(home) if entry.action is Action.REMOVE}
    yield from find_flaws(found)
    for marker in acknowledged - removed - shapes(found).keys():
        yield f"{marker} was acknowledged before a snapshot and is not in it"


# The killer


class KillTime(StrEnum):
    """When a writer is killed: at any time, within a call, or while its record is on disk."""

    ANY = "at any time"
    IN_CALL = "in a call"
    ARMED = "while armed"


# From seeing such a state to the kill: about as long as the state lasts.
DELAY_S_MAX = {KillTime.ANY: 0.5, KillTime.IN_CALL: 0.04, KillTime.ARMED: 0.015}


@dataclass(frozen=True, slots=True)
class Report:
    """What a run was, and what was wrong: nothing, if all is well.

    Strays are records that never got their name; nothing shows them and nothing removes them.
    """

    seed: int
    kills: Mapping[str, int]
    endings: Mapping[str, int]
    recoveries: Mapping[str, int]
    snapshots: int
    strays: int
    flaws: Sequence[str]

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {sum(self.kills.values())} kills {dict(self.kills)}, "
            f"calls {dict(self.endings)}, recoveries {dict(self.recoveries)}, "
            f"{self.snapshots} snapshots, {self.strays} stray files, {len(self.flaws)} flaws"
        )


class WriterPool:
    """The running writers, one process each; a killed one is replaced."""

    def __init__(self, root: Path, home: Path, chance: random.Random) -> None:
        self._root, self._home, self._chance = root, home, chance
        self._count = 0
        self.writers: dict[str, subprocess.Popen[bytes]] = {}
        self.deaths: list[str] = []

    def add(self) -> None:
        """Start one more writer."""
        self._count += 1
        name = f"w{self._count}"
        ledger = self._home / f"{name}.ledger"
        ledger.touch()
        seed = str(self._chance.random())
        self.writers[name] = start(self._home / f"{name}.err", "write", self._root, ledger, seed)

    def wait_until_all_write(self) -> None:
        """Return once every writer has begun a call."""
        end = time.monotonic() + WAIT_S_MAX
        while not all((self._home / f"{name}.ledger").stat().st_size for name in self.writers):
            assert time.monotonic() < end, f"not every writer began within {WAIT_S_MAX} s"
            time.sleep(0.01)

    def kill(self, name: str) -> None:
        """End a writer at once; that it had ended before is written down."""
        writer = self.writers.pop(name)
        if writer.poll() is not None:
            self.deaths.append(f"{name} died: {(self._home / f'{name}.err').read_text()}")
        writer.kill()
        writer.wait()

    def choose(self, kill_time: KillTime) -> str:
        """Wait for such a time of some writer, and return its name."""
        end = time.monotonic() + KILL_WAIT_S_MAX
        while not (candidates := self._found_at(kill_time)) and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(self._chance.uniform(0, DELAY_S_MAX[kill_time]))
        # On a graph that no longer accepts writes that time never comes; the final check shows it.
        return self._chance.choice(candidates or sorted(self.writers))

    def _found_at(self, kill_time: KillTime) -> Sequence[str]:
        match kill_time:
            case KillTime.ANY:
                return sorted(self.writers)
            case KillTime.IN_CALL:
                ledgers = {name: self._home / f"{name}.ledger" for name in sorted(self.writers)}
                return [
                    name
                    for name, path in ledgers.items()
                    if path.read_text().rpartition("\n")[0].rpartition("\n")[2].startswith("intend")
                ]
            case KillTime.ARMED:
                found = (find_actor(self._root, name) for name in sidecars(self._root))
                return [name for name in found if name in self.writers]


def find_actor(root: Path, sidecar: str) -> str:
    """The actor of a sidecar; empty if it is deleted by now."""
    try:
        return str(json.loads((root / "__recovery" / sidecar).read_bytes())["actor_id"])
    except FileNotFoundError:
        return ""


def start(errors: Path, *arguments: object) -> subprocess.Popen[bytes]:
    """Run this module in a process of its own."""
    command = [sys.executable, "-m", "tests.support.soak", *map(str, arguments)]
    with errors.open("wb") as stream:
        return subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=stream)


@contextmanager
def at_work(root: Path, home: Path, chance: random.Random) -> Iterator[WriterPool]:
    """Writers and a reader, all of them gone at the end of the block."""
    pool = WriterPool(root, home, chance)
    reader = start(home / "reader.err", "read", root, home, chance.random())
    try:
        for _ in range(WRITERS):
            pool.add()
        yield pool
        for name in sorted(pool.writers):
            pool.kill(name)
        (home / "stop").touch()
        if reader.wait(WAIT_S_MAX):
            pool.deaths.append(f"the reader died: {(home / 'reader.err').read_text()}")
    finally:
        for child in (reader, *pool.writers.values()):
            child.kill()
            child.wait()


def run_story(folder: Path, *, seed: int, kills_min: int, seconds: float) -> Report:
    """Write, read and kill for so long and so often, then look at what is left."""
    try:
        return _run_kills(folder, random.Random(seed), seed, kills_min, seconds)
    except (GraphError, AssertionError) as error:
        error.add_note(f"seed {seed}, in {folder}")
        raise


def _run_kills(
    folder: Path, chance: random.Random, seed: int, kills_min: int, seconds: float
) -> Report:
    """The story itself."""
    root, home = folder / "graph", folder / "ledgers"
    home.mkdir()
    seats = [node("Person", name=f"seat{number}", mark=SEATED) for number in range(SEATS)]
    build_graph(root, SCHEMA, *seats).close()
    kills: Counter[str] = Counter()
    kill_times = chance.sample(list(KillTime), len(KillTime))
    with at_work(root, home, chance) as pool:
        pool.wait_until_all_write()
        end = time.monotonic() + seconds
        while kills.total() < kills_min or time.monotonic() < end:
            # Often no pause at all, so that a writer that recovers from one kill dies of another.
            time.sleep(chance.choice([0.0, chance.uniform(0, PAUSE_S_MAX)]))
            kill_time = kill_times[kills.total() % len(kill_times)]
            pool.kill(pool.choose(kill_time))
            pool.add()
            kills[str(kill_time)] += 1
    seen = home / "seen.json"
    snapshots, flaws = json.loads(seen.read_text()).values() if seen.exists() else (0, [])
    entries = read_ledgers(home)
    with omnigraph.open(str(root)) as graph:
        return Report(
            seed=seed,
            kills=kills,
            endings=Counter(ending_of(entry) for entry in entries),
            recoveries=Counter(str(each.kind) for each in graph.recoveries()),
            snapshots=snapshots,
            strays=len(list((root / "__recovery").glob("#*"))),
            flaws=[*pool.deaths, *flaws, *find_broken_promises(graph, root, entries)],
        )


def main() -> None:
    """Be a writer, be a reader, or tell the story again and again."""
    match sys.argv[1:]:
        case ["write", root, ledger, seed]:
            write_until_killed(root, ledger, seed)
        case ["read", root, folder, seed]:
            read_until_stopped(root, folder, seed)
        case ["soak", seconds]:
            soak(float(seconds))
        case ["server", seconds]:
            soak_servers(float(seconds))
        case _:
            raise SystemExit("soak SECONDS, or server SECONDS")


def soak(seconds: float) -> None:
    """Tell the story on one new graph after the other; stop at the first flaw and keep it.

    Given some minutes, rounds of bulk loads take turns with it.
    """
    end = time.monotonic() + seconds
    seed = random.randrange(1_000_000)
    bulk: list[Ending] = []
    while time.monotonic() < end:
        with keep_if_flawed(seed) as folder:
            report = run_story(folder, seed=seed, kills_min=1, seconds=min(ROUND_S, seconds))
            sys.stdout.write(f"{report}\n")
            if report.flaws:
                raise SystemExit("\n".join(report.flaws))
        if seconds >= BULK_S_MIN and time.monotonic() < end:
            with keep_if_flawed(seed) as folder:
                left_s = min(BULK_ROUND_S, end - time.monotonic())
                ordeal = run_ordeal(folder, seed=seed, kills_min=1, seconds=left_s)
                sys.stdout.write(f"bulk loads, {ordeal}\n")
                bulk += ordeal.endings
        seed += 1
    if bulk:
        sys.stdout.write(f"bulk loads in all: {sum_up_kills(bulk)}\n")


def soak_servers(seconds: float) -> None:
    """Many clients of one server and of two, in peace and with kills, until a flaw is found."""
    end = time.monotonic() + seconds
    seed = random.randrange(1_000_000)
    rounds = cycle(((1, 0), (1, 4), (2, 0), (2, 4)))
    while time.monotonic() < end:
        servers, kills = next(rounds)
        with keep_if_flawed(seed) as folder:
            report = run_server_story(
                folder,
                seed=seed,
                servers=servers,
                workers=1,
                kills=kills,
                requests=None,
                seconds=min(SERVER_ROUND_S, seconds),
            )
            sys.stdout.write(f"{report}\n")
            if report.flaws:
                raise SystemExit("\n".join(report.flaws))
        seed += 1


@contextmanager
def keep_if_flawed(seed: int) -> Iterator[Path]:
    """A folder for one round, which stays if the round ends badly."""
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-soak-"))
    sys.stdout.write(f"seed {seed} in {folder}\n")
    yield folder
    sys.stdout.flush()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
