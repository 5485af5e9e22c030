"""Merging one range of ids of a type, on an executor: what the sides did, put together and written.

Who is right is decided by the code that merges in process. The rows that the target gets are
written into files that no version names; what a driver has to know of them are their keys, and the
places of the rows that go.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.changes import TableChange
from omnigraph.engine.commit.integrity.values import check_values
from omnigraph.engine.commit.integrity.violations import Violations
from omnigraph.engine.ops.images import Images, join_ids
from omnigraph.engine.ops.reconcile import Decisions, Granularity, Reconciled, reconcile
from omnigraph.engine.ops.replay import OpenType, ThreeStates
from omnigraph.model.errors import Conflict
from omnigraph.model.limits import MERGE_CONFLICTS_MAX
from omnigraph.spark.format.key_checks import key_columns
from omnigraph.spark.upkeep.asked import Answers, Question
from omnigraph.spark.upkeep.ranges import Piece, Range, Ranges
from omnigraph.storage.lance_delta_parts import ADDRESS
from omnigraph.storage.lance_parts import write_files
from omnigraph.storage.table_parts import LineFolder, NewFile

REPORTS = "meeting int, part int, report binary"


@dataclass(frozen=True, slots=True)
class MergedType:
    """A type that is merged, and what a task has to know to do it.

    `to_source` and `to_target` are the questions whose answers tell where rows of the target lie:
    its own rows that the base has not, and those of the base that the source has not, as far as
    they are in `kept` fragments, which the target has as well. Files go to the folder, which is
    None where a branch has not heard of the type yet and only a dry run can be.
    """

    opened: OpenType
    questions: tuple[Question, ...]
    to_source: Question | None
    to_target: Question | None
    kept: frozenset[int]
    folder: LineFolder | None


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What every task of a merge is told; in a dry run no file is written."""

    states: ThreeStates
    granularity: Granularity
    types: tuple[MergedType, ...]
    ranges: Ranges
    is_dry_run: bool


@dataclass(frozen=True, slots=True)
class RangeReport:
    """What became of a range: the keys of its rows to put, and all else that is to be done."""

    keys: pa.Table
    put_sizes: tuple[int, ...]
    removed: pa.Array
    removed_sizes: tuple[int, ...]
    struck: npt.NDArray[np.uint64]
    files: tuple[NewFile, ...]
    conflicts: tuple[Conflict, ...]
    violations: tuple[Violations, ...]


def merge_range(plan: MergePlan, place: Range, pieces: Iterator[Piece]) -> Iterator[pa.RecordBatch]:
    """Merge the rows of a range, and tell of it."""
    merged = plan.types[place.meeting]
    declared = merged.opened.declared
    answers = Answers.of(merged.questions, pieces)
    sides = plan.states.find_sides(declared, answers)
    outcome = reconcile(
        declared,
        source=sides.source,
        target=sides.target,
        granularity=plan.granularity,
        decisions=keep_decisions(merged.opened.decisions, plan.ranges.limits(place)),
    )
    touched = Images.of(join_ids([outcome.put["id"], outcome.removed]), sides)
    is_there = touched.target["id"].is_valid().combine_chunks()
    report = _tell(merged, outcome, _find_places(merged, answers, touched.ids.filter(is_there)))
    is_written = not plan.is_dry_run and not outcome.conflicts and outcome.put.num_rows
    if is_written and merged.folder is not None:
        report = replace(report, files=write_files(merged.folder, outcome.put))
    yield pa.record_batch(
        {
            "meeting": pa.array([place.meeting], pa.int32()),
            "part": pa.array([place.part], pa.int32()),
            "report": pa.array([pickle.dumps(report)], pa.binary()),
        }
    )


def keep_decisions(decisions: Decisions, limits: tuple[str | None, str | None]) -> Decisions:
    """The decisions about entities of a range, which has its first id and the one behind it."""

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


def _find_places(merged: MergedType, answers: Answers, ids: pa.Array) -> npt.NDArray[np.uint64]:
    """Where the target has rows that go or are replaced."""
    parts: list[pa.Table] = []
    if merged.to_target is not None:
        parts.append(answers.come(merged.to_target))
    if merged.to_source is not None and merged.kept:
        parts.append(_keep_fragments(answers.gone(merged.to_source), merged.kept))
    known = [each.select(["id", ADDRESS]) for each in parts if each.num_rows]
    if not len(ids):
        return np.empty(0, np.uint64)
    every = pa.concat_tables(known, promote_options="default").combine_chunks()
    # Of an id that is twice among them the first counts: the target's own row.
    places = pc.index_in(ids, value_set=every["id"].combine_chunks())
    assert not places.null_count, "a row of the target is its own, or one that the base had there"
    found: npt.NDArray[np.uint64] = every[ADDRESS].take(places).to_numpy()
    return found


def _keep_fragments(rows: pa.Table, numbers: frozenset[int]) -> pa.Table:
    if not rows.num_rows:
        return rows
    fragments = rows[ADDRESS].to_numpy() >> np.uint64(32)
    return rows.filter(pa.array(np.isin(fragments, np.array(sorted(numbers), np.uint64))))


def _tell(merged: MergedType, outcome: Reconciled, struck: npt.NDArray[np.uint64]) -> RangeReport:
    declared = merged.opened.declared
    change = TableChange(declared, outcome.put, outcome.removed, is_overwrite=False)
    return RangeReport(
        keys=outcome.put.select(key_columns(declared)),
        put_sizes=outcome.put_sizes,
        removed=outcome.removed,
        removed_sizes=outcome.removed_sizes,
        struck=np.sort(struck),
        files=(),
        conflicts=outcome.conflicts[:MERGE_CONFLICTS_MAX],
        violations=tuple(check_values(change)),
    )
