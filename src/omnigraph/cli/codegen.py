"""A Python module of typed functions, generated from stored queries and a schema.

Pure and deterministic: the same queries give the same text. The generated module imports and
type-checks whatever the queries, parameters and columns are named. Each query is compiled from its
own text, so the generated code does not need the file that contained the query.
"""

from __future__ import annotations

import builtins
import keyword
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.cli.output import measure
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.ir import (
    Aggregate,
    AggregateFunction,
    Column,
    MutationIR,
    ReadIR,
)
from omnigraph.compiler.query.check import CompiledQuery
from omnigraph.compiler.statements import TokenKind, significant_tokens
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import NotFoundError
from omnigraph.model.source import Source
from omnigraph.model.types import PropertyType, Scalar, Vector

BUILTINS = frozenset(dir(builtins))


def make_names(names: Iterable[str], *, taken: Iterable[str], prefix: str) -> dict[str, str]:
    """The Python name of each name; `prefix` is put before a name that would be private."""
    given = tuple(names)
    reserved = frozenset(taken)
    # Two leading underscores have a meaning to type checkers, or to Python.
    found = {
        name: name
        for name in given
        if not (name in reserved or name.startswith("_") or keyword.iskeyword(name))
    }
    used = {*reserved, *found.values()}
    for name in given:
        if name not in found:
            found[name] = make_name(f"{prefix}{name}" if name.startswith("_") else name, taken=used)
            used.add(found[name])
    return {name: found[name] for name in given}


def make_name(wanted: str, *, taken: Iterable[str]) -> str:
    """The wanted name, with underscores appended until it is not taken."""
    used = frozenset(taken)
    while wanted in used or keyword.iskeyword(wanted):
        wanted += "_"
    return wanted


def class_name(name: str) -> str:
    """A name in the style of classes: `find_person` becomes `FindPerson`."""
    words = (word for word in name.split("_") if word)
    return "".join(word[0].upper() + word[1:] for word in words) or "Query"


LINE_COLUMNS = 100
INDENT = "    "

_WORD = re.compile(r"\S*\s*")
_NAMED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """A text as one string literal."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    return mark + "".join(_escape(each, mark) for each in text) + mark


def assign_text(name: str, text: str) -> Iterator[str]:
    """The lines that assign a text to a name: one if it fits, else one or more per line."""
    whole = f"{name} = {quote(text)}"
    if measure(whole) <= LINE_COLUMNS:
        yield whole
        return
    yield f"{name} = ("
    for line in text.splitlines(keepends=True):
        for piece in _pieces(line, LINE_COLUMNS - len(INDENT)):
            yield f"{INDENT}{quote(piece)}"
    yield ")"


def write_docstring(paragraphs: Iterable[str], *, indent: str) -> list[str]:
    """The lines of a docstring, with an empty line between paragraphs."""
    room = LINE_COLUMNS - len(indent)
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += [""] if lines else []
        for line in paragraph.strip().split("\n"):
            lines += textwrap.wrap(
                _escape_docstring(line),
                width=room - len('"""'),
                break_long_words=False,
                break_on_hyphens=False,
            ) or [""]
    if lines[-1].endswith('"'):
        lines[-1] = f'{lines[-1][:-1]}\\"'
    if len(lines) == 1 and measure(lines[0]) <= room - 2 * len('"""'):
        return [f'{indent}"""{lines[0]}"""']
    lines[0] = f'"""{lines[0]}'
    return [f"{indent}{line}".rstrip() for line in [*lines, '"""']]


def _pieces(line: str, room: int) -> Iterator[str]:
    """A line in pieces whose literals fit, split between words where possible."""
    piece = ""
    for unit in _units(line, room):
        if piece and measure(quote(piece + unit)) > room:
            yield piece
            piece = ""
        piece += unit
    yield piece


def _units(line: str, room: int) -> Iterator[str]:
    """The smallest units: words with the space after them, or characters of long words."""
    for word in _WORD.findall(line):
        if measure(quote(word)) <= room:
            yield word
        else:
            yield from word


def _escape(character: str, mark: str) -> str:
    if character == mark:
        return f"\\{mark}"
    return _NAMED.get(character) or _show(character)


