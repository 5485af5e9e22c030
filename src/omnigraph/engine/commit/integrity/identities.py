"""Identity within one write: an id that occurs twice, which for keyed nodes is a key.

Committed rows do not matter here: the same id means the same row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.changes import TableChange
from omnigraph.engine.commit.integrity.tuples import encode_column, find_first_rows
from omnigraph.engine.commit.integrity.violations import (
    RowNumbers,
    Violations,
    describe_columns,
    plain_values,
    show_text,
    show_values,
    tell,
)
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import Violation


def find_repeats(put: pa.Table) -> RowNumbers:
    """The rows whose id an earlier row has."""
    ids = put.column("id")
    if len(pc.unique(ids)) == len(ids):
        return np.empty(0, np.int64)
    first = find_first_rows(encode_column(ids).codes)
    return np.flatnonzero(first != np.arange(len(first)))


def drop_rows(put: pa.Table, rows: RowNumbers) -> pa.Table:
    """The other rows, in their order."""
    return put.take(np.delete(np.arange(len(put)), rows)) if len(rows) else put


def check_ids(change: TableChange, repeats: RowNumbers) -> Violations:
    """A violation for each row that repeats an id."""

    return tell(repeats, lambda row: describe_repeat(change.type, change.put.slice(row, 1)))


def describe_repeat(declared: NodeType | EdgeType, row: pa.Table) -> Violation:
    """What is wrong with a row whose id an earlier one has; it has `id` and the key's columns."""
    match declared:
        case NodeType(name=name) as node if node.key:
            return _describe_key(name, node.key, row)
        case NodeType(name=name) | EdgeType(name=name):
            return _describe_id(name, row.column("id")[0].as_py())


def _describe_key(name: str, key: tuple[str, ...], row: pa.Table) -> Violation:
    cells = [row.column(column)[0] for column in key]
    return Violation(
        type=name,
        id=row.column("id")[0].as_py(),
        rule="key",
        property=key[0] if len(key) == 1 else None,
        value=plain_values(cells),
        message=f"@key violation on {name}.{describe_columns(key)}: "
        f"{show_values(cells)} occurs more than once in this write",
    )


def _describe_id(name: str, id: str) -> Violation:
    return Violation(
        type=name,
        id=id,
        rule="id",
        property=None,
        value=id,
        message=f"{name} {show_text(id)} occurs more than once in this write",
    )
