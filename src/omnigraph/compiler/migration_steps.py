"""The steps of a migration: their types, their text and their JSON form.

Other programs read their names, fields and codes. The planner in `migration` decides which steps a
change needs; the effect of a step on stored rows is decided where it is applied.
"""

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TypeAlias

from omnigraph.compiler.schema.canonical import (
    Json,
    encode_annotation,
    encode_constraint,
    encode_type,
)
from omnigraph.model.catalog import (
    Annotation,
    Check,
    Constraint,
    Index,
    Key,
    Range,
    TypeKind,
    Unique,
    describe_constraint,
    quote_text,
)
from omnigraph.model.types import PropertyType, TextLanguage


class DropMode(StrEnum):
    """Whether dropped rows remain in earlier commits (soft) or are deleted there too (hard)."""

    SOFT = "soft"
    HARD = "hard"


class ChangeCode(StrEnum):
    """The stable codes of changes that a migration cannot make."""

    REQUIRED_PROPERTY = "OG-MF-103"
    PROPERTY_TYPE = "OG-MF-106"

    @property
    def tier(self) -> str:
        """The kind of obstacle: values that are missing, or values that would be lost."""
        return "validated" if self is ChangeCode.REQUIRED_PROPERTY else "destructive"


@dataclass(frozen=True, slots=True)
class AddType:
    """A new type, without rows."""

    type_kind: TypeKind
    name: str


@dataclass(frozen=True, slots=True)
class RenameType:
    """A type that is renamed and retains its rows."""

    type_kind: TypeKind
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class AddProperty:
    """A new property, null in existing rows."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    property_type: PropertyType


@dataclass(frozen=True, slots=True)
class RenameProperty:
    """A property that is renamed and retains its values."""

    type_kind: TypeKind
    type_name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """A new constraint that no existing row can violate: an index."""

    type_kind: TypeKind
    type_name: str
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class ExtendEnum:
    """Values that are added to an enum."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    added_values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata:
    """The complete new descriptions and instructions of a type."""

    type_kind: TypeKind
    name: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata:
    """The complete new descriptions of a property."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class ChangeLanguage:
    """The language in which a text property is searched from now on; no row changes."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    language: TextLanguage


@dataclass(frozen=True, slots=True)
class DropType:
    """A type that is dropped with its rows."""

    type_kind: TypeKind
    name: str
    mode: DropMode


@dataclass(frozen=True, slots=True)
class DropProperty:
    """A property that is dropped with its values."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    mode: DropMode


@dataclass(frozen=True, slots=True)
class UnsupportedChange:
    """A change that no migration supports; it makes the whole plan unsupported."""

    entity: str
    reason: str
    code: ChangeCode | None


PropertyStep: TypeAlias = (
    AddProperty
    | RenameProperty
    | ExtendEnum
    | UpdatePropertyMetadata
    | ChangeLanguage
    | DropProperty
)
TypeStep: TypeAlias = AddType | RenameType | AddConstraint | UpdateTypeMetadata | DropType
Step: TypeAlias = TypeStep | PropertyStep | UnsupportedChange


def describe_step(step: Step) -> str:
    """A step as one line of text."""
    match step:
        case AddType(kind, name):
            return f"add {_noun(kind)} {name}"
        case RenameType(kind, old, new):
            return f"rename {_noun(kind)} {old} to {new}"
        case AddConstraint(_, owner, constraint):
            return f"add {describe_constraint(constraint)} to {owner}"
        case UpdateTypeMetadata(_, name, annotations):
            return _describe_metadata(name, annotations)
        case DropType(kind, name, mode):
            return f"drop {_noun(kind)} {name} ({_explain(mode, 'rows')})"
        case UnsupportedChange(entity, reason, code):
            tag = f" [{code}, {code.tier}]" if code else ""
            return f"unsupported change on {entity}{tag}: {reason}"
        case _:
            return _describe_property_step(step)


def _describe_property_step(step: PropertyStep) -> str:
    match step:
        case AddProperty(_, owner, name, type):
            return f"add property {owner}.{name}: {type}"
        case RenameProperty(_, owner, old, new):
            return f"rename property {owner}.{old} to {new}"
        case ExtendEnum(_, owner, name, added):
            return f"extend the enum {owner}.{name} by {', '.join(added)}"
        case UpdatePropertyMetadata(_, owner, name, annotations):
            return _describe_metadata(f"{owner}.{name}", annotations)
        case ChangeLanguage(_, owner, name, language):
            return f"change the language of {owner}.{name} to {language}"
        case DropProperty(TypeKind.INTERFACE, owner, name):
            return f"drop property {owner}.{name}"
        case DropProperty(_, owner, name, mode):
            return f"drop property {owner}.{name} ({_explain(mode, 'values')})"


def encode_step(step: Step) -> dict[str, Json]:
    """Encode a step as a JSON object: its kind, then its fields in order, without null."""
    words = re.findall("[A-Z][a-z]+", type(step).__name__)
    encoded: dict[str, Json] = {"kind": "_".join(words).lower()}
    for each in fields(step):
        value: object = getattr(step, each.name)
        if value is not None:
            encoded[_JSON_NAME_BY_FIELD.get(each.name, each.name)] = _encode_field(value)
    return encoded


_JSON_NAME_BY_FIELD = {"old": "from", "new": "to"}


def _encode_field(value: object) -> Json:
    match value:
        case tuple():
            return [_encode_field(each) for each in value]
        case PropertyType():
            return encode_type(value)
        case Annotation():
            return encode_annotation(value)
        case Key() | Unique() | Index() | Range() | Check():
            return encode_constraint(value)
        case _:
            return str(value)


def _noun(kind: TypeKind) -> str:
    return str(kind) if kind is TypeKind.INTERFACE else f"{kind} type"


def _describe_metadata(entity: str, annotations: tuple[Annotation, ...]) -> str:
    if not annotations:
        return f"remove the description of {entity}"
    written = (f"@{each.name}({quote_text(each.value or '')})" for each in annotations)
    return f"describe {entity} by {' '.join(written)}"


def _explain(mode: DropMode, what: str) -> str:
    match mode:
        case DropMode.SOFT:
            return f"soft: earlier commits keep its {what}"
        case DropMode.HARD:
            return f"hard: its {what} are gone for good"
