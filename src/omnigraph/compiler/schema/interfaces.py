"""Inheritance: the properties that a node type takes over from the interfaces it implements.

A property that the node declares itself must have the interface's type and keeps its own
annotations; any other is taken over whole, with the constraints that its annotations imply.
"""

from collections.abc import Collection, Mapping

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.schema.members import check_property
from omnigraph.compiler.schema.property_types import check_type
from omnigraph.compiler.schema.syntax import InterfaceSyntax, NodeSyntax, PropertySyntax, Word
from omnigraph.model.catalog import Property, TypeKind
from omnigraph.model.source import Source


def inherit_properties(
    node: NodeSyntax,
    *,
    interfaces: Mapping[str, InterfaceSyntax],
    nodes: Collection[str],
    diagnostics: Diagnostics,
) -> tuple[PropertySyntax, ...]:
    """The properties that a node type has without declaring them."""
    own = {m.name.text: m for m in node.members if isinstance(m, PropertySyntax)}
    taken: dict[str, PropertySyntax] = {}
    first_by_name: dict[str, Word] = {}
    for word in node.implements:
        first_by_name.setdefault(word.text, word)
    for word in first_by_name.values():
        if (interface := interfaces.get(word.text)) is None:
            _report_unknown(node, word, interfaces, nodes, diagnostics)
            continue
        for offered in interface.members:
            name = offered.name.text
            if name in own:
                _require_same_type(own[name], offered, interface.name, diagnostics)
            elif _conflicts(taken.setdefault(name, offered), offered):
                problem = f"the interfaces give `{name}` incompatible property semantics"
                advice = f"declare `{name}` in `{node.name.text}` itself"
                diagnostics.error("C6", problem, word.span, advice)
    return tuple(taken.values())


def _report_unknown(
    node: NodeSyntax,
    word: Word,
    interfaces: Collection[str],
    nodes: Collection[str],
    diagnostics: Diagnostics,
) -> None:
    problem = f"`{node.name.text}` implements unknown interface `{word.text}`"
    if word.text in nodes:
        advice = f"`{word.text}` is a node type; declare what they share as an interface"
        diagnostics.error("S17", problem, word.span, advice)
    else:
        diagnostics.unknown("S17", problem, word.span, word.text, interfaces)


def _require_same_type(
    own: PropertySyntax, offered: PropertySyntax, interface: Word, diagnostics: Diagnostics
) -> None:
    mine, theirs = check_type(own, diagnostics), check_type(offered, diagnostics)
    if mine is not None and theirs is not None and mine != theirs:
        problem = f"`{own.name.text}` is {mine} here but {theirs} in interface `{interface.text}`"
        diagnostics.error("S17", problem, own.name.span, f"write `{own.name.text}: {theirs}`")


def _conflicts(one: PropertySyntax, other: PropertySyntax) -> bool:
    if one is other:
        return False
    mine, theirs = _meaning(one), _meaning(other)
    return mine is not None and theirs is not None and mine != theirs


def _meaning(declared: PropertySyntax) -> Property | None:
    """What a declaration says, wherever it stands; its faults are reported where it stands."""
    quiet = Diagnostics(Source("", ""))
    checked = check_property(declared, kind=TypeKind.INTERFACE, diagnostics=quiet)
    return None if checked is None else checked.property
