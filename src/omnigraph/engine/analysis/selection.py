"""Which part of a graph is looked at: edge types, and the node types that they connect.

Promises an order of node types that both engines share: that of the bytes of their names. Looks
at the catalog only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, NotFoundError


@dataclass(frozen=True, slots=True)
class Selection:
    """Edge types by name, and all node types at their ends."""

    edges: tuple[EdgeType, ...]
    nodes: tuple[NodeType, ...]

    @property
    def titles(self) -> tuple[str, ...]:
        """The names of the node types, in order."""
        return tuple(each.name for each in self.nodes)


def parse_selection(given: str | Sequence[str], catalog: Catalog) -> Selection:
    """The types that a caller names; `NotFoundError` if one is no edge type."""
    names = [given] if isinstance(given, str) else list(given)
    if not names:
        raise InvalidValueError(
            subject="edges",
            expected="edge types",
            value=given,
            problem="name at least one edge type",
        )
    found = {each.name: each for each in (_get_edge(name, catalog) for name in names)}
    ends = {end for each in found.values() for end in (each.source, each.target)}
    return Selection(
        edges=tuple(found[name] for name in sorted(found)),
        # UTF-8 keeps the order of characters, so this is the order of bytes.
        nodes=tuple(catalog.nodes[name] for name in sorted(ends)),
    )


def parse_node(given: object, selection: Selection) -> tuple[str, str]:
    """The type and id that a caller names a node by; the id will do where there is one type."""
    match given:
        case (str(type_name), str(id)):
            if type_name not in selection.titles:
                advice = f"the edges connect {_join(selection.titles)}"
                raise NotFoundError(kind="node type", name=type_name, advice=advice)
            return type_name, id
        case str(id) if len(selection.nodes) == 1:
            return selection.titles[0], id
        case str():
            problem = (
                f"say of which type it is, (type, id): the edges connect {_join(selection.titles)}"
            )
        case _:
            problem = "a node is named by its id, or by (type, id)"
    raise InvalidValueError(subject="source", expected="a node", value=given, problem=problem)


def _get_edge(name: object, catalog: Catalog) -> EdgeType:
    found = catalog.find_edge(name) if isinstance(name, str) else None
    if found is None:
        if name in catalog.nodes:
            advice = "it is a node type; name the edges between nodes"
        else:
            advice = advise_name(str(name), set(catalog.edges)) or ""
        raise NotFoundError(kind="edge type", name=str(name), advice=advice)
    return found


def _join(names: Sequence[str]) -> str:
    return " and ".join(names)
