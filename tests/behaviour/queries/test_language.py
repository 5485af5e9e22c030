"""Sections K and L of the language: how a text is read, and the pipeline it becomes."""

import pytest

from omnigraph.compiler.compile import compile_queries, compile_query
from omnigraph.compiler.ir import ReadIR
from omnigraph.errors import CompileError, NotFoundError
from omnigraph.model.source import Source
from tests.support.pipelines import sketch
from tests.support.queries import (
    Case,
    case,
    compile_text,
    compiles,
    number_of,
    query,
    read_schema,
    refused,
    require_outcomes,
)
from tests.support.schemas import FLEET
from tests.support.schemas import compile_text as compile_schema_text

MEMO = read_schema("memo")

TWO_QUERIES = """
query first() { match { $p: Pilot } return { $p.handle } }
query second() { match { $s: Ship } return { $s.reg } }
"""


def fleet(pattern: str, returned: str = "$p.handle") -> str:
    return query(f"match {{ {pattern} }} return {{ {returned} }}")


def annotated(annotations: str) -> str:
    return f"query q() {annotations} {{ match {{ $p: Pilot }} return {{ $p.handle }} }}"


READING = [
    case(
        "K01",
        FLEET,
        (fleet("$p: Pilot $p.hours > -1"), compiles("filter $p.hours > -1")),
        (fleet("$p: Pilot $p.hours < 1e5"), compiles("filter $p.hours < 100000.0")),
        (fleet("$p: Pilot $p.hours is null"), compiles("filter $p.hours is null")),
        (query('insert Pilot { handle: "x", hours: null }'), compiles("set hours = null")),
    ),
    case("K02", FLEET, (fleet("$p: Pilot { }"), refused("P1", "empty braces"))),
    case(
        "K04",
        MEMO,
        (
            query(
                "match { $m: Memo } return { $m.slug } order { nearest($m.emb, $q) } limit 1",
                parameters="$q: Vector( 2 ) ?",
            ),
            compiles("read q($q: Vector(2)?)"),
        ),
    ),
    case(
        "K05",
        FLEET,
        (fleet("$q contains $m", "$q"), refused("T4", "unknown edge type `contains`")),
    ),
    case(
        "K07",
        FLEET,
        (annotated('@description("a") @instruction("b")'), compiles()),
        (annotated('@description("a") @description("b")'), refused("P7", "duplicate")),
        (annotated('@author("a")'), refused("P7", "no annotation `@author`")),
    ),
    case(
        "K11",
        FLEET,
        (fleet("$p $w:mentors $f"), compiles("expand $p -[$w:Mentors]-> $f: Pilot")),
        (fleet("$p <mentors> $f"), compiles("expand $p -[Mentors]- $f: Pilot")),
        (fleet('$p: Pilot $p.handle starts_with "a"'), compiles()),
    ),
]

# The extensions that the language adds to its ancestor, where no numbered case shows them.
EXTENSIONS = [
    case(
        "or, and, parentheses",
        FLEET,
        (
            fleet('$p: Pilot ($p.hours = 1 or $p.hours = 2) and $p.handle != "ada"'),
            compiles('filter ($p.hours = 1 or $p.hours = 2) and $p.handle != "ada"'),
        ),
    ),
    case(
        "in",
        FLEET,
        (fleet('$p: Pilot $p.handle in ["a"]'), compiles('filter $p.handle in ["a"]')),
        (fleet("$p: Pilot $p.hours in []"), compiles("filter $p.hours in []")),
    ),
    case(
        "count",
        FLEET,
        (
            fleet("$p: Pilot", "count(*), count(distinct $p.hours) as n"),
            compiles("aggregate count(*) as count: I64?, count(distinct $p.hours) as n: I64?"),
        ),
    ),
    case(
        "distinct",
        FLEET,
        (query("match { $p: Pilot } return distinct { $p.hours }"), compiles("distinct")),
    ),
    case(
        "window",
        FLEET,
        (
            query(
                "match { $p: Pilot } return { $p.handle } limit $n offset 2", parameters="$n: I64"
            ),
            compiles("limit $n", "offset 2"),
        ),
    ),
    case(
        "scores",
        MEMO,
        (
            query(
                'match { $m: Memo } return { $m.slug, bm25($m.head, "x") as score } order { score }'
            ),
            compiles('rank by bm25($m.head, "x")'),
        ),
    ),
    case(
        "optional",
        FLEET,
        (
            fleet("$p: Pilot optional { $p flies $s }", "$p.handle, $s.reg"),
            compiles(
                "optional join on $p",
                "project $p.handle as p.handle: String, $s.reg as s.reg: String?",
            ),
        ),
    ),
    case(
        "several predicates",
        FLEET,
        (
            query('delete Pilot where hours > 3 and handle != "ada"'),
            compiles('delete node Pilot where hours > 3 and handle != "ada"'),
        ),
    ),
    case(
        "now",
        FLEET,
        (fleet("$p: Pilot", "now() as at"), compiles("project now() as at: DateTime")),
    ),
]


