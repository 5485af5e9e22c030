"""The cases of the language that return rows, worked out by hand: sections A to F and extensions.

One table for the oracle and for the engine. Rows are in the order in which they must come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.queries import query
from tests.support.read_case_graphs import (
    CAMEL,
    DATED,
    FLEET,
    GAUGE,
    LINKED,
    MEMO,
    NAMESAKES,
    PREFIXES,
    STALE,
    UNFINITE,
    edges,
    fleet,
    ring,
)
from tests.support.read_graphs import Params, PlainGraph


@dataclass(frozen=True, slots=True)
class ReadCase:
    """A read of a graph, and what it returns."""

    number: str
    graph: PlainGraph
    text: str
    params: Params
    columns: Sequence[str] | None
    rows: Sequence[object]

    @property
    def cells(self) -> list[list[object]]:
        """The rows as lists; a single column is written without brackets."""
        return [list(row) if isinstance(row, tuple) else [row] for row in self.rows]


def number_of(case: ReadCase) -> str:
    """What a case's test is called."""
    return case.number


def _case(
    number: str,
    graph: PlainGraph,
    body: str,
    *rows: object,
    parameters: str = "",
    params: Params | None = None,
    columns: Sequence[str] | None = None,
) -> ReadCase:
    text = query(body, parameters=parameters)
    return ReadCase(number, graph, text, params or {}, columns, rows)


def _pilots(number: str, pattern: str, *rows: object, graph: PlainGraph = FLEET) -> ReadCase:
    return _case(number, graph, f"match {{ {pattern} }} return {{ $p.handle }}", *rows)


def _gauges(number: str, pattern: str, *rows: object) -> ReadCase:
    return _case(number, GAUGE, f"match {{ {pattern} }} return {{ $x.code }}", *rows)


def _from(
    number: str, start: str, pattern: str, *rows: object, graph: PlainGraph = FLEET
) -> ReadCase:
    body = f'match {{ $p: Pilot {{ handle: "{start}" }} {pattern} }} return {{ $f.handle }}'
    return _case(number, graph, body, *rows)


def _memos(
    number: str,
    pattern: str,
    *rows: object,
    after: str = "",
    vector: Sequence[float] | None = None,
) -> ReadCase:
    return _case(
        number,
        MEMO,
        f"match {{ $m: Memo {pattern} }} return {{ $m.slug }} {after}",
        *rows,
        parameters="$q: Vector(2)" if vector else "",
        params={"q": vector} if vector else {},
    )


_BY_HANDLE = "match { $p: Pilot { handle: $h } } return { $p.handle, $p.hours }"
_BY_SHIP = "match { $p: Pilot  $p flies $s  $s: Ship { reg: $r } } return { $p.handle }"

BINDINGS_AND_FILTERS = [
    _case(
        "A01", FLEET, _BY_HANDLE, ("ben", 330),
        parameters="$h: String", params={"h": "ben"}, columns=["p.handle", "p.hours"],
    ),
    _case(
        "A02", FLEET, _BY_HANDLE,
        parameters="$h: String", params={"h": "zzz"}, columns=["p.handle", "p.hours"],
    ),
    _case(
        "A04", FLEET,
        "match { $p: Pilot $p.hours >= 330 } return { $p.handle } order { $p.handle }",
        "ada", "ben", "dax",
    ),
    _pilots("A05", "$p: Pilot  $p.hours != 330", "ada", "eve"),
    _case("A07", FLEET, _BY_HANDLE, parameters="$h: String?"),
    _case("A08", FLEET, _BY_HANDLE, parameters="$h: String", params={"h": "x' OR '1'='1"}),
    _gauges("A11", "$x: Gauge  $x.f > 1.5", "g1", "g3"),
    _gauges("A13", "$x: Gauge { i: 2 }", "g2"),
    _gauges("A14", "$x: Gauge { i: 2.7 }"),
    _gauges("A16", "$x: Gauge  $x.on != true", "g2"),
    _gauges("A17", '$x: Gauge  $x.day >= date("2024-01-01")', "g1", "g3"),
    _gauges("A19", '$x: Gauge { at: datetime("2024-06-01T12:00:00Z") }', "g1"),
    _gauges("A20", '$x: Gauge  $x.tags contains "y"', "g1", "g2"),
    _gauges("A20-inline", '$x: Gauge { tags: "y" }', "g1", "g2"),
    _gauges("A23", '$x: Gauge  $x.kind = "warm"'),
    _case(
        "A29", CAMEL, "match { $d: D { repoName: $r } } return { $d.slug }", "d1",
        parameters="$r: String", params={"r": "acme"},
    ),
    _pilots("A31", '$p: Pilot  $p.handle starts_with "d"', "dax"),
    _memos("A32", '$m.head contains "panel au"', "m1"),
    _memos("A32-case", '$m.head contains "PANEL"'),
    _case(
        "A34", PREFIXES,
        "match { $x: P  $y: P  $y.handle starts_with $x.handle } return { $x.handle, $y.handle }",
        ("a", "a"), ("a", "ab"), ("ab", "ab"),
    ),
    _pilots("A-text-left", '$p: Pilot  "xx ben yy" contains $p.handle', "ben"),
    _pilots("A-prefix-left", '$p: Pilot  "ben and ada" starts_with $p.handle', "ben"),
    _case(
        "A-parameter-left", FLEET,
        "match { $p: Pilot  $line contains $p.handle } return { $p.handle }", "ada", "ben",
        parameters="$line: String", params={"line": "ben and ada"},
    ),
    _pilots("A-null-left", "$p: Pilot  null = 3 or null != 3 or null > $p.hours or null = null"),
    _pilots("A-null-list", "$p: Pilot  3 in null or now() in null or null contains $p.handle"),
    _gauges("A-f32", "$x: Gauge  $x.g = 0.1", "g1"),
    _gauges("A-exact", "$x: Gauge  $x.l = 9007199254740992.0"),
    _gauges("A-null", "$x: Gauge  $x.f is null or $x.i in [3, 4]", "g3", "g4"),
]  # fmt: skip

