"""The parser of `.gq` text: a syntax tree with source positions, or a `CompileError`.

The parser knows the grammar and not the meaning of names. A table of hints improves the messages
for users of other query languages. The hints never decide whether a text is accepted.
"""

from __future__ import annotations

import re

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.compiler.parser import (
    Language,
    Literal,
    Name,
    Token,
    decode_literal,
    decode_number,
    decode_string,
    name_of,
    parse,
    span_of,
)
from omnigraph.compiler.query import ast
from omnigraph.model.names import IDENTIFIER
from omnigraph.model.source import Source, Span

_DOLLAR = "variables start with a dollar: `$p`"
_BODY = "a query is written `query name() { … }`"
_WALK = "a node is bound by `$p: Type`, an edge is followed by `$p knows $f`"
_CLAUSE = "conditions are clauses of `match { … }`, like `$p.age > 3`"
_BOUNDS = "bounds are written `{min,max}`: `knows{1,3}`"
_NEGATION = "a negation has braces: `not { … }`"
_RETURN = "returned columns are written in braces: `return { $p.name }`"
_ORDER = "sort keys are written in braces: `order { $p.name desc }`"
_INSERT = "write `insert Type { property: value }`"
_UPDATE = "write `update Type set { property: value } where property = value`"
_DELETE = "write `delete Type where property = value`"
_WHICH = "add a condition: `where property = value`"
_COLON = "property and value are separated by a colon: `name: value`"
_COMMA = "remove the comma before it"

_HEAD = r"\b query \s+ \w+ \s* \("
_BINDING = r": \s* \w+ \s* \{"
_ASSIGNING = r"( : \s* \w+ | \b insert \s+ \w+ | \b set ) \s* \{"
_AFTER_MATCH = r"\b match \b (?: (?! \b return \b ) [^¦] )* \} \s*"
_MUTATION_WHERE = r"( \} | \b delete \s+ \w+ ) \s* where \b [^{}]*"
_TOP = r"( ^ | \} ) \s*"
_EDGE = r"\$\w+ \s+ ( \$\w+ \s* : \s* )? <? [a-z_]\w* >? ( \s* \{ [^{}]* \} )?"