@pytest.mark.parametrize("each", READING + EXTENSIONS, ids=number_of)
def test_a_text_is_read_as_the_language_says(each: Case) -> None:
    require_outcomes(each)


def test_a_query_that_is_not_in_the_text_is_not_found() -> None:  # K08
    source, catalog = Source("two.gq", TWO_QUERIES), compile_schema_text(FLEET)

    with pytest.raises(NotFoundError, match="query 'third' not found"):
        compile_query(source, catalog, name="third")


def test_without_a_name_a_text_must_hold_exactly_one_query() -> None:
    catalog = compile_schema_text(FLEET)

    for text, count in ((TWO_QUERIES, "multiple queries: first, second"), ("", "no query")):
        with pytest.raises(CompileError, match=count) as caught:
            compile_query(Source("two.gq", text), catalog, name=None)
        assert [each.code for each in caught.value.diagnostics] == ["T34"]


def test_the_first_of_two_queries_with_one_name_is_meant() -> None:
    text = TWO_QUERIES.replace("second", "first")

    chosen = compile_query(Source("two.gq", text), compile_schema_text(FLEET), name="first")

    assert isinstance(chosen.ir, ReadIR)
    assert [column.name for column in chosen.ir.columns] == ["p.handle"]


def test_descriptions_stay_with_their_query() -> None:
    text = annotated('@description("What it does") @instruction("When to use it")')

    [compiled] = compile_queries(Source("one.gq", text), compile_schema_text(FLEET))

    assert (compiled.description, compiled.instruction) == ("What it does", "When to use it")


def test_an_assignment_without_a_comma_may_start_with_any_word() -> None:
    schema = "node Thing { name: String @key  desc: String? }"

    compile_text(schema, query('insert Thing { name: "a" desc: "b" }'))


PIPELINES = {
    "L01": ('$p: Pilot { handle: "a" } $p mentors $f', "scan(p where 1), expand(p>f out)"),
    "L02": ('$p: Pilot $p flies $s $s: Ship { reg: "S2" }', "scan(p), expand(p>s out where 1)"),
    "L04": ("$p: Pilot $s: Ship", "scan(p), scan(s)"),
    "L05": ("$p: Pilot $p mentors $_ $s: Ship", "scan(p), scan(s), expand(p>_ out)"),
    "L07": ("$p: Pilot not { $p flies $_ }", "scan(p), anti(p: expand(p>_ out))"),
    "L08": (
        '$p: Pilot not { $p flies $s $s: Ship { reg: "S2" } }',
        "scan(p), anti(p: scan(s where 1), expand(p>s' out), filter)",
    ),
}


@pytest.mark.parametrize(("pattern", "expected"), PIPELINES.values(), ids=PIPELINES)
def test_a_pattern_becomes_the_pipeline_that_the_language_says(pattern: str, expected: str) -> None:
    ir = compile_text(FLEET, query(f"match {{ {pattern} }} return {{ $p.handle }}")).ir

    assert isinstance(ir, ReadIR)
    assert sketch(ir.pipeline) == expected
