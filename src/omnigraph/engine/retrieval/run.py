"""A retrieval from beginning to end: search, neighbourhood, packing, receipt.

Everything is read at one commit. Knows nothing of branches and callers: the state that it is given
is what the caller sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.compiler.ir import Direction
from omnigraph.engine.ops.query import ReadPath
from omnigraph.engine.retrieval.answers import (
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
)
from omnigraph.engine.retrieval.arms import Arm, WordArm, find_arms, make_vectors, require_vectors
from omnigraph.engine.retrieval.fusion import Fused, RankedArm, fuse
from omnigraph.engine.retrieval.limits import ARM_PLACES
from omnigraph.engine.retrieval.neighbours import Reached, reach
from omnigraph.engine.retrieval.packing import pack, write_passage
from omnigraph.engine.retrieval.reads import Reads
from omnigraph.engine.retrieval.requests import hash_query
from omnigraph.engine.state.authority import Basis
from omnigraph.model.catalog import Catalog, EdgeType
from omnigraph.model.errors import NotFoundError
from omnigraph.model.observer import Observer


@dataclass(frozen=True, slots=True)
class Found:
    """What an answer starts from: the nodes that come first, every ranked one, the names of the
    rankings, and the edge types that lead on."""

    seeds: tuple[NodeName, ...]
    fused: Mapping[NodeName, Fused]
    arms: tuple[str, ...]
    edges: Sequence[EdgeType]


def start_reads(basis: Basis, *, path: ReadPath, observer: Observer, now: datetime) -> Reads:
    """The reads of one retrieval, from this moment on."""
    allowance = path.allowance
    return Reads(basis, path, observer, now, end=allowance.clock() + allowance.seconds_max)


def find_vectors(
    request: Request, reads: Reads, *, given: tuple[float, ...] | None
) -> tuple[QueryVector, ...]:
    """The vectors that a request is compared by: the given one, or those of its text."""
    if given is not None:
        return (QueryVector(None, None, given),)
    embedder, catalog = reads.path.embedder, reads.basis.catalog
    arms = find_arms(request, catalog, given=None)
    return make_vectors(arms, request.text, embedder=embedder, catalog=catalog, now=reads.now)


def retrieve(
    request: Request, vectors: Sequence[QueryVector], *, reads: Reads, count_tokens: TokenCount
) -> Retrieval:
    """The answer to a request, with its receipt."""
    catalog = reads.basis.catalog
    edges = find_edges(request.edges, catalog)
    given = next((each for each in vectors if each.model is None), None)
    arms = find_arms(request, catalog, given=given)
    require_vectors(arms, vectors)
    fused = fuse(list(_rank(arms, request, vectors, reads)))
    names = tuple(each.name for each in arms)
    found = Found(tuple(fused)[: request.k], fused, names, edges)
    return answer(request, vectors, found, reads=reads, count_tokens=count_tokens)


def answer(
    request: Request | QueryRequest,
    vectors: Sequence[QueryVector],
    found: Found,
    *,
    reads: Reads,
    count_tokens: TokenCount,
) -> Retrieval:
    """What was found and what is near it, as far as it fits, with a receipt."""

    def look_up(
        edge: EdgeType, direction: Direction, ids: Sequence[str], favoured: Sequence[str]
    ) -> list[tuple[str, str]]:
        return reads.neighbours(edge, direction, ids=ids, favoured=favoured)

    near = reach(
        found.seeds, hops=request.hops, edges=found.edges, fused=found.fused, look_up=look_up
    )
    places = _place([*(Reached(node, node, ()) for node in found.seeds), *near], found.fused)
    written = _write(places, reads)
    packed = pack(written, budget=request.budget_tokens, count=count_tokens)
    receipt = Receipt(
        commit_id=reads.basis.head.id,
        query_hash=hash_query(request, vectors),
        request=request,
        vectors=tuple(vectors),
        arms=found.arms,
        places=tuple(each.place for each in packed.passages),
        left_out=len(written) - len(packed.passages),
        tokens=packed.tokens,
        text_hash=hash_text(packed.text),
    )
    return Retrieval(packed.passages, packed.text, packed.tokens, receipt.left_out, receipt)


def find_edges(names: Sequence[str] | None, catalog: Catalog) -> list[EdgeType]:
    """The edge types of some names, all of them if none are given, in one order."""
    if names is None:
        return [catalog.edges[name] for name in sorted(catalog.edges)]
    found = {each.name: each for each in (_get_edge(name, catalog) for name in names)}
    return [found[name] for name in sorted(found)]


def _rank(
    arms: Sequence[Arm], request: Request, vectors: Sequence[QueryVector], reads: Reads
) -> Iterator[RankedArm]:
    numbers_by_length = {len(each.numbers): each.numbers for each in vectors}
    places = max(ARM_PLACES, request.k)
    for arm in arms:
        found = reads.rank(arm, text=request.text, vectors=numbers_by_length, places=places)
        weight = request.word_weight if isinstance(arm, WordArm) else request.vector_weight
        nodes = [(NodeName(arm.type, id), score) for id, score in found]
        yield RankedArm(arm.name, weight, nodes)


def _get_edge(name: str, catalog: Catalog) -> EdgeType:
    found = catalog.find_edge(name)
    if found is None:
        advice = advise_name(name, set(catalog.edges)) or ""
        raise NotFoundError(kind="edge type", name=name, advice=advice)
    return found


def _place(reached: Sequence[Reached], fused: Mapping[NodeName, Fused]) -> list[Place]:
    return [
        Place(
            rank=rank,
            node=each.node,
            score=fused[each.node].score if each.node in fused else 0.0,
            arms=fused[each.node].arms if each.node in fused else (),
            seed=each.seed,
            path=each.path,
            is_cut=False,
        )
        for rank, each in enumerate(reached, start=1)
    ]


def _write(places: Sequence[Place], reads: Reads) -> list[Passage]:
    """What every node holds, read once for each type."""
    ids_by_type: dict[str, list[str]] = {}
    for each in places:
        ids_by_type.setdefault(each.node.type, []).append(each.node.id)
    rows = {name: reads.rows(name, ids) for name, ids in ids_by_type.items()}
    return [write_passage(each, rows[each.node.type][each.node.id]) for each in places]
