"""Sections A, B and C of the language: what a pattern may contain, and how it is traversed."""

import pytest

from tests.support.queries import (
    Case,
    case,
    compiles,
    number_of,
    query,
    read_schema,
    refused,
    require_outcomes,
)

FLEET = read_schema("fleet")
GAUGE = read_schema("gauge")
MEMO = read_schema("memo")

BY_HANDLE = query(
    "match { $p: Pilot { handle: $h } } return { $p.handle, $p.hours }", parameters="$h: String"
)


def fleet(pattern: str, returned: str = "$p.handle") -> str:
    return query(f"match {{ {pattern} }} return {{ {returned} }}")


def gauge(pattern: str) -> str:
    return query(f"match {{ {pattern} }} return {{ $x.code }}")


BINDINGS_AND_FILTERS = [
    case(
        "A01",
        FLEET,
        (
            BY_HANDLE,
            compiles(
                "scan $p: Pilot",
                "where $p.handle = $h",
                "project $p.handle as p.handle: String, $p.hours as p.hours: I32?",
            ),
        ),
    ),
    case("A02", FLEET, (BY_HANDLE, compiles("where $p.handle = $h"))),
    case(
        "A04",
        FLEET,
        (
            query("match { $p: Pilot $p.hours >= 330 } return { $p.handle } order { $p.handle }"),
            compiles("filter $p.hours >= 330", "order by $p.handle asc"),
        ),
    ),
    case(
        "A05",
        FLEET,
        (fleet("$p: Pilot $p.hours != 330"), compiles("filter $p.hours != 330")),
    ),
    case(
        "A07",
        FLEET,
        (
            query(
                "match { $p: Pilot { handle: $h } } return { $p.handle }", parameters="$h: String?"
            ),
            compiles("read q($h: String?)", "where $p.handle = $h"),
        ),
    ),
    case("A08", FLEET, (BY_HANDLE, compiles("where $p.handle = $h"))),
    case(
        "A10",
        FLEET,
        (
            fleet("$p: Pilot { handle: $oops }"),
            refused("T31", "`$oops` is not a declared parameter"),
        ),
    ),
    case("A11", GAUGE, (gauge("$x: Gauge $x.f > 1.5"), compiles("filter $x.f > 1.5"))),
    case("A13", GAUGE, (gauge("$x: Gauge { i: 2 }"), compiles("where $x.i = 2"))),
    case("A14", GAUGE, (gauge("$x: Gauge { i: 2.7 }"), compiles("where $x.i = 2.7"))),
    case("A16", GAUGE, (gauge("$x: Gauge $x.on != true"), compiles("filter $x.on != true"))),
    case(
        "A17",
        GAUGE,
        (
            gauge('$x: Gauge $x.day >= date("2024-01-01")'),
            compiles('filter $x.day >= date("2024-01-01")'),
        ),
    ),
    case(
        "A19",
        GAUGE,
        (
            gauge('$x: Gauge { at: datetime("2024-06-01T12:00:00Z") }'),
            compiles('where $x.at = datetime("2024-06-01T12:00:00.000Z")'),
        ),
    ),
    case(
        "A20",
        GAUGE,
        (gauge('$x: Gauge $x.tags contains "y"'), compiles('filter $x.tags contains "y"')),
        (gauge('$x: Gauge { tags: "y" }'), compiles('where $x.tags contains "y"')),
    ),
    case(
        "A22",
        GAUGE,
        (gauge('$x: Gauge { kind: "warm" }'), refused("T3", "invalid enum value 'warm'")),
    ),
    case("A23", GAUGE, (gauge('$x: Gauge $x.kind = "warm"'), compiles('filter $x.kind = "warm"'))),
    case(
        "A25",
        GAUGE,
        (gauge('$x: Gauge $x.day < datetime("2024-01-01T00:00:00Z")'), refused("T7", "(Date?)")),
    ),
    case("A26", GAUGE, (gauge('$x: Gauge { tags: ["y"] }'), refused("T3", "list equality"))),
    case(
        "A28",
        FLEET,
        (
            fleet("$a: Pilot $b: Pilot $a != $b", "$a.handle"),
            refused("T7", "scalar operands"),
        ),
    ),
    case(
        "A29",
        "node D { slug: String @key  repoName: String @index }",
        (
            query("match { $d: D { repoName: $r } } return { $d.slug }", parameters="$r: String"),
            compiles("where $d.repoName = $r"),
        ),
    ),
    case(
        "A31",
        FLEET,
        (
            fleet('$p: Pilot $p.handle starts_with "d"'),
            compiles('filter $p.handle starts_with "d"'),
        ),
    ),
    case(
        "A32",
        MEMO,
        (
            query('match { $m: Memo $m.head contains "panel au" } return { $m.slug }'),
            compiles('filter $m.head contains "panel au"'),
        ),
    ),
    case(
        "A34",
        FLEET,
        (
            fleet("$x: Pilot $y: Pilot $y.handle starts_with $x.handle", "$x.handle, $y.handle"),
            compiles("scan $x: Pilot", "scan $y: Pilot", "filter $y.handle starts_with $x.handle"),
        ),
    ),
    case("A35", FLEET, (fleet("$p.hours > 1 $p: Pilot"), refused("T6", "neither bound"))),
    case("A37", FLEET, (fleet("$p: Pilot", "$p.id"), refused("T6", "no property `id`"))),
    case(
        "A38",
        "interface N { a: String } node X implements N {}",
        (query("match { $x: N } return { $x.a }"), refused("T1", "interface")),
    ),
]


