"""A query that costs too much ends with an error, and with nothing else."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.read.budget import Allowance
from omnigraph.engine.read.expand import TraversalMode
from omnigraph.engine.settings import make_settings
from omnigraph.errors import LimitExceededError, Outcome
from tests.support.graphs import build_graph, edge, node, unchanged
from tests.support.queries import query

PEOPLE = 40
SCHEMA = """
node Person { name: String @key  age: I32 }
edge Knows: Person -> Person
"""

ALL_PEOPLE = query("match { $p: Person } return { $p.name }")
COUNTED = query("match { $p: Person } return { count(*) as people }")
PAIRS = query("match { $p: Person $q: Person } return { $p.name, $q.name }")
COUNTED_PAIRS = query("match { $p: Person $q: Person } return { count(*) as pairs }")
BY_AGE = query("match { $p: Person $q: Person $p.age = $q.age } return { $p.name, $q.name }")
WALKS = query("match { $p: Person $p knows $f $f knows $g } return { $p.name, $g.name }")
REACH = query("match { $p: Person $p knows{1,3} $f } return { $p.name, $f.name }")
UNNAMED = query("match { $p: Person $p knows $_ $p knows $_ } return { $p.name }")


def crowd(path: Path) -> None:
    """Forty people of one age who all know each other."""
    names = [f"p{number:02d}" for number in range(PEOPLE)]
    build_graph(
        path,
        SCHEMA,
        *(node("Person", name=name, age=30) for name in names),
        *(edge("Knows", one, other) for one in names for other in names),
    ).close()


def stand_still() -> float:
    """No time passes."""
    return 0.0


def open_with_budget(
    path: Path,
    *,
    bytes_max: int = 2**30,
    clock: Callable[[], float] = stand_still,
    traversal: TraversalMode = TraversalMode.AUTO,
) -> Graph:
    """The graph of a directory whose queries may take so many bytes, and ten seconds."""
    settings = make_settings(path, storage_options=None, durability="relaxed")
    settings = replace(settings, allowance=Allowance(bytes_max, 10.0, clock), traversal=traversal)
    return open_graph(settings, actor=None, is_read_only=False)


@pytest.mark.parametrize("traversal", [TraversalMode.CSR, TraversalMode.INDEXED])
@pytest.mark.parametrize(
    "text",
    [PAIRS, BY_AGE, WALKS, REACH, UNNAMED],
    ids=["a product", "a join", "two hops", "many hops", "repeated rows"],
)
def test_a_query_that_needs_too_much_memory_is_refused_and_the_next_one_runs(
    tmp_path: Path, text: str, traversal: TraversalMode
) -> None:
    crowd(tmp_path)
    graph = open_with_budget(tmp_path, bytes_max=PEOPLE * PEOPLE * 8 - 1, traversal=traversal)

    with unchanged(graph), pytest.raises(LimitExceededError) as refused:
        graph.query(text)

    assert "the memory of a query" in str(refused.value)
    assert refused.value.limit < refused.value.found
    assert refused.value.outcome is Outcome.UNCHANGED
    assert len(graph.query(ALL_PEOPLE)) == PEOPLE


@pytest.mark.parametrize("text", [PAIRS, BY_AGE, WALKS, REACH, UNNAMED])
def test_the_same_query_runs_with_enough_memory(tmp_path: Path, text: str) -> None:
    crowd(tmp_path)
    graph = open_with_budget(tmp_path, bytes_max=2**30)

    assert len(graph.query(text)) >= PEOPLE * PEOPLE


def test_rows_that_are_only_counted_need_no_memory(tmp_path: Path) -> None:
    crowd(tmp_path)
    graph = open_with_budget(tmp_path, bytes_max=PEOPLE * PEOPLE * 8 - 1)

    assert graph.query(COUNTED_PAIRS).rows == [{"pairs": PEOPLE * PEOPLE}]


def test_more_rows_than_any_machine_can_store_are_refused_before_they_are_built(
    tmp_path: Path,
) -> None:
    crowd(tmp_path)
    graph = open_with_budget(tmp_path, bytes_max=2**30)
    body = "match { $p: Person " + "$p knows $_ " * 8 + "}"

    with pytest.raises(LimitExceededError) as refused:
        graph.query(query(f"{body} return {{ $p.name }}"))

    assert refused.value.found == PEOPLE**9 * 8
    assert graph.query(query(f"{body} return {{ count(*) as n }}")).rows == [{"n": PEOPLE**9}]


def test_rows_beyond_the_limit_of_a_query_need_no_memory(tmp_path: Path) -> None:
    crowd(tmp_path)
    graph = open_with_budget(tmp_path, bytes_max=PEOPLE**3 * 8 - 1)
    body = "match { $p: Person $p knows $_ $p knows $_ } return { $p.name }"

    with pytest.raises(LimitExceededError):
        graph.query(query(body))

    few = graph.query(query(f"{body} offset 38 limit 4"))
    assert [row["p.name"] for row in few] == ["p00"] * 4


def test_a_query_that_takes_too_long_is_refused_and_the_next_one_runs(
    tmp_path: Path,
) -> None:
    crowd(tmp_path)
    seconds = itertools.count(0, 6)
    graph = open_with_budget(tmp_path, clock=partial(next, seconds))

    with unchanged(graph), pytest.raises(LimitExceededError) as refused:
        graph.query(WALKS)

    assert "the time of a query" in str(refused.value)
    assert refused.value.limit == 10
    assert graph.query(COUNTED).rows == [{"people": PEOPLE}]


def test_the_time_of_a_query_starts_with_the_query(tmp_path: Path) -> None:
    crowd(tmp_path)
    shown = [0.0]
    graph = open_with_budget(tmp_path, clock=lambda: shown[0])

    counts = []
    for _ in range(3):
        counts.append(len(graph.query(ALL_PEOPLE)))
        shown[0] += 100.0

    assert counts == [PEOPLE] * 3


def test_explaining_a_query_that_costs_too_much_costs_nothing(tmp_path: Path) -> None:
    crowd(tmp_path)
    graph = open_with_budget(tmp_path, bytes_max=1)

    assert "scan $p: Person" in graph.explain(PAIRS)


def test_a_column_that_is_too_large_to_be_held_is_not_read(tmp_path: Path) -> None:
    schema = "node Note { name: String @key  text: String }"
    count, letters = 5_000, 1_000
    notes = {
        "name": [f"n{n}" for n in range(count)],
        "text": [f"{n:0{letters}d}" for n in range(count)],
    }
    with build_graph(tmp_path, schema) as built:
        built.load({"Note": pa.table(notes)}, mode="append")
    graph = open_with_budget(tmp_path, bytes_max=200_000)
    search = query('match { $n: Note search($n.text, "0") } return { $n.name }')

    with unchanged(graph), pytest.raises(LimitExceededError):
        graph.query(search)

    one = query('match { $n: Note { name: "n7" } } return { $n.name }')
    assert graph.query(one).rows == [{"n.name": "n7"}]
