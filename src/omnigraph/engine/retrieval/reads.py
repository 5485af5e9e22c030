"""The reads of one retrieval: rankings, neighbourhoods and rows, all at one commit.

Each read is an ordinary query, so row-level security applies to it. All reads together share the
time limit of one query. Neighbours come in a deterministic order, and nodes take turns, so a hub
does not displace the neighbours of other nodes. Each node is reached once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from math import ceil, isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler import ir
from omnigraph.engine.ops.query import QueryCall, ReadPath, run_query
from omnigraph.engine.read.plan import plan_read
from omnigraph.engine.results import Result
from omnigraph.engine.retrieval.rankers import VARIABLE, Fused, Ranker, TextRanker, VectorRanker
from omnigraph.engine.retrieval.results import NodeName, PathStep
from omnigraph.engine.state.branch_state import Basis
from omnigraph.model.catalog import EdgeType, TypeKind
from omnigraph.model.errors import LimitExceededError
from omnigraph.model.limits import NEIGHBOURS_MAX, REACHED_MAX
from omnigraph.model.ports import Observer, Phase
from omnigraph.model.types import F64, I64, STRING, PropertyType, Scalar

_NEAR, _FAR = "a", "b"
_IDS = ir.ParameterValue("ids", PropertyType(Scalar.STRING, is_list=True))
_TEXT, _COUNT = ir.ParameterValue("text", STRING), ir.ParameterValue("count", I64)


@dataclass(frozen=True, slots=True)
class Reads:
    """Runs the reads of one retrieval; `end` is the deadline of the last of them."""

    basis: Basis
    path: ReadPath
    observer: Observer
    now: datetime
    end: float

    def rank(
        self, ranker: Ranker, *, text: str, vectors: Mapping[int, Sequence[float]], places: int
    ) -> list[tuple[str, float]]:
        """The best nodes of one ranking: ids with their relevance or distance."""
        values: dict[str, ir.Value] = {_COUNT.name: places}
        ranking: ir.Ranking
        match ranker:
            case TextRanker(_, field):
                declared = self.basis.catalog.nodes[ranker.type].properties[field.property]
                ranking, values[_TEXT.name] = ir.Bm25(field, _TEXT, declared.language), text
            case VectorRanker(_, field):
                vector = ir.ParameterValue("vector", replace(field.type, is_nullable=False))
                ranking = ir.Nearest(field, vector, None)
                values[vector.name] = tuple(vectors[ranker.dimension])
        score = _column("score", ranking, F64.as_nullable())
        found = self._run(
            (ir.NodeScan(VARIABLE, ranker.type, ()),),
            (_id_column(VARIABLE, ranker.type), score),
            values,
            ranking=ranking,
        ).to_arrow()
        pairs = zip(found[0].to_pylist(), found[1].to_pylist(), strict=True)
        # A vector with a component that is not a number has no distance.
        return [(id, score) for id, score in pairs if score is not None and isfinite(score)]

    def neighbours(
        self, edge: EdgeType, direction: ir.Direction, ids: Sequence[str], favoured: Sequence[str]
    ) -> list[tuple[str, str]]:
        """Pairs of node id and neighbour id over an edge type.

        Contains the first neighbours of each node, and all that are favoured.
        """
        near, far = edge.source, edge.target
        if direction is ir.Direction.IN:
            near, far = far, near
        expand = ir.Expand(_NEAR, _FAR, edge.name, direction, far, 1, 1, (), None)
        found = self._run(
            (_scan_ids(_NEAR, near), expand),
            (_id_column(_NEAR, near), _id_column(_FAR, far)),
            {_IDS.name: tuple(ids)},
            ranking=None,
        ).to_arrow()
        retained = found.filter(_first_or_favoured(found, favoured))
        return list(zip(retained[0].to_pylist(), retained[1].to_pylist(), strict=True))

    def rows(self, type_name: str, ids: Sequence[str]) -> dict[str, dict[str, object]]:
        """The properties of some nodes by id, without vectors, blobs and nulls."""
        declared = self.basis.catalog.nodes[type_name].properties.values()
        shown = [each for each in declared if not (each.type.is_vector or each.type.is_blob)]
        columns = [
            _column(each.name, ir.PropertyValue(_NEAR, each.name, each.type), each.type)
            for each in shown
        ]
        # A row retains the last of two columns with the same name, so the id needs a distinct name.
        id_column = replace(_id_column(_NEAR, type_name), name="$id")
        found = self._run(
            (_scan_ids(_NEAR, type_name),), (id_column, *columns), {_IDS.name: tuple(ids)}, None
        )
        rows = {}
        for row in found.rows:
            id = row.pop("$id")
            rows[str(id)] = {name: value for name, value in row.items() if value is not None}
        return rows

    def _run(
        self,
        pipeline: tuple[ir.Operator, ...],
        columns: tuple[ir.Column, ...],
        values: Mapping[str, ir.Value],
        ranking: ir.Ranking | None,
    ) -> Result:
        given = (_IDS, _TEXT, _COUNT)
        read = ir.ReadIR(
            name="retrieve",
            parameters=tuple(ir.Parameter(each.name, each.type) for each in given),
            pipeline=pipeline,
            columns=columns,
            is_distinct=False,
            ranking=ranking,
            order=(),
            offset=None,
            limit=None if ranking is None else _COUNT,
        )
        return self.run(QueryCall(plan_read(read), values, self.now))

    def run(self, call: QueryCall) -> Result:
        """Run one read in the remaining time; `LimitExceededError` if there is none left."""
        allowance = self.path.allowance
        left = self.end - allowance.clock()
        if left <= 0:
            raise LimitExceededError(
                resource="the time of a retrieval in seconds",
                limit=int(allowance.seconds_max),
                found=ceil(allowance.seconds_max - left),
            )
        path = replace(self.path, allowance=replace(allowance, seconds_max=left))
        with self.observer.phase(Phase.RUN):
            return run_query(call, basis=self.basis, path=path)


def _scan_ids(variable: str, type_name: str) -> ir.NodeScan:
    # Every stored type has its ids in a column of this name, and no property may use the name.
    id = ir.PropertyValue(variable, "id", STRING)
    return ir.NodeScan(variable, type_name, (ir.Comparison(id, ir.Comparator.IN, _IDS),))


def _id_column(variable: str, type_name: str) -> ir.Column:
    id = ir.EntityId(variable, TypeKind.NODE, type_name, is_nullable=False)
    return _column(variable, id, STRING)


def _column(name: str, expression: ir.Operand | ir.Ranking, type: PropertyType) -> ir.Column:
    return ir.Column(name, expression, type, is_aliased=True)


def _first_or_favoured(pairs: pa.Table, favoured: Iterable[str]) -> pa.Array:
    """A mask of the pairs that are among the first of their first id, or whose second is favoured.

    Pairs are in the order of both ids.
    """
    near, far = pairs[0].combine_chunks(), pairs[1].combine_chunks()
    groups = near.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    places = np.arange(len(groups)) - np.searchsorted(groups, groups)
    is_favoured = pc.is_in(far, value_set=pa.array(sorted(favoured), far.type))
    return pc.or_(pa.array(places < NEIGHBOURS_MAX), is_favoured)


@dataclass(frozen=True, slots=True)
class Reached:
    """A node, and the path to it from a node that the search found."""

    node: NodeName
    seed: NodeName
    path: tuple[PathStep, ...]


LookUp = Callable[[EdgeType, ir.Direction, Sequence[str], Sequence[str]], Sequence[tuple[str, str]]]
"""Finds pairs of node id and neighbour id over an edge type.

