"""What commands print: payloads on standard output, nothing else there; notes on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

import click
import orjson

from omnigraph.cli.display import make_lines_harmless


def print_json(payload: Mapping[str, object] | list[object]) -> None:
    """Print a payload as JSON, indented, keys in the order they were made."""
    # As the server writes it, so that a value looks the same on both ways.
    print_pieces([orjson.dumps(payload, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)])


def print_line(line: str) -> None:
    """Print a line of a payload for people; nothing in it makes a terminal do anything."""
    click.echo(make_lines_harmless(line))


def print_pieces(pieces: Iterable[bytes]) -> None:
    """Print a payload that comes piece by piece, each as soon as it is there.

    Files and pipes get it as it is; what a terminal would obey is written as an escape there.
    """
    is_shown = sys.stdout.isatty()
    for piece in pieces:
        click.echo(_show(piece) if is_shown else piece, nl=False)


def print_note(line: str) -> None:
    """Say something that is no payload."""
    click.echo(make_lines_harmless(line), err=True)


def _show(piece: bytes) -> str:
    # Payloads have no colours of ours.
    return make_lines_harmless(piece.decode().replace("\x1b", "\\u001b"))
