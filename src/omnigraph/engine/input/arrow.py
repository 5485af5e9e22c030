"""The readers of columnar input: Arrow producers, Parquet files, and Arrow files.

Columns are matched by name. Every column is validated before use, because producers can export
invalid data. Every source yields at least one batch, so that an empty file still has columns.
Memory is bounded by batches and not by files.
"""

from __future__ import annotations

from base64 import b64encode
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc, parquet

from omnigraph.engine.input.batches import (
    NOTHING_YET,
    Declared,
    InputLocation,
    ReadContext,
    Report,
    RowBatch,
    RowCounter,
    RowError,
    at_least_one,
    bisect_refused,
    build_rows,
    describe_unknown,
    inline_column,
    refuse_row,
)
from omnigraph.engine.input.coerce import (
    CoercionError,
    coerce_column,
    invalid_value,
    is_list,
    require_none,
)
from omnigraph.engine.rows.json_rows import encode_rows
from omnigraph.engine.rows.values import BLOB_PREFIX
from omnigraph.model.catalog import EdgeType
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import ARROW_BATCH_BYTES, ARROW_BATCH_ROWS_MAX, ARROW_PIECE_BYTES_MAX
from omnigraph.model.names import END_BY_ROLE
from omnigraph.model.types import PropertyType
from omnigraph.storage.external_files import ExternalFiles, is_remote, unreadable

_ARROW_FILE = b"ARROW1"


def measure_parquet(path: str, files: ExternalFiles) -> list[int]:
    """The compressed size in bytes of each row group of a file."""
    with _reading(path), _open_parquet(path, files) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        return [
            sum(each.column(number).total_compressed_size for number in range(each.num_columns))
            for each in groups
        ]


