"""Views of generated graphs: conditions on rows and hidden properties, chosen to cut through.

The values in a condition are mostly those of the graph, so that some rows pass and some do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.ports import TypeView
from omnigraph.model.types import PropertyType, Scalar
from tests.support.choices import Choices
from tests.support.generated_graphs import write_literal
from tests.support.generated_values import COMPARATORS, Values
from tests.support.oracle_pipeline import Entity
from tests.support.read_graphs import PlainGraph, types_of


@st.composite
def views(draw: DrawFn, graph: PlainGraph) -> Mapping[str, TypeView]:
    """A view of a graph; in most of them at least one type is visible only in part."""
    choices = Choices(draw)
    found = {}
    for name, declared in types_of(graph.catalog).items():
        if choices.count(2):
            conditions = None
            if choices.count(3):
                # A type without properties is seen whole or not at all.
                most = choices.one((1, 1, 2, 1, 0)) if _comparable(declared) else 0
                conditions = tuple(
                    _write_condition(choices, declared, graph.rows_by_type[name], depth=1)
                    for _ in range(most)
                )
            found[name] = TypeView(conditions, _choose_hidden(choices, declared))
    return found


def _choose_hidden(choices: Choices, declared: NodeType | EdgeType) -> frozenset[str]:
    key = declared.key if isinstance(declared, NodeType) else ()
    names = [name for name in declared.properties if name not in key]
    return frozenset(choices.some(names, least=0, most=2) if choices.often() else ())


def _write_condition(
    choices: Choices, declared: NodeType | EdgeType, rows: Sequence[Entity], *, depth: int
) -> str:
    if depth and choices.seldom():
        word = choices.one(("and", "or"))
        parts = (_write_condition(choices, declared, rows, depth=depth - 1) for _ in range(2))
        return f" {word} ".join(f"({each})" for each in parts)
    comparable = _comparable(declared)
    name = choices.one(list(comparable))
    if choices.seldom():
        return f"{name} is {choices.one(('not null', 'null'))}"
    return f"{name} {_write_comparison(choices, name, comparable[name], rows)}"


def _comparable(declared: NodeType | EdgeType) -> dict[str, PropertyType]:
    """What a condition may compare: properties, and the ends of an edge."""
    comparable = {
        name: each.type
        for name, each in declared.properties.items()
        if isinstance(each.type.element, Scalar) and not each.type.is_blob and not each.type.is_list
    }
    ends = {"from": _TEXT, "to": _TEXT} if isinstance(declared, EdgeType) else {}
    return comparable | ends


_TEXT = PropertyType(Scalar.STRING)
_COLUMNS = {"from": "src", "to": "dst"}


def _write_comparison(
    choices: Choices, name: str, type: PropertyType, rows: Sequence[Entity]
) -> str:
    comparator = choices.one(("=", "!=", *COMPARATORS))
    if type == _TEXT and choices.seldom():
        return f"{comparator} $actor"
    cells = [row[_COLUMNS.get(name, name)] for row in rows]
    stored = [text for text in map(write_literal, cells) if text is not None]
    free = Values(choices).write_literal(type)
    if choices.seldom():
        return f"in [{', '.join([*stored[:2], free])}]"
    return f"{comparator} {choices.one([*stored * 3, free])}"
