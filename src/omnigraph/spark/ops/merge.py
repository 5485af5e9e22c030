"""Branch merges on Spark: executors merge ranges of ids, and the driver makes one commit.

Results and conflicts equal those of a merge in process, up to a bound on conflicts. Rows never
reach the driver; rules across rows are checked over the keys of changed rows, which must fit in
memory. Data files of a merge without a commit are deleted. Needs PySpark.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from omnigraph.engine.commit.integrity.check import find_violations_except_values
from omnigraph.engine.commit.integrity.values import check_values
from omnigraph.engine.commit.integrity.violations import Violations, concat_violations
from omnigraph.engine.commit.prepared_write import StagingMode, TableChange
from omnigraph.engine.commit.protocol import Authorship
from omnigraph.engine.commit.staging import discard_files
from omnigraph.engine.context import GraphContext
from omnigraph.engine.merge.apply import (
    ApplyPlan,
    OpenType,
    PreparedApply,
    ThreeStates,
    ThreeWayApply,
    find_rule_conflicts,
    make_write,
    plan_apply,
)
from omnigraph.engine.merge.merge import merge_branch
from omnigraph.engine.merge.options import MergeOptions
from omnigraph.engine.merge.reconcile import (
    Decisions,
    Granularity,
    RowVersions,
    join_ids,
    reconcile,
)
from omnigraph.engine.ops.diff import compare_rows, place_of
from omnigraph.engine.ops.refs import create_table_branches
from omnigraph.engine.ops.retry import is_refused
from omnigraph.engine.results import MergeResult
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import Entry, table_branch_of, table_key_of
from omnigraph.model.errors import Conflict, GraphError
from omnigraph.model.limits import MERGE_CONFLICTS_MAX, SPARK_PART_ROWS_MAX
from omnigraph.model.names import MAIN, BranchName
from omnigraph.spark.jobs import open_workers, run_job_quietly
from omnigraph.spark.load.key_claims import key_columns
from omnigraph.spark.load.staging import delete_rows, group_addresses
from omnigraph.spark.ops.range_shuffle import (
    Piece,
    Range,
    RangeJoin,
    Ranges,
    Reading,
    find_ranges,
    join_ranges,
    list_blobs,
    make_report,
    measure_blobs,
    shuffle_by_range,
)
from omnigraph.spark.sessions import find_working_session
from omnigraph.storage.ports import (
    DeltaPart,
    NewFile,
    TableBranchFolder,
    TableDelta,
    TableReader,
    TableRef,
    TableVersion,
)
from omnigraph.storage.predicates import Predicate
from omnigraph.storage.row_files import table_schema
from omnigraph.storage.tables import ADDRESS, find_shared, plan_delta, write_files


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """A request for the rows of `new` that `old` lacks or has at another location, and vice versa.

    Without an `old` version, it requests all rows of `new`.
    """

    old: TableVersion | None
    new: TableVersion


_DELETED, _ADDED = 0, 1


@dataclass(frozen=True, slots=True)
class RequestedRows:
    """Records the requested reads, and returns the rows that were sent to a task, if any."""

    requests: list[RowsRequest]
    rows_by_sort: Mapping[int, pa.Table]

    @staticmethod
    def of(requests: Iterable[RowsRequest], pieces: Iterable[Piece]) -> RequestedRows:
        """The rows from the pieces of a range."""
        batches: dict[int, list[pa.RecordBatch]] = {}
        for each in pieces:
            batches.setdefault(each.sort, []).append(each.rows)
        rows = {sort: pa.Table.from_batches(each) for sort, each in batches.items()}
        return RequestedRows(list(requests), rows)

    def schema(self, at: TableVersion) -> pa.Schema:  # noqa: ARG002  # rows come as they are
        """An empty schema: rows come with their columns."""
        return pa.schema([])

    def scan(
        self,
        at: TableVersion,
        *,
        columns: Sequence[str],  # noqa: ARG002  # rows come with those they have
        predicate: Predicate | None,
    ) -> pa.Table:
        """The rows of a version."""
        assert predicate is None, "states are compared whole"
        return self.added(RowsRequest(None, at))

    def find_delta(
        self,
        old: TableVersion,
        new: TableVersion,
        *,
        columns: Sequence[str],  # noqa: ARG002  # rows come with those they have
    ) -> TableDelta:
        """The rows in which two versions differ."""
        request = RowsRequest(old, new)
        return TableDelta(deleted=self.deleted(request), added=self.added(request))

    def deleted(self, request: RowsRequest) -> pa.Table:
        """The rows of the old version that the new one lacks or has elsewhere."""
        return self._rows(request, _DELETED)

    def added(self, request: RowsRequest) -> pa.Table:
        """The rows of the new version that the old one lacks or has elsewhere."""
        return self._rows(request, _ADDED)

    def _rows(self, request: RowsRequest, side: int) -> pa.Table:
        if request not in self.requests:
            self.requests.append(request)
        return self.rows_by_sort.get(2 * self.requests.index(request) + side, pa.table({}))


def plan_reads(
    requests: Sequence[RowsRequest], tables: TableReader
) -> Iterator[tuple[int, DeltaPart]]:
    """The rows that the requests need, in parts, each with the `sort` that identifies its rows."""
    for place, each in enumerate(requests):
        if each.old is None:
            for part in tables.parts(each.new, rows_max=SPARK_PART_ROWS_MAX):
                yield 2 * place + _ADDED, DeltaPart(part, None)
            continue
        old, new = place_of(each.old, tables), place_of(each.new, tables)
        delta = plan_delta(old, new, rows_max=SPARK_PART_ROWS_MAX)
        yield from ((2 * place + _DELETED, part) for part in delta.deleted)
        yield from ((2 * place + _ADDED, part) for part in delta.added)


REPORTS = "meeting int, part int, report binary"


@dataclass(frozen=True, slots=True)
class MergedType:
    """A type to merge, with everything that a task needs for it.

    `to_source` and `to_target` are the requests whose results locate the rows of the target. These
    are the rows of the target that the base lacks, and rows of the base that the source lacks, as
    far as they are in `shared` fragments, which the target also has. Files are written to `folder`,
    which is None if a branch does not have the type yet; then only a dry run is possible.
    """

    opened: OpenType
    requests: tuple[RowsRequest, ...]
    to_source: RowsRequest | None
    to_target: RowsRequest | None
    shared: frozenset[int]
    folder: TableBranchFolder | None


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The parameters of every task of a merge; a dry run writes no files."""

    states: ThreeStates
    granularity: Granularity
    types: tuple[MergedType, ...]
    ranges: Ranges
    is_dry_run: bool


