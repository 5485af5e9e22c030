"""What a command line says about a query: its text, its parameters, and flags that exclude others.

Flags that exclude each other are a mistake of the command line; texts and values that cannot be
read are errors of the run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import click

from omnigraph.cli.files import STANDARD_INPUT, read_bytes, read_source
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.targets import ServedTarget, StoreTarget, Target
from omnigraph.compiler.text import decode_source

QUERY_OPTION = click.option(
    "--query", "query_path", metavar="FILE", help="A .gq file with the query; `-` is stdin."
)
TEXT_OPTION = click.option(
    "-e", "--query-string", "query_text", metavar="GQ", help="The text of the query."
)
PARAMS_OPTION = click.option(
    "--params", "params_text", metavar="JSON", help="Values for the parameters, an object."
)
PARAMS_FILE_OPTION = click.option(
    "--params-file", "params_path", metavar="FILE", help="The same from a file; `-` is stdin."
)


def require_one(given: Mapping[str, object]) -> None:
    """Refuse a command line with two flags of which only one can count."""
    spelled = [flag for flag, value in given.items() if value is not None and value is not False]
    if len(spelled) > 1:
        raise click.UsageError(f"{spelled[0]} and {spelled[1]} exclude each other")


def find_text(path: str | None, text: str | None) -> str | None:
    """The text of the query that was given; None if none was."""
    require_one({"--query": path, "-e": text})
    if text is not None:
        if not text.strip():
            raise CommandError("the text of -e must not be empty")
        return text
    return None if path is None else read_source(path).text


def find_params(text: str | None, path: str | None) -> dict[str, object] | None:
    """The values for parameters that were given; None if none were."""
    require_one({"--params": text, "--params-file": path})
    if text is not None:
        return _parse_params(text, flag="--params")
    if path is None:
        return None
    content = decode_source(read_bytes(path), name=path).text
    return _parse_params(content, flag=f"--params-file {path}")


def require_one_reader_of_input(*paths: str | None) -> None:
    """Refuse a command line that wants two things from the standard input."""
    if paths.count(STANDARD_INPUT) > 1:
        raise click.UsageError("only one thing can come from the standard input")


def require_stored(name: str | None, target: Target) -> tuple[str, ServedTarget]:
    """The name of the stored query that is meant, and the server that has it."""
    if name is None:
        raise CommandError(
            "there is nothing to run; give a text with -e or --query FILE, or the name of a "
            "stored query with --server"
        )
    match target:
        case ServedTarget():
            return name, target
        case StoreTarget():
            raise CommandError(
                f"the stored query '{name}' needs a server, and {target.uri} is opened directly; "
                "add --server <name|url>, or give the text with -e or --query FILE"
            )


def _parse_params(text: str, *, flag: str) -> dict[str, object]:
    try:
        found = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_parse_number,
            object_pairs_hook=_parse_object,
        )
    except ValueError as error:
        raise CommandError(f"{flag} is no JSON: {error}") from error
    except RecursionError as error:
        raise CommandError(f"{flag} is nested too deep") from error
    if not isinstance(found, dict):
        raise CommandError(f'{flag} has to be a JSON object, such as \'{{"name": "Ann"}}\'')
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


def _parse_number(written: str) -> float:
    number = float(written)
    if math.isinf(number):
        raise ValueError(f"{written} is larger than numbers get")
    return number


def _parse_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has {twice!r} twice")
    return named
