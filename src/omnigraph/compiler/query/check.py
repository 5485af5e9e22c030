"""Syntax tree to IR for one query, with everything that is wrong with it reported."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.ir import MutationIR, Parameter, QueryIR, ReadIR
from omnigraph.compiler.query.clauses import check_clauses
from omnigraph.compiler.query.lower import lower_clauses
from omnigraph.compiler.query.mutations import check_mutation, require_one_kind
from omnigraph.compiler.query.ordering import check_count, check_order
from omnigraph.compiler.query.parts import warn_about_combinations
from omnigraph.compiler.query.projections import check_columns
from omnigraph.compiler.query.scope import NOW_PARAMETER, Scope
from omnigraph.compiler.query.syntax import ParameterSyntax, QuerySyntax, Read
from omnigraph.model.catalog import Catalog
from omnigraph.model.limits import VECTOR_DIMENSION_MAX
from omnigraph.model.names import find_near_name
from omnigraph.model.source import Diagnostic
from omnigraph.model.types import SCALAR_BY_NAME, PropertyType, Vector

_ANNOTATIONS = ("description", "instruction")
_TYPE_WORDS = (*SCALAR_BY_NAME, "Vector(n)")


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query that is known to be right against a catalog."""

    name: str
    ir: QueryIR
    description: str | None
    instruction: str | None
    warnings: tuple[Diagnostic, ...]

    @property
    def is_mutation(self) -> bool:
        return isinstance(self.ir, MutationIR)


def check_query(
    query: QuerySyntax, catalog: Catalog, diagnostics: Diagnostics, *, allow_mixed: bool
) -> CompiledQuery:
    """The query, typed and lowered; of use only if `diagnostics` has no errors afterwards.

    Lint allows a mutation to mix deletes with other changes; execution does not.
    """
    texts = _check_annotations(query, diagnostics)
    parameters = _check_parameters(query, diagnostics)
    scope = Scope(catalog, {each.name: each.type for each in parameters}, diagnostics)
    scope.break_off(*(each.variable for each in query.parameters))
    lowered: QueryIR
    if isinstance(query.body, Read):
        lowered = _check_read(query.name.text, parameters, query.body, scope)
    else:
        lowered = MutationIR(query.name.text, parameters, check_mutation(query.body, scope))
        if not allow_mixed:
            require_one_kind(query.body, scope)
    return CompiledQuery(
        query.name.text,
        lowered,
        texts.get("description"),
        texts.get("instruction"),
        diagnostics.warnings,
    )


def _check_read(name: str, parameters: tuple[Parameter, ...], read: Read, scope: Scope) -> ReadIR:
    clauses = check_clauses(read.clauses, scope)
    warn_about_combinations(read.clauses, scope)
    columns = check_columns(read, scope)
    limit, offset = (check_count(each, scope) for each in (read.limit, read.offset))
    # Without all columns, aliases would look unknown and rankings unreturned.
    ranking, order = (None, ()) if columns is None else check_order(read, columns, scope)
    # Lowering relies on every variable being bound, which faults may have prevented.
    pipeline = () if scope.diagnostics.error_count else lower_clauses(clauses)
    return ReadIR(
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


def _check_annotations(query: QuerySyntax, diagnostics: Diagnostics) -> dict[str, str]:
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


def _check_parameters(query: QuerySyntax, diagnostics: Diagnostics) -> tuple[Parameter, ...]:
    # Of two declarations of one name the last counts, as in the reference.
    parameters: dict[str, Parameter] = {}
    for each in query.parameters:
        type = _check_parameter_type(each, diagnostics)
        if each.variable.name == NOW_PARAMETER:
            problem = f"the name `${NOW_PARAMETER}` is reserved; now() gives its value"
            diagnostics.error("T33", problem, each.variable.span)
        elif type is not None and type.is_blob and isinstance(query.body, Read):
            problem = f"`${each.variable.name}` is a Blob, which no read can use"
            diagnostics.error("T24", problem, each.type.span)
        elif type is not None:
            parameters[each.variable.name] = Parameter(each.variable.name, type)
    return tuple(parameters.values())


def _check_parameter_type(each: ParameterSyntax, diagnostics: Diagnostics) -> PropertyType | None:
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
