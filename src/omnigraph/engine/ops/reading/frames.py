"""Arrow producers: anything that exports an Arrow stream or array, as rows of one type.

Columns are found by name: properties, `id` if there are any to give, `src` and `dst` of an edge.
Every column is validated before it is believed, because producers can be wrong about themselves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.reading.fitting import fit, is_list
from omnigraph.engine.ops.reading.halving import find_refused
from omnigraph.engine.ops.reading.pieces import (
    NOTHING_YET,
    Declared,
    Fault,
    Means,
    Piece,
    Place,
    Report,
    Tally,
)
from omnigraph.engine.ops.reading.references import inline_column
from omnigraph.engine.ops.reading.row_lines import RowOrigin, write_given_row
from omnigraph.engine.ops.reading.rows import build_rows, describe_unknown, refuse_row
from omnigraph.engine.ops.reading.unfit import UnfitError, require_none, unfit
from omnigraph.model.catalog import EdgeType
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import ARROW_PIECE_BYTES_MAX
from omnigraph.model.types import PropertyType

_STREAM, _ARRAY = "__arrow_c_stream__", "__arrow_c_array__"
_ENDS = ("src", "dst")


def is_producer(given: object) -> bool:
    """Whether something offers its rows in Arrow's own exchange format."""
    return hasattr(given, _STREAM) or hasattr(given, _ARRAY)


def read_producer(
    given: object, declared: Declared, *, means: Means, report: Report | None
) -> Iterator[Piece]:
    """The rows of a producer."""
    try:
        if hasattr(given, _STREAM):
            table = pa.RecordBatchReader.from_stream(given).read_all()
        else:
            table = pa.Table.from_batches([pa.record_batch(given)])
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        problem = f"no Arrow rows can be had from a {type(given).__name__}: {error}"
        raise _refuse(declared, "", problem) from error
    source = ColumnSource(declared, "", keep_column)
    return read_batches(_cut(table), source, means=means, tally=Tally(NOTHING_YET), report=report)


ConvertColumn = Callable[[pa.Array, PropertyType], pa.Array]
"""Brings a column nearer to its property; `UnfitError` tells of a row that cannot be."""


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where rows in columns come from: their type, the file as refusals name it, if it has a name,
    and what its columns need before they are fitted."""

    declared: Declared
    file: str
    convert: ConvertColumn


def keep_column(column: pa.Array, wanted: PropertyType) -> pa.Array:  # noqa: ARG001  # as others
    """What Arrow says needs nothing."""
    return column


def read_batches(
    batches: Iterable[pa.RecordBatch],
    source: ColumnSource,
    *,
    means: Means,
    tally: Tally,
    report: Report | None,
) -> Iterator[Piece]:
    """The rows of batches; with a `report` a row that is refused is reported and left out."""
    for given in batches:
        _require_columns(given.schema.names, source)
        for batch in _halve(given):
            first = tally.counted.records + 1
            yield _read_batch(batch, source, range(first, first + batch.num_rows), means, report)
            tally.add(records=batch.num_rows, lines=0)


def _require_columns(columns: Sequence[str], source: ColumnSource) -> None:
    declared, name = source.declared, source.file
    ends = _ends_of(declared)
    for column, count in Counter(columns).items():
        if count > 1:
            raise _refuse(declared, name, f"there are {count} columns '{column}'")
        if column not in declared.properties and column not in ("id", *ends):
            problem = describe_unknown(declared, column, ends="'src' and 'dst'")
            raise _refuse(declared, name, problem)
    for end in ends:
        if end not in columns:
            raise _refuse(declared, name, f"the column '{end}' is missing")


def _ends_of(declared: Declared) -> Sequence[str]:
    return _ENDS if isinstance(declared, EdgeType) else ()


def _refuse(declared: Declared, file: str, problem: str) -> InvalidValueError:
    subject = f"{file}: rows of {declared.name}" if file else f"rows of {declared.name}"
    return InvalidValueError(subject=subject, expected="rows", value=None, problem=problem)


def _cut(table: pa.Table) -> list[pa.RecordBatch]:
    """The rows in few batches, and at least one."""
    if any(column.num_chunks > 1 for column in table.columns):
        with suppress(pa.ArrowNotImplementedError):  # of a type that no property has, anyway
            table = table.combine_chunks()
    return table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def _halve(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in as few batches as Arrow's offsets allow."""
    batches = [batch]
    while batches:
        batch = batches.pop(0)
        if batch.nbytes > ARROW_PIECE_BYTES_MAX and batch.num_rows > 1:
            half = batch.num_rows // 2
            batches[:0] = [batch.slice(0, half), batch.slice(half)]
        else:
            yield batch


