"""Syntax tree to catalog for `.pg`: every declaration against all the others.

Promises a catalog in canonical order, or a `CompileError` with all diagnostics.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.schema.annotations import check_type_annotations, split_rename
from omnigraph.compiler.schema.identities import report_collisions
from omnigraph.compiler.schema.interfaces import inherit_properties
from omnigraph.compiler.schema.members import check_members
from omnigraph.compiler.schema.syntax import (
    AnnotationSyntax,
    EdgeSyntax,
    InterfaceSyntax,
    NodeSyntax,
    RangeArgument,
    SchemaSyntax,
    Word,
)
from omnigraph.model.catalog import (
    ANY_CARDINALITY,
    Cardinality,
    Catalog,
    EdgeType,
    Interface,
    NodeType,
    TypeKind,
)
from omnigraph.model.limits import CARDINALITY_MAX, PROPERTIES_MAX
from omnigraph.model.names import fold_edge_name
from omnigraph.model.source import Source


def check_schema(schema: SchemaSyntax, source: Source) -> Catalog:
    """The catalog that a schema declares."""
    diagnostics = Diagnostics(source)
    declared = _Declarations(
        _by_name(schema.interfaces, TypeKind.INTERFACE, diagnostics),
        _by_name(schema.nodes, TypeKind.NODE, diagnostics),
        _by_name(schema.edges, TypeKind.EDGE, diagnostics),
    )
    _require_bounded(declared, diagnostics)
    catalog = make_catalog(
        [_check_interface(each, diagnostics) for each in declared.interfaces.values()],
        [_check_node(each, declared, diagnostics) for each in declared.nodes.values()],
        [_check_edge(each, declared, diagnostics) for each in declared.edges.values()],
    )
    _require_distinct_folding(declared.edges.values(), diagnostics)
    report_collisions(
        [
            *((declared.interfaces[name].name, each) for name, each in catalog.interfaces.items()),
            *((declared.nodes[name].name, each) for name, each in catalog.nodes.items()),
            *((declared.edges[name].name, each) for name, each in catalog.edges.items()),
        ],
        diagnostics,
    )
    diagnostics.require_clean()
    return catalog


def make_catalog(
    interfaces: Iterable[Interface], nodes: Iterable[NodeType], edges: Iterable[EdgeType]
) -> Catalog:
    """A catalog of types, each group by name in canonical order."""
    by_name = {edge.name: edge for edge in sorted(edges, key=lambda e: e.name)}
    return Catalog(
        {each.name: each for each in sorted(interfaces, key=lambda i: i.name)},
        {each.name: each for each in sorted(nodes, key=lambda n: n.name)},
        by_name,
        {fold_edge_name(name): edge for name, edge in by_name.items()},
    )


@dataclass(frozen=True, slots=True)
class _Declarations:
    """What a text declares, by name."""

    interfaces: Mapping[str, InterfaceSyntax]
    nodes: Mapping[str, NodeSyntax]
    edges: Mapping[str, EdgeSyntax]


def _require_bounded(declared: _Declarations, diagnostics: Diagnostics) -> None:
    """Refuse a schema of which inheritance would make too much, before it does."""
    count = 0
    for node in declared.nodes.values():
        offered = {word.text for word in node.implements} & declared.interfaces.keys()
        inherited = sum(len(declared.interfaces[name].members) for name in offered)
        count += len(node.members) + inherited
        if count > PROPERTIES_MAX:
            problem = f"the schema has more than {PROPERTIES_MAX} properties"
            advice = "declare fewer, or inherit fewer"
            diagnostics.error("C8", problem, node.name.span, advice)
            diagnostics.require_clean()


_Declaration = TypeVar("_Declaration", InterfaceSyntax, NodeSyntax, EdgeSyntax)


def _by_name(
    declarations: Iterable[_Declaration], kind: TypeKind, diagnostics: Diagnostics
) -> dict[str, _Declaration]:
    found: dict[str, _Declaration] = {}
    noun = kind if kind is TypeKind.INTERFACE else f"{kind} type"
    for each in declarations:
        if each.name.text in found:
            problem = f"duplicate {noun} `{each.name.text}`"
            diagnostics.error("C1", problem, each.name.span, "keep one, or rename this one")
        found.setdefault(each.name.text, each)
    return found


def _require_distinct_folding(edges: Iterable[EdgeSyntax], diagnostics: Diagnostics) -> None:
    first_by_fold: dict[str, str] = {}
    for each in edges:
        first = first_by_fold.setdefault(fold_edge_name(each.name.text), each.name.text)
        if first != each.name.text:
            problem = f"edges `{first}` and `{each.name.text}` are the same after case folding"
            diagnostics.error("C3", problem, each.name.span, "queries could not tell them apart")


def _check_interface(interface: InterfaceSyntax, diagnostics: Diagnostics) -> Interface:
    members = check_members(
        interface.members, owner=interface.name, kind=TypeKind.INTERFACE, diagnostics=diagnostics
    )
    return Interface(interface.name.text, members.properties)


def _check_node(node: NodeSyntax, declared: _Declarations, diagnostics: Diagnostics) -> NodeType:
    inherited = inherit_properties(
        node, interfaces=declared.interfaces, nodes=declared.nodes, diagnostics=diagnostics
    )
    headings = check_type_annotations(
        node.headings, owner=node.name, kind=TypeKind.NODE, diagnostics=diagnostics
    )
    members = check_members(
        (*node.members, *inherited), owner=node.name, kind=TypeKind.NODE, diagnostics=diagnostics
    )
    annotations, renamed_from = split_rename(headings)
    return NodeType(
        node.name.text,
        members.properties,
        members.constraints,
        annotations,
        tuple(sorted({word.text for word in node.implements})),
        renamed_from,
    )


def _check_edge(edge: EdgeSyntax, declared: _Declarations, diagnostics: Diagnostics) -> EdgeType:
    for role, end in (("source", edge.source), ("target", edge.target)):
        if end.text not in declared.nodes:
            problem = f"edge `{edge.name.text}` references unknown {role} type `{end.text}`"
            _report_unknown_end(problem, end, declared, diagnostics)
    headings, cardinality = edge.headings, ANY_CARDINALITY
    if headings and headings[0].name.text == "card":
        cardinality = _check_cardinality(headings[0], diagnostics)
        headings = headings[1:]
    checked = check_type_annotations(
        headings, owner=edge.name, kind=TypeKind.EDGE, diagnostics=diagnostics
    )
    members = check_members(
        edge.members, owner=edge.name, kind=TypeKind.EDGE, diagnostics=diagnostics
    )
    annotations, renamed_from = split_rename(checked)
    return EdgeType(
        edge.name.text,
        edge.source.text,
        edge.target.text,
        cardinality,
        members.properties,
        members.constraints,
        annotations,
        renamed_from,
    )


def _report_unknown_end(
    problem: str, end: Word, declared: _Declarations, diagnostics: Diagnostics
) -> None:
    if end.text in declared.interfaces:
        advice = f"`{end.text}` is an interface; an edge connects two node types"
        diagnostics.error("C2", problem, end.span, advice)
    else:
        diagnostics.unknown("C2", problem, end.span, end.text, declared.nodes)


def _check_cardinality(card: AnnotationSyntax, diagnostics: Diagnostics) -> Cardinality:
    advice = "write `@card(0..1)` or `@card(1..)`"
    match card.arguments:
        case (RangeArgument(minimum=int() as low, maximum=int() | None as high),):
            if min(low, high or 0) < 0 or max(low, high or 0) > CARDINALITY_MAX:
                problem = f"the bounds of @card lie between 0 and {CARDINALITY_MAX}"
                diagnostics.error("S13", problem, card.span, advice)
            elif high is not None and low > high:
                problem = f"the minimum of @card ({low}) exceeds its maximum ({high})"
                diagnostics.error("S13", problem, card.span, "write the smaller one first")
            return Cardinality(low, high)
        case _:
            problem = "@card takes a minimum and perhaps a maximum"
            diagnostics.error("S13", problem, card.span, advice)
            return ANY_CARDINALITY