@dataclass(frozen=True, slots=True)
class RangeReport:
    """The result of a range: the keys of the rows to put, and all other changes."""

    keys: pa.Table
    put_sizes: tuple[int, ...]
    removed: pa.Array
    removed_sizes: tuple[int, ...]
    deletions: npt.NDArray[np.uint64]
    files: tuple[NewFile, ...]
    conflicts: tuple[Conflict, ...]
    violations: tuple[Violations, ...]


def merge_range(plan: MergePlan, place: Range, pieces: Iterator[Piece]) -> Iterator[pa.RecordBatch]:
    """Merge the rows of a range and return its report."""
    merged = plan.types[place.meeting]
    declared = merged.opened.declared
    sent = RequestedRows.of(merged.requests, pieces)
    sides = plan.states.find_sides(declared, sent)
    assert tuple(sent.requests) == merged.requests, "a task reads what was planned"
    outcome = reconcile(
        declared,
        source=sides.source,
        target=sides.target,
        granularity=plan.granularity,
        decisions=select_decisions(merged.opened.decisions, plan.ranges.limits(place)),
    )
    touched = RowVersions.of(join_ids([outcome.put["id"], outcome.removed]), sides)
    is_there = touched.target["id"].is_valid().combine_chunks()
    deletions = _find_places(merged, sent, touched.ids.filter(is_there))
    change = TableChange(declared, outcome.put, outcome.removed, is_overwrite=False)
    violations = tuple(check_values(change))
    files: tuple[NewFile, ...] = ()
    is_written = not plan.is_dry_run and not outcome.conflicts and outcome.put.num_rows
    if is_written and merged.folder is not None:
        files = write_files(merged.folder, outcome.put)
    report = RangeReport(
        keys=outcome.put.select(key_columns(declared)),
        put_sizes=outcome.put_sizes,
        removed=outcome.removed,
        removed_sizes=outcome.removed_sizes,
        deletions=np.sort(deletions),
        files=files,
        conflicts=outcome.conflicts[:MERGE_CONFLICTS_MAX],
        violations=violations,
    )
    yield make_report(place, {"report": pa.array([pickle.dumps(report)], pa.binary())})


