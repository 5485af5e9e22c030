"""The routes that look one thing up: a node or an edge, or a blob of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.engine.graph import Graph
from omnigraph.engine.results import Blob
from omnigraph.model.policy import Action
from omnigraph.server.answers import Answer, Stream, answer_json, encode_headers
from omnigraph.server.calls import Call
from omnigraph.server.limits import BLOB_PIECE_BYTES
from omnigraph.server.problems import HttpError, bad_request, conflict
from omnigraph.server.routes.terms import Place, parse_place
from omnigraph.server.routing import GRAPH, Body, Route
from omnigraph.wire.shapes import EntityOutput

SIZE_HEADER = "Omnigraph-Blob-Size"
_BYTES = b"application/octet-stream"
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BlobCall:
    """A blob that was asked for, or a part of it."""

    type: str
    id: str
    property: str
    place: Place

    def read(self, graph: Graph, *, start: int, length: int) -> Blob:
        """Some of its bytes."""
        return graph.read_blob(
            self.type,
            self.id,
            self.property,
            branch=self.place.branch,
            commit=self.place.commit,
            start=start,
            length=length,
        )


async def entity(call: Call) -> Answer:
    """GET /graphs/{graph_id}/entity"""
    type, id = _require(call, "type"), _require(call, "id")
    place = _find_place(call)
    found = await call.read(
        lambda graph: graph.entity(type, id, branch=place.branch, commit=place.commit)
    )
    output: EntityOutput = {"type": type, "id": id, "entity": found}
    return answer_json(output)


async def blob(call: Call) -> Answer | Stream:
    """GET /graphs/{graph_id}/blob"""
    type, id, property = (_require(call, name) for name in ("type", "id", "property"))
    asked = BlobCall(type, id, property, _find_place(call))
    start, end = _parse_range(call.header("range"))
    first_length = BLOB_PIECE_BYTES if end is None else min(end - start, BLOB_PIECE_BYTES)
    first = await call.read(lambda graph: asked.read(graph, start=start, length=first_length))
    if start and start >= first.size:
        raise HttpError(
            status=416,
            code="bad_request",
            message=f"the blob has {first.size:,} bytes",
            headers={"Content-Range": f"bytes */{first.size}", **_tell(first)},
        )
    stop = first.size if end is None else min(end, first.size)
    is_part = call.header("range") is not None
    headers = {**_tell(first), "Accept-Ranges": "bytes"}
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{first.size}"
    status = 206 if is_part else 200
    if start + len(first.content) >= stop:
        return Answer(status, _BYTES, first.content, encode_headers(headers))
    stream = await call.stream(
        lambda graph: _follow(asked, first, graph, start=start, stop=stop), content_type=_BYTES
    )
    headers["Content-Length"] = str(stop - start)
    return Stream(status, _BYTES, stream.pieces, encode_headers(headers))


def _tell(found: Blob) -> dict[str, str]:
    return {"ETag": f'"{found.etag}"', SIZE_HEADER: str(found.size)}


def _follow(
    asked: BlobCall, first: Blob, graph: Graph, *, start: int, stop: int
) -> Iterator[bytes]:
    yield first.content
    position = start + len(first.content)
    while position < stop:
        piece = asked.read(graph, start=position, length=min(BLOB_PIECE_BYTES, stop - position))
        if piece.etag != first.etag or not piece.content:
            raise conflict("the blob was written anew while it was read; read it again")
        yield piece.content
        position += len(piece.content)


def _find_place(call: Call) -> Place:
    place = parse_place(call.argument("branch"), call.argument("snapshot"))
    if place.branch is not None:
        call.require(Action.READ, branch=place.branch, target=None)
    return place


def _require(call: Call, name: str) -> str:
    given = call.argument(name)
    if given is None:
        raise bad_request(f"say which {name}: ?{name}=…")
    return given


def _parse_range(header: str | None) -> tuple[int, int | None]:
    """The first byte and the one behind the last; None if that is the end of the blob."""
    if header is None:
        return 0, None
    found = _RANGE.fullmatch(header.strip())
    if found is None:
        raise bad_request("one range of bytes is read at a time: Range: bytes=<first>-[<last>]")
    start, last = int(found[1]), found[2]
    if last is not None and int(last) < start:
        raise bad_request("the range ends before it starts")
    return start, None if last is None else int(last) + 1


ROUTES = (
    Route("GET", f"{GRAPH}/entity", Body.NONE, 0, entity),
    Route("GET", f"{GRAPH}/blob", Body.NONE, 0, blob),
)
