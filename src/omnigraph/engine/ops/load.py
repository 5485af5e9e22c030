"""Loads: converts rows of multiple types, in one of three modes, to a prepared write.

Reads, but writes nothing. `append` adds rows whose ids are new, `merge` puts rows by id, and
`overwrite` replaces all rows of every type in the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from omnigraph.engine.commit.integrity.check import require_integrity
from omnigraph.engine.commit.prepared_write import PreparedWrite, StagingMode, TableChange
from omnigraph.engine.input.batches import ReceivedRows
from omnigraph.engine.ops.embeddings import WriteVectors
from omnigraph.engine.ops.recorded_responses import Answer
from omnigraph.engine.rows.snapshot_rows import SnapshotRows, keep_last
from omnigraph.engine.state.manifest import type_name_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, KeyConflictError
from omnigraph.model.names import BranchName


class LoadMode(StrEnum):
    """The treatment of existing rows by a load."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class PreparedLoad:
    """The write of a load, and the number of rows of each type."""

    write: PreparedWrite
    nodes_loaded: dict[str, int]
    edges_loaded: dict[str, int]


def parse_mode(text: str) -> LoadMode:
    """The mode that a caller names."""
    try:
        return LoadMode(text)
    except ValueError as error:
        raise InvalidValueError(
            subject="mode",
            expected="append, merge or overwrite",
            value=text,
            problem=f"{text!r} is none of append, merge and overwrite",
        ) from error


def encode_load_response(
    done: PreparedLoad,
    *,
    base: BranchName | None,
    is_new_branch: bool,
    engine: str,
    rejected_count: int,
) -> Answer:
    """The response to the caller of a load."""
    return {
        "nodes_loaded": done.nodes_loaded,
        "edges_loaded": done.edges_loaded,
        "base_branch": base,
        "branch_created": is_new_branch,
        "engine": engine,
        "rejected": rejected_count,
    }


def prepare_load(
    received: Mapping[str, ReceivedRows],
    *,
    mode: LoadMode,
    vectors: WriteVectors,
    catalog: Catalog,
    committed: SnapshotRows,
) -> PreparedLoad:
    """Compute and check the write of a load; it is incomplete while `vectors` are due.

    Raises `KeyConflictError` if an appended id already exists. `IntegrityError` contains every
    violation.
    """
    changes: dict[str, TableChange] = {}
    placement: dict[str, StagingMode] = {}
    for table_key, each in received.items():
        rows = _coalesce(each, mode)
        if not rows.num_rows and mode is not LoadMode.OVERWRITE:
            continue
        placement[table_key] = _place(table_key, each, rows, mode, committed)
        changes[table_key] = TableChange(
            type=each.type,
            put=rows,
            removed=pa.array([], pa.string()),
            is_overwrite=mode is LoadMode.OVERWRITE,
        )
    changes = vectors.fill(changes)
    require_integrity(changes, catalog=catalog, committed=committed)
    write = PreparedWrite(
        changes=changes,
        placement=placement,
        read_set=committed.read_set,
        is_strict=mode is LoadMode.OVERWRITE,
    )
    return PreparedLoad(write, _count(changes, NodeType), _count(changes, EdgeType))


def _coalesce(received: ReceivedRows, mode: LoadMode) -> pa.Table:
    has_key = isinstance(received.type, NodeType) and received.type.key
    # A repeated key is an error in the input; an id that a merge contains twice is an edit.
    return keep_last(received.rows) if mode is LoadMode.MERGE and not has_key else received.rows


def _place(
    table_key: str,
    received: ReceivedRows,
    rows: pa.Table,
    mode: LoadMode,
    committed: SnapshotRows,
) -> StagingMode:
    if mode is LoadMode.OVERWRITE:
        return StagingMode.OVERWRITE
    if not received.has_given_id:
        return StagingMode.APPEND
    known = committed.find_ids(table_key, rows["id"].combine_chunks())
    if not len(known):
        return StagingMode.APPEND
    if mode is LoadMode.APPEND:
        raise KeyConflictError(type=type_name_of(table_key), id=min(known.to_pylist()))
    return StagingMode.MERGE


def _count(
    changes: Mapping[str, TableChange], kind: type[NodeType] | type[EdgeType]
) -> dict[str, int]:
    return {
        each.type.name: each.put.num_rows
        for each in changes.values()
        if isinstance(each.type, kind)
    }