TRAVERSALS = [
    _from("B01", "ada", "$p mentors $f", "ben", "cyd"),
    _from("B02", "dax", "$f mentors $p", "ben"),
    _case(
        "B05", FLEET, 'match { $p: Pilot { handle: "ada" }  $p fLIES $s } return { $s.reg }', "S1"
    ),
    _from("B07", "ada", "$p mentors{1,3} $f", "ben", "cyd", "dax", "eve"),
    _from("B08", "ada", "$p mentors{2,3} $f", "dax", "eve"),
    _from("B10", "a", "$p mentors{1,5} $f", "b", "c", graph=ring("a>b", "b>c", "c>a")),
    _from("B11", "a", "$p mentors $f", "a", "b", graph=ring("a>a", "a>b")),
    _from("B11-hops", "a", "$p mentors{1,5} $f", "a", "b", graph=ring("a>a", "a>b")),
    _from("B11-late", "a", "$p mentors{2,5} $f", "c", graph=ring("a>a", "a>b", "b>b", "b>c")),
    _case(
        "B13", FLEET, 'match { $p: Pilot { handle: "ada" }  $p flies{1,3} $s } return { $s.reg }',
        "S1",
    ),
    _case(
        "B14", NAMESAKES,
        'match { $p: Person { name: "al" }  $p worksAt{1,2} $c } return { $c.name }', "sh",
    ),
    _case("B16", FLEET, _BY_SHIP, "ben", "dax", parameters="$r: String", params={"r": "S2"}),
    _case("B17", FLEET, _BY_SHIP, parameters="$r: String", params={"r": "S9"}),
    _case(
        "B19", FLEET, 'match { $p: Pilot { handle: "eve" }  $s: Ship } return { $s.reg }',
        "S1", "S2", "S3",
    ),
    _pilots("B20", "$p: Pilot  $p mentors $_", "ada", "ada", "ben", "dax"),
    _case(
        "B22", ring("a>b", "b>c", "c>a"),
        'match { $x: Pilot { handle: "a" }  $x mentors $y  $y mentors $z  $z mentors $x } '
        "return { $y.handle, $z.handle }",
        ("b", "c"),
    ),
    _case(
        "B23", FLEET,
        'match { $a: Pilot { handle: "ben" }  $a flies $s  $b: Pilot  $b flies $s } '
        "return { $b.handle }",
        "ben", "dax",
    ),
    _from("B28", "dax", "$p <mentors> $f", "ben", "eve"),
    _from("B29", "dax", "$p <mentors> $f", "ben", "eve", graph=fleet(mentors=edges("eve>dax"))),
    _case(
        "B32", DATED,
        'match { $p: Pilot { handle: "ada" }  $p $w:mentors $f  $w.since >= date("2023-01-01") } '
        "return { $f.handle, $w.since }",
        ("eve", "2024-11-30"),
    ),
    _pilots("B-edges", "$p: Pilot  $p $_:mentors $_", "ada", "ada", "ada", "ben", "dax",
            graph=fleet(mentors=edges("ada>ben"))),
    _case(
        "B-loop", ring("a>a"), "match { $p: Pilot  $p $w:<mentors> $f } return { count($w) as n }",
        1,
    ),
]  # fmt: skip

