"""What rows of types need on their way to each other: which columns are blobs, and how large."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.engine.state.snapshot import Entry
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.types import Scalar
from omnigraph.storage.ports import TableStore


def list_blobs(declared: NodeType | EdgeType, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of some columns that hold blobs."""
    types = {name: each.type for name, each in declared.properties.items()}
    return tuple(name for name in columns if name in types and types[name].element is Scalar.BLOB)


def measure_blobs(entry: Entry, blobs: Sequence[str], tables: TableStore) -> int:
    """About how many bytes the blobs of a row take, in those columns that there are."""
    if not blobs:
        return 0
    known = set(tables.schema(entry.at).names)
    stored = sum(tables.stored_bytes(entry.at, name) for name in blobs if name in known)
    return stored // max(entry.row_count, 1)
