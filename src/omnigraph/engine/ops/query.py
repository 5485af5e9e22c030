"""Queries: a compiled read, run over one pinned snapshot.

Never looks at the branch again once the snapshot is pinned, so a query sees one commit whatever
happens meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from omnigraph.compiler.ir import Aggregate, Value
from omnigraph.engine.read.access import AccessRules
from omnigraph.engine.read.budget import Allowance, Budget
from omnigraph.engine.read.expand import Expander
from omnigraph.engine.read.explain import Explainer
from omnigraph.engine.read.matching import Inputs, Matcher
from omnigraph.engine.read.memory import ReadMemory, Sources
from omnigraph.engine.read.output import Output
from omnigraph.engine.read.pipeline import Pipeline
from omnigraph.engine.read.plan import Plan
from omnigraph.engine.read.ranking import Ranker
from omnigraph.engine.results import Result, ResultColumn
from omnigraph.engine.state.authority import Basis
from omnigraph.model.embedding import Embedder
from omnigraph.storage.ports import TableStore


@dataclass(frozen=True, slots=True)
class ReadPath:
    """Everything a read needs beside its snapshot; one for each open graph."""

    tables: TableStore
    memory: ReadMemory
    embedder: Embedder | None
    access: AccessRules
    allowance: Allowance


@dataclass(frozen=True, slots=True)
class QueryCall:
    """A read with what the caller gave it."""

    plan: Plan
    values: Mapping[str, Value]
    now: datetime


def run_query(call: QueryCall, *, basis: Basis, path: ReadPath) -> Result:
    """The answer of a read at the commit that the basis is."""
    run = _start(call, basis, path)
    plan = call.plan
    matches = run.pipeline.run(plan.steps)
    ranker = Ranker(run.matcher, path.embedder, plan.type_by_variable)
    output = Output(plan, run.matcher, ranker, run.pipeline.budget)
    table = output.table(run.pipeline.join_all(matches), matches.spaces)
    return Result(
        table,
        columns=[
            ResultColumn(each.name, each.type, isinstance(each.expression, Aggregate))
            for each in plan.ir.columns
        ],
        query_name=plan.ir.name,
        branch=basis.branch,
        commit_id=basis.head.id,
    )


def explain_query(plan: Plan, *, basis: Basis, path: ReadPath) -> str:
    """How a read would be run now, as text; nothing is run."""
    run = _start(QueryCall(plan, {}, basis.head.created_at), basis, path)
    return Explainer(run.sources, run.pipeline.expander).explain(plan)


@dataclass(frozen=True, slots=True)
class _Run:
    """The parts that run one read."""

    sources: Sources
    matcher: Matcher
    pipeline: Pipeline


def _start(call: QueryCall, basis: Basis, path: ReadPath) -> _Run:
    memory = path.memory.of(path.tables.generation())
    budget = Budget(path.allowance)
    sources = Sources(
        basis.snapshot,
        catalog=basis.catalog,
        tables=basis.reader(path.tables),
        memory=memory,
        budget=budget,
    )
    matcher = Matcher(sources, Inputs(call.values, call.now))
    properties = call.plan.properties
    expander = Expander(sources, matcher, budget, path.access, properties)
    return _Run(sources, matcher, Pipeline(sources, matcher, expander, budget, properties))
