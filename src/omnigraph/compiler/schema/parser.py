"""The parser of `.pg` text: a syntax tree with source positions, or a `CompileError`.

The parser knows the grammar and not the meaning of names. A table of hints improves the messages
for users of other schema languages. The hints never decide whether a text is accepted.
"""

import math
from dataclasses import dataclass

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.parser import (
    Language,
    Literal,
    Name,
    Token,
    decode_literal,
    decode_number,
    fits_integer,
    name_of,
    parse,
    span_of,
)
from omnigraph.model.source import Source, Span


@dataclass(frozen=True, slots=True)
class RangeArgument:
    """`low..high`; either side may be open."""

    minimum: int | float | None
    maximum: int | float | None
    span: Span


@dataclass(frozen=True, slots=True)
class KeywordArgument:
    """`name=value`."""

    name: Name
    value: Literal
    span: Span


Argument = Name | Literal | RangeArgument | KeywordArgument


@dataclass(frozen=True, slots=True)
class AnnotationSyntax:
    """`@name` with its arguments; constraints are written the same way."""

    name: Name
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ScalarTypeSyntax:
    """A type name, with a number for vectors."""

    name: Name
    dimension: int | None


@dataclass(frozen=True, slots=True)
class ListTypeSyntax:
    """`[Type]`."""

    element: Name


@dataclass(frozen=True, slots=True)
class EnumTypeSyntax:
    """`enum(a, b)`."""

    values: tuple[Name, ...]


TypeSyntax = ScalarTypeSyntax | ListTypeSyntax | EnumTypeSyntax


@dataclass(frozen=True, slots=True)
class PropertySyntax:
    """`name: Type? @annotation`."""

    name: Name
    type: TypeSyntax
    is_nullable: bool
    annotations: tuple[AnnotationSyntax, ...]


Member = PropertySyntax | AnnotationSyntax


@dataclass(frozen=True, slots=True)
class InterfaceSyntax:
    """`interface Name { … }`."""

    name: Name
    members: tuple[PropertySyntax, ...]


@dataclass(frozen=True, slots=True)
class NodeSyntax:
    """`node Name @annotation implements A, B { … }`."""

    name: Name
    headings: tuple[AnnotationSyntax, ...]
    implements: tuple[Name, ...]
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class EdgeSyntax:
    """`edge Name: From -> To @card(…) { … }`."""

    name: Name
    source: Name
    target: Name
    headings: tuple[AnnotationSyntax, ...]
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class SchemaSyntax:
    """A whole schema, with its declarations in source order."""

    interfaces: tuple[InterfaceSyntax, ...]
    nodes: tuple[NodeSyntax, ...]
    edges: tuple[EdgeSyntax, ...]


_REQUIRED = "a property is required unless its type ends in ?; remove this"
_LIST = "a list is written `[String]`"
_BODY = "a node type has braces, even around nothing: `node Name {}`"
_NODE = "a node type is declared as `node Name { property: Type }`"
_EDGE = "an edge type is declared as `edge Name: From -> To`"

# In each pattern ¦ marks the position of the error; blanks are ignored.
FOREIGN_SYNTAX = (
    (r"\.\. ¦ \*", "for no maximum write nothing: `@card(0..)`"),
    (r"\b enum \s* \( [^)]* ¦ [\"']", "enum values take no quotes: `enum(open, closed)`"),
    (r"\b enum \s* \( [^)]* ¦ [|/]", "enum values are separated by commas"),
    (r"\b enum \s* \( \s* ¦ \)", "an enum has at least one value: `enum(open, closed)`"),
    (r"\[ \s* (enum|Vector) ¦ \(", "a list holds plain values: no enums, no vectors"),
    (r"\[ \s* ¦ \[", "a list holds plain values: no lists"),
    (r"\[ \s* \w+ \s* ¦ \?", "only the whole list may be null: `[String]?`"),
    (r"\b (List|Array|Set) ¦ <", _LIST),
    (r"\w ¦ \[ \s* \]", _LIST),
    (r"\? \s* ¦ \?", "one ? is enough"),
    (r"\b\w+ \s* ¦ \? \s* :", "the ? follows the type: `name: String?`"),
    (r"¦ (NOT|NULL|REQUIRED) \b", _REQUIRED),
    (r"[\w\])] ¦ !", _REQUIRED),
    (r": \s* [\w\[\]()?]+ \s* ¦ =(?!=)", "there are no default values; remove it"),
    (r"\{ [^{}:]* \b\w+ \s+ ¦ \w", "name and type are separated by a colon: `name: String`"),
    (r": \s* ¦ \}", "the property has no type; write `name: String`"),
    (r": \s* [a-z_]\w* ¦ \s* :", "the property before has no type; write `name: String`"),
    (r"\b node \s+ \w+ \s* ¦ (extends \b | :)", "write `implements` and the interfaces"),
    (r"\b node \s+ \w+ \s* ¦ \(", _NODE),
    (r"\b node \s+ \w+ \s* ¦ ((node|edge|interface) \b | $)", _BODY),
    (r"\b implements \b [^{]* ¦ @", "annotations stand before `implements`"),
    (r"\b edge \s+ \w+ \s* ¦ (\( | \{ | ->)", _EDGE),
    (r"\b edge \s+ \w+ \s* : \s* \w+ \s* ¦ (, | <?-+ | =>)", _EDGE),
    (r"\b interface \s+ \w+ \s* ¦", "an interface has a name and a body, nothing else"),
    (r"\b interface \s+ \w+ \s* \{ \s* ¦ @", "an interface takes no constraints"),
    (r"¦ --", "comments start with //"),
    (r"¦ enum \b", "an enum is written where it is used: `status: enum(open, closed)`"),
    (r"¦ query \b", "queries stand in a file of their own, which ends in .gq"),
    (r"¦ (relationship|relation|rel|link) \b", _EDGE),
    (r"¦ (type|class|table|create|struct|entity|vertex|model) \b", _NODE),
    (r"(^|\}) \s* ¦ (\{ | \w+ \s* :)", _NODE),
    (r"(^|\}) \s* ¦ \}", "this } closes nothing; remove it"),
)


