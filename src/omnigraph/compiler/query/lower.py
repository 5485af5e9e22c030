"""Lowering: resolved `match` clauses to a pipeline of operators.

The order of clauses does not affect a result, so lowering chooses it: one scan for each connected
component of the pattern, expansions from bound variables, filters, negations, then optional
blocks. A pattern of several components is a cartesian product, which is legal and causes a
warning. Lowering reports no errors: the clauses were checked before.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

from omnigraph.compiler import ir
from omnigraph.compiler.query.ast import Binding, Clause, Traversal, Variable, variables_in
from omnigraph.compiler.query.clauses import (
    ResolvedBinding,
    ResolvedBlock,
    ResolvedClause,
    ResolvedFilter,
    ResolvedTraversal,
)
from omnigraph.compiler.query.expressions import Scope


def connected_components(groups: Iterable[Sequence[str]]) -> dict[str, str]:
    """The connected component of each name, identified by one of its names.

    The names of one group are connected.
    """
    part_by_name: dict[str, str] = {}

    def find(name: str) -> str:
        while (above := part_by_name.setdefault(name, name)) != name:
            part_by_name[name] = part_by_name[above]
            name = above
        return name

    for first, *others in groups:
        root = find(first)
        for other in others:
            part_by_name[find(other)] = root
    return {name: find(name) for name in list(part_by_name)}


def warn_cartesian_product(clauses: Sequence[Clause], scope: Scope) -> None:
    """Warn about every component of a pattern that is not connected with the first one."""
    referenced = ([name for name in variables_in([c]) if name in scope.variables] for c in clauses)
    parts = connected_components(names for names in referenced if names)
    seen: dict[str, str] = {}
    for variable in _bound_variables(clauses):
        if variable.name not in parts or parts[variable.name] in seen:
            continue
        if seen:
            first = next(iter(seen.values()))
            problem = f"nothing connects `${variable.name}` with `${first}`"
            advice = "every combination is returned; connect them by an edge or a condition"
            scope.diagnostics.warn("W3", problem, variable.span, advice)
        seen[parts[variable.name]] = variable.name


def _bound_variables(clauses: Sequence[Clause]) -> Iterator[Variable]:
    for clause in clauses:
        match clause:
            case Binding(variable=variable):
                yield variable
            case Traversal(source=source, target=target):
                yield from (source, target)
            case _:
                pass


_Bound: TypeAlias = "ChainMap[str, None]"
"""The bound variables, innermost block first; copying them would be too slow."""


def lower_clauses(
    clauses: Sequence[ResolvedClause], outer: _Bound | None = None
) -> tuple[ir.Operator, ...]:
    """The pipeline of a pattern, or of a block in it whose outer variables are already bound."""
    lowering = _Lowering(clauses, ChainMap() if outer is None else outer)
    lowering.scan_roots()
    lowering.expand_all()
    lowering.filter_rows()
    return tuple(lowering.operators)


class _Lowering:
    """The pipeline of one block under construction."""

    def __init__(self, clauses: Sequence[ResolvedClause], outer: _Bound) -> None:
        self.operators: list[ir.Operator] = []
        self._clauses = clauses
        self._outer = outer
        self._bound = outer.new_child()
        self._fresh_count_by_stem: Counter[str] = Counter()
        self._traversals = [c for c in clauses if isinstance(c, ResolvedTraversal)]
        self._conditions: dict[str, list[ir.Condition]] = {}
        for clause in clauses:
            if isinstance(clause, ResolvedBinding):
                self._conditions.setdefault(clause.variable, []).extend(clause.conditions)

    def scan_roots(self) -> None:
        """Scan one variable of each connected component.

        It is the first that a binding declares, or else the source of the first traversal.
        """
        ends = ((walk.source, walk.target) for walk in self._traversals)
        parts = connected_components(pair for pair in ends if ir.ANONYMOUS not in pair)
        rooted: set[str] = set()
        declared = [c for c in self._clauses if isinstance(c, ResolvedBinding)]
        for binding in declared:
            part = parts.get(binding.variable, binding.variable)
            if binding.variable not in self._bound and part not in rooted:
                rooted.add(part)
                self._scan(binding.variable, binding.type_name)
        rooted.update(part for name, part in parts.items() if name in self._outer)
        for walk in self._traversals:
            start, type_name = walk.source, walk.source_type
            if start == ir.ANONYMOUS and walk.target != ir.ANONYMOUS:
                start, type_name = walk.target, walk.target_type
            part = parts.get(start, start)
            if start != ir.ANONYMOUS and part not in rooted and start not in self._bound:
                rooted.add(part)
                self._scan(start, type_name)

    def expand_all(self) -> None:
        """Add the traversals, starting from bound variables, until none is left.

        Traversals are added in repeated sweeps in written order. The two heaps hold those that are
        ready in this sweep and in the next, so that a sweep never visits one that is not ready.
        """
        numbers_by_end: dict[str, list[int]] = {}
        this_sweep: list[int] = []
        next_sweep: list[int] = []
        for number, walk in enumerate(self._traversals):
            for end in {walk.source, walk.target} - {ir.ANONYMOUS}:
                numbers_by_end.setdefault(end, []).append(number)
            if walk.source in self._bound or walk.target in self._bound:
                this_sweep.append(number)
        done: set[int] = set()
        while this_sweep or next_sweep:
            if not this_sweep:
                this_sweep, next_sweep = next_sweep, []
            number = heappop(this_sweep)
            if number in done:
                continue
            done.add(number)
            for ready in numbers_by_end.pop(self._expand(self._traversals[number]), ()):
                heappush(this_sweep if ready > number else next_sweep, ready)
        for number, walk in enumerate(self._traversals):
            if number not in done:
                # Only `$_ edge $_` uses no variable; it starts from a separate scan.
                hidden = self._fresh(ir.ANONYMOUS)
                self._scan(hidden, walk.source_type)
                self._append_expand(walk, hidden, ir.ANONYMOUS, is_reversed=False)

    def filter_rows(self) -> None:
        """Add filters, negations and optional blocks, each after its variables are bound."""
        for name, conditions in self._conditions.items():
            if name in self._outer:
                self.operators.extend(ir.Filter(condition) for condition in conditions)
        optional: list[ResolvedBlock] = []
        early: list[ResolvedFilter | ResolvedBlock] = []
        late: list[ResolvedFilter | ResolvedBlock] = []
        for clause in self._clauses:
            match clause:
                case ResolvedBlock(is_optional=True):
                    optional.append(clause)
                case ResolvedFilter(references=needed) | ResolvedBlock(outer=needed):
                    is_ready = all(name in self._bound for name in needed)
                    (early if is_ready else late).append(clause)
                case ResolvedBinding() | ResolvedTraversal():
                    pass
        self._emit(early)
        for block in optional:
            inner = lower_clauses(block.clauses, self._bound)
            self.operators.append(ir.OptionalJoin(block.outer, inner))
            self._bind(_introduced(inner))
        self._emit(late)

    def _emit(self, clauses: Sequence[ResolvedFilter | ResolvedBlock]) -> None:
        self.operators.extend(
            ir.Filter(c.condition) for c in clauses if isinstance(c, ResolvedFilter)
        )
        self.operators.extend(
            ir.AntiJoin(c.outer, lower_clauses(c.clauses, self._bound))
            for c in clauses
            if isinstance(c, ResolvedBlock)
        )

    def _scan(self, variable: str, type_name: str) -> None:
        self.operators.append(ir.NodeScan(variable, type_name, self._take_conditions(variable)))
        self._bind({variable})

    def _bind(self, names: Iterable[str]) -> None:
        self._bound.update(dict.fromkeys(names))

    def _expand(self, walk: ResolvedTraversal) -> str:
        """Add the expansion for a traversal, and return the variable that it binds."""
        has_source, has_target = walk.source in self._bound, walk.target in self._bound
        if has_source and has_target:
            reached = self._fresh(walk.target)
            self._append_expand(walk, walk.source, reached, is_reversed=False)
            self.operators.append(ir.Filter(ir.SameEntity(reached, walk.target)))
            return reached
        if has_source:
            self._append_expand(walk, walk.source, walk.target, is_reversed=False)
            return walk.target
        self._append_expand(walk, walk.target, walk.source, is_reversed=True)
        return walk.source

    def _append_expand(
        self, walk: ResolvedTraversal, source: str, target: str, *, is_reversed: bool
    ) -> None:
        self.operators.append(
            ir.Expand(
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
        self._bind({target, walk.edge_binding or ir.ANONYMOUS} - {ir.ANONYMOUS})

    def _take_conditions(self, variable: str) -> tuple[ir.Condition, ...]:
        if variable in self._outer:
            return ()
        return tuple(self._conditions.get(variable, ()))

    def _fresh(self, stem: str) -> str:
        """A variable that no query can name, because of the prime: `f'` for a second `f`."""
        while True:
            self._fresh_count_by_stem[stem] += 1
            count = self._fresh_count_by_stem[stem]
            name = f"{stem}'" if count == 1 else f"{stem}'{count}"
            if name not in self._bound:
                return name


def _introduced(operators: Sequence[ir.Operator]) -> set[str]:
    """The variables that a pipeline binds for later operators."""
    names: set[str] = set()
    for operator in operators:
        match operator:
            case ir.NodeScan(variable=variable):
                names.add(variable)
            case ir.Expand(target=target, edge_binding=edge):
                names |= {target, edge or ir.ANONYMOUS}
            case ir.OptionalJoin(inner=inner):
                names |= _introduced(inner)
            case ir.Filter() | ir.AntiJoin():
                pass
    return names - {ir.ANONYMOUS}
