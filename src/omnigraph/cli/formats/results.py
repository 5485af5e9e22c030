"""The rows of a query in the formats that people and scripts read, as pieces of text.

A long result is written a batch of rows at a time, except as a table, whose columns are as wide as
the widest of their cells. Does not know where the pieces go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson

from omnigraph.cli.display import make_harmless
from omnigraph.cli.formats.kv import list_rows
from omnigraph.cli.formats.table import Look, draw_table
from omnigraph.engine.results import Result
from omnigraph.wire.csv_text import encode_csv, encode_csv_names
from omnigraph.wire.result_pieces import describe_result, encode_in_pieces, list_cells
from omnigraph.wire.row_text import encode_lines, encode_objects
from omnigraph.wire.shapes import Target

_NO_ROWS = "(no rows)"
_LINES_AT_A_TIME = 1_024

# What stands around rows that are written with the indentation of a whole answer.
_ROWS_OPENED = b'{\n  "rows": ['
_ROWS_CLOSED = b"\n  ]\n}"


def write_json(result: Result, target: Target) -> Iterator[bytes]:
    """The answer as the server gives it, indented."""
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
    """A line that describes the answer, then one a row."""
    described = {"kind": "metadata", **describe_result(result, target)}
    yield orjson.dumps(described) + b"\n"
    yield from encode_in_pieces(result, encode_lines)


def write_csv(result: Result) -> Iterator[bytes]:
    """A line of the names of columns, then one a row."""
    yield encode_csv_names(result.columns)
    yield from encode_in_pieces(result, encode_csv)


def write_table(result: Result, target: Target, *, look: Look) -> Iterator[bytes]:
    """A table below a line that says what it is of."""
    names = [make_harmless(name) for name in result.columns]
    lines = draw_table(names, _cells(result), look=look) if names else (_NO_ROWS,)
    yield from _join([_title(result, target)])
    yield from _join(lines)


def write_kv(result: Result, target: Target) -> Iterator[bytes]:
    """Rows one below the other, below a line that says what they are of."""
    names = [make_harmless(name) for name in result.columns]
    lines = list_rows(names, _cells(result)) if len(result) else (_NO_ROWS,)
    yield from _join([_title(result, target)])
    yield from _join(lines)


def _title(result: Result, target: Target) -> str:
    place = (
        f"branch {target['branch']}"
        if target["snapshot"] is None
        else f"snapshot {target['snapshot']}"
    )
    return f"{len(result)} rows from {place} via {result.query_name}"


def _cells(result: Result) -> list[list[str]]:
    return [[make_harmless(text) for text in column] for column in list_cells(result)]


def _join(lines: Iterable[str]) -> Iterator[bytes]:
    held: list[str] = []
    for line in lines:
        held.append(line)
        if len(held) >= _LINES_AT_A_TIME:
            yield "\n".join([*held, ""]).encode()
            held = []
    if held:
        yield "\n".join([*held, ""]).encode()