def select_decisions(decisions: Decisions, limits: tuple[str | None, str | None]) -> Decisions:
    """The decisions about entities of a range, given by its first id and the one after its last."""

    def select(ids: pa.Array) -> pa.Array:
        low, high = limits
        found = pa.array(np.ones(len(ids), bool))
        if low is not None:
            found = pc.and_(found, pc.greater_equal(ids, low))
        return found if high is None else pc.and_(found, pc.less(ids, high))

    rows = decisions.rows
    return Decisions(
        from_source=decisions.from_source.filter(select(decisions.from_source)),
        from_target=decisions.from_target.filter(select(decisions.from_target)),
        rows=rows.filter(select(rows["id"].combine_chunks())),
    )


def _find_places(merged: MergedType, sent: RequestedRows, ids: pa.Array) -> npt.NDArray[np.uint64]:
    """The addresses of target rows that are deleted or replaced."""
    parts: list[pa.Table] = []
    if merged.to_target is not None:
        parts.append(sent.added(merged.to_target))
    if merged.to_source is not None and merged.shared:
        rows = sent.deleted(merged.to_source)
        if rows.num_rows:
            fragments = rows[ADDRESS].to_numpy() >> np.uint64(32)
            shared = np.array(sorted(merged.shared), np.uint64)
            parts.append(rows.filter(pa.array(np.isin(fragments, shared))))
    known = [each.select(["id", ADDRESS]) for each in parts if each.num_rows]
    if not len(ids):
        return np.empty(0, np.uint64)
    every = pa.concat_tables(known, promote_options="default").combine_chunks()
    # The first occurrence of an id counts, which is the row of the target itself.
    places = pc.index_in(ids, value_set=every["id"].combine_chunks())
    assert not places.null_count, "a row of the target was added there, or was in the base"
    found: npt.NDArray[np.uint64] = every[ADDRESS].take(places).to_numpy()
    return found


def merge(
    source: BranchName,
    *,
    into: BranchName,
    options: MergeOptions,
    authorship: Authorship,
    opened: GraphContext,
    spark: object,
) -> MergeResult:
    """Merge one branch into another; conflicts are reported as in process, up to a bound."""
    merging = _Merging(options, opened, find_working_session(spark))
    if not options.is_dry_run and into not in (source, MAIN):
        _create_table_branches(source, into, opened)
    try:
        result = merge_branch(
            source,
            into=into,
            options=options,
            apply_function=merging.prepare,
            authorship=authorship,
            path=opened.writes,
        )
        merging.release()
    except GraphError as error:
        if is_refused(error):
            merging.discard()
        raise
    finally:
        if not merging.is_in_doubt:
            merging.discard()
    return result


def _create_table_branches(source: BranchName, into: BranchName, opened: GraphContext) -> None:
    """Create the table branches that a merge needs.

    Deletion files have to be in the folders that the branch reads.
    """
    target, from_source = (opened.pin(each).snapshot.entries for each in (into, source))
    keys = [
        key
        for key, entry in target.items()
        if entry.row_count and (key not in from_source or from_source[key].at != entry.at)
    ]
    if keys:
        create_table_branches(keys, branch=into, path=opened.writes)


