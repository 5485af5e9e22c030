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
import pyarrow as pa
from pyspark.sql import SparkSession

from omnigraph.engine.input.batches import (
    NOTHING_YET,
    Counted,
    InputLocation,
    ReadContext,
    RowBatch,
    RowCounter,
)
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
from omnigraph.spark.errors import carried_errors
from omnigraph.spark.load.inputs import FileInput, FrameInput, JobInput, LocalInput
from omnigraph.spark.load.staged import Broken, Reason, SplitKey, StagedSplit, parse_position
from omnigraph.spark.load.staging import StagingPlan
from omnigraph.storage.locations import parse_location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import ObjectStore


def require_read(
    portions: Sequence[StagedSplit], inputs: Sequence[JobInput], *, context: ReadContext
) -> None:
    """Raise for the first row that could not be converted, as a load in process does."""
    for portion in portions:
        if portion.fault is None:
            continue
        given = inputs[portion.key.source]
        if isinstance(given, FileInput):
            split = given.portions[portion.key.number][portion.fault]
            counts = count_before(portion.key.source, portions, given)
            before = counts[portion.key, portion.fault]
            for _ in read_split(split, context=context, counter=RowCounter(before), report=None):
                pass
            raise UnavailableError(
                action=f"read '{split.path}', so the graph is unchanged",
                reason=f"it could be read only now, and not before ({portion.problem}); try again",
            )
        raise _refuse_row(portion, portions)


def require_embedded(portions: Sequence[StagedSplit]) -> None:
    """Raise if rows got no vectors, with the reason of the first affected partition."""
    for portion in portions:
        if portion.unembedded:
            raise EmbeddingError(
                action="embed the texts of the rows, so the graph is unchanged",
                reason=portion.unembedded,
            )


def count_before(
    source: int, portions: Sequence[StagedSplit], given: FileInput
) -> Mapping[tuple[SplitKey, int], Counted]:
    """The records and lines before each split in its file, as far as the file was read.

    The keys are a partition and the number of the split in it.
    """
    before: dict[tuple[SplitKey, int], Counted] = {}
    counted: dict[tuple[str, str | None], Counted] = {}
    for portion in portions:
        if portion.key.source != source:
            continue
        for number, split in enumerate(given.portions[portion.key.number]):
            file = split.path, split.declared
            so_far = counted.get(file, NOTHING_YET)
            before[portion.key, number] = so_far
            if number < len(portion.counts):
                records, lines = portion.counts[number]
                counted[file] = Counted(so_far.records + records, so_far.lines + lines)
    return before


def count_rows_before(key: SplitKey, portions: Sequence[StagedSplit]) -> int:
    """The number of rows of a frame before one of its partitions."""
    earlier = (each for each in portions if each.key.source == key.source and each.key < key)
    return sum(each.counts[0][0] for each in earlier)


def _refuse_row(portion: StagedSplit, portions: Sequence[StagedSplit]) -> InvalidValueError:
    """The error for a row of a frame, numbered over all its partitions."""
    before = count_rows_before(portion.key, portions)
    subject, _, problem = portion.problem.partition(": ")
    head, _, rest = subject.removeprefix("row ").partition(",")
    if subject.startswith("row ") and head.isdigit():
        subject = f"row {int(head) + before},{rest}"
    return InvalidValueError(subject=subject, expected="rows", value=None, problem=problem)


def gather_values(portions: Iterable[StagedSplit]) -> Iterator[Broken]:
    """The violated value rules, each combined over all partitions."""
    by_rule: dict[tuple[str, int], list[Broken]] = {}
    for portion in portions:
        for each in portion.broken:
            by_rule.setdefault((each.table_key, each.rank), []).append(each)
    for (table_key, rank), parts in sorted(by_rule.items()):
        violations = tuple(islice((v for part in parts for v in part.violations), VIOLATIONS_MAX))
        positions = tuple(islice((p for part in parts for p in part.positions), VIOLATIONS_MAX))
        count = sum(part.count for part in parts)
        yield Broken(table_key, rank, count, violations, positions)


