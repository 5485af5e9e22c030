"""The order of clauses decides what the checker accepts, and never what a query does."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.compiler.ir import ReadIR
from omnigraph.errors import CompileError
from tests.support.pipelines import bound_variables, find_faults
from tests.support.queries import compile_text, query
from tests.support.schemas import CREW

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
        ir = compile_text(CREW, query(f"match {{ {pattern} }} return {{ count(*) as n }}")).ir
    except CompileError:
        return None
    assert isinstance(ir, ReadIR)
    return ir