def _escape_docstring(line: str) -> str:
    shown = "".join(
        _NAMED["\\"] if each == "\\" else " " if each.isspace() else _show(each) for each in line
    )
    return shown.replace('"""', '\\"\\"\\"')


def _show(character: str) -> str:
    """A printable character itself, otherwise its escape; direction marks are not printable."""
    if character.isprintable():
        return character
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


_PLAIN = {
    Scalar.STRING: "str",
    Scalar.BLOB: "str",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.I64: "int",
    Scalar.U32: "int",
    Scalar.U64: "int",
    Scalar.F32: "float",
    Scalar.F64: "float",
}
_TAKEN = {**_PLAIN, Scalar.DATE: "datetime.date | str", Scalar.DATETIME: "datetime.datetime | str"}
_HELD = {**_PLAIN, Scalar.DATE: "str", Scalar.DATETIME: "str"}


def parameter_type(type: PropertyType) -> str:
    """The Python type of a parameter, without null."""
    if isinstance(type.element, Vector):
        return "Sequence[float]"
    taken = _TAKEN[type.element]
    return f"Sequence[{taken}]" if type.is_list else taken


def column_type(column: Column) -> str:
    """The Python type of a column in a row."""
    element = column.type.element
    held = "float" if isinstance(element, Vector) else _HELD[element]
    if column.type.is_list or column.type.is_vector:
        held = f"list[{held}]"
    match column.expression:
        case Aggregate(function=AggregateFunction.COUNT):
            # Typed as nullable like every aggregate, but never null.
            return held
        case _:
            return f"{held} | None" if column.type.is_nullable else held


_IMPORTED = frozenset(
    {"AnyGraph", "MutationResult", "Sequence", "TypedDict", "annotations", "cast", "datetime"}
)
_USED_INSIDE = frozenset({"cast", "found", "list"})

