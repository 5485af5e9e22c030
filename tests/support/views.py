"""Views: a caller that sees only a part of a graph, and the graph that consists of just that part.

The part is computed by plain Python over plain rows, without the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from omnigraph import Graph
from omnigraph.compiler.schema.canonical import format_schema
from omnigraph.engine.graph import open_graph
from omnigraph.engine.rows.conditions import compile_row_condition
from omnigraph.model.catalog import Check, Constraint, EdgeType, NodeType, Range
from omnigraph.model.ports import Access, TypeView, View
from tests.support.condition_oracle import holds
from tests.support.oracle_pipeline import Entity
from tests.support.read_graphs import NOW, PlainGraph, types_of
from tests.support.schemas import compile_text

READER = "reader"

T = TypeVar("T", NodeType, EdgeType)
TypeViews = Mapping[str, TypeView]


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Allows everything to every caller, and returns the view that each was given."""

    view_by_actor: Mapping[str, View]

    def require(self, access: Access) -> None:
        """Allow it."""

    def view(self, access: Access) -> View | None:
        """What an actor sees of every branch."""
        return self.view_by_actor.get(access.actor or "")


def see_as_reader(graph: Graph, types: TypeViews) -> Graph:
    """The same graph, opened again for a caller that sees some types only in part."""
    return see_as(graph, {READER: types}, actor=READER)


def see_as(graph: Graph, types_by_actor: Mapping[str, TypeViews], *, actor: str) -> Graph:
    """The same graph, opened again for one of several callers that see different parts of it."""
    views = {name: View(name, types) for name, types in types_by_actor.items()}
    settings = replace(graph._open.settings, gate=OpenGate(views))  # noqa: SLF001 - a test's own gate
    return open_graph(settings, actor=actor, is_read_only=False)


# The part


def part_of(graph: PlainGraph, types: TypeViews) -> PlainGraph:
    """The graph of only the rows and properties that are seen."""
    rows: dict[str, Sequence[Entity]] = {}
    for name, declared in types_of(graph.catalog).items():
        seen = [row for row in graph.rows_by_type[name] if is_seen(row, declared, graph, types)]
        if isinstance(declared, EdgeType):
            sources, targets = (
                {row["id"] for row in rows[each]} for each in (declared.source, declared.target)
            )
            seen = [row for row in seen if row["src"] in sources and row["dst"] in targets]
        rows[name] = seen
    hidden = {name: each.hidden for name, each in types.items()}
    shown = {
        name: [
            {column: cell for column, cell in row.items() if column not in hidden.get(name, ())}
            for row in rows[name]
        ]
        for name in rows
    }
    schema = schema_of_part(graph, types)
    return PlainGraph(schema, compile_text(schema), shown)


def is_seen(
    row: Entity, declared: NodeType | EdgeType, graph: PlainGraph, types: TypeViews
) -> bool:
    """Whether one of the conditions on a type, if there are any, holds for a row of it."""
    view = types.get(declared.name)
    if view is None or view.conditions is None:
        return True
    named = {**row, "from": row.get("src"), "to": row.get("dst")}
    return any(
        holds(
            compile_row_condition(
                text, declared, catalog=graph.catalog, parameters="$actor: String?"
            ),
            named,
            values={"actor": READER},
            now=NOW,
        )
        for text in view.conditions
    )


def schema_of_part(graph: PlainGraph, types: TypeViews) -> str:
    """The schema without the hidden properties."""
    catalog = graph.catalog
    return format_schema(
        replace(
            catalog,
            nodes={name: _without(each, types) for name, each in catalog.nodes.items()},
            edges={name: _without(each, types) for name, each in catalog.edges.items()},
        )
    )


def _without(declared: T, types: TypeViews) -> T:
    view = types.get(declared.name)
    hidden = frozenset[str]() if view is None else view.hidden
    properties = {name: each for name, each in declared.properties.items() if name not in hidden}
    constraints = tuple(each for each in declared.constraints if hidden.isdisjoint(_named_by(each)))
    return replace(declared, properties=properties, constraints=constraints)


def _named_by(constraint: Constraint) -> Sequence[str]:
    if isinstance(constraint, Range | Check):
        return (constraint.property,)
    return constraint.columns
