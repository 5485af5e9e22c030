"""The parts of the references that the code writes: commands from click, calls from signatures.

A page is written by hand except the text between `<!-- name -->` and `<!-- end of name -->`.
Guarantees that the same code gives the same text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import ForwardRef

import click

import omnigraph
from omnigraph.cli.main import make_root
from omnigraph.cli.options import GlobalOption, global_options
from omnigraph.cli.registry import ENTRIES, MEANING_BY_CAPABILITY, Entry, applicable_flags
from omnigraph.client.remote import RemoteGraph
from omnigraph.engine.graph import Graph

# Types that calls return and take; callers construct none, so `omnigraph` does not export them.
RESULTS = (
    "omnigraph.engine.results:Result",
    "omnigraph.engine.prepared:PreparedQuery",
    "omnigraph.engine.results:MutationResult",
    "omnigraph.engine.results:LoadResult",
    "omnigraph.engine.results:MergeResult",
    "omnigraph.engine.state.history:Commit",
    "omnigraph.engine.changes:ChangeSet",
    "omnigraph.engine.changes:Change",
    "omnigraph.engine.changes:CommitChanges",
    "omnigraph.engine.results:MigrationPlan",
    "omnigraph.engine.results:SchemaApplyResult",
    "omnigraph.engine.results:SnapshotState",
    "omnigraph.engine.results:TableState",
    "omnigraph.engine.results:Blob",
    "omnigraph.engine.retrieval.results:Retrieval",
    "omnigraph.engine.retrieval.results:Passage",
    "omnigraph.engine.retrieval.results:Place",
    "omnigraph.engine.retrieval.results:Receipt",
    "omnigraph.engine.results:OptimizeReport",
    "omnigraph.engine.results:IndexReport",
    "omnigraph.engine.read.budget:CacheStats",
    "omnigraph.engine.results:ExportReport",
)


@dataclass(frozen=True, slots=True)
class Member:
    """A public call or attribute of a class."""

    name: str
    text: str
    summary: str


def replace_part(page: str, name: str, text: str) -> str:
    """The page with one of its generated parts replaced."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    assert pattern.search(page), f"the page has no part `{name}`"
    return pattern.sub(lambda _: f"{begin}\n{text}\n\n{end}", page)


# The command line


def global_flags_part() -> str:
    """A table of the flags that every command takes."""
    rows = [_option_row(each) for each in global_options() if isinstance(each, click.Option)]
    return "\n".join(["| flag | meaning |", "|---|---|", *rows])


def commands_part() -> str:
    """A section for every command that help shows, by what they are able to do."""
    return "\n\n".join(_command_lines())


def _command_lines() -> Iterator[str]:
    for capability, meaning in MEANING_BY_CAPABILITY.items():
        entries = [e for e in ENTRIES if e.capability is capability and not e.is_hidden]
        yield f"## {capability.capitalize()} commands\n\nThey {meaning}."
        for entry in entries:
            yield _describe_command(entry)


def _describe_command(entry: Entry) -> str:
    found, context = _find_command(entry)
    own = [each for each in found.params if not isinstance(each, GlobalOption)]
    usage = " ".join(found.collect_usage_pieces(context)[1:])
    parts = [
        f"### `omnigraph {entry.name}`",
        f"```sh\nomnigraph {entry.name} [OPTIONS] {usage}".rstrip() + "\n```",
        _prose(found.help or entry.summary),
    ]
    rows = [_option_row(each) for each in own if isinstance(each, click.Option) and not each.hidden]
    if rows:
        parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]))
    addressed = [
        f"`{each.opts[0]}`" for each in global_options() if each.opts[0] in applicable_flags(entry)
    ]
    if addressed:
        parts.append(f"Global flags that apply: {', '.join(addressed)}.")
    return "\n\n".join(parts)


def _find_command(entry: Entry) -> tuple[click.Command, click.Context]:
    context = click.Context(make_root(), info_name="omnigraph")
    found: click.Command = context.command
    for word in entry.path:
        assert isinstance(found, click.Group)
        below = found.get_command(context, word)
        assert below is not None, f"no command is called {entry.name}"
        found = below
        context = click.Context(found, info_name=word, parent=context)
    return found, context


def _option_row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    context = click.Context(click.Command("omnigraph"))
    value = "" if option.is_flag else f"`{option.make_metavar(context)}`"
    notes = [option.help or ""]
    if option.required:
        notes.append("Required.")
    if option.show_default and option.default is not None and not option.is_flag:
        notes.append(f"Default: `{option.default}`.")
    left = f"{names} {_cell(value)}".rstrip()
    return f"| {left} | {_cell(' '.join(filter(None, notes)))} |"


# Python


