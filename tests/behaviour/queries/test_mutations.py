"""Sections G and H of the language: what a mutation may write, as far as text and schema decide."""

import pytest

from omnigraph.compiler.compile import compile_mutation, compile_read, compile_schema
from omnigraph.errors import CompileError
from omnigraph.model.source import Source
from tests.support.queries import (
    Case,
    case,
    compile_text,
    compiles,
    number_of,
    query,
    read_schema,
    refused,
    require_outcome,
    require_outcomes,
)

FLEET = read_schema("fleet")
GAUGE = read_schema("gauge")
HUB = read_schema("hub")

MUTATIONS = [
    case(
        "G01",
        FLEET,
        (
            query('insert Pilot { handle: "fay", hours: 5 }'),
            compiles("insert node Pilot", 'set handle = "fay"', "set hours = 5"),
        ),
    ),
    case("G02", FLEET, (query('insert Pilot { handle: "ada" }'), compiles('set handle = "ada"'))),
    case(
        "G04",
        FLEET,
        (
            query('insert Mentors { from: "eve", to: "ada", since: $d }', parameters="$d: Date"),
            compiles("insert edge Mentors", 'set from = "eve"', 'set to = "ada"', "set since = $d"),
        ),
    ),
    case(
        "G05",
        FLEET,
        (query('insert Mentors { from: "ada", to: "zzz" }'), compiles("insert edge Mentors")),
    ),
    case(
        "G07",
        FLEET,
        (
            query('insert Pilot { handle: "fay" } insert Mentors { from: "fay", to: "zzz" }'),
            compiles("insert node Pilot", "insert edge Mentors"),
        ),
    ),
    case(
        "G08",
        FLEET,
        (
            query('update Pilot set { hours: 9 } where handle = "eve"'),
            compiles('update node Pilot where handle = "eve"', "set hours = 9"),
        ),
    ),
    case(
        "G10",
        FLEET,
        (
            query("update Pilot set { hours: 9 } where hours >= 330"),
            compiles("update node Pilot where hours >= 330"),
        ),
        (
            query("update Pilot set { hours: 9 } where hours != 330"),
            compiles("update node Pilot where hours != 330"),
        ),
    ),
    case(
        "G11",
        FLEET,
        (
            query('update Pilot set { hours: $h } where handle = "ada"', parameters="$h: I32?"),
            compiles("mutation q($h: I32?)", "set hours = $h"),
        ),
    ),
    case(
        "G13",
        FLEET,
        (
            query('update Mentors set { since: date("2020-01-01") } where from = "ada"'),
            refused("T16", "edges cannot be updated"),
        ),
    ),
    case(
        "G14",
        FLEET,
        (
            query('delete Pilot where handle = "ada"'),
            compiles('delete node Pilot where handle = "ada"'),
        ),
    ),
    case(
        "G16",
        FLEET,
        (
            query('delete Mentors where from = "ada"'),
            compiles('delete edge Mentors where from = "ada"'),
        ),
        (
            query('delete Flies where to = "S2"'),
            compiles('delete edge Flies where to = "S2"'),
        ),
    ),
    case(
        "G17",
        FLEET,
        (query('delete Mentors where src = "ada"'), refused("T11", "no property `src`")),
    ),
    case(
        "G19",
        FLEET,
        (
            query('delete Pilot where hours > 300 delete Pilot where handle = "cyd"'),
            compiles("delete node Pilot where hours > 300"),
        ),
    ),
    case(
        "G20",
        FLEET,
        (
            query('delete Pilot where handle = "ada" delete Mentors where from = "ben"'),
            compiles('delete edge Mentors where from = "ben"'),
        ),
    ),
    case(
        "G22",
        FLEET,
        (
            query(
                'insert Pilot { handle: "z", hours: 1 }'
                ' update Pilot set { hours: 99 } where handle = "z"'
            ),
            compiles("insert node Pilot", 'update node Pilot where handle = "z"'),
        ),
    ),
    case(
        "G23",
        FLEET,
        (
            query(
                'update Pilot set { hours: 999 } where handle = "ada"'
                " update Pilot set { hours: 5 } where hours > 500"
            ),
            compiles("update node Pilot where hours > 500"),
        ),
    ),
    case(
        "G25",
        FLEET,
        (query("insert Pilot { hours: 1 }"), refused("T12", "misses handle")),
        (query('insert Pilot { handle: "a", speed: 1 }'), refused("T11", "no property `speed`")),
        (query('insert Pilot { handle: "a", handle: "b" }'), refused("T13", "assigned twice")),
        (query("insert Pilot { handle: $x }"), refused("T14", "not a declared parameter")),
        (query('insert Robot { handle: "a" }'), refused("T10", "`Robot`")),
    ),
    case("G26", FLEET, (query('insert Mentors { from: "ada" }'), refused("T12", "misses to"))),
    case(
        "G28",
        GAUGE,
        (
            query('insert Gauge { code: "a", at: now() } insert Gauge { code: "b", at: now() }'),
            compiles("set at = now()"),
        ),
    ),
    case(
        "G29",
        GAUGE,
        (query('delete Gauge where tags contains "x"'), refused("P1", "found `contains`")),
    ),
    case(
        "G31",
        FLEET,
        (query('insert Ship { reg: "S9", tons: 5 }'), compiles("set tons = 5")),
        (query('insert Pilot { handle: "x", hours: 5.0 }'), refused("T3", "fraction")),
    ),
    case(
        "G32",
        "node D { s: String @key  b: String?  e: Vector(2) @embed(b) }",
        (query('insert D { s: "x", b: "y" }'), compiles('set b = "y"')),
        (query('insert D { s: "x" }'), refused("T12", "misses e (or b,")),
    ),
]

