"""The checker of `match` clauses: bindings, traversals, filters, and nested blocks.

A clause sees only the variables that earlier clauses bind. The checker reports a faulty clause,
leaves it out, and still binds its variables where possible, so that one error does not cause
others. Resolved clauses keep the written order; lowering chooses the execution order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.compiler import ir
from omnigraph.compiler.parser import Name
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.conditions import PATTERN_SIDES, check_condition
from omnigraph.compiler.query.expressions import (
    Scope,
    advise_declaration,
    advise_literal,
    describe_operand,
    find_mismatch,
    resolve_constant,
    type_of,
)
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.limits import BLOCK_NESTING_MAX
from omnigraph.model.source import Span
from omnigraph.model.types import are_comparable


@dataclass(frozen=True, slots=True)
class ResolvedBinding:
    """A variable of a node type, with the conditions in its braces."""

    variable: str
    type_name: str
    conditions: tuple[ir.Condition, ...]


@dataclass(frozen=True, slots=True)
class ResolvedTraversal:
    """A traversal; the direction is that of the edge, seen from the source."""

    source: str
    source_type: str
    target: str
    target_type: str
    edge_type: str
    direction: ir.Direction
    hops_min: int
    hops_max: int
    edge_binding: str | None


@dataclass(frozen=True, slots=True)
class ResolvedFilter:
    """A condition; `references` are the variables that it uses."""

    condition: ir.Condition
    references: frozenset[str]


@dataclass(frozen=True, slots=True)
class ResolvedBlock:
    """A block that may match, if it is optional, or must not match.

    `outer` are the variables that it shares with its context.
    """

    outer: tuple[str, ...]
    clauses: tuple[ResolvedClause, ...]
    is_optional: bool


ResolvedClause = ResolvedBinding | ResolvedTraversal | ResolvedFilter | ResolvedBlock


def check_clauses(clauses: Sequence[ast.Clause], scope: Scope) -> tuple[ResolvedClause, ...]:
    """Resolve the clauses of one block, and add their variables to the scope."""
    for clause in clauses:
        mentioned = dict.fromkeys(ast.direct_variables(clause))
        scope.referenced.update(mentioned)
        if isinstance(clause, ast.Binding | ast.Traversal):
            scope.announced.update(mentioned)
    resolved: list[ResolvedClause | None] = []
    for clause in clauses:
        match clause:
            case ast.Binding():
                resolved.append(_check_binding(clause, scope))
            case ast.Traversal():
                resolved.append(_check_traversal(clause, scope))
            case ast.Block():
                resolved.append(_check_block(clause, scope))
            case _:
                condition = check_condition(clause, scope, PATTERN_SIDES)
                references = frozenset(ast.direct_variables(clause)) & scope.variables.keys()
                if condition is not None:
                    resolved.append(ResolvedFilter(condition, references))
    return tuple(clause for clause in resolved if clause is not None)


def _check_block(block: ast.Block, scope: Scope) -> ResolvedBlock | None:
    word = "optional" if block.is_optional else "not"
    direct = {name for clause in block.clauses for name in ast.direct_variables(clause)}
    if not any(scope.is_bound(name) for name in direct):
        problem = f"the {word} block mentions no variable that is bound before it"
        later = sorted(direct & scope.announced.keys())
        advice = "mention a variable of the pattern in it, outside any inner block"
        if later:
            advice = f"move it behind the clause that binds `${later[0]}`"
        scope.diagnostics.error("T9", problem, block.span, advice)
        if block.is_optional:
            scope.broken |= direct
        return None
    inner = scope.enter()
    if inner.depth > BLOCK_NESTING_MAX:
        problem = f"blocks are nested more than {BLOCK_NESTING_MAX} deep"
        scope.diagnostics.error("P4", problem, block.span, "split it into several queries")
        return None
    clauses = check_clauses(block.clauses, inner)
    scope.referenced |= inner.referenced
    outer = tuple(name for name in inner.referenced if name in scope.variables)
    if block.is_optional:
        for name, bound in inner.variables.maps[0].items():
            scope.bind(name, bound.type, is_optional=True)
        scope.hide(inner.hidden)
    else:
        scope.hide(dict.fromkeys(inner.referenced, block.span))
    return ResolvedBlock(outer, clauses, block.is_optional)


# Bindings


def _check_binding(binding: ast.Binding, scope: Scope) -> ResolvedBinding | None:
    node = _find_node_type(binding.type, scope)
    if node is None or not _may_bind(binding.variable, node, scope):
        scope.break_off(binding.variable)
        return None
    if binding.variable.name not in scope.variables:
        scope.bind(binding.variable.name, node)
    checked = [_check_match(each, binding.variable, node, scope) for each in binding.matches]
    conditions = tuple(condition for condition in checked if condition is not None)
    return ResolvedBinding(binding.variable.name, node.name, conditions)


def _find_node_type(name: Name, scope: Scope) -> NodeType | None:
    catalog = scope.catalog
    if (found := catalog.nodes.get(name.text)) is not None:
        return found
    if name.text in catalog.interfaces:
        problem = f"`{name.text}` is an interface and has no nodes"
        implementers = catalog.implementers(name.text)
        advice = f"name a node type: {', '.join(implementers)}" if implementers else None
        scope.diagnostics.error("T1", problem, name.span, advice)
    elif name.text in catalog.edges:
        problem = f"`{name.text}` is an edge type; a variable is bound to a node type"
        advice = f"write `$a {format_edge(name.text)} $b`"
        scope.diagnostics.error("T1", problem, name.span, advice)
    else:
        problem = f"unknown node type `{name.text}`"
        scope.diagnostics.unknown("T1", problem, name.span, name.text, catalog.nodes)
    return None


def _may_bind(variable: ast.Variable, node: NodeType, scope: Scope) -> bool:
    bound = scope.variables.get(variable.name)
    if variable.name == ir.ANONYMOUS:
        problem = "`$_` is never bound"
        scope.diagnostics.error("T30", problem, variable.span, "give the variable a name")
    elif bound is None:
        return True
    elif isinstance(bound.type, EdgeType):
        problem = f"`${variable.name}` is already bound to an edge"
        scope.diagnostics.error("T23", problem, variable.span, "choose another name")
    elif bound.type.name != node.name:
        problem = f"`${variable.name}` is already bound to {bound.type.name}"
        advice = "choose another name, or write this binding before the traversal"
        scope.diagnostics.error("T30", problem, variable.span, advice)
    else:
        return _is_required(variable, scope)
    return False


def _is_required(variable: ast.Variable, scope: Scope) -> bool:
    """Whether a clause may require a variable; one that may be unbound is reported."""
    if variable.name in scope.optional_here:
        problem = f"`${variable.name}` comes from an optional block and may be unbound"
        advice = "move this clause into that block, or into another optional block"
        scope.diagnostics.error("T25", problem, variable.span, advice)
        return False
    return True


def _check_match(
    match: ast.Assignment, variable: ast.Variable, node: NodeType, scope: Scope
) -> ir.Comparison | None:
    name = match.property
    prop = node.properties.get(name.text)
    if prop is None:
        problem = f"{node.name} has no property `{name.text}`"
        scope.diagnostics.unknown("T2", problem, name.span, name.text, node.properties)
        return None
    if prop.type.is_blob or prop.type.is_vector:
        problem = f"`{name.text}` is {prop.type} and cannot be matched"
        path = f"${variable.name}.{name.text}"
        advice = f"rank by it: `order {{ nearest({path}, …) }}`" if prop.type.is_vector else None
        scope.diagnostics.error("T3", problem, name.span, advice)
        return None
    field = ir.PropertyValue(variable.name, prop.name, prop.type)
    given = resolve_constant(match.value, scope, code="T31")
    if given is None or not _may_match(field, given, node, match.value.span, scope):
        return None
    comparator = ir.Comparator.LIST_CONTAINS if prop.type.is_list else ir.Comparator.EQ
    return ir.Comparison(field, comparator, given)


def _may_match(
    field: ir.PropertyValue, given: ir.Given, node: NodeType, span: Span, scope: Scope
) -> bool:
    type, element = type_of(given), field.type.list_element
    path = f"${field.variable}.{field.property}"
    subject = f"{node.name}.{field.property} ({field.type})"
    if type is not None and type.is_list:
        advice = f"write a separate clause: `{path} in …`"
        if field.type.is_list:
            advice = f"match one element: `{field.property}: …`"
        problem = f"list equality is not supported: {subject}"
        scope.diagnostics.error("T3", problem, span, advice)
        return False
    if isinstance(given, ir.Constant):
        mismatch = find_mismatch(given.value, element)
        if mismatch is not None:
            problem = f"the value does not fit {subject}: {mismatch}"
            scope.diagnostics.error("T3", problem, span, advise_literal(given.value, element))
        elif given.value is None:
            advice = f"write a separate clause: `{path} is null`"
            scope.diagnostics.warn("W1", "a comparison with null never matches", span, advice)
        return mismatch is None
    fits = type is not None and are_comparable(type, element)
    if not fits:
        problem = f"{describe_operand(given)} does not fit {subject}"
        scope.diagnostics.error("T7", problem, span, advise_declaration(given, element))
    return fits


# Traversals


def format_edge(name: str) -> str:
    """The name of an edge type as it is written in a query."""
    return f"{name[:1].lower()}{name[1:]}"


def _check_traversal(walk: ast.Traversal, scope: Scope) -> ResolvedTraversal | None:
    edge = scope.catalog.find_edge(walk.edge.text)
    if edge is None:
        problem = f"unknown edge type `{walk.edge.text}`"
        names = [format_edge(name) for name in scope.catalog.edges]
        scope.diagnostics.unknown("T4", problem, walk.edge.span, walk.edge.text, names)
        scope.break_off(walk.source, walk.target, walk.edge_binding)
        return None
    hops = _check_hops(walk.hops, scope)
    direction = _infer_direction(walk, edge, scope)
    if direction is None:
        scope.break_off(walk.source, walk.target, walk.edge_binding)
        return None
    source, target = edge.source, edge.target
    if direction is ir.Direction.IN:
        source, target = target, source
    ends_fit = [
        _bind_end(walk.source, source, edge, scope),
        _bind_end(walk.target, target, edge, scope),
    ]
    binding_fits = _bind_edge(walk, edge, scope)
    if hops is not None and not _may_chain(walk, edge, hops[0], scope):
        return None
    if hops is None or not all(ends_fit) or not binding_fits:
        return None
    return ResolvedTraversal(
        walk.source.name,
        source,
        walk.target.name,
        target,
        edge.name,
        direction,
        *hops,
        None if walk.edge_binding is None else walk.edge_binding.name,
    )


def _check_hops(hops: ast.Hops | None, scope: Scope) -> tuple[int, int] | None:
    if hops is None:
        return 1, 1
    least, most = hops.minimum, hops.maximum
    advice: str | None = None
    if most is None:
        problem = "unbounded traversal is disabled"
        advice = f"give a maximum: `{{{max(least, 1)},5}}`"
    elif least < 1:
        problem, advice = "a traversal takes at least one hop", f"write `{{1,{max(most, 1)}}}`"
    elif most < least:
        problem = f"the maximum {most} is below the minimum {least}"
        advice = f"write `{{{max(most, 1)},{least}}}`"
    else:
        return least, most
    scope.diagnostics.error("T15", problem, hops.span, advice)
    return None


def _may_chain(walk: ast.Traversal, edge: EdgeType, least: int, scope: Scope) -> bool:
    """Whether an edge type supports that many hops: only one if its endpoint types differ."""
    if least == 1 or edge.source == edge.target:
        return True
    assert walk.hops is not None
    problem = (
        f"`{edge.name}` connects {edge.source} to {edge.target}, so a second hop never starts "
        "where the first one ends"
    )
    advice = "remove the bounds, or write one traversal for each hop"
    scope.diagnostics.error("T5", problem, walk.hops.span, advice)
    return False


def _infer_direction(walk: ast.Traversal, edge: EdgeType, scope: Scope) -> ir.Direction | None:
    """The direction of a traversal, derived from the endpoint that is already bound."""
    if walk.is_undirected:
        if edge.source == edge.target:
            return ir.Direction.BOTH
        problem = f"`{edge.name}` connects {edge.source} to {edge.target} and has one direction"
        advice = f"write `{walk.edge.text}` without < >"
        scope.diagnostics.error("T22", problem, walk.edge.span, advice)
        return None
    for variable, forward, backward in (
        (walk.source, edge.source, edge.target),
        (walk.target, edge.target, edge.source),
    ):
        bound = scope.variables.get(variable.name)
        if bound is not None and isinstance(bound.type, NodeType):
            if bound.type.name == forward:
                return ir.Direction.OUT
            if bound.type.name == backward:
                return ir.Direction.IN
            _report_wrong_end(variable, bound.type, edge, scope)
            return None
    return ir.Direction.OUT


def _report_wrong_end(variable: ast.Variable, node: NodeType, edge: EdgeType, scope: Scope) -> None:
    problem = (
        f"`${variable.name}` is a {node.name}, but `{edge.name}` connects "
        f"{edge.source} to {edge.target}"
    )
    incident = [f"`{format_edge(e.name)}`" for e in scope.catalog.incident_edges(node.name)]
    advice = f"the edges of {node.name}: {', '.join(incident[:5])}" if incident else None
    scope.diagnostics.error("T5", problem, variable.span, advice)


def _bind_end(variable: ast.Variable, type_name: str, edge: EdgeType, scope: Scope) -> bool:
    if variable.name == ir.ANONYMOUS:
        return True
    bound = scope.variables.get(variable.name)
    if bound is None:
        scope.bind(variable.name, scope.catalog.nodes[type_name])
        return True
    if isinstance(bound.type, EdgeType):
        problem = f"`${variable.name}` is bound to an edge and cannot be an end of one"
        scope.diagnostics.error("T23", problem, variable.span)
        return False
    if bound.type.name != type_name:
        _report_wrong_end(variable, bound.type, edge, scope)
        return False
    return _is_required(variable, scope)


def _bind_edge(walk: ast.Traversal, edge: EdgeType, scope: Scope) -> bool:
    variable = walk.edge_binding
    if variable is None:
        return True
    if variable.name in scope.variables:
        problem = f"`${variable.name}` is already bound; an edge variable needs a unique name"
        scope.diagnostics.error("T23", problem, variable.span)
        return False
    if variable.name != ir.ANONYMOUS:
        scope.bind(variable.name, edge)
    if walk.hops is not None and (walk.hops.minimum, walk.hops.maximum) != (1, 1):
        problem = "an edge variable is bound to one edge, so the traversal must have one hop"
        advice = "remove the bounds, or the edge variable"
        scope.diagnostics.error("T23", problem, walk.hops.span, advice)
        return False
    return True
