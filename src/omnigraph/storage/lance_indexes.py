"""Indexes: found by the column they are on, and built as staged writes, several in one.

An index lies in segments, each of which knows some fragments. Where most rows are known already,
the rest get a segment of their own beside the large one, so that rows that came later cost what
they are and not what the type is. A crew writes a segment in pieces, one for some fragments, and
merges them: Lance can do that with all three kinds. It neither commits an index twice under one
name nor removes the old segments, so they are removed here, by their ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice

import numpy as np
from lance import Index, LanceDataset, LanceOperation
from lance.bitmap import Bitmap
from numpy.typing import NDArray

from omnigraph.model.limits import LAYOUT_GROWTH, LAYOUT_ROWS_FREE
from omnigraph.storage.lance_crews import Crew, run_on, share_of
from omnigraph.storage.lance_staging import make_staged
from omnigraph.storage.ports import StagedKind, StagedWrite, TableVersion
from omnigraph.storage.table_layout import IndexKind, IndexSpec, IndexState

_KIND_BY_LANCE_NAME = {
    "BTree": IndexKind.BTREE,
    "Inverted": IndexKind.INVERTED,
    "IVF_FLAT": IndexKind.VECTOR,
}


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an index, and the fragments of the version that it knows."""

    uuid: str
    fragments: frozenset[int]


@dataclass(frozen=True, slots=True)
class KnownIndex:
    """An index of a version, as it lies in the table; of a kind of ours if it has one."""

    name: str
    columns: tuple[str, ...]
    kind: IndexKind | None
    segments: tuple[Segment, ...]

    @property
    def fragments(self) -> frozenset[int]:
        """The fragments whose rows are found by it."""
        return frozenset().union(*(segment.fragments for segment in self.segments))

    def is_for(self, spec: IndexSpec) -> bool:
        """Whether it is the index that a column should have."""
        return self.kind is spec.kind and self.columns == (spec.column,)


@dataclass(frozen=True, slots=True)
class _Build:
    """A segment to build, under which name, and the segments that it takes the place of."""

    spec: IndexSpec
    name: str
    fragments: tuple[int, ...]
    replaced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a segment, or all of it, for one task to write."""

    spec: IndexSpec
    name: str
    fragments: tuple[int, ...]
    is_whole: bool


def known_indexes(table: LanceDataset) -> tuple[KnownIndex, ...]:
    """Every index of a version, by name, also those that are not ours."""
    present = frozenset(rows_by_fragment(table))
    return tuple(
        KnownIndex(
            name=index.name,
            columns=tuple(index.field_names),
            kind=_KIND_BY_LANCE_NAME.get(index.index_type),
            # What it knows of fragments that are gone leads nowhere.
            segments=tuple(
                Segment(str(each.uuid), present & frozenset(each.fragment_ids))
                for each in index.segments
            ),
        )
        for index in sorted(table.describe_indices(), key=lambda index: index.name)
    )


def find_indexes(table: LanceDataset) -> tuple[IndexState, ...]:
    """The indexes of ours, by column; those of other kinds are somebody else's."""
    row_counts = rows_by_fragment(table)
    states = [
        IndexState(IndexSpec(index.columns[0], index.kind), _sum(row_counts, index.fragments))
        for index in known_indexes(table)
        if index.kind is not None and len(index.columns) == 1
    ]
    return tuple(sorted(states, key=lambda state: state.spec.column))


def rows_by_fragment(table: LanceDataset) -> dict[int, int]:
    """The fragments of a version in order, with how many rows each has left."""
    return {each.fragment_id: each.metadata.num_rows for each in table.get_fragments()}


def is_complete(spec: IndexSpec, known: Iterable[KnownIndex], fragments: Collection[int]) -> bool:
    """Whether a column has the index that it should have, and that knows every fragment."""
    return any(index.is_for(spec) and index.fragments.issuperset(fragments) for index in known)


def stage_indexes(
    table: LanceDataset, specs: Sequence[IndexSpec], *, onto: TableVersion, crew: Crew | None
) -> StagedWrite:
    """Build what columns lack of their indexes; at least one must lack something."""
    known = known_indexes(table)
    row_counts = rows_by_fragment(table)
    incomplete = [spec for spec in specs if not is_complete(spec, known, row_counts)]
    assert incomplete, "every index knows every row"
    builds = [_plan_build(table, spec, known, row_counts) for spec in incomplete]
    return make_index_write(
        _build(table, builds, row_counts, crew),
        removed=[replaced for build in builds for replaced in build.replaced],
        onto=onto,
    )


def make_index_write(
    added: Sequence[Index], *, removed: Iterable[str], onto: TableVersion
) -> StagedWrite:
    """The staged write that adds segments and removes others."""
    return make_staged(
        LanceOperation.CreateIndex(list(added), [_by_uuid(each) for each in removed]),
        kind=StagedKind.INDEX,
        onto=onto,
        rows_added=0,
        rows_removed=0,
        files=(f"_indices/{each.uuid}/{file.path}" for each in added for file in each.files or ()),
    )


