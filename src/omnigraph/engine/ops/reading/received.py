"""What a load was given: the rows of each type, complete with ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.reading.rows import Rows
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.runtime import Runtime


@dataclass(frozen=True, slots=True)
class ReceivedRows:
    """The rows of one type as the caller gave them, repeated ids included.

    `rows` has the columns of the type's table. Unless some row `has_given_id`, by its key or by
    itself, every id is new and cannot be there already.
    """

    type: NodeType | EdgeType
    rows: pa.Table
    has_given_id: bool


def gather(parts: Iterable[Rows], *, runtime: Runtime) -> dict[str, ReceivedRows]:
    """All rows that were read, by table key, in the order of keys."""
    parts_by_key: dict[str, list[Rows]] = defaultdict(list)
    for declared, rows in parts:
        parts_by_key[table_key_of(declared)].append((declared, rows))
    return {key: _join(parts_by_key[key], runtime) for key in sorted(parts_by_key)}


def _join(parts: list[Rows], runtime: Runtime) -> ReceivedRows:
    declared = parts[0][0]
    rows = pa.concat_tables([rows for _, rows in parts]).combine_chunks()
    ids = rows["id"]
    has_given_id = ids.null_count < len(ids)
    if ids.null_count:
        made = pa.chunked_array([_fill(chunk, runtime) for chunk in ids.chunks], pa.string())
        rows = rows.set_column(0, rows.schema.field("id"), made)
    return ReceivedRows(type=declared, rows=rows, has_given_id=has_given_id)


def _fill(ids: pa.Array, runtime: Runtime) -> pa.Array:
    made = pa.array(runtime.new_ids(ids.null_count), pa.string())
    return made if ids.null_count == len(ids) else pc.replace_with_mask(ids, ids.is_null(), made)
