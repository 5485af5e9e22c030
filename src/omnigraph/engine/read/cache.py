"""The read cache of an open graph, and the tables of a snapshot that reads access through it.

`Sources` gives one read the table versions that its snapshot pins and no later ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.engine.read.adjacency import AdjacencyCache
from omnigraph.engine.read.budget import Budget, CacheMemory, CacheStats, LruCache
from omnigraph.engine.read.deltas import DeltaCache, follow, make_delta
from omnigraph.engine.read.entities import (
    SPARSE,
    ChangedEntities,
    ColumnCache,
    EntityDelta,
    IndexKey,
    Marks,
    Ordinals,
    TableEntities,
    WholeEntities,
)
from omnigraph.engine.read.search.vectors import ChangedVectors, VectorColumn, vector_column
from omnigraph.engine.state.manifest import Entry, Snapshot, make_table_key
from omnigraph.model.catalog import Catalog, TypeKind
from omnigraph.model.errors import CorruptError, NotFoundError
from omnigraph.model.limits import NEAREST_EXACT_ROWS_MAX
from omnigraph.model.ports import Observer
from omnigraph.model.runtime import lazy_module
from omnigraph.model.types import TextLanguage
from omnigraph.storage.ports import RowReader, TableVersion

if TYPE_CHECKING:
    from omnigraph.engine.read.search import text_index
    from omnigraph.engine.read.search.text_index import ChangedTexts, TextIndex
else:
    text_index = lazy_module("omnigraph.engine.read.search.text_index")


class ReadCache:
    """The cache of an open graph for reads; safe to share between threads.

    Table versions are immutable within one generation of a graph. A graph that was deleted and
    created again is another generation, and the cache of the previous one is dropped.
    """

    def __init__(self, observer: Observer, *, bytes_max: int) -> None:
        self._lock = Lock()
        self._generation = 0
        self._observer = observer
        self._bytes_max = bytes_max
        self._cache = self._make()

    def of(self, generation: int) -> TableCache:
        """The cache of a generation; a different generation than before starts empty."""
        with self._lock:
            if generation != self._generation:
                self._generation, self._cache = generation, self._make()
            return self._cache

    def _make(self) -> TableCache:
        return TableCache(CacheMemory(self._bytes_max, self._observer))

    def stats(self) -> CacheStats:
        """The sizes of the cached values, and the number of lookups."""
        with self._lock:
            return self._cache.memory.stats()


@dataclass(frozen=True, slots=True)
class RowMask:
    """The rows of a version that row-level security permits, in scan order, and their number."""

    marks: Marks
    count: int


class TableCache:
    """Cached columns, topologies, text indexes, vectors and visible rows of table versions."""

    def __init__(self, memory: CacheMemory) -> None:
        self.memory = memory
        self.columns = ColumnCache(memory)
        self.deltas = DeltaCache()
        self.topologies = AdjacencyCache(memory)
        self.seen: LruCache[TableVersion, RowMask] = LruCache(
            memory, name="visible rows", size_of=lambda each: each.marks.nbytes
        )
        self.texts: LruCache[tuple[IndexKey, str, TextLanguage], TextIndex] = LruCache(
            memory, name="words", size_of=lambda each: each.nbytes
        )
        self.vectors: LruCache[tuple[IndexKey, str], VectorColumn] = LruCache(
            memory, name="vectors", size_of=lambda each: each.nbytes
        )

    def has_any(self, at: TableVersion, columns: Iterable[str]) -> bool:
        """Whether anything that is expensive to read is cached of a version."""
        return self.topologies.is_cached(at) or self.columns.has_any(at, columns)


class Sources:
    """The tables of one snapshot, as one read accesses them.

    With `uses_bases`, a table is read with what is cached of another version, its base, if few rows
    differ. Such a read fails if it needs a column that is not cached and the base was deleted.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        catalog: Catalog,
        tables: RowReader,
        cache: TableCache,
        budget: Budget,
        uses_bases: bool,
    ) -> None:
        self.catalog = catalog
        self.tables = tables
        self.cache = cache
        self._snapshot = snapshot
        self._budget = budget
        self._uses_bases = uses_bases
        self._indexes: dict[str, WholeEntities] = {}

    @property
    def has_bases(self) -> bool:
        """Whether any table is read with a base."""
        return any(isinstance(each, ChangedEntities) for each in self._indexes.values())

    def node_entry(self, type_name: str) -> Entry:
        """The manifest entry of a node type in the snapshot."""
        return self._snapshot.get(make_table_key(TypeKind.NODE, type_name))

    def edge_entry(self, type_name: str) -> Entry:
        """The manifest entry of an edge type in the snapshot."""
        return self._snapshot.get(make_table_key(TypeKind.EDGE, type_name))

    def nodes(self, type_name: str) -> WholeEntities:
        """All nodes of a type."""
        return self._index(self.node_entry(type_name))

    def edges(self, type_name: str) -> WholeEntities:
        """All edges of a type."""
        return self._index(self.edge_entry(type_name))

    def text_index(
        self, index: WholeEntities, property: str, language: TextLanguage
    ) -> TextIndex | ChangedTexts:
        """The text index of a property in a language, built now if it is not cached."""
        base = index.base
        built = self.cache.texts.get(
            (base.key, property, language),
            lambda: text_index.build_text_index(base.column(property), language),
        )
        if not isinstance(index, ChangedEntities):
            return built
        changed = self.cache.texts.get(
            (index.key, property, language),
            lambda: text_index.build_text_index(index.changed(property), language),
        )
        return text_index.ChangedTexts(built, changed, index.delta)

    def vector_column(self, index: WholeEntities, property: str) -> VectorColumn | ChangedVectors:
        """The vectors of a property, read now if they are not cached."""
        base = index.base
        read = self.cache.vectors.get(
            (base.key, property), lambda: vector_column(base.column(property))
        )
        if not isinstance(index, ChangedEntities):
            return read
        return ChangedVectors(read, vector_column(index.changed(property)), index.delta)

    def some_vectors(
        self, index: WholeEntities, property: str, ordinals: Ordinals
    ) -> VectorColumn | None:
        """The vectors of some entities of a large type, by position in `ordinals`.

        None if all vectors of the type are cached, or are better read together.
        """
        if (
            index.size <= NEAREST_EXACT_ROWS_MAX
            or len(ordinals) * SPARSE >= index.size
            or (index.base.key, property) in self.cache.vectors
        ):
            return None
        return vector_column(index.values(property, pa.null(), ordinals))

    def _index(self, entry: Entry) -> WholeEntities:
        known = self._indexes.get(entry.table_key)
        if known is None:
            known = self._indexes[entry.table_key] = self._open(entry)
        return known

    def _open(self, entry: Entry) -> WholeEntities:
        at = entry.at
        delta = self._find_delta(entry) if self._uses_bases else None
        if delta is None:
            schema = self.tables.schema(at)
            return self._base(make_delta(at, size=entry.row_count, schema=schema))
        if delta.base == at:
            return self._base(delta)
        return ChangedEntities(at, base=self._base(delta), delta=delta, tables=self.tables)

    def _find_delta(self, entry: Entry) -> EntityDelta | None:
        at = entry.at
        if self.tables.count_delta(at, at) is None:
            return None
        return self.cache.deltas.get(at, lambda: self._make_delta(entry))

    def _make_delta(self, entry: Entry) -> EntityDelta:
        followed = self._follow_recent(entry.at)
        if followed is not None:
            return followed
        return make_delta(entry.at, size=entry.row_count, schema=self.tables.schema(entry.at))

    def _follow_recent(self, at: TableVersion) -> EntityDelta | None:
        """The delta of a version from a base of which something is cached."""
        for known_at, known in self.cache.deltas.recent(at.ref.path):
            if not self.cache.has_any(known.base, known.rows.column_names):
                continue
            try:
                found = follow(known, known_at, at, tables=self.tables)
            except (CorruptError, NotFoundError):
                # The version to read is not affected; a fault of its own is found when it is read.
                self.cache.deltas.forget(known_at)
                continue
            if found is not None:
                return found
        return None

    def _base(self, delta: EntityDelta) -> TableEntities:
        return TableEntities(
            delta.base,
            size=delta.base_size,
            names=delta.rows.column_names,
            tables=self.tables,
            cache=self.cache.columns,
            budget=self._budget,
        )