def _plan_build(
    table: LanceDataset,
    spec: IndexSpec,
    known: Sequence[KnownIndex],
    row_counts: Mapping[int, int],
) -> _Build:
    """One segment over all rows, or over those that a segment of nearly all does not know."""
    same_column = [index for index in known if index.columns == (spec.column,)]
    parts = [(index, each) for index in same_column for each in index.segments]
    fitting = [(index, each) for index, each in parts if index.is_for(spec)]
    largest = max(fitting, key=lambda part: _sum(row_counts, part[1].fragments), default=None)
    if largest is not None and _is_worth_keeping(largest[1], row_counts):
        index, kept = largest
        rest = tuple(each for each in row_counts if each not in kept.fragments)
        if spec.kind is not IndexKind.VECTOR or _has_vectors(table, spec.column, rest):
            replaced = tuple(each.uuid for _, each in parts if each is not kept)
            return _Build(spec, index.name, rest, replaced)
    taken = {index.name for index in known if index not in same_column}
    replaced = tuple(each.uuid for _, each in parts)
    return _Build(spec, _name_beside(taken, spec.column), tuple(row_counts), replaced)


def _is_worth_keeping(segment: Segment, row_counts: Mapping[int, int]) -> bool:
    total = sum(row_counts.values())
    inside = _sum(row_counts, segment.fragments)
    return total > LAYOUT_ROWS_FREE and (total - inside) * LAYOUT_GROWTH < inside


def _has_vectors(table: LanceDataset, column: str, fragments: Collection[int]) -> bool:
    # Lance cannot build a vector index over none.
    found = table.scanner(
        columns=[],
        filter=f"`{column}` IS NOT NULL",
        fragments=[each for each in table.get_fragments() if each.fragment_id in fragments],
        with_row_id=True,
        limit=1,
    )
    return bool(found.to_table().num_rows)


def _name_beside(taken: Collection[str], column: str) -> str:
    # A column that was renamed keeps its index, and with it perhaps the name that is wanted.
    name, number = f"{column}_idx", 2
    while name in taken:
        name, number = f"{column}_{number}_idx", number + 1
    return name


def _build(
    table: LanceDataset, builds: Sequence[_Build], row_counts: Mapping[int, int], crew: Crew | None
) -> list[Index]:
    """One segment for each build; what many write in pieces is merged."""
    pieces = [tuple(_cut(build, row_counts, crew)) for build in builds]
    every = [piece for each in pieces for piece in each]
    written = iter(run_on(table, _write_segment, every, crew=crew, stage="index"))
    segments = [tuple(islice(written, len(each))) for each in pieces]
    # A text's segment that was not merged can be committed and not searched.
    merged = [
        len(each) > 1 or build.spec.kind is IndexKind.INVERTED
        for build, each in zip(builds, segments, strict=True)
    ]
    waiting = [each for each, is_merged in zip(segments, merged, strict=True) if is_merged]
    whole = iter(run_on(table, _merge_segments, waiting, crew=crew, stage="merge indexes"))
    return [
        next(whole) if is_merged else each[0]
        for each, is_merged in zip(segments, merged, strict=True)
    ]


def _cut(build: _Build, row_counts: Mapping[int, int], crew: Crew | None) -> Iterator[_Piece]:
    """The build in pieces for one task each, of neighbouring fragments."""
    rows_max = share_of(_sum(row_counts, build.fragments), crew=crew)
    groups: list[list[int]] = [[]]
    rows = 0
    for number in build.fragments:
        if groups[-1] and rows + row_counts[number] > rows_max:
            groups.append([])
            rows = 0
        groups[-1].append(number)
        rows += row_counts[number]
    for group in groups:
        yield _Piece(build.spec, build.name, tuple(group), is_whole=len(groups) == 1)


def _write_segment(table: LanceDataset, piece: _Piece) -> Index:
    builder = copy(table)
    column, name, fragments = piece.spec.column, piece.name, list(piece.fragments)
    match piece.spec.kind:
        case IndexKind.BTREE | IndexKind.INVERTED:
            return builder.create_index_uncommitted(
                column, str(piece.spec.kind), name=name, replace=True, fragment_ids=fragments
            )
        case IndexKind.VECTOR:
            return builder.create_index_uncommitted(
                column,
                "IVF_FLAT",
                name=name,
                metric="l2",
                replace=True,
                num_partitions=1,
                ivf_centroids=None if piece.is_whole else _any_centre(table, column),
                fragment_ids=fragments,
            )


def _merge_segments(table: LanceDataset, segments: Sequence[Index]) -> Index:
    return copy(table).merge_existing_index_segments(list(segments))


def _any_centre(table: LanceDataset, column: str) -> NDArray[np.float32]:
    # Segments can be merged if they have the same centres. There is one, and every vector is its.
    return np.zeros((1, table.schema.field(column).type.list_size), np.float32)


def _sum(row_counts: Mapping[int, int], fragments: Iterable[int]) -> int:
    return sum(row_counts[each] for each in fragments)


def _by_uuid(uuid: str) -> Index:
    # Lance removes an index by its id alone; the rest need not be true.
    return Index(uuid, "", fields=[], dataset_version=0, fragment_ids=Bitmap(), index_version=0)
