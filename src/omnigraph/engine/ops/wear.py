"""Wear: whether laying out a branch anew has become worth a commit.

Whoever asks for it by hand gets every file joined; what happens by itself waits until there is
something to gain, so that history does not fill with it.
"""

from __future__ import annotations

from omnigraph.engine.ops.indexes import find_buildable
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import Entry, line_of, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.limits import WORN_FILES_MIN, WORN_SHARE_MIN
from omnigraph.storage.ports import TableStore


def is_worn(basis: Basis, *, tables: TableStore) -> bool:
    """Whether a type of the branch's own lies in many files, or an index knows too little."""
    own = line_of(basis.branch)
    for declared in basis.catalog.stored_types():
        entry = basis.snapshot.get(table_key_of(declared))
        if entry.branch == own and entry.row_count and _is_type_worn(declared, entry, tables):
            return True
    return False


def _is_type_worn(declared: NodeType | EdgeType, entry: Entry, tables: TableStore) -> bool:
    wanted = find_buildable(declared, entry, tables)
    covered = {each.spec: each.rows_covered for each in tables.indexes(entry.at)}
    enough = entry.row_count * (1 - WORN_SHARE_MIN)
    if any(each not in covered or covered[each] < enough for each in wanted):
        return True
    return tables.plan_layout(entry.at, wanted=wanted).fragments_removed >= WORN_FILES_MIN
