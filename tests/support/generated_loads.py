"""Generated loads, with every kind of fault: one schema, and stories of what is loaded into it.

A story is made from a number alone: records to start from, and files or columns to load in some
mode. Stories without blemish fit the rules of the schema; the others break some here and there.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from itertools import pairwise
from math import nan
from random import Random

import pyarrow as pa

from tests.support.graphs import Record, edge, node

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  badge: String?
  email: String? @unique
  motto: String
  role: enum(admin, guest)?
  @range(age, 0..150)
  @check(badge, "^[A-Z]{2}[0-9]+$")
}
node Place { floor: I32  room: String  note: String?  @key(floor, room) }
node Note { text: String  rank: F64?  part: F32? @unique  day: Date?  @unique(text, rank) }
node Gauge {
  code: U64 @key
  flag: Bool?
  level: I64?
  small: U32?
  half: F32?
  whole: F64?
  day: Date?
  at: DateTime?
  face: Vector(2)?
  raw: Blob?
  words: [String]?
  bits: [Bool]?
  steps: [I64]?
  marks: [F32]?
  days: [Date]?
  kind: enum(a, b)?
}
edge Knows: Person -> Person { since: Date?  kind: enum(work, home)?  @unique(src, dst) }
edge Sits: Person -> Place @card(0..1)
edge Owns: Person -> Note @card(1..2) { weight: F64? @unique }
edge Cites: Note -> Note @card(2..3)
edge Reads: Person -> Gauge { at: DateTime? @unique  tags: [String]? }
"""

