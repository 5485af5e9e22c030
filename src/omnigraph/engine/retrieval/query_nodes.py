"""The nodes that a query finds: those of the variable whose property it returns first.

Which variable that is, is known when the query is compiled; its rows say the order. A query that
returns its score, a distance or relevance, says that too. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from math import isfinite

import pyarrow as pa

from omnigraph.compiler.compile import find_returned
from omnigraph.compiler.ir import (
    Bm25,
    Column,
    EntityId,
    Nearest,
    Now,
    PropertyValue,
    ReadIR,
    Rrf,
)
from omnigraph.compiler.text import refusal
from omnigraph.engine.read.plan import Plan, plan_read
from omnigraph.engine.retrieval.answers import NodeName
from omnigraph.engine.retrieval.limits import FOUND_MAX
from omnigraph.model.catalog import TypeKind
from omnigraph.model.errors import CompileError, LimitExceededError
from omnigraph.model.source import Source
from omnigraph.model.types import STRING


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """A read whose last column is the id of the node that each row stands for."""

    plan: Plan
    type: str
    score_position: int | None

    @property
    def asks_for_time(self) -> bool:
        """Whether the rows depend on when it runs."""
        return _holds_now(self.plan.ir)


def plan_nodes(plan: Plan, text: str) -> NodeQuery:
    """The same read, with the nodes that it finds; `CompileError` if it finds none."""
    ir = plan.ir
    variable = _find_variable(ir)
    if ir.is_aggregate or variable is None or variable not in plan.type_by_variable:
        raise _refuse(ir, variable, text)
    type_name = plan.type_by_variable[variable]
    id = EntityId(variable, TypeKind.NODE, type_name, is_nullable=True)
    column = Column("$node", id, STRING.as_nullable(), is_aliased=True)
    # Behind the others, because an order refers to columns by their position.
    found = plan_read(replace(ir, columns=(*ir.columns, column)))
    scores = (
        position
        for position, each in enumerate(ir.columns)
        if isinstance(each.expression, Nearest | Bm25 | Rrf)
    )
    return NodeQuery(found, type_name, next(scores, None))


def read_nodes(query: NodeQuery, rows: pa.Table) -> list[tuple[NodeName, float | None]]:
    """The nodes of some rows, each where it comes first, with its score if it has one.

    `LimitExceededError` if they are more than a retrieval may start from.
    """
    position = query.score_position
    scores = [None] * len(rows) if position is None else rows[position].to_pylist()
    score_by_id: dict[str, float | None] = {}
    for id, score in zip(rows[len(rows.columns) - 1].to_pylist(), scores, strict=True):
        # What an optional block does not find is no node.
        if id is not None:
            score_by_id.setdefault(id, _finite(score))
    if len(score_by_id) > FOUND_MAX:
        raise LimitExceededError(
            resource="the number of nodes that the query finds (give it a `limit`)",
            limit=FOUND_MAX,
            found=len(score_by_id),
        )
    return [(NodeName(query.type, id), score) for id, score in score_by_id.items()]


def _find_variable(ir: ReadIR) -> str | None:
    shown = (each.expression for each in ir.columns)
    return next((e.variable for e in shown if isinstance(e, PropertyValue | EntityId)), None)


def _refuse(ir: ReadIR, variable: str | None, text: str) -> CompileError:
    problem = f"`{ir.name}` returns no property of a node"
    if ir.is_aggregate:
        problem = f"`{ir.name}` returns groups, and a group is no node"
    elif variable is not None:
        problem = f"`{ir.name}` returns `${variable}` first, which is an edge"
    source = Source("<query>", text)
    span = find_returned(source, name=ir.name)
    advice = "a retrieval starts from nodes; return a property of one first"
    return refusal(source, "T38", problem, span, advice)


def _holds_now(part: object) -> bool:
    if isinstance(part, Now):
        return True
    parts: Iterable[object] = part if isinstance(part, tuple) else ()
    if is_dataclass(part):
        parts = (getattr(part, each.name) for each in fields(part))
    return any(map(_holds_now, parts))


def _finite(score: object) -> float | None:
    return score if isinstance(score, float) and isfinite(score) else None
