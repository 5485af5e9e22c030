"""The syntax tree of a `.pg` text: what was written and where, nothing of what it means."""

from dataclasses import dataclass

from omnigraph.model.source import Span


@dataclass(frozen=True, slots=True)
class Word:
    """A name or type name at a place."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class LiteralArgument:
    """A string, number or truth value between an annotation's parentheses."""

    value: str | int | float | bool
    span: Span


@dataclass(frozen=True, slots=True)
class RangeArgument:
    """`low..high`, either side open."""

    minimum: int | float | None
    maximum: int | float | None
    span: Span


@dataclass(frozen=True, slots=True)
class KeywordArgument:
    """`name=value`."""

    name: Word
    value: LiteralArgument
    span: Span


Argument = Word | LiteralArgument | RangeArgument | KeywordArgument


@dataclass(frozen=True, slots=True)
class AnnotationSyntax:
    """`@name` with its arguments; constraints are written the same way."""

    name: Word
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ScalarTypeSyntax:
    """A type name, with a number for vectors."""

    name: Word
    dimension: int | None


@dataclass(frozen=True, slots=True)
class ListTypeSyntax:
    """`[Type]`."""

    element: Word


@dataclass(frozen=True, slots=True)
class EnumTypeSyntax:
    """`enum(a, b)`."""

    values: tuple[Word, ...]


TypeSyntax = ScalarTypeSyntax | ListTypeSyntax | EnumTypeSyntax


@dataclass(frozen=True, slots=True)
class PropertySyntax:
    """`name: Type? @annotation`."""

    name: Word
    type: TypeSyntax
    is_nullable: bool
    annotations: tuple[AnnotationSyntax, ...]


Member = PropertySyntax | AnnotationSyntax


@dataclass(frozen=True, slots=True)
class InterfaceSyntax:
    """`interface Name { … }`."""

    name: Word
    members: tuple[PropertySyntax, ...]


@dataclass(frozen=True, slots=True)
class NodeSyntax:
    """`node Name @annotation implements A, B { … }`."""

    name: Word
    headings: tuple[AnnotationSyntax, ...]
    implements: tuple[Word, ...]
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class EdgeSyntax:
    """`edge Name: From -> To @card(…) { … }`."""

    name: Word
    source: Word
    target: Word
    headings: tuple[AnnotationSyntax, ...]
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class SchemaSyntax:
    """A whole text, declarations in the order they were written."""

    interfaces: tuple[InterfaceSyntax, ...]
    nodes: tuple[NodeSyntax, ...]
    edges: tuple[EdgeSyntax, ...]
