"""The migration planner: the steps that lead from an accepted schema to a desired one.

A plan is empty exactly when both schemas have the same canonical form. Every difference appears in
the plan, either as a supported step or as an unsupported change. A `@rename_from` that matches no
accepted name is an error, because the alternative is to drop data that the author wants to keep.
The planner reads no rows: it plans as if every type had some.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.compiler.migration_steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCode,
    ChangeLanguage,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    RenameProperty,
    RenameType,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from omnigraph.compiler.schema.annotations import PROPERTY_CONSTRAINT_WORDS
from omnigraph.compiler.schema.constraints import constraint_key
from omnigraph.model.catalog import (
    COLUMN_CONSTRAINTS,
    SEARCHED_CONSTRAINTS,
    Annotation,
    Catalog,
    Check,
    Constraint,
    DeclaredType,
    EdgeType,
    Index,
    Interface,
    Key,
    NodeType,
    Property,
    Range,
    TypeKind,
    Unique,
    describe_constraint,
)
from omnigraph.model.errors import CompileError
from omnigraph.model.source import Diagnostic, Severity, Source


@dataclass(frozen=True, slots=True)
class Lineage:
    """Old names by new names; new types and properties have no entry."""

    types: Mapping[tuple[TypeKind, str], str]
    properties: Mapping[tuple[TypeKind, str], Mapping[str, str]]

    def find_type(self, kind: TypeKind, name: str) -> str | None:
        """The accepted name of a desired type, or None if the type is new."""
        return self.types.get((kind, name))


def trace_lineage(accepted: Catalog, desired: Catalog, source: Source) -> Lineage:
    """Match desired types and properties with accepted ones.

    Raises `CompileError` if a hint of the desired schema matches nothing.
    """
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
    # A first schema has nothing to rename, and it may have been written for another graph.
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
    """A `@rename_from`: the name and a description of its owner, and the old name."""

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
    """Old names by new names: first equal names, then hinted ones; each old name is used once.

    `explain` returns why the old name of a hint does not exist, and advice.
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
    """Whether an interface has the same hint, which must then match the interface.

    Otherwise a new node type could not implement an interface that has a hint.
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


_DESCRIPTION_WORDS = frozenset({"description", "instruction"})


@dataclass(frozen=True, slots=True)
class TypeChange:
    """A type that exists in both schemas: its old and new form, and the names of its properties."""

    old: DeclaredType
    new: DeclaredType
    old_name_by_new: Mapping[str, str]
    new_name_by_old: Mapping[str, str]

    @property
    def kind(self) -> TypeKind:
        return self.new.kind

    @property
    def name(self) -> str:
        return self.new.name

    def translate_annotation(self, annotation: Annotation) -> Annotation:
        """An old annotation after the renames: `@embed` names a property."""
        if annotation.name != "embed" or annotation.value is None:
            return annotation
        return replace(annotation, value=self._translate(annotation.value))

    def translate_constraint(self, constraint: Constraint) -> Constraint:
        """An old constraint after the renames."""
        match constraint:
            case Key(columns) | Unique(columns) | Index(columns):
                return replace(constraint, columns=tuple(sorted(map(self._translate, columns))))
            case Range(name) | Check(name):
                return replace(constraint, property=self._translate(name))

    def unsupported(
        self, reason: str, *, prop: Property | None = None, code: ChangeCode | None = None
    ) -> UnsupportedChange:
        """A change of this type, or of one of its properties, that no migration supports."""
        entity = f"{self.kind}:{self.name}"
        return UnsupportedChange(f"{entity}.{prop.name}" if prop else entity, reason, code)

    def _translate(self, name: str) -> str:
        return self.new_name_by_old.get(name, name)


def constraints_of(type: DeclaredType) -> tuple[Constraint, ...]:
    """The constraints of a type; those of an interface are the ones that its node types inherit."""
    if not isinstance(type, Interface):
        return type.constraints
    return tuple(
        COLUMN_CONSTRAINTS[annotation.name]((prop.name,))
        for prop in type.properties.values()
        for annotation in prop.annotations
        if annotation.name in COLUMN_CONSTRAINTS
    )


def descriptions(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    """The annotations that are only documentation and may change at any time."""
    return tuple(each for each in annotations if each.name in _DESCRIPTION_WORDS)


def list_changed(before: tuple[Annotation, ...], after: tuple[Annotation, ...]) -> str:
    """The changed annotations that have an effect, as they are written; empty if there are none.

    Constraint words are left out: the constraints that they represent are compared themselves.
    """
    ignored = _DESCRIPTION_WORDS | PROPERTY_CONSTRAINT_WORDS
    old, new = Counter(before), Counter(after)
    words = {each.name for each in (old - new) + (new - old) if each.name not in ignored}
    return ", ".join(f"@{word}" for word in sorted(words))


def plan_constraints(change: TypeChange) -> Iterator[Step]:
    """The steps for the constraints of a continued type."""
    yield from _plan_key_order(change)
    old = map(change.translate_constraint, constraints_of(change.old))
    before = {constraint_key(each): each for each in old}
    after = {constraint_key(each): each for each in constraints_of(change.new)}
    removed = ", ".join(describe_constraint(before[key]) for key in sorted(before.keys() - after))
    if removed:
        yield change.unsupported(f"removing constraints ({removed})")
    for key in sorted(after.keys() - before):
        constraint = after[key]
        if isinstance(constraint, Index):
            yield AddConstraint(change.kind, change.name, constraint)
        else:
            problem = "existing rows were never checked against it"
            yield change.unsupported(f"adding {describe_constraint(constraint)}; {problem}")


def _plan_key_order(change: TypeChange) -> Iterator[Step]:
    """Reject a rename that reorders the parts of a composite key.

    A composite id lists its parts in the order of their names, so the rename would change ids.
    """
    if not isinstance(change.old, NodeType) or not isinstance(change.new, NodeType):
        return
    parts = [change.new_name_by_old.get(column, column) for column in change.old.key]
    if parts != sorted(parts) and tuple(sorted(parts)) == change.new.key:
        order = f"({', '.join(parts)}) to ({', '.join(change.new.key)})"
        reason = f"renaming a part of the key reorders it from {order}, which would change ids"
        yield change.unsupported(reason)


def plan_properties(change: TypeChange, mode: DropMode) -> Iterator[Step]:
    """The steps for the properties of a continued type."""
    left = dict(change.old.properties)
    for prop in change.new.properties.values():
        old_name = change.old_name_by_new.get(prop.name)
        if old_name is None:
            yield _plan_added(prop, change)
        else:
            yield from _plan_continued(left.pop(old_name), prop, change)
    for name in left:
        yield DropProperty(change.kind, change.name, name, mode)


def _plan_added(prop: Property, change: TypeChange) -> Step:
    # An interface has no rows; node types without the property have separate steps.
    if prop.type.is_nullable or change.kind is TypeKind.INTERFACE:
        return AddProperty(change.kind, change.name, prop.name, prop.type)
    advice = f"declare it as `{prop.type.as_nullable()}`"
    reason = f"adding a required property, which existing rows have no value for; {advice}"
    return change.unsupported(reason, prop=prop, code=ChangeCode.REQUIRED_PROPERTY)


def _plan_continued(old: Property, new: Property, change: TypeChange) -> Iterator[Step]:
    if old.name != new.name:
        yield RenameProperty(change.kind, change.name, old.name, new.name)
    if old.type != new.type:
        yield _plan_type_change(old, new, change)
    before = tuple(map(change.translate_annotation, old.annotations))
    if changed := list_changed(before, new.annotations):
        yield change.unsupported(f"changing {changed}", prop=new)
    for word in _moved_words(old, new, change):
        reason = f"moving @{word} between the property and the body of its type"
        yield change.unsupported(reason, prop=new)
    if (after := descriptions(new.annotations)) != descriptions(old.annotations):
        yield UpdatePropertyMetadata(change.kind, change.name, new.name, after)
    if _languages(old) != _languages(new):
        yield ChangeLanguage(change.kind, change.name, new.name, new.language)


def _languages(prop: Property) -> list[Annotation]:
    """The annotations that declare the language of a property."""
    words = SEARCHED_CONSTRAINTS
    return [each for each in prop.annotations if each.name in words and each.arguments]


def _plan_type_change(old: Property, new: Property, change: TypeChange) -> Step:
    before, after = old.type.enum_values, new.type.enum_values
    if before and after and old.type.is_nullable == new.type.is_nullable:
        added = tuple(value for value in after if value not in before)
        if len(after) == len(before) + len(added):
            return ExtendEnum(change.kind, change.name, new.name, added)
    advice = "add a property of the new type and copy the values"
    reason = f"changing property type from {old.type} to {new.type}; {advice}"
    return change.unsupported(reason, prop=new, code=ChangeCode.PROPERTY_TYPE)


def _moved_words(old: Property, new: Property, change: TypeChange) -> Iterator[str]:
    """The constraint words that a property gained or lost although the constraint remains."""
    before = {each.name for each in old.annotations} & PROPERTY_CONSTRAINT_WORDS
    after = {each.name for each in new.annotations} & PROPERTY_CONSTRAINT_WORDS
    for word in sorted(before ^ after):
        constraint = COLUMN_CONSTRAINTS[word]((new.name,))
        was_there = constraint in map(change.translate_constraint, constraints_of(change.old))
        if was_there and constraint in constraints_of(change.new):
            yield word


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The steps from an accepted schema to a desired one, in the order of execution."""

    steps: tuple[Step, ...]

    @property
    def supported(self) -> bool:
        """Whether every step is supported."""
        return not any(isinstance(step, UnsupportedChange) for step in self.steps)