# In each pattern ¦ marks the position of the error; blanks are ignored.
FOREIGN_SYNTAX = (
    # The head of a query
    (_HEAD + r"[^{}]* , \s* ¦ \)", _COMMA),
    (_HEAD + r"( [^{}]* , )? \s* ¦ \w", "parameters start with a dollar: `$name: String`"),
    (_HEAD + r"[^{}]* \$\w+ \s* ¦ [,)]", "a parameter has a type: `$name: String`"),
    (_HEAD + r"[^{}]* : \s* \[? \s* ¦ enum \b", "an enum is passed as a text: `$name: String`"),
    (_HEAD + r"[^{}]* ¦ =", "parameters have no default values; `String?` may be left out"),
    (_HEAD + r"[^{}]* \[ \s* \w+ \s* ¦ \?", "only the whole list may be null: `[String]?`"),
    (_HEAD + r"[^{}]* \[ \s* Vector \s* ¦ \(", "a list of vectors cannot be passed"),
    (_HEAD + r"[^{}]* [\w)\]?] \s* ¦ \$", "parameters are separated by commas"),
    (r"\b query \s+ \w+ \s* ¦ [{:]", "parentheses are needed, even around nothing: `query name()`"),
    (r"@ \s* \w+ \s* ¦ \{", 'an annotation holds a text: `@description("…")`'),
    (r"\) \s* ¦ ( -> | : | returns? \b )", "a query declares no result type; remove it"),
    (r"\) \s* ¦ ( match | insert | update | delete ) \b", _BODY),
    # Reads combined with writes
    (
        r"( \b insert \s+ \w+ | \b set ) \s* \{ [^{}]* \} \s* ¦ ( match | return | returning ) \b",
        "a query either reads or writes",
    ),
    (_AFTER_MATCH + r"¦ ( delete | remove | detach ) \b", _DELETE),
    (_AFTER_MATCH + r"¦ ( set | update ) \b", _UPDATE),
    (_AFTER_MATCH + r"¦ ( insert | create | merge ) \b", _INSERT),
    (_AFTER_MATCH + r"¦ \}", "a read returns something: `return { $p.name }`"),
    (_AFTER_MATCH + r"¦ match \b", "all clauses belong in one `match { … }`"),
    (r"\b return \b [^{}]* \{ [^{}]* \} \s* ¦ return \b", "a read has one `return { … }`"),
    # Mutations
    (r"\b insert \s+ ¦ into \b", _INSERT),
    (r"\b insert \s+ \w+ \s* ¦ ( \( | values \b | set \b )", _INSERT),
    (
        r"\b insert \s+ \w+ \s* \{ [^{}]* \} \s* ¦ where \b",
        "an insert has no condition; " + _UPDATE,
    ),
    (r"\b delete \s+ ¦ ( from \b | \$ )", _DELETE),
    (r"\b update \s+ \w+ \s* ( set \s+ )? ¦ [{\w]", _UPDATE),
    (r"( \b delete \s+ \w+ | \b set \s* \{ [^{}]* \} ) \s* ¦", _WHICH),
    (_MUTATION_WHERE + r"¦ \$", "a mutation names its properties alone: `where name = value`"),
    (
        _MUTATION_WHERE + r"¦ ( contains | starts_with ) \b",
        "a mutation compares with =, !=, <, <=, >, >= or in",
    ),
    (_ASSIGNING + r"( [^{}]* , )? \s* ¦ \"", "property names take no quotes: `name: value`"),
    (_ASSIGNING + r"[^{}]* \w \s* ¦ [=\"$\d]", _COLON),
    (
        _BINDING + r"[^{}]* \w \s* ¦ ( [<>!] | in \b | contains \b )",
        "braces hold equalities; other conditions are clauses, like `$p.age > 3`",
    ),
    (_BINDING + r"[^{}]* : [^{},]* ¦ \w", "the conditions in braces are separated by commas"),
    # After the pattern
    (
        r"\b return \s* (distinct \s*)? \{ [^{}]* \w \s* ¦ :",
        "an alias follows its expression: `$p.name as n`",
    ),
    (r"\b return \s* (distinct \s*)? \{ [^{}]* ¦ \*", "name what is returned: `$p.name, $p.age`"),
    (r"\b return \s* ¦ \{", "a } is missing before `return`"),
    (r"\b return \s* (distinct \s*)? ¦", _RETURN),
    (r"\b limit \s+ \S+ \s+ ( offset \s+ \S+ \s+ )? ¦ order \b", "`order` comes before `limit`"),
    (r"\b limit \s+ \w+ \s* ¦ ,", "write `limit 20 offset 10`"),
    (r"\b (limit|offset) \s+ \d+ ¦", "the number of rows is a whole number"),
    (r"\b (limit|offset) \s+ ¦", "the number of rows is a whole number or a parameter"),
    (r"\b order \s* ¦", _ORDER),
    (r"¦ order \b", _ORDER),
    (r"¦ ( a | de ) scending \b", "write `asc` or `desc`"),
    (r"¦ skip \b", "write `offset 10`"),
    (
        r"¦ ( group | having ) \b",
        "rows are grouped by the columns beside aggregates: `return { $p.city, count($p) as n }`",
    ),
    # Clauses
    (_AFTER_MATCH + r"¦ where \b", _CLAUSE),
    (r"\b where \s* ¦", _CLAUSE + "; remove `where`"),
    (r"\( \s* \w* \s* ¦ :", _WALK),
    (r"\$\w+ \s* <? \s* ¦ -", _WALK),
    (r"\b match \s* ¦ \(", _WALK),
    (r"¦ --", "comments start with //"),
    (r"\b match \s* ¦", "clauses are written in braces: `match { … }`"),
    (r"[{\s] [a-z_]\w* \s* ¦ : \s* (?-i:[A-Z])", _DOLLAR),
    (
        r"\$\w+ \. \w+ ¦ \.",
        "follow the edge in a separate clause: `$p worksAt $c`, then `$c.name`",
    ),
    (r"\$\w+ ¦ \.", "name a property: `$p.name`"),
    (r"[a-z_]\w* ¦ \. \s* [a-z_]", _DOLLAR),
    (
        r"\$\w+ \s+ ¦ (?-i:[A-Z]\w*) \b (?! \s* ( \$ | \{ \s* \d ) )",
        "a colon is missing: `$p: Type`",
    ),
    (r"\$\w+ \. \w+ \s+ ¦ \$", "an edge is followed without a dot: `$p knows $f`"),
    (_EDGE + r"\s* ¦ \*", _BOUNDS),
    (r"\w \s* \{ \s* -?\d+ \s* ¦ [.}]", _BOUNDS),
    (
        _EDGE + r"\s* \$\w+ \s* ¦ [:{]",
        "bind the variable in a separate clause: `$f: Type { … }`",
    ),
    (_EDGE + r"\s+ ¦ [a-z_]", "the other end is a variable: `$f`"),
    (_EDGE + r"\s* ¦ \}", "the other end is missing; write `$_` for any node"),
    (r": \s* \w+ \s* ¦ \|", "a variable is bound to one type"),
    (r"\b exists \s* ¦ \{", "a pattern that must exist is written as plain clauses"),
    (r"¦ not \s+ \w", "a negation has braces: `not { $p.age in [1, 2] }`"),
    (r"\b not \s* ¦", _NEGATION),
    (r"¦ between \b", "write `$p.age >= 18 and $p.age <= 65`"),
    (r"¦ ( i?like \b | ~ )", 'write `$p.name contains "x"` or `starts_with "x"`'),
    (r"\b in \s* ¦ \(", "a list is written in square brackets: `[1, 2]`"),
    (r"\b is \s+ ¦", "`is` tests for null only: `is null`, `is not null`; equality is `=`"),
    (r"\[ [^\[\]]* ¦ \$", "a list holds literals; pass a list as a parameter: `$names: [String]`"),
    (r"[\w)] \s* ¦ [-+*/%]", "arithmetic is not supported; pass the result as a parameter"),
    (r", \s* ¦ [})\]]", _COMMA),
    (r"¦ \$ (?-i:[A-Z])", "variables start with a small letter: `$p`"),
    (r"¦ [?@:] \w", _DOLLAR),
    (
        r"[{\s] [a-z_]\w* \s+ ¦ \$\w+ \b (?! \s* [.:] )",
        "an edge is written between two variables: `$p knows $f`",
    ),
    # Around and between queries
    (r"¦ select \b", "a read is written `query name() { match { $p: Type } return { $p.name } }`"),
    (
        _TOP + r"¦ ( node | edge | interface ) \b",
        "a schema belongs in a separate file that ends in .pg",
    ),
    (_TOP + r"¦ \}", "this } closes nothing; remove it"),
    (_TOP + r"¦ \w", _BODY),
    (r"\{ \s* ¦ ( create | merge | upsert | add ) \b", _INSERT),
    (
        r"\) [^{}]* \{ \s* ¦ (?! ( match | insert | update | delete ) \b )",
        "a query starts with `match`, `insert`, `update` or `delete`",
    ),
)


