"""The routes that read one node, edge or blob, and the export of a branch.

A blob response carries an ETag and supports byte ranges. Exports and long blobs are streamed in
pieces, so memory does not grow with their size.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass

from omnigraph.engine.graph import Graph
from omnigraph.engine.results import Blob
from omnigraph.http.encode import LineSelection, select_lines
from omnigraph.http.responses import EntityOutput
from omnigraph.model.errors import ForbiddenError, plural
from omnigraph.model.limits import BLOB_PIECE_BYTES, BODY_BYTES_MAX, EXPORT_PIECE_CHARACTERS
from omnigraph.model.names import BranchName
from omnigraph.model.ports import Action
from omnigraph.server.context import GRAPH, Body, RequestContext, Route
from omnigraph.server.requests import EXPORT
from omnigraph.server.responses import (
    NDJSON,
    HttpError,
    Response,
    StreamingResponse,
    answer_json,
    bad_request,
    conflict,
    encode_headers,
)
from omnigraph.server.routes.parameters import ReadTarget, parse_place, translate_compile_errors

SIZE_HEADER = "Omnigraph-Blob-Size"
_BYTES = b"application/octet-stream"
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BlobCall:
    """A requested blob, or a range of it."""

    type: str
    id: str
    property: str
    place: ReadTarget

    def read(self, graph: Graph, *, start: int, length: int) -> Blob:
        """A range of its bytes."""
        return graph.read_blob(
            self.type,
            self.id,
            self.property,
            branch=self.place.branch,
            commit=self.place.commit,
            start=start,
            length=length,
        )


async def entity(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/entity"""
    type, id = _require(call, "type"), _require(call, "id")
    place = _find_place(call)
    found = await call.read(
        lambda graph: graph.entity(type, id, branch=place.branch, commit=place.commit)
    )
    output: EntityOutput = {"type": type, "id": id, "entity": found}
    return answer_json(output)


async def blob(call: RequestContext) -> Response | StreamingResponse:
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
            message=f"the blob has {first.size:,} {plural(first.size, 'byte')}",
            headers={"Content-Range": f"bytes */{first.size}", **_tell(first)},
        )
    stop = first.size if end is None else min(end, first.size)
    is_part = call.header("range") is not None
    headers = {**_tell(first), "Accept-Ranges": "bytes"}
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{first.size}"
    status = 206 if is_part else 200
    if start + len(first.content) >= stop:
        return Response(status, _BYTES, first.content, encode_headers(headers))
    stream = await call.stream(
        lambda graph: _follow(asked, first, graph, start=start, stop=stop), content_type=_BYTES
    )
    headers["Content-Length"] = str(stop - start)
    return StreamingResponse(status, _BYTES, stream.pieces, encode_headers(headers))


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


def _find_place(call: RequestContext) -> ReadTarget:
    place = parse_place(call.argument("branch"), call.argument("snapshot"))
    if place.branch is not None:
        call.require(Action.READ, branch=place.branch, target=None)
    return place


def _require(call: RequestContext, name: str) -> str:
    given = call.argument(name)
    if given is None:
        raise bad_request(f"say which {name}: ?{name}=…")
    return given


def _parse_range(header: str | None) -> tuple[int, int | None]:
    """The first byte and the byte after the last; None for the latter means the end of the blob."""
    if header is None:
        return 0, None
    found = _RANGE.fullmatch(header.strip())
    if found is None:
        raise bad_request("one range of bytes is read at a time: Range: bytes=<first>-[<last>]")
    start, last = int(found[1]), found[2]
    if last is not None and int(last) < start:
        raise bad_request("the range ends before it starts")
    return start, None if last is None else int(last) + 1


ENTITY_ROUTES = (
    Route("GET", f"{GRAPH}/entity", Body.NONE, 0, entity),
    Route("GET", f"{GRAPH}/blob", Body.NONE, 0, blob),
)


async def export(call: RequestContext) -> Response | StreamingResponse:
    """POST /graphs/{graph_id}/export"""
    asked = EXPORT.read(call.body or b"{}")
    place = parse_place(asked.branch, asked.snapshot)
    selection = select_lines(asked.type_names or [], asked.table_keys or [])
    if place.branch is not None:
        call.require(Action.EXPORT, branch=place.branch, target=None)

    def work(graph: Graph) -> Iterator[bytes]:
        if place.branch is not None:
            _require_known(asked.table_keys or [], graph, branch=place.branch)
        with translate_compile_errors(advice=""):
            lines = graph.export(branch=place.branch, commit=place.commit, types=selection.types)
        return _join(lines, selection)

    return await call.stream(work, content_type=NDJSON)


def _require_known(keys: Collection[str], graph: Graph, *, branch: BranchName) -> None:
    """Raise 400 if a key does not name a type of the branch."""
    if not keys:
        return
    try:
        known = graph.tables(branch)
    except ForbiddenError:
        # A caller that may export but not read gets the lines that exist.
        return
    for key in keys:
        if key not in known:
            raise bad_request(f"table_keys: there is no '{key}'")


def _join(lines: Iterator[str], selection: LineSelection) -> Generator[bytes]:
    """The lines in pieces; closing the iterator early releases the rows."""
    held: list[str] = []
    size = 0
    try:
        for line in selection.keep(lines):
            held.append(line)
            size += len(line)
            if size >= EXPORT_PIECE_CHARACTERS:
                yield "\n".join([*held, ""]).encode()
                held, size = [], 0
        if held:
            yield "\n".join([*held, ""]).encode()
    finally:
        if isinstance(lines, Generator):
            lines.close()


EXPORT_ROUTES = (Route("POST", f"{GRAPH}/export", Body.OPTIONAL_JSON, BODY_BYTES_MAX, export),)
