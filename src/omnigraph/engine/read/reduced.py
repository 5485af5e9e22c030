"""Catalogs without some properties: what somebody sees of a schema from whom they are hidden.

Whatever names such a property goes with it: constraints, the properties of interfaces. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import (
    Annotation,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    Index,
    Interface,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
)
from omnigraph.model.names import fold_edge_name


def reduce_catalog(catalog: Catalog, hidden: Mapping[str, frozenset[str]]) -> Catalog:
    """The catalog without some properties of types, by the keys of these."""
    nodes = {name: _reduce_node(each, hidden) for name, each in catalog.nodes.items()}
    edges = {name: _reduce_edge(each, hidden) for name, each in catalog.edges.items()}
    return Catalog(
        interfaces={
            name: _reduce_interface(each, [nodes[type] for type in catalog.implementers(name)])
            for name, each in catalog.interfaces.items()
        },
        nodes=nodes,
        edges=edges,
        edge_by_folded_name={fold_edge_name(name): each for name, each in edges.items()},
    )


def _reduce_node(node: NodeType, hidden: Mapping[str, frozenset[str]]) -> NodeType:
    names = hidden.get(table_key_of(node), frozenset())
    if not names:
        return node
    return replace(
        node,
        properties=_without(node.properties, names),
        constraints=tuple(each for each in node.constraints if names.isdisjoint(_columns(each))),
    )


def _reduce_edge(edge: EdgeType, hidden: Mapping[str, frozenset[str]]) -> EdgeType:
    names = hidden.get(table_key_of(edge), frozenset())
    if not names:
        return edge
    return replace(
        edge,
        properties=_without(edge.properties, names),
        constraints=tuple(each for each in edge.constraints if names.isdisjoint(_columns(each))),
    )


def _reduce_interface(interface: Interface, implementers: Collection[NodeType]) -> Interface:
    seen = {
        name: each
        for name, each in interface.properties.items()
        if all(name in type.properties for type in implementers)
    }
    return replace(interface, properties=seen)


def _without(properties: Mapping[str, Property], names: frozenset[str]) -> dict[str, Property]:
    return {
        name: replace(each, annotations=_forget(each.annotations, names))
        for name, each in properties.items()
        if name not in names
    }


def _forget(annotations: tuple[Annotation, ...], names: frozenset[str]) -> tuple[Annotation, ...]:
    """The annotations without the names of texts that vectors are made of."""
    return tuple(each for each in annotations if each.name != "embed" or each.value not in names)


def _columns(constraint: Constraint) -> tuple[str, ...]:
    match constraint:
        case Key(columns) | Unique(columns) | Index(columns):
            return columns
        case Range(name) | Check(name):
            return (name,)
