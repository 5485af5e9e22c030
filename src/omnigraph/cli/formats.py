"""Query results as a table, key-value lines, JSON, JSON lines or CSV; on stdout or in a file.

Results are formatted in batches of rows, except tables, whose column widths depend on every cell. A
result file appears whole or not at all. The module needs Arrow, so commands import it when there is
a result to print.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest

import orjson

from omnigraph.cli.config import COLUMN_WIDTH_DEFAULT, CellLayout, Format
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.output import (
    clip,
    escape_control,
    fill,
    measure,
    print_pieces,
    split,
    standard_output,
)
from omnigraph.engine.results import Result
from omnigraph.engine.rows.text_rows import (
    Delimiter,
    encode_csv,
    encode_csv_names,
    encode_lines,
    encode_objects,
)
from omnigraph.http.arrow import describe_result, encode_in_pieces, list_cells
from omnigraph.http.encode import join_lines
from omnigraph.http.responses import Target
from omnigraph.model.errors import plural
from omnigraph.storage.row_files import find_result_format, new_file, parse_target

_BETWEEN = " | "
_CROSSING = "-+-"
_CAP_MIN = 8
# The narrowest width at which a column is still useful.
_ROOM_MIN = 4


@dataclass(frozen=True, slots=True)
class TableStyle:
    """How tables are drawn.

    A cell wider than `column_width_max` is wrapped or cut; `terminal_width` is None without a
    terminal.
    """

    column_width_max: int
    is_wrapped: bool
    terminal_width: int | None


def draw_table(
    names: Sequence[str], columns: Sequence[Sequence[str]], *, look: TableStyle
) -> Iterator[str]:
    """The lines of a table: column names, a rule, rows."""
    cap = max(look.column_width_max, _CAP_MIN)
    rooms = [
        min(cap, max(map(measure, (name, *cells))))
        for name, cells in zip(names, columns, strict=True)
    ]
    if look.terminal_width is not None:
        rooms = fit_widths(rooms, look.terminal_width - len(_BETWEEN) * (len(rooms) - 1))
    yield from _draw_row(names, rooms, look)
    yield _CROSSING.join("-" * room for room in rooms)
    for row in zip(*columns, strict=True):
        yield from _draw_row(row, rooms, look)


def fit_widths(wanted: Sequence[int], available: int) -> list[int]:
    """The widths of columns that share a line: narrow ones stay, wide ones are made equal."""
    if sum(wanted) <= available:
        return list(wanted)
    cap = max(wanted)
    while cap > _ROOM_MIN and sum(min(each, cap) for each in wanted) > available:
        cap -= 1
    rooms = [min(each, cap) for each in wanted]
    left = available - sum(rooms)
    for position, each in enumerate(wanted):
        if left > 0 and each > cap:
            rooms[position] += 1
            left -= 1
    return rooms


def _draw_row(cells: Sequence[str], rooms: Sequence[int], look: TableStyle) -> Iterator[str]:
    if not look.is_wrapped:
        shown = (fill(clip(cell, room), room) for cell, room in zip(cells, rooms, strict=True))
        yield _BETWEEN.join(shown).rstrip()
        return
    pieces = [split(cell, room) for cell, room in zip(cells, rooms, strict=True)]
    for line in zip_longest(*pieces, fillvalue=""):
        shown = (fill(piece, room) for piece, room in zip(line, rooms, strict=True))
        yield _BETWEEN.join(shown).rstrip()


def list_rows(names: Sequence[str], columns: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of all rows, with an empty line between rows."""
    for number, row in enumerate(zip(*columns, strict=True), start=1):
        if number > 1:
            yield ""
        yield f"row {number}"
        for name, cell in zip(names, row, strict=True):
            yield f"{name}: {cell}"


_NO_ROWS = "(no rows)"

# The text around rows that are indented as part of a whole document.
_ROWS_OPENED = b'{\n  "rows": ['
_ROWS_CLOSED = b"\n  ]\n}"


def write_json(result: Result, target: Target) -> Iterator[bytes]:
    """The response body of a server, indented."""
    described = orjson.dumps(describe_result(result, target), option=orjson.OPT_INDENT_2)
    yield described.removesuffix(b"\n}") + b',\n  "rows": ['
    is_first = True
    for objects_joined in encode_in_pieces(result, encode_objects):
        objects = orjson.loads(b"[" + objects_joined + b"]")
        indented = orjson.dumps({"rows": objects}, option=orjson.OPT_INDENT_2)
        yield b"" if is_first else b","
        yield indented.removeprefix(_ROWS_OPENED).removesuffix(_ROWS_CLOSED)
        is_first = False
    yield b"]\n}\n" if is_first else b"\n  ]\n}\n"


def write_jsonl(result: Result, target: Target) -> Iterator[bytes]:
    """A line that describes the result, then one line per row."""
    described = {"kind": "metadata", **describe_result(result, target)}
    yield orjson.dumps(described) + b"\n"
    yield from encode_in_pieces(result, encode_lines)


def write_csv(result: Result) -> Iterator[bytes]:
    """A line of column names, then one line per row."""
    yield encode_csv_names(result.columns, Delimiter.COMMA)
    yield from encode_in_pieces(result, partial(encode_csv, delimiter=Delimiter.COMMA))


def write_table(result: Result, target: Target, *, look: TableStyle) -> Iterator[bytes]:
    """A line that describes the result, then a table."""
    names = [escape_control(name) for name in result.columns]
    lines = draw_table(names, _cells(result), look=look) if names else (_NO_ROWS,)
    yield from join_lines(chain([_title(result, target)], lines))


def write_kv(result: Result, target: Target) -> Iterator[bytes]:
    """A line that describes the result, then each row as key-value lines."""
    names = [escape_control(name) for name in result.columns]
    lines = list_rows(names, _cells(result)) if len(result) else (_NO_ROWS,)
    yield from join_lines(chain([_title(result, target)], lines))


def _title(result: Result, target: Target) -> str:
    place = (
        f"branch {target['branch']}"
        if target["snapshot"] is None
        else f"snapshot {target['snapshot']}"
    )
    return f"{len(result)} {plural(len(result), 'row')} from {place} via {result.query_name}"


def _cells(result: Result) -> list[list[str]]:
    return [[escape_control(text) for text in column] for column in list_cells(result)]


_IN_A_FILE = TableStyle(COLUMN_WIDTH_DEFAULT, is_wrapped=False, terminal_width=None)


def require_writable(path: str, *, chosen: Format | None) -> None:
    """Raise unless rows can be written to a path; called before the query runs."""
    place = parse_target(path)
    if chosen is None:
        find_result_format(place)


def print_result(invocation: Invocation, result: Result, target: Target, *, format: Format) -> None:
    """Print a result in a format, with the table style of the configuration."""
    print_pieces(write_result(result, target, format=format, look=find_look(invocation)))


def find_look(invocation: Invocation) -> TableStyle:
    """The table style for standard output."""
    defaults = invocation.config.defaults
    return TableStyle(
        column_width_max=defaults.column_width_max,
        is_wrapped=defaults.cell_layout is CellLayout.WRAP,
        terminal_width=standard_output(invocation.environment).width,
    )


def write_result(
    result: Result, target: Target, *, format: Format, look: TableStyle
) -> Iterator[bytes]:
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
    """Write a result to a file: in the chosen format, or else as `Result.write` does.

    The file appears whole or not at all.
    """
    place = parse_target(path)
    if chosen is None:
        result.write(place)
        return
    with new_file(place) as hidden, hidden.open("wb") as file:
        for piece in write_result(result, target, format=chosen, look=_IN_A_FILE):
            file.write(piece)
