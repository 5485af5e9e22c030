"""Blobs of a served graph, whole or in part, by ranges of HTTP."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.client.exchanges import ForeignAnswerError, Reply
from omnigraph.client.routes import Arguments, Routes
from omnigraph.engine.ops.blobs import parse_range
from omnigraph.engine.results import Blob

_AT_ITS_END = 416
"""What HTTP answers to a range that holds no byte, which for us is an empty one."""


def read_blob(routes: Routes, arguments: Arguments, *, start: int, length: int | None) -> Blob:
    """The bytes that are asked for, the size of the whole and its tag."""
    asked = parse_range(start, length)
    headers = {}
    if asked.start or asked.length is not None:
        # A range of HTTP holds at least a byte; what is too much is left out again.
        last = "" if asked.length is None else str(asked.start + max(asked.length, 1) - 1)
        headers["Range"] = f"bytes={asked.start}-{last}"
    request = replace(
        routes.request("GET", ("blob",), "read a blob", arguments=arguments, headers=headers),
        accepted=_AT_ITS_END,
    )

    def read(reply: Reply) -> Blob:
        content, etag = reply.read(), reply.header("ETag")
        whole = reply.number("Omnigraph-Blob-Size")
        if etag is None or whole is None:
            raise ForeignAnswerError("it does not say which blob this is")
        if reply.status == _AT_ITS_END:
            content = b""
        elif asked.length is not None:
            content = content[: asked.length]
        return Blob(content, whole, etag.strip('"'))

    return routes.asking.ask(request, read)