class _Merging:
    """One merge in progress, which is computed again when the target moves."""

    def __init__(self, options: MergeOptions, opened: GraphContext, spark: SparkSession) -> None:
        self._options, self._opened, self._spark = options, opened, spark
        self._files: dict[TableRef, list[NewFile]] = {}
        # Whether the files may have become part of a version.
        self.is_in_doubt = False

    def release(self) -> None:
        """Stop tracking the files, because a commit references them."""
        self._files.clear()

    def discard(self) -> None:
        """Delete the files of a merge that was not committed."""
        for table_branch, files in self._files.items():
            discard_files(table_branch, files, tables=self._opened.stores.tables)
        self._files.clear()

    def prepare(
        self, apply: ThreeWayApply, *, onto: Basis, committed: SnapshotRows
    ) -> PreparedApply:
        """The write of a three-way apply, with its rows in files."""
        self.is_in_doubt = False
        self.discard()
        begun = plan_apply(apply, onto=onto, runtime=self._opened.settings.runtime)
        with self._reading(begun):
            types = [self._plan_type(each, begun) for each in begun.types]
            reports = self._run(types, begun)
        for merged, parts in zip(types, reports, strict=True):
            new = [file for each in parts for file in each.files]
            if new:
                table_branch = TableRef(
                    onto.snapshot.get(merged.opened.key).path, table_branch_of(onto.branch)
                )
                self._files[table_branch] = new
        prepared = self._resolve(types, reports, begun, committed)
        self.is_in_doubt = not prepared.conflicts
        return prepared

    def _reading(self, begun: ApplyPlan) -> ExitStack:
        """Protect the versions that are read from cleanup."""
        stack = ExitStack()
        if not self._opened.is_read_only:
            states = begun.states
            for each in (states.base.first, states.source, states.target):
                id = self._opened.settings.runtime.new_id()
                stack.enter_context(self._opened.readers.reading(each, id=id, is_past=True))
        return stack

    def _plan_type(self, opened: OpenType, begun: ApplyPlan) -> MergedType:
        tables = self._opened.stores.tables
        recorded = RequestedRows([], {})
        begun.states.find_sides(opened.declared, recorded)
        base, source, target = (
            each.entries.get(opened.key)
            for each in (
                begun.states.base.first,
                begun.states.source,
                begun.states.target,
            )
        )
        to_source = _request_rows(base, source)
        shared: frozenset[int] = frozenset()
        if base and to_source and target and base.path == target.path:
            shared = find_shared(place_of(base.at, tables), place_of(target.at, tables))
        table_branch = TableRef(target.path, table_branch_of(begun.onto.branch)) if target else None
        return MergedType(
            opened=opened,
            requests=tuple(recorded.requests),
            to_source=to_source if shared else None,
            to_target=_request_rows(base, target),
            shared=shared,
            folder=None if table_branch is None else tables.folder(table_branch),
        )

    def _run(self, types: Sequence[MergedType], begun: ApplyPlan) -> list[tuple[RangeReport, ...]]:
        """The reports of tasks for each type, by range."""
        meetings = [self._gather(each, begun) for each in types]
        spark, options = self._spark, self._options

        def run() -> dict[Range, RangeReport]:
            ranges = find_ranges(spark, meetings)
            plan = MergePlan(
                begun.states, options.granularity, tuple(types), ranges, options.is_dry_run
            )
            pieces = shuffle_by_range(spark, meetings, ranges)
            rows = join_ranges(pieces, ranges, partial(merge_range, plan), REPORTS).collect()
            found = {
                Range(row["meeting"], row["part"]): pickle.loads(row["report"]) for row in rows
            }
            _require_decided(plan, found)
            return found

        found = run_job_quietly(spark, run, stage="merge") if types else {}
        places = sorted(found, key=lambda each: (each.meeting, each.part))
        return [
            tuple(found[place] for place in places if place.meeting == number)
            for number in range(len(types))
        ]

    def _gather(self, merged: MergedType, begun: ApplyPlan) -> RangeJoin:
        tables, declared = self._opened.stores.tables, merged.opened.declared
        columns = tuple(table_schema(declared).names)
        blobs = list_blobs(declared, columns)
        entries = [
            each.entries[merged.opened.key]
            for each in (begun.states.source, begun.states.target)
            if merged.opened.key in each.entries
        ]
        return RangeJoin(
            readings=tuple(
                Reading(sort, part, columns, blobs, None)
                for sort, part in plan_reads(merged.requests, tables)
            ),
            blob_bytes=max((measure_blobs(each, blobs, tables) for each in entries), default=0),
        )

    def _resolve(
        self,
        types: Sequence[MergedType],
        reports: Sequence[Sequence[RangeReport]],
        begun: ApplyPlan,
        committed: SnapshotRows,
    ) -> PreparedApply:
        """The write that results from the reports, or the conflicts that prevent it."""
        conflicts: list[Conflict] = [
            conflict for parts in reports for each in parts for conflict in each.conflicts
        ][:MERGE_CONFLICTS_MAX]
        by_key = {
            merged.opened.key: (merged, parts)
            for merged, parts in zip(types, reports, strict=True)
            if any(each.keys.num_rows or len(each.removed) for each in parts)
        }
        changes = {key: _change_of(*by_key[key]) for key in sorted(by_key)}
        # The violations of value rules by rows to put, for each rule.
        values = {
            key: [
                concat_violations(each)
                for each in zip(*(part.violations for part in parts), strict=True)
            ]
            for key, (_, parts) in by_key.items()
        }
        rules = find_violations_except_values(
            lambda change: iter(values[table_key_of(change.type)]),
            changes=changes,
            catalog=begun.onto.catalog,
            committed=committed,
        )
        conflicts += find_rule_conflicts(
            rules.found,
            conflicts,
            changes,
            plan=begun,
            committed=committed,
            tables=self._opened.stores.tables,
        )
        if conflicts or self._options.is_dry_run:
            nothing = make_write(begun, {}, {}, committed=committed)
            return PreparedApply(nothing, tuple(conflicts))
        written = {key: self._write_of(*by_key[key], begun) for key in changes}
        placement = dict.fromkeys(written, StagingMode.FILES)
        return PreparedApply(make_write(begun, written, placement, committed=committed), ())

    def _write_of(
        self, merged: MergedType, parts: Sequence[RangeReport], begun: ApplyPlan
    ) -> TableChange:
        declared = merged.opened.declared
        nothing = table_schema(declared).empty_table()
        version = begun.onto.snapshot.get(merged.opened.key).version
        assert merged.folder is not None, "what is deleted was there"
        addresses = np.concatenate([each.deletions for each in parts])
        deleted = group_addresses(addresses, merged.folder, version)
        return TableChange(
            type=declared,
            put=nothing,
            removed=nothing["id"].combine_chunks(),
            is_overwrite=False,
            files=tuple(file for each in parts for file in each.files),
            deletions=open_workers(self._spark).run(delete_rows, deleted, stage="merge"),
        )


