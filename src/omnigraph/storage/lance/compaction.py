"""Compaction: which fragments of a table are worth joining, and the staged writes that join them.

Compaction changes no row and no row id. Joined rows retain their order, and a scan returns them
after the rows that were not joined. The plan avoids repeated work: a fragment that outweighs all
smaller ones is not rewritten until they have grown, and joined fragments leave nothing to join. The
module does not know which indexes a type should have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import orjson
from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.optimize import Compaction, CompactionOptions, CompactionTask

from omnigraph.model.limits import (
    DELETED_SHARE_MAX,
    FRAGMENT_ROWS_MAX,
    LAYOUT_GROWTH,
    LAYOUT_ROWS_FREE,
)
from omnigraph.storage.lance.index import (
    KnownIndex,
    WorkerPool,
    is_complete,
    known_indexes,
    make_index_write,
    rows_by_fragment,
    run_tasks,
    stage_indexes,
)
from omnigraph.storage.lance.stage import data_files, make_staged, stage_conversion
from omnigraph.storage.lance.timestamps import date64_columns
from omnigraph.storage.ports import (
    IndexKind,
    IndexSpec,
    Layout,
    LayoutStep,
    StagedKind,
    StagedWrite,
    TableVersion,
)


@dataclass(frozen=True, slots=True)
class FragmentSize:
    """A fragment, with its numbers of live and of deleted rows."""

    id: int
    rows: int
    deleted: int

    @property
    def is_worn(self) -> bool:
        """Whether so many rows were deleted that skipping them makes reads slower."""
        return self.deleted > (self.rows + self.deleted) * DELETED_SHARE_MAX

    @property
    def is_small(self) -> bool:
        """Whether it fits into one fragment together with another of its size."""
        return self.rows < FRAGMENT_ROWS_MAX // 2


Group = tuple[int, ...]


def plan_layout(table: LanceDataset, *, wanted: Sequence[IndexSpec]) -> Layout:
    """The steps that leave a table with few files and with indexes that cover every row."""
    groups = choose_groups(_sizes(table))
    known = known_indexes(table)
    fragments = rows_by_fragment(table)
    uncovered = tuple(spec for spec in wanted if not is_complete(spec, known, fragments))
    converted = date64_columns(table.schema)
    steps = []
    if _find_in_the_way(table, groups):
        steps.append(LayoutStep.RELEASE)
    if converted:
        steps.append(LayoutStep.CONVERT)
    if groups:
        steps.append(LayoutStep.COMPACT)
    if uncovered or (groups and wanted) or any(spec.column in converted for spec in wanted):
        # A joined fragment is new and not covered by any index, and a converted column has no
        # index.
        steps.append(LayoutStep.INDEX)
    return Layout(
        steps=tuple(steps),
        fragments=len(fragments),
        fragments_removed=sum(map(len, groups)),
        uncovered=uncovered,
        rows_moved=_count_moved(
            groups,
            wanted,
            [each for each in known if not converted.intersection(each.columns)],
            fragments,
        ),
    )


def stage_layout(
    table: LanceDataset,
    step: LayoutStep,
    *,
    wanted: Sequence[IndexSpec],
    onto: TableVersion,
    uuid: str,
    pool: WorkerPool | None,
) -> StagedWrite:
    """Stage one step of a layout, onto the version that the previous step made."""
    staged = _stage(table, step, wanted=wanted, onto=onto, pool=pool)
    named = Transaction(onto.version, staged.transaction.operation, uuid, {})
    return replace(staged, transaction=named)


def choose_groups(sizes: Sequence[FragmentSize]) -> tuple[Group, ...]:
    """The groups of fragments to join, and single fragments to rewrite."""
    unsettled = (size for size in sizes if size.is_small or size.is_worn)
    left = sorted(unsettled, key=lambda size: (size.rows, size.id))
    alone = []
    while left and _outweighs(left[-1], left[:-1]):
        # Rewriting it for every few rows would cost more than the smaller number of files saves.
        alone.append(left.pop())
    if len(left) == 1:
        alone.append(left.pop())
    groups: list[Group] = [(size.id,) for size in alone if size.is_worn]
    if left:
        groups.append(tuple(sorted(size.id for size in left)))
    return tuple(sorted(groups))


def _outweighs(largest: FragmentSize, others: Sequence[FragmentSize]) -> bool:
    rows = sum(size.rows for size in others)
    return rows + largest.rows > LAYOUT_ROWS_FREE and largest.rows > LAYOUT_GROWTH * rows


def _stage(
    table: LanceDataset,
    step: LayoutStep,
    *,
    wanted: Sequence[IndexSpec],
    onto: TableVersion,
    pool: WorkerPool | None,
) -> StagedWrite:
    match step:
        case LayoutStep.RELEASE:
            in_the_way = _find_in_the_way(table, choose_groups(_sizes(table)))
            assert in_the_way, "no index is in the way"
            return make_index_write([], removed=in_the_way, onto=onto)
        case LayoutStep.CONVERT:
            return stage_conversion(table, onto=onto)
        case LayoutStep.COMPACT:
            return _stage_compaction(table, onto=onto, pool=pool)
        case LayoutStep.INDEX:
            return stage_indexes(table, wanted, onto=onto, pool=pool)


def _sizes(table: LanceDataset) -> list[FragmentSize]:
    metadata = [fragment.metadata for fragment in table.get_fragments()]
    return [FragmentSize(each.id, each.num_rows, each.num_deletions) for each in metadata]


def _find_in_the_way(table: LanceDataset, groups: Sequence[Group]) -> list[str]:
    """The index segments that a compaction or a conversion would make incorrect.

    Lance treats joined fragments as not covered by a BTREE. For other kinds it rejects a group that
    a segment covers in part, and lets a segment that covers the whole group claim a fragment that
    it has never read. An index stores values in the type that its column had when it was built.
    """
    converted = date64_columns(table.schema)
    joined = frozenset(fragment for group in groups for fragment in group)
    return [
        segment.uuid
        for index in known_indexes(table)
        for segment in index.segments
        if converted.intersection(index.columns)
        or (index.kind is not IndexKind.BTREE and segment.fragments & joined)
    ]


def _count_moved(
    groups: Sequence[Group],
    wanted: Sequence[IndexSpec],
    known: Sequence[KnownIndex],
    row_counts: Mapping[int, int],
) -> int:
    """The estimated number of rows rewritten, or indexed by the index that covers the fewest."""
    joined = frozenset(fragment for group in groups for fragment in group)
    total = sum(row_counts.values())
    counts = [sum(row_counts[each] for each in joined)]
    for spec in wanted:
        covered = frozenset().union(*(each.fragments for each in known if each.is_for(spec)))
        unknown = sum(row_counts[each] for each in row_counts if each not in covered - joined)
        counts.append(unknown if unknown * LAYOUT_GROWTH < total else total)
    return max(counts)


def _stage_compaction(
    table: LanceDataset, *, onto: TableVersion, pool: WorkerPool | None
) -> StagedWrite:
    sizes = {size.id: size for size in _sizes(table)}
    groups = choose_groups(tuple(sizes.values()))
    assert groups, "there is nothing to join"
    options = _compaction_options(table)
    pieces = [_cut([sizes[id] for id in group], options, pool) for group in groups]
    every = [piece for each in pieces for piece in each]
    written = iter(run_tasks(table, _rewrite, every, pool=pool, stage="join files"))
    rewritten = [
        _make_group(table, group, islice(written, len(each)))
        for group, each in zip(groups, pieces, strict=True)
    ]
    return make_staged(
        # Indexes are not remapped: a segment holds addresses, and remapping loses rows.
        LanceOperation.Rewrite(rewritten, []),
        kind=StagedKind.COMPACTION,
        onto=onto,
        files=data_files(new for group in rewritten for new in group.new_fragments),
    )


Pieces = tuple[Sequence[FragmentSize], ...]


def cut_group(sizes: Sequence[FragmentSize], *, rows_max: int) -> Pieces:
    """Split a group into adjacent pieces, each of about `rows_max` rows and at least half of it."""
    pieces: list[list[FragmentSize]] = [[]]
    rows = 0
    for size in sizes:
        if rows + size.rows > rows_max and rows * 2 >= rows_max:
            pieces.append([])
            rows = 0
        pieces[-1].append(size)
        rows += size.rows
    if len(pieces) > 1 and rows * 2 < rows_max:
        last = pieces.pop()
        pieces[-1] += last
    return tuple(pieces)


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Fragments to rewrite, in their order, with Lance's compaction options."""

    fragments: Group
    options: Mapping[str, object]


