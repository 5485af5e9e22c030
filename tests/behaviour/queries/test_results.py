"""Sections D, E and F of the language: columns and their types, order, aggregates and search."""

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


def pilots(returned: str, rest: str = "") -> str:
    return query(f"match {{ $p: Pilot }} return {{ {returned} }} {rest}")


def no_pilots(returned: str) -> str:
    return query(f'match {{ $p: Pilot {{ handle: "zzz" }} }} return {{ {returned} }}')


def flights(returned: str, rest: str = "") -> str:
    return query(f"match {{ $p: Pilot $p flies $s }} return {{ {returned} }} {rest}")


ORDER_AND_AGGREGATES = [
    case(
        "D01",
        FLEET,
        (pilots("$p.handle", "order { $p.hours }"), compiles("order by $p.hours asc")),
    ),
    case(
        "D02",
        FLEET,
        (pilots("$p.handle", "order { $p.hours desc }"), compiles("order by $p.hours desc")),
    ),
    case(
        "D04",
        FLEET,
        (
            pilots("$p.handle", "order { $p.hours desc, $p.handle desc }"),
            compiles("order by $p.hours desc, $p.handle desc"),
        ),
    ),
    case(
        "D05",
        FLEET,
        (
            pilots("$p.handle as h", "order { h desc } limit 1"),
            compiles("project $p.handle as h: String", "order by h desc", "limit 1"),
        ),
    ),
    case(
        "D07",
        FLEET,
        (pilots("$p.handle", "order { nope }"), refused("T36", "alias 'nope' not found")),
    ),
    case("D08", FLEET, (pilots("$p"), compiles("project $p as p: String"))),
    case(
        "D10",
        FLEET,
        (
            pilots("count($p) as a, count($p.hours) as b"),
            compiles("aggregate count($p) as a: I64?, count($p.hours) as b: I64?"),
        ),
    ),
    case(
        "D11",
        FLEET,
        (
            pilots(
                "sum($p.hours) as a, avg($p.hours) as b, min($p.hours) as c, max($p.hours) as d"
            ),
            compiles(
                "aggregate sum($p.hours) as a: F64?, avg($p.hours) as b: F64?, "
                "min($p.hours) as c: I32?, max($p.hours) as d: I32?"
            ),
        ),
    ),
    case(
        "D13",
        FLEET,
        (
            no_pilots("count($p) as c, sum($p.hours) as s"),
            compiles("aggregate count($p) as c: I64?, sum($p.hours) as s: F64?"),
        ),
    ),
    case(
        "D14",
        FLEET,
        (
            no_pilots("$p.handle, count($p) as c"),
            compiles("aggregate $p.handle as p.handle: String, count($p) as c: I64?"),
        ),
    ),
    case(
        "D16",
        FLEET,
        (
            query(
                'match { $p: Pilot { handle: "ada" } $p mentors $m $m mentors $f }'
                " return { $p.handle, count($f) as n }"
            ),
            compiles("expand $p -[Mentors]-> $m: Pilot", "expand $m -[Mentors]-> $f: Pilot"),
        ),
    ),
    case(
        "D17",
        FLEET,
        (
            flights("$s.reg, avg($p.hours) as a, count($p) as n", "order { $s.reg }"),
            compiles(
                "aggregate $s.reg as s.reg: String, avg($p.hours) as a: F64?, count($p) as n: I64?",
                "order by s.reg asc",
            ),
        ),
    ),
    case(
        "D19",
        FLEET,
        (
            flights("$s.reg as r, count($p) as n", "order { $s.reg }"),
            refused("T36", "not found for ordering"),
        ),
    ),
    case(
        "D20",
        FLEET + GAUGE,
        (pilots("sum($p.handle)"), refused("T8", "takes a number")),
        (
            query("match { $x: Gauge } return { min($x.day) }"),
            refused("T8", "a number or a String, not Date?"),
        ),
        (pilots("1, count($p) as n"), refused("T9", "beside an aggregate")),
    ),
    case("D22", FLEET, (flights("$s.reg"), compiles("project $s.reg as s.reg: String"))),
    case("D23", FLEET, (pilots("$p.handle", "limit 0"), compiles("limit 0"))),
]

EVERY_SCALAR = query(
    "match { $x: Gauge } return { $x.f, $x.g, $x.i, $x.l, $x.u, $x.w, $x.on, $x.day, $x.at,"
    " $x.tags, $x.nums, $x.v, $x.kind }"
)
EVERY_COLUMN = compiles(
    "project $x.f as x.f: F64?, $x.g as x.g: F32?, $x.i as x.i: I32?, $x.l as x.l: I64?,"
    " $x.u as x.u: U32?, $x.w as x.w: U64?, $x.on as x.on: Bool?, $x.day as x.day: Date?,"
    " $x.at as x.at: DateTime?, $x.tags as x.tags: [String]?, $x.nums as x.nums: [I32]?,"
    " $x.v as x.v: Vector(2)?, $x.kind as x.kind: enum(cold, hot, in-between)?"
)