def _request_rows(old: Entry | None, new: Entry | None) -> RowsRequest | None:
    """The request for the rows of a state that another state lacks at the same location."""
    if new is None or (old is not None and old.at == new.at):
        return None
    return RowsRequest(old.at if old is not None and old.path == new.path else None, new.at)


def _require_decided(plan: MergePlan, found: Mapping[Range, RangeReport]) -> None:
    """Raise if a decision is about an entity of a range in which nothing changed."""
    for number, merged in enumerate(plan.types):
        declared = merged.opened.declared
        nothing = table_schema(declared).empty_table()
        unchanged = compare_rows(declared, removed=nothing, added=nothing)
        for part in range(len(plan.ranges.bounds[number]) + 1):
            place = Range(number, part)
            if place not in found:
                decisions = select_decisions(merged.opened.decisions, plan.ranges.limits(place))
                reconcile(
                    declared,
                    source=unchanged,
                    target=unchanged,
                    granularity=plan.granularity,
                    decisions=decisions,
                )


def _change_of(merged: MergedType, parts: Sequence[RangeReport]) -> TableChange:
    """The change of a type, with keys only, in the order of a merge in process."""
    declared = merged.opened.declared
    fields = table_schema(declared)
    nothing = pa.schema([fields.field(name) for name in key_columns(declared)]).empty_table()
    keys = [(each.keys, each.put_sizes) for each in parts]
    removed = [(pa.table({"id": each.removed}), each.removed_sizes) for each in parts]
    ids = pa.concat_tables([pa.table({"id": pa.array([], pa.string())}), *_in_order(removed)])
    return TableChange(
        type=declared,
        put=pa.concat_tables([nothing, *_in_order(keys)]),
        removed=ids["id"].combine_chunks(),
        is_overwrite=False,
    )


def _in_order(parts: Sequence[tuple[pa.Table, Sequence[int]]]) -> Iterator[pa.Table]:
    """The first sequence of all ranges, then the second, and so on."""
    for number in range(len(parts[0][1])):
        for rows, sizes in parts:
            yield rows.slice(sum(sizes[:number]), sizes[number])
