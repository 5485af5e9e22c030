"""The checker of one query: a syntax tree in, typed IR for a read or a mutation out.

The checker reports every error that it finds and does not stop at the first. The IR is valid only
if no errors were reported. Everything that the text and the catalog determine is decided here,
before any row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from omnigraph.compiler import ir
from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.parser import Name
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.clauses import check_clauses
from omnigraph.compiler.query.conditions import Sides, check_condition
from omnigraph.compiler.query.expressions import (
    NOW_PARAMETER,
    Scope,
    advise_declaration,
    advise_literal,
    describe_operand,
    find_value_error,
    resolve_constant,
    type_of,
)
from omnigraph.compiler.query.lower import lower_clauses, warn_cartesian_product
from omnigraph.compiler.query.projection import check_columns, check_count, check_order
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.limits import VECTOR_DIMENSION_MAX
from omnigraph.model.names import find_near_name
from omnigraph.model.source import Diagnostic, Span
from omnigraph.model.types import SCALAR_BY_NAME, STRING, PropertyType, Vector, is_assignable

ENDPOINTS = ("from", "to")


def _check_mutation(mutation: ast.Mutation, scope: Scope) -> tuple[ir.MutationOperation, ...]:
    checked = [_check_statement(each, scope) for each in mutation.statements]
    deletes = [each for each in mutation.statements if isinstance(each, ast.Delete)]
    if deletes and len(deletes) < len(mutation.statements):
        # It would be ambiguous which rows the deletes see.
        problem = (
            "the query mixes inserts/updates and deletes; split into separate mutations, "
            "or run them on a branch and merge it"
        )
        scope.diagnostics.error("D2", problem, deletes[0].type.span)
    return tuple(operation for operation in checked if operation is not None)


def _check_statement(statement: ast.Statement, scope: Scope) -> ir.MutationOperation | None:
    target = _find_type(statement.type, scope)
    if target is None:
        return None
    match statement:
        case ast.Insert(assignments=assignments):
            checked = _check_assignments(assignments, target, scope)
            _require_complete(statement, target, scope)
            return ir.Insert(target.kind, target.name, checked)
        case ast.Update(assignments=assignments, condition=written):
            if isinstance(target, EdgeType):
                problem = f"`{target.name}` is an edge type; edges cannot be updated"
                advice = "delete the edge and insert it again"
                scope.diagnostics.error("T16", problem, statement.type.span, advice)
                return None
            for name in (each.property for each in assignments):
                if name.text in target.key:
                    problem = f"cannot update @key property `{name.text}` of {target.name}"
                    advice = "insert a node with the new key and delete the old one"
                    scope.diagnostics.error("T39", problem, name.span, advice)
            checked = _check_assignments(assignments, target, scope)
            condition = _check_where(written, target, scope)
            return None if condition is None else ir.Update(target.name, checked, condition)
        case ast.Delete(condition=written):
            condition = _check_where(written, target, scope)
            return None if condition is None else ir.Delete(target.kind, target.name, condition)


def _find_type(name: Name, scope: Scope) -> NodeType | EdgeType | None:
    catalog = scope.catalog
    # A node type and an edge type may share a name; the node type takes precedence.
    found = catalog.nodes.get(name.text) or catalog.edges.get(name.text)
    if found is None and name.text in catalog.interfaces:
        problem = f"`{name.text}` is an interface and has no nodes"
        implementers = catalog.implementers(name.text)
        advice = f"name a node type: {', '.join(implementers)}" if implementers else None
        scope.diagnostics.error("T10", problem, name.span, advice)
    elif found is None:
        names = (*catalog.nodes, *catalog.edges)
        problem = f"unknown node or edge type `{name.text}`"
        scope.diagnostics.unknown("T10", problem, name.span, name.text, names)
    return found


# Assignments


def _check_assignments(
    assignments: Sequence[ast.Assignment], target: NodeType | EdgeType, scope: Scope
) -> tuple[ir.Assignment, ...]:
    seen: set[str] = set()
    checked: list[ir.Assignment] = []
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
        value = _read_value(each.value, scope)
        if value is not None and _may_assign(value, type, name, target, each.value.span, scope):
            checked.append(ir.Assignment(name.text, value))
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
    value: ir.Given,
    type: PropertyType,
    name: Name,
    target: NodeType | EdgeType,
    span: Span,
    scope: Scope,
) -> bool:
    subject = f"{target.name}.{name.text}"
    if isinstance(value, ir.Constant):
        problem = find_value_error(value.value, type)
        if problem is not None:
            problem = f"the value does not fit {subject} ({type}): {problem}"
            advice = None if type.is_list else advise_literal(value.value, type)
            scope.diagnostics.error("T3", problem, span, advice)
        return problem is None
    given = type_of(value)
    fits = given is not None and is_assignable(given, type)
    if not fits:
        problem = f"{describe_operand(value)} does not fit {subject} ({type})"
        scope.diagnostics.error("T7", problem, span, advise_declaration(value, type))
    return fits


def _require_complete(statement: ast.Insert, target: NodeType | EdgeType, scope: Scope) -> None:
    assigned = {each.property.text for each in statement.assignments}
    endpoints = ENDPOINTS if target.kind is TypeKind.EDGE else ()
    if not assigned.issubset({*target.properties, *endpoints}):
        # A misspelt property would also be reported as missing; one error is enough.
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


_read_value = partial(resolve_constant, code="T14")


def _check_where(
    written: ast.Condition, target: NodeType | EdgeType, scope: Scope
) -> ir.Condition | None:
    def read_property(left: ast.Expression, scope: Scope) -> ir.PropertyValue | None:
        assert isinstance(left, Name)
        type = _find_property(left, target, scope, is_written=False)
        if type is None:
            return None
        if type.is_blob:
            problem = f"`{left.text}` is a Blob and cannot be searched"
            scope.diagnostics.error("T11", problem, left.span)
            return None
        known = target.properties.get(left.text)
        return ir.PropertyValue("", left.text if known is None else known.name, type)

    return check_condition(written, scope, Sides(read_property, _read_value))


_ANNOTATIONS = ("description", "instruction")
_TYPE_WORDS = (*SCALAR_BY_NAME, "Vector(n)")


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query that is valid against a catalog."""

    name: str
    ir: ir.QueryIR
    description: str | None
    instruction: str | None
    warnings: tuple[Diagnostic, ...]

    @property
    def is_mutation(self) -> bool:
        return isinstance(self.ir, ir.MutationIR)


