"""The pipeline: runs the steps of a plan over the relations of a pattern.

It starts from one empty row. Disconnected parts of the pattern are separate relations; a condition
on two of them joins them, by key if it requires equality. Negations and optional blocks run once
for all distinct combinations of the outer variables that they use, and are joined back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.ir import (
    Comparator,
    Comparison,
    Condition,
    NodeScan,
    PropertyValue,
    SameEntity,
)
from omnigraph.engine.read.budget import Budget, Profile
from omnigraph.engine.read.cache import Sources
from omnigraph.engine.read.entities import (
    UNBOUND,
    EntityIndex,
    Indexes,
    Ordinals,
    WholeEntities,
    move,
    to_ordinals,
)
from omnigraph.engine.read.expand import Expander
from omnigraph.engine.read.filter import Filter, can_push_down
from omnigraph.engine.read.plan import (
    AntiStep,
    ExpandStep,
    FilterStep,
    OptionalStep,
    ScanStep,
    Step,
    references_of,
    variables_of,
)
from omnigraph.engine.read.relation import (
    UNIT,
    Relation,
    count_joined,
    cross,
    join,
    pack,
)
from omnigraph.engine.rows.conditions import (
    ALWAYS,
    NEVER,
    BoundCondition,
    Column,
    Compare,
    to_predicate,
)
from omnigraph.model.types import Scalar
from omnigraph.storage.predicates import And


@dataclass(frozen=True, slots=True)
class Matches:
    """The rows of a pattern: its disconnected parts, and the entity indexes of all variables."""

    parts: tuple[Relation, ...]
    indexes: dict[str, EntityIndex]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Runs the steps of one read; `properties` are those that it uses, by variable.

    With a profile, every step is measured.
    """

    sources: Sources
    matcher: Filter
    expander: Expander
    budget: Budget
    properties: Mapping[str, set[str]]
    profile: Profile | None

    def run(self, steps: Sequence[Step]) -> Matches:
        """The rows that match a whole pattern."""
        return self._run(steps, Matches((UNIT,), {}))

    def measure(self, run: Callable[[], Matches]) -> Matches:
        """The matches that a step returns; measured if there is a profile."""
        if self.profile is None:
            return run()
        with self.profile.step() as measured:
            matches = run()
            measured.rows = prod(part.total for part in matches.parts)
        return matches

    def join_all(self, matches: Matches) -> Relation:
        """The product of all parts as one relation."""
        return reduce(self._cross, matches.parts, UNIT)

    def _run(self, steps: Sequence[Step], matches: Matches) -> Matches:
        for step in steps:
            self.budget.require_time()
            matches = self.measure(partial(self._run_and_keep, step, matches))
        return matches

    def _run_and_keep(self, step: Step, matches: Matches) -> Matches:
        """The rows after a step, with only the variables that later steps use."""
        matches = self._run_step(step, matches)
        parts = tuple(part.keep(step.live) for part in matches.parts)
        return Matches(parts, matches.indexes)

    def _run_step(self, step: Step, matches: Matches) -> Matches:
        match step:
            case ScanStep(scan):
                return self._scan(scan, matches)
            case ExpandStep(expand):
                part, rest = self._split(matches, {expand.source})
                return _with(rest, self.expander.expand(step, part, matches.indexes), matches)
            case FilterStep(condition):
                return self._filter(condition, matches)
            case AntiStep():
                return self._negate(step, matches)
            case OptionalStep():
                return self._attach(step, matches)

    # Scans

    def _scan(self, scan: NodeScan, matches: Matches) -> Matches:
        table = self.sources.nodes(scan.type_name)
        pushed = [
            each
            for each in scan.filters
            if can_push_down(each) and table.has_columns(_properties([each]))
        ]
        ordinals, index = self._find_entities(scan, pushed, table)
        relation = Relation(len(ordinals), {scan.variable: ordinals}, None)
        matches.indexes[scan.variable] = index
        for condition in scan.filters:
            if condition not in pushed:
                marks = self.matcher.marks(condition, relation, matches.indexes)
                relation = relation.take(marks)
        return _with(matches.parts, relation, matches)

    def _find_entities(
        self, scan: NodeScan, pushed: Sequence[Condition], table: WholeEntities
    ) -> tuple[Ordinals, EntityIndex]:
        """The entities that pass the pushed filters, and the index of their ordinals."""
        bound = [self.matcher.bind(each) for each in pushed]
        if NEVER in bound or not table.size:
            return np.zeros(0, np.int64), table
        bound = [each for each in bound if each != ALWAYS]
        if not bound:
            return table.present(), table
        found = self._find_by_key(scan, bound, table)
        if found is not None:
            return found, table
        names = _properties(pushed)
        if table.is_worth_reading(names):
            return table.matching(bound, names), table
        fetched = table.fetch(
            columns=self.properties.get(scan.variable, set()),
            predicate=And(tuple(to_predicate(each) for each in bound)),
        )
        return fetched.every(), fetched

    def _find_by_key(
        self, scan: NodeScan, bound: Sequence[BoundCondition], table: WholeEntities
    ) -> Ordinals | None:
        """The node whose key the only filter specifies.

        None if the filter does not specify a key, or if the ids are not worth reading.
        """
        match bound:
            case [Compare(Column(name, Scalar.STRING), Comparator.EQ, str(id))]:
                is_key = self.sources.catalog.nodes[scan.type_name].key == (name,)
                if not is_key or not table.is_worth_reading(["id"]):
                    return None
                # A key of one text is also the id, unless the node is older than the key.
                found = table.find_one(id)
                is_named = table.values(name, pa.string(), found).to_pylist() == [id]
                return found if is_named else None
            case _:
                return None

    # Conditions

    def _filter(self, condition: Condition, matches: Matches) -> Matches:
        wanted = variables_of(condition)
        touched = [part for part in matches.parts if part.variables & wanted]
        if len(touched) == 2 and (joined := self._join(condition, touched, matches)) is not None:
            rest = [part for part in matches.parts if not part.variables & wanted]
            return _with(rest, joined, matches)
        part, rest = self._split(matches, wanted)
        marks = self.matcher.marks(condition, part, matches.indexes)
        return _with(rest, part.take(marks), matches)

    def _join(
        self, condition: Condition, touched: Sequence[Relation], matches: Matches
    ) -> Relation | None:
        """Two parts joined by a condition that requires equality; None for another condition."""
        left, right = touched
        match condition:
            case SameEntity(one, other):
                if one in right.variables:
                    one, other = other, one
                moved = move(
                    right.ordinals[other],
                    source=matches.indexes[other],
                    target=matches.indexes[one],
                )
                return self._join_on(left, left.ordinals[one], right, moved)
            case Comparison(PropertyValue() as one, Comparator.EQ, PropertyValue() as other) if (
                one.type.element == other.type.element
            ):
                if one.variable in right.variables:
                    one, other = other, one
                return self._join_on_values(left, one, right, other, matches)
            case _:
                return None

    def _join_on_values(
        self,
        left: Relation,
        one: PropertyValue,
        right: Relation,
        other: PropertyValue,
        matches: Matches,
    ) -> Relation:
        lefts = self.matcher.values(one, left, matches.indexes)
        rights = self.matcher.values(other, right, matches.indexes)
        left_keys, right_keys = _equal_keys(lefts, rights)
        return self._join_on(left, left_keys, right, right_keys)

    def _join_on(
        self, left: Relation, left_keys: Ordinals, right: Relation, right_keys: Ordinals
    ) -> Relation:
        width = len(left.ordinals) + len(right.ordinals)
        self.budget.require_rows(count_joined(left_keys, right_keys), width=width)
        return join(left, left_keys, right, right_keys)

    # Blocks

    def _negate(self, step: AntiStep, matches: Matches) -> Matches:
        part, rest = self._split(matches, set(step.outer))
        distinct, groups = _distinct_starts(part, step.outer, matches.indexes)
        inner = self._run(step.inner, Matches((distinct,), dict(matches.indexes)))
        if not all(each.count for each in inner.parts):
            return _with(rest, part, matches)
        found, _ = self._split(inner, set(step.outer))
        is_found = np.zeros(distinct.count, np.bool_)
        is_found[_places(found, distinct, step.outer, matches.indexes)] = True
        return _with(rest, part.take(~is_found[groups]), matches)

    def _attach(self, step: OptionalStep, matches: Matches) -> Matches:
        part, rest = self._split(matches, set(step.outer))
        distinct, groups = _distinct_starts(part, step.outer, matches.indexes)
        inner = self._run(step.inner, Matches((distinct,), dict(matches.indexes)))
        found = self.join_all(inner)
        introduced = [name for name in step.introduced if name in step.live]
        for name in step.introduced:
            matches.indexes[name] = inner.indexes[name]
        if not found.count:
            nothing = np.full(part.count, UNBOUND, np.int64)
            for name in introduced:
                part = part.bind(name, nothing)
            return _with(rest, part, matches)
        places = _places(found, distinct, step.outer, matches.indexes)
        is_found = np.zeros(distinct.count, np.bool_)
        is_found[places] = True
        news = Relation(
            found.count, {name: found.ordinals[name] for name in introduced}, found.weights
        )
        joined = self._join_on(part, groups, news, places)
        left_alone = part.take(~is_found[groups])
        return _with(rest, _stack(joined, left_alone, introduced), matches)

    # Parts

    def _split(self, matches: Matches, wanted: Iterable[str]) -> tuple[Relation, list[Relation]]:
        """The part that binds some variables, or the product of several, and the other parts."""
        names = frozenset(wanted)
        touched = [part for part in matches.parts if part.variables & names]
        rest = [part for part in matches.parts if not part.variables & names]
        return reduce(self._cross, touched[1:], touched[0] if touched else UNIT), rest

    def _cross(self, left: Relation, right: Relation) -> Relation:
        if not left.ordinals and left.count == 1:
            if left.weights is None:
                return right
            return right.weigh(np.repeat(left.weights, right.count))
        width = len(left.ordinals) + len(right.ordinals)
        self.budget.require_rows(left.count * right.count, width=width)
        return cross(left, right)


