"""The schema checker: a `.pg` syntax tree in, a catalog in canonical order out.

The checker returns a complete catalog or raises `CompileError` with all diagnostics. A node type
inherits the properties of its interfaces; a property that it declares itself must have the type
that the interface declares. Type and property ids are hashes of names, so they are equal in every
schema. A schema in which two ids collide is rejected.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.compiler.diagnostics import Diagnostics, advise_name
from omnigraph.compiler.parser import Name
from omnigraph.compiler.schema.annotations import (
    PROPERTY_CONSTRAINT_WORDS,
    CheckedAnnotation,
    check_property_annotations,
    check_type_annotations,
    is_constraint,
    split_rename,
)
from omnigraph.compiler.schema.constraints import ConstraintScope, check_constraints
from omnigraph.compiler.schema.parser import (
    AnnotationSyntax,
    EdgeSyntax,
    EnumTypeSyntax,
    InterfaceSyntax,
    ListTypeSyntax,
    Member,
    NodeSyntax,
    PropertySyntax,
    RangeArgument,
    ScalarTypeSyntax,
    SchemaSyntax,
)
from omnigraph.model.catalog import (
    ANY_CARDINALITY,
    Annotation,
    Cardinality,
    Catalog,
    Constraint,
    DeclaredType,
    EdgeType,
    Interface,
    NodeType,
    Property,
    TypeKind,
)
from omnigraph.model.limits import CARDINALITY_MAX, PROPERTIES_MAX, VECTOR_DIMENSION_MAX
from omnigraph.model.names import (
    RESERVED_EDGE_PROPERTIES,
    RESERVED_PROPERTIES,
    fnv1a_32,
    fold_edge_name,
)
from omnigraph.model.source import Source, Span
from omnigraph.model.types import SCALAR_BY_NAME, PropertyType, Scalar, Vector

TYPE_WORDS = (*SCALAR_BY_NAME, "Vector")

# The names of types in other languages. Similar spellings are found without a list.
_TYPE_BY_FOREIGN_NAME = {
    "text": "String",
    "varchar": "String",
    "char": "String",
    "uuid": "String",
    "json": "String",
    "int": "I32` or `I64",
    "integer": "I32` or `I64",
    "long": "I64",
    "bigint": "I64",
    "smallint": "I32",
    "float": "F32` or `F64",
    "double": "F64",
    "real": "F32",
    "number": "F64` or `I64",
    "decimal": "F64",
    "numeric": "F64",
    "timestamp": "DateTime",
    "time": "DateTime",
    "bytes": "Blob",
    "binary": "Blob",
    "list": "[String]",
    "array": "[String]",
    "embedding": "Vector(n)",
}


def check_type(declared: PropertySyntax, diagnostics: Diagnostics) -> PropertyType | None:
    """The type of a declared property, or `None` after reporting why it is invalid."""
    match declared.type:
        case ScalarTypeSyntax(name=Name(text="Vector") as name, dimension=dimension):
            if not is_dimension(dimension, name.span, diagnostics):
                return None
            assert dimension is not None
            return PropertyType(Vector(dimension), is_nullable=declared.is_nullable)
        case ScalarTypeSyntax(name=name, dimension=dimension):
            scalar = find_scalar(name, diagnostics)
            if scalar is not None and dimension is not None:
                problem = f"{name.text} takes no number; only Vector does"
                diagnostics.error("S1", problem, name.span, f"write `{name.text}`")
            return None if scalar is None else PropertyType(scalar, declared.is_nullable)
        case ListTypeSyntax(element=element):
            if element.text in {"Blob", "Vector"}:
                problem = f"a list of {element.text} is not supported"
                diagnostics.error("S2", problem, element.span)
                return None
            scalar = find_scalar(element, diagnostics)
            return (
                None if scalar is None else PropertyType(scalar, declared.is_nullable, is_list=True)
            )
        case EnumTypeSyntax(values=values):
            return _check_enum(values, declared, diagnostics)


def find_scalar(name: Name, diagnostics: Diagnostics) -> Scalar | None:
    """The scalar type with a name; an unknown name is reported."""
    if (scalar := SCALAR_BY_NAME.get(name.text)) is not None:
        return scalar
    ours = _TYPE_BY_FOREIGN_NAME.get(name.text.lower())
    advice = f"write `{ours}`" if ours else advise_name(name.text, TYPE_WORDS) or _ALL_TYPES
    diagnostics.error("S1", f"unknown property type `{name.text}`", name.span, advice)
    return None


_ALL_TYPES = (
    f"the types are {', '.join(SCALAR_BY_NAME)}, Vector(n), enum(…) and lists like [String]; "
    "to point at another node declare an edge type"
)


def is_dimension(dimension: int | None, span: Span, diagnostics: Diagnostics) -> bool:
    """Whether a vector dimension is valid; an invalid one is reported."""
    if dimension is None:
        diagnostics.error("S3", "Vector needs a dimension", span, "write `Vector(3)`")
    elif dimension < 1:
        diagnostics.error("S3", "Vector dimension must be greater than zero", span)
    elif dimension > VECTOR_DIMENSION_MAX:
        problem = f"Vector dimension exceeds maximum supported {VECTOR_DIMENSION_MAX}"
        diagnostics.error("S3", problem, span)
    else:
        return True
    return False


def _check_enum(
    values: tuple[Name, ...], declared: PropertySyntax, diagnostics: Diagnostics
) -> PropertyType | None:
    texts: set[str] = set()
    for value in values:
        if value.text in texts:
            problem = f"the enum has duplicate values: `{value.text}`"
            diagnostics.error("S4", problem, value.span, "keep one")
            return None
        texts.add(value.text)
    return PropertyType(Scalar.STRING, declared.is_nullable, enum_values=tuple(sorted(texts)))


@dataclass(frozen=True, slots=True)
class CheckedProperty:
    """A property, and its annotations with their source positions."""

    property: Property
    annotations: tuple[CheckedAnnotation, ...]


def check_members(
    members: Sequence[Member], *, owner: Name, kind: TypeKind, diagnostics: Diagnostics
) -> tuple[dict[str, Property], tuple[Constraint, ...]]:
    """Check the properties and constraints that a type declares or inherits."""
    declared: set[str] = set()
    checked: list[CheckedProperty] = []
    body: list[AnnotationSyntax] = []
    for member in members:
        if isinstance(member, AnnotationSyntax) and is_constraint(member):
            body.append(member)
            continue
        if isinstance(member, AnnotationSyntax):
            problem = f"@{member.name.text} must come before all properties"
            advice = "write it behind a property's type, or before the {"
            diagnostics.error("S5", problem, member.span, advice)
            continue
        body += filter(is_constraint, member.annotations)
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
    sugar = [
        (each.annotation.name, Name(prop.property.name, each.span))
        for prop in checked
        for each in prop.annotations
        if each.annotation.name in PROPERTY_CONSTRAINT_WORDS
    ]
    return dict(sorted(properties.items())), check_constraints(sugar, body, scope=scope)


def check_property(
    member: PropertySyntax, *, kind: TypeKind, diagnostics: Diagnostics
) -> CheckedProperty | None:
    """Check one property by itself; `None` after reporting that its type is invalid."""
    type = check_type(member, diagnostics)
    if type is None:
        return None
    plain = [each for each in member.annotations if not is_constraint(each)]
    checked = check_property_annotations(
        plain, owner=member.name, kind=kind, type=type, diagnostics=diagnostics
    )
    annotations, renamed_from = split_rename(checked)
    prop = Property(member.name.text, type, annotations, renamed_from)
    return CheckedProperty(prop, tuple(checked))


def _is_name_free(
    name: Name, kind: TypeKind, owner: Name, declared: set[str], diagnostics: Diagnostics
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
    """Why an `@embed` is invalid, apart from its source property; `None` if it is valid."""
    if not prop.type.is_vector:
        return f"@embed fills a Vector; `{prop.name}` is {prop.type}"
    if embed.value is None:
        return "@embed needs the property whose text is embedded"
    for name, _ in embed.arguments:
        if name != "model":
            return f"@embed has no argument `{name}`; only 'model' is supported"
    return None


def resolve_inheritance(
    node: NodeSyntax,
    *,
    interfaces: Mapping[str, InterfaceSyntax],
    nodes: Collection[str],
    diagnostics: Diagnostics,
) -> tuple[PropertySyntax, ...]:
    """The properties that a node type inherits from its interfaces."""
    own = {m.name.text: m for m in node.members if isinstance(m, PropertySyntax)}
    taken: dict[str, PropertySyntax] = {}
    first_by_name: dict[str, Name] = {}
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
    word: Name,
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
    own: PropertySyntax, offered: PropertySyntax, interface: Name, diagnostics: Diagnostics
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
    """The property that a declaration defines, in any kind of type.

    Errors are not reported here, because they are reported where the property is declared.
    """
    quiet = Diagnostics(Source("", ""))
    checked = check_property(declared, kind=TypeKind.INTERFACE, diagnostics=quiet)
    return None if checked is None else checked.property


def type_id(kind: TypeKind, name: str) -> int:
    """The id of a type, the same in every schema that declares it."""
    return _hash_name(f"{kind}:{name}")


def property_id(kind: TypeKind, type_name: str, name: str) -> int:
    """The id of a property, the same in every schema that declares it."""
    return _hash_name(f"{kind}:{type_name}:{name}")


def report_collisions(
    declared: Iterable[tuple[Name, DeclaredType]], diagnostics: Diagnostics
) -> None:
    """Report types of one schema, and properties of one type, whose ids collide."""
    name_by_identity: dict[int, str] = {}
    for word, type in declared:
        noun = f"{type.kind} `{type.name}`"
        taken = name_by_identity.setdefault(type_id(type.kind, type.name), noun)
        if taken != noun:
            problem = f"{taken} and {noun} have the same identity number"
            diagnostics.error("C7", problem, word.span, "rename one of them")
        for one, other in _colliding_properties(type):
            problem = f"`{one}` and `{other}` of `{type.name}` have the same identity number"
            diagnostics.error("C7", problem, word.span, "rename one of the two properties")


def _colliding_properties(type: DeclaredType) -> Iterator[tuple[str, str]]:
    name_by_identity: dict[int, str] = {}
    for name in type.properties:
        taken = name_by_identity.setdefault(property_id(type.kind, type.name, name), name)
        if taken != name:
            yield taken, name


def _hash_name(text: str) -> int:
    # In the stored form zero is the absence of an id.
    return fnv1a_32(text) or 1


def check_schema(schema: SchemaSyntax, source: Source) -> Catalog:
    """Check a schema and build its catalog."""
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
    """Build a catalog in canonical order: each group of types is sorted by name."""
    by_name = {edge.name: edge for edge in sorted(edges, key=lambda e: e.name)}
    return Catalog(
        {each.name: each for each in sorted(interfaces, key=lambda i: i.name)},
        {each.name: each for each in sorted(nodes, key=lambda n: n.name)},
        by_name,
        {fold_edge_name(name): edge for name, edge in by_name.items()},
    )


@dataclass(frozen=True, slots=True)
class _Declarations:
    """The declarations of a text, by name."""

    interfaces: Mapping[str, InterfaceSyntax]
    nodes: Mapping[str, NodeSyntax]
    edges: Mapping[str, EdgeSyntax]


def _require_bounded(declared: _Declarations, diagnostics: Diagnostics) -> None:
    """Reject a schema that would have too many properties, before inheritance is resolved."""
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
    properties, _ = check_members(
        interface.members, owner=interface.name, kind=TypeKind.INTERFACE, diagnostics=diagnostics
    )
    return Interface(interface.name.text, properties)


def _check_node(node: NodeSyntax, declared: _Declarations, diagnostics: Diagnostics) -> NodeType:
    inherited = resolve_inheritance(
        node, interfaces=declared.interfaces, nodes=declared.nodes, diagnostics=diagnostics
    )
    headings = check_type_annotations(
        node.headings, owner=node.name, kind=TypeKind.NODE, diagnostics=diagnostics
    )
    properties, constraints = check_members(
        (*node.members, *inherited), owner=node.name, kind=TypeKind.NODE, diagnostics=diagnostics
    )
    annotations, renamed_from = split_rename(headings)
    return NodeType(
        node.name.text,
        properties,
        constraints,
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
    properties, constraints = check_members(
        edge.members, owner=edge.name, kind=TypeKind.EDGE, diagnostics=diagnostics
    )
    annotations, renamed_from = split_rename(checked)
    return EdgeType(
        edge.name.text,
        edge.source.text,
        edge.target.text,
        cardinality,
        properties,
        constraints,
        annotations,
        renamed_from,
    )


def _report_unknown_end(
    problem: str, end: Name, declared: _Declarations, diagnostics: Diagnostics
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
