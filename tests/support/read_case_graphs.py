"""The graphs of the cases of the language, as plain values: fleet, gauges, memos and others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime

from omnigraph.compiler.ir import Value
from tests.support.queries import read_schema
from tests.support.read_graphs import PlainGraph, plain_graph


def edges(*ends: str) -> list[Mapping[str, Value]]:
    """Edges without properties, each written `source>target`."""
    pairs = (each.split(">") for each in ends)
    return [{"src": source, "dst": target} for source, target in pairs]


_PILOTS: list[Mapping[str, Value]] = [
    {"handle": "ada", "hours": 410},
    {"handle": "ben", "hours": 330},
    {"handle": "cyd"},
    {"handle": "dax", "hours": 330},
    {"handle": "eve", "hours": 120},
]
_SHIPS: list[Mapping[str, Value]] = [
    {"reg": "S1", "tons": 120.5},
    {"reg": "S2", "tons": 80.0},
    {"reg": "S3"},
]
_MENTORS = edges("ada>ben", "ada>cyd", "ben>dax", "dax>eve")
_FLIES = edges("ada>S1", "ben>S2", "dax>S2")


def fleet(
    *,
    mentors: Sequence[Mapping[str, Value]] = (),
    flies: Sequence[Mapping[str, Value]] = (),
) -> PlainGraph:
    """The fleet, with more edges than usual."""
    return plain_graph(
        read_schema("fleet"),
        {
            "Pilot": _PILOTS,
            "Ship": _SHIPS,
            "Mentors": [*_MENTORS, *mentors],
            "Flies": [*_FLIES, *flies],
        },
    )


FLEET = fleet()
GAUGE = plain_graph(
    read_schema("gauge"),
    {
        "Gauge": [
            {
                "code": "g1", "f": 2.5, "g": 0.1, "i": 1, "l": 9007199254740993, "u": 7, "w": 12,
                "on": True, "day": date(2024, 6, 1), "at": datetime(2024, 6, 1, 12, tzinfo=UTC),
                "tags": ("x", "y"), "nums": (1, 2), "v": (0.25, -1.0), "kind": "hot",
            },
            {
                "code": "g2", "f": 1.0, "g": 0.25, "i": 2, "on": False, "day": date(2023, 1, 1),
                "at": datetime(2023, 1, 1, tzinfo=UTC), "tags": ("y",), "kind": "cold",
            },
            {
                "code": "g3", "f": 3.0, "g": 0.75, "i": 3, "on": True, "day": date(2025, 1, 1),
                "at": datetime(2025, 1, 1, tzinfo=UTC), "tags": (),
            },
            {"code": "g4"},
        ]
    },
)  # fmt: skip
MEMO = plain_graph(
    read_schema("memo"),
    {
        "Memo": [
            {
                "slug": "m1", "head": "Solar panel audit", "body": "inverters checked twice",
                "emb": (0.0, 0.0), "team": "ops",
            },
            {
                "slug": "m2", "head": "Wind turbine audit", "body": "blades inspected",
                "emb": (1.0, 0.0), "team": "ops",
            },
            {
                "slug": "m3", "head": "Solar forecast", "body": "panel output rises",
                "emb": (0.0, 3.0), "team": "lab",
            },
            {"slug": "m4", "head": "Budget", "body": "quarterly numbers", "team": "lab"},
        ]
    },
)  # fmt: skip


def ring(*ends: str) -> PlainGraph:
    """Pilots who mentor each other as written, and nothing else."""
    names = dict.fromkeys(name for each in ends for name in each.split(">"))
    pilots: list[Mapping[str, Value]] = [{"handle": name} for name in names]
    return plain_graph(read_schema("fleet"), {"Pilot": pilots, "Mentors": edges(*ends)})


CAMEL = plain_graph(
    "node D { slug: String @key  repoName: String @index }",
    {"D": [{"slug": "d1", "repoName": "acme"}, {"slug": "d2", "repoName": "globex"}]},
)
PREFIXES = plain_graph("node P { handle: String @key }", {"P": [{"handle": "ab"}, {"handle": "a"}]})
NAMESAKES = plain_graph(
    "node Person { name: String @key }\nnode Company { name: String @key }\n"
    "edge WorksAt: Person -> Company",
    {
        "Person": [{"name": "al"}, {"name": "sh"}],
        "Company": [{"name": "sh"}, {"name": "ot"}],
        "WorksAt": edges("al>sh", "sh>ot"),
    },
)
DATED = fleet(
    mentors=[
        {"src": "ada", "dst": "ben", "since": date(2020, 5, 1)},
        {"src": "ada", "dst": "eve", "since": date(2024, 11, 30)},
    ]
)
STALE = plain_graph(
    "node Signal { slug: String @key  ts: DateTime }\nnode Pattern { slug: String @key }\n"
    "edge FormsPattern: Signal -> Pattern",
    {
        "Signal": [
            {"slug": "s1", "ts": datetime(2026, 5, 10, tzinfo=UTC)},
            {"slug": "s2", "ts": datetime(2026, 4, 1, tzinfo=UTC)},
        ],
        "Pattern": [{"slug": "p1"}, {"slug": "p2"}, {"slug": "p3"}],
        "FormsPattern": edges("s1>p1", "s2>p2"),
    },
)
UNFINITE = plain_graph(
    "node N { k: String @key  f: F64?  v: Vector(2)? }",
    {
        "N": [
            {"k": "a", "f": math.nan, "v": (math.nan, 1.0)},
            {"k": "b", "f": math.inf},
            {"k": "c", "f": -math.inf},
            {"k": "d", "f": -0.0},
            {"k": "e", "f": 0.0},
            {"k": "f"},
        ]
    },
)
LINKED = plain_graph(
    "node Doc { slug: String @key  v: Vector(1) }\nnode Set { slug: String @key }\n"
    "edge Link: Doc -> Set { label: String? }",
    {
        "Doc": [{"slug": f"d{n}", "v": (n - 1.0,)} for n in (1, 2, 3)],
        "Set": [{"slug": "s"}],
        "Link": [
            {"id": "a2", "src": "d1", "dst": "s", "label": "a2"},
            {"id": "a1", "src": "d1", "dst": "s", "label": "a1"},
            {"id": "b1", "src": "d2", "dst": "s", "label": "b1"},
            {"id": "b2", "src": "d3", "dst": "s", "label": "b2"},
        ],
    },
)
