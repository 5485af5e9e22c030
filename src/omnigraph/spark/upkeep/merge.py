"""Merging branches on Spark: executors put the sides together, and the driver makes one commit.

What is merged, and what is in conflict, is what a merge in process says. No row comes here: rules
across rows are asked of the keys of the rows to put, which are held in memory, as every other rule
of a write is. A merge that does not end in a commit leaves files that no version names, and removes
them.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from omnigraph.engine.commit.changes import Placement, TableChange
from omnigraph.engine.commit.integrity.evaluate import find_violations_beside
from omnigraph.engine.commit.integrity.violations import Violations, gather
from omnigraph.engine.commit.protocol import Authorship
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.attempts import is_refused
from omnigraph.engine.ops.lines import open_lines
from omnigraph.engine.ops.merge import merge_branch
from omnigraph.engine.ops.reconcile import reconcile
from omnigraph.engine.ops.replay import (
    BegunReplay,
    OpenType,
    PreparedReplay,
    Replay,
    begin_replay,
    make_write,
    tell_broken,
)
from omnigraph.engine.ops.terms import Terms
from omnigraph.engine.ops.type_changes import compare_rows, place_of
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import MergeResult
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import Entry, line_of, table_key_of
from omnigraph.model.errors import Conflict, GraphError
from omnigraph.model.limits import MERGE_CONFLICTS_MAX
from omnigraph.model.names import MAIN, BranchName
from omnigraph.spark.format.key_checks import key_columns
from omnigraph.spark.jobs import run_silently
from omnigraph.spark.sessions import find_session
from omnigraph.spark.upkeep.asked import Question, Questions, plan_answers
from omnigraph.spark.upkeep.meetings import list_blobs, measure_blobs
from omnigraph.spark.upkeep.merging import (
    REPORTS,
    MergedType,
    MergePlan,
    RangeReport,
    keep_decisions,
    merge_range,
)
from omnigraph.spark.upkeep.ranges import (
    Meeting,
    Range,
    Reading,
    bring_together,
    find_ranges,
    send_pieces,
)
from omnigraph.spark.upkeep.workers import open_workers
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.lance_delta_parts import find_shared
from omnigraph.storage.lance_parts import strike
from omnigraph.storage.ports import TableRef
from omnigraph.storage.table_parts import NewFile, StruckFragment, TablePart

_LOG = logging.getLogger(__name__)


def merge(
    source: BranchName,
    *,
    into: BranchName,
    terms: Terms,
    authorship: Authorship,
    opened: OpenGraph,
    spark: object,
) -> MergeResult:
    """Merge one branch into another; conflicts are told as in process, up to a bound."""
    merging = _Merging(terms, opened, find_session(spark))
    if not terms.is_dry_run and into not in (source, MAIN):
        _open_lines(source, into, opened)
    try:
        result = merge_branch(
            source,
            into=into,
            terms=terms,
            replayer=merging.prepare,
            authorship=authorship,
            path=opened.writes,
        )
        merging.keep()
    except GraphError as error:
        if is_refused(error):
            merging.forsake()
        raise
    finally:
        if not merging.is_in_doubt:
            merging.forsake()
    return result


def _open_lines(source: BranchName, into: BranchName, opened: OpenGraph) -> None:
    """What is gone is marked where the branch will look for it, so it needs lines of its own."""
    own, other = (opened.pin(each).snapshot.entries for each in (into, source))
    keys = [
        key
        for key, entry in own.items()
        if entry.row_count and (key not in other or other[key].at != entry.at)
    ]
    if keys:
        open_lines(keys, branch=into, path=opened.writes)


@dataclass(frozen=True, slots=True)
class _Strike:
    """Rows of one fragment that go."""

    part: TablePart
    offsets: tuple[int, ...]


class _Merging:
    """One merge on its way; worked out anew when the target moves."""

    def __init__(self, terms: Terms, opened: OpenGraph, spark: SparkSession) -> None:
        self._terms, self._opened, self._spark = terms, opened, spark
        self._files: dict[TableRef, list[NewFile]] = {}
        # Whether the files may have become part of a version.
        self.is_in_doubt = False

    def keep(self) -> None:
        """Leave the files where they are: a commit names them."""
        self._files.clear()

    def forsake(self) -> None:
        """Remove the files of a merge that did not become a commit."""
        for line, files in self._files.items():
            try:
                self._opened.stores.tables.delete_files(line, files)
            except GraphError as error:
                # Nobody names them, and `cleanup` finds them.
                _LOG.warning("files of a merge stay: %s", error)
        self._files.clear()

    def prepare(self, replay: Replay, *, onto: Basis, committed: SnapshotRows) -> PreparedReplay:
        """What a replay does, with its rows in files."""
        self.is_in_doubt = False
        self.forsake()
        begun = begin_replay(replay, onto=onto, runtime=self._opened.settings.runtime)
        with self._reading(begun):
            types = [self._plan_type(each, begun) for each in begun.types]
            reports = self._run(types, begun)
        for merged, parts in zip(types, reports, strict=True):
            new = [file for each in parts for file in each.files]
            if new:
                line = TableRef(onto.snapshot.get(merged.opened.key).path, line_of(onto.branch))
                self._files[line] = new
        prepared = self._settle(types, reports, begun, committed)
        self.is_in_doubt = not prepared.conflicts
        return prepared

    def _reading(self, begun: BegunReplay) -> ExitStack:
        """Keep what is read from being cleaned up meanwhile."""
        stack = ExitStack()
        if not self._opened.is_read_only:
            states = begun.states
            for each in (states.base.first, states.source, states.target):
                id = self._opened.settings.runtime.new_id()
                stack.enter_context(self._opened.readers.reading(each, id=id, is_past=True))
        return stack

    def _plan_type(self, opened: OpenType, begun: BegunReplay) -> MergedType:
        tables = self._opened.stores.tables
        asked = Questions()
        begun.states.find_sides(opened.declared, asked)
        base, source, target = (
            each.entries.get(opened.key)
            for each in (begun.states.base.first, begun.states.source, begun.states.target)
        )
        to_source = _ask(base, source)
        kept: frozenset[int] = frozenset()
        if base and to_source and target and base.path == target.path:
            kept = find_shared(place_of(base.at, tables), place_of(target.at, tables))
        line = TableRef(target.path, line_of(begun.onto.branch)) if target else None
        return MergedType(
            opened=opened,
            questions=tuple(asked.heard),
            to_source=to_source if kept else None,
            to_target=_ask(base, target),
            kept=kept,
            folder=None if line is None else tables.folder(line),
        )

    def _run(
        self, types: Sequence[MergedType], begun: BegunReplay
    ) -> list[tuple[RangeReport, ...]]:
        """What tasks report of each type, range by range."""
        meetings = [self._gather(each, begun) for each in types]
        spark, terms = self._spark, self._terms

        def run() -> dict[Range, RangeReport]:
            ranges = find_ranges(spark, meetings)
            plan = MergePlan(
                begun.states, terms.granularity, tuple(types), ranges, terms.is_dry_run
            )
            pieces = send_pieces(spark, meetings, ranges)
            rows = bring_together(pieces, ranges, partial(merge_range, plan), REPORTS).collect()
            found = {
                Range(row["meeting"], row["part"]): pickle.loads(row["report"]) for row in rows
            }
            _require_decided(plan, found)
            return found

        found = run_silently(spark, run, stage="merge") if types else {}
        places = sorted(found, key=lambda each: (each.meeting, each.part))
        return [
            tuple(found[place] for place in places if place.meeting == number)
            for number in range(len(types))
        ]

    def _gather(self, merged: MergedType, begun: BegunReplay) -> Meeting:
        tables, declared = self._opened.stores.tables, merged.opened.declared
        columns = tuple(table_schema(declared).names)
        blobs = list_blobs(declared, columns)
        entries = [
            each.entries[merged.opened.key]
            for each in (begun.states.source, begun.states.target)
            if merged.opened.key in each.entries
        ]
        return Meeting(
            readings=tuple(
                Reading(sort, part, columns, blobs, None)
                for sort, part in plan_answers(merged.questions, tables)
            ),
            blob_bytes=max((measure_blobs(each, blobs, tables) for each in entries), default=0),
        )

    def _settle(
        self,
        types: Sequence[MergedType],
        reports: Sequence[Sequence[RangeReport]],
        begun: BegunReplay,
        committed: SnapshotRows,
    ) -> PreparedReplay:
        """The write that the reports amount to, and what is in its way."""
        conflicts: list[Conflict] = [
            conflict for parts in reports for each in parts for conflict in each.conflicts
        ][:MERGE_CONFLICTS_MAX]
        by_key = {
            merged.opened.key: (merged, parts)
            for merged, parts in zip(types, reports, strict=True)
            if any(each.keys.num_rows or len(each.removed) for each in parts)
        }
        changes = {key: _change_of(*by_key[key]) for key in sorted(by_key)}
        values = {key: _gather_values(parts) for key, (_, parts) in by_key.items()}
        rules = find_violations_beside(
            lambda change: iter(values[table_key_of(change.type)]),
            changes=changes,
            catalog=begun.onto.catalog,
            committed=committed,
        )
        conflicts += tell_broken(
            rules.found,
            conflicts,
            changes,
            begun=begun,
            committed=committed,
            tables=self._opened.stores.tables,
        )
        if conflicts or self._terms.is_dry_run:
            nothing = make_write(begun, {}, {}, committed=committed)
            return PreparedReplay(nothing, tuple(conflicts))
        written = {key: self._write_of(*by_key[key], begun) for key in changes}
        placement = dict.fromkeys(written, Placement.FILES)
        return PreparedReplay(make_write(begun, written, placement, committed=committed), ())

    def _write_of(
        self, merged: MergedType, parts: Sequence[RangeReport], begun: BegunReplay
    ) -> TableChange:
        declared = merged.opened.declared
        nothing = table_schema(declared).empty_table()
        version = begun.onto.snapshot.get(merged.opened.key).version
        return TableChange(
            type=declared,
            put=nothing,
            removed=nothing["id"].combine_chunks(),
            is_overwrite=False,
            files=tuple(file for each in parts for file in each.files),
            struck=self._strike(merged, parts, version),
        )

    def _strike(
        self, merged: MergedType, parts: Sequence[RangeReport], version: int
    ) -> tuple[StruckFragment, ...]:
        """Have rows marked as gone, fragment by fragment."""
        assert merged.folder is not None, "what is gone was there"
        addresses = np.sort(np.concatenate([each.struck for each in parts]))
        numbers, starts = np.unique(addresses >> np.uint64(32), return_index=True)
        ends = [*starts.tolist(), len(addresses)]
        offsets = addresses & np.uint64(0xFFFF_FFFF)
        tasks = [
            _Strike(
                TablePart(merged.folder, version, (number,), end - start),
                tuple(offsets[start:end].tolist()),
            )
            for number, (start, end) in zip(numbers.tolist(), pairwise(ends), strict=True)
        ]
        return open_workers(self._spark).run(_strike_one, tasks, stage="merge")


def _ask(old: Entry | None, new: Entry | None) -> Question | None:
    """The question whose answer are the rows of a state that another has not at their place."""
    if new is None or (old is not None and old.at == new.at):
        return None
    return Question(old.at if old is not None and old.path == new.path else None, new.at)


def _require_decided(plan: MergePlan, found: Mapping[Range, RangeReport]) -> None:
    """Raise if a decision is about an entity of a range in which nothing changed."""
    for number, merged in enumerate(plan.types):
        declared = merged.opened.declared
        nothing = table_schema(declared).empty_table()
        unchanged = compare_rows(declared, gone=nothing, come=nothing)
        for part in range(len(plan.ranges.bounds[number]) + 1):
            place = Range(number, part)
            if place not in found:
                decisions = keep_decisions(merged.opened.decisions, plan.ranges.limits(place))
                reconcile(
                    declared,
                    source=unchanged,
                    target=unchanged,
                    granularity=plan.granularity,
                    decisions=decisions,
                )


def _change_of(merged: MergedType, parts: Sequence[RangeReport]) -> TableChange:
    """What a merge does to a type, by keys alone, in the order of a merge in process."""
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


def _gather_values(parts: Sequence[RangeReport]) -> list[Violations]:
    """The rules about values that rows to put break, rule by rule."""
    return [gather(each) for each in zip(*(part.violations for part in parts), strict=True)]


# On executors


def _strike_one(task: _Strike) -> StruckFragment:
    return strike(task.part, task.offsets)