def entry_points_part() -> str:
    """The functions of the package, and the one of its package for Spark."""
    found = {name: getattr(omnigraph, name) for name in sorted(omnigraph.__all__)}
    functions: dict[str, Callable[..., object]] = {
        name: each for name, each in found.items() if inspect.isfunction(each)
    }
    functions["spark.session"] = omnigraph.spark.session
    return "\n\n".join(
        f"### `omnigraph.{name}`\n\n```\n{_signature(name.rpartition('.')[2], each)}\n```\n\n"
        + _prose(inspect.getdoc(each) or "")
        for name, each in functions.items()
    )


def calls_part() -> str:
    """The calls of a graph; those that a remote one lacks are marked."""
    remote = {member.name for member in _members(RemoteGraph)}
    embedded = _members(Graph)
    lines = [_describe_call(each, is_direct=each.name not in remote) for each in embedded]
    return "\n\n".join(lines)


def remote_calls_part() -> str:
    """The calls that only a remote graph has."""
    known = {member.name for member in _members(Graph)}
    only = [each for each in _members(RemoteGraph) if each.name not in known]
    return "\n\n".join(_describe_call(each, is_direct=False) for each in only)


def results_part() -> str:
    """What calls return: attributes and methods, with what they promise."""
    return "\n\n".join(_describe_class(*location.split(":")) for location in RESULTS)


def other_names_part() -> str:
    """The classes of the package itself that are no graph."""
    classes = [
        name
        for name in sorted(omnigraph.__all__)
        if inspect.isclass(getattr(omnigraph, name)) and name not in ("Graph", "RemoteGraph")
    ]
    return "\n\n".join(_describe_class("omnigraph", name) for name in classes)


def _describe_call(member: Member, *, is_direct: bool) -> str:
    mark = " — direct only" if is_direct else ""
    return f"### `graph.{member.name}`{mark}\n\n```\n{member.text}\n```\n\n{member.summary}"


def _describe_class(module: str, name: str) -> str:
    found = getattr(import_module(module), name)
    parts = [f"### `{name}`", _first_paragraph(found)]
    attributes = _fields_of(found)
    if attributes:
        listed = "\n".join(member.text for member in attributes)
        parts.append(f"```\n{listed}\n```")
    rows = [
        f"| `{_cell(each.text)}` | {_cell(each.summary)} |"
        for each in _members(found)
        if each not in attributes
    ]
    if rows:
        parts.append("\n".join(["| member | meaning |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def _members(found: type) -> list[Member]:
    known = _fields_of(found)
    for name, value in inspect.getmembers(found):
        if name.startswith("_") or name in {member.name for member in known}:
            continue
        if isinstance(value, property):
            annotation = inspect.signature(value.fget or len).return_annotation
            known.append(Member(name, f"{name}: {_type_text(annotation)}", _first_paragraph(value)))
        elif inspect.isfunction(value):
            known.append(Member(name, _signature(name, value), _first_paragraph(value)))
    return known


def _fields_of(found: type) -> list[Member]:
    if is_dataclass(found):
        return [
            Member(each.name, f"{each.name}: {_type_text(each.type)}", "")
            for each in fields(found)
            if not each.name.startswith("_")
        ]
    if issubclass(found, tuple):
        return [
            Member(name, f"{name}: {_type_text(annotation)}", "")
            for name, annotation in found.__annotations__.items()
        ]
    return []


def _signature(name: str, function: object) -> str:
    assert callable(function)
    signature = inspect.signature(function)
    shown = [each for key, each in signature.parameters.items() if key != "self"]
    pieces: list[str] = []
    for each in shown:
        is_first_keyword = each.kind is each.KEYWORD_ONLY and "*" not in pieces
        pieces += (["*"] if is_first_keyword else []) + [_parameter(each)]
    line = f"{name}({', '.join(pieces)}) -> {_type_text(signature.return_annotation)}"
    if len(line) <= LINE_COLUMNS_MAX:
        return line
    inside = "".join(f"    {piece},\n" for piece in pieces)
    return f"{name}(\n{inside}) -> {_type_text(signature.return_annotation)}"


LINE_COLUMNS_MAX = 100


def _parameter(parameter: inspect.Parameter) -> str:
    is_rest = parameter.kind is parameter.VAR_POSITIONAL
    star = "*" if is_rest else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    text = f"{star}{parameter.name}: {_type_text(parameter.annotation)}"
    return text if parameter.default is parameter.empty else f"{text} = {_default(parameter)}"


def _default(parameter: inspect.Parameter) -> str:
    default = parameter.default
    shown = default.value if isinstance(default, Enum) else default
    return f'"{shown}"' if isinstance(shown, str) else repr(shown)


def _type_text(annotation: object) -> str:
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _first_paragraph(documented: object) -> str:
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def _prose(text: str) -> str:
    # Click's mark for a paragraph whose lines stay as they are.
    return inspect.cleandoc(text).replace("\b\n", "").strip()
