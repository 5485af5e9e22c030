"""Lineage: which accepted type or property each desired one continues.

An equal name continues; else the name that `@rename_from` gives. A hint that fits nothing is an
error and never a guess, because the alternative is to drop what the writer meant to keep.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.model.catalog import Catalog, EdgeType, Interface, NodeType, Property, TypeKind
from omnigraph.model.errors import CompileError
from omnigraph.model.source import Diagnostic, Severity, Source

DeclaredType: TypeAlias = Interface | NodeType | EdgeType


@dataclass(frozen=True, slots=True)
class Lineage:
    """Old names by new ones; what is new has no entry."""

    types: Mapping[tuple[TypeKind, str], str]
    properties: Mapping[tuple[TypeKind, str], Mapping[str, str]]

    def find_type(self, kind: TypeKind, name: str) -> str | None:
        """The accepted name of a desired type."""
        return self.types.get((kind, name))

    def properties_of(self, type: DeclaredType) -> Mapping[str, str]:
        """Old names by new ones, for the properties of a desired type."""
        return self.properties[type.kind, type.name]


def trace_lineage(accepted: Catalog, desired: Catalog, source: Source) -> Lineage:
    """What continues what; `CompileError` if a hint of the desired schema fits nothing."""
    faults: list[Diagnostic] = []
    types: dict[tuple[TypeKind, str], str] = {}
    properties: dict[tuple[TypeKind, str], Mapping[str, str]] = {}
    for kind in TypeKind:
        known = types_of(accepted, kind)
        continued = _continue_types(kind, accepted, desired, faults)
        for name, type in types_of(desired, kind).items():
            old = known[continued[name]] if name in continued else None
            properties[kind, name] = _continue_properties(type, old, accepted, desired, faults)
        types |= {(kind, name): old_name for name, old_name in continued.items()}
    # A first schema has nothing to rename, and it may well have been written for another graph.
    is_first = not any(types_of(accepted, kind) for kind in TypeKind)
    if faults and not is_first:
        raise CompileError(diagnostics=faults, source=source)
    return Lineage(types, properties)


def types_of(catalog: Catalog, kind: TypeKind) -> Mapping[str, DeclaredType]:
    """The types of one kind, by name."""
    match kind:
        case TypeKind.INTERFACE:
            return catalog.interfaces
        case TypeKind.NODE:
            return catalog.nodes
        case TypeKind.EDGE:
            return catalog.edges


@dataclass(frozen=True, slots=True)
class _Hint:
    """A `@rename_from`: the name of its bearer, the bearer in words, and the name it gives."""

    name: str
    bearer: str
    old: str


def _continue_types(
    kind: TypeKind, accepted: Catalog, desired: Catalog, faults: list[Diagnostic]
) -> dict[str, str]:
    known, wanted = types_of(accepted, kind), types_of(desired, kind)
    hints = [
        _Hint(name, f"{kind} type `{name}`", type.renamed_from)
        for name, type in wanted.items()
        if not isinstance(type, Interface) and type.renamed_from is not None
    ]

    def explain(old: str) -> tuple[str, str | None]:
        absence = f"the accepted schema has no {kind} type `{old}`"
        for other in TypeKind:
            if old in types_of(accepted, other):
                return absence, f"{other} `{old}` cannot become one"
        return absence, advise_name(old, known)

    return _continue(wanted, known, hints, explain, faults)


def _continue_properties(
    type: DeclaredType,
    old: DeclaredType | None,
    accepted: Catalog,
    desired: Catalog,
    faults: list[Diagnostic],
) -> dict[str, str]:
    known: Mapping[str, Property] = old.properties if old else {}
    hints = [
        _Hint(name, f"property `{type.name}.{name}`", prop.renamed_from)
        for name, prop in type.properties.items()
        if prop.renamed_from is not None
        if prop.renamed_from in known or not _is_inherited(type, prop, desired)
    ]

    def explain(hint: str) -> tuple[str, str | None]:
        if old is None:
            return f"`{type.name}` is new", "values do not move between types; remove the hint"
        absence = f"the accepted `{old.name}` has no property `{hint}`"
        if (other := _find_owner(hint, accepted)) is not None:
            return absence, f"`{other}` has it, but values do not move between types"
        return absence, advise_name(hint, known)

    return _continue(type.properties, known, hints, explain, faults)


def _continue(
    wanted: Collection[str],
    known: Collection[str],
    hints: Iterable[_Hint],
    explain: Callable[[str], tuple[str, str | None]],
    faults: list[Diagnostic],
) -> dict[str, str]:
    """Old names by new ones: the equal ones, then the hinted ones, each old name given once.

    `explain` says why a name that a hint gives is not there, and what to do.
    """
    continued = {name: name for name in wanted if name in known}
    bearer_by_old: dict[str, str] = {}
    for hint in hints:
        if hint.name in known:
            continue
        written = f'@rename_from("{hint.old}") on {hint.bearer}'
        if hint.old not in known:
            absence, advice = explain(hint.old)
            faults.append(_fault(f"{written} fits nothing: {absence}", advice))
        elif hint.old in wanted:
            problem = f"{written}: `{hint.old}` is still declared, so it keeps its name"
            faults.append(_fault(problem, f"remove `{hint.old}` or the hint"))
        elif (first := bearer_by_old.setdefault(hint.old, hint.bearer)) != hint.bearer:
            problem = f"{written}: {first} is renamed from `{hint.old}` already"
            faults.append(_fault(problem, "keep one of the two hints"))
        else:
            continued[hint.name] = hint.old
    return continued


def _is_inherited(type: DeclaredType, prop: Property, desired: Catalog) -> bool:
    """Whether an interface gives the same hint; then it is the interface that must have a past.

    Otherwise no new node type could implement an interface while a hint stands in it.
    """
    if not isinstance(type, NodeType):
        return False
    offers = (desired.interfaces[name].properties.get(prop.name) for name in type.implements)
    return any(offer is not None and offer.renamed_from == prop.renamed_from for offer in offers)


def _find_owner(property_name: str, catalog: Catalog) -> str | None:
    """A type that has a property of that name."""
    for kind in TypeKind:
        for type in types_of(catalog, kind).values():
            if property_name in type.properties:
                return type.name
    return None


def _fault(problem: str, advice: str | None) -> Diagnostic:
    return Diagnostic("M1", problem, Severity.ERROR, None, advice)
