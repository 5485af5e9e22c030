"""Resolved clauses to the pipeline of operators.

Clause order does not change a result, so the pipeline is: a scan for each unconnected part of the
pattern, expansions outward from what is bound, filters, negations, then optional blocks and what
looks at their variables. Pure; every fault was reported before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omnigraph.compiler.ir import (
    ANONYMOUS,
    AntiJoin,
    Condition,
    Expand,
    Filter,
    NodeScan,
    Operator,
    OptionalJoin,
    SameEntity,
)
from omnigraph.compiler.query.resolved import (
    ResolvedBinding,
    ResolvedClause,
    ResolvedFilter,
    ResolvedNegation,
    ResolvedOptional,
    ResolvedTraversal,
)


def lower_clauses(clauses: Sequence[ResolvedClause], bound: Iterable[str]) -> tuple[Operator, ...]:
    """The pipeline of one block whose outer variables are `bound` already."""
    lowering = _Lowering(clauses, set(bound))
    lowering.scan_roots()
    lowering.expand_all()
    lowering.filter_rows()
    return tuple(lowering.operators)


class _Lowering:
    """The pipeline of one block as it grows."""

    def __init__(self, clauses: Sequence[ResolvedClause], bound: set[str]) -> None:
        self.operators: list[Operator] = []
        self._clauses = clauses
        self._outer = frozenset(bound)
        self._bound = bound
        self._traversals = [c for c in clauses if isinstance(c, ResolvedTraversal)]
        self._conditions: dict[str, list[Condition]] = {}
        for clause in clauses:
            if isinstance(clause, ResolvedBinding):
                self._conditions.setdefault(clause.variable, []).extend(clause.conditions)

    def scan_roots(self) -> None:
        """Scan one variable of each connected part: the first that a binding declares, else the
        source of its first traversal."""
        parts = _connect(self._traversals)
        rooted: set[str] = set()
        declared = [c for c in self._clauses if isinstance(c, ResolvedBinding)]
        for binding in declared:
            part = parts.get(binding.variable, binding.variable)
            if binding.variable not in self._bound and part not in rooted:
                rooted.add(part)
                self._scan(binding.variable, binding.type_name)
        rooted.update(parts[name] for name in self._outer if name in parts)
        for walk in self._traversals:
            start, type_name = walk.source, walk.source_type
            if start == ANONYMOUS and walk.target != ANONYMOUS:
                start, type_name = walk.target, walk.target_type
            part = parts.get(start, start)
            if start == ANONYMOUS:
                continue
            if part not in rooted and start not in self._bound:
                rooted.add(part)
                self._scan(start, type_name)

    def expand_all(self) -> None:
        """Follow the traversals outward from what is bound until none is left."""
        waiting = self._traversals
        while waiting:
            left = [walk for walk in waiting if not self._expand(walk)]
            if len(left) == len(waiting):
                # Only `$_ edge $_` touches no variable; it starts from a scan of its own.
                hidden = self._fresh(ANONYMOUS)
                self._scan(hidden, left[0].source_type)
                self._append_expand(left[0], hidden, ANONYMOUS, is_reversed=False)
                left = left[1:]
            waiting = left

    def filter_rows(self) -> None:
        """Add filters, negations and optional blocks, each after what it looks at."""
        for name, conditions in self._conditions.items():
            if name in self._outer:
                self.operators.extend(Filter(condition) for condition in conditions)
        optional = [c for c in self._clauses if isinstance(c, ResolvedOptional)]
        early, late = self._split_by_readiness()
        self._emit(early)
        for block in optional:
            inner = lower_clauses(block.clauses, self._bound)
            self.operators.append(OptionalJoin(block.outer, inner))
            self._bound |= _introduced(inner)
        self._emit(late)

    def _split_by_readiness(
        self,
    ) -> tuple[list[ResolvedFilter | ResolvedNegation], list[ResolvedFilter | ResolvedNegation]]:
        early: list[ResolvedFilter | ResolvedNegation] = []
        late: list[ResolvedFilter | ResolvedNegation] = []
        for clause in self._clauses:
            match clause:
                case ResolvedFilter(mentions=mentions):
                    (early if mentions <= self._bound else late).append(clause)
                case ResolvedNegation(outer=outer):
                    (early if self._bound.issuperset(outer) else late).append(clause)
                case ResolvedBinding() | ResolvedTraversal() | ResolvedOptional():
                    pass
        return early, late

    def _emit(self, clauses: Sequence[ResolvedFilter | ResolvedNegation]) -> None:
        self.operators.extend(Filter(c.condition) for c in clauses if isinstance(c, ResolvedFilter))
        self.operators.extend(
            AntiJoin(c.outer, lower_clauses(c.clauses, self._bound))
            for c in clauses
            if isinstance(c, ResolvedNegation)
        )

    def _scan(self, variable: str, type_name: str) -> None:
        self.operators.append(NodeScan(variable, type_name, self._take_conditions(variable)))
        self._bound.add(variable)

    def _expand(self, walk: ResolvedTraversal) -> bool:
        """Add the expansion for a traversal if one of its ends is bound."""
        has_source, has_target = walk.source in self._bound, walk.target in self._bound
        if has_source and has_target:
            reached = self._fresh(walk.target)
            self._append_expand(walk, walk.source, reached, is_reversed=False)
            self.operators.append(Filter(SameEntity(reached, walk.target)))
        elif has_source:
            self._append_expand(walk, walk.source, walk.target, is_reversed=False)
        elif has_target:
            self._append_expand(walk, walk.target, walk.source, is_reversed=True)
        else:
            return False
        return True

    def _append_expand(
        self, walk: ResolvedTraversal, source: str, target: str, *, is_reversed: bool
    ) -> None:
        self.operators.append(
            Expand(
                source,
                target,
                walk.edge_type,
                walk.direction.reversed if is_reversed else walk.direction,
                walk.source_type if is_reversed else walk.target_type,
                walk.hops_min,
                walk.hops_max,
                self._take_conditions(target),
                walk.edge_binding,
            )
        )
        self._bound |= {target, walk.edge_binding or ANONYMOUS} - {ANONYMOUS}

    def _take_conditions(self, variable: str) -> tuple[Condition, ...]:
        if variable in self._outer:
            return ()
        return tuple(self._conditions.get(variable, ()))

    def _fresh(self, stem: str) -> str:
        """A variable that no text can name, because of the prime: `f'` for a second `f`."""
        name = f"{stem}'"
        while name in self._bound:
            name += "'"
        return name


def _connect(traversals: Sequence[ResolvedTraversal]) -> dict[str, str]:
    """The connected part of each variable, named by one of its variables."""
    part_by_variable: dict[str, str] = {}

    def find(name: str) -> str:
        while (above := part_by_variable.setdefault(name, name)) != name:
            part_by_variable[name] = part_by_variable[above]
            name = above
        return name

    for walk in traversals:
        if ANONYMOUS not in (walk.source, walk.target):
            part_by_variable[find(walk.source)] = find(walk.target)
    return {name: find(name) for name in list(part_by_variable)}


def _introduced(operators: Sequence[Operator]) -> set[str]:
    """The variables that a pipeline binds for those who come after it."""
    names: set[str] = set()
    for operator in operators:
        match operator:
            case NodeScan(variable=variable):
                names.add(variable)
            case Expand(target=target, edge_binding=edge):
                names |= {target, edge or ANONYMOUS}
            case OptionalJoin(inner=inner):
                names |= _introduced(inner)
            case Filter() | AntiJoin():
                pass
    return names - {ANONYMOUS}