def _cut(
    sizes: Sequence[FragmentSize], options: Mapping[str, object], pool: WorkerPool | None
) -> tuple[_Rewrite, ...]:
    """One task for the whole group, or one per file if there is a worker pool."""
    pieces = (sizes,) if pool is None else cut_group(sizes, rows_max=FRAGMENT_ROWS_MAX)
    if len(pieces) == 1:
        return (_Rewrite(tuple(size.id for size in sizes), options),)
    return tuple(_plan_evenly(each, options) for each in pieces)


def _plan_evenly(sizes: Sequence[FragmentSize], options: Mapping[str, object]) -> _Rewrite:
    # A short file at the end of each piece would have to be joined again, so the files of a piece
    # have equal length.
    rows = sum(size.rows for size in sizes)
    file_rows = -(-rows // -(-rows // FRAGMENT_ROWS_MAX))
    fragments = tuple(size.id for size in sizes)
    return _Rewrite(fragments, {**options, "target_rows_per_fragment": file_rows})


def _rewrite(table: LanceDataset, piece: _Rewrite) -> tuple[str, ...]:
    """The new fragments of a piece, in Lance's JSON form."""
    # Lance's own plan splits groups by index coverage, so the task is created from JSON instead.
    document = {
        "task": {"fragments": [each.to_json() for each in _metadata(table, piece.fragments)]},
        "read_version": table.version,
        "options": piece.options,
    }
    text = orjson.dumps(document).decode()
    task = CompactionTask.from_json(text)  # type: ignore[attr-defined]  # pylance types it not
    written = task.execute(table).new_fragments
    return tuple(orjson.dumps(each.to_json()).decode() for each in written)


def _make_group(
    table: LanceDataset, group: Group, written: Iterable[Sequence[str]]
) -> LanceOperation.RewriteGroup:
    new = [FragmentMetadata.from_json(each) for piece in written for each in piece]
    return LanceOperation.RewriteGroup(_metadata(table, group), new)


def _metadata(table: LanceDataset, group: Group) -> list[FragmentMetadata]:
    metadata_by_id = {each.fragment_id: each.metadata for each in table.get_fragments()}
    return [metadata_by_id[number] for number in group]


def _compaction_options(table: LanceDataset) -> Mapping[str, object]:
    wanted = CompactionOptions(
        target_rows_per_fragment=FRAGMENT_ROWS_MAX, data_storage_version="2.2"
    )
    plan = Compaction.plan(table, wanted)
    options: Mapping[str, object] = orjson.loads(plan.json())["options"]  # type: ignore[attr-defined]  # pylance
    return options
