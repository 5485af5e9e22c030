"""Four times the text costs about four times the work, whatever there is more of."""

import re
from collections.abc import Callable
from contextlib import suppress

import pytest

from omnigraph.compiler.compile import compile_queries, compile_schema
from omnigraph.errors import CompileError
from omnigraph.model.source import Source
from tests.support.effort import count_lines

# Above the number of diagnostics at which reporting stops, because each of those has a price.
SIZE = 100
GROWTH = 4
RATIO_MAX = 4.6

# What stands between « and » is repeated; # is the number of the repetition.
SCHEMAS = {
    "node types": "«node N# { a: String @key b: I32? } »",
    "edge types": "node N {} «edge E#: N -> N @card(0..1) »",
    "properties": "node N { «p#: String? @index » }",
    "enum values": "node N { e: enum(«v#, » v) }",
    "constraints": "node N { p: I32 «@range(p, #..) » }",
    "columns of a constraint": "node N { «p#: I32 » p: I32 @unique(«p#, » p) }",
    "annotations": 'node N { p: I32 «@custom#("x", a=1) » }',
    "arguments of an annotation": "node N { p: I32 @custom(1, «a#=1, » z=1) }",
    "inherited properties": "interface I { «p#: I32 » } node N implements I {}",
    "repeated inherited properties": "interface I { «p#: I32 » } node N implements I { «p#: I32 » }",
    "interfaces of one type": "«interface I# { p#: I32 } » interface I {} node N implements «I#, » I {}",
    "mentions of one interface": "interface I { «p#: I32 » } node N implements «I, » I {}",
    "letters of a name": "node N«a» { «p#: I32 » }",
    "unknown types": "node N { «p#: Strin# » }",
    "unknown columns": "node N { «p#: I32 @unique(c#) » }",
    "unknown columns of an edge": "node N {} edge E: N -> N { «p#: I32 @unique(c#) » }",
    "unknown ends": "«node N# {} edge E#: N# -> M# »",
    "unknown interfaces": "«interface I# {} node N# implements J# {} »",
    "duplicate properties": "node N { «p: I32 » }",
    "duplicate types": "«node N {} »",
    "misplaced annotations": "«node N# @key {} »",
    "unsupported escapes": 'node N { p: String @custom("«\\d»") }',
    "numbers that do not fit": "node N { p: String «@custom#(99999999999999999999) » }",
}

