"""Staged indexes: built beside the table over all of its fragments, named by one transaction.

An index is named after its column and replaces the one of that name. Lance keeps several segments
under one name if nobody removes the old ones, so they are removed here, by their ids.
"""

from __future__ import annotations

from copy import copy

from lance import Index, LanceDataset, LanceOperation
from lance.bitmap import Bitmap

from omnigraph.storage.lance_staging import make_staged
from omnigraph.storage.ports import StagedKind, StagedWrite, TableVersion


def stage_btree(table: LanceDataset, column: str, *, onto: TableVersion) -> StagedWrite:
    """Build a scalar index."""
    builder = copy(table)
    segment = builder.create_index_uncommitted(
        column, "BTREE", name=_name(column), replace=True, fragment_ids=_fragment_ids(table)
    )
    return _stage(table, segment, onto=onto)


def stage_inverted(table: LanceDataset, column: str, *, onto: TableVersion) -> StagedWrite:
    """Build a full-text index."""
    builder = copy(table)
    segment = builder.create_index_uncommitted(
        column, "INVERTED", name=_name(column), replace=True, fragment_ids=_fragment_ids(table)
    )
    # A segment that was not merged can be committed and not searched.
    return _stage(table, builder.merge_existing_index_segments([segment]), onto=onto)


def stage_vector(table: LanceDataset, column: str, *, onto: TableVersion) -> StagedWrite:
    """Build an exact vector index by Euclidean distance; a row must have a vector."""
    builder = copy(table)
    segment = builder.create_index_uncommitted(
        column,
        "IVF_FLAT",
        name=_name(column),
        metric="l2",
        replace=True,
        num_partitions=1,
        fragment_ids=_fragment_ids(table),
    )
    return _stage(table, segment, onto=onto)


def _stage(table: LanceDataset, segment: Index, *, onto: TableVersion) -> StagedWrite:
    replaced = [
        _by_uuid(str(old.uuid))
        for index in table.describe_indices()
        if index.name == segment.name
        for old in index.segments
    ]
    return make_staged(
        LanceOperation.CreateIndex([segment], replaced),
        kind=StagedKind.INDEX,
        onto=onto,
        rows_added=0,
        rows_removed=0,
        files=(f"_indices/{segment.uuid}/{file.path}" for file in segment.files or ()),
    )


def _name(column: str) -> str:
    return f"{column}_idx"


def _fragment_ids(table: LanceDataset) -> list[int]:
    return [fragment.fragment_id for fragment in table.get_fragments()]


def _by_uuid(uuid: str) -> Index:
    # Lance removes an index by its id alone; the rest need not be true.
    return Index(uuid, "", fields=[], dataset_version=0, fragment_ids=Bitmap(), index_version=0)
