"""Current names of the types and properties of an earlier schema.

Every commit that changes the schema records which names it changed and which it added. Followed
from an earlier commit to the present, these records prove that a current type or property is one of
the earlier schema, whatever its names were in between. A commit without a record, as written by
earlier versions of OmniGraph, proves nothing, and no name is translated across it. A name that the
earlier schema itself has retains its meaning in that schema. The module reads no storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Generic, TypeVar

from omnigraph.compiler.migration_steps import (
    AddProperty,
    AddType,
    RenameProperty,
    RenameType,
    Step,
)
from omnigraph.engine.state.history import Commit, NameChange
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, Property, TypeKind
from omnigraph.model.names import fold_edge_name

T = TypeVar("T")
D = TypeVar("D", NodeType, EdgeType)

_Types = dict[tuple[TypeKind, str], str]
_Properties = dict[tuple[TypeKind, str, str], str]
"""Later names of the types and properties of an earlier schema, by their names in that schema."""


@dataclass(frozen=True, slots=True)
class PresentName:
    """The current name of a type, or of one of its properties, of an earlier schema.

    `type` is the name of the type in the earlier schema; `property` is None for the type itself.
    """

    kind: TypeKind
    type: str
    property: str | None
    now: str


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A commit of main that changed the schema, and the names it changed; None if not recorded."""

    manifest_version: int
    names: tuple[NameChange, ...] | None


class _Translated(Mapping[str, T], Generic[T]):
    """A mapping that also finds values by other names, and lists them by their own names only.

    It implements `Mapping`, because a `dict` with more keys would list each value twice.
    """

    __slots__ = ("_known", "_name_by_other")

    def __init__(self, known: Mapping[str, T], name_by_other: Mapping[str, str]) -> None:
        self._known = known
        self._name_by_other = name_by_other

    def __getitem__(self, name: str) -> T:
        if name in self._known:
            return self._known[name]
        return self._known[self._name_by_other[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def record_names(steps: Iterable[Step]) -> tuple[NameChange, ...]:
    """The names that the steps of a migration change or add.

    Interfaces have no rows, so their names are omitted.
    """
    return tuple(
        change
        for step in steps
        if (change := _record(step)) is not None and change.kind != TypeKind.INTERFACE
    )


def list_schema_changes(commits: Iterable[Commit]) -> tuple[SchemaChange, ...]:
    """The schema changes among the commits of main, which are given oldest first."""
    return tuple(
        SchemaChange(after.manifest_version, after.notes.names)
        for before, after in pairwise(commits)
        if before.schema_hash != after.schema_hash
    )


def trace_names(
    then: Catalog, now: Catalog, changes: Iterable[SchemaChange]
) -> frozenset[PresentName]:
    """The current names that an earlier schema lacks, as far as the changes since prove them."""
    types: _Types = {(each.kind, each.name): each.name for each in then.stored_types()}
    properties: _Properties = {
        (each.kind, each.name, name): name
        for each in then.stored_types()
        for name in each.properties
    }
    for change in changes:
        if change.names is None:
            return frozenset()
        types, properties = _follow(change.names, types, properties)
    found: list[PresentName] = []
    for (kind, old), name in types.items():
        declared = (now.nodes if kind is TypeKind.NODE else now.edges).get(name)
        if declared is None:
            continue
        found.append(PresentName(kind, old, None, name))
        found += (
            PresentName(kind, old, prop, current)
            for (of_kind, of_type, prop), current in properties.items()
            if (of_kind, of_type) == (kind, old) and current in declared.properties
        )
    return frozenset(each for each in found if each.now != (each.property or each.type))


def also_known_as(catalog: Catalog, names: Iterable[PresentName]) -> Catalog:
    """An earlier schema whose types and properties can also be found by their current names."""
    known = tuple(names)
    taken = {*catalog.interfaces, *catalog.nodes, *catalog.edges}
    nodes = _translate(catalog.nodes, TypeKind.NODE, known, taken=taken)
    folded = {*catalog.edge_by_folded_name}
    edges = _translate(
        catalog.edges,
        TypeKind.EDGE,
        [each for each in known if each.property or fold_edge_name(each.now) not in folded],
        taken=taken,
    )
    spellings = {fold_edge_name(name): each for name, each in edges.items()}
    for each in known:
        if each.kind is TypeKind.EDGE and each.property is None and each.now in edges:
            spellings.setdefault(fold_edge_name(each.now), edges[each.now])
    return replace(catalog, nodes=nodes, edges=edges, edge_by_folded_name=spellings)


def _record(step: Step) -> NameChange | None:
    match step:
        case AddType(kind, name):
            return NameChange(kind, name, None, None)
        case RenameType(kind, old, new):
            return NameChange(kind, new, None, old)
        case AddProperty(kind, owner, name):
            return NameChange(kind, owner, name, None)
        case RenameProperty(kind, owner, old, new):
            return NameChange(kind, owner, new, old)
        case _:
            return None


def _follow(
    changes: Iterable[NameChange], types: _Types, properties: _Properties
) -> tuple[_Types, _Properties]:
    """The names after one schema change; types and properties that were replaced are omitted."""
    listed = tuple(changes)
    moved = {(TypeKind(each.kind), each.old): each.type for each in listed if not each.property}
    given = {(TypeKind(each.kind), each.type) for each in listed if not each.property}
    new_types: _Types = {
        (kind, then): moved.get((kind, name), name)
        for (kind, then), name in types.items()
        if (kind, name) in moved or (kind, name) not in given
    }
    renamed = {(each.kind, each.type, each.old): each.property for each in listed if each.property}
    placed = {(each.kind, each.type, each.property) for each in listed if each.property}
    new_properties: _Properties = {}
    for (kind, then, prop), name in properties.items():
        owner = new_types.get((kind, then))
        if owner is None:
            continue
        current = renamed.get((kind, owner, name))
        if current is not None:
            new_properties[kind, then, prop] = current
        elif (kind, owner, name) not in placed:
            new_properties[kind, then, prop] = name
    return new_types, new_properties


def _translate(
    types: Mapping[str, D], kind: TypeKind, names: Iterable[PresentName], *, taken: set[str]
) -> Mapping[str, D]:
    own = [each for each in names if each.kind is kind and each.type in types]
    others = {each.now: each.type for each in own if each.property is None}
    translated: dict[str, D] = {}
    for name, declared in types.items():
        by_other = {
            each.now: each.property
            for each in own
            if each.type == name and each.property and each.property in declared.properties
        }
        properties: Mapping[str, Property] = declared.properties
        if by_other:
            properties = _Translated(properties, by_other)
        translated[name] = replace(declared, properties=properties)
    return _Translated(
        translated, {other: name for other, name in others.items() if other not in taken}
    )
