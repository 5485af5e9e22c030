"""Sifting: a job is judged, and what is wrong with it refuses it or is left out, until nothing is.

Leaving out a row may break a rule that held with it, so the rest is judged again. Rows of a merge
that name an id twice are edits, of which the last counts; this too is leaving out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pyspark.sql import SparkSession

from omnigraph.engine.loads import LoadCall, OnError
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.state.authority import Basis
from omnigraph.model.catalog import NodeType
from omnigraph.model.errors import KeyConflictError
from omnigraph.model.limits import QUARANTINED_ROWS_MAX, VIOLATIONS_MAX
from omnigraph.spark.jobs import run_job
from omnigraph.spark.loading.checks import Checks
from omnigraph.spark.loading.findings import Findings, is_count
from omnigraph.spark.loading.inputs import FrameInput
from omnigraph.spark.loading.job_staging import JobStaging, LeftOut, require_few_rejected
from omnigraph.spark.loading.judging import JobRows, Judgement, collect_rows, judge_job
from omnigraph.spark.loading.locating import locate_rows
from omnigraph.spark.loading.refusals import gather_values, list_shown, refuse
from omnigraph.spark.loading.staged import Broken, Reason
from omnigraph.storage.ports import TableStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sifting:
    """Judges the staged rows of a job against a basis."""

    spark: SparkSession
    call: LoadCall
    rows: JobStaging
    tables: TableStore
    cores: int

    def sift(self, basis: Basis) -> tuple[JobRows, Judgement]:
        """The rows that can be committed; `RequestError` if some cannot and are not to be left out.

        Whoever gets the judgement lets go of its claims.
        """
        while True:
            require_few_rejected(self.rows.portions)
            job = collect_rows(
                self.rows.portions,
                named={each.table_key for each in self.rows.inputs if isinstance(each, FrameInput)},
                mode=self.call.mode,
                basis=basis,
                folders=self.rows.plan.folders,
                tables=self.tables,
            )
            judgement = self._run(partial(judge_job, self.spark, job, cores=self.cores))
            is_clean = False
            try:
                left_out = self._run(partial(self._examine, job, judgement))
                is_clean = not left_out
            finally:
                if not is_clean:
                    judgement.claims.unpersist()
            if is_clean:
                return job, judgement
            self.rows.leave_out(left_out)

    def _run(self, action: Callable[[], T]) -> T:
        return run_job(self.spark, action, stage="check", progress=self.call.progress)

    def _examine(self, job: JobRows, judgement: Judgement) -> LeftOut:
        """The rows to leave out; or the refusal of all."""
        checks = Checks(self.spark, job.for_checks())
        edits = self._find_edits(job, judgement, checks)
        if edits:
            return edits
        is_tolerant = self.call.on_error is OnError.QUARANTINE
        told_max = QUARANTINED_ROWS_MAX + 1 if is_tolerant else VIOLATIONS_MAX
        findings = Findings(job, judgement, checks, told_max)
        existing = self._find_existing(findings)
        if not is_tolerant:
            self._require_none([*gather_values(self.rows.portions), *findings.find()])
            return {}
        return self._find_culprits(findings, [*existing, *findings.find()])

    def _find_culprits(self, findings: Findings, broken: Sequence[Broken]) -> LeftOut:
        """The rows to leave out so that rules hold."""
        # Too many edges may be as many as there should be once others are left out.
        certain = [each for each in broken if each.count and not is_count(each)]
        left_out: dict[str, dict[int, Reason | None]] = {}
        for each in certain or broken:
            culprits = findings.find_culprits(each)
            if not culprits:
                # It is no row of the job that breaks the rule, but that they are all there is.
                self._require_none([each])
            reasons = left_out.setdefault(each.table_key, {})
            for position, violation in culprits.items():
                reasons.setdefault(position, Reason(violation.rule, violation.message))
        return {key: reasons for key, reasons in left_out.items() if reasons}

    def _find_edits(self, job: JobRows, judgement: Judgement, checks: Checks) -> LeftOut:
        """The rows of a merge whose id a later one has, where ids are not made of keys."""
        edits: dict[str, dict[int, Reason | None]] = {}
        if job.mode is not LoadMode.MERGE:
            return edits
        for key, declared in job.types.items():
            has_key = isinstance(declared, NodeType) and bool(declared.key)
            if not has_key and judgement.of_ids(key)[1].repeated:
                rows = checks.repeats(key, is_last_kept=True).collect()
                edits[key] = {row["position"]: None for row in rows}
        return edits

    def _find_existing(self, findings: Findings) -> list[Broken]:
        """The rows of an append that are there already."""
        job = findings.job
        if job.mode is not LoadMode.APPEND:
            return []
        met = {key: findings.judgement.of_ids(key)[1] for key in job.types}
        for key, verdict in met.items():
            if verdict.met and self.call.on_error is OnError.RAISE:
                raise KeyConflictError(type=job.types[key].name, id=verdict.first_met or "")
        return [findings.find_existing(key) for key, verdict in met.items() if verdict.met]

    def _require_none(self, broken: Iterable[Broken]) -> None:
        found = [each for each in broken if each.count]
        if not found:
            return
        places = locate_rows(
            self.spark,
            list_shown(found),
            plan=self.rows.plan,
            inputs=self.rows.inputs,
            portions=self.rows.portions,
        )
        raise refuse(found, places)