def refuse(broken: Iterable[Broken], places: Mapping[tuple[str, int], str]) -> IntegrityError:
    """The error for a job, with violations in the order of a load in process."""
    ordered = sorted(broken, key=lambda each: (each.table_key, each.rank))
    told = (violation for rule in ordered for violation in rule.violations)
    return IntegrityError(
        violations=tuple(islice(told, VIOLATIONS_MAX)),
        count=sum(rule.count for rule in ordered),
        report=LoadReport(tuple(_report(rule, places) for rule in ordered), None),
    )


def list_shown(broken: Iterable[Broken]) -> Iterator[tuple[str, int]]:
    """The rows, by table key and position, that the report shows."""
    for rule in broken:
        for position in rule.positions[:PLACES_SHOWN_MAX]:
            if position is not None:
                yield rule.table_key, position


def report_rejected(rejected: Iterable[PlacedRow], location: str) -> LoadReport:
    """The report of rows left out of a load, by rule."""
    by_rule: dict[tuple[str, str], list[PlacedRow]] = {}
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
class PlacedRow:
    """A rejected row and its location in the whole input."""

    type: str | None
    reason: Reason
    place: str
    original: str


def place_rejected(
    portions: Sequence[StagedSplit], inputs: Sequence[JobInput]
) -> tuple[PlacedRow, ...]:
    """All rejected rows of a job, in input order."""
    before: dict[tuple[SplitKey, int], Counted] = {}
    for portion in portions:
        given = inputs[portion.key.source]
        if not portion.rejected or (portion.key, 0) in before:
            continue
        if isinstance(given, FileInput):
            before |= count_before(portion.key.source, portions, given)
        elif isinstance(given, FrameInput):
            before[portion.key, 0] = Counted(count_rows_before(portion.key, portions), 0)
    return tuple(
        PlacedRow(
            row.type,
            row.reason,
            str(_shift(row.place, before.get((portion.key, row.split), NOTHING_YET))),
            row.original,
        )
        for portion in portions
        for row in portion.rejected
    )


def _shift(place: InputLocation, before: Counted) -> InputLocation:
    line = None if place.line is None else place.line + before.lines
    return replace(place, record=place.record + before.records, line=line)


def _report(rule: Broken, places: Mapping[tuple[str, int], str]) -> RuleReport:
    first = rule.violations[0]
    shown = zip(rule.violations, rule.positions, strict=True)
    return RuleReport(
        type=first.type,
        rule=first.rule,
        property=first.property,
        count=rule.count,
        shown=tuple(
            LocatedMessage(_find_place(rule, position, places), violation.message)
            for violation, position in islice(shown, PLACES_SHOWN_MAX)
        ),
    )


def _find_place(rule: Broken, position: int | None, places: Mapping[tuple[str, int], str]) -> str:
    return "" if position is None else places.get((rule.table_key, position), "")


_PLACES = "table_key string, position long, place string"

Wanted = tuple[SplitKey, tuple[tuple[Split, Counted], ...], frozenset[tuple[str, int]]]
"""A partition, its splits with the counts before each in its file, and rows of it."""