def _with(rest: Iterable[Relation], part: Relation, matches: Matches) -> Matches:
    return Matches((*rest, part), matches.indexes)


def _properties(conditions: Iterable[Condition]) -> list[str]:
    references = (reference for condition in conditions for reference in references_of(condition))
    names = (each.property if isinstance(each, PropertyValue) else "id" for each in references)
    return list(dict.fromkeys(names))


def _distinct_starts(
    part: Relation, outer: Sequence[str], indexes: Indexes
) -> tuple[Relation, Ordinals]:
    """The distinct combinations of some variables, and the combination of each row."""
    keys = pack(part, outer, {name: indexes[name].size for name in outer})
    _, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    ordinals = {name: part.ordinals[name][first] for name in outer}
    return Relation(len(first), ordinals, None), groups.astype(np.int64)


def _places(
    found: Relation, distinct: Relation, outer: Sequence[str], indexes: Indexes
) -> Ordinals:
    """The position of the distinct combination that each found row started from."""
    both = {name: np.concatenate([distinct.ordinals[name], found.ordinals[name]]) for name in outer}
    stacked = Relation(distinct.count + found.count, both, None)
    keys = pack(stacked, outer, {name: indexes[name].size for name in outer})
    # The distinct combinations are in key order, even if these keys differ from the first ones.
    return np.searchsorted(keys[: distinct.count], keys[distinct.count :])


def _stack(above: Relation, below: Relation, introduced: Sequence[str]) -> Relation:
    """The rows of two relations; those of the second leave some variables unbound."""
    for name in introduced:
        below = below.bind(name, np.full(below.count, UNBOUND, np.int64))
    ordinals = {
        name: np.concatenate([above.ordinals[name], below.ordinals[name]])
        for name in above.ordinals
    }
    weights = None
    if above.weights is not None or below.weights is not None:
        weights = np.concatenate([_weights(above), _weights(below)])
    return Relation(above.count + below.count, ordinals, weights)


def _weights(relation: Relation) -> Ordinals:
    return np.ones(relation.count, np.int64) if relation.weights is None else relation.weights


def _equal_keys(lefts: pa.Array, rights: pa.Array) -> tuple[Ordinals, Ordinals]:
    """Integers that are equal where values are; negative for null and NaN, which never match."""
    values = pa.concat_arrays([lefts, rights])
    if pa.types.is_floating(values.type):
        # Adding zero turns -0.0 into 0.0.
        values = pc.if_else(pc.is_nan(values), None, pc.add(values, pa.scalar(0, values.type)))
    keys = to_ordinals(values.dictionary_encode().indices)
    return keys[: len(lefts)], keys[len(lefts) :]
