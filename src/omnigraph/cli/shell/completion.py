"""Completion of a statement: names of the schema, branches and tags, and keywords.

Pure: from the text before the cursor and the available names to the words that fit there. Types of
variables are inferred from the text so far; where it does not determine them, every name is
offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.compiler.statements import Token, TokenKind, scan
from omnigraph.model.catalog import Catalog, EdgeType
from omnigraph.model.types import SCALAR_BY_NAME

_STARTING = ("query", "match", "insert", "update", "delete")
_BETWEEN = ("return", "order", "limit", "offset", "where", "set", "and", "or")
_IN_A_BODY = ("match", "insert", "update", "delete", *_BETWEEN)
_IN_A_PATTERN = ("not", "optional", "and", "or", "contains", "starts_with", "in", "is", "null")
_AFTER_A_VARIABLE = ("contains", "starts_with", "in", "is")
_IN_A_RETURN = (
    *("distinct", "as", "count", "sum", "avg", "min", "max"),
    *("bm25", "nearest", "rrf", "search", "fuzzy", "match_text"),
)
_IN_AN_ORDER = ("asc", "desc", "nearest", "bm25", "rrf")
_IN_A_CONDITION = ("and", "or", "is", "in", "not")
_VALUES = ("true", "false", "null", "now", "date", "datetime")


@dataclass(frozen=True, slots=True)
class CompletionNames:
    """The names that can be completed: schema, branches, tags, set parameters and commands."""

    catalog: Catalog
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    parameters: tuple[str, ...]
    commands: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A word, the number of characters before the cursor that it replaces, and its description."""

    text: str
    replaced: int
    meaning: str


def complete(before: str, vocabulary: CompletionNames) -> list[Suggestion]:
    """The words that may follow a text and complete its last word."""
    if before.lstrip().startswith("\\"):
        return _suggest_for_command(before.lstrip(), vocabulary)
    tokens = list(scan(before))
    if tokens and (tokens[-1].is_open or tokens[-1].text.startswith("//")):
        return []
    has_begun = bool(tokens) and tokens[-1].kind in (TokenKind.WORD, TokenKind.VARIABLE)
    begun = tokens[-1].text if has_begun else ""
    context = [token for token in tokens[: len(tokens) - has_begun] if not token.is_blank]
    found = (
        _variables(context, vocabulary) if begun.startswith("$") else _names(context, vocabulary)
    )
    matching = {
        text: meaning for text, meaning in found if text.startswith(begun) and text != begun
    }
    return [Suggestion(text, len(begun), meaning) for text, meaning in matching.items()]


def _suggest_for_command(line: str, vocabulary: CompletionNames) -> list[Suggestion]:
    name, space, argument = line.removeprefix("\\").partition(" ")
    if not space:
        return [
            Suggestion(f"\\{command}", len(line), "command")
            for command in vocabulary.commands
            if command.startswith(name)
        ]
    begun = argument.rpartition(" ")[2]
    return [
        Suggestion(text, len(begun), meaning)
        for kind in vocabulary.commands.get(name, ())
        for text, meaning in _arguments(kind, vocabulary)
        if text.startswith(begun)
    ]


def _arguments(kind: str, vocabulary: CompletionNames) -> Iterator[tuple[str, str]]:
    catalog = vocabulary.catalog
    match kind:
        case "branch":
            yield from ((name, "branch") for name in vocabulary.branches)
        case "tag":
            yield from ((name, "tag") for name in vocabulary.tags)
        case "type":
            yield from _types(catalog)
            yield from ((name, "interface") for name in catalog.interfaces)
        case _:
            yield kind, ""


def _names(context: Sequence[Token], vocabulary: CompletionNames) -> Iterator[tuple[str, str]]:
    """The words that may follow the tokens, most likely first."""
    catalog = vocabulary.catalog
    last = context[-1] if context else None
    if last is None:
        yield from ((word, "keyword") for word in _STARTING)
        return
    opened = _open_brackets(context)
    inner = opened[-1] if opened else None
    if last.text == "." and len(context) > 1 and context[-2].kind is TokenKind.VARIABLE:
        types = _types_of_variables(context, catalog)
        yield from _properties(catalog, types.get(context[-2].text))
    elif last.text == ":" and len(context) > 1 and context[-2].kind is TokenKind.VARIABLE:
        if inner is not None and context[inner].text == "(":
            yield from ((name, "type") for name in SCALAR_BY_NAME)
        elif len(context) > 2 and context[-3].kind is TokenKind.VARIABLE:
            # `$a $e: Type` binds an edge.
            yield from _edges(catalog, None)
        else:
            yield from ((name, "node type") for name in catalog.nodes)
            yield from ((name, "interface") for name in catalog.interfaces)
    elif last.text in ("insert", "update", "delete"):
        yield from _types(catalog)
    elif last.kind is TokenKind.VARIABLE and inner is not None:
        types = _types_of_variables(context, catalog)
        yield from _edges(catalog, types.get(last.text))
        yield from ((word, "keyword") for word in _AFTER_A_VARIABLE)
    else:
        yield from _inside(context, inner, catalog)