def locate_rows(
    spark: SparkSession,
    rows: Iterable[tuple[str, int]],
    *,
    plan: StagingPlan,
    inputs: Sequence[JobInput],
    portions: Sequence[StagedSplit],
) -> Mapping[tuple[str, int], str]:
    """The input locations of rows, given by table key and position."""
    rows_by_portion: dict[SplitKey, set[tuple[str, int]]] = {}
    for table_key, position in rows:
        portion, ordinal = parse_position(position)
        rows_by_portion.setdefault(portion, set()).add((table_key, ordinal))
    places: dict[tuple[str, int], str] = {}
    to_read: list[Wanted] = []
    before: dict[tuple[SplitKey, int], Counted] = {}
    for key, wanted in rows_by_portion.items():
        match inputs[key.source]:
            case FileInput() as given:
                if (key, 0) not in before:
                    before |= count_before(key.source, portions, given)
                splits = tuple(
                    (split, before[key, number])
                    for number, split in enumerate(given.portions[key.number])
                )
                to_read.append((key, splits, frozenset(wanted)))
            case FrameInput():
                places |= _number_rows(key, wanted, portions)
            case LocalInput(pieces):
                places |= _find_in_pieces(key, wanted, pieces)
    if to_read:
        frame = spark.range(0, len(to_read), 1, len(to_read)).mapInArrow(
            partial(_locate_all, plan, tuple(to_read)), _PLACES
        )
        places |= {(row["table_key"], row["position"]): row["place"] for row in frame.collect()}
    return places


def _number_rows(
    key: SplitKey, wanted: Iterable[tuple[str, int]], portions: Sequence[StagedSplit]
) -> Mapping[tuple[str, int], str]:
    """The locations of rows of a frame: their numbers over all partitions."""
    before = count_rows_before(key, portions)
    return {
        (table_key, key.position(ordinal)): f"row {before + ordinal + 1}"
        for table_key, ordinal in wanted
    }


# On executors and the driver


def _locate_all(
    plan: StagingPlan, wanted: Sequence[Wanted], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with carried_errors():
        for batch in batches:
            for number in batch.column("id").to_pylist():
                key, splits, rows = wanted[number]
                places = _find_in_pieces(key, rows, _read_all(plan, splits))
                yield pa.record_batch(
                    {
                        "table_key": [table_key for table_key, _ in places],
                        "position": pa.array([position for _, position in places], pa.int64()),
                        "place": list(places.values()),
                    }
                )


def _read_all(plan: StagingPlan, splits: Sequence[tuple[Split, Counted]]) -> Iterator[RowBatch]:
    context = plan.context()
    for split, before in splits:
        yield from read_split(split, context=context, counter=RowCounter(before), report=None)


def _find_in_pieces(
    key: SplitKey, wanted: Iterable[tuple[str, int]], pieces: Iterable[RowBatch]
) -> Mapping[tuple[str, int], str]:
    ordinals_by_key: dict[str, list[int]] = {}
    for table_key, ordinal in sorted(wanted):
        ordinals_by_key.setdefault(table_key, []).append(ordinal)
    seen: dict[str, int] = {}
    places: dict[tuple[str, int], str] = {}
    for piece in pieces:
        table_key = table_key_of(piece.declared)
        start = seen.get(table_key, 0)
        seen[table_key] = start + piece.rows.num_rows
        ordinals = ordinals_by_key.get(table_key, [])
        for ordinal in ordinals[
            bisect_left(ordinals, start) : bisect_left(ordinals, seen[table_key])
        ]:
            places[table_key, key.position(ordinal)] = str(piece.locate(ordinal - start))
    return places


_ROWS, _REASONS = "rejected.ndjson", "reasons.ndjson"
_PREFIX = "__quarantine"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A folder for the rejected rows of one load, which need not exist yet."""

    objects: ObjectStore
    prefix: str
    location: str

    def write(self, rejected: Sequence[PlacedRow]) -> None:
        """Write the rows, and for each of them the reason of the rejection."""
        self.objects.put(f"{self.prefix}/{_ROWS}", _join(row.original for row in rejected))
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
        self.objects.put(f"{self.prefix}/{_REASONS}", _join(reasons))

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
        prefix = f"{_PREFIX}/{id}"
        return Quarantine(graph, prefix, f"{root}/{prefix}")
    place = parse_location(given, storage_options=storage_options)
    return Quarantine(open_objects(place, is_durable=is_durable), id, f"{place.root}/{id}")


def _join(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
