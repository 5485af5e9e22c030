"""Writes of thousands of rows against the model: more than are looked up one by one.

What is few is probed and what is many is scanned; a write must not show which way was taken.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import IntegrityError, KeyConflictError
from omnigraph.model.limits import PROBED_VALUES_MAX
from tests.support import graph_model
from tests.support.graph_model import (
    Accepted,
    Compare,
    Delete,
    Insert,
    Refused,
    Statement,
    Update,
    adopt,
)
from tests.support.graphs import (
    Contents,
    Record,
    contents,
    edge,
    head_versions,
    ndjson,
    node,
    pins,
    unchanged,
)
from tests.support.schemas import compile_text
from tests.support.writes import Mode

SCHEMA = """
node Person { name: String @key  age: I32?  email: String?  @unique(email) }
edge Knows: Person -> Person { n: I32? }
edge Likes: Person -> Person @card(1..2)
"""
CATALOG = compile_text(SCHEMA)
COUNT = 3 * PROBED_VALUES_MAX


class Both:
    """A graph and its model, written to together."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.graph = omnigraph.init(str(root), schema=SCHEMA, durability="relaxed")
        self.expected: Contents = {}

    def load(self, records: Sequence[Record], mode: Mode) -> None:
        """Load on both sides; both must accept."""
        predicted = graph_model.load(CATALOG, self.expected, records, mode)
        assert isinstance(predicted, Accepted)
        result = self.graph.load(ndjson(*records), mode=mode)
        assert result.nodes_loaded == dict(predicted.nodes)
        assert result.edges_loaded == dict(predicted.edges)
        self._compare(predicted)

    def mutate(self, source: str, *statements: Statement) -> None:
        """Mutate on both sides; both must accept."""
        predicted = graph_model.mutate(CATALOG, self.expected, statements)
        assert isinstance(predicted, Accepted)
        result = self.graph.mutate(f"query q() {{ {source} }}")
        assert result.affected_nodes == predicted.nodes.total()
        assert result.affected_edges == predicted.edges.total()
        self._compare(predicted)

    def _compare(self, predicted: Accepted) -> None:
        found = contents(self.graph)
        self.expected = adopt(predicted.state, found)
        assert found == self.expected
        counted = {key.partition(":")[2]: it.row_count for key, it in self.graph.tables().items()}
        assert counted == {name: len(found.get(name, {})) for name in counted}
        assert head_versions(self.root) == pins(self.graph)


def person(number: int, **properties: object) -> Record:
    return node("Person", name=f"p{number}", age=number % 100, email=None, **properties)


def crowd(root: Path) -> Both:
    """Thousands of people, each of whom knows the next and likes another."""
    both = Both(root)
    both.load(
        [
            *(person(number) for number in range(COUNT)),
            *(edge("Knows", f"p{n}", f"p{(n + 1) % COUNT}", id=f"k{n}", n=n) for n in range(COUNT)),
            *(edge("Likes", f"p{n}", f"p{(n + 7) % COUNT}", id=f"l{n}") for n in range(COUNT)),
        ],
        "append",
    )
    return both


def test_a_merge_of_many_replaces_and_adds(tmp_path: Path) -> None:
    both = crowd(tmp_path)

    both.load([person(number) for number in range(COUNT // 2, COUNT * 2)], "merge")
    both.load([edge("Knows", "p0", "p1", id=f"k{n}") for n in range(0, COUNT * 2, 2)], "merge")


def test_an_update_of_many_changes_each_once(tmp_path: Path) -> None:
    both = crowd(tmp_path)

    both.mutate(
        'update Person set { age: 200 } where age >= 40 insert Person { name: "new", age: 300 }'
        " update Person set { age: 7 } where age > 150",
        Update("Person", {"age": 200}, Compare("age", ">=", 40)),
        Insert("Person", {"name": "new", "age": 300}),
        Update("Person", {"age": 7}, Compare("age", ">", 150)),
    )


def test_a_delete_of_many_takes_their_edges_along(tmp_path: Path) -> None:
    both = crowd(tmp_path)
    # Without these, those who stay would lose the only ones that they like.
    both.load([edge("Likes", f"p{n}", f"p{n}", id=f"m{n}") for n in range(COUNT)], "append")

    both.mutate("delete Person where age >= 40", Delete("Person", Compare("age", ">=", 40)))
    both.mutate("delete Knows where n >= 0", Delete("Knows", Compare("n", ">=", 0)))
    both.mutate('delete Person where name != ""', Delete("Person", Compare("name", "!=", "")))

    assert both.expected == {}


def test_an_overwrite_of_many_replaces_them(tmp_path: Path) -> None:
    both = crowd(tmp_path)
    fewer = [number for number in range(COUNT) if number % 2]

    both.load(
        [
            *(person(number) for number in fewer),
            *(edge("Knows", f"p{n}", f"p{n}") for n in fewer),
            *(edge("Likes", f"p{n}", f"p{n}") for n in fewer),
        ],
        "overwrite",
    )


REFUSALS: dict[str, tuple[list[Record], Mode]] = {
    "one key of many is there": (
        [person(number) for number in range(COUNT - 1, COUNT * 2)],
        "append",
    ),
    "one edge id of many is there": (
        [edge("Knows", "p0", "p1", id=f"k{n}") for n in range(COUNT - 1, COUNT * 2)],
        "append",
    ),
    "one end of many is missing": (
        [edge("Knows", "p0", f"p{n}") for n in range(COUNT + 1)],
        "append",
    ),
    "one of many likes too many": (
        [edge("Likes", f"p{n // 2 if n < 4 else n}", "p0") for n in range(COUNT)],
        "append",
    ),
    "one value of many is held twice": (
        [node("Person", name=f"q{n}", email=f"e{n % (COUNT - 1)}") for n in range(COUNT)],
        "merge",
    ),
    "one end of many is left behind": (
        [person(number) for number in range(1, COUNT)],
        "overwrite",
    ),
}


@pytest.mark.parametrize(("records", "mode"), REFUSALS.values(), ids=REFUSALS)
def test_one_bad_row_among_many_refuses_them_all(
    tmp_path: Path, records: list[Record], mode: Mode
) -> None:
    both = crowd(tmp_path)
    predicted = graph_model.load(CATALOG, both.expected, records, mode)
    assert isinstance(predicted, Refused)

    with (
        unchanged(both.graph),
        pytest.raises((KeyConflictError, IntegrityError)) as refused,
    ):
        both.graph.load(ndjson(*records), mode=mode)

    error = refused.value
    if isinstance(error, IntegrityError):
        assert {(each.type, each.rule) for each in error.violations} == predicted.broken
    else:
        assert predicted.taken


def test_a_value_held_by_one_of_many_is_refused(tmp_path: Path) -> None:
    graph: Graph = omnigraph.init(str(tmp_path), schema=SCHEMA, durability="relaxed")
    names = [f"p{n}" for n in range(COUNT)]
    graph.load(
        {"Person": pa.table({"name": names, "email": [f"e{n}" for n in range(COUNT)]})},
        mode="append",
    )
    others = pa.table(
        {
            "name": [f"q{n}" for n in range(COUNT)],
            "email": [f"e{n + COUNT - 1}" for n in range(COUNT)],
        }
    )

    with unchanged(graph), pytest.raises(IntegrityError) as refused:
        graph.load({"Person": others}, mode="merge")

    (violation,) = refused.value.violations
    assert (violation.id, violation.value) == ("q0", f"e{COUNT - 1}")
