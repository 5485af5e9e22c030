"""Plans: where conditions go, and who is still asked for after each step."""

from collections.abc import Iterable, Sequence

import pytest

from omnigraph.compiler.ir import Condition, ReadIR
from omnigraph.compiler.ir_text import render_condition
from omnigraph.engine.read.plan import (
    AntiStep,
    ExpandStep,
    FilterStep,
    OptionalStep,
    Plan,
    ScanStep,
    Step,
    plan_read,
)
from tests.support.queries import compile_text, query

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? }
node Firm { name: String @key  size: I32? }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Firm
"""


def plan(body: str, *, parameters: str = "") -> Plan:
    """The plan of a query on people and firms."""
    ir = compile_text(SCHEMA, query(body, parameters=parameters)).ir
    assert isinstance(ir, ReadIR)
    return plan_read(ir)


def outline(steps: Iterable[Step]) -> list[object]:
    """Each step as a text: what it binds and the conditions it carries; blocks as lists."""
    return [_outline_one(step) for step in steps]


def _outline_one(step: Step) -> object:
    match step:
        case ScanStep(scan):
            return _line(f"scan {scan.variable}", scan.filters)
        case ExpandStep(expand, edge_filters):
            carried = (*expand.filters, *edge_filters)
            return _line(f"expand {expand.source} {expand.target}", carried)
        case FilterStep(condition):
            return _line("filter", [condition])
        case AntiStep(outer, inner):
            return ["not", *outer, outline(inner)]
        case OptionalStep(outer, inner):
            return ["optional", *outer, outline(inner)]


def _line(start: str, conditions: Sequence[Condition]) -> str:
    return " | ".join([start, *map(render_condition, conditions)])


def needed(steps: Iterable[Step]) -> list[str]:
    """The variables that are asked for after each step, as one word a step."""
    return ["".join(sorted(step.live)) for step in steps]


# Where conditions go


def test_a_condition_about_a_scanned_variable_goes_into_its_scan() -> None:
    found = plan("match { $p: Person $p.age > 30 } return { $p.name }")

    assert outline(found.steps) == ["scan p | $p.age > 30"]


def test_a_condition_about_a_reached_variable_goes_into_its_expansion() -> None:
    found = plan("match { $p: Person $p knows $f $f.age > 30 } return { $p.name }")

    assert outline(found.steps) == ["scan p", "expand p f | $f.age > 30"]


def test_a_condition_about_a_bound_edge_goes_with_the_expansion_but_not_to_its_nodes() -> None:
    found = plan("match { $p: Person $p $w:knows $f $w.since > 3 } return { $p.name }")

    (_scan, expand) = found.steps
    assert isinstance(expand, ExpandStep)
    assert expand.expand.filters == ()
    assert [render_condition(each) for each in expand.edge_filters] == ["$w.since > 3"]


def test_a_condition_about_two_variables_waits_for_the_last_of_them_and_no_longer() -> None:
    found = plan(
        "match { $p: Person $p knows $f $f knows $g $p.age < $f.age } return { $p.name, $g.name }"
    )

    assert outline(found.steps) == [
        "scan p",
        "expand p f",
        "filter | $p.age < $f.age",
        "expand f g",
    ]


def test_a_closed_cycle_is_checked_where_it_closes() -> None:
    found = plan(
        "match { $p: Person $p knows $f $f knows $p $f worksAt $c } return { $p.name, $c.name }"
    )

    assert [str(each).split(" | ")[0] for each in outline(found.steps)] == [
        "scan p",
        "expand p f",
        "expand f p'",
        "filter",
        "expand f c",
    ]


def test_a_condition_about_what_an_optional_block_binds_stays_behind_the_block() -> None:
    found = plan(
        "match { $p: Person optional { $p worksAt $c } $c.size > 3 } return { $p.name, $c.name }"
    )

    assert outline(found.steps) == [
        "scan p",
        ["optional", "p", ["expand p c"]],
        "filter | $c.size > 3",
    ]


def test_a_condition_inside_a_block_about_a_variable_around_it_comes_first_in_the_block() -> None:
    found = plan(
        "match { $p: Person optional { $p worksAt $c $p.age > 30 } } return { $p.name, $c.name }"
    )

    (_scan, block) = found.steps
    assert isinstance(block, OptionalStep)
    assert outline(block.inner) == ["filter | $p.age > 30", "expand p c"]


def test_a_condition_inside_a_block_goes_into_the_expansion_of_the_block() -> None:
    found = plan("match { $p: Person not { $p knows $f $f.age > 30 } } return { $p.name }")

    assert outline(found.steps) == ["scan p", ["not", "p", ["expand p f | $f.age > 30"]]]


def test_a_condition_between_a_block_and_its_surroundings_waits_inside_the_block() -> None:
    found = plan("match { $p: Person not { $q: Person $q.age > $p.age } } return { $p.name }")

    assert outline(found.steps) == [
        "scan p",
        ["not", "p", ["scan q", "filter | $q.age > $p.age"]],
    ]


def test_a_text_search_goes_where_other_conditions_of_its_variable_go() -> None:
    found = plan('match { $p: Person search($p.bio, "art") } return { $p.name }')

    (scan,) = found.steps
    assert isinstance(scan, ScanStep)
    assert len(scan.scan.filters) == 1


# What is still needed


def test_a_count_of_rows_needs_nothing_of_them() -> None:
    found = plan("match { $p: Person $p knows $f $f worksAt $c } return { count(*) as n }")

    assert needed(found.steps) == ["p", "f", ""]


@pytest.mark.parametrize("counted", ["count($p) as n", "count($f) as n", "count($c) as n"])
def test_counting_a_variable_that_is_always_bound_is_counting_rows(counted: str) -> None:
    found = plan(f"match {{ $p: Person $p knows $f $f worksAt $c }} return {{ {counted} }}")

    assert needed(found.steps)[-1] == ""


def test_counting_what_may_be_unbound_or_repeated_needs_to_know_it() -> None:
    optional = plan("match { $p: Person optional { $p worksAt $c } } return { count($c) as n }")
    distinct = plan("match { $p: Person $p knows $f } return { count(distinct $f.age) as n }")

    assert needed(optional.steps) == ["p", "c"]
    assert needed(distinct.steps) == ["p", "f"]


def test_a_group_needs_its_keys_and_arguments_alone() -> None:
    found = plan(
        "match { $p: Person $p knows $f $f worksAt $c } return { $c.name, sum($p.age) as years }"
    )

    assert needed(found.steps) == ["p", "fp", "cp"]
    assert found.ordering_variables == ()


def test_distinct_rows_need_their_columns_alone() -> None:
    found = plan("match { $p: Person $p knows $f } return distinct { $p.age }")

    assert needed(found.steps) == ["p", "p"]
    assert found.ordering_variables == ()


def test_plain_rows_need_every_named_variable_for_their_order() -> None:
    found = plan("match { $q: Person $q $w:knows $b $b knows $_ } return { $b.name }")

    assert needed(found.steps) == ["q", "bqw", "bqw"]
    assert found.ordering_variables == ("b", "q", "w")


def test_the_hidden_end_of_a_cycle_orders_nothing_and_is_dropped_once_it_is_checked() -> None:
    found = plan("match { $p: Person $p knows $f $f knows $p } return { $p.name }")

    assert needed(found.steps) == ["p", "fp", "fpp'", "fp"]
    assert found.ordering_variables == ("f", "p")


def test_a_sort_key_is_needed_to_the_end() -> None:
    found = plan("match { $p: Person $p knows $f } return { $p.name } order { $f.age } limit 3")

    assert needed(found.steps) == ["p", "fp"]


def test_a_ranked_variable_is_needed_to_the_end() -> None:
    found = plan(
        'match { $p: Person $p knows $_ } return { $p.name } order { bm25($p.bio, "art") } limit 3'
    )

    assert needed(found.steps) == ["p", "p"]


def test_a_block_needs_only_its_start_variables() -> None:
    found = plan(
        "match { $p: Person $p knows $f not { $f knows $g $g worksAt $c } } "
        "return { count(*) as n }"
    )

    assert needed(found.steps) == ["p", "f", ""]
    block = found.steps[-1]
    assert isinstance(block, AntiStep)
    assert needed(block.inner) == ["fg", "f"]


def test_an_optional_block_reads_the_columns_needed_after_it() -> None:
    body = "match { $p: Person optional { $p knows $f $f worksAt $c } } return "

    named = plan(body + "{ count($c) as n }").steps[-1]
    counted = plan(body + "{ count(*) as n }").steps[-1]

    assert isinstance(named, OptionalStep)
    assert isinstance(counted, OptionalStep)
    assert needed(named.inner) == ["fp", "cp"]
    assert needed(counted.inner) == ["fp", "p"]


def test_columns_that_only_a_nested_block_reads_are_needed_until_then() -> None:
    found = plan(
        "match { $p: Person $p knows $f "
        "not { $p knows $g not { $g knows $h $h.age > $f.age } } } return { $p.name }"
    )

    block = found.steps[-1]
    assert isinstance(block, AntiStep)
    assert block.outer == ("f", "p")
    assert needed(block.inner) == ["fgp", "fp"]


# What else a plan knows


def test_a_plan_knows_every_property_that_is_looked_at_wherever_it_is() -> None:
    found = plan(
        "match { $p: Person $p $w:knows $f $w.since > 3 "
        'search($f.bio, "art") not { $p worksAt $c $c.size > 3 } } '
        "return { $p.name, max($f.age) as oldest }"
    )

    assert found.properties == {"p": {"name"}, "w": {"since"}, "f": {"age", "bio"}, "c": {"size"}}


def test_a_plan_knows_the_types_of_variables_in_optional_blocks_too() -> None:
    found = plan(
        "match { $p: Person optional { $p worksAt $c } not { $p knows $x } } return { $p.name }"
    )

    assert found.type_by_variable == {"p": "Person", "c": "Firm"}