def _read_batch(
    batch: pa.RecordBatch,
    source: ColumnSource,
    numbers: Sequence[int],
    means: Means,
    report: Report | None,
) -> Piece:
    """The rows of a batch, of which the numbers are given."""
    if report is not None:
        batch, numbers = _leave_out_refused(batch, source, numbers, means, report)
    rows = _read_strictly(batch, source, numbers, means)
    return Piece(source.declared, rows, RowOrigin(source.declared, source.file, numbers, rows))


def _leave_out_refused(
    batch: pa.RecordBatch,
    source: ColumnSource,
    numbers: Sequence[int],
    means: Means,
    report: Report,
) -> tuple[pa.RecordBatch, Sequence[int]]:
    def attempt(start: int, end: int) -> None:
        _read_strictly(batch.slice(start, end - start), source, numbers[start:end], means)

    refused = []
    for index, refusal in find_refused(batch.num_rows, attempt):
        place = Place(source.file, numbers[index], None)
        original = write_given_row(source.declared, batch.slice(index, 1))
        report(Fault(place, str(refusal), original))
        refused.append(index)
    if not refused:
        return batch, numbers
    starts = [0, *(index + 1 for index in refused)]
    ends = [*refused, batch.num_rows]
    kept = [batch.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
    # Joined, not picked: Arrow can join columns of any type.
    (joined,) = _cut(pa.Table.from_batches(kept))
    left_out = set(refused)
    return joined, [each for row, each in enumerate(numbers) if row not in left_out]


def _read_strictly(
    batch: pa.RecordBatch, source: ColumnSource, numbers: Sequence[int], means: Means
) -> pa.Table:
    end, first = batch.num_rows, None
    while True:
        part = batch.slice(0, end)
        try:
            rows = build_rows(source.declared, partial(_read_column, part, source, means))
        except UnfitError as fault:
            # Each column tells of its own first fault: look whether an earlier row has another.
            end, first = fault.row, fault
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            problem = f"Arrow cannot convert the rows: {error}"
            raise _refuse(source.declared, source.file, problem) from error
        else:
            if first is None:
                return rows
            place = Place(source.file, numbers[end], None)
            raise refuse_row(source.declared, first, place=str(place)) from first


def _read_column(
    batch: pa.RecordBatch, source: ColumnSource, means: Means, name: str, wanted: PropertyType
) -> pa.Array:
    if name not in batch.schema.names:
        return fit(pa.nulls(batch.num_rows), wanted)
    column = batch.column(name)
    if not _is_valid(column):
        row = bisect_left(range(len(column)), 1, key=lambda r: not _is_valid(column[: r + 1]))
        raise unfit(row, None, "the column holds what is no value of its Arrow type")
    fitted = fit(inline_column(source.convert(column, wanted), wanted, means.external), wanted)
    if name in _ends_of(source.declared):
        require_none(fitted.is_null(), fitted, lambda _: "an edge needs both its ends")
    return fitted


def _is_valid(column: pa.Array) -> bool:
    if not len(column) or "date64" in str(column.type):
        # Arrow knows whole days only in a date64, and we keep instants.
        return True
    try:
        if not is_list(column.type):
            column.validate(full=True)
            return True
        # A list's elements are all looked at, whichever rows of it are asked about.
        column.validate()
    except pa.ArrowInvalid:
        return False
    return _is_valid(pc.list_flatten(column))