BLOCKS = [
    _pilots("C01", "$p: Pilot  not { $p flies $_ }", "cyd", "eve"),
    _pilots("C02", '$p: Pilot  not { $p flies $s  $s.reg = "S2" }', "ada", "cyd", "eve"),
    _pilots(
        "C04", '$p: Pilot  not { $p flies $s  not { $s.reg = "S2" } }', "ben", "cyd", "dax", "eve"
    ),
    _pilots(
        "C05", '$p: Pilot  not { $p flies $s  not { $s.reg = "S2" } }', "ben", "cyd", "dax", "eve",
        graph=fleet(flies=edges("ada>S2")),
    ),
    _case("C07", FLEET, "match { $s: Ship  not { $p flies $s } } return { $s.reg }", "S3"),
    _case("C08", FLEET, "match { $s: Ship  not { $s flies $p } } return { $s.reg }", "S3"),
    _pilots("C10", "$p: Pilot  not { $p flies $_ }  not { $p mentors $_ }", "cyd", "eve"),
    _case(
        "C11", STALE,
        "match { $p: Pattern  not { $s formsPattern $p  $s.ts >= $since } } return { $p.slug }",
        "p2", "p3",
        parameters="$since: DateTime", params={"since": "2026-05-01T00:00:00Z"},
    ),
    _pilots("C14", "$p: Pilot  not { $p <mentors> $x }"),
    _case(
        "C-optional", FLEET,
        "match { $p: Pilot  optional { $p flies $s } } return { $p.handle, $s.reg, $s }",
        ("ada", "S1", "S1"), ("ben", "S2", "S2"), ("cyd", None, None), ("dax", "S2", "S2"),
        ("eve", None, None),
    ),
    _case(
        "C-unbound", FLEET,
        "match { $p: Pilot  optional { $p flies $s  $s.tons > 100.0 }  $s is null } "
        "return { $p.handle }",
        "ben", "cyd", "dax", "eve",
    ),
]  # fmt: skip


def _all_pilots(
    number: str, output: str, *rows: object, columns: Sequence[str] | None = None
) -> ReadCase:
    return _case(number, FLEET, f"match {{ $p: Pilot }} {output}", *rows, columns=columns)


def _no_pilot(number: str, returned: str, *rows: object) -> ReadCase:
    body = f'match {{ $p: Pilot {{ handle: "zzz" }} }} return {{ {returned} }}'
    return _case(number, FLEET, body, *rows)


_SUMS = "sum($p.hours) as a, avg($p.hours) as b, min($p.hours) as c, max($p.hours) as d"

RESULTS = [
    _all_pilots(
        "D01", "return { $p.handle } order { $p.hours }", "cyd", "eve", "ben", "dax", "ada"
    ),
    _all_pilots(
        "D02", "return { $p.handle } order { $p.hours desc }", "ada", "ben", "dax", "eve", "cyd"
    ),
    _all_pilots(
        "D04", "return { $p.handle } order { $p.hours desc, $p.handle desc }",
        "ada", "dax", "ben", "eve", "cyd",
    ),
    _all_pilots("D05", "return { $p.handle as h } order { h desc } limit 1", "eve", columns=["h"]),
    _case(
        "D08", FLEET, 'match { $p: Pilot { handle: "ada" } } return { $p }', "ada",
        columns=["p"],
    ),
    _all_pilots("D10", "return { count($p) as a, count($p.hours) as b }", (5, 4)),
    _all_pilots("D11", f"return {{ {_SUMS} }}", (1190.0, 297.5, 120, 410)),
    _no_pilot("D13", "count($p) as c, sum($p.hours) as s", (0, None)),
    _no_pilot("D14", "$p.handle, count($p) as c"),
    _case(
        "D16", FLEET,
        'match { $p: Pilot { handle: "ada" }  $p mentors $m  $m mentors $f } '
        "return { $p.handle, count($f) as n }",
        ("ada", 1),
    ),
    _case(
        "D17", FLEET,
        "match { $p: Pilot  $p flies $s } "
        "return { $s.reg, avg($p.hours) as a, count($p) as n } order { $s.reg }",
        ("S1", 410.0, 1), ("S2", 330.0, 2),
    ),
    _case("D22", FLEET, "match { $p: Pilot  $p flies $s } return { $s.reg }", "S1", "S2", "S2"),
    _all_pilots("D23", "return { $p.handle } limit 0", columns=["p.handle"]),
    _all_pilots(
        "D-groups", "return { $p.hours, count(*) as n }", (None, 1), (120, 1), (330, 2), (410, 1)
    ),
    _all_pilots(
        "D-distinct", "return distinct { $p.hours } order { $p.hours desc } offset 1 limit 2",
        330, 120,
    ),
    _case(
        "E01", GAUGE,
        'match { $x: Gauge { code: "g1" } } return { $x.f, $x.g, $x.i, $x.l, $x.u, $x.w, $x.on, '
        "$x.day, $x.at, $x.tags, $x.nums, $x.v, $x.kind }",
        (
            2.5, 0.10000000149011612, 1, 9007199254740993, 7, 12, True, "2024-06-01",
            "2024-06-01T12:00:00.000Z", ["x", "y"], [1, 2], [0.25, -1.0], "hot",
        ),
    ),
    _case(
        "E02", GAUGE,
        'match { $x: Gauge { code: "g4" } } return { $x.f, $x.g, $x.i, $x.l, $x.u, $x.w, $x.on, '
        "$x.day, $x.at, $x.tags, $x.nums, $x.v, $x.kind }",
        (None,) * 13,
    ),
    _case(
        "E04", UNFINITE, "match { $n: N } return { $n.k, $n.f, $n.v } order { $n.f }",
        ("f", None, None), ("c", "-Infinity", None), ("d", -0.0, None), ("e", 0.0, None),
        ("b", "Infinity", None), ("a", "NaN", [None, 1.0]),
    ),
    _case(
        "E-zeros", UNFINITE, "match { $n: N } return { $n.f, count(*) as n } order { n desc }",
        (0.0, 2), (None, 1), ("-Infinity", 1), ("Infinity", 1), ("NaN", 1),
    ),
    _case(
        "E08", FLEET, 'match { $p: Pilot { handle: "ada" } } return { $p.handle, $k }', ("ada", 7),
        parameters="$k: I64", params={"k": 7}, columns=["p.handle", "k"],
    ),
    _case(
        "E-literals", FLEET, 'match { $p: Pilot { handle: "ada" } } return { 1, 2, "x" as x }',
        (1, 2, "x"), columns=["literal", "literal_2", "x"],
    ),
    _case(
        "E-now", FLEET, 'match { $p: Pilot { handle: "ada" } } return { now() }',
        "2024-06-01T12:00:00.123Z", columns=["__nanograph_now"],
    ),
]  # fmt: skip

