"""A retrieval that starts from the nodes of a query, asked for the first time or again.

The query is one ranking, by the order of its rows; what follows is as for any other. What a replay
needs beside the graph is kept in the request: the values of the parameters, the time if the query
asks for it, and the vectors of texts that had to be embedded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from math import isfinite

from omnigraph.compiler.ir import Value
from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.engine.compiled import CompiledQueries
from omnigraph.engine.ops.query import QueryCall
from omnigraph.engine.retrieval.answers import QueryRequest, QueryVector, Retrieval, TokenCount
from omnigraph.engine.retrieval.fusion import RankedArm, fuse
from omnigraph.engine.retrieval.kept_vectors import KeepingEmbedder, KeptEmbedder
from omnigraph.engine.retrieval.query_nodes import NodeQuery, plan_nodes, read_nodes
from omnigraph.engine.retrieval.reads import Reads
from omnigraph.engine.retrieval.requests import Terms
from omnigraph.engine.retrieval.run import Found, answer, find_edges
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.observer import Phase
from omnigraph.model.temporal import format_datetime, parse_datetime


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query that can be run, and the request that tells of it."""

    nodes: NodeQuery
    values: Mapping[str, Value]
    request: QueryRequest


def retrieve_by(
    text: str,
    params: object,
    *,
    name: str | None,
    terms: Terms,
    compiled: CompiledQueries,
    reads: Reads,
    count_tokens: TokenCount,
) -> Retrieval:
    """What the nodes of a query, with these values for its parameters, and those near them hold."""
    # A receipt has milliseconds, so nothing finer may decide about a row.
    moment = format_datetime(reads.now)
    reads = replace(reads, now=parse_datetime(moment))
    with reads.observer.phase(Phase.COMPILE):
        nodes = plan_nodes(compiled.read(text, name=name, contract=reads.basis.contract), text)
        ir = nodes.plan.ir
        values = convert_parameters(ir.parameters, params, numbers=NumberReading.EXACT)
    request = QueryRequest(
        query=text,
        name=ir.name,
        params={each: _encode(values[each], each) for each in sorted(values)},
        now=moment if nodes.asks_for_time else None,
        edges=terms.edges,
        hops=terms.hops,
        budget_tokens=terms.budget_tokens,
        counted_by=terms.counted_by,
    )
    provider = reads.path.embedder
    keeping = None if provider is None else KeepingEmbedder(provider)
    reads = replace(reads, path=replace(reads.path, embedder=keeping))
    found = _find(_Asked(nodes, values, request), reads)
    vectors = () if keeping is None else keeping.vectors
    return answer(request, vectors, found, reads=reads, count_tokens=count_tokens)


def retrieve_again(
    request: QueryRequest,
    vectors: Sequence[QueryVector],
    *,
    compiled: CompiledQueries,
    reads: Reads,
    count_tokens: TokenCount,
) -> Retrieval:
    """The same for a request that a receipt tells; nobody is asked for a vector."""
    assert request.query is not None, "a receipt without a text is refused before"
    with reads.observer.phase(Phase.COMPILE):
        plan = compiled.read(request.query, name=request.name, contract=reads.basis.contract)
        nodes = plan_nodes(plan, request.query)
        declared = nodes.plan.ir.parameters
        values = convert_parameters(declared, request.params, numbers=NumberReading.EXACT)
    path = replace(reads.path, embedder=KeptEmbedder(vectors))
    now = reads.now if request.now is None else parse_datetime(request.now)
    reads = replace(reads, path=path, now=now)
    found = _find(_Asked(nodes, values, request), reads)
    return answer(request, vectors, found, reads=reads, count_tokens=count_tokens)


def _find(asked: _Asked, reads: Reads) -> Found:
    edges = find_edges(asked.request.edges, reads.basis.catalog)
    rows = reads.run(QueryCall(asked.nodes.plan, asked.values, reads.now)).to_arrow()
    ranked = RankedArm(asked.request.name, 1.0, read_nodes(asked.nodes, rows))
    fused = fuse([ranked])
    return Found(tuple(fused), fused, (ranked.name,), edges)


def _encode(value: Value, name: str) -> object:
    """A value as JSON has it."""
    match value:
        case datetime():
            return format_datetime(value)
        case date():
            return value.isoformat()
        case float() if not isfinite(value):
            raise InvalidValueError(
                subject=f"param '{name}'",
                expected="a value that JSON has",
                value=value,
                problem=f"{value} has no place in JSON, which receipts are kept as",
            )
        case tuple():
            return tuple(_encode(each, name) for each in value)
        case _:
            return value
