"""Everything that an open graph keeps in memory for its reads, and the way to it from a snapshot.

`Sources` is what one read looks at: the versions that its snapshot pins and nothing later.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from omnigraph.engine.read.budget import Budget
from omnigraph.engine.read.search.vectors import VectorColumn, vector_column
from omnigraph.engine.read.spaces import Marks, TableSpace, WarmColumns
from omnigraph.engine.read.topology import WarmTopologies
from omnigraph.engine.read.warm import Warm
from omnigraph.engine.state.snapshot import Entry, Snapshot, make_table_key
from omnigraph.model.catalog import Catalog, TypeKind
from omnigraph.model.deferred import defer
from omnigraph.model.limits import WARM_COLUMN_BYTES_MAX, WARM_SEARCH_BYTES_MAX
from omnigraph.model.observer import Observer
from omnigraph.storage.ports import RowReader, TableVersion

if TYPE_CHECKING:
    from omnigraph.engine.read.search import text_index
    from omnigraph.engine.read.search.text_index import TextIndex
else:
    text_index = defer("omnigraph.engine.read.search.text_index")

_Searched = tuple[TableVersion, str]


class ReadMemory:
    """What reads keep; one for each open graph, safe to share between threads.

    Versions are immutable as long as the graph is the same one. A graph that was deleted and made
    anew is another generation, and nothing of the last one is kept.
    """

    def __init__(self, observer: Observer) -> None:
        self._lock = Lock()
        self._generation = 0
        self._observer = observer
        self._kept = Kept(observer)

    def of(self, generation: int) -> Kept:
        """What is kept of a generation."""
        with self._lock:
            if generation != self._generation:
                self._generation, self._kept = generation, Kept(self._observer)
            return self._kept


@dataclass(frozen=True, slots=True)
class SeenRows:
    """Which rows of a version somebody sees, in the order of a scan, and how many these are."""

    marks: Marks
    count: int


class Kept:
    """Columns, topologies, words and vectors of versions of tables, and which rows are seen."""

    def __init__(self, observer: Observer) -> None:
        self.columns = WarmColumns(observer)
        self.topologies = WarmTopologies(observer)
        self.seen: Warm[TableVersion, SeenRows] = Warm(
            bytes_max=WARM_COLUMN_BYTES_MAX // 4, size_of=lambda each: each.marks.nbytes
        )
        self.texts: Warm[_Searched, TextIndex] = Warm(
            bytes_max=WARM_SEARCH_BYTES_MAX // 2,
            size_of=lambda each: each.nbytes,
            observer=observer,
        )
        self.vectors: Warm[_Searched, VectorColumn] = Warm(
            bytes_max=WARM_SEARCH_BYTES_MAX // 2,
            size_of=lambda each: each.nbytes,
            observer=observer,
        )


class Sources:
    """The tables of one snapshot as a read sees them."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        catalog: Catalog,
        tables: RowReader,
        memory: Kept,
        budget: Budget,
    ) -> None:
        self.catalog = catalog
        self.tables = tables
        self.memory = memory
        self._snapshot = snapshot
        self._budget = budget
        self._spaces: dict[str, TableSpace] = {}

    def node_entry(self, type_name: str) -> Entry:
        """What the snapshot says of a node type."""
        return self._snapshot.get(make_table_key(TypeKind.NODE, type_name))

    def edge_entry(self, type_name: str) -> Entry:
        """What the snapshot says of an edge type."""
        return self._snapshot.get(make_table_key(TypeKind.EDGE, type_name))

    def nodes(self, type_name: str) -> TableSpace:
        """All nodes of a type."""
        return self._space(self.node_entry(type_name))

    def edges(self, type_name: str) -> TableSpace:
        """All edges of a type."""
        return self._space(self.edge_entry(type_name))

    def text_index(self, space: TableSpace, property: str) -> TextIndex:
        """The words of a text property, read now if they are not in memory."""
        return self.memory.texts.get(
            (space.at, property), lambda: text_index.build_text_index(space.column(property))
        )

    def vector_column(self, space: TableSpace, property: str) -> VectorColumn:
        """The vectors of a property, read now if they are not in memory."""
        return self.memory.vectors.get(
            (space.at, property), lambda: vector_column(space.column(property))
        )

    def _space(self, entry: Entry) -> TableSpace:
        known = self._spaces.get(entry.table_key)
        if known is None:
            known = TableSpace(
                entry.at,
                size=entry.row_count,
                tables=self.tables,
                warm=self.memory.columns,
                budget=self._budget,
            )
            self._spaces[entry.table_key] = known
        return known