def parse_schema(source: Source) -> SchemaSyntax:
    """Parse a schema text into its syntax tree."""
    diagnostics = Diagnostics(source)
    schema = parse(Language.SCHEMA, source, _Builder(diagnostics), FOREIGN_SYNTAX)
    diagnostics.require_clean()
    assert isinstance(schema, SchemaSyntax)
    return schema


class _Builder:
    """Builds the tree: one method per production, of its name, with its children as arguments."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics

    def schema(self, *declarations: InterfaceSyntax | NodeSyntax | EdgeSyntax) -> SchemaSyntax:
        return SchemaSyntax(
            tuple(d for d in declarations if isinstance(d, InterfaceSyntax)),
            tuple(d for d in declarations if isinstance(d, NodeSyntax)),
            tuple(d for d in declarations if isinstance(d, EdgeSyntax)),
        )

    def interface(self, name: Token, *members: PropertySyntax) -> InterfaceSyntax:
        return InterfaceSyntax(name_of(name), members)

    def node(
        self,
        name: Token,
        headings: tuple[AnnotationSyntax, ...],
        implements: tuple[Name, ...] | None,
        members: tuple[Member, ...],
    ) -> NodeSyntax:
        return NodeSyntax(name_of(name), headings, implements or (), members)

    def implements(self, *names: Token) -> tuple[Name, ...]:
        return tuple(map(name_of, names))

    def edge(
        self,
        name: Token,
        source: Token,
        target: Token,
        headings: tuple[AnnotationSyntax, ...],
        members: tuple[Member, ...] | None,
    ) -> EdgeSyntax:
        return EdgeSyntax(name_of(name), name_of(source), name_of(target), headings, members or ())

    def headings(self, *headings: AnnotationSyntax) -> tuple[AnnotationSyntax, ...]:
        return headings

    def body(self, *members: Member) -> tuple[Member, ...]:
        return members

    def property(
        self,
        name: Token,
        declared: TypeSyntax,
        nullable: Token | None,
        *annotations: AnnotationSyntax,
    ) -> PropertySyntax:
        return PropertySyntax(name_of(name), declared, nullable is not None, annotations)

    def list_type(self, element: Token) -> ListTypeSyntax:
        return ListTypeSyntax(name_of(element))

    def enum_type(self, *values: Token) -> EnumTypeSyntax:
        return EnumTypeSyntax(tuple(map(name_of, values)))

    def scalar_type(self, name: Token, dimension: Token | None) -> ScalarTypeSyntax:
        given = None if dimension is None else int(decode_number(dimension, self._diagnostics))
        return ScalarTypeSyntax(name_of(name), given)

    def annotation(self, name: Token, *rest: Token | Argument | None) -> AnnotationSyntax:
        *arguments, closing = [each for each in rest if each is not None] or [name]
        assert isinstance(closing, Token)
        span = Span(name.start - 1, closing.end)
        return AnnotationSyntax(name_of(name), tuple(map(self._argument, arguments)), span)

    heading = annotation

    def keyword(self, name: Token, value: Token) -> KeywordArgument:
        span = Span(name.start, value.end)
        return KeywordArgument(name_of(name), self._literal(value), span)

    def range(self, low: Token, high: Token | None) -> RangeArgument:
        span = Span(low.start, (high or low).end)
        return RangeArgument(self._bound(low), None if high is None else self._bound(high), span)

    def open_range(self, high: Token) -> RangeArgument:
        return RangeArgument(None, self._bound(high), span_of(high))

    def _argument(self, argument: Token | Argument) -> Argument:
        if not isinstance(argument, Token):
            return argument
        return name_of(argument) if argument.type == "NAME" else self._literal(argument)

    def _literal(self, token: Token) -> Literal:
        return Literal(decode_literal(token, self._diagnostics), span_of(token))

    def _bound(self, token: Token) -> int | float:
        # Bounds are compared as floats, so an integer that does not fit 64 bits is still valid.
        is_wide = token.type == "INT" and not fits_integer(token.text)
        if is_wide and math.isfinite(bound := float(token.text)):
            return bound
        return decode_number(token, self._diagnostics)
