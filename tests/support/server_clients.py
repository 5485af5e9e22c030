"""Many clients of one or two servers, each writing and reading in turn, and every flaw they saw.

Each client has a writer's name and numbers its writes. A write changes several types at once, so
that half of one would show: it raises two counters by the same step, and most writes also add a
pair of nodes and the bond between them. What was acknowledged to one client, every client must see
from then on. A write whose response was lost is retried under its key until there is a response.

Run as a program this reads a plan and writes a report; it knows servers by their addresses only.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import httpx

from tests.support.graphs import Record, edge, node

SCHEMA = """
node Left { name: String @key  writer: String @index  stamp: I64 }
node Right { name: String @key  writer: String  stamp: I64 }
node Count { writer: String @key  turn: I64  made: I64 }
node Mirror { writer: String @key  turn: I64 }
edge Bond: Left -> Right { stamp: I64 }
"""
MAKE = """query make($name: String, $writer: String, $turn: I64, $made: I64) {
  insert Left { name: $name, writer: $writer, stamp: $turn }
  insert Right { name: $name, writer: $writer, stamp: $turn }
  insert Bond { from: $name, to: $name, stamp: $turn }
  insert Count { writer: $writer, turn: $turn, made: $made }
  insert Mirror { writer: $writer, turn: $turn }
}"""
TOUCH = """query touch($name: String, $writer: String, $turn: I64) {
  update Left set { stamp: $turn } where name = $name
  update Right set { stamp: $turn } where name = $name
  update Count set { turn: $turn } where writer = $writer
  update Mirror set { turn: $turn } where writer = $writer
}"""
LOOK = """query look($writer: String) {
  match { $c: Count { writer: $writer }  $m: Mirror { writer: $writer } }
  return { $c.turn as turn, $c.made as made, $m.turn as mirror }
}"""
BONDS = """query bonds($writer: String) {
  match { $l: Left { writer: $writer }  $l bond $r }
  return { count($r) as found }
}"""

ATTEMPTS_MAX = 400
WAIT_S_MAX = 1.0
RESPONSE_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Who is asked how often: so many times, refusals not counted, or until a file appears.

    `pids` are the servers' own, for their memory; it is looked at after the first `warm` times and
    at the end.
    """

    urls: Sequence[str]
    clients: int
    seed: int
    requests: int | None
    stop: str
    pids: Sequence[int]
    warmup: int
    tokens: Sequence[str]


@dataclass(slots=True)
class Ledger:
    """The responses to all clients, and the flaws that they found."""

    acknowledged: Counter[str] = field(default_factory=Counter)
    intended: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    commits: list[str] = field(default_factory=list)
    responses: Counter[str] = field(default_factory=Counter)
    flaws: list[str] = field(default_factory=list)
    baseline_bytes: list[int] = field(default_factory=list)
    end_bytes: list[int] = field(default_factory=list)
    acts: int = 0

    def to_json(self) -> str:
        """The ledger as text."""
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)})

    def floor(self, writer: str) -> int:
        """The turn that every read must show which begins from now on."""
        return max(self.acknowledged[writer], self.seen[writer])


def writer_names(count: int) -> Sequence[str]:
    """The clients' names."""
    return [f"c{number}" for number in range(count)]


def first_rows(clients: int) -> Iterator[Record]:
    """What the graph holds before the first client writes."""
    for writer in writer_names(clients):
        yield node("Count", writer=writer, turn=0, made=0)
        yield node("Mirror", writer=writer, turn=0)


# What must be true of all rows


def find_row_flaws(
    records: Iterable[Mapping[str, object]], *, floors: Mapping[str, int]
) -> Iterator[str]:
    """Everything that no state of the graph may show, in the lines of an export."""
    rows: dict[str, dict[str, dict[str, object]]] = defaultdict(dict)
    bonds: Counter[str] = Counter()
    for record in records:
        values = record["data"]
        assert isinstance(values, dict)
        if "edge" in record:
            bonds[f"{record['from']} {record['to']}"] += 1
        else:
            rows[str(record["type"])][str(values["id"])] = values
    for name in rows["Left"].keys() | rows["Right"].keys():
        if rows["Left"].get(name) != rows["Right"].get(name):
            yield f"half of a pair: {rows['Left'].get(name)}, {rows['Right'].get(name)}"
    wanted = Counter(f"{name} {name}" for name in rows["Left"])
    if bonds != wanted:
        yield f"bonds too many {bonds - wanted}, too few {wanted - bonds}"
    made = Counter(str(row["writer"]) for row in rows["Left"].values())
    for writer, count in rows["Count"].items():
        mirror = rows["Mirror"][writer]
        yield from find_look_flaws(
            writer,
            {"turn": count["turn"], "mirror": mirror["turn"], "made": count["made"]},
            floor=floors[writer],
        )
        if made[writer] != count["made"]:
            yield f"{writer} says {count['made']} pairs and has {made[writer]}"


