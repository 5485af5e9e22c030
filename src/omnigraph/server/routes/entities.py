"""The routes that read one node, edge or blob, and the export of a branch.

A blob response carries an ETag and supports byte ranges. Exports and long blobs are streamed in
pieces, so memory does not grow with their size.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterator

from omnigraph.engine.graph import Graph
from omnigraph.engine.results import Blob
from omnigraph.http.encode import LineSelection, join_lines, select_lines
from omnigraph.http.responses import EntityOutput
from omnigraph.model.errors import ForbiddenError, plural
from omnigraph.model.limits import BLOB_PIECE_BYTES
from omnigraph.model.names import BranchName
from omnigraph.model.ports import Action
from omnigraph.server.context import (
    GRAPH,
    READ_STATUSES,
    Operation,
    RequestContext,
    Route,
    Tag,
    read_scope,
    route,
    route_with_body,
)
from omnigraph.server.requests import (
    BRANCH,
    SNAPSHOT,
    ExportRequest,
    ReadTarget,
    header,
    optional_json_body,
    parse_target,
    required_text,
)
from omnigraph.server.responses import (
    NDJSON,
    AnyResponse,
    HttpError,
    Response,
    StreamingResponse,
    bad_request,
    conflict,
    encode_headers,
    json_response,
    translate_compile_errors,
    unprocessable,
)

SIZE_HEADER = "Omnigraph-Blob-Size"
_BYTES = b"application/octet-stream"
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})?", re.ASCII)


_TYPE = required_text("type", "The name of a node type or an edge type.")
_ID = required_text("id", "The id of the node or edge.")
_PROPERTY = required_text("property", "The property that holds the blob.")
_RANGE_HEADER = header("Range", "`bytes=<first>-[<last>]`")


def _target(call: RequestContext) -> ReadTarget:
    return parse_target(call.arguments.get(BRANCH.name), call.get(SNAPSHOT))


@route(
    f"GET {GRAPH}/entity",
    Operation("getEntity", Tag.QUERIES, (EntityOutput,)),
    action=Action.READ,
    scope=lambda call: read_scope(_target(call)),
    parameters=(_TYPE, _ID, BRANCH, SNAPSHOT),
)
async def entity(call: RequestContext) -> Response:
    """Get a node or an edge; null if it does not exist."""
    type, id, target = call.get(_TYPE), call.get(_ID), _target(call)
    found = await call.run(
        lambda graph: graph.entity(type, id, branch=target.branch, commit=target.commit)
    )
    return json_response(EntityOutput(type=type, id=id, entity=found))


@route(
    f"GET {GRAPH}/blob",
    Operation(
        "getBlob",
        Tag.QUERIES,
        (),
        media=(_BYTES.decode(),),
        also=((206, ()),),
        statuses=(*READ_STATUSES, 416),
    ),
    action=Action.READ,
    scope=lambda call: read_scope(_target(call)),
    parameters=(_TYPE, _ID, _PROPERTY, BRANCH, SNAPSHOT, _RANGE_HEADER),
)
async def blob(call: RequestContext) -> AnyResponse:
    """Get the bytes of a blob, or a range of them."""
    type, id, property = call.get(_TYPE), call.get(_ID), call.get(_PROPERTY)
    target, given_range = _target(call), call.get(_RANGE_HEADER)
    start, end = _parse_range(given_range)

    def read(graph: Graph, start: int, stop: int) -> Blob:
        return graph.read_blob(
            type,
            id,
            property,
            branch=target.branch,
            commit=target.commit,
            start=start,
            length=min(stop - start, BLOB_PIECE_BYTES),
        )

    first = await call.run(
        lambda graph: read(graph, start, start + BLOB_PIECE_BYTES if end is None else end)
    )
    headers = {"ETag": f'"{first.etag}"', SIZE_HEADER: str(first.size)}
    if start and start >= first.size:
        message = f"the blob has {first.size:,} {plural(first.size, 'byte')}"
        headers |= {"Content-Range": f"bytes */{first.size}"}
        raise HttpError(416, "bad_request", message, headers=headers)
    stop = first.size if end is None else min(end, first.size)
    headers["Accept-Ranges"] = "bytes"
    if given_range is not None:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{first.size}"
    status = 200 if given_range is None else 206
    if start + len(first.content) >= stop:
        return Response(status, _BYTES, first.content, encode_headers(headers))

    def pieces(graph: Graph) -> Iterator[bytes]:
        yield first.content
        position = start + len(first.content)
        while position < stop:
            piece = read(graph, position, stop)
            if piece.etag != first.etag or not piece.content:
                raise conflict("the blob was replaced while it was read; read it again")
            yield piece.content
            position += len(piece.content)

    stream = await call.stream(pieces, content_type=_BYTES)
    headers["Content-Length"] = str(stop - start)
    return StreamingResponse(status, _BYTES, stream.pieces, encode_headers(headers))


def _parse_range(header: str | None) -> tuple[int, int | None]:
    """The first byte and the byte after the last; None for the latter means the end of the blob."""
    if header is None:
        return 0, None
    found = _RANGE.fullmatch(header.strip())
    if found is None:
        raise bad_request("expected one range of bytes: Range: bytes=<first>-[<last>]")
    start, last = int(found[1]), found[2]
    if last is not None and int(last) < start:
        raise bad_request("the range ends before it starts")
    return start, None if last is None else int(last) + 1


@route_with_body(
    f"POST {GRAPH}/export",
    Operation("export", Tag.SNAPSHOTS, (), media=("application/x-ndjson",)),
    optional_json_body(ExportRequest, reject=unprocessable),
    action=Action.EXPORT,
    scope=lambda _, body: read_scope(parse_target(body.branch, body.snapshot)),
)
async def export(call: RequestContext, body: ExportRequest) -> AnyResponse:
    """Export the rows of a branch or commit as lines of JSON that a load accepts."""
    target, keys = parse_target(body.branch, body.snapshot), body.table_keys or []
    selection = select_lines(body.type_names or [], keys)

    def work(graph: Graph) -> Iterator[bytes]:
        if target.branch is not None:
            _require_known(keys, graph, branch=target.branch)
        with translate_compile_errors(advice=""):
            lines = graph.export(branch=target.branch, commit=target.commit, types=selection.types)
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
            raise bad_request(f"table_keys: '{key}' does not exist")


def _join(lines: Iterator[str], selection: LineSelection) -> Generator[bytes]:
    """The lines in pieces; closing the iterator early releases the rows."""
    try:
        yield from join_lines(selection.keep(lines))
    finally:
        if isinstance(lines, Generator):
            lines.close()


ROUTES: tuple[Route, ...] = (entity, blob, export)
