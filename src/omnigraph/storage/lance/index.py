"""Scalar, text and vector indexes: lookup by column, and staged builds.

Several indexes are built in one staged write. Rows that an existing index does not cover get a
separate segment if they are few, so the cost depends on the new rows. Workers can build a segment
in pieces, with the same result as a local build. An index never changes a query result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np
from lance import Index, LanceDataset, LanceOperation, LanceScanner
from lance.bitmap import Bitmap
from lance.indices import IndicesBuilder
from lance.lance import indices as lance_indices  # its public module lacks `build_rq_model`
from numpy.typing import NDArray

from omnigraph.model.limits import LAYOUT_GROWTH, LAYOUT_ROWS_FREE, VECTOR_PARTITION_ROWS
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.lance.scan import open_version
from omnigraph.storage.lance.stage import make_staged
from omnigraph.storage.ports import (
    IndexKind,
    IndexSpec,
    StagedKind,
    StagedWrite,
    TableBranchFolder,
    TableVersion,
    Workers,
)

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """The workers for a table branch, and the folder of the branch."""

    folder: TableBranchFolder
    workers: Workers


def run_tasks(
    table: LanceDataset,
    work: Callable[[LanceDataset, T], R],
    tasks: Sequence[T],
    *,
    pool: WorkerPool | None,
    stage: str,
) -> tuple[R, ...]:
    """Run `work` on a version for each task; returns the results in task order.

    Without a worker pool the tasks run in this process.
    """
    if pool is None:
        return tuple(work(table, task) for task in tasks)
    elsewhere = partial(_open_and_work, pool.folder, table.version, work)
    return pool.workers.run(elsewhere, tasks, stage=stage)


# In the worker processes


def _open_and_work(
    folder: TableBranchFolder, version: int, work: Callable[[LanceDataset, T], R], task: T
) -> R:
    with lance_errors(table=folder.uri, action=f"write files for '{folder.uri}'"):
        return work(open_version(folder, version), task)


_KIND_BY_LANCE_NAME = {
    "BTree": IndexKind.BTREE,
    "Inverted": IndexKind.INVERTED,
    "IVF_FLAT": IndexKind.VECTOR,
    "IVF_RQ": IndexKind.VECTOR,
}

_QUANTIZED = "IVF_RQ"
_QUANTIZED_DIMENSION_STEP = 8
"""Lance 14 quantizes vectors whose dimension is a multiple of this."""

_QUANTIZED_BITS = 5
"""Bits of a quantized number: with three, some of the nearest are missed among random vectors."""

_TRAINED_ROWS = 256
"""Vectors per partition from which Lance computes the centroids, if there are enough."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of an index, and the fragments of the version that it covers."""

    uuid: str
    fragments: frozenset[int]


@dataclass(frozen=True, slots=True)
class KnownIndex:
    """An index of a version; `kind` is None if OmniGraph does not use this kind."""

    name: str
    columns: tuple[str, ...]
    kind: IndexKind | None
    segments: tuple[Segment, ...]

    @property
    def fragments(self) -> frozenset[int]:
        """The fragments that the index covers."""
        return frozenset().union(*(segment.fragments for segment in self.segments))

    def is_for(self, spec: IndexSpec) -> bool:
        """Whether this index matches a spec."""
        return self.kind is spec.kind and self.columns == (spec.column,)


