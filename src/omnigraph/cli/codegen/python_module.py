"""Stored queries as one Python module: a typed function a query, with its text inside.

Promises that the module is the same for the same queries, that it imports and type-checks whatever
queries, parameters and columns are called, and that it works on every graph with the schema that
the queries were compiled against. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.cli.codegen.python_names import BUILTINS, class_name, make_name, make_names
from omnigraph.cli.codegen.python_texts import INDENT, assign_text, quote, write_docstring
from omnigraph.cli.codegen.python_types import column_type, parameter_type
from omnigraph.compiler.ir import Column, MutationIR, Parameter, ReadIR
from omnigraph.compiler.query.check import CompiledQuery
from omnigraph.model.types import PropertyType

_IMPORTED = frozenset(
    {"GraphCalls", "MutationResult", "Sequence", "TypedDict", "annotations", "cast", "datetime"}
)
_USED_INSIDE = frozenset({"cast", "found", "list"})

_PROMISE = (
    "Stored queries as typed functions.",
    "Written by `omnigraph queries codegen --python`: write it again instead of changing it. Every "
    "function takes a graph, that of `omnigraph.open` or that of `omnigraph.connect`. Rows are "
    "those of `Result.rows`, where dates and moments are texts.",
)


@dataclass(frozen=True, slots=True)
class QueryText:
    """A compiled query, and the text that it was compiled from, alone."""

    compiled: CompiledQuery
    text: str


@dataclass(frozen=True, slots=True)
class _Names:
    """What the parts of one query are called in the module."""

    function: str
    constant: str
    row: str


def write_module(queries: Iterable[QueryText]) -> str:
    """The text of the module; the order of the queries is that of their names."""
    ordered = sorted(queries, key=lambda each: each.compiled.name)
    names = _name_parts([each.compiled.name for each in ordered])
    parts = [_write_part(each, names[each.compiled.name]) for each in ordered]
    body = "\n\n\n".join(parts)
    head = [*write_docstring(_PROMISE, indent=""), "", "from __future__ import annotations"]
    if ordered:
        head += ["", *_write_imports([each.compiled for each in ordered])]
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
    """The imports that functions need, in the order of a formatter."""
    taken = " ".join(parameter_type(type) for each in queries for type in _types_of(each))
    has_mutation = any(each.is_mutation for each in queries)
    has_read = not all(each.is_mutation for each in queries)
    standard = {
        "import datetime": "datetime." in taken,
        "from collections.abc import Sequence": "Sequence[" in taken,
        "from typing import TypedDict, cast": has_read,
    }
    needed = [line for line, is_needed in standard.items() if is_needed]
    yield from [*needed, ""] if needed else []
    yield "from omnigraph.client.calls import GraphCalls"
    if has_mutation:
        yield "from omnigraph.engine.results import MutationResult"


def _types_of(query: CompiledQuery) -> Iterator[PropertyType]:
    return (each.type for each in query.ir.parameters)


def _write_part(query: QueryText, names: _Names) -> str:
    lines = list(assign_text(names.constant, query.text))
    match query.compiled.ir:
        case ReadIR(columns=columns, parameters=parameters):
            lines += ["", *_write_row(columns, names.row)]
            lines += ["", "", *_write_read(query.compiled, parameters, names)]
        case MutationIR(parameters=parameters):
            lines += ["", "", *_write_mutation(query.compiled, parameters, names)]
    return "\n".join(lines)


def _write_row(columns: Iterable[Column], name: str) -> Iterator[str]:
    # Of two columns with one name a row keeps the last. Names with a dot need this form.
    type_by_column = {each.name: column_type(each) for each in columns}
    yield f"{name} = TypedDict("
    yield f"{INDENT}{quote(name)},"
    yield f"{INDENT}{{"
    for column, type in type_by_column.items():
        yield f"{INDENT * 2}{quote(column)}: {type},"
    yield f"{INDENT}}},"
    yield ")"


def _write_read(
    compiled: CompiledQuery, parameters: tuple[Parameter, ...], names: _Names
) -> Iterator[str]:
    arguments = _name_arguments(parameters, names)
    graph, branch, commit = _name_options(("graph", "branch", "commit"), arguments)
    options = [f"{branch}: str | None = None", f"{commit}: str | None = None"]
    yield from _write_signature(parameters, arguments, names.function, graph, options)
    yield f") -> list[{names.row}]:"
    yield from write_docstring(_describe(compiled), indent=INDENT)
    yield f"{INDENT}found = {graph}.query("
    yield from _write_arguments(compiled.name, arguments, names)
    yield f"{INDENT * 2}branch={branch},"
    yield f"{INDENT * 2}commit={commit},"
    yield f"{INDENT})"
    yield f'{INDENT}return cast("list[{names.row}]", found.rows)'


def _write_mutation(
    compiled: CompiledQuery, parameters: tuple[Parameter, ...], names: _Names
) -> Iterator[str]:
    arguments = _name_arguments(parameters, names)
    graph, branch = _name_options(("graph", "branch"), arguments)
    options = [f'{branch}: str = "main"']
    yield from _write_signature(parameters, arguments, names.function, graph, options)
    yield ") -> MutationResult:"
    yield from write_docstring(_describe(compiled), indent=INDENT)
    yield f"{INDENT}return {graph}.mutate("
    yield from _write_arguments(compiled.name, arguments, names)
    yield f"{INDENT * 2}branch={branch},"
    yield f"{INDENT})"


def _name_arguments(parameters: Iterable[Parameter], names: _Names) -> dict[str, str]:
    return make_names(
        [each.name for each in parameters], taken={*_USED_INSIDE, names.row}, prefix="param"
    )


def _name_options(wanted: Iterable[str], arguments: Mapping[str, str]) -> Iterator[str]:
    """What a function has beside the parameters, which keep their names."""
    taken = {*_USED_INSIDE, *arguments.values()}
    return (make_name(each, taken=taken) for each in wanted)


def _write_signature(
    parameters: Iterable[Parameter],
    arguments: Mapping[str, str],
    function: str,
    graph: str,
    options: Iterable[str],
) -> Iterator[str]:
    yield f"def {function}("
    yield f"{INDENT}{graph}: GraphCalls,"
    yield f"{INDENT}/,"
    yield f"{INDENT}*,"
    for each in parameters:
        nullable = " | None = None" if each.type.is_nullable else ""
        yield f"{INDENT}{arguments[each.name]}: {parameter_type(each.type)}{nullable},"
    for option in options:
        yield f"{INDENT}{option},"


def _write_arguments(name: str, arguments: Mapping[str, str], names: _Names) -> Iterator[str]:
    yield f"{INDENT * 2}{names.constant},"
    if arguments:
        yield f"{INDENT * 2}{{"
        for parameter, argument in arguments.items():
            yield f"{INDENT * 3}{quote(parameter)}: {argument},"
        yield f"{INDENT * 2}}},"
    else:
        yield f"{INDENT * 2}{{}},"
    yield f"{INDENT * 2}name={quote(name)},"


def _describe(compiled: CompiledQuery) -> list[str]:
    kind = "mutation" if compiled.is_mutation else "query"
    told = [each for each in (compiled.description, compiled.instruction) if each and each.strip()]
    return told or [f"Run the stored {kind} `{compiled.name}`."]
