"""Results as answers: what is said of one, and its rows, whole or a batch of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import orjson
import pyarrow as pa

from omnigraph.engine.results import Result
from omnigraph.wire.limits import JSON_PIECE_ROWS, PLAIN_ROWS_MAX
from omnigraph.wire.row_text import encode_objects, write_texts
from omnigraph.wire.shapes import Target


def describe_result(result: Result, target: Target) -> dict[str, object]:
    """What an answer says of a result before its rows."""
    columns = {"columns": result.columns} if result.columns else {}
    return {
        "query_name": result.query_name,
        "target": target,
        "row_count": len(result),
        **columns,
        "commit_id": result.commit_id,
    }


def encode_result(result: Result, target: Target) -> bytes:
    """A result of few rows, whole."""
    fields = describe_result(result, target)
    if len(result) <= PLAIN_ROWS_MAX:
        return orjson.dumps({**fields, "rows": result.rows})
    return b"".join(encode_pieces(result, target))


def encode_pieces(result: Result, target: Target) -> Iterator[bytes]:
    """The same in pieces, for results of any length."""
    yield orjson.dumps(describe_result(result, target))[:-1] + b',"rows":['
    between = b""
    for objects in encode_in_pieces(result, encode_objects):
        yield between + objects
        between = b","
    yield b"]}"


def encode_in_pieces(result: Result, encode: Callable[[pa.Table], bytes]) -> Iterator[bytes]:
    """What `encode` makes of each batch of rows; nothing if there are none."""
    rows = result.to_arrow()
    for start in range(0, rows.num_rows, JSON_PIECE_ROWS):
        yield encode(rows.slice(start, JSON_PIECE_ROWS))


def list_cells(result: Result) -> list[list[str]]:
    """Each column as texts that people read."""
    return [column.to_pylist() for column in write_texts(result.to_arrow())]