def read_parquet(
    path: str, files: ExternalFiles, *, start: int, end: int | None
) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups of a file."""
    with _reading(path), _open_parquet(path, files) as file:
        groups = range(start, file.num_row_groups if end is None else end)
        batches = (batch for number in groups for batch in _read_group(file, number))
        yield from at_least_one(batches, file.schema_arrow)


def _read_group(file: parquet.ParquetFile, number: int) -> Iterator[pa.RecordBatch]:
    group = file.metadata.row_group(number)
    row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
    row_count = max(1, min(ARROW_BATCH_ROWS_MAX, ARROW_BATCH_BYTES // row_bytes))
    yield from file.iter_batches(batch_size=row_count, row_groups=[number])


def measure_arrow(path: str, files: ExternalFiles) -> int:
    """The number of batches of a file; one for a stream, which is read from its start."""
    with _reading(path), _open(path, files) as file:
        if not _is_arrow_file(file):
            return 1
        with ipc.open_file(file) as reader:
            return int(reader.num_record_batches)


def read_arrow(
    path: str, files: ExternalFiles, *, start: int, end: int | None
) -> Iterator[pa.RecordBatch]:
    """The rows of some batches of a file, or all rows if the file holds a stream."""
    with _reading(path), _open(path, files) as file:
        is_file = _is_arrow_file(file)
        with ipc.open_file(file) if is_file else ipc.open_stream(file) as reader:
            batches: Iterable[pa.RecordBatch] = reader
            if is_file:
                numbers = range(start, reader.num_record_batches if end is None else end)
                batches = map(reader.get_batch, numbers)
            yield from at_least_one(batches, reader.schema)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


@contextmanager
def _open(path: str, files: ExternalFiles) -> Iterator[pa.NativeFile]:
    with files.open(path) as file, pa.PythonFile(file, "r") as opened:
        yield opened


@contextmanager
def _open_parquet(path: str, files: ExternalFiles) -> Iterator[parquet.ParquetFile]:
    # Remote requests have high latency, so a few large ones are made in advance.
    is_slow = is_remote(path)
    with _open(path, files) as opened, parquet.ParquetFile(opened, pre_buffer=is_slow) as file:
        yield file


def _is_arrow_file(file: pa.NativeFile) -> bool:
    start = file.read(len(_ARROW_FILE))
    file.seek(0)
    return bool(start == _ARROW_FILE)


class RowOrigin:
    """The origin of rows of a file or a caller that have row numbers and no lines."""

    def __init__(
        self, declared: Declared, file: str, numbers: Sequence[int], rows: pa.Table
    ) -> None:
        self._declared, self._file = declared, file
        self._numbers, self._rows = numbers, rows

    def locate(self, row: int) -> InputLocation:
        return InputLocation(self._file, self._numbers[row], None)

    def original(self, row: int) -> bytes:
        (found,) = self._rows.slice(row, 1).to_batches()
        try:
            (line,) = encode_rows(self._declared, found)
        except InvalidValueError:
            # The row holds a number that JSON cannot express.
            return write_given_row(self._declared, found)
        # An id that would be generated is left out. The pattern cannot occur inside a JSON string,
        # because quotes are escaped there.
        return (
            line.replace('"data":{"id":null,', '"data":{')
            .replace('"data":{"id":null}', '"data":{}')
            .encode()
        )


def write_given_row(declared: Declared, batch: pa.RecordBatch) -> bytes:
    """The only row of a batch as a line of NDJSON, even if it cannot be loaded."""
    values = {
        name: column[0].cast(pa.int64()).as_py()
        if pa.types.is_date64(column.type)  # `as_py` would truncate it to whole days
        else column[0].as_py()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    given = {name: value for name, value in values.items() if value is not None}
    record: dict[str, object] = {"type": declared.name}
    if isinstance(declared, EdgeType):
        record = {"edge": declared.name, "from": given.pop("src", None)}
        record["to"] = given.pop("dst", None)
    return orjson.dumps({**record, "data": given}, default=_write_other)


def _write_other(value: object) -> object:
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return f"{BLOB_PREFIX}{b64encode(value).decode()}"
        case date():
            return value.isoformat()
        case _:
            return str(value)


_STREAM, _ARRAY = "__arrow_c_stream__", "__arrow_c_array__"


def is_producer(given: object) -> bool:
    """Whether a value exports its rows through the Arrow PyCapsule interface."""
    return hasattr(given, _STREAM) or hasattr(given, _ARRAY)


def read_producer(
    given: object, declared: Declared, *, context: ReadContext, report: Report | None
) -> Iterator[RowBatch]:
    """The rows of a producer; raises `InvalidValueError` if it does not export Arrow rows."""
    try:
        if hasattr(given, _STREAM):
            table = pa.RecordBatchReader.from_stream(given).read_all()
        else:
            table = pa.Table.from_batches([pa.record_batch(given)])
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        problem = f"cannot read Arrow rows from a {type(given).__name__}: {error}"
        raise _refuse(declared, "", problem) from error
    source = ColumnSource(declared, "", keep_column)
    return read_batches(
        _cut(table), source, context=context, counter=RowCounter(NOTHING_YET), report=report
    )


ConvertColumn = Callable[[pa.Array, PropertyType], pa.Array]
"""Prepares a column for coercion; raises `CoercionError` for a row that cannot be converted."""


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """The source of columnar rows: their type, the file name for errors, and the column conversion.

    The name is empty without a file. The conversion is applied before coercion.
    """

    declared: Declared
    file: str
    convert: ConvertColumn


def keep_column(column: pa.Array, wanted: PropertyType) -> pa.Array:  # noqa: ARG001  # as others
    """Return an Arrow column unchanged, because it needs no conversion."""
    return column


def read_batches(
    batches: Iterable[pa.RecordBatch],
    source: ColumnSource,
    *,
    context: ReadContext,
    counter: RowCounter,
    report: Report | None,
) -> Iterator[RowBatch]:
    """The rows of batches, counted in the `counter`.

    An invalid row raises a `RequestError`; with a `report` it is reported and left out instead.
    """
    for given in batches:
        named = _name_ends(given, source)
        _require_columns(named.schema.names, source)
        for batch in _bisect(named):
            first = counter.counted.records + 1
            numbers: Sequence[int] = range(first, first + batch.num_rows)
            retained = batch
            if report is not None:
                retained, numbers = _leave_out_refused(batch, source, numbers, context, report)
            rows = _read_strictly(retained, source, numbers, context)
            origin = RowOrigin(source.declared, source.file, numbers, rows)
            yield RowBatch(source.declared, rows, origin)
            counter.add(records=batch.num_rows, lines=0)


def _name_ends(batch: pa.RecordBatch, source: ColumnSource) -> pa.RecordBatch:
    """The same rows, with the ends of edges under the names of their stored columns."""
    names = batch.schema.names
    if not isinstance(source.declared, EdgeType) or not END_BY_ROLE.keys() & names:
        return batch
    for role, end in END_BY_ROLE.items():
        if role in names and end in names:
            problem = f"the columns '{end}' and '{role}' name the same end; leave one of them out"
            raise _refuse(source.declared, source.file, problem)
    return batch.rename_columns([END_BY_ROLE.get(name, name) for name in names])


def _require_columns(columns: Sequence[str], source: ColumnSource) -> None:
    declared, name = source.declared, source.file
    ends = _ends_of(declared)
    for column, count in Counter(columns).items():
        if count > 1:
            raise _refuse(declared, name, f"there are {count} columns '{column}'")
        if column not in declared.properties and column not in ("id", *ends):
            problem = describe_unknown(declared, column, ends="'src' and 'dst', or 'from' and 'to'")
            raise _refuse(declared, name, problem)
    for role, end in END_BY_ROLE.items():
        if end in ends and end not in columns:
            problem = f"the column '{end}' is missing; it may also be called '{role}'"
            raise _refuse(declared, name, problem)


def _ends_of(declared: Declared) -> Sequence[str]:
    return tuple(END_BY_ROLE.values()) if isinstance(declared, EdgeType) else ()


def _refuse(declared: Declared, file: str, problem: str) -> InvalidValueError:
    subject = f"{file}: rows of {declared.name}" if file else f"rows of {declared.name}"
    return InvalidValueError(subject=subject, expected="rows", value=None, problem=problem)


def _cut(table: pa.Table) -> list[pa.RecordBatch]:
    """The rows in few batches, and at least one."""
    if any(column.num_chunks > 1 for column in table.columns):
        with suppress(pa.ArrowNotImplementedError):  # a type that no property has
            table = table.combine_chunks()
    return table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def _bisect(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in batches small enough for the offsets of Arrow, halved as often as necessary."""
    batches = [batch]
    while batches:
        batch = batches.pop(0)
        if batch.nbytes > ARROW_PIECE_BYTES_MAX and batch.num_rows > 1:
            half = batch.num_rows // 2
            batches[:0] = [batch.slice(0, half), batch.slice(half)]
        else:
            yield batch