@dataclass(frozen=True, slots=True)
class _Build:
    """A segment to build, its index name, and the segments that it replaces."""

    spec: IndexSpec
    name: str
    fragments: tuple[int, ...]
    replaced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a segment, or the whole segment, that one task writes."""

    spec: IndexSpec
    name: str
    fragments: tuple[int, ...]
    model: _VectorModel | None


@dataclass(frozen=True, slots=True)
class _VectorModel:
    """The centroids of the partitions and the rotation of the quantization.

    Segments that have them in common can be merged. A segment without a model has its own.
    """

    partitions: int
    centroids: NDArray[np.float32] | None
    rotation: str | None


def known_indexes(table: LanceDataset) -> tuple[KnownIndex, ...]:
    """Every index of a version, by name, including those that OmniGraph did not create."""
    present = frozenset(rows_by_fragment(table))
    return tuple(
        KnownIndex(
            name=index.name,
            columns=tuple(index.field_names),
            kind=_find_kind(table, index.index_type, index.field_names),
            # Coverage of fragments that the version no longer has is dropped.
            segments=tuple(
                Segment(str(each.uuid), present & frozenset(each.fragment_ids))
                for each in index.segments
            ),
        )
        for index in sorted(table.describe_indices(), key=lambda index: index.name)
    )


def _find_kind(table: LanceDataset, lance_name: str, columns: Sequence[str]) -> IndexKind | None:
    kind = _KIND_BY_LANCE_NAME.get(lance_name)
    if kind is not IndexKind.VECTOR or len(columns) != 1:
        return kind
    # An index of the other type was built by an earlier version of OmniGraph, and is replaced.
    return kind if lance_name == _vector_type(_dimension(table, columns[0])) else None


def _vector_type(dimension: int) -> str:
    return "IVF_FLAT" if dimension % _QUANTIZED_DIMENSION_STEP else _QUANTIZED


def _dimension(table: LanceDataset, column: str) -> int:
    size: int = table.schema.field(column).type.list_size
    return size


def find_indexes(table: LanceDataset) -> dict[IndexSpec, int]:
    """The indexes of the kinds that OmniGraph uses, by column, and the rows that each covers."""
    row_counts = rows_by_fragment(table)
    covered = {
        IndexSpec(index.columns[0], index.kind): _sum(row_counts, index.fragments)
        for index in known_indexes(table)
        if index.kind is not None and len(index.columns) == 1
    }
    return dict(sorted(covered.items(), key=lambda each: (each[0].column, each[0].kind)))


def rows_by_fragment(table: LanceDataset) -> dict[int, int]:
    """The fragments of a version in order, with the number of live rows of each."""
    return {each.fragment_id: each.metadata.num_rows for each in table.get_fragments()}


def is_complete(spec: IndexSpec, known: Iterable[KnownIndex], fragments: Collection[int]) -> bool:
    """Whether a column has the index of a spec and it covers every fragment."""
    return any(index.is_for(spec) and index.fragments.issuperset(fragments) for index in known)


def stage_indexes(
    table: LanceDataset, specs: Sequence[IndexSpec], *, onto: TableVersion, pool: WorkerPool | None
) -> StagedWrite:
    """Stage the missing parts of indexes; at least one index must be incomplete."""
    known = known_indexes(table)
    row_counts = rows_by_fragment(table)
    incomplete = [spec for spec in specs if not is_complete(spec, known, row_counts)]
    assert incomplete, "every index knows every row"
    builds: list[_Build] = []
    for spec in incomplete:
        taken = frozenset(build.name for build in builds)
        builds.append(_plan_build(table, spec, known, row_counts, taken=taken))
    return make_index_write(
        _build(table, builds, row_counts, pool),
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
        files=(f"_indices/{each.uuid}/{file.path}" for each in added for file in each.files or ()),
    )


def _plan_build(
    table: LanceDataset,
    spec: IndexSpec,
    known: Sequence[KnownIndex],
    row_counts: Mapping[int, int],
    *,
    taken: Collection[str],
) -> _Build:
    """Plan one segment over all rows, or over those not covered by a nearly complete segment."""
    # A column may have indexes of several kinds. One of an unknown kind is replaced.
    same_column = [
        index
        for index in known
        if index.columns == (spec.column,) and index.kind in {spec.kind, None}
    ]
    parts = [(index, each) for index in same_column for each in index.segments]
    matching = [(index, each) for index, each in parts if index.is_for(spec)]
    largest = max(matching, key=lambda part: _sum(row_counts, part[1].fragments), default=None)
    if largest is not None and _is_worth_keeping(largest[1], row_counts):
        index, retained = largest
        rest = tuple(each for each in row_counts if each not in retained.fragments)
        if spec.kind is not IndexKind.VECTOR or _has_vectors(table, spec.column, rest):
            replaced = tuple(each.uuid for _, each in parts if each is not retained)
            return _Build(spec, index.name, rest, replaced)
    taken = {*taken, *(index.name for index in known if index not in same_column)}
    replaced = tuple(each.uuid for _, each in parts)
    return _Build(spec, _name_beside(taken, spec.column), tuple(row_counts), replaced)


def _is_worth_keeping(segment: Segment, row_counts: Mapping[int, int]) -> bool:
    total = sum(row_counts.values())
    inside = _sum(row_counts, segment.fragments)
    return total > LAYOUT_ROWS_FREE and (total - inside) * LAYOUT_GROWTH < inside


def _has_vectors(table: LanceDataset, column: str, fragments: Collection[int]) -> bool:
    # Lance cannot build a vector index without vectors.
    return bool(_scan_vectors(table, column, fragments, limit=1).to_table().num_rows)


def _scan_vectors(
    table: LanceDataset, column: str, fragments: Collection[int], *, limit: int | None
) -> LanceScanner:
    """A scan of the row ids of all rows with a vector."""
    return table.scanner(
        columns=[],
        filter=f"`{column}` IS NOT NULL",
        fragments=[each for each in table.get_fragments() if each.fragment_id in fragments],
        with_row_id=True,
        limit=limit,
    )


def _name_beside(taken: Collection[str], column: str) -> str:
    # A renamed column retains its index, which may already have the wanted name.
    name, number = f"{column}_idx", 2
    while name in taken:
        name, number = f"{column}_{number}_idx", number + 1
    return name


def _build(
    table: LanceDataset,
    builds: Sequence[_Build],
    row_counts: Mapping[int, int],
    pool: WorkerPool | None,
) -> list[Index]:
    """Build one segment for each plan; pieces written by several workers are merged."""
    pieces = [tuple(_cut(table, build, row_counts, pool)) for build in builds]
    every = [piece for each in pieces for piece in each]
    written = iter(run_tasks(table, _write_segment, every, pool=pool, stage="index"))
    segments = [tuple(islice(written, len(each))) for each in pieces]
    # A text segment that was not merged can be committed but not searched.
    merged = [
        len(each) > 1 or build.spec.kind is IndexKind.INVERTED
        for build, each in zip(builds, segments, strict=True)
    ]
    waiting = [each for each, is_merged in zip(segments, merged, strict=True) if is_merged]
    whole = iter(run_tasks(table, _merge_segments, waiting, pool=pool, stage="merge indexes"))
    return [
        next(whole) if is_merged else each[0]
        for each, is_merged in zip(segments, merged, strict=True)
    ]


def _cut(
    table: LanceDataset,
    build: _Build,
    row_counts: Mapping[int, int],
    pool: WorkerPool | None,
) -> Iterator[_Piece]:
    """The build split into pieces of adjacent fragments, one per task."""
    row_count = _sum(row_counts, build.fragments)
    rows_max = row_count if pool is None else pool.workers.share(row_count)
    groups: list[list[int]] = [[]]
    rows = 0
    for number in build.fragments:
        if groups[-1] and rows + row_counts[number] > rows_max:
            groups.append([])
            rows = 0
        groups[-1].append(number)
        rows += row_counts[number]
    model = None
    if build.spec.kind is IndexKind.VECTOR:
        partitions = max(1, row_count // VECTOR_PARTITION_ROWS)
        model = _VectorModel(partitions, None, None)
        if len(groups) > 1:
            model = _train(table, build.spec.column, build.fragments)
    for group in groups:
        yield _Piece(build.spec, build.name, tuple(group), model)


def _train(table: LanceDataset, column: str, fragments: Collection[int]) -> _VectorModel:
    """A model for segments that are merged."""
    vectors = _scan_vectors(table, column, fragments, limit=None).count_rows()
    partitions = max(1, vectors // VECTOR_PARTITION_ROWS)
    dimension = _dimension(table, column)
    is_quantized = _vector_type(dimension) == _QUANTIZED
    rotation = (
        lance_indices.build_rq_model(dimension, num_bits=_QUANTIZED_BITS) if is_quantized else None
    )
    if partitions == 1:
        # Every vector belongs to the only partition, whatever its centroid is.
        return _VectorModel(1, np.zeros((1, dimension), np.float32), rotation)
    trained = IndicesBuilder(table, column).train_ivf(
        partitions,
        distance_type="l2",
        sample_rate=min(_TRAINED_ROWS, vectors // partitions),
        fragment_ids=list(fragments),
    )
    numbers = trained.centroids.flatten().to_numpy(zero_copy_only=False)
    return _VectorModel(partitions, numbers.reshape(partitions, dimension), rotation)


def _write_segment(table: LanceDataset, piece: _Piece) -> Index:
    builder = copy(table)
    column, name, fragments = piece.spec.column, piece.name, list(piece.fragments)
    match piece.spec.kind:
        case IndexKind.BTREE | IndexKind.INVERTED:
            return builder.create_index_uncommitted(
                column, str(piece.spec.kind), name=name, replace=True, fragment_ids=fragments
            )
        case IndexKind.VECTOR:
            assert piece.model is not None, "a vector index has a model"
            build = partial(
                builder.create_index_uncommitted,
                column,
                name=name,
                metric="l2",
                replace=True,
                num_partitions=piece.model.partitions,
                ivf_centroids=piece.model.centroids,
                fragment_ids=fragments,
            )
            lance_name = _vector_type(_dimension(table, column))
            if lance_name != _QUANTIZED:
                return build(lance_name)
            return build(lance_name, num_bits=_QUANTIZED_BITS, rabitq_model=piece.model.rotation)


def _merge_segments(table: LanceDataset, segments: Sequence[Index]) -> Index:
    return copy(table).merge_existing_index_segments(list(segments))


def _sum(row_counts: Mapping[int, int], fragments: Iterable[int]) -> int:
    return sum(row_counts[each] for each in fragments)


def _by_uuid(uuid: str) -> Index:
    # Lance removes an index by its id alone; the other fields are ignored.
    return Index(uuid, "", fields=[], dataset_version=0, fragment_ids=Bitmap(), index_version=0)