def from_ada(pattern: str, returned: str = "$f.handle") -> str:
    return fleet(f'$p: Pilot {{ handle: "ada" }} {pattern}', returned)


WORK = """
node Person { name: String @key }
node Company { name: String @key }
edge WorksAt: Person -> Company
"""

TRAVERSALS = [
    case("B01", FLEET, (from_ada("$p mentors $f"), compiles("expand $p -[Mentors]-> $f: Pilot"))),
    case(
        "B02",
        FLEET,
        (
            fleet('$p: Pilot { handle: "dax" } $m mentors $p', "$m.handle"),
            compiles("expand $p <-[Mentors]- $m: Pilot"),
        ),
    ),
    case("B04", FLEET, (fleet("$s flies $p $s: Ship", "$s"), refused("T30", "already bound"))),
    case(
        "B05",
        FLEET,
        (from_ada("$p fLIES $s", "$s.reg"), compiles("expand $p -[Flies]-> $s: Ship")),
        (from_ada("$p Flies $s", "$s.reg"), refused("P1", "parse error")),
    ),
    case(
        "B07",
        FLEET,
        (from_ada("$p mentors{1,3} $f"), compiles("expand $p -[Mentors{1,3}]-> $f: Pilot")),
    ),
    case(
        "B08",
        FLEET,
        (from_ada("$p mentors{2,3} $f"), compiles("expand $p -[Mentors{2,3}]-> $f: Pilot")),
    ),
    case("B10", FLEET, (from_ada("$p mentors{1,5} $f"), compiles())),
    case(
        "B11",
        FLEET,
        (from_ada("$p mentors $f"), compiles("expand $p -[Mentors]-> $f: Pilot")),
        (from_ada("$p mentors{1,5} $f"), compiles("expand $p -[Mentors{1,5}]-> $f: Pilot")),
    ),
    case(
        "B13",
        FLEET,
        (from_ada("$p flies{1,3} $s", "$s"), compiles("expand $p -[Flies{1,3}]-> $s: Ship")),
        (from_ada("$p flies{2,2} $s", "$s"), refused("T5", "a second hop never starts")),
    ),
    case(
        "B14",
        WORK,
        (
            query('match { $p: Person { name: "al" } $p worksAt{1,2} $c } return { $c.name }'),
            compiles("expand $p -[WorksAt{1,2}]-> $c: Company"),
        ),
    ),
    case(
        "B16",
        FLEET,
        (
            fleet('$p: Pilot $p flies $s $s: Ship { reg: "S2" }'),
            compiles("scan $p: Pilot", "expand $p -[Flies]-> $s: Ship", 'where $s.reg = "S2"'),
        ),
    ),
    case(
        "B17",
        FLEET,
        (
            query(
                "match { $p: Pilot $p flies $s $s: Ship { reg: $r } } return { $p.handle }",
                parameters="$r: String",
            ),
            compiles("expand $p -[Flies]-> $s: Ship", "where $s.reg = $r"),
        ),
    ),
    case(
        "B19",
        FLEET,
        (
            fleet('$p: Pilot { handle: "eve" } $s: Ship', "$s.reg"),
            compiles("scan $p: Pilot", "scan $s: Ship"),
        ),
    ),
    case(
        "B20",
        FLEET,
        (fleet("$p: Pilot $p mentors $_"), compiles("expand $p -[Mentors]-> $_: Pilot")),
    ),
    case(
        "B22",
        FLEET,
        (
            fleet('$x: Pilot { handle: "a" } $x mentors $y $y mentors $z $z mentors $x', "$y, $z"),
            compiles("expand $z -[Mentors]-> $x': Pilot", "filter $x' is $x"),
        ),
    ),
    case(
        "B23",
        FLEET,
        (
            fleet('$a: Pilot { handle: "ben" } $a flies $s $b: Pilot $b flies $s', "$b.handle"),
            compiles("expand $a -[Flies]-> $s: Ship", "expand $s <-[Flies]- $b: Pilot"),
        ),
    ),
    case(
        "B25",
        FLEET,
        (from_ada("$p mentors{0,2} $f"), refused("T15", "at least one hop")),
        (from_ada("$p mentors{3,1} $f"), refused("T15", "below the minimum")),
        (from_ada("$p mentors{1,} $f"), refused("T15", "unbounded")),
        (from_ada("$p mentors{2} $f"), refused("P1", "{min,max}")),
    ),
    case(
        "B26",
        FLEET,
        (from_ada("$p likes $f"), refused("T4", "unknown edge type `likes`")),
        (fleet("$s: Ship $s mentors $x", "$s"), refused("T5", "connects Pilot to Pilot")),
    ),
    case("B28", FLEET, (from_ada("$p <mentors> $f"), compiles("expand $p -[Mentors]- $f: Pilot"))),
    case("B29", FLEET, (from_ada("$p <mentors> $f"), compiles("expand $p -[Mentors]- $f: Pilot"))),
    case("B31", FLEET, (from_ada("$p <flies> $s", "$s"), refused("T22", "Pilot to Ship"))),
    case(
        "B32",
        FLEET,
        (
            from_ada('$p $w:mentors $f $w.since >= date("2023-01-01")', "$f.handle, $w.since"),
            compiles(
                "expand $p -[$w:Mentors]-> $f: Pilot",
                'filter $w.since >= date("2023-01-01")',
                "project $f.handle as f.handle: String, $w.since as w.since: Date?",
            ),
        ),
    ),
    case(
        "B34",
        FLEET,
        (from_ada("$p $w:mentors{1,3} $f"), refused("T23")),
        (from_ada("$p $w:mentors $f", "$w"), refused("T23")),
        (from_ada("$p $p:mentors $f"), refused("T23")),
        (from_ada('$p $w:mentors $f search($w.note, "x")'), refused("T23")),
    ),
]

