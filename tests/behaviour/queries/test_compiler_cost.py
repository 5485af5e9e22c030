"""Four times the text costs about four times the work, whichever part of it grows."""

import re
from collections.abc import Callable
from contextlib import suppress

import pytest

from omnigraph.compiler.compile import compile_queries, compile_schema
from omnigraph.errors import CompileError
from omnigraph.model.source import Source
from tests.support.effort import count_lines

# Above the number of diagnostics at which reporting stops, because each of those has a price.
SIZE = 60
GROWTH = 4
RATIO_MAX = 4.6

# The text between « and » is repeated; # is the number of the repetition.
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
    "repeated properties": "interface I { «p#: I32 » } node N implements I { «p#: I32 » }",
    "interfaces": "«interface I# { p#: I32 } » interface I {} node N implements «I#, » I {}",
    "mentions of one interface": "interface I { «p#: I32 » } node N implements «I, » I {}",
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
    "inserts": 'query q() { «insert Person { name: "x" age: # } » }',
    "conditions of a delete": "query q() { delete Person where «age = # or » age = 1 }",
    "queries with a fault": "«query q#() { match { $p: Persn } return { $p } } »",
    "undeclared parameters": "query q(«$x#: I32, » $x: I32) { «insert Person { name: $z# } » }",
    "twofold assignments": 'query q() { insert Person { «name: "x" » } }',
    "unknown assignments": 'query q() { «insert Person { name: "x" nme#: 1 } » }',
}

CLAUSES = {
    "bindings": "«$p#: Person »",
    "conditions in braces": "$q: Person { «age: #, » }",
    "bindings of one variable": "«$p: Person { age: # } »",
    "traversals": "«$p knows $f# »",
    "closed cycles": "«$p knows $f »",
    "anonymous traversals": "«$_ knows $_ »",
    "edge variables": "«$p $e#: knows $f# $e#.since = 1 »",
    "filters": "«$p.age > # »",
    "alternatives": "«$p.age = # or » $p.age = 1",
    "negations": "«not { $p knows $f } »",
    "negations among variables": "«$p#: Person not { $p# knows $f } »",
    "optional blocks": "«optional { $p knows $f# } »",
    "list elements": "$p.age in [«#, » 1]",
    "unknown node types": "«$p#: Persn# »",
    "unknown edges": "«$p knws# $f »",
    "unknown properties": "«$p.ag# = 1 »",
    "unbound variables": "«$p#: Person $z#.age = 1 »",
    "unbound values": "«$p#: Person $p#.age = $z# »",
    "unconnected blocks": "«$p#: Person not { $z# knows $y } »",
    "bare words": "«$p#: Person $p#.name = ann# »",
    "variables bound twice": "«$p: City »",
    "comparisons of nodes": "«$p#: Person $p# = $p# »",
}

OUTPUTS = {
    "arguments": "return { count(«*, 1, » 1) }",
    "columns": "return { «$p.age as a# » }",
    "aggregates": "return { «max($p.age) as a#, » }",
    "sort keys": "return { «$p.age as a# » } order { «a#, » a0 }",
    "group keys": "return { «$p.age count(*) as a# » } order { «$p.age, » a0 }",
    "unknown functions": "return { «cont#(*) » }",
    "unknown aliases": "return { «$p.age as a# » } order { «b#, » b }",
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
    ratio = _growth(template, lambda text: compile_schema(Source("x.pg", text)))

    assert ratio <= RATIO_MAX


@pytest.mark.parametrize("template", QUERIES.values(), ids=QUERIES)
def test_a_query_file_costs_what_its_length_says(template: str) -> None:
    ratio = _growth(template, _compile_queries)

    assert ratio <= RATIO_MAX


@pytest.mark.parametrize("template", CLAUSES.values(), ids=CLAUSES)
def test_a_pattern_costs_what_its_length_says(template: str) -> None:
    query = f"query q() {{ match {{ $p: Person {template} }} return {{ $p }} }}"

    ratio = _growth(query, _compile_queries)

    assert ratio <= RATIO_MAX


def test_a_chain_of_traversals_costs_the_same_from_either_end() -> None:
    walks = [f"$p{i} knows $p{i + 1}" for i in range(SIZE)]
    forward, backward = (
        f"query q() {{ match {{ $p0: Person {' '.join(each)} }} return {{ $p0 }} }}"
        for each in (walks, reversed(walks))
    )
    _compile_queries(forward)

    ratio = count_lines(lambda: _compile_queries(backward)) / count_lines(
        lambda: _compile_queries(forward)
    )

    assert ratio <= 1.1


@pytest.mark.parametrize("template", OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_costs_what_its_length_says(template: str) -> None:
    query = f"query q() {{ match {{ $p: Person }} {template} }}"

    ratio = _growth(query, _compile_queries)

    assert ratio <= RATIO_MAX


def _compile_queries(text: str) -> object:
    return compile_queries(Source("x.gq", text), CATALOG)


def _growth(template: str, compile: Callable[[str], object]) -> float:
    """How many times the work the longer text is, errors included."""
    small, large = (_repeat(template, count) for count in (SIZE, SIZE * GROWTH))

    def run(text: str) -> None:
        with suppress(CompileError):
            compile(text)

    run(small)  # the first one also makes the scanners that it needs
    return count_lines(lambda: run(large)) / count_lines(lambda: run(small))


def _repeat(template: str, count: int) -> str:
    return re.sub(
        "«(.*?)»",
        lambda part: "".join(part[1].replace("#", str(i)) for i in range(count)),
        template,
    )
