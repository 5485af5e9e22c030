"""One graph with a server in front of it: opened by its uri and reached through the server.

Both handles are of the same store, so every call has the same result on both. Tests that write work
on branches of their own.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph
from omnigraph import Graph, RemoteGraph
from omnigraph.client.remote import AnyGraph
from tests.support.graphs import build_graph, edge, node
from tests.support.servers import Server, serving

EVERYTHING = """
node Thing {
    name: String @key
    flag: Bool?
    small: I32? @range(small, 0..100)
    big: I64?
    unsigned: U32?
    huge: U64?
    half: F32?
    full: F64?
    day: Date?
    moment: DateTime?
    words: [String]?
    numbers: [I64]?
    place: Vector(3)?
    picture: Blob?
    color: enum(green, red)?
    email: String? @unique
}
node Note { text: String }
edge Near: Thing -> Thing { since: Date? weight: F64? }
"""

PICTURE = bytes(range(256)) * 40

ALL_THINGS = """
query things() {
    match { $t: Thing }
    return {
        $t.name, $t.flag, $t.small, $t.big, $t.unsigned, $t.huge, $t.half, $t.full, $t.day,
        $t.moment, $t.words, $t.numbers, $t.place, $t.color
    }
    order { $t.name }
}
"""
FIND_THING = """
query find($name: String) {
    match { $t: Thing { name: $name } }
    return { $t.name, $t.small, $t.big }
}
"""
NAMES = "query names() { match { $t: Thing } return { $t.name } order { $t.name } }"
ADD_THING = """
query add($name: String, $small: I32?) { insert Thing { name: $name, small: $small } }
"""
SET_SMALL = """
query set_small($name: String, $small: I32) {
    update Thing set { small: $small } where name = $name
}
"""
SET_BIG = """
query set_big($name: String, $big: I64) { update Thing set { big: $big } where name = $name }
"""
DROP_THING = "query drop($name: String) { delete Thing where name = $name }"

_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Both:
    """The two ways to one graph."""

    embedded: Graph
    remote: RemoteGraph
    server: Server

    def find(self, kind: str) -> AnyGraph:
        """One of them by its name."""
        return self.embedded if kind == "embedded" else self.remote


@contextmanager
def both_graphs(folder: Path) -> Iterator[Both]:
    """A graph with a value of every kind, opened here and served by a process."""
    store = folder / "graph"
    _build(store)
    arguments = ("--store", str(store), "--unauthenticated", "--queries", str(_queries(folder)))
    with (
        serving(folder, *arguments) as server,
        omnigraph.open(store, durability="relaxed") as embedded,
        omnigraph.connect(server.url) as remote,
    ):
        yield Both(embedded, remote, server)


def fresh_branch(graph: AnyGraph, base: str = "main") -> str:
    """A new branch that no other test uses."""
    name = f"work/{next(_NUMBERS)}"
    graph.create_branch(name, base=base)
    return name


def names_on(graph: AnyGraph, branch: str) -> list[object]:
    """The names of the things on a branch."""
    return [row["t.name"] for row in graph.query(NAMES, branch=branch)]


def lines(*texts: str) -> io.StringIO:
    """Lines of JSON as an open file."""
    return io.StringIO("".join(f"{text}\n" for text in texts))


def thing_rows(**columns: list[object]) -> pa.Table:
    """Rows of things for a mapping."""
    return pa.table(columns)


def _build(store: Path) -> None:
    with build_graph(
        store,
        EVERYTHING,
        node(
            "Thing",
            name="a",
            flag=True,
            small=1,
            big=2**63 - 1,
            unsigned=2**32 - 1,
            huge=2**64 - 1,
            half=0.1,
            full=0.1,
            day="2024-02-29",
            moment="2024-02-29T12:34:56.789Z",
            words=["x", "", "ü"],
            numbers=[-(2**63), 0],
            place=[0.5, -1.0, 2.0],
            color="red",
            email="a@x",
        ),
        node("Thing", name="b", big=-(2**63), words=[], day="0001-01-01", email="b@x"),
        node("Thing", name="ü/%?#& c", small=3),
        node("Note", text="keyless"),
        edge("Near", "a", "b", since="2020-01-01", weight=1.5),
        edge("Near", "b", "a"),
    ) as graph:
        graph.load({"Thing": _odd_rows()}, mode="append")


def _odd_rows() -> pa.Table:
    """What JSON has no words for: numbers that are not finite, and bytes."""
    return pa.table(
        {
            "name": ["nan", "inf"],
            "full": pa.array([float("nan"), float("inf")], pa.float64()),
            "half": pa.array([float("-inf"), float("nan")], pa.float32()),
            "place": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6, dtype=np.float32)), 3),
            "picture": pa.array([PICTURE, b""], pa.large_binary()),
        }
    )


def _queries(folder: Path) -> Path:
    file = folder / "stored.gq"
    file.write_text(f"{FIND_THING}\n{ADD_THING}", encoding="utf-8")
    return file
