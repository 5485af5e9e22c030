"""Validation of staged rows: violations with their rows, and the loop that removes rejected rows.

Removing a row can violate another rule, so validation repeats until no violation remains. In merge
mode the last row of an id counts. Joins run only for rules that the key checks leave in doubt.
Violations are counted in full and shown up to a bound, in the order of a load in process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from omnigraph.engine.commit.integrity.edges import (
    PUT_EDGE,
    UNTOUCHED_EDGE,
    End,
    describe_count,
    describe_dangling,
    ends_of,
)
from omnigraph.engine.commit.integrity.keys import describe_repeat, describe_shared
from omnigraph.engine.graph_load import LoadCall, OnError
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import KeyConflictError, Violation
from omnigraph.model.limits import QUARANTINED_ROWS_MAX, VIOLATIONS_MAX
from omnigraph.spark.jobs import run_job
from omnigraph.spark.load.checks import Checks, JobRows, KeyCheckResult, check_keys, collect_rows
from omnigraph.spark.load.inputs import FrameInput
from omnigraph.spark.load.key_claims import SpaceKind
from omnigraph.spark.load.rejections import gather_values, list_shown, locate_rows, refuse
from omnigraph.spark.load.staged import Broken, Reason, take_positions
from omnigraph.spark.load.staging import JobStaging, LeftOut, require_few_rejected
from omnigraph.storage.ports import TableReader

# The ranks of the rules of a type, after the value rules.
_UNIQUE, _ID, _END, _UNTOUCHED, _COUNT = 1000, 2000, 3000, 4000, 5000
_EXISTING = 6000


def is_count(broken: Broken) -> bool:
    """Whether a rule bounds the number of edges that leave a node."""
    return broken.rank == _COUNT


@dataclass(frozen=True, slots=True)
class Findings:
    """Finds the rules that a job violates; at most `told_max` rows are reported per rule."""

    job: JobRows
    judgement: KeyCheckResult
    checks: Checks
    told_max: int

    def find(self) -> Iterator[Broken]:
        """Every violated rule, ordered by table key and then by rank."""
        edge_by_key = {table_key_of(edge): edge for edge in self.job.catalog.edges.values()}
        for key in sorted({*self.job.types, *edge_by_key}):
            declared = self.job.types.get(key)
            if declared is not None:
                yield from self._find_shared(key, declared)
                yield from self._find_repeats(key, declared)
            edge = edge_by_key.get(key)
            if edge is not None:
                yield from self._find_without_nodes(key, edge)
                if declared is not None:
                    yield from self._find_miscounted(key, edge)

    def find_existing(self, key: str) -> Broken:
        """The rows of an append whose ids already exist."""
        name = self.job.types[key].name

        def describe(_rows: Sequence[Row], found: pa.Table) -> Iterator[Violation]:
            for row in found["id"].to_pylist():
                message = f"{name} '{row}' already exists"
                yield Violation(name, row, "exists", None, row, message)

        return self._tell(key, _EXISTING, self.checks.existing(key), ["id"], describe)

    def find_culprits(self, broken: Broken) -> Mapping[int, Violation]:
        """The positions of the rows of the job that violate a rule, each with its violation."""
        if not is_count(broken):
            pairs = zip(broken.positions, broken.violations, strict=True)
            return {position: told for position, told in pairs if position is not None}
        by_source = {each.id: each for each in broken.violations}
        sources = self.checks.spark.createDataFrame(
            [(each,) for each in by_source], "source string"
        )
        rows = self.checks.edges_from(broken.table_key, sources).collect()
        return {row["position"]: by_source[row["source"]] for row in rows}

    def _find_shared(self, key: str, declared: NodeType | EdgeType) -> Iterator[Broken]:
        for number, space in enumerate(self.judgement.doubtful(SpaceKind.UNIQUE, key)):
            group = space.columns

            def describe(
                rows: Sequence[Row], found: pa.Table, group: Sequence[str] = group
            ) -> Iterator[Violation]:
                for index, row in enumerate(rows):
                    one = found.slice(index, 1)
                    yield describe_shared(declared.name, group, one, other=row["other"])

            shared = self.checks.shared(key, group)
            yield self._tell(key, _UNIQUE + number, shared, ["id", *group], describe)

    def _find_repeats(self, key: str, declared: NodeType | EdgeType) -> Iterator[Broken]:
        _, verdict = self.judgement.of_ids(key)
        if not verdict.repeated:
            return

        def describe(rows: Sequence[Row], found: pa.Table) -> Iterator[Violation]:
            for index in range(len(rows)):
                yield describe_repeat(declared, found.slice(index, 1))

        repeats = self.checks.repeats(key, is_last_kept=False)
        columns = ["id", *(declared.key if isinstance(declared, NodeType) else ())]
        yield self._tell(key, _ID, repeats, columns, describe)

    def _find_without_nodes(self, key: str, edge: EdgeType) -> Iterator[Broken]:
        for number, end in enumerate(ends_of(edge)):
            if self.judgement.of_ids(end.table_key)[1].absent and key in self.job.types:
                yield self._tell_dangling(key, number, edge, end)
        for number, end in enumerate(ends_of(edge)):
            is_left = self.job.is_replaced(end.table_key) and not self.job.is_replaced(key)
            if is_left and self.judgement.of_ids(end.table_key)[1].absent:
                yield self._tell_stranded(key, number, edge, end)

    def _tell_dangling(self, key: str, number: int, edge: EdgeType, end: End) -> Broken:
        def describe(rows: Sequence[Row], found: pa.Table) -> Iterator[Violation]:
            for row, id in zip(rows, found["id"].to_pylist(), strict=True):
                yield describe_dangling(edge, end, id=id, node=row["node"], prefix=PUT_EDGE)

        dangling = self.checks.dangling(key, end.column, end.table_key)
        return self._tell(key, _END + number, dangling, ["id"], describe)

    def _tell_stranded(self, key: str, number: int, edge: EdgeType, end: End) -> Broken:
        stranded = self.checks.stranded(key, end.column, end.table_key)
        count, rows = self._take(stranded, "id")
        told = tuple(
            describe_dangling(edge, end, id=row["id"], node=row["node"], prefix=UNTOUCHED_EDGE)
            for row in rows
        )
        return Broken(key, _UNTOUCHED + number, count, told, (None,) * len(told))

    def _find_miscounted(self, key: str, edge: EdgeType) -> Iterator[Broken]:
        bounds = edge.cardinality
        is_doubtful = any(self.judgement.doubtful(SpaceKind.SOURCE, key))
        # Edges that are replaced may have had another source before.
        is_doubtful |= self.job.mode is LoadMode.MERGE and self.judgement.of_ids(key)[1].met > 0
        if not is_doubtful or (not bounds.minimum and bounds.maximum is None):
            return
        source = ends_of(edge)[0]
        wrong = self.checks.miscounted(
            key, source.table_key, minimum=bounds.minimum, maximum=bounds.maximum
        )
        count, rows = self._take(wrong, "source")
        told = tuple(describe_count(edge, row["source"], row["count"]) for row in rows)
        if count:
            yield Broken(key, _COUNT, count, told, (None,) * len(told))

    def _tell(
        self,
        key: str,
        rank: int,
        frame: DataFrame,
        columns: Sequence[str],
        describe: Callable[[Sequence[Row], pa.Table], Iterator[Violation]],
    ) -> Broken:
        count, rows = self._take(frame, "position")
        if not rows:
            return Broken(key, rank, 0, (), ())
        positions = tuple(row["position"] for row in rows)
        found = take_positions(self.job.staged[key], positions, columns=columns)
        return Broken(key, rank, count, tuple(describe(rows, found)), positions)

    def _take(self, frame: DataFrame, order: str) -> tuple[int, Sequence[Row]]:
        rows = frame.orderBy(order).limit(self.told_max + 1).collect()
        if len(rows) <= self.told_max:
            return len(rows), rows
        return frame.count(), rows[: self.told_max]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Validator:
    """Validates the staged rows of a job against a basis."""

    spark: SparkSession
    call: LoadCall
    rows: JobStaging
    tables: TableReader
    cores: int

    def sift(self, basis: Basis) -> tuple[JobRows, KeyCheckResult]:
        """The rows that can be committed.

        Raises `RequestError` if some cannot and rows must not be left out. The caller has to
        unpersist the claims of the result.
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
            judgement = self._run(partial(check_keys, self.spark, job, cores=self.cores))
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

    def _examine(self, job: JobRows, judgement: KeyCheckResult) -> LeftOut:
        """The rows to leave out. Raises if the job is rejected as a whole."""
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
        """The rows to leave out so that the rules hold."""
        # A count may become valid once other rows are left out.
        certain = [each for each in broken if each.count and not is_count(each)]
        left_out: dict[str, dict[int, Reason | None]] = {}
        for each in certain or broken:
            culprits = findings.find_culprits(each)
            if not culprits:
                # No row of the job violates the rule; the violation is caused by rows that are
                # missing.
                self._require_none([each])
            reasons = left_out.setdefault(each.table_key, {})
            for position, violation in culprits.items():
                reasons.setdefault(position, Reason(violation.rule, violation.message))
        return {key: reasons for key, reasons in left_out.items() if reasons}

    def _find_edits(self, job: JobRows, judgement: KeyCheckResult, checks: Checks) -> LeftOut:
        """The rows of a merge whose id a later row has, where ids do not come from keys."""
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
        """The rows of an append that already exist."""
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
