"""A result where it belongs: on the standard output in a format, or in a file."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.cli.config import COLUMN_WIDTH_DEFAULT, CellLayout, Format
from omnigraph.cli.formats.results import (
    write_csv,
    write_json,
    write_jsonl,
    write_kv,
    write_table,
)
from omnigraph.cli.formats.table import Look
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.output import print_pieces
from omnigraph.cli.terminal import standard_output
from omnigraph.engine.results import Result
from omnigraph.storage.row_files import new_file, parse_target
from omnigraph.wire.shapes import Target

_FORMAT_BY_SUFFIX = {".csv": Format.CSV, ".json": Format.JSON}
_IN_A_FILE = Look(column_width_max=COLUMN_WIDTH_DEFAULT, is_wrapped=False, terminal_width=None)


def print_result(invocation: Invocation, result: Result, target: Target, *, format: Format) -> None:
    """Print a result as the command line and the configuration want it."""
    print_pieces(write_result(result, target, format=format, look=find_look(invocation)))


def find_look(invocation: Invocation) -> Look:
    """How tables look on the standard output."""
    defaults = invocation.config.defaults
    return Look(
        column_width_max=defaults.column_width_max,
        is_wrapped=defaults.cell_layout is CellLayout.WRAP,
        terminal_width=standard_output(invocation.environment).width,
    )


def write_result(result: Result, target: Target, *, format: Format, look: Look) -> Iterator[bytes]:
    """The pieces of a result in a format."""
    match format:
        case Format.JSON:
            return write_json(result, target)
        case Format.JSONL:
            return write_jsonl(result, target)
        case Format.CSV:
            return write_csv(result)
        case Format.KV:
            return write_kv(result, target)
        case Format.TABLE:
            return write_table(result, target, look=look)


def save_result(result: Result, target: Target, *, path: str, chosen: Format | None) -> None:
    """Write a result to a file: in the format that was asked for, or the one that its name tells.

    The file appears whole or not at all.
    """
    place = parse_target(path)
    format = _FORMAT_BY_SUFFIX.get(place.suffix.lower()) if chosen is None else chosen
    if format is None:
        result.write(place)
        return
    with new_file(place) as hidden, hidden.open("wb") as file:
        for piece in write_result(result, target, format=format, look=_IN_A_FILE):
            file.write(piece)
