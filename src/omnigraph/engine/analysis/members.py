"""The nodes and edges of a selection at one commit, read into memory as a network.

Ids and ends are those that queries keep in memory, too. `LimitExceededError` means that they would
take more memory than one call may.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from omnigraph.engine.analysis.network import Network
from omnigraph.engine.analysis.selection import Selection
from omnigraph.engine.ops.query import ReadPath
from omnigraph.engine.read.budget import Budget
from omnigraph.engine.read.memory import Sources
from omnigraph.engine.read.spaces import UNBOUND, Codes, find_all
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import Entry, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import LimitExceededError
from omnigraph.model.limits import ANALYSIS_BYTES_MAX, ANALYSIS_EDGE_BYTES, ANALYSIS_NODE_BYTES


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes of some types by number: their ids, type by type, and where each type starts."""

    titles: tuple[str, ...]
    starts: tuple[int, ...]
    ids: pa.ChunkedArray

    def types_of(self, nodes: Codes) -> pa.Array:
        """The names of the types of nodes."""
        places = np.searchsorted(np.array(self.starts), nodes, "right") - 1
        return pa.array(self.titles, pa.string()).take(pa.array(places))

    def ids_of(self, nodes: Codes) -> pa.Array:
        """The ids of nodes."""
        taken = self.ids.take(pa.array(nodes))
        return pa.concat_arrays(taken.chunks) if taken.num_chunks else pa.array([], pa.string())

    def find(self, node: tuple[str, str]) -> int | None:
        """The number of a node, if it is there."""
        title, id = node
        place = self.titles.index(title)
        end = self.starts[place + 1] if place + 1 < len(self.starts) else len(self.ids)
        own = self.ids.slice(self.starts[place], end - self.starts[place]).combine_chunks()
        (found,) = find_all(pa.array([id], pa.string()), own)
        return None if found == UNBOUND else int(found) + self.starts[place]


def read_members(selection: Selection, *, basis: Basis, path: ReadPath) -> tuple[Network, Members]:
    """The network that a selection is at a commit, and who its nodes are."""
    reading = _Reading(selection, basis, path)
    return reading.network(), reading.members()


class _Reading:
    """One selection, read."""

    def __init__(self, selection: Selection, basis: Basis, path: ReadPath) -> None:
        self._selection, self._basis, self._tables = selection, basis, basis.reader(path.tables)
        # An id column is larger than what a query may hold before all of it is.
        allowance = replace(path.allowance, bytes_max=ANALYSIS_BYTES_MAX)
        self._kept = path.memory.of(path.tables.generation())
        self._sources = Sources(
            basis.snapshot,
            catalog=basis.catalog,
            tables=self._tables,
            memory=self._kept,
            budget=Budget(allowance),
        )
        self._require_memory()
        self._ids: list[pa.Array] = []
        self._starts: list[int] = []
        self._number_by_type: dict[str, Codes] = {}
        count = 0
        for declared in selection.nodes:
            ids, numbers = self._arrange(declared)
            self._ids.append(ids)
            self._starts.append(count)
            self._number_by_type[declared.name] = numbers + count
            count += len(ids)
        self._count = count

    def members(self) -> Members:
        """Who the nodes are."""
        ids = pa.chunked_array(self._ids, pa.string())
        return Members(self._selection.titles, tuple(self._starts), ids)

    def network(self) -> Network:
        """The edges of all types between them."""
        pairs = [self._pair(each) for each in self._selection.edges]
        sources = np.concatenate([sources for sources, _targets in pairs])
        return Network(self._count, sources, np.concatenate([targets for _, targets in pairs]))

    def _arrange(self, declared: NodeType) -> tuple[pa.Array, Codes]:
        """The ids of a type in order, and the place that each of its codes has there."""
        if self._find_entry(declared) is None:
            # A type that was added after the snapshot has no rows in it.
            return pa.array([], pa.string()), np.zeros(0, np.int64)
        space = self._sources.nodes(declared.name)
        order = np.argsort(space.id_keys(space.every()), kind="stable")
        numbers = np.empty_like(order)
        numbers[order] = np.arange(len(order))
        return space.column("id").take(pa.array(order)), numbers

    def _pair(self, declared: EdgeType) -> tuple[Codes, Codes]:
        """The numbers of both ends of every edge of a type."""
        entry = self._find_entry(declared)
        if entry is None or not entry.row_count:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        topology = self._kept.topologies.topology(entry.at, tables=self._tables)
        sources = self._number(topology.ids, declared.source)[topology.sources]
        targets = self._number(topology.ids, declared.target)[topology.targets]
        is_whole = (sources != UNBOUND) & (targets != UNBOUND)
        if is_whole.all():
            return sources, targets
        return sources[is_whole], targets[is_whole]

    def _number(self, ids: pa.Array, type_name: str) -> Codes:
        """The numbers of ids of a type, unbound where there is no such node."""
        if not len(self._number_by_type[type_name]):
            return np.full(len(ids), UNBOUND)
        codes = self._sources.nodes(type_name).find(ids)
        return np.append(self._number_by_type[type_name], UNBOUND)[codes]

    def _find_entry(self, declared: NodeType | EdgeType) -> Entry | None:
        return self._basis.snapshot.entries.get(table_key_of(declared))

    def _require_memory(self) -> None:
        needed = sum(
            entry.row_count * each_bytes
            for types, each_bytes in (
                (self._selection.edges, ANALYSIS_EDGE_BYTES),
                (self._selection.nodes, ANALYSIS_NODE_BYTES),
            )
            for entry in map(self._find_entry, types)
            if entry is not None
        )
        if needed > ANALYSIS_BYTES_MAX:
            raise LimitExceededError(
                resource='the memory of an analysis with engine="local" in bytes',
                limit=ANALYSIS_BYTES_MAX,
                found=needed,
            )
