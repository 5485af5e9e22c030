"""Loads: rows of many types, in one of three modes, into a prepared write.

Pure but for reads: nothing is written here. `append` adds rows whose ids are new, `merge` puts
rows by id, `overwrite` replaces all rows of every type that the input names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from omnigraph.engine.commit.changes import Placement, PreparedWrite, TableChange
from omnigraph.engine.commit.integrity.evaluate import require_integrity
from omnigraph.engine.ops.pending import keep_last
from omnigraph.engine.ops.reading.received import ReceivedRows
from omnigraph.engine.ops.told import Answer
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.state.snapshot import type_name_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, KeyConflictError
from omnigraph.model.names import BranchName


class LoadMode(StrEnum):
    """What a load does to rows that are already there."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class PreparedLoad:
    """What a load does, and how many rows of each type it brings."""

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


def tell_load(
    done: PreparedLoad,
    *,
    base: BranchName | None,
    is_new_branch: bool,
    engine: str,
    rejected_count: int,
) -> Answer:
    """What the caller of a load is told of it."""
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
    catalog: Catalog,
    committed: SnapshotRows,
) -> PreparedLoad:
    """Work out and check what a load does.

    `KeyConflictError` means that an appended id is there already, `IntegrityError` holds every
    broken rule.
    """
    changes: dict[str, TableChange] = {}
    placement: dict[str, Placement] = {}
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
    # A key that occurs twice is a mistake in the input; an id that a merge names twice is an edit.
    return keep_last(received.rows) if mode is LoadMode.MERGE and not has_key else received.rows


def _place(
    table_key: str,
    received: ReceivedRows,
    rows: pa.Table,
    mode: LoadMode,
    committed: SnapshotRows,
) -> Placement:
    if mode is LoadMode.OVERWRITE:
        return Placement.OVERWRITE
    if not received.has_given_id:
        return Placement.APPEND
    known = committed.find_ids(table_key, rows["id"].combine_chunks())
    if not len(known):
        return Placement.APPEND
    if mode is LoadMode.APPEND:
        raise KeyConflictError(type=type_name_of(table_key), id=min(known.to_pylist()))
    return Placement.MERGE


def _count(
    changes: Mapping[str, TableChange], kind: type[NodeType] | type[EdgeType]
) -> dict[str, int]:
    return {
        each.type.name: each.put.num_rows
        for each in changes.values()
        if isinstance(each.type, kind)
    }
