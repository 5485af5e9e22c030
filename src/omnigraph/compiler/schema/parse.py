"""Text to syntax tree for `.pg`. Raises `CompileError`; knows grammar, not meaning."""

import math

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.machine import Language, Token
from omnigraph.compiler.schema.habits import HABITS
from omnigraph.compiler.schema.syntax import (
    AnnotationSyntax,
    Argument,
    EdgeSyntax,
    EnumTypeSyntax,
    InterfaceSyntax,
    KeywordArgument,
    ListTypeSyntax,
    LiteralArgument,
    Member,
    NodeSyntax,
    PropertySyntax,
    RangeArgument,
    ScalarTypeSyntax,
    SchemaSyntax,
    TypeSyntax,
    Word,
)
from omnigraph.compiler.syntax_errors import advise_on_habits, parse, span_of
from omnigraph.compiler.text import decode_number, decode_string, fits_integer
from omnigraph.model.errors import CompileError
from omnigraph.model.source import Source, Span


def parse_schema(source: Source) -> SchemaSyntax:
    """The syntax tree of a schema text."""
    diagnostics = Diagnostics(source)
    try:
        schema = parse(Language.SCHEMA, source, _Builder(diagnostics))
    except CompileError as error:
        raise advise_on_habits(error, HABITS) from error
    diagnostics.require_clean()
    assert isinstance(schema, SchemaSyntax)
    return schema


class _Builder:
    """One method a production, named like it; children come as arguments."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics

    def schema(self, *declarations: InterfaceSyntax | NodeSyntax | EdgeSyntax) -> SchemaSyntax:
        return SchemaSyntax(
            tuple(d for d in declarations if isinstance(d, InterfaceSyntax)),
            tuple(d for d in declarations if isinstance(d, NodeSyntax)),
            tuple(d for d in declarations if isinstance(d, EdgeSyntax)),
        )

    def interface(self, name: Token, *members: PropertySyntax) -> InterfaceSyntax:
        return InterfaceSyntax(_word(name), members)

    def node(
        self,
        name: Token,
        headings: tuple[AnnotationSyntax, ...],
        implements: tuple[Word, ...] | None,
        members: tuple[Member, ...],
    ) -> NodeSyntax:
        return NodeSyntax(_word(name), headings, implements or (), members)

    def implements(self, *names: Token) -> tuple[Word, ...]:
        return tuple(map(_word, names))

    def edge(
        self,
        name: Token,
        source: Token,
        target: Token,
        headings: tuple[AnnotationSyntax, ...],
        members: tuple[Member, ...] | None,
    ) -> EdgeSyntax:
        return EdgeSyntax(_word(name), _word(source), _word(target), headings, members or ())

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
        return PropertySyntax(_word(name), declared, nullable is not None, annotations)

    def list_type(self, element: Token) -> ListTypeSyntax:
        return ListTypeSyntax(_word(element))

    def enum_type(self, *values: Token) -> EnumTypeSyntax:
        return EnumTypeSyntax(tuple(map(_word, values)))

    def scalar_type(self, name: Token, dimension: Token | None) -> ScalarTypeSyntax:
        return ScalarTypeSyntax(
            _word(name), None if dimension is None else int(self._number(dimension))
        )

    def annotation(self, name: Token, *rest: Token | Argument | None) -> AnnotationSyntax:
        word = _word(name)
        *arguments, closing = [each for each in rest if each is not None] or [name]
        span = Span(word.span.start - 1, _end_of(closing))
        return AnnotationSyntax(word, tuple(map(self._argument, arguments)), span)

    heading = annotation

    def keyword(self, name: Token, value: Token) -> KeywordArgument:
        word, literal = _word(name), self._literal(value)
        return KeywordArgument(word, literal, Span(word.span.start, literal.span.end))

    def range(self, low: Token, high: Token | None) -> RangeArgument:
        span = Span(span_of(low).start, span_of(high or low).end)
        return RangeArgument(self._bound(low), None if high is None else self._bound(high), span)

    def open_range(self, high: Token) -> RangeArgument:
        return RangeArgument(None, self._bound(high), span_of(high))

    def _argument(self, argument: Token | Argument) -> Argument:
        if not isinstance(argument, Token):
            return argument
        return _word(argument) if argument.type == "NAME" else self._literal(argument)

    def _literal(self, token: Token) -> LiteralArgument:
        span = span_of(token)
        if token.type == "STRING":
            text = decode_string(token.text, start=token.start, diagnostics=self._diagnostics)
            return LiteralArgument(text, span)
        if token.type in {"TRUE", "FALSE"}:
            return LiteralArgument(token.type == "TRUE", span)
        return LiteralArgument(self._number(token), span)

    def _bound(self, token: Token) -> int | float:
        # Bounds are compared as floats, so an integer that 64 bits cannot hold still is a bound.
        is_wide = token.type == "INT" and not fits_integer(token.text)
        if is_wide and math.isfinite(bound := float(token.text)):
            return bound
        return self._number(token)

    def _number(self, token: Token) -> int | float:
        return decode_number(token.text, start=token.start, diagnostics=self._diagnostics)


def _end_of(part: Token | Argument) -> int:
    return span_of(part).end if isinstance(part, Token) else part.span.end


def _word(token: Token) -> Word:
    return Word(token.text, span_of(token))
