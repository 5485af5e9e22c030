"""Mutations: inserts, updates and deletes, checked against the types they touch."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.compiler import ir
from omnigraph.compiler.ir import Assignment, Delete, Given, Insert, MutationOperation, Update
from omnigraph.compiler.query import syntax
from omnigraph.compiler.query.conditions import Sides, check_condition
from omnigraph.compiler.query.literals import advise_spelling, find_misfit
from omnigraph.compiler.query.operands import (
    advise_declaration,
    describe_operand,
    resolve_given,
    type_of,
)
from omnigraph.compiler.query.scope import Scope
from omnigraph.compiler.query.syntax import Expression, Mutation, Name, Statement
from omnigraph.model.catalog import EdgeType, NodeType, TypeKind
from omnigraph.model.source import Span
from omnigraph.model.types import STRING, PropertyType, is_assignable

ENDPOINTS = ("from", "to")


def check_mutation(mutation: Mutation, scope: Scope) -> tuple[MutationOperation, ...]:
    """The operations of a mutation, in order."""
    checked = (_check_statement(each, scope) for each in mutation.statements)
    return tuple(operation for operation in checked if operation is not None)


def require_one_kind(mutation: Mutation, scope: Scope) -> None:
    """Report a mutation that both deletes and inserts or updates: it would be ambiguous what its
    deletes see."""
    deletes = [each for each in mutation.statements if isinstance(each, syntax.Delete)]
    if deletes and len(deletes) < len(mutation.statements):
        problem = (
            "the query mixes inserts/updates and deletes; split into separate mutations, "
            "or run them on a branch and merge it"
        )
        scope.diagnostics.error("D2", problem, deletes[0].type.span)


def _check_statement(statement: Statement, scope: Scope) -> MutationOperation | None:
    target = _find_type(statement.type, scope)
    if target is None:
        return None
    match statement:
        case syntax.Insert(assignments=assignments):
            checked = _check_assignments(assignments, target, scope)
            _require_complete(statement, target, scope)
            return Insert(target.kind, target.name, checked)
        case syntax.Update(assignments=assignments, condition=written):
            if isinstance(target, EdgeType):
                problem = f"`{target.name}` is an edge type; edges cannot be updated"
                advice = "delete the edge and insert it again"
                scope.diagnostics.error("T16", problem, statement.type.span, advice)
                return None
            _refuse_key_changes(assignments, target, scope)
            checked = _check_assignments(assignments, target, scope)
            condition = _check_where(written, target, scope)
            return None if condition is None else Update(target.name, checked, condition)
        case syntax.Delete(condition=written):
            condition = _check_where(written, target, scope)
            return None if condition is None else Delete(target.kind, target.name, condition)


def _find_type(name: Name, scope: Scope) -> NodeType | EdgeType | None:
    catalog = scope.catalog
    # A node and an edge may share a name; the node is meant.
    found = catalog.nodes.get(name.text) or catalog.edges.get(name.text)
    if found is None and name.text in catalog.interfaces:
        problem = f"`{name.text}` is an interface and has no nodes of its own"
        implementers = catalog.implementers(name.text)
        advice = f"name a node type: {', '.join(implementers)}" if implementers else None
        scope.diagnostics.error("T10", problem, name.span, advice)
    elif found is None:
        names = (*catalog.nodes, *catalog.edges)
        problem = f"there is no node or edge type `{name.text}`"
        scope.diagnostics.unknown("T10", problem, name.span, name.text, names)
    return found


# Assignments


def _check_assignments(
    assignments: Sequence[syntax.Assignment], target: NodeType | EdgeType, scope: Scope
) -> tuple[Assignment, ...]:
    seen: set[str] = set()
    checked: list[Assignment] = []
    for each in assignments:
        name = each.property
        type = _find_property(name, target, scope, is_written=True)
        if type is None:
            continue
        if name.text in seen:
            problem = f"`{name.text}` is assigned twice"
            scope.diagnostics.error("T13", problem, name.span, "keep one")
            continue
        seen.add(name.text)
        value = resolve_given(each.value, scope, code="T14")
        if value is not None and _may_assign(value, type, name, target, each.value.span, scope):
            checked.append(Assignment(name.text, value))
    return tuple(checked)


def _find_property(
    name: Name, target: NodeType | EdgeType, scope: Scope, *, is_written: bool
) -> PropertyType | None:
    if isinstance(target, EdgeType) and name.text in ENDPOINTS:
        return STRING
    if (found := target.properties.get(name.text)) is not None:
        return found.type
    problem = f"{target.name} has no property `{name.text}`"
    names = list(target.properties)
    if isinstance(target, EdgeType):
        names += ENDPOINTS
        if name.text in {"src", "dst"}:
            advice = f"write `{'from' if name.text == 'src' else 'to'}`"
            scope.diagnostics.error("T11", problem, name.span, advice)
            return None
    if name.text == "id" and not is_written:
        advice = "rows are found by their properties, for instance the key"
        scope.diagnostics.error("T11", problem, name.span, advice)
        return None
    scope.diagnostics.unknown("T11", problem, name.span, name.text, names)
    return None


def _may_assign(
    value: Given,
    type: PropertyType,
    name: Name,
    target: NodeType | EdgeType,
    span: Span,
    scope: Scope,
) -> bool:
    subject = f"{target.name}.{name.text}"
    if isinstance(value, ir.Constant):
        misfit = find_misfit(value.value, type)
        if misfit is not None:
            problem = f"the value does not fit {subject} ({type}): {misfit}"
            advice = None if type.is_list else advise_spelling(value.value, type)
            scope.diagnostics.error("T3", problem, span, advice)
        return misfit is None
    given = type_of(value)
    fits = given is not None and is_assignable(given, type)
    if not fits:
        problem = f"{describe_operand(value)} does not fit {subject} ({type})"
        scope.diagnostics.error("T7", problem, span, advise_declaration(value, type))
    return fits


def _require_complete(statement: syntax.Insert, target: NodeType | EdgeType, scope: Scope) -> None:
    assigned = {each.property.text for each in statement.assignments}
    endpoints = ENDPOINTS if target.kind is TypeKind.EDGE else ()
    if not assigned.issubset({*target.properties, *endpoints}):
        # Whatever is misspelt would also look missing: one fault is enough.
        return
    missing = [name for name in endpoints if name not in assigned]
    for prop in target.properties.values():
        if prop.type.is_nullable or prop.name in assigned:
            continue
        embedding = prop.embedding
        if embedding is None:
            missing.append(prop.name)
        elif embedding.source not in assigned:
            missing.append(f"{prop.name} (or {embedding.source}, which it is embedded from)")
    if missing:
        problem = f"insert {target.name} misses {', '.join(missing)}"
        advice = f"add `{missing[0].split()[0]}: …`"
        scope.diagnostics.error("T12", problem, statement.type.span, advice)


def _refuse_key_changes(
    assignments: Sequence[syntax.Assignment], target: NodeType, scope: Scope
) -> None:
    for each in assignments:
        if each.property.text in target.key:
            problem = f"cannot update @key property `{each.property.text}` of {target.name}"
            advice = "insert a node with the new key and delete the old one"
            scope.diagnostics.error("T39", problem, each.property.span, advice)


# Conditions


def _check_where(
    written: syntax.Condition, target: NodeType | EdgeType, scope: Scope
) -> ir.Condition | None:
    def read_property(left: Expression, scope: Scope) -> ir.PropertyValue | None:
        assert isinstance(left, Name)
        type = _find_property(left, target, scope, is_written=False)
        if type is None:
            return None
        if type.is_blob:
            problem = f"`{left.text}` is a Blob and cannot be searched"
            scope.diagnostics.error("T11", problem, left.span)
            return None
        return ir.PropertyValue("", left.text, type)

    def read_value(right: Expression, scope: Scope) -> Given | None:
        return resolve_given(right, scope, code="T14")

    return check_condition(written, scope, Sides(read_property, read_value))