COLUMNS = [
    case("E01", GAUGE, (EVERY_SCALAR, EVERY_COLUMN)),
    case("E02", GAUGE, (EVERY_SCALAR, EVERY_COLUMN)),
    case(
        "E04",
        GAUGE,
        (query("match { $x: Gauge } return { $x.f }"), compiles("project $x.f as x.f: F64?")),
    ),
    case(
        "E05",
        GAUGE,
        (
            query("match { $x: Gauge } return { $x.day, $x.at }"),
            compiles("project $x.day as x.day: Date?, $x.at as x.at: DateTime?"),
        ),
    ),
    case(
        "E07",
        "node D { t: String @key  c: Blob? }",
        (query("match { $d: D } return { $d.t, $d.c }"), refused("T24", "Blob")),
    ),
    case(
        "E08",
        FLEET,
        (
            query(
                'match { $p: Pilot { handle: "ada" } } return { $p.handle, $k }',
                parameters="$k: I64",
            ),
            compiles("project $p.handle as p.handle: String, $k as k: I64"),
        ),
    ),
]


def memos(pattern: str) -> str:
    return query(f"match {{ $m: Memo {pattern} }} return {{ $m.slug }}")


def ranked(order: str, *, parameters: str = "$q: Vector(2)", limit: str = "limit 10") -> str:
    body = f"match {{ $m: Memo }} return {{ $m.slug }} order {{ {order} }} {limit}"
    return query(body, parameters=parameters)


NEAREST = "nearest($m.emb, $q)"
BM25 = 'bm25($m.head, "solar")'

SEARCHES = [
    case(
        "F01",
        MEMO,
        (memos('search($m.head, "solar")'), compiles('filter search($m.head, "solar")')),
    ),
    case(
        "F02",
        MEMO,
        (
            memos('search($m.head, "AUDIT forecast")'),
            compiles('filter search($m.head, "AUDIT forecast")'),
        ),
    ),
    case("F04", MEMO, (memos('search($m.head, "zebra")'), compiles())),
    case(
        "F05",
        MEMO,
        (
            memos('match_text($m.body, "blades inverters")'),
            compiles('filter match_text($m.body, "blades inverters")'),
        ),
    ),
    case("F07", MEMO, (ranked(NEAREST), compiles("rank by nearest($m.emb, $q)", "limit 10"))),
    case(
        "F08",
        MEMO,
        (
            query(
                'match { $m: Memo { team: "lab" } } return { $m.slug }'
                " order { nearest($m.emb, [0, 0]) } limit 1"
            ),
            compiles('where $m.team = "lab"', "rank by nearest($m.emb, [0, 0])", "limit 1"),
        ),
    ),
    case(
        "F10",
        MEMO,
        (
            ranked(BM25, parameters="", limit=""),
            compiles('rank by bm25($m.head, "solar")'),
        ),
    ),
    case(
        "F11",
        MEMO,
        (
            ranked(f"rrf({NEAREST}, {BM25})", limit="limit 3"),
            compiles('rank by rrf(nearest($m.emb, $q), bm25($m.head, "solar"), 60)', "limit 3"),
        ),
    ),
    case(
        "F13",
        MEMO,
        (ranked(NEAREST, limit=""), refused("T17", "needs a limit")),
        (ranked(f"rrf({NEAREST}, {BM25})", limit=""), refused("T21", "needs a limit")),
    ),
    case(
        "F14",
        MEMO,
        (ranked(NEAREST, parameters="$q: Vector(3)"), refused("T15", "Vector(3)")),
        (ranked(NEAREST, parameters="$q: I64"), refused("T15", "I64")),
        (ranked("nearest($m.head, $q)"), refused("T15", "needs a Vector")),
    ),
    case("F16", MEMO, (ranked(f"{NEAREST} desc"), refused("P7", "no direction"))),
    case(
        "F17",
        MEMO,
        (ranked(f'rrf({BM25}, search($m.head, "x"))'), refused("P7", "nearest() and bm25() only")),
        (ranked(f"rrf({NEAREST}, {BM25}, 0)"), refused("T21", "at least 1")),
    ),
    case(
        "F19",
        'node Memo { head: String  emb: Vector(2)? @embed("head", model="A") }',
        (
            query(
                "match { $m: Memo } return { $m.head } order { nearest($m.emb, $q) } limit 1",
                parameters="$q: String",
            ),
            compiles("rank by nearest($m.emb, $q)"),
        ),
    ),
    case(
        "F20",
        MEMO,
        (
            ranked("nearest($m.emb, [1, 0])", limit="limit 1"),
            compiles("rank by nearest($m.emb, [1, 0])", "limit 1"),
        ),
    ),
    case(
        "F22",
        "node Doc { slug: String @key  emb: Vector(2)? } node Spot { name: String @key }"
        " edge Link: Doc -> Spot { label: String? }",
        (
            query(
                "match { $d: Doc $d $w:link $t } return { $d.slug, $w.label }"
                " order { nearest($d.emb, $q) } limit 4",
                parameters="$q: Vector(2)",
            ),
            compiles(
                "expand $d -[$w:Link]-> $t: Spot",
                "rank by nearest($d.emb, $q)",
                "project $d.slug as d.slug: String, $w.label as w.label: String?",
            ),
        ),
    ),
]


@pytest.mark.parametrize("each", ORDER_AND_AGGREGATES, ids=number_of)
def test_rows_are_ordered_and_grouped_by_what_is_returned(each: Case) -> None:
    require_outcomes(each)


@pytest.mark.parametrize("each", COLUMNS, ids=number_of)
def test_a_column_has_a_name_and_a_type_before_any_row_is_read(each: Case) -> None:
    require_outcomes(each)


@pytest.mark.parametrize("each", SEARCHES, ids=number_of)
def test_a_search_is_typed_or_refused(each: Case) -> None:
    require_outcomes(each)
