"""Lineage: which accepted type or property each desired one continues.

An equal name continues; else the name that `@rename_from` gives. A hint that fits nothing is an
error and never a guess, because the alternative is to drop what the writer meant to keep.
"""

from collections.abc import Collection, Iterable, Mapping
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
        known, wanted = types_of(accepted, kind), types_of(desired, kind)
        claims = _type_claims(kind, accepted, desired)
        continued = _continue(wanted, known, claims, faults)
        for name, type in wanted.items():
            old = known.get(continued.get(name, ""))
            known_properties: Mapping[str, Property] = old.properties if old else {}
            property_claims = _property_claims(type, old, accepted, desired)
            properties[kind, name] = _continue(
                type.properties, known_properties, property_claims, faults
            )
        types |= {(kind, new): old_name for new, old_name in continued.items()}
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
class _Claim:
    """A hint: the desired entity that bears it, the name it gives, and why that may be missing."""

    name: str
    entity: str
    old: str
    absence: str
    advice: str | None


def _continue(
    wanted: Collection[str],
    known: Collection[str],
    claims: Iterable[_Claim],
    faults: list[Diagnostic],
) -> dict[str, str]:
    """Old names by new ones: the equal ones, then the claimed ones, each old name given once."""
    continued = {name: name for name in wanted if name in known}
    claimant_by_old: dict[str, str] = {}
    for claim in claims:
        if claim.name in continued:
            continue
        hint = f'@rename_from("{claim.old}") on {claim.entity}'
        if claim.old not in known:
            faults.append(_fault(f"{hint} fits nothing: {claim.absence}", claim.advice))
        elif claim.old in wanted:
            problem = f"{hint}: `{claim.old}` is still declared, so it keeps its name"
            faults.append(_fault(problem, f"remove `{claim.old}` or the hint"))
        elif (claimant := claimant_by_old.setdefault(claim.old, claim.entity)) != claim.entity:
            problem = f"{hint}: {claimant} is renamed from `{claim.old}` already"
            faults.append(_fault(problem, "keep one of the two hints"))
        else:
            continued[claim.name] = claim.old
    return continued


def _type_claims(kind: TypeKind, accepted: Catalog, desired: Catalog) -> list[_Claim]:
    return [
        _Claim(
            name,
            f"{kind} type `{name}`",
            type.renamed_from,
            f"the accepted schema has no {kind} type `{type.renamed_from}`",
            _advise_on_type(kind, type.renamed_from, accepted),
        )
        for name, type in types_of(desired, kind).items()
        if not isinstance(type, Interface) and type.renamed_from is not None
    ]


def _advise_on_type(kind: TypeKind, old: str, accepted: Catalog) -> str | None:
    for other in TypeKind:
        if old in types_of(accepted, other):
            return f"`{old}` is declared as {other}; a rename keeps the kind"
    return advise_name(old, types_of(accepted, kind))


def _property_claims(
    type: DeclaredType, old: DeclaredType | None, accepted: Catalog, desired: Catalog
) -> list[_Claim]:
    known: Mapping[str, Property] = old.properties if old else {}
    claims: list[_Claim] = []
    for name, prop in type.properties.items():
        hint = prop.renamed_from
        if hint is None or (hint not in known and _is_inherited(type, prop, desired)):
            continue
        absence, advice = _explain_absence(type, old, hint, accepted)
        claims.append(_Claim(name, f"property `{type.name}.{name}`", hint, absence, advice))
    return claims


def _is_inherited(type: DeclaredType, prop: Property, desired: Catalog) -> bool:
    """Whether an interface gives the same hint; then it is the interface that must have a past.

    Otherwise no new node type could implement an interface while a hint stands in it.
    """
    if not isinstance(type, NodeType):
        return False
    offers = (desired.interfaces[name].properties.get(prop.name) for name in type.implements)
    return any(offer is not None and offer.renamed_from == prop.renamed_from for offer in offers)


def _explain_absence(
    type: DeclaredType, old: DeclaredType | None, hint: str, accepted: Catalog
) -> tuple[str, str | None]:
    """Why a property that a hint names is not there, and what to do."""
    if old is None:
        return f"`{type.name}` is new", "values do not move between types; remove the hint"
    absence = f"the accepted `{old.name}` has no property `{hint}`"
    for kind in TypeKind:
        for other in types_of(accepted, kind).values():
            if hint in other.properties:
                return absence, f"`{other.name}` has it, but values do not move between types"
    return absence, advise_name(hint, old.properties)


def _fault(problem: str, advice: str | None) -> Diagnostic:
    return Diagnostic("M1", problem, Severity.ERROR, None, advice)
