"""A bulk load, as the driver tells it: stage, judge, and one commit by the ordinary write path.

Nothing is written that anybody sees before the commit; what a job leaves behind when it ends in any
other way are files that no version names. Rows never come to the driver, only what became of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession
from ulid import ULID

from omnigraph.engine.commit.changes import Placement, PreparedWrite, TableChange
from omnigraph.engine.loads import Input, LoadCall, OnError, author_of
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.attempts import is_refused, write_once
from omnigraph.engine.ops.branch import ensure_branch
from omnigraph.engine.ops.lines import open_lines
from omnigraph.engine.ops.load import LoadMode, PreparedLoad, tell_load
from omnigraph.engine.ops.told import Answer, load_result
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import LoadResult
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import line_of
from omnigraph.model.catalog import NodeType
from omnigraph.model.errors import GraphError
from omnigraph.model.names import MAIN
from omnigraph.model.policy import Action
from omnigraph.spark.jobs import run_job
from omnigraph.spark.loading.claims import select_met
from omnigraph.spark.loading.inputs import parse_inputs
from omnigraph.spark.loading.job_staging import JobStaging
from omnigraph.spark.loading.judging import JobRows, Judgement
from omnigraph.spark.loading.quarantine import Quarantine, open_quarantine
from omnigraph.spark.loading.refusals import (
    PlacedRow,
    place_rejected,
    report_rejected,
    require_read,
)
from omnigraph.spark.loading.replacing import strike_rows
from omnigraph.spark.loading.sifting import Sifting
from omnigraph.spark.loading.staged import POSITION_BITS
from omnigraph.spark.loading.staging import StagingPlan
from omnigraph.spark.sessions import find_session, is_connect
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.ports import TableRef
from omnigraph.storage.table_parts import NewFile, StruckFragment

_CORES_OF_SERVER = 8
_LOG = logging.getLogger(__name__)
T = TypeVar("T")


def load(inputs: Sequence[Input], call: LoadCall, opened: OpenGraph) -> LoadResult:
    """Load rows of any number of types as one commit, or change nothing."""
    return _Load(inputs, call, opened, find_session(call.spark)).run()


@dataclass(frozen=True, slots=True)
class _Staged:
    """The staged rows, the schema they were read by, and the lines their files lie at."""

    schema_hash: str
    rows: JobStaging
    lines: Mapping[str, TableRef]


class _Load:
    """One load on its way."""

    def __init__(
        self, given: Sequence[Input], call: LoadCall, opened: OpenGraph, spark: SparkSession
    ) -> None:
        self._given, self._call, self._opened, self._spark = given, call, opened, spark
        self._id = opened.settings.runtime.new_id()
        self._staged: _Staged | None = None
        self._is_done = False
        # Whether the files may have become part of a version.
        self._is_in_doubt = False

    def run(self) -> LoadResult:
        """Stage, judge and commit."""
        call, opened = self._call, self._opened
        is_missing = call.base is not None and call.target not in opened.authority.branches()
        if is_missing:
            create = Action.BRANCH_CREATE
            opened.require_allowed(create, branch=call.base, target=call.target, actor=None)
        start = opened.authority.capture(call.base if is_missing and call.base else call.target)
        is_new = False
        try:
            staged = self._stage(start)
            if is_missing and call.base is not None:
                # What is refused on the base would be refused on the branch: better before it is.
                _, judgement = self._sift(staged, start)
                judgement.claims.unpersist()
                is_new = ensure_branch(
                    call.target, base=call.base, if_head=call.expected_head, path=opened.writes
                )
            self._open_lines(staged)
            told = write_once(
                call.target,
                prepare=self._prepare,
                tell=partial(self._tell, is_new_branch=is_new),
                authorship=author_of(call, opened),
                path=opened.writes,
            )
            # Whoever was asked the same has brought the rows, in files of its own.
            self._is_done, self._is_in_doubt = not told.is_repeated, False
        except GraphError as error:
            self._is_in_doubt &= not is_refused(error)
            raise
        finally:
            if not self._is_done and not self._is_in_doubt:
                self._forsake()
        result = load_result(told, branch=call.target)
        if told.is_repeated:
            return result
        self._tidy()
        rejected = self._rejected()
        if not rejected:
            return result
        return replace(result, report=report_rejected(rejected, self._quarantine().location))

    def _tell(self, done: PreparedLoad, *, is_new_branch: bool) -> Answer:
        return tell_load(
            done,
            base=self._call.base,
            is_new_branch=is_new_branch,
            engine="spark",
            rejected_count=len(self._rejected()),
        )

    # Staging

    def _stage(self, basis: Basis) -> _Staged:
        settings = self._opened.settings
        means = self._opened.means_of(basis)
        is_tolerant = self._call.on_error is OnError.QUARANTINE
        inputs = parse_inputs(
            self._given, means=means, cores=_count_cores(self._spark), is_tolerant=is_tolerant
        )
        line = line_of(self._call.target)
        entries = basis.snapshot.entries
        lines = {key: TableRef(entry.path, line) for key, entry in entries.items()}
        tables = self._opened.stores.tables
        plan = StagingPlan(
            schema=basis.contract.source,
            folders={key: tables.folder(ref) for key, ref in lines.items()},
            external=settings.external_blobs,
            storage_options=settings.location.storage_options,
            folder=str(Path.cwd()),
            first_id=int(ULID.from_str(self._id)) >> POSITION_BITS << POSITION_BITS,
            is_tolerant=is_tolerant,
            left_out={},
        )
        rows = JobStaging(self._spark, plan, inputs, progress=self._call.progress)
        staged = _Staged(basis.contract.schema_hash, rows, lines)
        self._staged = staged
        rows.stage()
        require_read(rows.portions, inputs, means=means)
        return staged

    def _open_lines(self, staged: _Staged) -> None:
        """Where rows may be replaced, marks have to lie where the branch will look for them."""
        call = self._call
        if call.mode is not LoadMode.MERGE or call.target == MAIN:
            return
        entries = self._opened.pin(call.target).snapshot.entries
        given = {
            rows.table_key
            for portion in staged.rows.portions
            for rows in portion.rows
            if rows.has_given_id
        }
        keys = [key for key in sorted(given & entries.keys()) if entries[key].row_count]
        if keys:
            open_lines(keys, branch=call.target, path=self._opened.writes)

    # Judging

    def _prepare(self, basis: Basis, committed: SnapshotRows) -> PreparedLoad:  # noqa: ARG002
        staged = self._staged
        assert staged is not None, "the rows were staged before"
        if basis.contract.schema_hash != staged.schema_hash:
            # What was read by another schema says nothing about this one.
            self._delete(staged, staged.rows.all_files())
            staged = self._stage(basis)
        job, judgement = self._sift(staged, basis)
        try:
            prepared = self._make_write(job, judgement, basis)
        finally:
            judgement.claims.unpersist()
        rejected = self._rejected()
        if rejected:
            self._quarantine().write(rejected)
        # For the last time, because from here on something is written.
        self._call.progress("commit", 0, _count_rows(prepared))
        self._is_in_doubt = True
        return prepared

    def _sift(self, staged: _Staged, basis: Basis) -> tuple[JobRows, Judgement]:
        sifting = Sifting(
            spark=self._spark,
            call=self._call,
            rows=staged.rows,
            tables=self._opened.stores.tables,
            cores=_count_cores(self._spark),
        )
        return sifting.sift(basis)

    def _make_write(self, job: JobRows, judgement: Judgement, basis: Basis) -> PreparedLoad:
        changes: dict[str, TableChange] = {}
        nodes: dict[str, int] = {}
        edges: dict[str, int] = {}
        for key, declared in job.types.items():
            files = tuple(each.file for each in job.staged[key])
            if not files and not job.is_overwrite:
                continue
            changes[key] = TableChange(
                type=declared,
                put=table_schema(declared).empty_table(),
                removed=table_schema(declared).empty_table()["id"].combine_chunks(),
                is_overwrite=job.is_overwrite,
                files=files,
                struck=self._strike(key, job, judgement, basis),
            )
            counts = nodes if isinstance(declared, NodeType) else edges
            counts[declared.name] = sum(each.row_count for each in files)
        write = PreparedWrite(
            changes=changes,
            placement=dict.fromkeys(changes, Placement.FILES),
            read_set=job.related,
            is_strict=job.is_overwrite,
        )
        return PreparedLoad(write, nodes, edges)

    def _strike(
        self, key: str, job: JobRows, judgement: Judgement, basis: Basis
    ) -> tuple[StruckFragment, ...]:
        """Have the committed rows marked as gone that the job brings anew."""
        space, verdict = judgement.of_ids(key)
        if job.mode is not LoadMode.MERGE or not verdict.met:
            return ()
        entry = basis.snapshot.get(key)
        folder = self._opened.stores.tables.folder(TableRef(entry.path, line_of(basis.branch)))
        addresses = select_met(judgement.claims, space)
        return self._run(
            lambda: strike_rows(addresses, folder=folder, version=entry.version), stage="replace"
        )

    def _run(self, action: Callable[[], T], *, stage: str) -> T:
        return run_job(self._spark, action, stage=stage, progress=self._call.progress)

    # What is left behind

    def _rejected(self) -> tuple[PlacedRow, ...]:
        staged = self._staged
        return () if staged is None else place_rejected(staged.rows.portions, staged.rows.inputs)

    def _quarantine(self) -> Quarantine:
        settings = self._opened.settings
        return open_quarantine(
            self._call.quarantine,
            graph=self._opened.stores.objects,
            root=settings.location.root,
            id=self._id,
            storage_options=settings.location.storage_options,
            is_durable=settings.is_durable,
        )

    def _tidy(self) -> None:
        """Remove files that other ones stand for."""
        if self._staged is not None:
            self._delete(self._staged, self._staged.rows.obsolete_files().items())

    def _forsake(self) -> None:
        """Remove all files of a job that failed."""
        if self._staged is not None:
            self._delete(self._staged, self._staged.rows.all_files())
        if self._call.on_error is OnError.QUARANTINE:
            with suppress(GraphError):
                self._quarantine().remove()

    def _delete(self, staged: _Staged, files: Iterable[tuple[str, Sequence[NewFile]]]) -> None:
        for table_key, some in files:
            try:
                self._opened.stores.tables.delete_files(staged.lines[table_key], some)
            except GraphError as error:
                # Nobody names them, and `cleanup` finds them.
                _LOG.warning("files of a load stay: %s", error)


def _count_rows(prepared: PreparedLoad) -> int:
    return sum(prepared.nodes_loaded.values()) + sum(prepared.edges_loaded.values())


def _count_cores(spark: SparkSession) -> int:
    # A server does not say how many it has; tasks for a few more do no harm.
    return _CORES_OF_SERVER if is_connect(spark) else spark.sparkContext.defaultParallelism