def check_query(
    query: ast.QuerySyntax, catalog: Catalog, diagnostics: Diagnostics
) -> CompiledQuery:
    """Check and lower a query; the result is valid only if no errors were reported."""
    texts = _check_annotations(query, diagnostics)
    parameters = _check_parameters(query, diagnostics)
    scope = Scope(catalog, {each.name: each.type for each in parameters}, diagnostics)
    scope.break_off(*(each.variable for each in query.parameters))
    lowered: ir.QueryIR
    if isinstance(query.body, ast.Read):
        lowered = _check_read(query.name.text, parameters, query.body, scope)
    else:
        lowered = ir.MutationIR(query.name.text, parameters, _check_mutation(query.body, scope))
    return CompiledQuery(
        query.name.text,
        lowered,
        texts.get("description"),
        texts.get("instruction"),
        diagnostics.warnings,
    )


def _check_read(
    name: str, parameters: tuple[ir.Parameter, ...], read: ast.Read, scope: Scope
) -> ir.ReadIR:
    clauses = check_clauses(read.clauses, scope)
    warn_cartesian_product(read.clauses, scope)
    columns = check_columns(read, scope)
    limit, offset = (check_count(each, scope) for each in (read.limit, read.offset))
    # Without all columns, valid aliases would be reported as unknown and rankings as not returned.
    ranking, order = (None, ()) if columns is None else check_order(read, columns, scope)
    # Lowering requires that every variable is bound, which errors may have prevented.
    pipeline = () if scope.diagnostics.error_count else lower_clauses(clauses)
    return ir.ReadIR(
        name,
        parameters,
        pipeline,
        columns or (),
        read.is_distinct,
        ranking,
        order,
        offset,
        limit,
    )


def _check_annotations(query: ast.QuerySyntax, diagnostics: Diagnostics) -> dict[str, str]:
    texts: dict[str, str] = {}
    for each in query.annotations:
        word = each.name.text
        if word not in _ANNOTATIONS:
            problem = f"a query has no annotation `@{word}`"
            diagnostics.unknown("P7", problem, each.name.span, word, _ANNOTATIONS)
        elif word in texts:
            diagnostics.error("P7", f"duplicate @{word}", each.name.span, "keep one")
        else:
            texts[word] = each.value
    return texts


def _check_parameters(query: ast.QuerySyntax, diagnostics: Diagnostics) -> tuple[ir.Parameter, ...]:
    # Of two declarations of one name the last one takes effect, as in the reference.
    parameters: dict[str, ir.Parameter] = {}
    for each in query.parameters:
        type = _check_parameter_type(each, diagnostics)
        if each.variable.name == NOW_PARAMETER:
            problem = f"the name `${NOW_PARAMETER}` is reserved; now() gives its value"
            diagnostics.error("T33", problem, each.variable.span)
        elif type is not None and type.is_blob and isinstance(query.body, ast.Read):
            problem = f"`${each.variable.name}` is a Blob, which no read can use"
            diagnostics.error("T24", problem, each.type.span)
        elif type is not None:
            parameters[each.variable.name] = ir.Parameter(each.variable.name, type)
    return tuple(parameters.values())


def _check_parameter_type(
    each: ast.ParameterSyntax, diagnostics: Diagnostics
) -> PropertyType | None:
    word, dimension = each.type.text, each.dimension
    if word == "Vector" and each.is_list:
        problem = "a list of Vector is not supported"
        diagnostics.error("T33", problem, each.type.span, "write `Vector(3)`")
    elif word == "Vector":
        if dimension is not None and 1 <= dimension <= VECTOR_DIMENSION_MAX:
            return PropertyType(Vector(dimension), each.is_nullable)
        problem = f"the dimension of a Vector lies between 1 and {VECTOR_DIMENSION_MAX}"
        diagnostics.error("T33", problem, each.type.span, "write `Vector(3)`")
    elif word not in SCALAR_BY_NAME:
        near = find_near_name(word, _TYPE_WORDS)
        advice = f"did you mean `{near}`?" if near else f"the types are {', '.join(_TYPE_WORDS)}"
        diagnostics.error("T33", f"unknown parameter type `{word}`", each.type.span, advice)
    elif dimension is not None:
        problem = f"{word} takes no number; only Vector does"
        diagnostics.error("T33", problem, each.type.span, f"write `{word}`")
    else:
        return PropertyType(SCALAR_BY_NAME[word], each.is_nullable, each.is_list)
    return None
