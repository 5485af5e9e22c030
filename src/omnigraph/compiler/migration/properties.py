"""What becomes of the properties of a type: added, renamed, retyped, described anew, dropped."""

from collections.abc import Iterator

from omnigraph.compiler.migration.change import (
    TypeChange,
    constraints_of,
    descriptions,
    list_changed,
    make_constraint,
)
from omnigraph.compiler.migration.steps import (
    AddProperty,
    ChangeCode,
    DropMode,
    DropProperty,
    ExtendEnum,
    RenameProperty,
    Step,
    UpdatePropertyMetadata,
)
from omnigraph.compiler.schema.annotations import PROPERTY_CONSTRAINT_WORDS
from omnigraph.model.catalog import Property, TypeKind


def plan_properties(change: TypeChange, mode: DropMode) -> Iterator[Step]:
    """The steps for the properties of a type that continues."""
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
    # An interface has no rows; the node types that lack the property have steps of their own.
    if prop.type.is_nullable or change.kind is TypeKind.INTERFACE:
        return AddProperty(change.kind, change.name, prop.name, prop.type)
    advice = f"declare it as `{prop.type.as_nullable()}`"
    reason = f"adding a required property, which existing rows have no value for; {advice}"
    return change.unsupported(reason, prop=prop, code=ChangeCode.REQUIRED_PROPERTY)


def _plan_continued(old: Property, new: Property, change: TypeChange) -> Iterator[Step]:
    if old.name != new.name:
        yield RenameProperty(change.kind, change.name, old.name, new.name)
    if old.type != new.type:
        yield _plan_type(old, new, change)
    before = tuple(map(change.translate_annotation, old.annotations))
    if changed := list_changed(before, new.annotations):
        yield change.unsupported(f"changing {changed}", prop=new, code=None)
    for word in _moved_words(old, new, change):
        reason = f"moving @{word} between the property and the body of its type"
        yield change.unsupported(reason, prop=new, code=None)
    if (after := descriptions(new.annotations)) != descriptions(old.annotations):
        yield UpdatePropertyMetadata(change.kind, change.name, new.name, after)


def _plan_type(old: Property, new: Property, change: TypeChange) -> Step:
    before, after = old.type.enum_values, new.type.enum_values
    if before and after and old.type.is_nullable == new.type.is_nullable:
        added = tuple(value for value in after if value not in before)
        if len(after) == len(before) + len(added):
            return ExtendEnum(change.kind, change.name, new.name, added)
    advice = "add a property of the new type and copy the values"
    reason = f"changing property type from {old.type} to {new.type}; {advice}"
    return change.unsupported(reason, prop=new, code=ChangeCode.PROPERTY_TYPE)


def _moved_words(old: Property, new: Property, change: TypeChange) -> Iterator[str]:
    """The constraint words that a property gained or lost while the constraint itself stays."""
    before = {each.name for each in old.annotations} & PROPERTY_CONSTRAINT_WORDS
    after = {each.name for each in new.annotations} & PROPERTY_CONSTRAINT_WORDS
    for word in sorted(before ^ after):
        constraint = make_constraint(word, new.name)
        was_there = constraint in map(change.translate_constraint, constraints_of(change.old))
        if was_there and constraint in constraints_of(change.new):
            yield word