_NEAREST = "order { nearest($m.emb, $q) }"
_RANKED = 'rrf(nearest($m.emb, $q), bm25($m.head, "solar"))'
_RRF = f"order {{ {_RANKED} }}"

SEARCH = [
    _memos("F01", 'search($m.head, "solar")', "m1", "m3"),
    _memos("F02", 'search($m.head, "AUDIT forecast")', "m1", "m2", "m3"),
    _memos("F04", 'search($m.head, "zebra")'),
    _memos("F05", 'match_text($m.body, "blades inverters")', "m1", "m2"),
    _memos("F07", "", "m1", "m2", "m3", after=f"{_NEAREST} limit 10", vector=[0.0, 0.0]),
    _memos("F08", '$m.team = "lab"', "m3", after=f"{_NEAREST} limit 1", vector=[0.0, 0.0]),
    _memos("F10", "", "m3", "m1", after='order { bm25($m.head, "solar") }'),
    _memos("F11", "", "m1", "m3", "m2", after=f"{_RRF} limit 3", vector=[0.0, 0.0]),
    _case(
        "F11-alias", MEMO,
        f"match {{ $m: Memo }} return {{ $m.slug, {_RANKED} as score }} "
        f"order {{ {_RANKED} desc, score desc }} limit 3",
        ("m1", 1 / 61 + 1 / 62), ("m3", 1 / 63 + 1 / 61), ("m2", 1 / 62),
        parameters="$q: Vector(2)", params={"q": [0.0, 0.0]},
    ),
    _memos("F20", "", "m2", after="order { nearest($m.emb, [1, 0]) } limit 1"),
    _case(
        "F22", LINKED,
        "match { $d: Doc  $d $w:link $t } return { $d.slug, $w.label } "
        "order { nearest($d.v, [0]) } limit 4",
        ("d1", "a1"), ("d1", "a2"), ("d2", "b1"), ("d3", "b2"),
    ),
    _case(
        "F-destination", LINKED,
        'match { $t: Set { slug: "s" }  $d link $t } return { $d.slug } '
        "order { nearest($d.v, [2]) } limit 2",
        "d3", "d2",
    ),
    _case(
        "F-destination-filtered", LINKED,
        'match { $t: Set  $d link $t  $d.slug != "d3" } return { $d.slug } '
        "order { nearest($d.v, [2]) } limit 1",
        "d2",
    ),
    _memos("F-fuzzy", 'fuzzy($m.head, "panle", 2)', "m1"),
    _memos("F-fuzzy-one", 'fuzzy($m.head, "panle", 1)'),
    _memos("F-negated", 'search($m.head, "solar") = false', "m2", "m4"),
    _memos("F-stop-words", 'search($m.head, "the of")'),
    _case(
        "F-scores", MEMO,
        "match { $m: Memo } return { $m.slug, nearest($m.emb, [0, 0]) as far } order { far } "
        "offset 1 limit 2",
        ("m2", 1.0), ("m3", 3.0),
    ),
]  # fmt: skip

CASES = [*BINDINGS_AND_FILTERS, *TRAVERSALS, *BLOCKS, *RESULTS, *SEARCH]
