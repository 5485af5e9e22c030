"""The driver of a bulk load: read, coerce, stage, validate by one shuffle, and one commit.

A load is one commit or changes nothing. Rows never reach the driver. A load that fails leaves only
files that no version references, and removes them unless the outcome of the commit is uncertain.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from ulid import ULID

from omnigraph.engine.commit.prepared_write import PreparedWrite, StagingMode, TableChange
from omnigraph.engine.commit.staging import discard_files
from omnigraph.engine.context import GraphContext
from omnigraph.engine.graph_load import Input, LoadCall, OnError, author_of, policy_of
from omnigraph.engine.maintenance.embed import require_portable
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.ops.recorded_responses import LOAD_CODEC
from omnigraph.engine.ops.refs import create_table_branches, ensure_branch
from omnigraph.engine.ops.retry import Prepared, is_refused, run_write
from omnigraph.engine.results import LoadResult
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_branch_of
from omnigraph.model.catalog import NodeType
from omnigraph.model.errors import GraphError
from omnigraph.model.names import MAIN
from omnigraph.model.ports import Action
from omnigraph.spark.errors import carried_errors
from omnigraph.spark.jobs import count_cores, run_job
from omnigraph.spark.load import rejections
from omnigraph.spark.load.inputs import parse_inputs
from omnigraph.spark.load.key_claims import KeyCheckResult, check_keys, select_met
from omnigraph.spark.load.staged import (
    JobRows,
    LeftOut,
    StagedJob,
    collect_rows,
    require_few_rejected,
    require_same_rows,
    stage_job,
    stage_without,
)
from omnigraph.spark.load.staging import POSITION_BITS, StagingPlan
from omnigraph.spark.load.validate import Validator
from omnigraph.spark.sessions import find_working_session
from omnigraph.storage.ports import (
    FragmentDeletions,
    NewFile,
    TableBranchFolder,
    TablePart,
    TableRef,
)
from omnigraph.storage.row_files import table_schema
from omnigraph.storage.tables import write_deletions


def load(inputs: Sequence[Input], call: LoadCall, opened: GraphContext) -> LoadResult:
    """Load rows of any number of types as one commit, or change nothing."""
    return _Load(inputs, call, opened, find_working_session(call.spark)).run()


@dataclass(frozen=True, slots=True)
class _Staged:
    """The staged job, the schema it was read with, and the table branches of its files."""

    schema_hash: str
    job: StagedJob
    table_branches: Mapping[str, TableRef]


class _Load:
    """One load in progress."""

    def __init__(
        self, given: Sequence[Input], call: LoadCall, opened: GraphContext, spark: SparkSession
    ) -> None:
        self._given, self._call, self._opened, self._spark = given, call, opened, spark
        self._id = opened.settings.runtime.new_id()
        self._found: _Staged | None = None
        self._vectors = policy_of(call, opened)
        if self._vectors.embedder is not None:
            require_portable(self._vectors.embedder)
        self._is_new_branch = False
        self._is_stale = False
        self._is_done = False
        # Whether the files may have become part of a version.
        self._is_in_doubt = False

    def run(self) -> LoadResult:
        """Stage, validate and commit."""
        call, opened = self._call, self._opened
        is_missing = call.base is not None and call.target not in opened.branch_states.branches()
        base = call.base if is_missing else None
        if base is not None:
            create = Action.BRANCH_CREATE
            opened.require_allowed(create, branch=base, target=call.target, actor=None)
        start = opened.branch_states.capture(call.target if base is None else base)
        try:
            self._stage(start)
            if base is not None:
                # Rows rejected on the base would be rejected on the branch, so check before
                # creating it.
                _, keys = self._validate(start)
                keys.claims.unpersist()
                self._is_new_branch = ensure_branch(
                    call.target, base=base, if_head=call.expected_head, path=opened.writes
                )
            self._create_table_branches()
            done = run_write(
                call.target,
                prepare=self._prepare,
                codec=LOAD_CODEC,
                inputs=self,
                authorship=author_of(call, opened),
                path=opened.writes,
            )
            # A repeated request means that an earlier one has committed the rows, in other files.
            self._is_done, self._is_in_doubt = not done.is_repeated, False
        except GraphError as error:
            self._is_in_doubt &= not is_refused(error)
            raise
        finally:
            if not self._is_done and not self._is_in_doubt:
                self._discard()
        result = replace(done.result, commit_id=done.commit_id)
        if done.is_repeated:
            return result
        self._delete(self._staged.job.obsolete_files())
        rejected = self._locate_rejected()
        if not rejected:
            return result
        return replace(
            result, report=rejections.report_rejected(rejected, self._quarantine().location)
        )

    # Read, coerce and stage

    def _stage(self, basis: Basis) -> None:
        settings = self._opened.settings
        context = self._opened.read_context(basis)
        is_tolerant = self._call.on_error is OnError.QUARANTINE
        inputs = parse_inputs(
            self._given, context=context, cores=count_cores(self._spark), is_tolerant=is_tolerant
        )
        branch = table_branch_of(self._call.target)
        entries = basis.snapshot.entries
        table_branches = {key: TableRef(entry.path, branch) for key, entry in entries.items()}
        tables = self._opened.stores.tables
        plan = StagingPlan(
            schema=basis.accepted_schema.source,
            folders={key: tables.folder(ref) for key, ref in table_branches.items()},
            external=settings.external_blobs,
            storage_options=settings.location.storage_options,
            folder=str(Path.cwd()),
            first_id=int(ULID.from_str(self._id)) >> POSITION_BITS << POSITION_BITS,
            is_tolerant=is_tolerant,
            left_out={},
            vectors=self._vectors,
            before={},
        )
        job = stage_job(self._spark, plan, inputs, progress=self._call.progress)
        self._found = _Staged(basis.accepted_schema.schema_hash, job, table_branches)
        rejections.require_read(job.partitions, inputs, context=context)
        rejections.require_embedded(job.partitions)

    @property
    def is_due(self) -> bool:
        """Whether the rows have to be staged, and their texts embedded, with another schema."""
        return self._is_stale

    def request(self) -> None:
        """Stage the rows again with the current schema."""
        self._delete(self._staged.job.all_files())
        self._is_stale = False
        self._stage(self._opened.branch_states.capture(self._call.target))

    def _create_table_branches(self) -> None:
        """Create table branches where rows may be replaced.

        Deletion files have to be in the folders that the branch reads.
        """
        call = self._call
        if call.mode is not LoadMode.MERGE or call.target == MAIN:
            return
        entries = self._opened.pin(call.target).snapshot.entries
        given = {
            rows.table_key
            for partition in self._staged.job.partitions
            for rows in partition.rows
            if rows.has_given_id
        }
        keys = [key for key in sorted(given & entries.keys()) if entries[key].row_count]
        if keys:
            create_table_branches(keys, branch=call.target, path=self._opened.writes)

    @property
    def _staged(self) -> _Staged:
        assert self._found is not None, "the rows were staged before"
        return self._found

    # Validate by one shuffle

    def _validate(self, basis: Basis) -> tuple[JobRows, KeyCheckResult]:
        """The rows that can be committed, after leaving out rejected rows.

        Raises `RequestError` if rows are rejected and must not be left out. The caller has to
        unpersist the claims of the result.
        """
        spark, progress = self._spark, self._call.progress
        while True:
            job = self._staged.job
            require_few_rejected(job.partitions)
            rows = collect_rows(
                job, mode=self._call.mode, basis=basis, tables=self._opened.stores.tables
            )
            check = partial(check_keys, spark, rows, cores=count_cores(spark))
            keys = run_job(spark, check, stage="check", progress=progress)
            left_out: LeftOut | None = None
            try:
                validate = Validator(spark, job, rows, keys).find_rejected
                left_out = run_job(spark, validate, stage="check", progress=progress)
            finally:
                if left_out != {}:
                    keys.claims.unpersist()
            if not left_out:
                return rows, keys
            staged = stage_without(spark, job, left_out, progress=progress)
            self._found = replace(self._staged, job=staged)
            require_same_rows(job, staged)

    # Commit

    def _prepare(self, basis: Basis, committed: SnapshotRows) -> Prepared[LoadResult]:  # noqa: ARG002
        if basis.accepted_schema.schema_hash != self._staged.schema_hash:
            # Results with another schema do not apply to this one.
            self._is_stale = True
            return self._with_result(PreparedWrite({}, {}, frozenset(), is_strict=False), {}, {})
        rows, keys = self._validate(basis)
        try:
            prepared = self._prepare_write(rows, keys, basis)
        finally:
            keys.claims.unpersist()
        rejected = self._locate_rejected()
        if rejected:
            self._quarantine().write(rejected)
        result = prepared.result
        row_count = sum([*result.nodes_loaded.values(), *result.edges_loaded.values()])
        # This is the last progress call, because the graph is written from here on.
        self._call.progress("commit", 0, row_count)
        self._is_in_doubt = True
        return prepared

    def _prepare_write(
        self, job: JobRows, keys: KeyCheckResult, basis: Basis
    ) -> Prepared[LoadResult]:
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
                deletions=self._delete_replaced(key, job, keys, basis),
            )
            counts = nodes if isinstance(declared, NodeType) else edges
            counts[declared.name] = sum(each.row_count for each in files)
        write = PreparedWrite(
            changes=changes,
            placement=dict.fromkeys(changes, StagingMode.FILES),
            read_set=job.related,
            is_strict=job.is_overwrite,
        )
        return self._with_result(write, nodes, edges)

    def _delete_replaced(
        self, key: str, job: JobRows, keys: KeyCheckResult, basis: Basis
    ) -> tuple[FragmentDeletions, ...]:
        """Mark the committed rows that the job replaces as deleted."""
        space, outcome = keys.of_ids(key)
        if job.mode is not LoadMode.MERGE or not outcome.met:
            return ()
        entry = basis.snapshot.get(key)
        folder = self._opened.stores.tables.folder(
            TableRef(entry.path, table_branch_of(basis.branch))
        )
        delete = partial(
            _write_deletions, select_met(keys.claims, space), folder=folder, version=entry.version
        )
        return run_job(self._spark, delete, stage="replace", progress=self._call.progress)

    def _with_result(
        self, write: PreparedWrite, nodes: dict[str, int], edges: dict[str, int]
    ) -> Prepared[LoadResult]:
        result = LoadResult(
            nodes_loaded=nodes,
            edges_loaded=edges,
            commit_id=None,
            branch=self._call.target,
            base_branch=self._call.base,
            branch_created=self._is_new_branch,
            engine="spark",
            rejected=len(self._locate_rejected()),
        )
        return Prepared(write, result)

    # Rejected rows and clean-up

    def _locate_rejected(self) -> tuple[rejections.LocatedRow, ...]:
        return rejections.locate_rejected(self._staged.job.partitions, self._staged.job.inputs)

    def _quarantine(self) -> rejections.Quarantine:
        settings = self._opened.settings
        return rejections.open_quarantine(
            self._call.quarantine,
            graph=self._opened.stores.objects,
            root=settings.location.root,
            id=self._id,
            storage_options=settings.location.storage_options,
            is_durable=settings.is_durable,
        )

    def _discard(self) -> None:
        """Delete all files of a failed job."""
        if self._found is not None:
            self._delete(self._found.job.all_files())
        if self._call.on_error is OnError.QUARANTINE:
            with suppress(GraphError):
                self._quarantine().remove()

    def _delete(self, files: Iterable[tuple[str, Sequence[NewFile]]]) -> None:
        for table_key, some in files:
            table_branch = self._staged.table_branches[table_key]
            discard_files(table_branch, some, tables=self._opened.stores.tables)


def _write_deletions(
    addresses: DataFrame, *, folder: TableBranchFolder, version: int
) -> tuple[FragmentDeletions, ...]:
    """Write deletions of the rows of a version at some addresses, given as a column `address`."""
    places = addresses.select(
        f.expr("shiftright(address, 32)").alias("fragment"),
        f.expr("address & 4294967295").alias("offset"),
    )
    # This must be a function of one argument, because Spark inspects the argument count.
    deleted = places.groupBy("fragment").applyInArrow(
        lambda group: _delete_in_fragment(folder, version, group), "deleted binary"
    )
    found: list[FragmentDeletions] = [pickle.loads(row["deleted"]) for row in deleted.collect()]
    return tuple(sorted(found, key=lambda each: each.number))


# On executors


def _delete_in_fragment(folder: TableBranchFolder, version: int, places: pa.Table) -> pa.Table:
    number = places["fragment"][0].as_py()
    part = TablePart(folder, version, (number,), places.num_rows)
    with carried_errors():
        deleted = write_deletions(part, places["offset"].to_pylist())
    return pa.table({"deleted": [pickle.dumps(deleted)]})