_PROMISE = (
    "Stored queries as typed functions.",
    "Written by `omnigraph queries codegen --python`: do not edit it. Every "
    "function takes a graph from `omnigraph.open` or `omnigraph.connect`. Rows are "
    "those of `Result.rows`, where dates and timestamps are strings.",
)


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of the parts of one query in the module."""

    function: str
    constant: str
    row: str


def generate_python(source_by_name: Mapping[str, Source], catalog: Catalog) -> str:
    """The module with a function for each query; `CompileError` if one does not fit the schema.

    The functions are ordered by name.
    """
    queries: dict[str, CompiledQuery] = {}
    text_by_name: dict[str, str] = {}
    for name, source in source_by_name.items():
        # Compiled in its file first, so that an error has the line number of that file.
        compile_query(source, catalog, name=name)
        text_by_name[name] = f"{cut_query(source, name)}\n"
        own = Source(source.name, text_by_name[name])
        queries[name] = compile_query(own, catalog, name=name)
    names = _name_parts(sorted(queries))
    parts = [
        "\n".join(_write_part(queries[name], text_by_name[name], names[name]))
        for name in sorted(queries)
    ]
    body = "\n\n\n".join(parts)
    head = [*write_docstring(_PROMISE, indent=""), "", "from __future__ import annotations"]
    if queries:
        head += ["", *_write_imports([*queries.values()])]
    return "\n".join(head) + (f"\n\n{body}\n" if body else "\n")


def _name_parts(names: list[str]) -> dict[str, _Names]:
    taken = {*BUILTINS, *_IMPORTED}
    functions = make_names(names, taken=taken, prefix="query")
    taken |= set(functions.values())
    found: dict[str, _Names] = {}
    for name in names:
        constant = make_name(f"_{functions[name].upper()}", taken=taken)
        row = make_name(f"{class_name(name)}Row", taken=taken)
        taken |= {constant, row}
        found[name] = _Names(functions[name], constant, row)
    return found


def _write_imports(queries: list[CompiledQuery]) -> Iterator[str]:
    """The imports of the functions, in the order of a formatter."""
    parameters = [parameter for each in queries for parameter in each.ir.parameters]
    taken = " ".join(parameter_type(each.type) for each in parameters)
    has_mutation = any(each.is_mutation for each in queries)
    has_read = not all(each.is_mutation for each in queries)
    standard = {
        "import datetime": "datetime." in taken,
        "from collections.abc import Sequence": "Sequence[" in taken,
        "from typing import TypedDict, cast": has_read,
    }
    needed = [line for line, is_needed in standard.items() if is_needed]
    yield from [*needed, ""] if needed else []
    yield "from omnigraph.client.remote import AnyGraph"
    if has_mutation:
        yield "from omnigraph.engine.results import MutationResult"


def _write_part(query: CompiledQuery, text: str, names: _Names) -> Iterator[str]:
    yield from assign_text(names.constant, text)
    match query.ir:
        case ReadIR(columns=columns):
            yield from ("", *_write_row(columns, names.row))
        case MutationIR():
            pass
    yield from ("", "", *_write_function(query, names))


def _write_row(columns: Iterable[Column], name: str) -> Iterator[str]:
    # Names with a dot need this form.
    type_by_column = {each.name: column_type(each) for each in columns}
    yield f"{name} = TypedDict("
    yield f"{INDENT}{quote(name)},"
    yield f"{INDENT}{{"
    for column, type in type_by_column.items():
        yield f"{INDENT * 2}{quote(column)}: {type},"
    yield f"{INDENT}}},"
    yield ")"


def _write_function(query: CompiledQuery, names: _Names) -> Iterator[str]:
    parameters = query.ir.parameters
    arguments = make_names(
        [each.name for each in parameters], taken={*_USED_INSIDE, names.row}, prefix="param"
    )
    # Parameters keep their names; the other arguments avoid them.
    taken = {*_USED_INSIDE, *arguments.values()}
    graph, branch, commit = (make_name(each, taken=taken) for each in ("graph", "branch", "commit"))
    if query.is_mutation:
        returned, call = "MutationResult", f"return {graph}.mutate("
        options, optional = {"branch": branch}, 'str = "main"'
    else:
        returned, call = f"list[{names.row}]", f"found = {graph}.query("
        options, optional = {"branch": branch, "commit": commit}, "str | None = None"
    yield f"def {names.function}("
    yield f"{INDENT}{graph}: AnyGraph,"
    yield f"{INDENT}/,"
    yield f"{INDENT}*,"
    for each in parameters:
        nullable = " | None = None" if each.type.is_nullable else ""
        yield f"{INDENT}{arguments[each.name]}: {parameter_type(each.type)}{nullable},"
    for option in options.values():
        yield f"{INDENT}{option}: {optional},"
    yield f") -> {returned}:"
    yield from write_docstring(_describe(query), indent=INDENT)
    yield f"{INDENT}{call}"
    yield f"{INDENT * 2}{names.constant},"
    if arguments:
        yield f"{INDENT * 2}{{"
        for parameter, argument in arguments.items():
            yield f"{INDENT * 3}{quote(parameter)}: {argument},"
        yield f"{INDENT * 2}}},"
    else:
        yield f"{INDENT * 2}{{}},"
    yield f"{INDENT * 2}name={quote(query.name)},"
    for name, option in options.items():
        yield f"{INDENT * 2}{name}={option},"
    yield f"{INDENT})"
    if not query.is_mutation:
        yield f'{INDENT}return cast("list[{names.row}]", found.rows)'


def _describe(compiled: CompiledQuery) -> list[str]:
    kind = "mutation" if compiled.is_mutation else "query"
    paragraphs = [
        each for each in (compiled.description, compiled.instruction) if each and each.strip()
    ]
    return paragraphs or [f"Run the stored {kind} `{compiled.name}`."]


_DECLARING = "query"


def cut_query(source: Source, name: str) -> str:
    """The text of a named query, from its first word to its last brace."""
    depth, start, before = 0, 0, ""
    found = False
    for token in significant_tokens(source.text):
        if depth == 0 and token.kind is TokenKind.WORD:
            if before == _DECLARING:
                # A query may itself be named `query`.
                found, before = token.text == name, ""
                continue
            if token.text == _DECLARING:
                start = token.start
            before = token.text
        if token.kind is TokenKind.SIGN:
            depth += (token.text in "{([") - (token.text in "})]")
            if found and depth == 0 and token.text == "}":
                return source.text[start : token.end]
    raise NotFoundError(
        kind="query", name=name, advice=f"{source.name} contains no query of this name"
    )
