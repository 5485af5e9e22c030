"""The steps of a plan as frames: scans, joins, left joins and anti joins.

The steps and their order are those of the engine in process. Unconnected parts of the pattern are
joined only when a condition uses two of them. Blocks run once for all distinct combinations of the
variables they use, and are joined back. A large plan is materialised before it is used several
times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as f

from omnigraph.compiler.ir import Comparator, Comparison, Condition, PropertyValue, SameEntity
from omnigraph.engine.read.plan import (
    AntiStep,
    ExpandStep,
    FilterStep,
    OptionalStep,
    ScanStep,
    Step,
    variables_of,
)
from omnigraph.spark.query.column_pruning import references_properties
from omnigraph.spark.query.entities import Entities
from omnigraph.spark.query.expand import Expander
from omnigraph.spark.query.relation import WEIGHT, Relation, equal_ids, join, make_unit

Parts = tuple[Relation, ...]

_FEW = 4
"""A block starts from the bound rows if there are this many times fewer of them than nodes."""

_LEAVES_MAX = 16
"""Most scans of a plan that is repeated in another one.

A sequence of a few blocks and walks would otherwise have tens of thousands of scans, which Spark
takes minutes to plan.
"""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Compiles the steps of one read to frames."""

    entities: Entities
    expander: Expander

    def run(self, steps: Sequence[Step]) -> Relation:
        """The rows that a whole pattern matches."""
        return self._join_all(self._run(steps, ()))

    def _run(self, steps: Sequence[Step], parts: Parts) -> Parts:
        for number, step in enumerate(steps):
            # Rows that a later step multiplies are cheaper to count now.
            folds = any(isinstance(each, ExpandStep) for each in steps[number + 1 :])
            parts = tuple(each.keep(step.live, folds=folds) for each in self._step(step, parts))
        return parts

    def _step(self, step: Step, parts: Parts) -> Parts:
        match step:
            case ScanStep(scan):
                return (*parts, self.entities.scan(scan))
            case ExpandStep(expand):
                part, rest = self._split(parts, {expand.source})
                if expand.hops_max > 1:
                    part = _materialize_large(part)
                return (*rest, self.expander.expand(step, part))
            case FilterStep(condition):
                return self._filter(condition, parts)
            case AntiStep():
                return self._negate(step, parts)
            case OptionalStep():
                return self._attach(step, parts)

    # Conditions

    def _filter(self, condition: Condition, parts: Parts) -> Parts:
        wanted = variables_of(condition)
        holds = self.entities.expressions.condition(condition)
        touched = [part for part in parts if part.variables & wanted]
        rest = [part for part in parts if not part.variables & wanted]
        match touched, condition:
            case (
                [left, right],
                SameEntity() | Comparison(PropertyValue(), Comparator.EQ, PropertyValue()),
            ):
                return (*rest, join(left, right, holds))
            case _:
                return (*rest, self._join_all(touched).where(holds))

    # Blocks

    def _negate(self, step: AntiStep, parts: Parts) -> Parts:
        part, rest = self._split(parts, step.outer)
        part = _materialize_large(part)
        found = self._find(step, part)
        ids, found_ids = _id_columns(part, step.outer)
        starts = found.frame.select(*_renamed(ids, found_ids))
        frame = part.frame.join(starts, equal_ids(ids, found_ids), "left_anti")
        leaves = part.leaves + found.leaves
        return (*rest, replace(part, frame=frame, whole=None, leaves=leaves))

    def _attach(self, step: OptionalStep, parts: Parts) -> Parts:
        part, rest = self._split(parts, step.outer)
        part = _materialize_large(part)
        found = self._find(step, part)
        introduced = {name: found.columns[name] for name in step.introduced if name in step.live}
        news = [column for columns in introduced.values() for column in columns]
        ids, found_ids = _id_columns(part, step.outer)
        times = f"found_{WEIGHT}"
        matches = found.frame.select(*_renamed(ids, found_ids), *news, found.weight.alias(times))
        joined = part.frame.join(matches, equal_ids(ids, found_ids), "left")
        weight = part.weight * f.coalesce(f.col(times), f.lit(1))
        is_weighted = part.is_weighted or found.is_weighted
        weights = [weight.alias(WEIGHT)] if is_weighted else []
        attached = replace(
            part,
            frame=joined.select(*part.names, *news, *weights),
            columns={**part.columns, **introduced},
            is_weighted=is_weighted,
            is_distinct=part.is_distinct and found.is_distinct,
            whole=None,
            leaves=part.leaves + found.leaves,
        )
        return (*rest, attached)

    def _find(self, step: AntiStep | OptionalStep, part: Relation) -> Relation:
        """The matches of a block for each distinct combination of the variables it uses."""
        if not step.outer:
            return self._join_all(self._run(step.inner, ()))
        starts = self._start_anywhere(step, part) or _start_from(step.outer, part)
        return self._join_all(self._run(step.inner, (starts,)))

    def _start_anywhere(self, step: AntiStep | OptionalStep, part: Relation) -> Relation | None:
        """All nodes from which a block could start, if that is cheaper than finding the starts.

        Matches from other starts are dropped when the block is joined back.
        """
        if len(step.outer) != 1:
            return None
        (variable,) = step.outer
        sources = [
            self.entities.near_type(each.expand)
            for each in step.inner
            if isinstance(each, ExpandStep) and each.expand.source == variable
        ]
        if not sources or references_properties(step.inner, variable):
            return None
        if part.estimate * _FEW < self.entities.frames.count(sources[0]):
            return None
        return self.entities.list_all(sources[0], variable)

    # Parts

    def _split(self, parts: Parts, wanted: Iterable[str]) -> tuple[Relation, Parts]:
        """The part that binds some variables, joined from several if needed, and the others."""
        names = frozenset(wanted)
        touched = [part for part in parts if part.variables & names]
        rest = tuple(part for part in parts if not part.variables & names)
        return self._join_all(touched), rest

    def _join_all(self, parts: Sequence[Relation]) -> Relation:
        if not parts:
            return make_unit(self.entities.frames.session)
        return reduce(lambda left, right: join(left, right, None), parts)


def _start_from(variables: Sequence[str], part: Relation) -> Relation:
    """Each combination of some variables of a part, once."""
    columns = {name: part.columns[name] for name in variables}
    names = [column for each in columns.values() for column in each]
    return Relation(
        frame=part.frame.select(*names).dropDuplicates(part.ids(variables)),
        columns=columns,
        is_weighted=False,
        is_distinct=True,
        whole=None,
        estimate=part.estimate,
        leaves=part.leaves,
    )


def _materialize_large(part: Relation) -> Relation:
    """The part as a plan that can be used several times in another plan."""
    return part.materialize() if part.leaves > _LEAVES_MAX else part


def _id_columns(part: Relation, variables: Sequence[str]) -> tuple[list[str], list[str]]:
    """The id columns of some variables, and names for them on the other side of a join."""
    ids = part.ids(variables)
    return ids, [f"found_{name}" for name in ids]


def _renamed(names: Sequence[str], others: Sequence[str]) -> list[Column]:
    return [f.col(name).alias(other) for name, other in zip(names, others, strict=True)]