def _inside(
    context: Sequence[Token], inner: int | None, catalog: Catalog
) -> Iterator[tuple[str, str]]:
    """The words that may occur where only the enclosing bracket determines the context."""
    braced = _owner_of_braces(context, inner)
    owner = braced or _owner_of_where(context)
    if owner is not None:
        is_name = context[-1].text in ("{", ",", "where", "and", "or", "(")
        if is_name or context[-1].kind in (TokenKind.TEXT, TokenKind.NUMBER):
            if owner in catalog.edges:
                yield from (("from", "source"), ("to", "target"))
            yield from _properties(catalog, owner)
        words = _VALUES if braced else (*_VALUES, *_IN_A_CONDITION)
        yield from ((word, "keyword") for word in words)
        return
    word = context[inner - 1].text if inner else ""
    matching: Iterable[str] = {
        "match": _IN_A_PATTERN,
        "not": _IN_A_PATTERN,
        "optional": _IN_A_PATTERN,
        "return": _IN_A_RETURN,
        "distinct": _IN_A_RETURN,
        "order": _IN_AN_ORDER,
    }.get(word, _IN_A_BODY if inner is None or word == ")" else _VALUES)
    yield from ((each, "keyword") for each in matching)


def _owner_of_braces(context: Sequence[Token], inner: int | None) -> str | None:
    """The type whose properties are listed between the enclosing braces."""
    if inner is None or context[inner].text != "{":
        return None
    match [token.text for token in context[max(inner - 2, 0) : inner]]:
        case [*_, str(name)] if name[:1].isupper():
            return name
        case [str(name), "set"]:
            return name
        case _:
            return None


def _owner_of_where(context: Sequence[Token]) -> str | None:
    """The type of the `update` or `delete` whose condition this is."""
    for place in range(len(context) - 1, -1, -1):
        if context[place].text in ("insert", "match"):
            return None
        if context[place].text in ("update", "delete") and place + 1 < len(context):
            is_parameter = any(token.text == "where" for token in context[place:])
            return context[place + 1].text if is_parameter else None
    return None


def _variables(context: Sequence[Token], vocabulary: CompletionNames) -> Iterator[tuple[str, str]]:
    types = _types_of_variables(context, vocabulary.catalog)
    met = dict.fromkeys(t.text for t in context if t.kind is TokenKind.VARIABLE and len(t.text) > 1)
    for name in met:
        yield name, types.get(name, "variable")
    for parameter in vocabulary.parameters:
        yield f"${parameter}", "parameter"


def _types_of_variables(context: Sequence[Token], catalog: Catalog) -> dict[str, str]:
    """The types of variables, from bindings and from the ends of edges."""
    types: dict[str, str] = {}
    for place, token in enumerate(context):
        if token.kind is not TokenKind.VARIABLE:
            continue
        rest = [each.text for each in context[place + 1 : place + 5]]
        match rest:
            case [":", name, *_] if name[:1].isupper():
                types[token.text] = name
            case [str(edge_variable), ":", word, *_] if edge_variable.startswith("$"):
                edge = catalog.find_edge(word)
                if edge is not None:
                    types.setdefault(edge_variable, edge.name)
                    types.setdefault(token.text, edge.source)
                    types |= _type_of_end(rest[3:], edge, types)
            case [word, *others] if (edge := catalog.find_edge(word)) is not None:
                types.setdefault(token.text, edge.source)
                types |= _type_of_end(others, edge, types)
            case _:
                pass
    return types


def _type_of_end(rest: Sequence[str], edge: EdgeType, types: Mapping[str, str]) -> dict[str, str]:
    end = next((each for each in rest if each.startswith("$")), None)
    return {} if end is None or end in types else {end: edge.target}


def _open_brackets(context: Sequence[Token]) -> list[int]:
    """The positions of the open brackets, outermost first."""
    opened: list[int] = []
    for place, token in enumerate(context):
        if token.kind is TokenKind.SIGN and token.text in "{([":
            opened.append(place)
        elif token.kind is TokenKind.SIGN and token.text in "})]" and opened:
            opened.pop()
    return opened


def _properties(catalog: Catalog, type: str | None) -> Iterator[tuple[str, str]]:
    declared = [*catalog.stored_types(), *catalog.interfaces.values()]
    chosen = [each for each in declared if type is None or each.name == type] or declared
    for each in chosen:
        for name, declared_property in each.properties.items():
            yield name, f"{each.name}, {declared_property.type}"
    yield "id", "id"


def _types(catalog: Catalog) -> Iterator[tuple[str, str]]:
    yield from ((each.name, f"{each.kind} type") for each in catalog.stored_types())


def _edges(catalog: Catalog, type: str | None) -> Iterator[tuple[str, str]]:
    node = None if type is None else catalog.nodes.get(type)
    ends = {type, *(() if node is None else node.implements)}
    for edge in catalog.edges.values():
        if type is None or ends & {edge.source, edge.target} or type in catalog.interfaces:
            # A query names an edge with a lower-case first letter, whatever the schema does.
            name = edge.name[:1].lower() + edge.name[1:]
            yield name, f"{edge.source} to {edge.target}"