def plan_migration(
    accepted: Catalog, desired: Catalog, *, source: Source, allow_data_loss: bool
) -> MigrationPlan:
    """Plan the migration of a graph from the accepted schema to the desired schema.

    Raises `CompileError` if a `@rename_from` of the desired schema, which `source` declares,
    matches nothing. `allow_data_loss` makes every drop final.
    """
    lineage = trace_lineage(accepted, desired, source)
    mode = DropMode.HARD if allow_data_loss else DropMode.SOFT
    steps: list[Step] = []
    for kind in (TypeKind.INTERFACE, TypeKind.NODE, TypeKind.EDGE):
        steps += _plan_kind(types_of(accepted, kind), types_of(desired, kind), lineage, mode)
    return MigrationPlan(tuple(steps))


def _plan_kind(
    accepted: Mapping[str, DeclaredType],
    desired: Mapping[str, DeclaredType],
    lineage: Lineage,
    mode: DropMode,
) -> Iterator[Step]:
    left = dict(accepted)
    for new in desired.values():
        old_name = lineage.find_type(new.kind, new.name)
        if old_name is None:
            yield AddType(new.kind, new.name)
        else:
            old_name_by_new = lineage.properties[new.kind, new.name]
            new_name_by_old = {before: after for after, before in old_name_by_new.items()}
            change = TypeChange(left.pop(old_name), new, old_name_by_new, new_name_by_old)
            yield from _plan_type(change, lineage, mode)
    for old in left.values():
        if old.kind is TypeKind.INTERFACE:
            yield UnsupportedChange(f"{old.kind}:{old.name}", "removing an interface", None)
        else:
            yield DropType(old.kind, old.name, mode)


