"""Input that a command line names: files, standard input, query text and query parameters.

Conflicting flags are usage errors. Unreadable files, texts and values are errors of the command and
name the file. Standard input has at most one reader.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from shlex import quote

import click

from omnigraph.cli.output import CommandError
from omnigraph.cli.targets import ServedTarget, StoreTarget, Target
from omnigraph.compiler.parser import decode_source
from omnigraph.model.errors import CompileError, reading
from omnigraph.model.source import Source
from omnigraph.storage.environment import expand_home

STANDARD_INPUT = "-"
STANDARD_OUTPUT = "-"


def read_source(path: str) -> Source:
    """The text of a schema or query file."""
    return decode_source(read_bytes(path), name=_name_of(path))


@contextmanager
def attach_path(text: str, path: str | None) -> Iterator[None]:
    """A block whose diagnostics of a text name the file that it was read from, if any."""
    try:
        yield
    except CompileError as error:
        if path is None or error.source.text != text:
            raise
        source = Source(_name_of(path), text)
        raise CompileError(diagnostics=error.diagnostics, source=source) from error


def read_bytes(path: str) -> bytes:
    """The content of a file."""
    if path == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    with reading(path):
        return expand_home(path).read_bytes()


def _name_of(path: str) -> str:
    return "<stdin>" if path == STANDARD_INPUT else path


PARAMS_OPTION = click.option(
    "--params", "params_text", metavar="JSON", help="The parameters, as a JSON object."
)
PARAMS_FILE_OPTION = click.option(
    "--params-file", "params_path", metavar="FILE", help="A file with the parameters; `-` is stdin."
)


def require_one(given: Mapping[str, object]) -> None:
    """Reject a command line with two flags that are mutually exclusive."""
    options = [flag for flag, value in given.items() if value is not None and value is not False]
    if len(options) > 1:
        raise click.UsageError(f"{options[0]} and {options[1]} are mutually exclusive")


def find_text(path: str | None, text: str | None) -> str | None:
    """The query text of the command line; None if there is none."""
    require_one({"--query": path, "-e": text})
    if text is not None:
        if not text.strip():
            raise CommandError("the text of -e must not be empty")
        return text
    return None if path is None else read_source(path).text


def find_params(text: str | None, path: str | None) -> dict[str, object] | None:
    """The parameter values of the command line; None if there are none."""
    require_one({"--params": text, "--params-file": path})
    if text is not None:
        return _parse_params(text, flag="--params")
    if path is None:
        return None
    content = decode_source(read_bytes(path), name=path).text
    return _parse_params(content, flag=f"--params-file {path}")


def require_one_reader_of_input(*paths: str | None) -> None:
    """Reject a command line that reads standard input twice."""
    if paths.count(STANDARD_INPUT) > 1:
        raise click.UsageError("only one option can read from stdin")


@dataclass(frozen=True, slots=True)
class QueryInput:
    """A query of a command line: a text or the name of a stored query, and its parameters.

    With a text, the name selects one of its queries.
    """

    name: str | None
    text: str | None
    path: str | None
    params: dict[str, object] | None

    def attach_path(self) -> AbstractContextManager[None]:
        """A block whose diagnostics of the text name the file that it was read from, if any."""
        return attach_path(self.text or "", self.path)


def takes_query(function: Callable[..., object]) -> Callable[..., object]:
    """Add the argument and the options of a query; the function gets them as a `QueryInput`."""

    @click.argument("name", required=False)
    @click.option("--query", "query_path", metavar="FILE", help="A .gq file; `-` is stdin.")
    @click.option("-e", "--query-string", "query_text", metavar="GQ", help="The text of the query.")
    @PARAMS_OPTION
    @PARAMS_FILE_OPTION
    @wraps(function)
    def run(
        invocation: object,
        *,
        name: str | None,
        query_path: str | None,
        query_text: str | None,
        params_text: str | None,
        params_path: str | None,
        **others: object,
    ) -> object:
        require_one_reader_of_input(query_path, params_path)
        text = find_text(query_path, query_text)
        query = QueryInput(name, text, query_path, find_params(params_text, params_path))
        return function(invocation, query=query, **others)

    return run


@contextmanager
def hinting_at_store(name: str | None) -> Iterator[None]:
    """A block that resolves a graph; its error explains `--store` if NAME looks like a graph.

    NAME looks like a graph if it is a folder or a URI.
    """
    try:
        yield
    except CommandError as error:
        if name is None or not ("://" in name or "/" in name or expand_home(name).is_dir()):
            raise
        raise CommandError(
            f"{error}\n'{name}' was read as the name of a query; to name a graph, use "
            f"--store {quote(name)}"
        ) from error


def require_stored(name: str | None, target: Target) -> tuple[str, ServedTarget]:
    """The name of the stored query to run, and its server."""
    if name is None:
        raise CommandError(
            "no query given; pass a text with -e or --query FILE, or the name of a "
            "stored query with --server"
        )
    match target:
        case ServedTarget():
            return name, target
        case StoreTarget():
            raise CommandError(
                f"the stored query '{name}' needs a server, and {target.uri} is opened directly; "
                "add --server <name|url>, or pass the text with -e or --query FILE"
            )


def _parse_params(text: str, *, flag: str) -> dict[str, object]:
    try:
        found = json.loads(
            text,
            parse_constant=refuse_constant,
            parse_float=_parse_number,
            object_pairs_hook=_parse_object,
        )
    except ValueError as error:
        raise CommandError(f"{flag} is not valid JSON: {error}") from error
    except RecursionError as error:
        raise CommandError(f"{flag} is nested too deeply") from error
    if not isinstance(found, dict):
        raise CommandError(f'{flag} must be a JSON object, such as \'{{"name": "Ann"}}\'')
    return found


def refuse_constant(name: str) -> object:
    """Reject a number that Python's JSON parser accepts and JSON does not have."""
    raise ValueError(f"{name} is not a JSON number")


def _parse_number(written: str) -> float:
    number = float(written)
    if math.isinf(number):
        raise ValueError(f"{written} is too large a number")
    return number


def _parse_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate key {twice!r}")
    return named