The last two arguments are the ids to start from, and the ids of neighbours that the search found.
"""


def reach(
    seeds: Sequence[NodeName],
    *,
    hops: int,
    edges: Sequence[EdgeType],
    fused: Mapping[NodeName, Fused],
    look_up: LookUp,
) -> list[Reached]:
    """The nodes within `hops` edges of the seeds, nearest first."""
    frontier = [Reached(node, node, ()) for node in seeds]
    seen = set(seeds)
    reached: list[Reached] = []
    for _ in range(hops):
        steps = _find_steps(frontier, edges, fused, look_up)
        frontier = _take_turns(frontier, steps, seen)
        reached += frontier
    return reached


def _find_steps(
    frontier: Sequence[Reached],
    edges: Sequence[EdgeType],
    fused: Mapping[NodeName, Fused],
    look_up: LookUp,
) -> Mapping[NodeName, list[PathStep]]:
    """The neighbours of each node of the frontier, best first."""
    ids: dict[str, list[str]] = {}
    for each in frontier:
        ids.setdefault(each.node.type, []).append(each.node.id)
    found_ids: dict[str, list[str]] = {}
    for node in fused:
        found_ids.setdefault(node.type, []).append(node.id)
    steps: dict[NodeName, list[PathStep]] = {}
    for edge in edges:
        for direction in (ir.Direction.OUT, ir.Direction.IN):
            ends = (edge.source, edge.target)
            near, far = ends if direction is ir.Direction.OUT else ends[::-1]
            if near in ids:
                for start, end in look_up(edge, direction, ids[near], found_ids.get(far, [])):
                    step = PathStep(edge.name, str(direction), NodeName(far, end))
                    steps.setdefault(NodeName(near, start), []).append(step)

    def order(step: PathStep) -> tuple[float, str, bool, NodeName]:
        found = fused.get(step.node)
        score = 0.0 if found is None else found.score
        return -score, step.edge, step.direction != ir.Direction.OUT, step.node

    return {node: sorted(each, key=order) for node, each in steps.items()}


def _take_turns(
    frontier: Sequence[Reached], steps: Mapping[NodeName, list[PathStep]], seen: set[NodeName]
) -> list[Reached]:
    taken: list[Reached] = []
    turns = [_unseen(each, steps.get(each.node, []), seen) for each in frontier]
    for turn in zip_longest(*turns):
        for each in turn:
            if each is not None and len(taken) < REACHED_MAX:
                taken.append(each)
        if len(taken) == REACHED_MAX:
            break
    return taken


def _unseen(start: Reached, steps: Sequence[PathStep], seen: set[NodeName]) -> Iterator[Reached]:
    """The next neighbours of a node, one per turn, without those that other nodes took before."""
    for step in steps:
        if step.node not in seen:
            seen.add(step.node)
            yield Reached(step.node, start.seed, (*start.path, step))