_Written = Token | ast.ListLiteral | ast.Call
"""An expression from the grammar: a token until `_expression` converts it."""


def parse_queries(source: Source) -> tuple[ast.QuerySyntax, ...]:
    """Parse the queries of a text, in source order."""
    diagnostics = Diagnostics(source)
    queries = parse(Language.QUERY, source, _Builder(diagnostics), FOREIGN_SYNTAX)
    diagnostics.require_clean()
    assert isinstance(queries, tuple)
    return queries


class _Builder:
    """Builds the tree: one method per production, of its name, with its children as arguments."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics

    def query(self, *definitions: ast.QuerySyntax) -> tuple[ast.QuerySyntax, ...]:
        return definitions

    def definition(
        self,
        name: Token,
        parameters: tuple[ast.ParameterSyntax, ...] | None,
        *rest: ast.QueryAnnotation | ast.Read | ast.Mutation,
    ) -> ast.QuerySyntax:
        *annotations, body = rest
        assert isinstance(body, ast.Read | ast.Mutation)
        return ast.QuerySyntax(
            name_of(name),
            parameters or (),
            tuple(each for each in annotations if isinstance(each, ast.QueryAnnotation)),
            body,
        )

    def annotation(self, name: Token, value: Token) -> ast.QueryAnnotation:
        return ast.QueryAnnotation(name_of(name), decode_string(value, self._diagnostics))

    def parameters(self, *parameters: ast.ParameterSyntax) -> tuple[ast.ParameterSyntax, ...]:
        return parameters

    def parameter(
        self, variable: Token, type: tuple[Name, int | None, bool], nullable: Token | None
    ) -> ast.ParameterSyntax:
        return ast.ParameterSyntax(_variable(variable), *type, nullable is not None)

    def list_type(self, element: Token) -> tuple[Name, int | None, bool]:
        return name_of(element), None, True

    def scalar_type(self, name: Token, dimension: Token | None) -> tuple[Name, int | None, bool]:
        return name_of(name), None if dimension is None else self._integer(dimension), False

    # Reads

    def read(
        self,
        clauses: tuple[ast.Clause, ...],
        returns: tuple[bool, tuple[ast.Projection, ...]],
        orderings: tuple[ast.Ordering, ...] | None,
        limit: Literal | ast.Variable | None,
        offset: Literal | ast.Variable | None,
    ) -> ast.Read:
        return ast.Read(clauses, *returns, orderings or (), limit, offset)

    def read_offset_first(
        self,
        clauses: tuple[ast.Clause, ...],
        returns: tuple[bool, tuple[ast.Projection, ...]],
        orderings: tuple[ast.Ordering, ...] | None,
        offset: Literal | ast.Variable,
        limit: Literal | ast.Variable,
    ) -> ast.Read:
        return self.read(clauses, returns, orderings, limit, offset)

    def match(self, *clauses: ast.Clause) -> tuple[ast.Clause, ...]:
        return clauses

    def returns(
        self, distinct: Token | None, *projections: ast.Projection
    ) -> tuple[bool, tuple[ast.Projection, ...]]:
        return distinct is not None, projections

    def projection(self, expression: _Written, alias: Token | None) -> ast.Projection:
        return ast.Projection(self._expression(expression), name_of(alias) if alias else None)

    def order(self, *orderings: ast.Ordering) -> tuple[ast.Ordering, ...]:
        return orderings

    def ordering(self, expression: _Written, direction: Token | None) -> ast.Ordering:
        return ast.Ordering(self._expression(expression), name_of(direction) if direction else None)

    def limit(self, count: Token) -> Literal | ast.Variable:
        if count.type == "VARIABLE":
            return _variable(count)
        return Literal(self._integer(count), span_of(count))

    offset = limit

    def negation(self, word: Token, *clauses: ast.Clause) -> ast.Block:
        return ast.Block(clauses, is_optional=False, span=span_of(word))

    def optional(self, word: Token, *clauses: ast.Clause) -> ast.Block:
        return ast.Block(clauses, is_optional=True, span=span_of(word))

    def binding(self, variable: Token, type: Token, *matches: ast.Assignment | None) -> ast.Binding:
        given = tuple(each for each in matches if each is not None)
        return ast.Binding(_variable(variable), name_of(type), given)

    def traversal(
        self,
        source: Token,
        edge_binding: ast.Variable | None,
        edge: Token,
        hops: ast.Hops | None,
        target: Token,
    ) -> ast.Traversal:
        is_undirected = edge.type == "UNDIRECTED"
        return ast.Traversal(
            _variable(source),
            edge_binding,
            _last_word(edge) if is_undirected else name_of(edge),
            is_undirected,
            hops,
            _variable(target),
        )

    def edge_binding(self, variable: Token) -> ast.Variable:
        return _variable(variable)

    def hops(self, minimum: Token, maximum: Token | None) -> ast.Hops:
        span = Span(minimum.start - 1, (maximum or minimum).end + 1)
        most = None if maximum is None else self._integer(maximum)
        return ast.Hops(self._integer(minimum), most, span)

    def disjunction(self, *conditions: ast.Condition) -> ast.BooleanCondition:
        return ast.BooleanCondition(conditions, is_disjunction=True)

    def conjunction(self, *conditions: ast.Condition) -> ast.BooleanCondition:
        return ast.BooleanCondition(conditions, is_disjunction=False)

    def comparison(self, left: _Written, operator: Token, right: _Written) -> ast.Comparison:
        return ast.Comparison(self._expression(left), name_of(operator), self._expression(right))

    def null_test(
        self, operand: _Written, _is: Token, negated: Token | None, _null: Token
    ) -> ast.NullTest:
        return ast.NullTest(self._expression(operand), negated is not None)

    def call(self, function: Token, distinct: Token | None, *rest: _Written | None) -> ast.Call:
        *arguments, closing = (each for each in rest if each is not None)
        assert isinstance(closing, Token)
        values = tuple(
            self._expression(each)
            for each in arguments
            if not (isinstance(each, Token) and each.type == "STAR")
        )
        star_count = len(arguments) - len(values)
        span = Span(function.start, closing.end)
        if star_count > 1:
            problem = "only one `*` is allowed; it counts all rows"
            self._diagnostics.error("P7", problem, span, "write `count(*)`")
        return ast.Call(name_of(function), values, star_count > 0, distinct is not None, span)

    def list(self, opening: Token, *rest: _Written | None) -> ast.ListLiteral:
        *elements, closing = (each for each in rest if each is not None)
        assert isinstance(closing, Token)
        given = tuple(self._expression(each) for each in elements)
        return ast.ListLiteral(given, Span(opening.start, closing.end))

    # Mutations

    def mutation(self, *statements: ast.Statement) -> ast.Mutation:
        return ast.Mutation(statements)

    def insert(self, type: Token, *assignments: ast.Assignment) -> ast.Insert:
        return ast.Insert(name_of(type), assignments)

    def update(self, type: Token, *rest: ast.Assignment | ast.Condition) -> ast.Update:
        *assignments, condition = rest
        assert not isinstance(condition, ast.Assignment)
        given = tuple(each for each in assignments if isinstance(each, ast.Assignment))
        return ast.Update(name_of(type), given, condition)

    def delete(self, type: Token, condition: ast.Condition) -> ast.Delete:
        return ast.Delete(name_of(type), condition)

    def assignment(self, name: Token, value: _Written) -> ast.Assignment:
        return ast.Assignment(name_of(name), self._expression(value))

    property_match = assignment
    where_any = disjunction
    where_all = conjunction
    where_comparison = comparison
    where_null_test = null_test

    # Tokens

    def _expression(self, written: _Written) -> ast.Expression:
        if not isinstance(written, Token):
            return written
        match written.type:
            case "VARIABLE":
                return _variable(written)
            case "PROPERTY":
                return _property(written)
            case "STRING" | "INT" | "FLOAT" | "TRUE" | "FALSE" | "NULL":
                return Literal(decode_literal(written, self._diagnostics), span_of(written))
            case _:
                return name_of(written)

    def _integer(self, token: Token) -> int:
        return int(decode_number(token, self._diagnostics))


def _variable(token: Token) -> ast.Variable:
    return ast.Variable(token.text[1:], span_of(token))


def _property(token: Token) -> ast.PropertyAccess:
    variable = IDENTIFIER.match(token.text, 1)
    assert variable is not None
    first = ast.Variable(variable[0], Span(token.start, token.start + variable.end()))
    return ast.PropertyAccess(first, _last_word(token), span_of(token))


def _last_word(token: Token) -> Name:
    """The word at the end of a token that may also contain operators, white space and comments."""
    text = token.text
    if "/" in text:
        text = _COMMENT.sub(lambda comment: " " * len(comment[0]), text)
    *_, word = IDENTIFIER.finditer(text)
    return Name(word[0], Span(token.start + word.start(), token.start + word.end()))


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def get_single_query_name(text: str) -> str:
    """The name of the only query of a text that the caller has already compiled."""
    (only,) = parse_queries(Source("<query>", text))
    return only.name.text
