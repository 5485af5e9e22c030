"""Staged indexes: built beside the table over all of its fragments, named by one transaction.

An index is named after its column and replaces the one of that name. Lance keeps several segments
under one name if nobody removes the old ones, so they are removed here, by their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from lance import Index, LanceDataset, LanceOperation
from lance.bitmap import Bitmap

from omnigraph.storage.lance_staging import make_staged
from omnigraph.storage.ports import (
    IndexKind,
    IndexSpec,
    IndexState,
    StagedKind,
    StagedWrite,
    TableVersion,
)

_KIND_BY_LANCE_NAME = {
    "BTree": IndexKind.BTREE,
    "Inverted": IndexKind.INVERTED,
    "IVF_FLAT": IndexKind.VECTOR,
}


def find_indexes(table: LanceDataset) -> tuple[IndexState, ...]:
    """The indexes of ours, by column; those of other kinds are somebody else's."""
    rows_by_fragment = {each.fragment_id: each.count_rows() for each in table.get_fragments()}
    states = []
    for index in table.describe_indices():
        kind = _KIND_BY_LANCE_NAME.get(index.index_type)
        if kind is not None and len(index.field_names) == 1:
            covered = {number for segment in index.segments for number in segment.fragment_ids}
            rows = sum(count for number, count in rows_by_fragment.items() if number in covered)
            states.append(IndexState(IndexSpec(index.field_names[0], kind), rows))
    return tuple(sorted(states, key=lambda state: state.spec.column))


def stage_indexes(
    table: LanceDataset, specs: Sequence[IndexSpec], *, onto: TableVersion
) -> StagedWrite:
    """Build indexes over all fragments."""
    segments = [_build(table, spec) for spec in specs]
    names = {segment.name for segment in segments}
    replaced = [
        _by_uuid(str(old.uuid))
        for index in table.describe_indices()
        if index.name in names
        for old in index.segments
    ]
    return make_staged(
        LanceOperation.CreateIndex(segments, replaced),
        kind=StagedKind.INDEX,
        onto=onto,
        rows_added=0,
        rows_removed=0,
        files=(
            f"_indices/{segment.uuid}/{file.path}"
            for segment in segments
            for file in segment.files or ()
        ),
    )


def _build(table: LanceDataset, spec: IndexSpec) -> Index:
    builder = copy(table)
    name = f"{spec.column}_idx"
    fragments = [fragment.fragment_id for fragment in table.get_fragments()]
    match spec.kind:
        case IndexKind.BTREE:
            return builder.create_index_uncommitted(
                spec.column, "BTREE", name=name, replace=True, fragment_ids=fragments
            )
        case IndexKind.INVERTED:
            segment = builder.create_index_uncommitted(
                spec.column, "INVERTED", name=name, replace=True, fragment_ids=fragments
            )
            # A segment that was not merged can be committed and not searched.
            return builder.merge_existing_index_segments([segment])
        case IndexKind.VECTOR:
            return builder.create_index_uncommitted(
                spec.column,
                "IVF_FLAT",
                name=name,
                metric="l2",
                replace=True,
                num_partitions=1,
                fragment_ids=fragments,
            )


def _by_uuid(uuid: str) -> Index:
    # Lance removes an index by its id alone; the rest need not be true.
    return Index(uuid, "", fields=[], dataset_version=0, fragment_ids=Bitmap(), index_version=0)