def _plan_type(change: TypeChange, lineage: Lineage, mode: DropMode) -> Iterator[Step]:
    if change.old.name != change.name:
        yield RenameType(change.kind, change.old.name, change.name)
    match change.old, change.new:
        case NodeType() as old, NodeType() as new:
            if old.implements != new.implements:
                yield change.unsupported("changing which interfaces the type implements")
        case EdgeType() as old, EdgeType() as new:
            yield from _plan_edge(old, new, change, lineage)
        case _:
            pass  # an interface has only properties
    yield from _plan_annotations(change)
    yield from plan_properties(change, mode)
    yield from plan_constraints(change)


def _plan_edge(
    old: EdgeType, new: EdgeType, change: TypeChange, lineage: Lineage
) -> Iterator[Step]:
    ends = tuple(lineage.find_type(TypeKind.NODE, end) for end in (new.source, new.target))
    if ends != (old.source, old.target):
        before, after = f"{old.source} -> {old.target}", f"{new.source} -> {new.target}"
        yield change.unsupported(f"changing the ends of the edge from {before} to {after}")
    if old.cardinality != new.cardinality:
        yield change.unsupported(f"changing @card from {old.cardinality} to {new.cardinality}")


def _plan_annotations(change: TypeChange) -> Iterator[Step]:
    old, new = change.old, change.new
    if isinstance(old, Interface) or isinstance(new, Interface):
        return
    if changed := list_changed(old.annotations, new.annotations):
        yield change.unsupported(f"changing {changed}")
    if (after := descriptions(new.annotations)) != descriptions(old.annotations):
        yield UpdateTypeMetadata(change.kind, change.name, after)