ANN = 'insert User { name: "ann", role: "admin"'


def place(constraint: str) -> str:
    return f"node T {{ name: String @key  t: F64?  u: String?  {constraint} }}"


# Whether a row keeps the rules is found out when it is written; here every such write compiles.
CONSTRAINTS = [
    case(
        "H01",
        HUB,
        (
            query('insert User { name: "ann", role: $r }', parameters="$r: String"),
            compiles("set role = $r"),
        ),
        (
            query('update User set { role: $r } where name = "ann"', parameters="$r: String"),
            compiles("set role = $r"),
        ),
    ),
    case(
        "H02",
        HUB,
        (
            query('insert User { name: "a", role: "root" }'),
            refused("T3", "invalid enum value 'root'"),
        ),
    ),
    case(
        "H04",
        HUB,
        (query(f'{ANN}, badge: "ab1" }}'), compiles('set badge = "ab1"')),
        (query(f'{ANN}, badge: "AB1" }}'), compiles('set badge = "AB1"')),
        (query(f"{ANN}, badge: null }}"), compiles("set badge = null")),
    ),
    case(
        "H05",
        place('@check(u, "[0-9]+")'),
        (query('insert T { name: "a", u: "a1b" }'), compiles('set u = "a1b"')),
    ),
    case(
        "H07",
        HUB,
        (
            query(f'{ANN} }} insert User {{ name: "bob", role: "guest", email: null }}'),
            compiles("set email = null"),
        ),
    ),
    case("H08", HUB, (query(f'{ANN}, email: "a@b" }}'), compiles('set email = "a@b"'))),
    case(
        "H10",
        HUB,
        (
            query(
                'update User set { email: "temp" } where name = "alice"'
                ' update User set { email: "final" } where name = "alice"'
                ' insert User { name: "carol", role: "guest", email: "temp" }'
            ),
            compiles('set email = "temp"', 'set email = "final"'),
        ),
    ),
    case(
        "H11",
        "node P { k: String @key  a: String?  b: I32?  @unique(a, b) }",
        (
            query('insert P { k: "x", a: "w", b: 1 } insert P { k: "y", a: "w", b: 2 }'),
            compiles("set b = 2"),
        ),
    ),
    case(
        "H13",
        HUB,
        (
            query('insert Sits { from: "ann", to: "d1" } insert Sits { from: "ann", to: "d2" }'),
            compiles("insert edge Sits"),
        ),
    ),
    case(
        "H14",
        "node U { n: String @key } edge Sits: U -> U @card(1..)",
        (query('insert U { n: "a" }'), compiles("insert node U")),
    ),
    case(
        "H16",
        "node U { n: String @key } edge Sits: U -> U @card(2..)",
        (
            query('insert Sits { from: "a", to: "b" } insert Sits { from: "a", to: "c" }'),
            compiles("insert edge Sits"),
        ),
    ),
    case(
        "H17",
        "node U { n: String @key } edge Sits: U -> U @card(1..)",
        (
            query('delete Sits where from = "a"'),
            compiles('delete edge Sits where from = "a"'),
        ),
    ),
    case(
        "H19",
        place("@range(t, -40.0..60.0)"),
        (query('insert T { name: "a", t: -20 }'), compiles("set t = -20")),
        (query('insert T { name: "a", t: -50.0 }'), compiles("set t = -50.0")),
    ),
    case(
        "H20",
        place("@range(t, ..100)"),
        (query('insert T { name: "a", t: 50 }'), compiles("set t = 50")),
        (query('insert T { name: "a", t: 150 }'), compiles("set t = 150")),
    ),
]


@pytest.mark.parametrize("each", MUTATIONS, ids=number_of)
def test_a_mutation_names_what_it_writes_or_is_refused(each: Case) -> None:
    require_outcomes(each)


@pytest.mark.parametrize("each", CONSTRAINTS, ids=number_of)
def test_only_what_no_row_can_change_is_refused_before_writing(each: Case) -> None:
    require_outcomes(each)


def test_a_query_is_classified_as_read_or_write() -> None:
    read = compile_text(FLEET, query("match { $p: Pilot } return { $p.handle }"))
    mutation = compile_text(FLEET, query('delete Pilot where handle = "ada"'))

    assert not read.is_mutation
    assert mutation.is_mutation


def test_a_mutation_that_inserts_and_deletes_says_how_to_split_it() -> None:
    mixed = query('insert Pilot { handle: "x" } delete Pilot where handle = "y"')

    require_outcome(FLEET, mixed, refused("D2", "mixes inserts/updates and deletes"))
    require_outcome(FLEET, mixed, refused("D2", "split into separate mutations"))


def test_updating_a_part_of_the_key_is_refused() -> None:
    schema = "node Place { floor: I32  room: String  note: String?  @key(floor, room) }"

    require_outcome(
        schema,
        query('update Place set { room: "b" } where floor = 1'),
        refused("T39", "cannot update @key property"),
    )


def test_g34_a_read_sent_where_changes_are_made_is_refused_and_the_reverse() -> None:
    catalog = compile_schema(Source("fleet.pg", FLEET))
    read = Source("q.gq", query("match { $p: Pilot } return { $p.handle }"))
    change = Source("q.gq", query('delete Pilot where handle = "ada"'))

    with pytest.raises(CompileError, match="is a read query") as refused_read:
        compile_mutation(read, catalog, name=None)
    with pytest.raises(CompileError, match="contains mutations") as refused_change:
        compile_read(change, catalog, name=None)

    codes = [each.value.diagnostics[0].code for each in (refused_read, refused_change)]
    assert codes == ["T38", "T38"]
    assert compile_read(read, catalog, name=None).name == "q"
    assert compile_mutation(change, catalog, name=None).is_mutation
