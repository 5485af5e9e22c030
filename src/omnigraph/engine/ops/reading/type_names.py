"""Types by the names that callers give them: as declared, edges in any case."""

from __future__ import annotations

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.engine.commit.integrity.violations import show_text
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import InvalidValueError, NotFoundError
from omnigraph.model.names import find_near_name


def get_type(name: object, catalog: Catalog) -> NodeType | EdgeType:
    """The type that a name means; `InvalidValueError` if it means none."""
    found = find_type(name, catalog) if isinstance(name, str) else None
    if found is None:
        near = find_near_name(str(name), [*catalog.nodes, *catalog.edges])
        advice = "" if near is None else f"; did you mean '{near}'?"
        raise _refuse(name, f"unknown node type or edge type {show_text(str(name))}{advice}")
    return found


def get_stored_type(name: str, catalog: Catalog) -> NodeType | EdgeType:
    """The type whose rows a read asks for; `NotFoundError` if there is none."""
    found = find_type(name, catalog)
    if found is None:
        advice = advise_name(name, {*catalog.nodes, *catalog.edges}) or ""
        raise NotFoundError(kind="type", name=name, advice=advice)
    return found


def find_type(name: str, catalog: Catalog) -> NodeType | EdgeType | None:
    """The same, or None; a name of both kinds has to say which: `node:Name` or `edge:Name`."""
    kind, _, bare = name.rpartition(":")
    node = catalog.nodes.get(bare) if kind in ("", TypeKind.NODE) else None
    edge = catalog.find_edge(bare) if kind in ("", TypeKind.EDGE) else None
    if node and edge:
        advice = f"say 'node:{node.name}' or 'edge:{edge.name}'"
        raise _refuse(name, f"'{name}' is a node type and an edge type; {advice}")
    return node or edge


def _refuse(name: object, problem: str) -> InvalidValueError:
    return InvalidValueError(subject="load", expected="type name", value=name, problem=problem)
