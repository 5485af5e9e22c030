"""Text to syntax tree for `.gq`. Raises `CompileError`; knows grammar, not meaning."""

from __future__ import annotations

import re

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.machine import Language, Token
from omnigraph.compiler.query.habits import HABITS
from omnigraph.compiler.query.syntax import (
    Assignment,
    Binding,
    BooleanOperator,
    Call,
    Clause,
    Comparison,
    Condition,
    Delete,
    Expression,
    Hops,
    Insert,
    Junction,
    ListLiteral,
    Literal,
    Mutation,
    Name,
    Negation,
    NullTest,
    Optional,
    Ordering,
    ParameterSyntax,
    Projection,
    PropertyAccess,
    PropertyMatch,
    QueryAnnotation,
    QueryFile,
    QuerySyntax,
    Read,
    Statement,
    Traversal,
    Update,
    Variable,
)
from omnigraph.compiler.syntax_errors import advise_on_habits, parse, span_of
from omnigraph.compiler.text import decode_number, decode_string
from omnigraph.model.errors import CompileError
from omnigraph.model.names import IDENTIFIER
from omnigraph.model.source import Source, Span

_Written = Token | ListLiteral | Call
"""An expression as the grammar hands it over: a token until `_expression` reads it."""


def parse_queries(source: Source) -> tuple[QuerySyntax, ...]:
    """The queries of a text, in the order they were written."""
    diagnostics = Diagnostics(source)
    try:
        parsed = parse(Language.QUERY, source, _Builder(diagnostics))
    except CompileError as error:
        raise advise_on_habits(error, HABITS) from error
    diagnostics.require_clean()
    assert isinstance(parsed, QueryFile)
    return parsed.queries


