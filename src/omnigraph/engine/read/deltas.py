"""The entities of a version as those of an earlier, cached version and the rows that changed since.

A commit changes few rows. Everything cached for an earlier version of the table, its base, stays in
use: an entity that exists in the base keeps its ordinal, new entities have ordinals after those of
the base, and the changed rows are held beside the base. A delta is extended from commit to commit
and is bounded; a version that differs too much from every known version becomes a base itself. The
results are those of a read without a base.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.entities import (
    UNBOUND,
    EntityDelta,
    Marks,
    Ordinals,
    find_all,
    one_chunk,
)
from omnigraph.model.limits import (
    CHANGED_BYTES_MAX,
    CHANGED_ROWS_MAX,
    DELTAS_BYTES_MAX,
    KNOWN_DELTAS_MAX,
)
from omnigraph.storage.ports import FollowedDelta, RowReader, TableVersion

_TRIED_MAX = 3
"""The most known versions of a table that a new version is compared with."""


def make_delta(at: TableVersion, *, size: int, schema: pa.Schema) -> EntityDelta:
    """The delta of a version that is its own base."""
    nothing = np.zeros(0, np.int64)
    rows = schema.remove_metadata().empty_table()
    return EntityDelta(at, size, size, rows, nothing, nothing, pa.array([], pa.string()))


def follow(
    known: EntityDelta,
    known_at: TableVersion,
    at: TableVersion,
    *,
    tables: RowReader,
) -> EntityDelta | None:
    """The delta of a version, from that of another; None if too much changed between them.

    Raises `NotFoundError` or `CorruptError` if the known version or the base was deleted since.
    """
    if any(pa.types.is_large_binary(each.type) for each in known.rows.schema):
        # Blobs are read one at a time, and never held beside other rows.
        return None
    count = tables.count_delta(known_at, at)
    if count is None or count + known.row_count > CHANGED_ROWS_MAX:
        return None
    columns = known.rows.column_names
    step = tables.follow_delta(known_at, at, base=known.base, columns=columns)
    found = _extend(known, step)
    # The estimate may be too low, and rows may be large.
    if found is None or found.row_count > CHANGED_ROWS_MAX or found.nbytes > CHANGED_BYTES_MAX:
        return None
    return found


def _extend(known: EntityDelta, step: FollowedDelta) -> EntityDelta | None:
    left = one_chunk(step.rows.deleted["id"])
    added_rows = step.rows.added.select(known.rows.column_names).cast(known.rows.schema)
    added = one_chunk(added_rows["id"])
    # The position of a row of the base is its ordinal; other rows are among the changed ones.
    changed: Ordinals = np.append(known.ordinals, UNBOUND)[find_all(left, known.ids)]
    left_ordinals = np.where(step.deleted_positions < 0, changed, step.deleted_positions)
    if (left_ordinals == UNBOUND).any():
        return None
    # The row of an id that was not deleted by this step was deleted before, or the id is new.
    ordinals = np.append(left_ordinals, UNBOUND)[find_all(added, left)]
    earlier = np.append(known.removed, UNBOUND)[find_all(added, known.removed_ids)]
    ordinals = np.where(ordinals == UNBOUND, earlier, ordinals)
    is_new = ordinals == UNBOUND
    ordinals[is_new] = known.size + np.arange(np.count_nonzero(is_new))
    is_unchanged = pc.invert(pc.is_in(known.ids, value_set=left))
    removed_ids = pa.concat_arrays([known.removed_ids, left])
    is_removed = pc.invert(pc.is_in(removed_ids, value_set=added))
    removed = np.concatenate([known.removed, left_ordinals])
    return EntityDelta(
        base=known.base,
        base_size=known.base_size,
        size=known.size + int(np.count_nonzero(is_new)),
        rows=pa.concat_tables([known.rows.filter(is_unchanged), added_rows]).combine_chunks(),
        ordinals=np.concatenate([known.ordinals[_to_marks(is_unchanged)], ordinals]),
        removed=removed[_to_marks(is_removed)],
        removed_ids=removed_ids.filter(is_removed),
    )


def _to_marks(marked: pa.Array) -> Marks:
    marks: Marks = marked.to_numpy(zero_copy_only=False)
    return marks


class DeltaCache:
    """The deltas of recently read table versions; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._delta_by_version: OrderedDict[TableVersion, EntityDelta] = OrderedDict()
        self._turn_by_path: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def get(self, at: TableVersion, make: Callable[[], EntityDelta]) -> EntityDelta:
        """The delta of a version; if it is not known, one thread makes it and the others wait.

        Two deltas of one version may number new entities differently, so each would need adjacency
        of its own.
        """
        found = self.find(at)
        if found is not None:
            return found
        with self._lock:
            turn = self._turn_by_path.setdefault(at.ref.path, Lock())
        with turn:
            found = self.find(at)
            if found is None:
                found = make()
                self.put(at, found)
            return found

    def find(self, at: TableVersion) -> EntityDelta | None:
        """The delta of a version, or None if it is not known."""
        with self._lock:
            found = self._delta_by_version.get(at)
            if found is not None:
                self._delta_by_version.move_to_end(at)
            return found

    def put(self, at: TableVersion, delta: EntityDelta) -> None:
        """Cache the delta of a version."""
        with self._lock:
            known = self._delta_by_version
            known[at] = delta
            known.move_to_end(at)
            size = sum(each.nbytes for each in known.values())
            while len(known) > KNOWN_DELTAS_MAX or (size > DELTAS_BYTES_MAX and known):
                _, dropped = known.popitem(last=False)
                size -= dropped.nbytes

    def recent(self, path: str) -> list[tuple[TableVersion, EntityDelta]]:
        """The last used versions of a table, on any of its branches, newest first."""
        with self._lock:
            every = reversed(self._delta_by_version.items())
            return [each for each in every if each[0].ref.path == path][:_TRIED_MAX]

    def forget(self, at: TableVersion) -> None:
        """Forget the delta of a version that was deleted."""
        with self._lock:
            self._delta_by_version.pop(at, None)

    def clear(self) -> None:
        """Forget all deltas, so that every version becomes its own base."""
        with self._lock:
            self._delta_by_version.clear()
