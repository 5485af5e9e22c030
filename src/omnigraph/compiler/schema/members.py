"""What stands between a type's braces: its properties, and the constraints on them.

Promises properties by name in canonical order. Knows one type at a time; inheritance and edges'
ends are the checker's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.schema.annotations import (
    PROPERTY_CONSTRAINT_WORDS,
    CheckedAnnotation,
    check_property_annotations,
    split_constraints,
    split_rename,
)
from omnigraph.compiler.schema.constraints import ConstraintScope, check_constraints
from omnigraph.compiler.schema.property_types import check_type
from omnigraph.compiler.schema.syntax import AnnotationSyntax, Member, PropertySyntax, Word
from omnigraph.model.catalog import Annotation, Constraint, Property, TypeKind
from omnigraph.model.names import RESERVED_EDGE_PROPERTIES, RESERVED_PROPERTIES


@dataclass(frozen=True, slots=True)
class Members:
    """The checked body of a type."""

    properties: Mapping[str, Property]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class CheckedProperty:
    """A property, and its annotations with their places."""

    property: Property
    annotations: tuple[CheckedAnnotation, ...]


def check_members(
    members: Sequence[Member], *, owner: Word, kind: TypeKind, diagnostics: Diagnostics
) -> Members:
    """The properties and constraints that a type declares or inherits."""
    declared: set[str] = set()
    checked: list[CheckedProperty] = []
    body: list[AnnotationSyntax] = []
    for member in members:
        if isinstance(member, AnnotationSyntax):
            body += _check_leading_annotation(member, diagnostics)
            continue
        body += split_constraints(member.annotations)[1]
        is_name_free = _is_name_free(member.name, kind, owner, declared, diagnostics)
        declared.add(member.name.text)
        prop = check_property(member, kind=kind, diagnostics=diagnostics)
        if is_name_free and prop is not None:
            checked.append(prop)
    properties = {each.property.name: each.property for each in checked}
    scope = ConstraintScope(kind, owner.text, properties, frozenset(declared), diagnostics)
    if kind is TypeKind.INTERFACE:
        _refuse_interface_constraints(body, diagnostics)
        body = []
    else:
        _check_embeddings(checked, scope)
    constraints = check_constraints(_sugar(checked), body, scope=scope)
    return Members(dict(sorted(properties.items())), constraints)


def check_property(
    member: PropertySyntax, *, kind: TypeKind, diagnostics: Diagnostics
) -> CheckedProperty | None:
    """One property by itself, or `None` after reporting that its type is none."""
    type = check_type(member, diagnostics)
    if type is None:
        return None
    plain, _ = split_constraints(member.annotations)
    checked = check_property_annotations(
        plain, owner=member.name, kind=kind, type=type, diagnostics=diagnostics
    )
    annotations, renamed_from = split_rename(checked)
    prop = Property(member.name.text, type, annotations, renamed_from)
    return CheckedProperty(prop, tuple(checked))


def _check_leading_annotation(
    member: AnnotationSyntax, diagnostics: Diagnostics
) -> list[AnnotationSyntax]:
    """An annotation that stands before every property: only a constraint makes sense there."""
    plain, constraints = split_constraints([member])
    for each in plain:
        problem = f"@{each.name.text} stands before every property"
        advice = "write it behind a property's type, or before the {"
        diagnostics.error("S5", problem, each.span, advice)
    return constraints


def _is_name_free(
    name: Word, kind: TypeKind, owner: Word, declared: set[str], diagnostics: Diagnostics
) -> bool:
    reserved = RESERVED_EDGE_PROPERTIES if kind is TypeKind.EDGE else RESERVED_PROPERTIES
    if name.text in reserved:
        problem = f"`{name.text}` is the name of a built-in column"
        diagnostics.error("C5", problem, name.span, "choose another name for the property")
        return False
    if name.text in declared:
        problem = f"duplicate property `{name.text}` in `{owner.text}`"
        diagnostics.error("C4", problem, name.span, "keep one")
        return False
    return True


def _refuse_interface_constraints(
    constraints: Iterable[AnnotationSyntax], diagnostics: Diagnostics
) -> None:
    for each in constraints:
        word = each.name.text
        problem = f"an interface takes no @{word}(…) constraint"
        if word in PROPERTY_CONSTRAINT_WORDS:
            advice = f"write `@{word}` behind the property, or move it to the node types"
        else:
            advice = "move it to the node types"
        diagnostics.error("S5", problem, each.span, advice)


def _sugar(checked: Iterable[CheckedProperty]) -> list[tuple[str, Word]]:
    return [
        (each.annotation.name, Word(prop.property.name, each.span))
        for prop in checked
        for each in prop.annotations
        if each.annotation.name in PROPERTY_CONSTRAINT_WORDS
    ]


def _check_embeddings(checked: Iterable[CheckedProperty], scope: ConstraintScope) -> None:
    for prop in checked:
        for each in prop.annotations:
            if each.annotation.name == "embed":
                _check_embedding(prop.property, each, scope)


def _check_embedding(prop: Property, embed: CheckedAnnotation, scope: ConstraintScope) -> None:
    problem = _embedding_problem(prop, embed.annotation)
    if problem is None and prop.embedding is not None:
        name = prop.embedding.source
        source = scope.properties.get(name)
        if source is None and name not in scope.declared:
            unknown = f"@embed references unknown property `{name}` of {scope.type_name}"
            scope.diagnostics.unknown("S15", unknown, embed.span, name, scope.properties)
        elif source is not None and not source.type.is_string:
            problem = f"@embed reads a String; `{name}` is {source.type}"
    if problem is not None:
        advice = f'write `{prop.name}: Vector(n) @embed("text_property")`'
        scope.diagnostics.error("S15", problem, embed.span, advice)


def _embedding_problem(prop: Property, embed: Annotation) -> str | None:
    """What is wrong with an `@embed` by itself, its source aside."""
    if not prop.type.is_vector:
        return f"@embed fills a Vector; `{prop.name}` is {prop.type}"
    if embed.value is None:
        return "@embed needs the property whose text is embedded"
    for name, _ in embed.arguments:
        if name != "model":
            return f"@embed has no argument `{name}`; only 'model' is supported"
    return None
