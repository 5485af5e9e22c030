"""Loads by a server: sent and waited for, or, with somebody who watches, as a job that is asked
how far it is.

Both have a key, so that a load whose answer or job got lost is asked for again and done once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.client.exchanges import NDJSON, Request, Safety
from omnigraph.client.limits import POLL_S, POLL_S_MAX
from omnigraph.client.routes import Arguments, Routes, Terms
from omnigraph.client.sending import Lines, encode_given
from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.loads import OnError, Progress, parse_call
from omnigraph.engine.results import LoadResult
from omnigraph.model.errors import (
    GraphError,
    InvalidValueError,
    NotFoundError,
    UnavailableError,
)
from omnigraph.model.source import Source
from omnigraph.wire.problems import Asked, rebuild_error
from omnigraph.wire.readings import load_of, number_of, text_or_none

_PENDING = frozenset({"waiting", "running"})
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemoteLoad:
    """A load that is to be sent."""

    lines: Lines = field(repr=False)
    arguments: Arguments
    terms: Terms


@dataclass(frozen=True, slots=True)
class Wanted:
    """How rows are to be loaded, as the caller said it."""

    mode: str
    branch: str
    base: str | None
    engine: str
    on_error: str
    quarantine: str | os.PathLike[str] | None


def load(
    given: object,
    wanted: Wanted,
    *,
    routes: Routes,
    terms: Terms,
    find_schema: Callable[[], str],
    progress: Progress | None,
) -> LoadResult:
    """Send what a load was given, and tell what became of it."""
    call = parse_call(
        mode=wanted.mode,
        branch=wanted.branch,
        base=wanted.base,
        actor=None,
        progress=progress,
        spark=None,
        on_error=wanted.on_error,
        quarantine=wanted.quarantine,
    )
    if call.on_error is not OnError.RAISE:
        raise InvalidValueError(
            subject="on_error",
            expected="raise",
            value=call.on_error.value,
            problem="rows are set aside where the graph is stored: open it by its uri there",
        )
    if wanted.engine not in ("auto", "inline", "spark"):
        raise InvalidValueError(
            subject="engine",
            expected="auto, inline or spark",
            value=wanted.engine,
            problem=f"{wanted.engine!r} is none of auto, inline and spark",
        )
    lines = encode_given(
        given, find_catalog=lambda: compile_schema(Source("<schema>", find_schema()))
    )
    arguments: Arguments = {
        "branch": call.target,
        "from": call.base,
        "mode": call.mode.value,
        "engine": None if wanted.engine == "auto" else wanted.engine,
        "name": lines.name or None,
    }
    sent = RemoteLoad(lines, arguments, terms)
    return load_now(sent, routes) if progress is None else load_watched(sent, routes, progress)


def load_now(load: RemoteLoad, routes: Routes) -> LoadResult:
    """Load and wait for the answer."""
    return routes.ask(_request(load, routes), load_of)


def load_watched(load: RemoteLoad, routes: Routes, progress: Progress) -> LoadResult:
    """Load as a job, and report how far it is; what `progress` raises stops it."""
    watched = replace(load, arguments={**load.arguments, "async": "true"})
    started = routes.ask(_request(watched, routes), _job_of)
    try:
        job = _watch(started, routes, progress)
    except NotFoundError:
        # The server was started anew and knows no jobs, but it knows the key.
        return load_now(load, routes)
    if job.result is not None:
        return job.result
    if job.error is not None:
        raise job.error
    raise UnavailableError(action="finish the load", reason="it was cancelled; nothing was written")


def _request(load: RemoteLoad, routes: Routes) -> Request:
    return routes.request(
        "POST",
        ("load",),
        "load",
        safety=Safety.KEYED,
        arguments=load.arguments,
        body=load.lines.content,
        headers={"Content-Type": NDJSON},
        terms=load.terms,
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """How far a load is, or what became of it."""

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
    return rebuild_error(body, status=status, asked=Asked(text=None, is_write=True))


def _watch(job: _Job, routes: Routes, progress: Progress) -> _Job:
    """The job once it has ended."""
    wait_s, reported = POLL_S, None
    try:
        while True:
            now = (job.stage, job.done, job.total)
            if job.stage is not None and now != reported:
                progress(job.stage, job.done, job.total)
                reported = now
            if not job.is_pending:
                return job
            routes.asking.patience.sleep(wait_s)
            wait_s = min(wait_s * 1.5, POLL_S_MAX)
            job = routes.get("ask how far the load is", "jobs", job.id, make=_job_of)
    finally:
        if job.is_pending:
            _stop(job.id, routes)


def _stop(job_id: str, routes: Routes) -> None:
    """Tell a job to stop that nobody watches any more."""
    try:
        routes.delete("stop the load", "jobs", job_id)
    except GraphError as error:
        # Whatever ended the watching is worth more to the caller than this.
        _LOG.warning("a load may go on that nobody watches: %s", error)
