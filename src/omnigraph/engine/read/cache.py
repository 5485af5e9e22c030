"""The read cache of an open graph, and the tables of a snapshot that reads access through it.

`Sources` gives one read the table versions that its snapshot pins and no later ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from omnigraph.engine.read.adjacency import AdjacencyCache
from omnigraph.engine.read.budget import Budget
from omnigraph.engine.read.entities import ColumnCache, LruCache, Marks, TableEntities
from omnigraph.engine.read.search.vectors import VectorColumn, vector_column
from omnigraph.engine.state.manifest import Entry, Snapshot, make_table_key
from omnigraph.model.catalog import Catalog, TypeKind
from omnigraph.model.limits import CACHED_COLUMN_BYTES_MAX, CACHED_SEARCH_BYTES_MAX
from omnigraph.model.ports import Observer
from omnigraph.model.runtime import lazy_module
from omnigraph.storage.ports import RowReader, TableVersion

if TYPE_CHECKING:
    from omnigraph.engine.read.search import text_index
    from omnigraph.engine.read.search.text_index import TextIndex
else:
    text_index = lazy_module("omnigraph.engine.read.search.text_index")

_Searched = tuple[TableVersion, str]


class ReadCache:
    """The cache of an open graph for reads; safe to share between threads.

    Table versions are immutable within one generation of a graph. A graph that was deleted and
    created again is another generation, and the cache of the previous one is dropped.
    """

    def __init__(self, observer: Observer) -> None:
        self._lock = Lock()
        self._generation = 0
        self._observer = observer
        self._cache = TableCache(observer)

    def of(self, generation: int) -> TableCache:
        """The cache of a generation; a different generation than before starts empty."""
        with self._lock:
            if generation != self._generation:
                self._generation, self._cache = generation, TableCache(self._observer)
            return self._cache


@dataclass(frozen=True, slots=True)
class RowMask:
    """The rows of a version that row-level security permits, in scan order, and their number."""

    marks: Marks
    count: int


class TableCache:
    """Cached columns, topologies, text indexes, vectors and visible rows of table versions."""

    def __init__(self, observer: Observer) -> None:
        self.columns = ColumnCache(observer)
        self.topologies = AdjacencyCache(observer)
        self.seen: LruCache[TableVersion, RowMask] = LruCache(
            bytes_max=CACHED_COLUMN_BYTES_MAX // 4, size_of=lambda each: each.marks.nbytes
        )
        self.texts: LruCache[_Searched, TextIndex] = LruCache(
            bytes_max=CACHED_SEARCH_BYTES_MAX // 2,
            size_of=lambda each: each.nbytes,
            observer=observer,
        )
        self.vectors: LruCache[_Searched, VectorColumn] = LruCache(
            bytes_max=CACHED_SEARCH_BYTES_MAX // 2,
            size_of=lambda each: each.nbytes,
            observer=observer,
        )


class Sources:
    """The tables of one snapshot, as one read accesses them."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        catalog: Catalog,
        tables: RowReader,
        cache: TableCache,
        budget: Budget,
    ) -> None:
        self.catalog = catalog
        self.tables = tables
        self.cache = cache
        self._snapshot = snapshot
        self._budget = budget
        self._indexes: dict[str, TableEntities] = {}

    def node_entry(self, type_name: str) -> Entry:
        """The manifest entry of a node type in the snapshot."""
        return self._snapshot.get(make_table_key(TypeKind.NODE, type_name))

    def edge_entry(self, type_name: str) -> Entry:
        """The manifest entry of an edge type in the snapshot."""
        return self._snapshot.get(make_table_key(TypeKind.EDGE, type_name))

    def nodes(self, type_name: str) -> TableEntities:
        """All nodes of a type."""
        return self._index(self.node_entry(type_name))

    def edges(self, type_name: str) -> TableEntities:
        """All edges of a type."""
        return self._index(self.edge_entry(type_name))

    def text_index(self, index: TableEntities, property: str) -> TextIndex:
        """The text index of a property, built now if it is not cached."""
        return self.cache.texts.get(
            (index.at, property), lambda: text_index.build_text_index(index.column(property))
        )

    def vector_column(self, index: TableEntities, property: str) -> VectorColumn:
        """The vectors of a property, read now if they are not cached."""
        return self.cache.vectors.get(
            (index.at, property), lambda: vector_column(index.column(property))
        )

    def _index(self, entry: Entry) -> TableEntities:
        known = self._indexes.get(entry.table_key)
        if known is None:
            known = TableEntities(
                entry.at,
                size=entry.row_count,
                tables=self.tables,
                cache=self.cache.columns,
                budget=self._budget,
            )
            self._indexes[entry.table_key] = known
        return known
