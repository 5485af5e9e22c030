"""What the driver knows about staged files: partitions, files to delete, and the rows of a job.

Partitions with rejected rows are staged again without them. Every written file is recorded, so that
obsolete files can be deleted. Rows never reach the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from pyspark.sql import SparkSession

from omnigraph.engine.commit.integrity.edges import ends_of
from omnigraph.engine.ops.load import LoadMode, Progress
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType
from omnigraph.model.errors import LimitExceededError, UnavailableError
from omnigraph.model.limits import CLAIMED_ROWS_MAX, QUARANTINED_ROWS_MAX
from omnigraph.spark.jobs import collect_tasks, run_job
from omnigraph.spark.load.inputs import FileInput, FrameInput, JobInput, LocalInput
from omnigraph.spark.load.staging import (
    Declared,
    PartitionKey,
    Reason,
    StagedFile,
    StagedPartition,
    StagedRows,
    StagingPlan,
    files_of,
    parse_position,
    stage_frame,
    stage_rows_read,
    stage_splits,
)
from omnigraph.storage.ports import NewFile, TablePart, TableReader

LeftOut = Mapping[str, Mapping[int, Reason | None]]
"""Rows by table key and position, each with a reason if the row is at fault."""


@dataclass(frozen=True, slots=True)
class StagedJob:
    """The staged partitions of a job, in input order.

    `obsolete` are the rows of partitions that were staged again.
    """

    plan: StagingPlan
    inputs: tuple[JobInput, ...]
    partitions: tuple[StagedPartition, ...]
    obsolete: tuple[StagedRows, ...]

    def all_files(self) -> Iterator[tuple[str, tuple[NewFile, ...]]]:
        """Every file that was written, by table key."""
        yield from self.obsolete_files()
        yield from ((rows.table_key, rows.files) for each in self.partitions for rows in each.rows)

    def obsolete_files(self) -> Iterator[tuple[str, tuple[NewFile, ...]]]:
        """The files that other files have replaced, by table key."""
        yield from ((rows.table_key, rows.files) for rows in self.obsolete)


def stage_job(
    spark: SparkSession, plan: StagingPlan, inputs: tuple[JobInput, ...], *, progress: Progress
) -> StagedJob:
    """Stage all partitions of some inputs."""
    staged = _run(spark, plan, inputs, progress)
    assert len({each.key for each in staged}) == len(staged), "a partition is staged once"
    return StagedJob(plan, inputs, staged, ())


def stage_without(
    spark: SparkSession, job: StagedJob, left_out: LeftOut, *, progress: Progress
) -> StagedJob:
    """Stage the partitions of some rows again without these rows."""
    merged = {key: dict(rows) for key, rows in job.plan.left_out.items()}
    affected: set[PartitionKey] = set()
    for table_key, reasons in left_out.items():
        for position, reason in reasons.items():
            key, ordinal = parse_position(position)
            affected.add(key)
            by_type = merged.setdefault(key, {})
            by_type[table_key] = {**by_type.get(table_key, {}), ordinal: reason}
    # Vectors of the remaining rows are copied from the files that contain them.
    before = {each.key: each for each in job.partitions if each.key in affected}
    plan = replace(job.plan, left_out=merged, before=before)
    after = {each.key: each for each in _run(spark, plan, job.inputs, progress)}
    replaced = tuple(rows for key in after for rows in before[key].rows)
    partitions = tuple(after.get(each.key, each) for each in job.partitions)
    return StagedJob(plan, job.inputs, partitions, job.obsolete + replaced)


def require_same_rows(before: StagedJob, after: StagedJob) -> None:
    """Raise `UnavailableError` if an input had other rows when it was read again."""
    if [*_identify(before)] != [*_identify(after)]:
        raise UnavailableError(
            action="leave out rows that cannot be loaded, so the graph is unchanged",
            reason="the input returned other rows when it was read again; persist the frame",
        )


def _identify(job: StagedJob) -> Iterator[tuple[PartitionKey, str, int, int]]:
    for each in job.partitions:
        for rows in each.rows:
            row_count = rows.row_count + len(rows.dropped)
            yield each.key, rows.table_key, row_count, rows.checksum


def _run(
    spark: SparkSession, plan: StagingPlan, inputs: Sequence[JobInput], progress: Progress
) -> tuple[StagedPartition, ...]:
    """Stage the partitions that the plan includes, in input order."""

    def stage() -> tuple[StagedPartition, ...]:
        found: list[StagedPartition] = []
        for source, each in enumerate(inputs):
            if plan.before and all(key.source != source for key in plan.before):
                continue
            # Each input has its own job, because a task knows its partition number only within its
            # job.
            found += sorted(_stage_input(spark, plan, source, each), key=attrgetter("key"))
        return tuple(found)

    return run_job(spark, stage, stage="read", progress=progress)


def _stage_input(
    spark: SparkSession, plan: StagingPlan, source: int, given: JobInput
) -> Sequence[StagedPartition]:
    match given:
        case LocalInput(pieces, faults):
            return [stage_rows_read(plan, PartitionKey(source, 0), pieces, faults)]
        case FileInput(partitions):
            keys = [PartitionKey(source, number) for number in range(len(partitions))]
            tasks = [(key, partitions[key.number]) for key in keys if plan.includes(key)]
            return collect_tasks(spark, partial(stage_splits, plan), tasks)
        case FrameInput(table_key, frame):
            stage = partial(stage_frame, plan, source, table_key)
            rows = frame.mapInArrow(stage, "staged binary").collect()
            return [pickle.loads(row["staged"]) for row in rows]


def require_few_rejected(partitions: Sequence[StagedPartition]) -> None:
    """Raise if so many rows were left out that the whole input is probably wrong."""
    rejected = sum(len(each.rejected) for each in partitions)
    if rejected > QUARANTINED_ROWS_MAX:
        raise LimitExceededError(
            resource="the rows that one load leaves out", limit=QUARANTINED_ROWS_MAX, found=rejected
        )


@dataclass(frozen=True, slots=True)
class JobRows:
    """The rows of a job and the committed rows that they are checked against.

    `types` are the types that the job writes rows of, by table key. `parts` are the committed rows
    of the types that the checks read.
    """

    mode: LoadMode
    catalog: Catalog
    types: Mapping[str, Declared]
    staged: Mapping[str, tuple[StagedFile, ...]]
    with_given_id: frozenset[str]
    parts: Mapping[str, tuple[TablePart, ...]]

    @property
    def related(self) -> frozenset[str]:
        """The types whose committed rows affect the checks of the job."""
        return frozenset(_list_related(self.types, self.catalog, is_overwrite=self.is_overwrite))

    @property
    def is_overwrite(self) -> bool:
        """Whether the job replaces all rows of its types."""
        return self.mode is LoadMode.OVERWRITE

    def is_replaced(self, table_key: str) -> bool:
        """Whether every committed row of a type is deleted."""
        return self.is_overwrite and table_key in self.types


def collect_rows(job: StagedJob, *, mode: LoadMode, basis: Basis, tables: TableReader) -> JobRows:
    """The staged rows of a job, and the committed rows that their checks need.

    The job writes the type of a frame even if it has no row of it.
    """
    frames = (each for each in job.inputs if isinstance(each, FrameInput))
    staged: dict[str, list[StagedFile]] = {each.table_key: [] for each in frames}
    with_given_id: set[str] = set()
    for partition in job.partitions:
        for rows in partition.rows:
            files = staged.setdefault(rows.table_key, [])
            files += files_of(partition.key, rows, job.plan.folders[rows.table_key])
            if rows.has_given_id:
                with_given_id.add(rows.table_key)
    declared_by_key = {table_key_of(each): each for each in basis.catalog.stored_types()}
    types = {key: declared_by_key[key] for key in sorted(staged)}
    parts = {
        key: tables.parts(basis.snapshot.get(key).at, rows_max=CLAIMED_ROWS_MAX)
        for key in _list_related(types, basis.catalog, is_overwrite=mode is LoadMode.OVERWRITE)
        if basis.snapshot.get(key).row_count
    }
    return JobRows(
        mode=mode,
        catalog=basis.catalog,
        types=types,
        staged={key: tuple(files) for key, files in staged.items()},
        with_given_id=frozenset(with_given_id),
        parts=parts,
    )


def _list_related(
    types: Mapping[str, Declared], catalog: Catalog, *, is_overwrite: bool
) -> list[str]:
    related = set(types)
    for declared in types.values():
        if isinstance(declared, EdgeType):
            related |= {end.table_key for end in ends_of(declared)}
    if is_overwrite:
        for edge in catalog.edges.values():
            if any(end.table_key in types for end in ends_of(edge)):
                related.add(table_key_of(edge))
    return sorted(related)
