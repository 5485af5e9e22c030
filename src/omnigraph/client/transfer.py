"""Loads, blob reads and transactions of a remote graph.

A load carries an idempotency key, so a load whose response is lost is retried and applied once. A
transaction is a branch that is merged as one commit at the end of the block and then deleted; after
a crash of the client the branch remains, and the target branch is unchanged. Input files are parsed
by the engine's own readers, so this module needs storage code and is imported on first use.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from omnigraph.client.requests import Arguments, GraphEndpoint, RequestOptions
from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.graph_load import LoadCall, OnError
from omnigraph.engine.input.batches import ReadContext
from omnigraph.engine.input.files import (
    find_files,
    is_stream,
    open_unpacked,
    parse_path,
    read_blocks,
    split_suffix,
)
from omnigraph.engine.input.sources import is_spark_frame, read_given
from omnigraph.engine.input.splits import is_named, refuse_given
from omnigraph.engine.ops.load import Progress
from omnigraph.engine.ops.query import parse_range
from omnigraph.engine.ops.transaction import Transaction
from omnigraph.engine.results import Blob, LoadResult
from omnigraph.engine.rows.json_rows import encode_block
from omnigraph.http.decode import load_of, number_of, text_or_none
from omnigraph.http.problems import RefusedRequest, rebuild_error
from omnigraph.http.transport import NDJSON, InvalidResponseError, Request, Response
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import (
    GraphError,
    InvalidValueError,
    LimitExceededError,
    NotFoundError,
    UnavailableError,
)
from omnigraph.model.limits import LOAD_BODY_BYTES_MAX, POLL_S, POLL_S_MAX
from omnigraph.model.names import BranchName, PrivateBranchName
from omnigraph.model.source import Source
from omnigraph.storage.external_files import NO_EXTERNAL_BLOBS, ExternalFiles

if TYPE_CHECKING:
    from omnigraph.client.remote import RemoteGraph

_TYPED_SUFFIXES = frozenset({".parquet", ".arrow", ".csv", ".lance"})
_MARK = b"\xef\xbb\xbf"


def encode_input(given: object, *, find_catalog: Callable[[], Catalog]) -> tuple[bytes, str]:
    """Encode the input of a load as lines of JSON, and name its file; empty if there is none.

    The catalog is fetched only if it is needed.
    """
    files = ExternalFiles({}, folder="")
    if is_stream(given):
        called = getattr(given, "name", None)
        name = called if isinstance(called, str) else ""
        return _gather(read_blocks(given, name=name or "the input file")), name
    _require_no_frame(given)
    if is_named(given):
        paths = _find_lines(given, files)
        if paths is not None:
            content = _gather(block for path in paths for block in _read_lines(path, files))
            return content, paths[0] if len(paths) == 1 else ""
    context = ReadContext(find_catalog(), NO_EXTERNAL_BLOBS, files)
    return _gather(_write_lines(given, context)), ""


def _gather(blocks: Iterable[bytes]) -> bytes:
    blocks_read: list[bytes] = []
    size = 0
    for block in blocks:
        blocks_read.append(block)
        size += len(block)
        if size > LOAD_BODY_BYTES_MAX:
            raise LimitExceededError(
                resource="the size of a load on a server, in bytes,",
                limit=LOAD_BODY_BYTES_MAX,
                found=size,
                advice="nothing was sent; split the load, or open the graph by its uri",
            )
    return b"".join(blocks_read)


def _find_lines(given: object, files: ExternalFiles) -> list[str] | None:
    """The paths of the input files if all of them hold lines of JSON, else None."""
    if isinstance(given, list | tuple):
        found: list[str] = []
        for each in given:
            paths = _find_lines(each, files)
            if paths is None:
                return None
            found += paths
        return found
    if not isinstance(given, str | os.PathLike):
        return None
    entries = list(find_files(parse_path(given), files))
    if any(entry.is_folder or _is_typed(entry.path) for entry in entries):
        return None
    return [entry.path for entry in entries]


def _is_typed(path: str) -> bool:
    return PurePath(split_suffix(path)[0]).suffix.lower() in _TYPED_SUFFIXES


def _read_lines(path: str, files: ExternalFiles) -> Iterator[bytes]:
    with open_unpacked(path, files) as file:
        is_start = True
        for block in read_blocks(file, name=path):
            part = block.removeprefix(_MARK) if is_start else block
            is_start = False
            # The lines of another file may follow.
            yield part if part.endswith(b"\n") or not part else part + b"\n"


def _write_lines(given: object, context: ReadContext) -> Iterator[bytes]:
    for piece in read_given(given, context=context, report=None):
        for batch in piece.rows.to_batches():
            block = bytes(encode_block(piece.declared, batch))
            # A null id requests a generated one and is not sent. JSON text escapes these quotes, so
            # the pattern never matches inside a value.
            yield block.replace(b'"data":{"id":null,', b'"data":{').replace(
                b'"data":{"id":null}', b'"data":{}'
            )


def _require_no_frame(given: object) -> None:
    sources = given.values() if isinstance(given, Mapping) else [given]
    for source in sources:
        parts = source if isinstance(source, list | tuple) else [source]
        if any(map(is_spark_frame, parts)):
            raise refuse_given(
                source, "open the graph by its uri to load a Spark DataFrame, or pass Arrow rows"
            )


_PENDING = frozenset({"waiting", "running"})
_LOG = logging.getLogger(__name__)


def load(
    given: object,
    call: LoadCall,
    *,
    engine: str,
    routes: GraphEndpoint,
    options: RequestOptions,
    find_schema: Callable[[], str],
    progress: Progress | None,
) -> LoadResult:
    """Encode the input of a load, send it and return the result."""
    if call.on_error is not OnError.RAISE:
        raise InvalidValueError(
            subject="on_error",
            expected="raise",
            value=call.on_error.value,
            problem="quarantine files are written next to the graph; open it by its uri",
        )
    if engine not in ("auto", "inline", "spark"):
        raise InvalidValueError(
            subject="engine",
            expected="auto, inline or spark",
            value=engine,
            problem=f"{engine!r} is none of auto, inline and spark",
        )
    lines, name = encode_input(
        given, find_catalog=lambda: compile_schema(Source("<schema>", find_schema()))
    )
    arguments = {
        "branch": call.target,
        "from": call.base,
        "mode": call.mode.value,
        "engine": None if engine == "auto" else engine,
        "embed": None if call.embed is None else call.embed.value,
        "name": name or None,
    }
    request = routes.request(
        "POST",
        ("load",),
        "load",
        arguments=arguments,
        body=lines,
        headers={"Content-Type": NDJSON},
        options=options,
    )
    if progress is None:
        return routes.send(request, load_of)
    return load_as_job(request, routes, progress)


def load_as_job(request: Request, routes: GraphEndpoint, progress: Progress) -> LoadResult:
    """Run a load as a job and report its progress; an exception of `progress` stops the job."""
    job_request = replace(request, arguments=(*request.arguments, ("async", "true")))
    started = routes.send(job_request, _job_of)
    try:
        job = _watch(started, routes, progress)
    except NotFoundError:
        # The server was restarted and lost its jobs, but it still recognises the idempotency key.
        return routes.send(request, load_of)
    if job.result is not None:
        return job.result
    if job.error is not None:
        raise job.error
    raise UnavailableError(action="finish the load", reason="it was cancelled; nothing was written")


@dataclass(frozen=True, slots=True)
class _Job:
    """The progress of a load, or its result or error."""

    id: str
    is_pending: bool
    stage: str | None
    done: int
    total: int | None
    result: LoadResult | None
    error: GraphError | None


def _job_of(body: Mapping[str, object]) -> _Job:
    total, result, error = body["total"], body.get("result"), body.get("error")
    return _Job(
        id=str(body["job_id"]),
        is_pending=body["status"] in _PENDING,
        stage=text_or_none(body["stage"]),
        done=number_of(body["done"]),
        total=None if total is None else number_of(total),
        result=load_of(result) if isinstance(result, dict) else None,
        error=_error_of(error) if isinstance(error, dict) else None,
    )


def _error_of(body: Mapping[str, object]) -> GraphError:
    status = number_of(body["status"])
    return rebuild_error(body, status=status, request=RefusedRequest(text=None, is_write=True))


def _watch(job: _Job, routes: GraphEndpoint, progress: Progress) -> _Job:
    wait_s, reported = POLL_S, None
    try:
        while True:
            now = (job.stage, job.done, job.total)
            if job.stage is not None and now != reported:
                progress(job.stage, job.done, job.total)
                reported = now
            if not job.is_pending:
                return job
            routes.sender.clock.sleep(wait_s)
            wait_s = min(wait_s * 1.5, POLL_S_MAX)
            job = routes.get("get the progress of the load", "jobs", job.id, decode=_job_of)
    finally:
        if job.is_pending:
            _stop(job.id, routes)


def _stop(job_id: str, routes: GraphEndpoint) -> None:
    """Stop a job whose progress is no longer polled."""
    try:
        routes.delete("stop the load", "jobs", job_id)
    except GraphError as error:
        # The error that ended the polling matters more to the caller than this one.
        _LOG.warning("a load could not be stopped and may still be running: %s", error)


_RANGE_NOT_SATISFIABLE = 416
"""The HTTP status for a range without bytes, which is read as an empty range."""


def read_blob(
    routes: GraphEndpoint, arguments: Arguments, *, start: int, length: int | None
) -> Blob:
    """Read a range of a blob, with the size and tag of the whole blob."""
    range = parse_range(start, length)
    headers = {}
    if range.start or range.length is not None:
        # An HTTP range has at least one byte; the excess is cut off again.
        last = "" if range.length is None else str(range.start + max(range.length, 1) - 1)
        headers["Range"] = f"bytes={range.start}-{last}"
    request = replace(
        routes.request("GET", ("blob",), "read a blob", arguments=arguments, headers=headers),
        accepted=_RANGE_NOT_SATISFIABLE,
    )

    def read(response: Response) -> Blob:
        content, etag = response.read(), response.header("ETag")
        whole = response.number("Omnigraph-Blob-Size")
        if etag is None or whole is None:
            raise InvalidResponseError("it does not identify the blob")
        if response.status == _RANGE_NOT_SATISFIABLE:
            content = b""
        elif range.length is not None:
            content = content[: range.length]
        return Blob(content, whole, etag.strip('"'))

    return routes.sender.send(request, read)


TRANSACTION_PREFIX = "transaction/"


@contextmanager
def transact(calls: RemoteGraph, branch: BranchName, *, id: str) -> Iterator[Transaction]:
    """A transaction for the block, merged into the branch if the block ends without an error.

    `MergeConflictError` means that another writer changed the same rows; nothing was changed.
    """
    private = PrivateBranchName(f"{TRANSACTION_PREFIX}{id}")
    private.base = branch
    calls.create_branch(private, base=branch)
    try:
        with Transaction(calls, private, branch=branch, actor=None) as transaction:
            yield transaction
            transaction.commit_id = calls.merge(private, into=branch).commit_id
    finally:
        try:
            calls.delete_branch(private)
        except GraphError as error:
            # The outcome of the transaction is final; a remaining branch is only clutter.
            _LOG.warning(
                "the branch '%s' of a finished transaction was not deleted: %s", private, error
            )