class _Builder:
    """One method a production, named like it; children come as arguments."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics

    def query(self, *definitions: QuerySyntax) -> QueryFile:
        return QueryFile(definitions)

    def definition(
        self,
        name: Token,
        parameters: tuple[ParameterSyntax, ...] | None,
        *rest: QueryAnnotation | Read | Mutation,
    ) -> QuerySyntax:
        *annotations, body = rest
        assert isinstance(body, Read | Mutation)
        return QuerySyntax(
            _name(name),
            parameters or (),
            tuple(each for each in annotations if isinstance(each, QueryAnnotation)),
            body,
        )

    def annotation(self, name: Token, value: Token) -> QueryAnnotation:
        return QueryAnnotation(_name(name), self._string(value))

    def parameters(self, *parameters: ParameterSyntax) -> tuple[ParameterSyntax, ...]:
        return parameters

    def parameter(
        self, variable: Token, type: tuple[Name, int | None, bool], nullable: Token | None
    ) -> ParameterSyntax:
        return ParameterSyntax(_variable(variable), *type, nullable is not None)

    def list_type(self, element: Token) -> tuple[Name, int | None, bool]:
        return _name(element), None, True

    def scalar_type(self, name: Token, dimension: Token | None) -> tuple[Name, int | None, bool]:
        return _name(name), None if dimension is None else self._integer(dimension), False

    # Reads

    def read(
        self,
        clauses: tuple[Clause, ...],
        returns: tuple[bool, tuple[Projection, ...]],
        orderings: tuple[Ordering, ...] | None,
        limit: Literal | Variable | None,
        offset: Literal | Variable | None,
    ) -> Read:
        return Read(clauses, *returns, orderings or (), limit, offset)

    def read_offset_first(
        self,
        clauses: tuple[Clause, ...],
        returns: tuple[bool, tuple[Projection, ...]],
        orderings: tuple[Ordering, ...] | None,
        offset: Literal | Variable,
        limit: Literal | Variable,
    ) -> Read:
        return Read(clauses, *returns, orderings or (), limit, offset)

    def match(self, *clauses: Clause) -> tuple[Clause, ...]:
        return clauses

    def returns(
        self, distinct: Token | None, *projections: Projection
    ) -> tuple[bool, tuple[Projection, ...]]:
        return distinct is not None, projections

    def projection(self, expression: _Written, alias: Token | None) -> Projection:
        return Projection(self._expression(expression), _name(alias) if alias else None)

    def order(self, *orderings: Ordering) -> tuple[Ordering, ...]:
        return orderings

    def ordering(self, expression: _Written, direction: Token | None) -> Ordering:
        return Ordering(self._expression(expression), _name(direction) if direction else None)

    def limit(self, count: Token) -> Literal | Variable:
        return self._count(count)

    def offset(self, count: Token) -> Literal | Variable:
        return self._count(count)

    def negation(self, word: Token, *clauses: Clause) -> Negation:
        return Negation(clauses, span_of(word))

    def optional(self, word: Token, *clauses: Clause) -> Optional:
        return Optional(clauses, span_of(word))

    def binding(self, variable: Token, type: Token, *matches: PropertyMatch | None) -> Binding:
        given = tuple(each for each in matches if each is not None)
        return Binding(_variable(variable), _name(type), given)

    def property_match(self, name: Token, value: _Written) -> PropertyMatch:
        return PropertyMatch(_name(name), self._expression(value))

    def traversal(
        self,
        source: Token,
        edge_binding: Variable | None,
        edge: Token,
        hops: Hops | None,
        target: Token,
    ) -> Traversal:
        is_undirected = edge.type == "UNDIRECTED"
        return Traversal(
            _variable(source),
            edge_binding,
            _last_word(edge) if is_undirected else _name(edge),
            is_undirected,
            hops,
            _variable(target),
        )

    def edge_binding(self, variable: Token) -> Variable:
        return _variable(variable)

    def hops(self, minimum: Token, maximum: Token | None) -> Hops:
        span = Span(span_of(minimum).start - 1, span_of(maximum or minimum).end + 1)
        most = None if maximum is None else self._integer(maximum)
        return Hops(self._integer(minimum), most, span)

    def disjunction(self, *conditions: Condition) -> Junction:
        return Junction(BooleanOperator.OR, conditions)

    def conjunction(self, *conditions: Condition) -> Junction:
        return Junction(BooleanOperator.AND, conditions)

    def comparison(self, left: _Written, operator: Token, right: _Written) -> Comparison:
        return Comparison(self._expression(left), _name(operator), self._expression(right))

    def null_test(
        self, operand: _Written, _is: Token, negated: Token | None, _null: Token
    ) -> NullTest:
        return NullTest(self._expression(operand), negated is not None)

    def call(self, function: Token, distinct: Token | None, *rest: _Written | None) -> Call:
        *arguments, closing = (each for each in rest if each is not None)
        assert isinstance(closing, Token)
        stars = [isinstance(each, Token) and each.type == "STAR" for each in arguments]
        values = tuple(
            self._expression(each)
            for each, is_star in zip(arguments, stars, strict=True)
            if not is_star
        )
        span = Span(span_of(function).start, span_of(closing).end)
        if sum(stars) > 1:
            self._diagnostics.error("P7", "one `*` stands for all rows", span, "write `count(*)`")
        return Call(_name(function), values, any(stars), distinct is not None, span)

    def list(self, opening: Token, *rest: _Written | None) -> ListLiteral:
        *elements, closing = (each for each in rest if each is not None)
        assert isinstance(closing, Token)
        given = tuple(self._expression(each) for each in elements)
        return ListLiteral(given, Span(span_of(opening).start, span_of(closing).end))

    # Mutations

    def mutation(self, *statements: Statement) -> Mutation:
        return Mutation(statements)

    def insert(self, type: Token, *assignments: Assignment) -> Insert:
        return Insert(_name(type), assignments)

    def update(self, type: Token, *rest: Assignment | Condition) -> Update:
        *assignments, condition = rest
        assert not isinstance(condition, Assignment)
        given = tuple(each for each in assignments if isinstance(each, Assignment))
        return Update(_name(type), given, condition)

    def delete(self, type: Token, condition: Condition) -> Delete:
        return Delete(_name(type), condition)

    def assignment(self, name: Token, value: _Written) -> Assignment:
        return Assignment(_name(name), self._expression(value))

    where_any = disjunction
    where_all = conjunction
    where_comparison = comparison
    where_null_test = null_test

    # Tokens

    def _expression(self, written: _Written) -> Expression:
        if not isinstance(written, Token):
            return written
        match written.type:
            case "VARIABLE":
                return _variable(written)
            case "PROPERTY":
                return _property(written)
            case "STRING":
                return Literal(self._string(written), span_of(written))
            case "INT" | "FLOAT":
                return Literal(self._number(written), span_of(written))
            case "TRUE" | "FALSE":
                return Literal(written.type == "TRUE", span_of(written))
            case "NULL":
                return Literal(None, span_of(written))
            case _:
                return _name(written)

    def _count(self, token: Token) -> Literal | Variable:
        if token.type == "VARIABLE":
            return _variable(token)
        return Literal(self._integer(token), span_of(token))

    def _string(self, token: Token) -> str:
        return decode_string(token.text, start=token.start, diagnostics=self._diagnostics)

    def _number(self, token: Token) -> int | float:
        return decode_number(token.text, start=token.start, diagnostics=self._diagnostics)

    def _integer(self, token: Token) -> int:
        return int(self._number(token))


def _name(token: Token) -> Name:
    return Name(token.text, span_of(token))


def _variable(token: Token) -> Variable:
    return Variable(token.text[1:], span_of(token))


def _property(token: Token) -> PropertyAccess:
    span = span_of(token)
    variable = IDENTIFIER.match(token.text, 1)
    assert variable is not None
    first = Variable(variable[0], Span(span.start, span.start + variable.end()))
    return PropertyAccess(first, _last_word(token), span)


def _last_word(token: Token) -> Name:
    """The word at the end of a token that may also hold signs, white space and comments."""
    text = token.text
    if "/" in text:
        text = _COMMENT.sub(lambda comment: " " * len(comment[0]), text)
    *_, word = IDENTIFIER.finditer(text)
    return Name(word[0], Span(token.start + word.start(), token.start + word.end()))


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