def _leave_out_refused(
    batch: pa.RecordBatch,
    source: ColumnSource,
    numbers: Sequence[int],
    context: ReadContext,
    report: Report,
) -> tuple[pa.RecordBatch, Sequence[int]]:
    def attempt(start: int, end: int) -> None:
        _read_strictly(batch.slice(start, end - start), source, numbers[start:end], context)

    refused = []
    for index, refusal in bisect_refused(batch.num_rows, attempt):
        place = InputLocation(source.file, numbers[index], None)
        original = write_given_row(source.declared, batch.slice(index, 1))
        report(RowError(place, str(refusal), original))
        refused.append(index)
    if not refused:
        return batch, numbers
    starts = [0, *(index + 1 for index in refused)]
    ends = [*refused, batch.num_rows]
    retained = [batch.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
    # Slices are concatenated instead of filtered, because that works for every Arrow type.
    (joined,) = _cut(pa.Table.from_batches(retained))
    left_out = set(refused)
    return joined, [each for row, each in enumerate(numbers) if row not in left_out]


def _read_strictly(
    batch: pa.RecordBatch, source: ColumnSource, numbers: Sequence[int], context: ReadContext
) -> pa.Table:
    end, first = batch.num_rows, None
    while True:
        part = batch.slice(0, end)
        try:
            rows = build_rows(source.declared, partial(_read_column, part, source, context))
        except CoercionError as fault:
            # Each column reports only its own first error, so the earlier rows are read again.
            end, first = fault.row, fault
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            problem = f"Arrow cannot convert the rows: {error}"
            raise _refuse(source.declared, source.file, problem) from error
        else:
            if first is None:
                return rows
            place = InputLocation(source.file, numbers[end], None)
            raise refuse_row(source.declared, first, place=str(place)) from first


def _read_column(
    batch: pa.RecordBatch,
    source: ColumnSource,
    context: ReadContext,
    name: str,
    wanted: PropertyType,
) -> pa.Array:
    if name not in batch.schema.names:
        return coerce_column(pa.nulls(batch.num_rows), wanted)
    column = batch.column(name)
    if not _is_valid(column):
        row = bisect_left(range(len(column)), 1, key=lambda r: not _is_valid(column[: r + 1]))
        raise invalid_value(
            row, None, "the column holds a value that is not valid for its Arrow type"
        )
    coerced = coerce_column(
        inline_column(source.convert(column, wanted), wanted, context.external), wanted
    )
    if name in _ends_of(source.declared):
        require_none(coerced.is_null(), coerced, lambda _: "an edge needs both its ends")
    return coerced


def _is_valid(column: pa.Array) -> bool:
    if not len(column) or "date64" in str(column.type):
        # Arrow considers only whole days valid in a date64, but we store instants.
        return True
    try:
        if not is_list(column.type):
            column.validate(full=True)
            return True
        # Full validation of a list checks all elements, even those outside the slice.
        column.validate()
    except pa.ArrowInvalid:
        return False
    return _is_valid(pc.list_flatten(column))
