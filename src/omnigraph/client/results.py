"""Answers that hold rows: Arrow streams as results, and bytes of blobs.

A long answer goes from the connection straight into columns; its bytes are never held beside them.
"""

from __future__ import annotations

import pyarrow as pa
from urllib3.response import BaseHTTPResponse

from omnigraph.client.exchanges import ForeignAnswerError, LostError, Reply
from omnigraph.engine.results import Result
from omnigraph.wire.columns import read_note


def read_result(reply: Reply) -> Result:
    """The result that an Arrow stream holds."""
    with open_streams(reply) as file:
        try:
            reader = pa.ipc.open_stream(file)
            note = read_note(reader.schema)
            table = reader.read_all()
        except pa.ArrowInvalid as error:
            raise LostError(f"the rows end in the middle: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise ForeignAnswerError(f"its rows say of themselves {error}") from error
    if note is None:
        raise ForeignAnswerError(
            "its rows do not say what they are; the server may be of another version"
        )
    return Result(
        table,
        columns=note.columns,
        query_name=note.query_name,
        branch=note.branch,
        commit_id=note.commit_id,
    )


def open_streams(reply: Reply) -> pa.NativeFile:
    """The body of an answer as a file of Arrow streams."""
    if reply.is_short:
        return pa.BufferReader(reply.read())
    return pa.PythonFile(_LeftOpen(reply.stream), mode="r")


class _LeftOpen:
    """A body that whoever reads it does not close: what follows the last row is still to be seen,
    and the connection to be kept."""

    def __init__(self, body: BaseHTTPResponse) -> None:
        self._body = body
        self.closed = False

    def read(self, size: int) -> bytes:
        return self._body.read(size, decode_content=False)

    def close(self) -> None:
        self.closed = True
