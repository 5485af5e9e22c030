"""Results as Arrow streams, the format that other programs read without parsing.

A stream has the columns of `Result.to_arrow`. Knows no HTTP beyond the name of the format.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.wire.limits import ARROW_PIECE_ROWS

ARROW = b"application/vnd.apache.arrow.stream"

# What a reader takes for the end: a message that goes on, of no length.
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def accepts_arrow(accept: str | None) -> bool:
    """Whether a client asks for Arrow by name; anything else gets JSON."""
    if accept is None:
        return False
    offered = (each.partition(";")[0].strip().lower() for each in accept.split(","))
    return ARROW.decode() in offered


def encode_batches(rows: pa.Table) -> Iterator[bytes]:
    """A table as the messages of a stream, a batch at a time."""
    for message in _write_messages(rows):
        yield message.to_pybytes()
    yield _END


def encode_table(rows: pa.Table) -> bytes:
    """The same as one piece."""
    # Arrow's buffers are joined as they are, which saves a copy of every column.
    return b"".join([*_write_messages(rows), _END])


def _write_messages(rows: pa.Table) -> Iterator[pa.Buffer]:
    yield rows.schema.serialize()
    for batch in rows.to_batches(max_chunksize=ARROW_PIECE_ROWS):
        yield batch.serialize()
