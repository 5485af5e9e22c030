"""Pending rows: what a query has done so far to one type, in memory only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.storage.arrow_schema import table_schema


class PendingRows:
    """Rows that a query puts and ids that it removes."""

    def __init__(self, declared: NodeType | EdgeType) -> None:
        self.declared = declared
        self.replaces_committed = False
        self._image = table_schema(declared).empty_table()
        self._batches: list[pa.Table] = []
        self._removed = pa.array([], pa.string())

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been done."""
        return not (self._batches or self._image.num_rows or len(self._removed))

    @property
    def removed(self) -> pa.Array:
        """The ids removed so far, each once."""
        return self._removed

    def put(self, rows: pa.Table, *, replaces_committed: bool) -> None:
        """Put rows, each in place of an earlier one with its id."""
        # A null where none may be is for the checks to report, so the columns are only relabelled.
        schema = self._image.schema
        self._batches.append(pa.table([rows[name] for name in schema.names], schema=schema))
        self.replaces_committed |= replaces_committed

    def image(self) -> pa.Table:
        """The rows put so far, the last one of each id."""
        if self._batches:
            self._image = keep_last(pa.concat_tables([self._image, *self._batches]))
            self._batches = []
        return self._image

    def remove(self, ids: pa.Array) -> pa.Array:
        """Remove ids, and return those that had not been removed before."""
        fresh = pc.unique(ids.filter(pc.invert(pc.is_in(ids, value_set=self._removed))))
        self._removed = pa.concat_arrays([self._removed, fresh])
        return fresh


def keep_last(rows: pa.Table) -> pa.Table:
    """The last row of each id, in the order of these."""
    ids = rows["id"].combine_chunks()
    distinct = pc.unique(ids)
    if len(distinct) == len(ids):
        return rows
    last = np.empty(len(distinct), dtype=np.int64)
    # Later assignments to one position win, which is what "last" means.
    last[pc.index_in(ids, value_set=distinct).to_numpy()] = np.arange(len(ids))
    return rows.take(pa.array(np.sort(last)))
