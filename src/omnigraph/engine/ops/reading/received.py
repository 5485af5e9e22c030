"""What a load was given: the rows of each type, complete with ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.reading.pieces import Piece
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


def gather(pieces: Iterable[Piece], *, runtime: Runtime) -> dict[str, ReceivedRows]:
    """All rows that were read, by table key, in the order of keys."""
    types: dict[str, NodeType | EdgeType] = {}
    rows_by_key: dict[str, list[pa.Table]] = defaultdict(list)
    for piece in pieces:
        # Not the piece itself: it holds the text that its rows were read from.
        key = table_key_of(piece.declared)
        types[key] = piece.declared
        rows_by_key[key].append(piece.rows)
    return {key: _join(types[key], rows_by_key[key], runtime) for key in sorted(types)}


def _join(
    declared: NodeType | EdgeType, parts: Sequence[pa.Table], runtime: Runtime
) -> ReceivedRows:
    rows = pa.concat_tables(parts).combine_chunks()
    ids = rows["id"]
    has_given_id = ids.null_count < len(ids)
    if ids.null_count:
        made = pa.chunked_array([_fill(chunk, runtime) for chunk in ids.chunks], pa.string())
        rows = rows.set_column(0, rows.schema.field("id"), made)
    return ReceivedRows(type=declared, rows=rows, has_given_id=has_given_id)


def _fill(ids: pa.Array, runtime: Runtime) -> pa.Array:
    made = pa.array(runtime.new_ids(ids.null_count), pa.string())
    return made if ids.null_count == len(ids) else pc.replace_with_mask(ids, ids.is_null(), made)
