"""One type before and after: what the planner's parts compare, with renames already resolved.

Old names are translated before anything is compared, so that a rename alone changes nothing else.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph.compiler.migration.lineage import DeclaredType, Lineage
from omnigraph.compiler.migration.steps import ChangeCode, UnsupportedChange
from omnigraph.compiler.schema.annotations import PROPERTY_CONSTRAINT_WORDS
from omnigraph.model.catalog import (
    Annotation,
    Check,
    Constraint,
    Index,
    Interface,
    Key,
    Property,
    Range,
    TypeKind,
    Unique,
)

_DESCRIPTION_WORDS = frozenset({"description", "instruction"})


@dataclass(frozen=True, slots=True)
class TypeChange:
    """A type that continues: how it was, how it is to be, and how its properties are called."""

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
        """An old annotation as it reads after the renames: `@embed` names a property."""
        if annotation.name != "embed" or annotation.value is None:
            return annotation
        return replace(annotation, value=self._translate(annotation.value))

    def translate_constraint(self, constraint: Constraint) -> Constraint:
        """An old constraint as it reads after the renames."""
        match constraint:
            case Key(columns) | Unique(columns) | Index(columns):
                return replace(constraint, columns=tuple(sorted(map(self._translate, columns))))
            case Range(name) | Check(name):
                return replace(constraint, property=self._translate(name))

    def unsupported(
        self, reason: str, *, prop: Property | None, code: ChangeCode | None
    ) -> UnsupportedChange:
        """A difference of this type, or of one of its properties, that no migration bridges."""
        entity = f"{self.kind}:{self.name}"
        return UnsupportedChange(f"{entity}.{prop.name}" if prop else entity, reason, code)

    def _translate(self, name: str) -> str:
        return self.new_name_by_old.get(name, name)


def trace_change(old: DeclaredType, new: DeclaredType, lineage: Lineage) -> TypeChange:
    """The change from one type to the one that continues it."""
    old_name_by_new = lineage.properties_of(new)
    new_name_by_old = {before: after for after, before in old_name_by_new.items()}
    return TypeChange(old, new, old_name_by_new, new_name_by_old)


def constraints_of(type: DeclaredType) -> tuple[Constraint, ...]:
    """The constraints of a type; an interface has those that its node types inherit."""
    if not isinstance(type, Interface):
        return type.constraints
    return tuple(
        make_constraint(annotation.name, prop.name)
        for prop in type.properties.values()
        for annotation in prop.annotations
        if annotation.name in PROPERTY_CONSTRAINT_WORDS
    )


def make_constraint(word: str, column: str) -> Key | Unique | Index:
    """The constraint that `@key`, `@unique` or `@index` behind a property stands for."""
    match word:
        case "key":
            return Key((column,))
        case "unique":
            return Unique((column,))
        case _:
            return Index((column,))


def descriptions(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    """The annotations that only people read, and that may change at any time."""
    return tuple(each for each in annotations if each.name in _DESCRIPTION_WORDS)


def list_changed(before: tuple[Annotation, ...], after: tuple[Annotation, ...]) -> str:
    """The annotations with a meaning that differ, as one writes them; empty when none does.

    Constraint words are left out: the constraints they stand for are compared as such.
    """
    ignored = _DESCRIPTION_WORDS | PROPERTY_CONSTRAINT_WORDS
    old, new = Counter(before), Counter(after)
    words = {each.name for each in (old - new) + (new - old) if each.name not in ignored}
    return ", ".join(f"@{word}" for word in sorted(words))