def find_look_flaws(writer: str, row: Mapping[str, object], *, floor: int) -> Iterator[str]:
    """What is wrong with one writer's counters."""
    turn = row["turn"]
    assert isinstance(turn, int)
    if turn != row["mirror"]:
        yield f"{writer} is at {turn} and its mirror at {row['mirror']}"
    if turn < floor:
        yield f"{writer} is at {turn} although {floor} was acknowledged before"


# One client


class Client:
    """One writer and reader; it keeps no connection to a server that went away."""

    def __init__(self, name: str, plan: Plan, ledger: Ledger, http: httpx.AsyncClient) -> None:
        self._name, self._plan, self._ledger, self._http = name, plan, ledger, http
        self._chance = random.Random(f"{plan.seed} {name}")
        self._turn, self._made = 0, 0

    async def run(self) -> None:
        """Write and read until the plan is fulfilled."""
        while not self._is_over():
            try:
                await self._act()
            except httpx.TransportError as error:
                # A read that lost its server; it is safe to repeat.
                self._ledger.responses[f"lost {type(error).__name__}"] += 1
                await self._pause()

    def _is_over(self) -> bool:
        if self._plan.requests is not None and self._ledger.acts >= self._plan.requests:
            return True
        return Path(self._plan.stop).exists()

    async def _act(self) -> None:
        self._ledger.acts += 1
        if self._ledger.acts == self._plan.warmup:
            self._ledger.baseline_bytes = [resident_bytes(pid) for pid in self._plan.pids]
        draw = self._chance.random()
        if draw < 0.10:
            await self._make()
        elif draw < 0.13 and self._made:
            await self._touch()
        elif draw < 0.17:
            await self._export()
        elif draw < 0.20:
            await self._look_at_history()
        else:
            await self._look()

    # Writing

    async def _make(self) -> None:
        """One more pair, by a mutation or by a load."""
        name, turn, made = f"{self._name}.{self._made}", self._turn + 1, self._made + 1
        if self._chance.random() < 0.7:
            given = {"name": name, "writer": self._name, "turn": turn, "made": made}
            route, body = "mutate", {"query": MAKE, "params": given}
        else:
            rows = (
                node("Left", name=name, writer=self._name, stamp=turn),
                node("Right", name=name, writer=self._name, stamp=turn),
                edge("Bond", name, name, stamp=turn),
                node("Count", writer=self._name, turn=turn, made=made),
                node("Mirror", writer=self._name, turn=turn),
            )
            lines = "".join(f"{json.dumps(row)}\n" for row in rows)
            route, body = "load", {"data": lines, "mode": "merge"}
        if await self._land(route, body, turn):
            self._made = made

    async def _touch(self) -> None:
        """A new stamp for an old pair."""
        name, turn = f"{self._name}.{self._chance.randrange(self._made)}", self._turn + 1
        given = {"name": name, "writer": self._name, "turn": turn}
        await self._land("mutate", {"query": TOUCH, "params": given}, turn)

    async def _land(self, route: str, body: Mapping[str, object], turn: int) -> bool:
        """Send a write until it is acknowledged, always as the same request."""
        self._ledger.intended[self._name] = turn
        key = f"{self._plan.seed}-{self._name}-{turn}"
        for _ in range(ATTEMPTS_MAX):
            try:
                response = await self._post(route, body, {"Idempotency-Key": key})
            except httpx.TransportError as error:
                self._ledger.responses[f"lost {type(error).__name__}"] += 1
                await self._pause()
                continue
            match response.status_code:
                case 200:
                    self._turn = turn
                    self._ledger.acknowledged[self._name] = turn
                    self._ledger.commits.append(response.json()["commit_id"])
                    return True
                case 409 | 429 | 503:
                    await self._pause()
                case _:
                    self._ledger.flaws.append(
                        f"{route} got {response.status_code}: {response.text}"
                    )
                    return False
        self._ledger.flaws.append(f"{self._name}: turn {turn} never landed")
        return False

    # Reading

    async def _look(self) -> None:
        """Some writer's counters, and sometimes its bonds in the very same state."""
        writer = self._chance.choice(writer_names(self._plan.clients))
        floor = self._ledger.floor(writer)
        body = {"query": LOOK, "params": {"writer": writer}}
        response = await self._post("query", body, {})
        if response.status_code != 200:
            return
        (row,) = response.json()["rows"]
        ledger = self._ledger
        ledger.flaws.extend(find_look_flaws(writer, row, floor=floor))
        if row["turn"] > ledger.intended[writer]:
            ledger.flaws.append(f"{writer} is at {row['turn']}, which no client has written")
        ledger.seen[writer] = max(ledger.seen[writer], row["turn"])
        if self._chance.random() < 0.3:
            await self._count_bonds(writer, row["made"], response.json()["commit_id"])

    async def _count_bonds(self, writer: str, made: int, commit_id: str) -> None:
        body = {"query": BONDS, "params": {"writer": writer}, "snapshot": commit_id}
        response = await self._post("query", body, {})
        if response.status_code == 200 and response.json()["rows"] != [{"found": made}]:
            self._ledger.flaws.append(
                f"{writer} had made {made} at {commit_id}: {response.json()['rows']}"
            )

    async def _export(self) -> None:
        """Everything, as one state."""
        floors = {name: self._ledger.floor(name) for name in writer_names(self._plan.clients)}
        response = await self._post("export", {}, {})
        if response.status_code == 200:
            records = [json.loads(line) for line in response.text.splitlines()]
            self._ledger.flaws.extend(find_row_flaws(records, floors=floors))

    async def _look_at_history(self) -> None:
        """Every acknowledged commit is in the history, once."""
        reported = set(self._ledger.commits)
        response = await self._send("GET", "commits?branch=main", None, {})
        if response.status_code != 200:
            return
        listed = Counter(each["graph_commit_id"] for each in response.json()["commits"])
        for commit_id in reported - listed.keys():
            self._ledger.flaws.append(f"commit {commit_id} is not in the history")
        for commit_id, count in listed.items():
            if count > 1:
                self._ledger.flaws.append(f"commit {commit_id} is there {count} times")

    # Asking

    async def _post(
        self, route: str, body: Mapping[str, object], headers: Mapping[str, str]
    ) -> httpx.Response:
        return await self._send("POST", route, body, headers)

    async def _send(
        self, method: str, route: str, body: Mapping[str, object] | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        url = f"{self._chance.choice(self._plan.urls)}/graphs/default/{route}"
        response = await self._http.request(method, url, json=body, headers=dict(headers))
        self._ledger.responses[f"{route.partition('?')[0]} {response.status_code}"] += 1
        if response.status_code >= 500 and response.status_code != 503:
            self._ledger.flaws.append(f"{method} {url} got {response.status_code}: {response.text}")
        return response

    async def _pause(self) -> None:
        await asyncio.sleep(self._chance.uniform(0, WAIT_S_MAX))


def resident_bytes(pid: int) -> int:
    """How much memory a process holds now."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = (each for each in status.splitlines() if each.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


async def run_clients(plan: Plan) -> Ledger:
    """Let all clients work side by side; their responses and the flaws that they found."""
    ledger = Ledger()
    async with asyncio.TaskGroup() as group:
        for number, name in enumerate(writer_names(plan.clients)):
            group.create_task(_run_client(name, number, plan, ledger))
    ledger.end_bytes = [resident_bytes(pid) for pid in plan.pids]
    return ledger


async def _run_client(name: str, number: int, plan: Plan, ledger: Ledger) -> None:
    token = plan.tokens[number % len(plan.tokens)] if plan.tokens else None
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(timeout=RESPONSE_S_MAX, headers=headers) as http:
        await Client(name, plan, ledger, http).run()


def main() -> None:
    """Read a plan, run it, write the report."""
    plan_path, report_path = map(Path, sys.argv[1:])
    plan = Plan(**json.loads(plan_path.read_text(encoding="utf-8")))
    ledger = asyncio.run(run_clients(plan))
    report_path.write_text(ledger.to_json(), encoding="utf-8")


if __name__ == "__main__":
    main()
