"""Resolved clauses to a pipeline; connected components."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.compiler.ir import (
    ANONYMOUS,
    AntiJoin,
    Condition,
    Direction,
    Expand,
    Filter,
    NodeScan,
    NullTest,
    OptionalJoin,
    PropertyValue,
    ReadIR,
    SameEntity,
)
from omnigraph.compiler.query.clauses import (
    ResolvedBinding,
    ResolvedBlock,
    ResolvedClause,
    ResolvedFilter,
    ResolvedTraversal,
)
from omnigraph.compiler.query.lower import lower_clauses
from omnigraph.errors import CompileError
from omnigraph.model.types import STRING
from tests.support.pipelines import bound_variables, find_faults, sketch
from tests.support.queries import compile_text, query
from tests.support.schemas import FLEET

PILOTS = ("a", "b", "c")
SHIPS = ("s", "t")

BINDINGS = (
    *(f"${name}: Pilot" for name in PILOTS),
    *(f'${name}: Pilot {{ handle: "x" }}' for name in PILOTS),
    *(f"${name}: Ship" for name in SHIPS),
)
WALKS = (
    *(f"${one} mentors ${other}" for one in (*PILOTS, "_") for other in (*PILOTS, "_")),
    *(f"${one} <mentors>{{1,2}} ${other}" for one in PILOTS for other in PILOTS),
    *(f"${pilot} flies ${ship}" for pilot in (*PILOTS, "_") for ship in (*SHIPS, "_")),
    *(f"${ship} flies ${pilot}" for pilot in PILOTS for ship in SHIPS),
)
FILTERS = (
    *(f"${name}.hours > 3" for name in PILOTS),
    *(f"${one}.handle != ${other}.handle" for one in PILOTS for other in PILOTS if one < other),
    *(f"${name}.tons is null" for name in SHIPS),
)
BLOCKS = (
    *(f"not {{ ${name} mentors $x  $x.hours > 3 }}" for name in PILOTS),
    *(f"not {{ ${name} flies $y  $y: Ship {{ tons: 3 }} }}" for name in PILOTS),
    *(f"not {{ ${name} flies $s }}" for name in PILOTS),
    *(f"optional {{ ${name} mentors $o{name}  $o{name} flies $z{name} }}" for name in PILOTS),
    *(f"optional {{ ${name} flies $s  not {{ $s.tons > 3 }} }}" for name in PILOTS),
)


@st.composite
def orders(draw: DrawFn) -> tuple[list[str], list[str]]:
    """The same clauses twice: once with what binds before what looks, once in another order."""
    groups = [
        draw(st.lists(st.sampled_from(clauses), min_size=least, max_size=most, unique=True))
        for clauses, least, most in (
            (BINDINGS, 1, 3),
            (WALKS, 0, 4),
            (FILTERS, 0, 2),
            (BLOCKS, 0, 3),
        )
    ]
    binding, looking = list(chain(*groups[:2])), list(chain(*groups[2:]))
    # Few orders of all clauses are accepted, but nearly every one that keeps the two halves apart.
    halves = draw(st.permutations(binding)) + draw(st.permutations(looking))
    return binding + looking, draw(st.sampled_from([halves, draw(st.permutations(halves))]))


@given(orders())
def test_clause_order_changes_no_variable_of_the_pipeline(
    both: tuple[list[str], list[str]],
) -> None:
    written, shuffled = (find_read(clauses) for clauses in both)

    if written is not None and shuffled is not None:
        assert bound_variables(written.pipeline) == bound_variables(shuffled.pipeline)


@given(orders())
def test_everything_is_bound_once_and_before_it_is_used(
    both: tuple[list[str], list[str]],
) -> None:
    for read in map(find_read, both):
        assert read is None or find_faults(read) == []


def test_many_shuffled_patterns_are_accepted() -> None:
    # Otherwise the tests above would promise little.
    assert find_read(["$b mentors $c", "$a mentors $b", "$a: Pilot", "$c.hours > 3"]) is not None
    assert (
        find_read(["$a flies $s", "$b flies $s", "$s: Ship", "not { $a mentors $x }"]) is not None
    )


def find_read(clauses: list[str]) -> ReadIR | None:
    """The read with these clauses, unless the checker refuses their order."""
    pattern = "\n".join(clauses)
    try:
        ir = compile_text(FLEET, query(f"match {{ {pattern} }} return {{ count(*) as n }}")).ir
    except CompileError:
        return None
    assert isinstance(ir, ReadIR)
    return ir


def test_a_chain_is_one_scan_and_an_expansion_for_each_edge() -> None:
    assert lowered(bind("a"), walk("a", "b"), walk("b", "c")) == (
        "scan(a), expand(a>b out), expand(b>c out)"
    )


def test_a_fan_in_is_walked_back_from_the_shared_end() -> None:
    assert lowered(bind("a"), walk("a", "c"), bind("b"), walk("b", "c")) == (
        "scan(a), expand(a>c out), expand(c>b in)"
    )


def test_parts_that_no_edge_connects_are_scanned_each() -> None:
    assert lowered(bind("a"), bind("b")) == "scan(a), scan(b)"


def test_an_anonymous_end_connects_nothing() -> None:
    pattern = (bind("a"), walk("a", ANONYMOUS), bind("b"), walk("b", ANONYMOUS))

    assert lowered(*pattern) == "scan(a), scan(b), expand(a>_ out), expand(b>_ out)"


def test_the_first_variable_that_is_declared_is_the_root_of_its_part() -> None:
    assert lowered(walk("a", "b"), bind("b"), bind("a")) == "scan(b), expand(b>a in)"


def test_the_source_is_scanned_where_nothing_is_declared() -> None:
    assert lowered(walk("a", "b")) == "scan(a), expand(a>b out)"


def test_a_traversal_from_an_anonymous_node_starts_at_its_target() -> None:
    assert lowered(walk(ANONYMOUS, "b")) == "scan(b), expand(b>_ in)"


def test_a_traversal_between_anonymous_nodes_starts_at_a_hidden_variable() -> None:
    twice = (walk(ANONYMOUS, ANONYMOUS), walk(ANONYMOUS, ANONYMOUS))

    assert lowered(*twice) == "scan(_'), expand(_'>_ out), scan(_'2), expand(_'2>_ out)"


def test_walks_wait_until_one_of_their_ends_is_reached() -> None:
    assert lowered(walk("c", "d"), walk("b", "c"), bind("a"), walk("a", "b")) == (
        "scan(a), expand(a>b out), expand(b>c out), expand(c>d out)"
    )


def test_an_undirected_walk_has_no_direction_to_turn() -> None:
    both = walk("a", "b", direction=Direction.BOTH)

    assert lowered(bind("b"), both) == "scan(b), expand(b>a both)"


def test_a_walk_backwards_turns_the_direction_and_the_type() -> None:
    back = ResolvedTraversal("s", "Ship", "p", "Pilot", "Flies", Direction.IN, 1, 1, None)

    assert lower_clauses((bind("p"), back)) == (
        NodeScan("p", "Pilot", ()),
        Expand("p", "s", "Flies", Direction.OUT, "Ship", 1, 1, (), None),
    )


def test_a_cycle_is_closed_by_comparing_what_is_reached() -> None:
    pipeline = lower_clauses((bind("a"), walk("a", "b"), walk("b", "a")))

    assert pipeline[2:] == (
        Expand("b", "a'", "Mentors", Direction.OUT, "Pilot", 1, 1, (), None),
        Filter(SameEntity("a'", "a")),
    )


def test_each_cycle_gets_a_variable_of_its_own() -> None:
    pattern = (bind("a"), walk("a", "b"), walk("b", "a"), walk("b", "a"))

    assert lowered(*pattern) == (
        "scan(a), expand(a>b out), expand(b>a' out), filter, expand(b>a'2 out), filter"
    )


def test_a_walk_to_itself_closes_a_cycle_at_once() -> None:
    assert lowered(walk("a", "a")) == "scan(a), expand(a>a' out), filter"


def test_conditions_go_where_their_variable_is_bound() -> None:
    pattern = (bind("a", is_null("a")), walk("a", "b"), bind("b", is_null("b"), is_null("b")))

    assert lowered(*pattern) == "scan(a where 1), expand(a>b out where 2)"


def test_binding_again_adds_conditions_and_no_scan() -> None:
    assert lowered(bind("a", is_null("a")), bind("a", is_null("a"))) == "scan(a where 2)"


def test_hops_and_edge_variables_are_preserved() -> None:
    far = ResolvedTraversal("a", "Pilot", "b", "Pilot", "Mentors", Direction.OUT, 2, 3, None)
    named = ResolvedTraversal("b", "Pilot", "c", "Pilot", "Mentors", Direction.OUT, 1, 1, "w")

    assert lower_clauses((bind("a"), far, named))[1:] == (
        Expand("a", "b", "Mentors", Direction.OUT, "Pilot", 2, 3, (), None),
        Expand("b", "c", "Mentors", Direction.OUT, "Pilot", 1, 1, (), "w"),
    )


def test_filters_come_behind_every_expansion_and_negations_behind_filters() -> None:
    negation = negate(("a",), (walk("a", ANONYMOUS),))
    pattern = (bind("a"), negation, keep("a"), walk("a", "b", edge="w"), keep("w"))

    assert lowered(*pattern) == (
        "scan(a), expand(a>b out), filter, filter, anti(a: expand(a>_ out))"
    )


def test_a_negation_starts_from_the_variables_around_it() -> None:
    inner = (walk("a", "x"), walk("x", "y"), keep("y"))

    assert lowered(bind("a"), negate(("a",), inner)) == (
        "scan(a), anti(a: expand(a>x out), expand(x>y out), filter)"
    )


def test_a_binding_inside_a_negation_is_scanned_and_compared() -> None:
    inner = (walk("a", "x"), bind("x", is_null("x")))

    assert lowered(bind("a"), negate(("a",), inner)) == (
        "scan(a), anti(a: scan(x where 1), expand(a>x' out), filter)"
    )


def test_binding_an_outer_variable_inside_a_negation_is_a_condition_on_it() -> None:
    condition = is_null("a")

    pipeline = lower_clauses((bind("a"), negate(("a",), (bind("a", condition),))))

    assert pipeline == (NodeScan("a", "Pilot", ()), AntiJoin(("a",), (Filter(condition),)))


def test_a_part_of_a_negation_that_no_outer_variable_reaches_is_scanned() -> None:
    inner = (keep("a"), walk("x", "y"))

    assert lowered(bind("a"), negate(("a",), inner)) == (
        "scan(a), anti(a: scan(x), expand(x>y out), filter)"
    )


def test_both_outer_ends_inside_a_negation_close_a_cycle() -> None:
    negation = negate(("a", "b"), (walk("a", "b"),))

    assert lowered(bind("a"), bind("b"), negation) == (
        "scan(a), scan(b), anti(a b: expand(a>b' out), filter)"
    )


def test_two_negations_may_use_one_name_for_different_things() -> None:
    first, second = (negate(("a",), (walk("a", "x"),)) for _ in range(2))

    assert lowered(bind("a"), first, second) == (
        "scan(a), anti(a: expand(a>x out)), anti(a: expand(a>x out))"
    )


def test_an_optional_block_comes_last_with_the_filters_on_its_variables() -> None:
    optional = offer(("a",), (walk("a", "x", edge="w"),))
    late_negation = negate(("x",), (keep("x"),))
    pattern = (bind("a"), optional, keep("x"), keep("w"), late_negation, keep("a"))

    assert lowered(*pattern) == (
        "scan(a), filter, optional(a: expand(a>x out)), filter, filter, anti(x: filter)"
    )


def test_conditions_inside_an_optional_block_stay_inside() -> None:
    optional = offer(("a",), (walk("a", "x"), keep("x")))

    assert lowered(bind("a"), optional) == "scan(a), optional(a: expand(a>x out), filter)"


def test_an_optional_block_may_build_on_another() -> None:
    first = offer(("a",), (walk("a", "x"),))
    second = offer(("x",), (walk("y", "x"),))

    assert lowered(bind("a"), first, second, keep("y")) == (
        "scan(a), optional(a: expand(a>x out)), optional(x: expand(x>y in)), filter"
    )


def test_a_nested_optional_block_exposes_its_variables_to_the_outer_query() -> None:
    nested = offer(("x",), (walk("x", "y"),))
    optional = offer(("a",), (walk("a", "x"), nested))

    assert lowered(bind("a"), optional, keep("y")) == (
        "scan(a), optional(a: expand(a>x out), optional(x: expand(x>y out))), filter"
    )


def test_temporary_variables_of_optional_blocks_stay_apart() -> None:
    first, second = (offer(("a", "b"), (walk("a", "b"),)) for _ in range(2))

    assert lower_clauses((bind("a"), bind("b"), first, second))[2:] == (
        OptionalJoin(("a", "b"), (to_temporary("b'"), Filter(SameEntity("b'", "b")))),
        OptionalJoin(("a", "b"), (to_temporary("b'2"), Filter(SameEntity("b'2", "b")))),
    )


def bind(variable: str, *conditions: Condition) -> ResolvedBinding:
    return ResolvedBinding(variable, "Pilot", conditions)


def walk(
    source: str, target: str, *, direction: Direction = Direction.OUT, edge: str | None = None
) -> ResolvedTraversal:
    return ResolvedTraversal(source, "Pilot", target, "Pilot", "Mentors", direction, 1, 1, edge)


def negate(outer: tuple[str, ...], clauses: tuple[ResolvedClause, ...]) -> ResolvedBlock:
    return ResolvedBlock(outer, clauses, is_optional=False)


def offer(outer: tuple[str, ...], clauses: tuple[ResolvedClause, ...]) -> ResolvedBlock:
    return ResolvedBlock(outer, clauses, is_optional=True)


def keep(variable: str) -> ResolvedFilter:
    return ResolvedFilter(is_null(variable), frozenset({variable}))


def is_null(variable: str) -> NullTest:
    return NullTest(PropertyValue(variable, "handle", STRING), is_negated=False)


def to_temporary(target: str) -> Expand:
    return Expand("a", target, "Mentors", Direction.OUT, "Pilot", 1, 1, (), None)


def lowered(*clauses: ResolvedClause) -> str:
    return sketch(lower_clauses(clauses))
