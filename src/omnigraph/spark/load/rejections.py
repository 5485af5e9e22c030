"""Errors of a bulk load with places in the input, reports of rejected rows, and quarantine.

Violations come in the order of a load in process. Places in the input are found by reading the
affected splits again. Quarantined rows are written in a form that can be loaded again, each with
its reason.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import orjson
from pyspark.sql import SparkSession

from omnigraph.engine.input.batches import NOTHING_YET, Counted, ReadContext, RowBatch, RowCounter
from omnigraph.engine.input.sources import read_split
from omnigraph.engine.input.splits import Split
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.errors import (
    EmbeddingError,
    IntegrityError,
    InvalidValueError,
    LoadReport,
    LocatedMessage,
    RuleReport,
    UnavailableError,
)
from omnigraph.model.limits import PLACES_SHOWN_MAX, VIOLATIONS_MAX
from omnigraph.spark.jobs import collect_tasks
from omnigraph.spark.load.inputs import FileInput, FrameInput, JobInput, LocalInput
from omnigraph.spark.load.staged import StagedJob
from omnigraph.spark.load.staging import (
    PartitionKey,
    Reason,
    StagedPartition,
    StagingPlan,
    ViolatedRule,
    parse_position,
)
from omnigraph.storage.locations import parse_location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import ObjectStore


def require_read(
    partitions: Sequence[StagedPartition], inputs: Sequence[JobInput], *, context: ReadContext
) -> None:
    """Raise for the first row that could not be converted, as a load in process does."""
    for partition in partitions:
        if partition.fault is None:
            continue
        given = inputs[partition.key.source]
        before = _count_before(partitions, inputs)[partition.key, partition.fault]
        if isinstance(given, FileInput):
            split = given.partitions[partition.key.number][partition.fault]
            counter = RowCounter(before)
            for _ in read_split(split, context=context, counter=counter, report=None):
                pass
            raise UnavailableError(
                action=f"read '{split.path}', so the graph is unchanged",
                reason=f"a task could not read it ({partition.problem}), but this process can; "
                "try again",
            )
        # A row of a frame is numbered over all its partitions.
        subject, _, problem = partition.problem.partition(": ")
        head, _, rest = subject.removeprefix("row ").partition(",")
        if subject.startswith("row ") and head.isdigit():
            subject = f"row {int(head) + before.records},{rest}"
        raise InvalidValueError(subject=subject, expected="rows", value=None, problem=problem)


def require_embedded(partitions: Sequence[StagedPartition]) -> None:
    """Raise if rows got no vectors, with the reason of the first affected partition."""
    for partition in partitions:
        if partition.unembedded:
            raise EmbeddingError(
                action="embed the texts of the rows, so the graph is unchanged",
                reason=partition.unembedded,
            )


def _count_before(
    partitions: Sequence[StagedPartition], inputs: Sequence[JobInput]
) -> Mapping[tuple[PartitionKey, int], Counted]:
    """The records and lines before each split in its file, as far as the file was read.

    The keys are a partition and the number of the split in it. A partition of a frame has one
    split, which comes after the rows of earlier partitions.
    """
    before: dict[tuple[PartitionKey, int], Counted] = {}
    counted: dict[object, Counted] = {}
    for partition in partitions:
        key, given = partition.key, inputs[partition.key.source]
        files: Sequence[object] = (None,)
        if isinstance(given, FileInput):
            files = [(split.path, split.declared) for split in given.partitions[key.number]]
        for number, file in enumerate(files):
            so_far = before[key, number] = counted.get((key.source, file), NOTHING_YET)
            if number < len(partition.counts):
                records, lines = partition.counts[number]
                after = Counted(so_far.records + records, so_far.lines + lines)
                counted[key.source, file] = after
    return before


def gather_values(partitions: Iterable[StagedPartition]) -> Iterator[ViolatedRule]:
    """The violated value rules, each combined over all partitions."""
    by_rule: dict[tuple[str, int], list[ViolatedRule]] = {}
    for partition in partitions:
        for each in partition.violated:
            by_rule.setdefault((each.table_key, each.rank), []).append(each)
    for (table_key, rank), parts in sorted(by_rule.items()):
        violations = tuple(islice((v for part in parts for v in part.violations), VIOLATIONS_MAX))
        positions = tuple(islice((p for part in parts for p in part.positions), VIOLATIONS_MAX))
        count = sum(part.count for part in parts)
        yield ViolatedRule(table_key, rank, count, violations, positions)


def require_none(spark: SparkSession, violated: Iterable[ViolatedRule], *, job: StagedJob) -> None:
    """Raise `IntegrityError` for violated rules, with violations in the order of a load in process.

    The report has the input locations of the rows that it shows.
    """
    rules = sorted(
        (rule for rule in violated if rule.count), key=lambda rule: (rule.table_key, rule.rank)
    )
    if not rules:
        return
    shown = (
        (rule.table_key, position)
        for rule in rules
        for position in rule.positions[:PLACES_SHOWN_MAX]
        if position is not None
    )
    places = _locate_rows(spark, shown, job)
    violations = (violation for rule in rules for violation in rule.violations)
    raise IntegrityError(
        violations=tuple(islice(violations, VIOLATIONS_MAX)),
        count=sum(rule.count for rule in rules),
        report=LoadReport(tuple(_report(rule, places) for rule in rules), None),
    )


def report_rejected(rejected: Iterable[LocatedRow], location: str) -> LoadReport:
    """The report of rows left out of a load, by rule."""
    by_rule: dict[tuple[str, str], list[LocatedRow]] = {}
    for each in rejected:
        by_rule.setdefault((each.type or "", each.reason.rule), []).append(each)
    rules = tuple(
        RuleReport(
            type=type_name or None,
            rule=rule,
            property=None,
            count=len(rows),
            shown=tuple(
                LocatedMessage(row.place, row.reason.message) for row in rows[:PLACES_SHOWN_MAX]
            ),
        )
        for (type_name, rule), rows in sorted(by_rule.items())
    )
    return LoadReport(rules, location)


@dataclass(frozen=True, slots=True)
class LocatedRow:
    """A rejected row and its location in the whole input."""

    type: str | None
    reason: Reason
    place: str
    original: str


def locate_rejected(
    partitions: Sequence[StagedPartition], inputs: Sequence[JobInput]
) -> tuple[LocatedRow, ...]:
    """All rejected rows of a job, in input order."""
    before = _count_before(partitions, inputs)
    located: list[LocatedRow] = []
    for partition in partitions:
        for row in partition.rejected:
            counted = before[partition.key, row.split]
            line = None if row.place.line is None else row.place.line + counted.lines
            place = replace(row.place, record=row.place.record + counted.records, line=line)
            located.append(LocatedRow(row.type, row.reason, str(place), row.original))
    return tuple(located)


def _report(rule: ViolatedRule, places: Mapping[tuple[str, int], str]) -> RuleReport:
    first = rule.violations[0]
    shown = zip(rule.violations, rule.positions, strict=True)
    return RuleReport(
        type=first.type,
        rule=first.rule,
        property=first.property,
        count=rule.count,
        shown=tuple(
            LocatedMessage(
                "" if position is None else places.get((rule.table_key, position), ""),
                violation.message,
            )
            for violation, position in islice(shown, PLACES_SHOWN_MAX)
        ),
    )


_SplitRows = tuple[PartitionKey, tuple[tuple[Split, Counted], ...], frozenset[tuple[str, int]]]
"""A partition, its splits with the counts before each in its file, and rows of it."""


def _locate_rows(
    spark: SparkSession, rows: Iterable[tuple[str, int]], job: StagedJob
) -> Mapping[tuple[str, int], str]:
    """The input locations of rows, given by table key and position."""
    rows_by_partition: dict[PartitionKey, set[tuple[str, int]]] = {}
    for table_key, position in rows:
        partition, ordinal = parse_position(position)
        rows_by_partition.setdefault(partition, set()).add((table_key, ordinal))
    places: dict[tuple[str, int], str] = {}
    to_read: list[_SplitRows] = []
    before = _count_before(job.partitions, job.inputs)
    for key, chosen in rows_by_partition.items():
        match job.inputs[key.source]:
            case FileInput() as given:
                splits = tuple(
                    (split, before[key, number])
                    for number, split in enumerate(given.partitions[key.number])
                )
                to_read.append((key, splits, frozenset(chosen)))
            case FrameInput():
                first = before[key, 0].records + 1
                for table_key, ordinal in chosen:
                    places[table_key, key.position(ordinal)] = f"row {first + ordinal}"
            case LocalInput(pieces):
                places |= _find_in_pieces(key, chosen, pieces)
    if to_read:
        for found in collect_tasks(spark, partial(_locate_in_splits, job.plan), to_read):
            places |= found
    return places


# On executors and the driver


def _locate_in_splits(plan: StagingPlan, task: _SplitRows) -> Mapping[tuple[str, int], str]:
    key, splits, rows = task
    context = plan.read_context()
    pieces = (
        piece
        for split, before in splits
        for piece in read_split(split, context=context, counter=RowCounter(before), report=None)
    )
    return _find_in_pieces(key, rows, pieces)


def _find_in_pieces(
    key: PartitionKey, rows: Iterable[tuple[str, int]], pieces: Iterable[RowBatch]
) -> Mapping[tuple[str, int], str]:
    ordinals_by_key: dict[str, list[int]] = {}
    for table_key, ordinal in sorted(rows):
        ordinals_by_key.setdefault(table_key, []).append(ordinal)
    seen: dict[str, int] = {}
    places: dict[tuple[str, int], str] = {}
    for piece in pieces:
        table_key = table_key_of(piece.declared)
        start = seen.get(table_key, 0)
        end = seen[table_key] = start + piece.rows.num_rows
        ordinals = ordinals_by_key.get(table_key, [])
        for ordinal in ordinals[bisect_left(ordinals, start) : bisect_left(ordinals, end)]:
            places[table_key, key.position(ordinal)] = str(piece.origin.locate(ordinal - start))
    return places


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A folder for the rejected rows of one load, which need not exist yet."""

    objects: ObjectStore
    prefix: str
    location: str

    def write(self, rejected: Sequence[LocatedRow]) -> None:
        """Write the rows, and for each of them the reason of the rejection."""
        self.objects.put(f"{self.prefix}/rejected.ndjson", _join(row.original for row in rejected))
        reasons = (
            orjson.dumps(
                {
                    "place": row.place,
                    "type": row.type,
                    "rule": row.reason.rule,
                    "message": row.reason.message,
                }
            ).decode()
            for row in rejected
        )
        self.objects.put(f"{self.prefix}/reasons.ndjson", _join(reasons))

    def remove(self) -> None:
        """Delete the written files."""
        self.objects.delete_prefix(self.prefix)


def open_quarantine(
    given: str | None,
    *,
    graph: ObjectStore,
    root: str,
    id: str,
    storage_options: Mapping[str, str],
    is_durable: bool,
) -> Quarantine:
    """The quarantine folder of a load: the one that the caller names, else one in the graph."""
    if given is None:
        prefix = f"__quarantine/{id}"
        return Quarantine(graph, prefix, f"{root}/{prefix}")
    place = parse_location(given, storage_options=storage_options)
    return Quarantine(open_objects(place, is_durable=is_durable), id, f"{place.root}/{id}")


def _join(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
