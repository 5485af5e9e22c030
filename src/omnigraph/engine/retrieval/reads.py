"""The reads that a retrieval consists of: rankings, neighbours and rows, all at one commit.

Each is an ordinary read, run as a query is, so that whoever sees a part of a graph retrieves from
that part. All of them together may take as long as one query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil, isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.ir import (
    Bm25,
    Column,
    Comparator,
    Comparison,
    Direction,
    EntityId,
    Expand,
    Nearest,
    NodeScan,
    Operand,
    Operator,
    Parameter,
    ParameterValue,
    PropertyValue,
    Ranking,
    ReadIR,
    Value,
)
from omnigraph.engine.ops.query import QueryCall, ReadPath, run_query
from omnigraph.engine.read.plan import plan_read
from omnigraph.engine.results import Result
from omnigraph.engine.retrieval.arms import VARIABLE, Arm, VectorArm, WordArm
from omnigraph.engine.retrieval.limits import NEIGHBOURS_MAX
from omnigraph.engine.state.authority import Basis
from omnigraph.model.catalog import EdgeType, TypeKind
from omnigraph.model.errors import LimitExceededError
from omnigraph.model.observer import Observer, Phase
from omnigraph.model.types import F64, I64, STRING, PropertyType, Scalar

_NEAR, _FAR = "a", "b"
_IDS = ParameterValue("ids", PropertyType(Scalar.STRING, is_list=True))
_TEXT, _COUNT = ParameterValue("text", STRING), ParameterValue("count", I64)


@dataclass(frozen=True, slots=True)
class Reads:
    """Runs the reads of one retrieval; `end` is when the last of them must be done."""

    basis: Basis
    path: ReadPath
    observer: Observer
    now: datetime
    end: float

    def rank(
        self, arm: Arm, *, text: str, vectors: Mapping[int, Sequence[float]], places: int
    ) -> list[tuple[str, float]]:
        """The best of one ranking: ids with their relevance or distance."""
        values: dict[str, Value] = {_COUNT.name: places}
        ranking: Ranking
        match arm:
            case WordArm(_, field):
                ranking, values[_TEXT.name] = Bm25(field, _TEXT), text
            case VectorArm(_, field):
                vector = ParameterValue("vector", replace(field.type, is_nullable=False))
                ranking = Nearest(field, vector)
                values[vector.name] = tuple(vectors[arm.dimension])
        score = _column("score", ranking, F64.as_nullable())
        found = self._run(
            (NodeScan(VARIABLE, arm.type, ()),),
            (_id_column(VARIABLE, arm.type), score),
            values,
            ranking=ranking,
        ).to_arrow()
        pairs = zip(found[0].to_pylist(), found[1].to_pylist(), strict=True)
        # A vector that holds no number at some place is at no distance.
        return [(id, score) for id, score in pairs if score is not None and isfinite(score)]

    def neighbours(
        self, edge: EdgeType, direction: Direction, *, ids: Sequence[str], favoured: Iterable[str]
    ) -> list[tuple[str, str]]:
        """Nodes and their neighbours over an edge type, both by id: the first of each node, and
        all that are favoured."""
        near, far = edge.source, edge.target
        if direction is Direction.IN:
            near, far = far, near
        expand = Expand(_NEAR, _FAR, edge.name, direction, far, 1, 1, (), None)
        found = self._run(
            (_scan_ids(_NEAR, near), expand),
            (_id_column(_NEAR, near), _id_column(_FAR, far)),
            {_IDS.name: tuple(ids)},
            ranking=None,
        ).to_arrow()
        kept = found.filter(_first_or_favoured(found, favoured))
        return list(zip(kept[0].to_pylist(), kept[1].to_pylist(), strict=True))

    def rows(self, type_name: str, ids: Sequence[str]) -> dict[str, dict[str, object]]:
        """What some nodes hold, without vectors, blobs and nulls, by id."""
        declared = self.basis.catalog.nodes[type_name].properties.values()
        shown = [each for each in declared if not (each.type.is_vector or each.type.is_blob)]
        columns = [
            _column(each.name, PropertyValue(_NEAR, each.name, each.type), each.type)
            for each in shown
        ]
        # A row keeps the last of two columns of a name, and the id must be told from properties.
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
        pipeline: tuple[Operator, ...],
        columns: tuple[Column, ...],
        values: Mapping[str, Value],
        ranking: Ranking | None,
    ) -> Result:
        given = (_IDS, _TEXT, _COUNT)
        ir = ReadIR(
            name="retrieve",
            parameters=tuple(Parameter(each.name, each.type) for each in given),
            pipeline=pipeline,
            columns=columns,
            is_distinct=False,
            ranking=ranking,
            order=(),
            offset=None,
            limit=None if ranking is None else _COUNT,
        )
        return self.run(QueryCall(plan_read(ir), values, self.now))

    def run(self, call: QueryCall) -> Result:
        """The rows of one read, in the time that is left."""
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


def _scan_ids(variable: str, type_name: str) -> NodeScan:
    # Every stored type has its ids in a column of this name, which no property may have.
    id = PropertyValue(variable, "id", STRING)
    return NodeScan(variable, type_name, (Comparison(id, Comparator.IN, _IDS),))


def _id_column(variable: str, type_name: str) -> Column:
    id = EntityId(variable, TypeKind.NODE, type_name, is_nullable=False)
    return _column(variable, id, STRING)


def _column(name: str, expression: Operand | Ranking, type: PropertyType) -> Column:
    return Column(name, expression, type, is_aliased=True)


def _first_or_favoured(pairs: pa.Table, favoured: Iterable[str]) -> pa.Array:
    """Which of some pairs, in the order of both ids, are among the first of their first id, or
    have a favoured second one."""
    near, far = pairs[0].combine_chunks(), pairs[1].combine_chunks()
    groups = near.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    places = np.arange(len(groups)) - np.searchsorted(groups, groups)
    is_favoured = pc.is_in(far, value_set=pa.array(sorted(favoured), far.type))
    return pc.or_(pa.array(places < NEIGHBOURS_MAX), is_favoured)
