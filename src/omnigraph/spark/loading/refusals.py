"""Why a job is refused: what could not be read, and every broken rule with places in the input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from omnigraph.engine.ops.reading.pieces import NOTHING_YET, Counted, Means, Place, Tally
from omnigraph.engine.ops.reading.split_rows import read_split
from omnigraph.model.errors import IntegrityError, InvalidValueError, UnavailableError
from omnigraph.model.limits import PLACES_SHOWN_MAX, VIOLATIONS_MAX
from omnigraph.model.load_report import LoadReport, PlacedMessage, RuleReport
from omnigraph.spark.loading.inputs import FileInput, FrameInput, JobInput
from omnigraph.spark.loading.staged import Broken, PortionKey, Reason, StagedPortion


def require_read(
    portions: Sequence[StagedPortion], inputs: Sequence[JobInput], *, means: Means
) -> None:
    """Raise if a row could not be converted: about the first of them, as a load in process does."""
    for portion in portions:
        if portion.fault is None:
            continue
        given = inputs[portion.key.source]
        if isinstance(given, FileInput):
            split = given.portions[portion.key.number][portion.fault]
            counts = count_before(portion.key.source, portions, given)
            before = counts[portion.key, portion.fault]
            for _ in read_split(split, means=means, tally=Tally(before), report=None):
                pass
            raise UnavailableError(
                action=f"read '{split.path}', so the graph is unchanged",
                reason=f"it could be read only now, and not before ({portion.problem}); try again",
            )
        raise _refuse_row(portion, portions)


def count_before(
    source: int, portions: Sequence[StagedPortion], given: FileInput
) -> Mapping[tuple[PortionKey, int], Counted]:
    """What comes before each split in its file, by portion and number, as far as it was read."""
    before: dict[tuple[PortionKey, int], Counted] = {}
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


def count_rows_before(key: PortionKey, portions: Sequence[StagedPortion]) -> int:
    """How many rows of a frame come before one of its partitions."""
    earlier = (each for each in portions if each.key.source == key.source and each.key < key)
    return sum(each.counts[0][0] for each in earlier)


def _refuse_row(portion: StagedPortion, portions: Sequence[StagedPortion]) -> InvalidValueError:
    """The refusal of a row of a frame, counted over all its partitions."""
    before = count_rows_before(portion.key, portions)
    subject, _, problem = portion.problem.partition(": ")
    head, _, rest = subject.removeprefix("row ").partition(",")
    if subject.startswith("row ") and head.isdigit():
        subject = f"row {int(head) + before},{rest}"
    return InvalidValueError(subject=subject, expected="rows", value=None, problem=problem)


def gather_values(portions: Iterable[StagedPortion]) -> Iterator[Broken]:
    """The broken rules about values, each over all portions."""
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
    """The refusal of a job, its violations in the order of a load in process."""
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
    """What was left out of a load, rule by rule."""
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
                PlacedMessage(row.place, row.reason.message) for row in rows[:PLACES_SHOWN_MAX]
            ),
        )
        for (type_name, rule), rows in sorted(by_rule.items())
    )
    return LoadReport(rules, location)


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A rejected row, and its place in the whole input."""

    type: str | None
    reason: Reason
    place: str
    original: str


def place_rejected(
    portions: Sequence[StagedPortion], inputs: Sequence[JobInput]
) -> tuple[PlacedRow, ...]:
    """All rejected rows of a job in the order of the input."""
    before: dict[tuple[PortionKey, int], Counted] = {}
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


def _shift(place: Place, before: Counted) -> Place:
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
            PlacedMessage(_find_place(rule, position, places), violation.message)
            for violation, position in islice(shown, PLACES_SHOWN_MAX)
        ),
    )


def _find_place(rule: Broken, position: int | None, places: Mapping[tuple[str, int], str]) -> str:
    return "" if position is None else places.get((rule.table_key, position), "")
