"""Graph traversal: from the entities of one variable to their neighbours.

A cost rule chooses between index lookups, hop by hop, and the adjacency of the whole edge type in
memory. The expansion computes only what later steps use: rows of neighbours, weights of the far
end, or degrees. Both access paths give the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.ir import ANONYMOUS, Direction, Expand
from omnigraph.engine.read.adjacency import (
    AnyAdjacency,
    Ends,
    breadth_first_reach,
    make_adjacency,
    make_topology,
)
from omnigraph.engine.read.budget import Budget, Profile
from omnigraph.engine.read.cache import Sources
from omnigraph.engine.read.entities import (
    UNBOUND,
    EntityIndex,
    FetchedEntities,
    Marks,
    Ordinals,
    find_all,
    join_fetched,
    move,
    one_chunk,
)
from omnigraph.engine.read.filter import Filter
from omnigraph.engine.read.plan import ExpandStep, cap_hops
from omnigraph.engine.read.relation import Relation, require_exact
from omnigraph.model.errors import InvalidValueError, plural
from omnigraph.model.limits import (
    EXPAND_CSR_FACTOR,
    EXPAND_INDEXED_FRONTIER_MAX,
    EXPAND_INDEXED_HOPS_MAX,
    EXPAND_PROBES_MAX,
    EXPAND_READ_EDGES_MAX,
    PROBED_VALUES_MAX,
)
from omnigraph.storage.predicates import OneOf, Or

FRONTIER_VARIABLE = "OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER"
HOPS_VARIABLE = "OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS"

# No graph has more entities than a number of this many digits can express.
_BOUND_DIGITS_MAX = 15


class TraversalMode(StrEnum):
    """How traversals find edges: chosen by cost, or always by one access path."""

    AUTO = "auto"
    CSR = "csr"
    INDEXED = "indexed"


@dataclass(frozen=True, slots=True)
class LookupBounds:
    """The largest traversals that look edges up in an index instead of holding them in memory.

    `frontier_max` bounds the entities that a traversal starts from, and `hops_max` its hops. A type
    of at most `edges_max` edges that is used repeatedly is read by the query; a larger one in the
    background, while queries look edges up.
    """

    frontier_max: int
    hops_max: int
    edges_max: int


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The settings of an open graph that apply to all its traversals."""

    forced: TraversalMode
    bounds: LookupBounds


DEFAULT_LOOKUPS = LookupBounds(
    EXPAND_INDEXED_FRONTIER_MAX, EXPAND_INDEXED_HOPS_MAX, EXPAND_READ_EDGES_MAX
)


@dataclass(frozen=True, slots=True)
class Access:
    """The chosen access path and the reason for it."""

    mode: TraversalMode
    reason: str

    @property
    def path(self) -> str:
        """The access path in words."""
        is_indexed = self.mode is TraversalMode.INDEXED
        return (
            "edges looked up by the ids of the nodes"
            if is_indexed
            else "all edges of the type in memory"
        )


def parse_lookups(environment: Mapping[str, str]) -> LookupBounds:
    """The lookup bounds that environment variables set, or the defaults.

    Zero disables index lookups. A value that is not a whole number of at most 15 digits raises
    `InvalidValueError`.
    """
    return LookupBounds(
        _parse_bound(environment, FRONTIER_VARIABLE, DEFAULT_LOOKUPS.frontier_max),
        _parse_bound(environment, HOPS_VARIABLE, DEFAULT_LOOKUPS.hops_max),
        DEFAULT_LOOKUPS.edges_max,
    )


def choose_access(
    *,
    rules: AccessRules,
    frontier: int,
    hops: int,
    edge_count: int,
    source_count: int,
    is_cached: bool,
    probes: int,
) -> Access:
    """The access path of one traversal from `frontier` of `source_count` entities."""
    if rules.forced is not TraversalMode.AUTO:
        return Access(rules.forced, "forced by the environment")
    if is_cached:
        return Access(TraversalMode.CSR, "the edges are in memory")
    if frontier > rules.bounds.frontier_max:
        return Access(TraversalMode.CSR, f"it starts from {frontier:,} {plural(frontier, 'node')}")
    if hops > rules.bounds.hops_max:
        return Access(TraversalMode.CSR, f"it goes {hops} {plural(hops, 'hop')}")
    if probes > EXPAND_PROBES_MAX and edge_count <= rules.bounds.edges_max:
        return Access(TraversalMode.CSR, "the edges of this type are used repeatedly")
    looked_up = estimate_edges(
        frontier=frontier, hops=hops, edge_count=edge_count, source_count=source_count
    )
    if looked_up * EXPAND_CSR_FACTOR > edge_count:
        return Access(TraversalMode.CSR, f"about all {edge_count:,} edges are needed")
    return Access(TraversalMode.INDEXED, f"about {looked_up:,} of {edge_count:,} edges are needed")


