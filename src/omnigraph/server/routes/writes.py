"""The routes that write rows: `mutate` and `load`, and their deprecated forms."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import BytesIO

from omnigraph.compiler.query.naming import find_only_name
from omnigraph.engine.graph import Graph
from omnigraph.engine.loads import Progress
from omnigraph.engine.results import MutationResult
from omnigraph.model.names import BranchName, parse_branch_name
from omnigraph.model.policy import Action
from omnigraph.server.answers import Answer, Stream, answer_json, with_headers
from omnigraph.server.calls import Call
from omnigraph.server.limits import BODY_BYTES_MAX, LOAD_BODY_BYTES_MAX
from omnigraph.server.problems import unsupported_type
from omnigraph.server.requests import LOAD, MUTATE, is_json, media_type
from omnigraph.server.routes.terms import (
    WriteTerms,
    deprecated,
    find_terms,
    parse_branch,
    parse_flag,
    parse_params,
    refusing,
    with_commit,
)
from omnigraph.server.routing import GRAPH, Body, Route
from omnigraph.wire.bodies import change_output, ingest_output
from omnigraph.wire.shapes import IngestOutput

NDJSON_TYPES = frozenset({"application/x-ndjson", "application/ndjson"})


@dataclass(frozen=True, slots=True)
class MutateCall:
    """A mutation that was asked for; its name is found in the text if nobody said it."""

    source: str
    name: str | None
    params: Mapping[str, object] | None
    branch: BranchName
    terms: WriteTerms


@dataclass(frozen=True, slots=True)
class LoadCall:
    """A load that was asked for."""

    rows: bytes
    branch: BranchName
    base: BranchName | None
    mode: str
    engine: str
    terms: WriteTerms
    name: str
    """What messages call the rows; empty if they have no name."""


async def mutate(call: Call) -> Answer:
    """POST /graphs/{graph_id}/mutate"""
    asked = MUTATE.read(call.body)
    params, branch = parse_params(asked.params), parse_branch(asked.branch)
    return await answer_mutation(
        call, MutateCall(asked.query, asked.name, params, branch, find_terms(call))
    )


async def change(call: Call) -> Answer | Stream:
    """POST /graphs/{graph_id}/change"""
    return deprecated(await mutate(call), successor="mutate")


async def load(call: Call) -> Answer:
    """POST /graphs/{graph_id}/load"""
    is_job = parse_flag(call, "async")
    # A body of megabytes takes a while to parse, in which others would have to wait.
    asked = await call.means.writes.run(partial(_parse_load, call))
    call.require(Action.CHANGE, branch=asked.branch, target=None)
    if is_job:
        return _start_job(call, asked)
    with call.admit(len(call.body)):
        output = await call.write(lambda graph: _load(graph, asked, call, progress=None))
    return with_commit(answer_json(output), output["commit_id"])


async def ingest(call: Call) -> Answer | Stream:
    """POST /graphs/{graph_id}/ingest"""
    return deprecated(await load(call), successor="load")


async def answer_mutation(call: Call, asked: MutateCall) -> Answer:
    """Run a mutation and answer what it touched."""
    call.require(Action.CHANGE, branch=asked.branch, target=None)

    def work(graph: Graph) -> tuple[MutationResult, str]:
        with refusing(advice="a text that only reads belongs to POST /query"):
            done = graph.mutate(
                asked.source,
                asked.params,
                name=asked.name,
                branch=asked.branch,
                if_commit=asked.terms.if_commit,
                idempotency_key=asked.terms.idempotency_key,
            )
        return done, asked.name or find_only_name(asked.source)

    with call.admit(len(call.body)):
        done, name = await call.write(work)
    output = change_output(done, branch=asked.branch, query_name=name, actor=call.actor)
    return with_commit(answer_json(output), done.commit_id)


def _parse_load(call: Call) -> LoadCall:
    content_type = call.header("content-type") or ""
    terms = find_terms(call)
    if is_json(content_type):
        asked = LOAD.read(call.body)
        return LoadCall(
            rows=asked.rows.encode(),
            branch=parse_branch(asked.branch),
            base=None if asked.base is None else parse_branch_name(asked.base),
            mode="merge" if asked.mode is None else asked.mode,
            engine="auto" if asked.engine is None else asked.engine,
            terms=terms,
            name="",
        )
    if media_type(content_type) not in NDJSON_TYPES:
        raise unsupported_type(
            "the body has to be JSON (application/json), or the rows themselves as lines of JSON "
            "(application/x-ndjson)"
        )
    base = call.argument("from")
    return LoadCall(
        rows=call.body,
        branch=parse_branch(call.argument("branch")),
        base=None if base is None else parse_branch_name(base),
        mode=call.argument("mode") or "merge",
        engine=call.argument("engine") or "auto",
        terms=terms,
        name=call.argument("name") or "",
    )


class _NamedRows(BytesIO):
    """Rows in memory that are called by a name."""

    def __init__(self, rows: bytes, name: str) -> None:
        super().__init__(rows)
        self.name = name


def _load(graph: Graph, asked: LoadCall, call: Call, *, progress: Progress | None) -> IngestOutput:
    done = graph.load(
        _NamedRows(asked.rows, asked.name),
        mode=asked.mode,
        branch=asked.branch,
        base=asked.base,
        engine=asked.engine,
        progress=progress,
        if_commit=asked.terms.if_commit,
        idempotency_key=asked.terms.idempotency_key,
    )
    return ingest_output(done, uri=call.uri, mode=asked.mode, actor=call.actor)


def _start_job(call: Call, asked: LoadCall) -> Answer:
    # It counts among the writes of its actor for as long as it runs.
    admitted = ExitStack()
    admitted.enter_context(call.admit(len(call.body)))
    # And for as long, what it writes to stays open.
    call.means.serving.enter_again(call.revision)
    admitted.callback(call.means.serving.leave, call.revision)
    with ExitStack() as undone:
        undone.push(admitted)
        output = call.means.jobs.start(
            lambda progress: call.run(partial(_load, asked=asked, call=call, progress=progress)),
            graph_id=call.graph_id,
            actor=call.actor,
            release=admitted.close,
        )
        undone.pop_all()
    location = f"/graphs/{call.graph_id}/jobs/{output['job_id']}"
    return with_headers(answer_json(output, status=202), {"Location": location})


ROUTES = (
    Route("POST", f"{GRAPH}/mutate", Body.JSON, BODY_BYTES_MAX, mutate),
    Route("POST", f"{GRAPH}/load", Body.RAW, LOAD_BODY_BYTES_MAX, load),
    Route("POST", f"{GRAPH}/change", Body.JSON, BODY_BYTES_MAX, change),
    Route("POST", f"{GRAPH}/ingest", Body.RAW, LOAD_BODY_BYTES_MAX, ingest),
)