UNREADABLE: Sequence[bytes] = (
    b'{"type":"Person","data":{"name":"broken"',
    b'{"type":"Robot","data":{"name":"x"}}',
    b'{"type":"Person","data":{"name":"x","motto":"m","size":1}}',
    b'{"type":"Person","data":{"name":"x","motto":"m","age":2147483648}}',
    b'{"type":"Person","data":{"name":"x","motto":"m","age":"old"}}',
    b'{"type":"Person","data":{"motto":"m"}}',
    b'{"type":"Person","data":{"name":"x","id":"y","motto":"m"}}',
    b'{"type":"Person","data":{"name":"x","name":"y","motto":"m"}}',
    b'{"type":"Person","data":{"name":"\xff","motto":"m"}}',
    b'{"type":"Note","data":{"id":7,"text":"t"}}',
    b'{"type":"Gauge","data":{"code":-1}}',
    b'{"type":"Gauge","data":{"code":7,"face":[1]}}',
    b'{"type":"Gauge","data":{"code":7,"raw":"text"}}',
    b'{"type":"Gauge","data":{"code":7,"half":1e39}}',
    b'{"type":"Gauge","data":{"code":7,"at":"yesterday"}}',
    b'{"edge":"Knows","from":"p0"}',
    b'{"edge":"Knows","from":"p0","to":"p1","data":{"since":"soon"}}',
    b"[]",
    b"\xef\xbb\xbf{}",
)
"""Lines that no load can read."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ENDS = {
    "Knows": ("Person", "Person", 20),
    "Sits": ("Person", "Place", 1),
    "Owns": ("Person", "Note", 2),
    "Cites": ("Note", "Note", 3),
    "Reads": ("Person", "Gauge", 20),
}
"""Where edges start and end, and how many of them may start at one node."""

_UNFIT = (
    node("Person", name="unfit", motto="m", age=2**31),
    node("Person", name=None, motto="m"),
)
_ARROW_TYPES = {
    "age": pa.int64(),
    "floor": pa.int32(),
    "rank": pa.float64(),
    "part": pa.float32(),
    "weight": pa.float64(),
    "day": pa.date32(),
    "since": pa.date32(),
    "at": pa.timestamp("ms", "UTC"),
    "code": pa.int64(),
    "flag": pa.bool_(),
    "level": pa.int64(),
    "small": pa.int64(),
    "half": pa.float32(),
    "whole": pa.float64(),
    "face": pa.list_(pa.float32()),
    "raw": pa.binary(),
    "words": pa.list_(pa.string()),
    "bits": pa.list_(pa.bool_()),
    "steps": pa.list_(pa.int64()),
    "marks": pa.list_(pa.float32()),
    "days": pa.list_(pa.date32()),
    "tags": pa.list_(pa.string()),
}
_TYPES = ("Person", "Person", "Place", "Note", "Gauge", "Knows", "Sits", "Owns", "Cites", "Reads")
_FIRST = ("Person", "Person", "Person", "Place", "Place", "Note", "Note", "Note", "Gauge", "Gauge")


class Blemish(StrEnum):
    """What is wrong with a story."""

    NOTHING = "nothing"
    RULES = "rules"
    EXISTING = "existing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class LoadStory:
    """Records that a graph starts with, and such as are loaded into it, in files or by type."""

    first: Sequence[Record]
    records: Sequence[Record]
    files: Sequence[bytes]


def make_story(seed: int, *, mode: str, blemish: Blemish) -> LoadStory:
    """The story of a number; the same number gives the same story."""
    random = Random(f"{seed} {mode} {blemish}")
    known = _Known()
    before = _Writer(random, known, mode="append", blemish=Blemish.NOTHING)
    first = [*before.write_each(_FIRST * 2), *before.write_some(25)]
    if mode == "overwrite":
        # A source that stays while its edges go may be left with too few of them.
        known = _Known(count=0 if blemish is Blemish.RULES else known.count)
    writer = _Writer(random, known, mode=mode, blemish=blemish)
    records = [*writer.write_each(_FIRST), *writer.write_some(random.randint(20, 60))]
    if mode == "overwrite":
        records += writer.write_each(tuple(_ENDS))
    random.shuffle(records)
    lines = [json.dumps(record).encode() for record in records]
    if blemish is Blemish.UNREADABLE:
        for _ in range(random.randint(1, 3)):
            lines.insert(random.randrange(len(lines)), random.choice(UNREADABLE))
    for _ in range(random.randint(0, 6)):
        lines.insert(random.randrange(len(lines)), random.choice([b"", b"  ", b"\r"]))
    return LoadStory(first, records, tuple(_cut(lines, random)))


def make_tables(records: Sequence[Record], *, is_fit: bool) -> dict[str, pa.Table]:
    """The records by type, as columns; unless `is_fit`, with some that no load takes."""
    rows_by_type: dict[str, list[dict[str, object]]] = {}
    invalid_value = () if is_fit else _UNFIT
    for record in (*records[:-4], *invalid_value, *records[-4:]):
        properties = record["data"]
        assert isinstance(properties, Mapping)
        row = dict(properties)
        if "edge" in record:
            row |= {"src": record["from"], "dst": record["to"]}
        name = str(record.get("type", record.get("edge")))
        rows_by_type.setdefault(name, []).append(row)
    return {name: _make_table(rows) for name, rows in rows_by_type.items()}


def _make_table(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _make_column(name, [row.get(name) for row in rows]) for name in names})


def _make_column(name: str, values: Sequence[object]) -> pa.Array:
    wanted = _ARROW_TYPES.get(name, pa.string())
    return pa.array([_plain_value(value, wanted) for value in values], wanted)


def _plain_value(value: object, wanted: pa.DataType) -> object:
    """A value of a record as Arrow takes it."""
    if isinstance(value, list):
        return [_plain_value(each, wanted.value_type) for each in value]
    if isinstance(value, str) and pa.types.is_date(wanted):
        return date.fromisoformat(value)  # which reads both spellings
    if isinstance(value, str) and pa.types.is_timestamp(wanted):
        return datetime.fromisoformat(value)
    if isinstance(value, str) and pa.types.is_binary(wanted):
        return b64decode(value.removeprefix("base64:"))
    # Columns can say what a record cannot.
    return nan if value == 2 and pa.types.is_floating(wanted) else value


def _cut(lines: Sequence[bytes], random: Random) -> Iterator[bytes]:
    count = random.randint(1, 3)
    borders = [0, *sorted(random.sample(range(1, len(lines)), count - 1)), len(lines)]
    for start, end in pairwise(borders):
        mark = _BYTE_ORDER_MARK if random.random() < 0.2 else b""
        break_ = random.choice([b"\n", b"\n", b"\r\n"])
        last = random.choice([b"", break_])
        yield mark + break_.join(lines[start:end]) + last


# Records


@dataclass(slots=True)
class _Known:
    """The nodes that there are by type, the edges by type and source, and the ids of edges."""

    nodes: dict[str, list[str]] = field(default_factory=dict)
    targets: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    edges: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    count: int = 0


class _Writer:
    """Writes records that fit what is known so far, but for blemishes."""

    def __init__(self, random: Random, known: _Known, *, mode: str, blemish: Blemish) -> None:
        self.known = known
        self._random, self._mode, self._blemish = random, mode, blemish
        self._committed = {name: list(ids) for name, ids in known.nodes.items()}
        self._new: dict[str, list[str]] = {}

    def write_each(self, names: Sequence[str]) -> list[Record]:
        """Records of these types."""
        return [record for name in names for record in self._write(name)]

    def write_some(self, count: int) -> list[Record]:
        """Records of any types, about so many."""
        return self.write_each([self._random.choice(_TYPES) for _ in range(count)])

    def _write(self, name: str) -> Iterator[Record]:
        write_node = {
            "Person": self._person,
            "Place": self._place,
            "Note": self._note,
            "Gauge": self._gauge,
        }
        if name in write_node:
            yield write_node[name]()
        else:
            yield from self._edges(name, *_ENDS[name])

    # Nodes

    def _person(self) -> Record:
        name = self._id("Person", "p")
        properties = {
            "name": name,
            "motto": self._random.choice(["m", "", "ü 漢", 'say "hi"', "two\nlines"]),
            "age": self._one([None, 0, 40, 150], faulty=[151, -1]),
            "badge": self._one([None, "AB1", "CD22"], faulty=["ab1", ""]),
            "email": self._one([None, f"{name}@x"], faulty=["same@x"]),
            "role": self._one([None, "admin", "guest"], faulty=["root", "Admin"]),
        }
        if self._is_faulty():
            del properties["motto"]
        return node("Person", **self._some(properties, {"name", "motto"}))

    def _place(self) -> Record:
        id = self._id("Place", "l")
        floor, room = json.loads(id)
        note = self._random.choice([None, "", "it's"])
        return node("Place", floor=int(floor), room=room, note=note)

    def _note(self) -> Record:
        number = self._count()
        properties: dict[str, object] = {
            "text": f"t{number}" if not self._is_faulty() else "same",
            "rank": self._one([None, number / 4], faulty=[0.0, -0.0, 2]),
            "part": self._one([None, number + 0.5], faulty=[0.0, -0.0, 2]),
            "day": self._random.choice([None, "2024-06-01", "1970-01-01", "1969-12-31"]),
        }
        # The generator does not know nodes whose ids are generated by the graph.
        if self._random.random() < 0.7:
            properties["id"] = self._id("Note", "n")
        return node("Note", **properties)

    def _gauge(self) -> Record:
        properties = {
            "code": int(self._id("Gauge", "g")),
            "flag": self._random.choice([True, False, None]),
            "level": self._random.choice([2**53 + 1, -(2**63), 2**63 - 1, 0, None]),
            "small": self._random.choice([0, 2**32 - 1, None]),
            "half": self._random.choice([0.1, -0.0, 1e-45, 3.4e38, 7, None]),
            "whole": self._random.choice([0.1, -0.0, 5e-324, 1e308, 7, None]),
            "day": self._random.choice(["0001-01-01", "9999-12-31", "20240601", None]),
            "at": self._random.choice(["2024-06-01T12:00:00.25+02:00", -1, 0, None]),
            "face": self._random.choice([[0.5, 1], [-0.0, 1e-3], None]),
            "raw": self._random.choice(["base64:AAEC", "base64:", None]),
            "words": self._random.choice([["a", "ü"], [], None]),
            "bits": self._random.choice([[True, False], [], None]),
            "steps": self._random.choice([[1, -(2**63)], [], None]),
            "marks": self._random.choice([[0.1], [], None]),
            "days": self._random.choice([["2024-06-01", "1970-01-04"], [], None]),
            "kind": self._one(["a", "b", None], faulty=["c"]),
        }
        return node("Gauge", **self._some(properties, {"code"}))

    # Edges

    def _edges(self, name: str, source: str, target: str, most: int) -> Iterator[Record]:
        if self._mode == "merge" and self._random.random() < 0.4 and self.known.edges.get(name):
            id, start, end = self._random.choice(self.known.edges[name])
            yield edge(name, start, end, id=id, **self._edge_properties(name))
            return
        sources = self._free_sources(name, source, most=most)
        if not sources or len(self.known.nodes.get(target, ())) < 2:
            return
        start = self._random.choice(sources)
        # A source of an edge type that requires two edges has two.
        wanted = 2 if most == 3 and not self.known.targets.get((name, start)) else 1
        for _ in range(1 if self._is_faulty() else wanted):
            yield self._edge(name, start, target)

    def _edge(self, name: str, start: str, target: str) -> Record:
        taken = self.known.targets.setdefault((name, start), [])
        free = [each for each in self.known.nodes[target] if each not in taken]
        end = self._random.choice(free or self.known.nodes[target])
        taken.append(end)
        properties = self._edge_properties(name)
        if self._random.random() < 0.5:
            properties["id"] = f"e{self._count()}"
            self.known.edges.setdefault(name, []).append((str(properties["id"]), start, end))
            if self._is_faulty() and self._mode != "merge":
                properties["id"] = "e"
        if self._is_faulty():
            end = self._random.choice(["absent", "", end.upper()])
        if self._is_faulty():
            start = self._random.choice(["absent", "p0"])
        return edge(name, start, end, **properties)

    def _edge_properties(self, name: str) -> dict[str, object]:
        match name:
            case "Knows":
                kind = self._one([None, "work", "home"], faulty=["play"])
                return {
                    "since": self._random.choice([None, "1969-12-31", "2020-02-29"]),
                    "kind": kind,
                }
            case "Owns":
                return {"weight": self._one([None, self._count() / 8], faulty=[0.0, -0.0, 2])}
            case "Reads":
                at = self._one([None, self._count()], faulty=["1970-01-01T00:00:00Z", 0])
                return {"at": at, "tags": self._random.choice([None, [], ["x", ""]])}
            case _:
                return {}

    def _free_sources(self, name: str, source: str, *, most: int) -> list[str]:
        if self._is_faulty():
            return self.known.nodes.get(source, [])
        return [
            each
            for each in self.known.nodes.get(source, ())
            if len(self.known.targets.get((name, each), ())) < most
        ]

    # Choices

    def _id(self, name: str, prefix: str) -> str:
        known = self.known.nodes.setdefault(name, [])
        found = self._find_met(name, known)
        if found is not None:
            return found
        number = self._count()
        match prefix:
            case "l":
                id = json.dumps([str(number % 3), f"r{number}"], separators=(",", ":"))
            case "g":
                id = str(number)
            case _:
                id = f"{prefix}{number}"
        known.append(id)
        self._new.setdefault(name, []).append(id)
        return id

    def _find_met(self, name: str, known: Sequence[str]) -> str | None:
        """An id that another row has, if it is time for one."""
        committed = self._committed.get(name, [])
        if self._mode == "merge" and self._random.random() < 0.4:
            if name == "Note" and known:
                return self._random.choice(known)
            if committed:
                # A key that comes twice in one load is a fault, if others have it or not.
                return committed.pop(self._random.randrange(len(committed)))
        if self._blemish is Blemish.EXISTING and committed and self._random.random() < 0.1:
            return self._random.choice(committed)
        if self._is_faulty() and self._new.get(name):
            return self._random.choice(self._new[name])
        return None

    def _is_faulty(self) -> bool:
        rate = {Blemish.RULES: 0.07, Blemish.UNREADABLE: 0.02, Blemish.EXISTING: 0.02}
        return self._random.random() < rate.get(self._blemish, 0)

    def _one(self, values: Sequence[object], *, faulty: Sequence[object]) -> object:
        return self._random.choice(faulty if self._is_faulty() else values)

    def _some(self, properties: Mapping[str, object], needed: set[str]) -> dict[str, object]:
        """The properties without some that are null anyway."""
        return {
            name: value
            for name, value in properties.items()
            if value is not None or name in needed or self._random.random() < 0.5
        }

    def _count(self) -> int:
        self.known.count += 1
        return self.known.count