def estimate_edges(*, frontier: int, hops: int, edge_count: int, source_count: int) -> int:
    """An estimate of the edges that a traversal visits, if every node has the average degree."""
    degree = edge_count / max(source_count, 1)
    met, reached = 0.0, float(frontier)
    for _ in range(hops):
        followed = reached * degree
        met += followed
        reached = min(followed, float(source_count))
        if met >= edge_count:
            return edge_count
    return int(met)


def _parse_bound(environment: Mapping[str, str], name: str, usual: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) <= _BOUND_DIGITS_MAX):
        raise InvalidValueError(
            subject=name,
            expected="a whole number",
            value=text,
            problem=f"{text!r} is not a whole number of at most {_BOUND_DIGITS_MAX} digits",
        )
    return int(text)


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Adjacency from the rows of a relation to the entity index of the target.

    `rows` holds one row of the adjacency for each row of the relation, and `edges` is the entity
    index of the edges.
    """

    adjacency: AnyAdjacency
    rows: Ordinals
    target: EntityIndex
    edges: EntityIndex


@dataclass(frozen=True, slots=True)
class Expander:
    """Runs the expansions of one read; `properties` are those that it uses, by variable.

    With a profile, the chosen access paths are recorded.
    """

    sources: Sources
    matcher: Filter
    budget: Budget
    access: AccessRules
    properties: Mapping[str, set[str]]
    profile: Profile | None

    def expand(
        self, step: ExpandStep, relation: Relation, indexes: dict[str, EntityIndex]
    ) -> Relation:
        """The rows after an expansion; adds the entity indexes of new variables to `indexes`."""
        expand = cap_hops(step.expand, self.sources.catalog)
        is_bound = relation.ordinals[expand.source] != UNBOUND
        if not is_bound.all():
            relation = relation.take(is_bound)
        if expand.hops_min > expand.hops_max or not relation.count:
            return self._find_nothing(expand, relation, indexes)
        near = self._find_neighbours(expand, relation, indexes[expand.source])
        indexes[expand.target] = near.target
        if expand.edge_binding is not None:
            indexes[expand.edge_binding] = near.edges
        if expand.hops_max > 1:
            near = self._reach(expand, near)
        return self._follow(step, near, relation, indexes)

    def _find_nothing(
        self, expand: Expand, relation: Relation, indexes: dict[str, EntityIndex]
    ) -> Relation:
        nothing = relation.take(np.zeros(0, np.int64))
        indexes[expand.target] = self.sources.nodes(expand.target_type)
        nothing = nothing.bind(expand.target, np.zeros(0, np.int64))
        if expand.edge_binding is not None:
            indexes[expand.edge_binding] = self.sources.edges(expand.edge_type)
            nothing = nothing.bind(expand.edge_binding, np.zeros(0, np.int64))
        return nothing

    def choose(self, expand: Expand, *, frontier: int) -> Access:
        """The access path of an expansion that starts from `frontier` entities."""
        entry = self.sources.edge_entry(expand.edge_type)
        topologies, edges = self.sources.cache.topologies, self.sources.edges(expand.edge_type)
        is_cached = topologies.has_adjacency(self._ends(expand)) or (
            entry.row_count <= self.access.bounds.edges_max and topologies.is_cached(edges.base.at)
        )
        return choose_access(
            rules=self.access,
            frontier=frontier,
            hops=expand.hops_max,
            edge_count=entry.row_count,
            source_count=self.sources.node_entry(self._near_type(expand)).row_count,
            is_cached=is_cached,
            probes=topologies.probes(edges.base.at),
        )

    def _near_type(self, expand: Expand) -> str:
        declared = self.sources.catalog.edges[expand.edge_type]
        return declared.target if expand.direction is Direction.IN else declared.source

    def _ends(self, expand: Expand) -> Ends:
        """The adjacency between whole types that an expansion can use."""
        return Ends(
            edges=self.sources.edges(expand.edge_type),
            source=self.sources.nodes(self._near_type(expand)),
            target=self.sources.nodes(expand.target_type),
            direction=expand.direction,
            keeps_edges=expand.edge_binding is not None,
        )

    # Execution strategies

    def _follow(
        self,
        step: ExpandStep,
        near: _Neighbours,
        relation: Relation,
        indexes: dict[str, EntityIndex],
    ) -> Relation:
        self.budget.require_time()
        target, live = step.expand.target, step.live
        marks = self._target_marks(step.expand, near.target)
        needs_target = target != ANONYMOUS and target in live
        needs_edges = bool(step.edge_filters) or step.expand.edge_binding in live
        if needs_edges or (needs_target and (relation.variables & live or _is_small(near))):
            return self._list(step, near, marks, relation, indexes)
        if needs_target:
            return _push(target, near, marks, relation)
        if marks is None:
            return relation.weigh(near.adjacency.degrees_at(near.rows))
        return relation.weigh(near.adjacency.degrees_among(marks)[near.rows])

    def _list(
        self,
        step: ExpandStep,
        near: _Neighbours,
        marks: Marks | None,
        relation: Relation,
        indexes: dict[str, EntityIndex],
    ) -> Relation:
        """One row for each neighbour of each row."""
        adjacency, edge = near.adjacency, step.expand.edge_binding
        count = int(adjacency.degrees_at(near.rows).sum())
        self.budget.require_rows(count, width=len(relation.ordinals) + 3)
        owners, places = adjacency.gather(near.rows)
        ends = adjacency.ends_at(places)
        if marks is not None:
            is_marked = marks[ends]
            owners, places, ends = owners[is_marked], places[is_marked], ends[is_marked]
        listed = relation.take(owners)
        if step.expand.target != ANONYMOUS:
            listed = listed.bind(step.expand.target, ends)
        if edge is not None and edge != ANONYMOUS:
            listed = listed.bind(edge, adjacency.edges_at(places))
        for condition in step.edge_filters:
            listed = listed.take(self.matcher.marks(condition, listed, indexes))
        return listed

    def _reach(self, expand: Expand, near: _Neighbours) -> _Neighbours:
        """Adjacency to all nodes within the hop bounds instead of to direct neighbours."""
        starts, rows = np.unique(near.rows, return_inverse=True)
        adjacency = breadth_first_reach(
            near.adjacency,
            starts=starts,
            hops_min=expand.hops_min,
            hops_max=expand.hops_max,
            budget=self.budget,
        )
        return replace(near, adjacency=adjacency, rows=rows.astype(np.int64))

    def _target_marks(self, expand: Expand, target: EntityIndex) -> Marks | None:
        if not expand.filters:
            return None
        every = target.every()
        entities = Relation(len(every), {expand.target: every}, None)
        marks = np.ones(len(every), np.bool_)
        for condition in expand.filters:
            marks &= self.matcher.marks(condition, entities, {expand.target: target})
        return marks

    # Edge access

    def _find_neighbours(
        self, expand: Expand, relation: Relation, source: EntityIndex
    ) -> _Neighbours:
        ordinals = relation.ordinals[expand.source]
        access = self.choose(expand, frontier=_count_distinct(ordinals))
        if self.profile is not None:
            self.profile.note_path(access.path)
        if access.mode is TraversalMode.INDEXED:
            return self._probe(expand, ordinals, source)
        # The adjacency holds the ends of every edge and the neighbours of every node.
        edge_count = self.sources.edge_entry(expand.edge_type).row_count
        self.budget.require_rows(edge_count, width=4)
        ends = self._ends(expand)
        ordinals = move(ordinals, source=source, target=ends.source)
        topologies, tables = self.sources.cache.topologies, self.sources.tables
        adjacency = topologies.adjacency(ends, tables=tables)
        return _Neighbours(adjacency, ordinals, ends.target, ends.edges)

    def _probe(self, expand: Expand, ordinals: Ordinals, source: EntityIndex) -> _Neighbours:
        """Look up edges hop by hop, then the nodes that they lead to."""
        topologies, ends = self.sources.cache.topologies, self._ends(expand)
        lookups = topologies.note_probe(ends.edges.base.at)
        if lookups > EXPAND_PROBES_MAX and ends.edges.size > self.access.bounds.edges_max:
            topologies.prepare(ends, tables=self.sources.tables)
        starts, rows = np.unique(ordinals, return_inverse=True)
        # An index of the starts alone: arrays as long as the type would cost more than the lookup.
        near = FetchedEntities(pa.table({"id": source.ids(starts)}), whole=source.whole)
        frontier = seen = near.ids(near.every())
        found: list[pa.Table] = []
        for _ in range(expand.hops_max):
            edges = self._probe_edges(expand, frontier)
            found.append(edges)
            far = [one_chunk(edges[end]) for end in _FAR_ENDS[expand.direction]]
            reached = pa.concat_arrays(far).unique()
            frontier = reached.filter(pc.invert(pc.is_in(reached, value_set=seen)))
            seen = pa.concat_arrays([seen, frontier])
            if not len(frontier):
                break
        # An edge between two entities of the frontier is found twice, once from each end.
        edges = _first_of_each(pa.concat_tables(found))
        target = self._probe_nodes(expand, seen)
        if expand.hops_max > 1:
            rows, near = move(rows, source=near, target=target), target
        adjacency = make_adjacency(
            make_topology(edges["src"], edges["dst"], ordinals=None),
            direction=expand.direction,
            source=near,
            target=target,
            keeps_edges=expand.edge_binding is not None,
        )
        found_edges = FetchedEntities(edges, whole=ends.edges)
        return _Neighbours(adjacency, rows, target, found_edges)

    def _probe_edges(self, expand: Expand, frontier: pa.Array) -> pa.Table:
        wanted = self.properties.get(expand.edge_binding or ANONYMOUS, set()) | {"src", "dst"}
        parts = []
        for some in _slices(frontier):
            self.budget.require_time()
            predicate = Or(tuple(OneOf(end, some) for end in _NEAR_ENDS[expand.direction]))
            edges = self.sources.edges(expand.edge_type)
            parts.append(edges.fetch(columns=wanted, predicate=predicate))
        return join_fetched(parts).rows

    def _probe_nodes(self, expand: Expand, ids: pa.Array) -> FetchedEntities:
        wanted = self.properties.get(expand.target, set())
        parts = []
        nodes = self.sources.nodes(expand.target_type)
        for some in _slices(ids):
            self.budget.require_time()
            parts.append(nodes.fetch_ids(some, columns=wanted))
        return join_fetched(parts)


_NEAR_ENDS = {
    Direction.OUT: ("src",),
    Direction.IN: ("dst",),
    Direction.BOTH: ("src", "dst"),
}
_FAR_ENDS = {Direction.OUT: ("dst",), Direction.IN: ("src",), Direction.BOTH: ("src", "dst")}


def _is_small(near: _Neighbours) -> bool:
    """Whether an expansion makes few rows, compared with the entries of its adjacency."""
    adjacency = near.adjacency
    return int(adjacency.degrees_at(near.rows).sum()) * _PUSHED < adjacency.entry_count


_PUSHED = 4
"""The cost of listing a neighbour, relative to pushing a weight to it."""


def _push(target: str, near: _Neighbours, marks: Marks | None, relation: Relation) -> Relation:
    """Each entity at the far end, weighted by the rows that lead to it; drops other variables."""
    adjacency = near.adjacency
    sent = np.bincount(near.rows, weights=relation.weights, minlength=adjacency.source_count)
    arrived = adjacency.push(sent.astype(np.float64))
    require_exact(arrived)
    if marks is not None:
        arrived = np.where(marks, arrived, 0)
    left = np.flatnonzero(arrived)
    return Relation(len(left), {target: left}, arrived[left].astype(np.int64))


def _count_distinct(ordinals: Ordinals) -> int:
    # Far above the bound for lookups, the exact number does not matter.
    return len(ordinals) if len(ordinals) > 4 * PROBED_VALUES_MAX else len(np.unique(ordinals))


def _slices(ids: pa.Array) -> list[pa.Array]:
    starts = range(0, max(len(ids), 1), PROBED_VALUES_MAX)
    return [ids.slice(start, PROBED_VALUES_MAX) for start in starts]


def _first_of_each(edges: pa.Table) -> pa.Table:
    ids = one_chunk(edges["id"])
    return edges.take(pa.array(find_all(ids.unique(), ids)))
