"""The staged rows of one job: staged once, and some portions again without rows that are wrong.

Remembers every file that was written for it, so that what is not needed in the end can go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from omnigraph.engine.loads import Progress
from omnigraph.model.errors import LimitExceededError, UnavailableError
from omnigraph.model.limits import QUARANTINED_ROWS_MAX
from omnigraph.spark.jobs import run_job
from omnigraph.spark.loading.inputs import JobInput
from omnigraph.spark.loading.staged import (
    PortionKey,
    Reason,
    StagedPortion,
    StagedRows,
    parse_position,
)
from omnigraph.spark.loading.staging import StagingPlan
from omnigraph.spark.loading.staging_jobs import stage_inputs
from omnigraph.storage.table_parts import NewFile

LeftOut = Mapping[str, Mapping[int, Reason | None]]
"""Rows by table key and position, each with the reason if it is at fault."""


class JobStaging:
    """What a job has staged so far."""

    def __init__(
        self,
        spark: SparkSession,
        plan: StagingPlan,
        inputs: Sequence[JobInput],
        *,
        progress: Progress,
    ) -> None:
        self.plan, self.inputs = plan, inputs
        self._spark, self._progress = spark, progress
        self._portion_by_key: dict[PortionKey, StagedPortion] = {}
        self._obsolete: dict[str, list[NewFile]] = {}

    @property
    def portions(self) -> tuple[StagedPortion, ...]:
        """What became of each portion, in the order of the input."""
        return tuple(self._portion_by_key[key] for key in sorted(self._portion_by_key))

    def stage(self) -> None:
        """Stage all of it."""
        staged = self._run(only=None)
        assert len({each.key for each in staged}) == len(staged), "a portion is staged once"
        self._portion_by_key = {each.key: each for each in staged}

    def leave_out(self, left_out: LeftOut) -> None:
        """Stage the portions of some rows again without these."""
        merged = {key: dict(rows) for key, rows in self.plan.left_out.items()}
        for table_key, reasons in left_out.items():
            for position, reason in reasons.items():
                portion, ordinal = parse_position(position)
                by_type = merged.setdefault(portion, {})
                by_type[table_key] = {**by_type.get(table_key, {}), ordinal: reason}
        affected = frozenset(
            parse_position(position)[0] for rows in left_out.values() for position in rows
        )
        self.plan = replace(self.plan, left_out=merged)
        for staged in self._run(only=affected):
            before = self._portion_by_key[staged.key]
            _require_same(before, staged)
            for rows in before.rows:
                self._obsolete.setdefault(rows.table_key, []).extend(rows.files)
            self._portion_by_key[staged.key] = staged

    def obsolete_files(self) -> Mapping[str, Sequence[NewFile]]:
        """The files that other ones stand for now, by table key."""
        return self._obsolete

    def all_files(self) -> Iterator[tuple[str, Sequence[NewFile]]]:
        """Every file that was written, by table key."""
        yield from self._obsolete.items()
        for portion in self._portion_by_key.values():
            for rows in portion.rows:
                yield rows.table_key, rows.files

    def _run(self, *, only: frozenset[PortionKey] | None) -> tuple[StagedPortion, ...]:
        return run_job(
            self._spark,
            lambda: stage_inputs(self._spark, self.plan, self.inputs, only=only),
            stage="read",
            progress=self._progress,
        )


def require_few_rejected(portions: Sequence[StagedPortion]) -> None:
    """Raise if so many rows were left out that something must be wrong with all of them."""
    rejected = sum(len(each.rejected) for each in portions)
    if rejected > QUARANTINED_ROWS_MAX:
        raise LimitExceededError(
            resource="the rows that one load leaves out", limit=QUARANTINED_ROWS_MAX, found=rejected
        )


def _require_same(before: StagedPortion, after: StagedPortion) -> None:
    if [*map(_identify, before.rows)] != [*map(_identify, after.rows)]:
        raise UnavailableError(
            action="leave out rows that cannot be loaded, so the graph is unchanged",
            reason="the input gave other rows when it was read again; persist a frame that does",
        )


def _identify(rows: StagedRows) -> tuple[str, int, int]:
    return rows.table_key, rows.row_count + len(rows.dropped), rows.checksum
