"""Retrieval from end to end: search or query, neighbourhood, packing, receipt.

All reads of a retrieval use one commit, and the caller supplies the visible state. A query counts
as one ranking, in the order of its rows. A request records parameter values, the time and the
vectors that it used, so a replay computes no embedding. Branches and permissions are not known
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from math import isfinite

import pyarrow as pa

from omnigraph.compiler import ir
from omnigraph.compiler.compile import find_returned
from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.compiler.parser import syntax_error
from omnigraph.engine.ops.query import QueryCache, QueryCall, ReadPath
from omnigraph.engine.read.plan import Plan, plan_read
from omnigraph.engine.retrieval.rankers import (
    Fused,
    Ranker,
    RankerResult,
    RecordingEmbedder,
    ReplayEmbedder,
    TextRanker,
    find_rankers,
    fuse,
    make_vectors,
    require_vectors,
)
from omnigraph.engine.retrieval.reads import Reached, Reads, reach
from omnigraph.engine.retrieval.requests import RetrievalOptions, hash_query
from omnigraph.engine.retrieval.results import (
    NodeName,
    Passage,
    Place,
    QueryRequest,
    QueryVector,
    Receipt,
    Request,
    Retrieval,
    TokenCount,
    hash_text,
    pack,
    write_passage,
)
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import get_edge_type
from omnigraph.model.catalog import Catalog, EdgeType, TypeKind
from omnigraph.model.errors import (
    CompileError,
    InvalidValueError,
    LimitExceededError,
)
from omnigraph.model.limits import FOUND_MAX, RANKS_COUNTED
from omnigraph.model.ports import Observer, Phase
from omnigraph.model.source import Source
from omnigraph.model.types import STRING, format_datetime, parse_datetime


@dataclass(frozen=True, slots=True)
class Candidates:
    """The starting points of a result.

    `seeds` are the nodes that come first, `fused` every ranked node, `rankers` the names of the
    rankings, and `edges` the edge types to follow.
    """

    seeds: tuple[NodeName, ...]
    fused: Mapping[NodeName, Fused]
    rankers: tuple[str, ...]
    edges: Sequence[EdgeType]


def start_reads(basis: Basis, *, path: ReadPath, observer: Observer, now: datetime) -> Reads:
    """The reads of one retrieval; its time limit starts now."""
    allowance = path.allowance
    return Reads(basis, path, observer, now, end=allowance.clock() + allowance.seconds_max)


def find_vectors(
    request: Request, reads: Reads, *, given: tuple[float, ...] | None
) -> tuple[QueryVector, ...]:
    """The query vectors of a request: the given one, or those computed from its text."""
    if given is not None:
        return (QueryVector(None, None, given),)
    embedder, catalog = reads.path.embedder, reads.basis.catalog
    rankers = find_rankers(request, catalog, given=None)
    return make_vectors(rankers, request.text, embedder=embedder, catalog=catalog, now=reads.now)


def retrieve(
    request: Request, vectors: Sequence[QueryVector], *, reads: Reads, count_tokens: TokenCount
) -> Retrieval:
    """The result of a request, with its receipt."""
    catalog = reads.basis.catalog
    edges = find_edges(request.edges, catalog)
    given = next((each for each in vectors if each.model is None), None)
    rankers = find_rankers(request, catalog, given=given)
    require_vectors(rankers, vectors)
    fused = fuse(list(_rank(rankers, request, vectors, reads)))
    names = tuple(each.name for each in rankers)
    found = Candidates(tuple(fused)[: request.k], fused, names, edges)
    return build_result(request, vectors, found, reads=reads, count_tokens=count_tokens)


def build_result(
    request: Request | QueryRequest,
    vectors: Sequence[QueryVector],
    found: Candidates,
    *,
    reads: Reads,
    count_tokens: TokenCount,
) -> Retrieval:
    """The candidates and their neighbours, as far as the token budget allows, with a receipt."""
    near = reach(
        found.seeds,
        hops=request.hops,
        edges=found.edges,
        fused=found.fused,
        look_up=reads.neighbours,
    )
    places = _place([*(Reached(node, node, ()) for node in found.seeds), *near], found.fused)
    written = _write(places, reads)
    packed = pack(written, budget=request.budget_tokens, count=count_tokens)
    receipt = Receipt(
        commit_id=reads.basis.head.id,
        query_hash=hash_query(request, vectors),
        request=request,
        vectors=tuple(vectors),
        arms=found.rankers,
        places=tuple(each.place for each in packed.passages),
        left_out=len(written) - len(packed.passages),
        tokens=packed.tokens,
        text_hash=hash_text(packed.text),
    )
    return Retrieval(packed.passages, packed.text, packed.tokens, receipt.left_out, receipt)


def find_edges(names: Sequence[str] | None, catalog: Catalog) -> list[EdgeType]:
    """The edge types with some names, ordered by name; None means all of them.

    Raises `NotFoundError` for an unknown edge type.
    """
    if names is None:
        return [catalog.edges[name] for name in sorted(catalog.edges)]
    found = {each.name: each for each in (get_edge_type(name, catalog) for name in names)}
    return [found[name] for name in sorted(found)]


def _rank(
    rankers: Sequence[Ranker], request: Request, vectors: Sequence[QueryVector], reads: Reads
) -> Iterator[RankerResult]:
    numbers_by_length = {len(each.numbers): each.numbers for each in vectors}
    places = max(RANKS_COUNTED, request.k)
    for ranker in rankers:
        found = reads.rank(ranker, text=request.text, vectors=numbers_by_length, places=places)
        weight = request.word_weight if isinstance(ranker, TextRanker) else request.vector_weight
        nodes = [(NodeName(ranker.type, id), score) for id, score in found]
        yield RankerResult(ranker.name, weight, nodes)


def _place(reached: Sequence[Reached], fused: Mapping[NodeName, Fused]) -> list[Place]:
    return [
        Place(
            rank=rank,
            node=each.node,
            score=fused[each.node].score if each.node in fused else 0.0,
            arms=fused[each.node].rankers if each.node in fused else (),
            seed=each.seed,
            path=each.path,
            is_cut=False,
        )
        for rank, each in enumerate(reached, start=1)
    ]


def _write(places: Sequence[Place], reads: Reads) -> list[Passage]:
    """The passages of all nodes, with one read per type."""
    ids_by_type: dict[str, list[str]] = {}
    for each in places:
        ids_by_type.setdefault(each.node.type, []).append(each.node.id)
    rows = {name: reads.rows(name, ids) for name, ids in ids_by_type.items()}
    return [write_passage(each, rows[each.node.type][each.node.id]) for each in places]


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """A read whose last column is the id of the node that each row represents."""

    plan: Plan
    type: str
    score_position: int | None

    @property
    def depends_on_time(self) -> bool:
        """Whether the rows depend on the time at which the query runs."""
        return any(isinstance(each, ir.Now) for each in ir.parts_within(self.plan.ir))


def plan_nodes(plan: Plan, text: str) -> NodeQuery:
    """The read, extended by the id of its nodes; `CompileError` if it does not return nodes."""
    read = plan.ir
    shown = (each.expression for each in read.columns)
    nodes = (each.variable for each in shown if isinstance(each, ir.PropertyValue | ir.EntityId))
    variable = next(nodes, None)
    if read.is_aggregate or variable is None or variable not in plan.type_by_variable:
        raise _refuse(read, variable, text)
    type_name = plan.type_by_variable[variable]
    id = ir.EntityId(variable, TypeKind.NODE, type_name, is_nullable=True)
    column = ir.Column("$node", id, STRING.as_nullable(), is_aliased=True)
    # Added last, because an order refers to columns by their position.
    found = plan_read(replace(read, columns=(*read.columns, column)))
    scores = (
        position
        for position, each in enumerate(read.columns)
        if isinstance(each.expression, ir.Nearest | ir.Bm25 | ir.Rrf)
    )
    return NodeQuery(found, type_name, next(scores, None))


def read_nodes(query: NodeQuery, rows: pa.Table) -> list[tuple[NodeName, float | None]]:
    """The distinct nodes of some rows in the order of their first row, with scores if any.

    `LimitExceededError` if there are more nodes than a retrieval may start from.
    """
    position = query.score_position
    scores = [None] * len(rows) if position is None else rows[position].to_pylist()
    score_by_id: dict[str, float | None] = {}
    for id, score in zip(rows[len(rows.columns) - 1].to_pylist(), scores, strict=True):
        # An optional block that finds nothing yields a null id.
        if id is not None:
            is_finite = isinstance(score, float) and isfinite(score)
            score_by_id.setdefault(id, score if is_finite else None)
    if len(score_by_id) > FOUND_MAX:
        raise LimitExceededError(
            resource="the number of nodes that the query finds (give it a `limit`)",
            limit=FOUND_MAX,
            found=len(score_by_id),
        )
    return [(NodeName(query.type, id), score) for id, score in score_by_id.items()]


def _refuse(read: ir.ReadIR, variable: str | None, text: str) -> CompileError:
    problem = f"`{read.name}` returns no property of a node"
    if read.is_aggregate:
        problem = f"`{read.name}` returns groups, not nodes"
    elif variable is not None:
        problem = f"`{read.name}` returns `${variable}` first, which is an edge"
    source = Source("<query>", text)
    span = find_returned(source, name=read.name)
    advice = "a retrieval starts from nodes; return a property of one first"
    return syntax_error(source, "T38", problem, span, advice)


def retrieve_by(
    text: str,
    params: object,
    *,
    name: str | None,
    options: RetrievalOptions,
    compiled: QueryCache,
    reads: Reads,
    count_tokens: TokenCount,
) -> Retrieval:
    """Retrieve the nodes that a query returns for the given parameters, and their neighbours."""
    # A receipt records milliseconds, so a replay would not reproduce a finer timestamp.
    timestamp = format_datetime(reads.now)
    reads = replace(reads, now=parse_datetime(timestamp))
    with reads.observer.phase(Phase.COMPILE):
        nodes = plan_nodes(
            compiled.read(text, name=name, accepted_schema=reads.basis.accepted_schema), text
        )
        read = nodes.plan.ir
        values = convert_parameters(read.parameters, params, numbers=NumberReading.EXACT)
    request = QueryRequest(
        query=text,
        name=read.name,
        params={each: _encode(values[each], each) for each in sorted(values)},
        now=timestamp if nodes.depends_on_time else None,
        edges=options.edges,
        hops=options.hops,
        budget_tokens=options.budget_tokens,
        counted_by=options.counted_by,
    )
    provider = reads.path.embedder
    recorder = None if provider is None else RecordingEmbedder(provider)
    reads = replace(reads, path=replace(reads.path, embedder=recorder))
    found = _find(nodes, values, request, reads)
    vectors = () if recorder is None else recorder.vectors
    return build_result(request, vectors, found, reads=reads, count_tokens=count_tokens)


def retrieve_again(
    request: QueryRequest,
    vectors: Sequence[QueryVector],
    *,
    compiled: QueryCache,
    reads: Reads,
    count_tokens: TokenCount,
) -> Retrieval:
    """Repeat the retrieval that a receipt describes; no embedding is computed."""
    assert request.query is not None, "a receipt without a text is refused before"
    with reads.observer.phase(Phase.COMPILE):
        plan = compiled.read(
            request.query, name=request.name, accepted_schema=reads.basis.accepted_schema
        )
        nodes = plan_nodes(plan, request.query)
        declared = nodes.plan.ir.parameters
        values = convert_parameters(declared, request.params, numbers=NumberReading.EXACT)
    path = replace(reads.path, embedder=ReplayEmbedder(vectors))
    now = reads.now if request.now is None else parse_datetime(request.now)
    reads = replace(reads, path=path, now=now)
    found = _find(nodes, values, request, reads)
    return build_result(request, vectors, found, reads=reads, count_tokens=count_tokens)


def _find(
    nodes: NodeQuery, values: Mapping[str, ir.Value], request: QueryRequest, reads: Reads
) -> Candidates:
    edges = find_edges(request.edges, reads.basis.catalog)
    rows = reads.run(QueryCall(nodes.plan, values, reads.now)).to_arrow()
    ranked = RankerResult(request.name, 1.0, read_nodes(nodes, rows))
    fused = fuse([ranked])
    return Candidates(tuple(fused), fused, (ranked.name,), edges)


def _encode(value: ir.Value, name: str) -> object:
    """A value as JSON; `InvalidValueError` if it is not finite."""
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
                problem=f"{value} cannot be represented in JSON, the format of receipts",
            )
        case tuple():
            return tuple(_encode(each, name) for each in value)
        case _:
            return value