STALE = """
node Signal { slug: String @key  ts: DateTime }
node Pattern { slug: String @key }
edge FormsPattern: Signal -> Pattern
"""

NEGATIONS = [
    case(
        "C01",
        FLEET,
        (
            fleet("$p: Pilot not { $p flies $_ }"),
            compiles("anti join on $p", "expand $p -[Flies]-> $_: Ship"),
        ),
    ),
    case(
        "C02",
        FLEET,
        (
            fleet('$p: Pilot not { $p flies $s $s.reg = "S2" }'),
            compiles("anti join on $p", 'filter $s.reg = "S2"'),
        ),
    ),
    case(
        "C04",
        FLEET,
        (
            fleet('$p: Pilot not { $p flies $s not { $s.reg = "S2" } }'),
            compiles("anti join on $p", "anti join on $s", 'filter $s.reg = "S2"'),
        ),
    ),
    case(
        "C05",
        FLEET,
        (
            fleet('$p: Pilot not { $p flies $s not { $s.reg = "S2" } }'),
            compiles("expand $p -[Flies]-> $s: Ship"),
        ),
    ),
    case(
        "C07",
        FLEET,
        (
            fleet("$s: Ship not { $p flies $s }", "$s.reg"),
            compiles("anti join on $s", "expand $s <-[Flies]- $p: Pilot"),
        ),
    ),
    case(
        "C08",
        FLEET,
        (
            fleet("$s: Ship not { $s flies $p }", "$s.reg"),
            compiles("anti join on $s", "expand $s <-[Flies]- $p: Pilot"),
        ),
    ),
    case(
        "C10",
        FLEET,
        (
            fleet("$p: Pilot not { $p flies $_ } not { $p mentors $_ }"),
            compiles("expand $p -[Flies]-> $_: Ship", "expand $p -[Mentors]-> $_: Pilot"),
        ),
    ),
    case(
        "C11",
        STALE,
        (
            query(
                "match { $p: Pattern not { $s formsPattern $p $s.ts >= $since } }"
                " return { $p.slug }",
                parameters="$since: DateTime",
            ),
            compiles("expand $p <-[FormsPattern]- $s: Signal", "filter $s.ts >= $since"),
        ),
    ),
    case(
        "C13",
        FLEET,
        (fleet("not { $p flies $_ } $p: Pilot"), refused("T9", "bound before it")),
    ),
    case(
        "C14",
        FLEET,
        (
            fleet("$p: Pilot not { $p <mentors> $x }"),
            compiles("anti join on $p", "expand $p -[Mentors]- $x: Pilot"),
        ),
    ),
]


@pytest.mark.parametrize("each", BINDINGS_AND_FILTERS, ids=number_of)
def test_a_binding_or_filter_is_typed_or_refused(each: Case) -> None:
    require_outcomes(each)


@pytest.mark.parametrize("each", TRAVERSALS, ids=number_of)
def test_a_traversal_gets_its_direction_or_is_refused(each: Case) -> None:
    require_outcomes(each)


@pytest.mark.parametrize("each", NEGATIONS, ids=number_of)
def test_a_negation_is_correlated_or_refused(each: Case) -> None:
    require_outcomes(each)