QUERIES = {
    "queries": "«query q#($x: I32) { match { $p: Person { age: $x } } return { $p } } »",
    "parameters": "query q(«$x#: I32, » $x: I32) { match { $p: Person } return { $p } }",
    "bindings": "query q() { match { «$p#: Person » } return { $p0 } }",
    "conditions in braces": "query q() { match { $p: Person { «age: #, » } } return { $p } }",
    "bindings of one variable": "query q() { match { «$p: Person { age: # } » } return { $p } }",
    "traversals": "query q() { match { $p: Person «$p knows $f# » } return { $p } }",
    "closed cycles": "query q() { match { $p: Person «$p knows $f » } return { $p } }",
    "anonymous traversals": "query q() { match { $p: Person «$_ knows $_ » } return { $p } }",
    "edge variables": "query q() { match { «$p $e#: knows $f# $e#.since = 1 » } return { $p } }",
    "filters": "query q() { match { $p: Person «$p.age > # » } return { $p } }",
    "alternatives": "query q() { match { $p: Person «$p.age = # or » $p.age = 1 } return { $p } }",
    "negations": "query q() { match { $p: Person «not { $p knows $f } » } return { $p } }",
    "negated variables": "query q() { match { «$p#: Person not { $p# knows $f } » } return { $p0 } }",
    "optional blocks": "query q() { match { $p: Person «optional { $p knows $f# } » } return { $p } }",
    "list elements": "query q() { match { $p: Person $p.age in [«#, » 1] } return { $p } }",
    "arguments": "query q() { match { $p: Person } return { count(«*, 1, » 1) } }",
    "columns": "query q() { match { $p: Person } return { «$p.age as a# » } }",
    "aggregates": "query q() { match { $p: Person } return { «max($p.age) as a#, » } }",
    "sort keys": "query q() { match { $p: Person } return { «$p.age as a# » } order { «a#, » a0 } }",
    "group keys": (
        "query q() { match { $p: Person } return { «$p.age count(*) as a# » } order { «$p.age, » a0 } }"
    ),
    "inserts": 'query q() { «insert Person { name: "x" age: # } » }',
    "conditions of a delete": "query q() { delete Person where «age = # or » age = 1 }",
    "faulty queries": "«query q# { match { $p: Persn } return { $p } } »",
    "queries with a fault": "«query q#() { match { $p: Persn } return { $p } } »",
    "unknown node types": "query q() { match { «$p#: Persn# » } return { $p0 } }",
    "unknown edges": "query q() { match { $p: Person «$p knws# $f » } return { $p } }",
    "unknown properties": "query q() { match { $p: Person «$p.ag# = 1 » } return { $p } }",
    "unknown functions": "query q() { match { $p: Person } return { «cont#(*) » } }",
    "unknown aliases": "query q() { match { $p: Person } return { «$p.age as a# » } order { «b#, » b } }",
    "unbound variables": "query q() { match { «$p#: Person $z#.age = 1 » } return { $p0 } }",
    "unbound values": "query q() { match { «$p#: Person $p#.age = $z# » } return { $p0 } }",
    "unconnected blocks": "query q() { match { «$p#: Person not { $z# knows $y } » } return { $p0 } }",
    "undeclared parameters": "query q(«$x#: I32, » $x: I32) { «insert Person { name: $z# } » }",
    "bare words": "query q() { match { «$p#: Person $p#.name = ann# » } return { $p0 } }",
    "variables bound twice": "query q() { match { $p: Person «$p: City » } return { $p } }",
    "comparisons of nodes": "query q() { match { «$p#: Person $p# = $p# » } return { $p0 } }",
    "twofold assignments": 'query q() { insert Person { «name: "x" » } }',
    "unknown assignments": 'query q() { «insert Person { name: "x" nme#: 1 } » }',
}

CATALOG = compile_schema(
    Source(
        "schema.pg",
        "node Person { name: String @key age: I32? } node City {} "
        "edge Knows: Person -> Person { since: I32? }",
    )
)


@pytest.mark.parametrize("template", SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_costs_what_its_length_says(template: str) -> None:
    small, large = (write(template, count) for count in (SIZE, SIZE * GROWTH))

    ratio = effort_for_schema(large) / effort_for_schema(small)

    assert ratio <= RATIO_MAX


@pytest.mark.parametrize("template", QUERIES.values(), ids=QUERIES)
def test_a_query_costs_what_its_length_says(template: str) -> None:
    small, large = (write(template, count) for count in (SIZE, SIZE * GROWTH))

    ratio = effort_for_queries(large) / effort_for_queries(small)

    assert ratio <= RATIO_MAX


def test_a_chain_of_traversals_costs_the_same_from_either_end() -> None:
    walks = [f"$p{i} knows $p{i + 1}" for i in range(SIZE)]
    forward, backward = (
        f"query q() {{ match {{ $p0: Person {' '.join(each)} }} return {{ $p0 }} }}"
        for each in (walks, reversed(walks))
    )

    ratio = effort_for_queries(backward) / effort_for_queries(forward)

    assert ratio <= 1.2


def write(template: str, count: int) -> str:
    """The text of a template, its marked parts repeated."""
    return re.sub(
        "«(.*?)»",
        lambda part: "".join(part[1].replace("#", str(i)) for i in range(count)),
        template,
    )


def effort_for_schema(text: str) -> int:
    return _effort(lambda: compile_schema(Source("x.pg", text)))


def effort_for_queries(text: str) -> int:
    return _effort(lambda: compile_queries(Source("x.gq", text), CATALOG))


def _effort(compile: Callable[[], object]) -> int:
    def run() -> None:
        with suppress(CompileError):
            compile()

    run()  # the first one also makes the scanners that it needs
    return count_lines(run)
