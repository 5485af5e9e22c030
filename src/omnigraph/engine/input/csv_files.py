"""The CSV reader: maps columns to properties, and converts fields to property types.

The first row names the columns. A field has the same text form as its property in NDJSON. A field
that equals the null spelling is null, unless it is quoted.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from omnigraph.engine.input.batches import (
    Declared,
    InputLocation,
    Report,
    RowCounter,
    RowError,
    at_least_one,
)
from omnigraph.engine.input.coerce import invalid_value
from omnigraph.engine.input.files import SeekableStream, open_unpacked
from omnigraph.model.errors import InvalidValueError, show_text
from omnigraph.model.limits import CSV_BLOCK_BYTES
from omnigraph.model.names import END_BY_ROLE, find_near_name
from omnigraph.model.types import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.storage.external_files import ExternalFiles, unreadable
from omnigraph.storage.row_files import table_schema

_WORDS = pa.array(["true", "True", "TRUE", "false", "False", "FALSE"])
_TRUE_COUNT = 3
_NO_TEXT = "the field holds invalid UTF8"


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A CSV file, or a folder or pattern of them, and how to read it.

    `columns` maps names in the file to properties, or to None for a column to leave out. A column
    that it does not contain has the name of its property.
    """

    path: str | os.PathLike[str]
    columns: Mapping[str, str | None] = field(default_factory=dict)
    delimiter: str = ","
    null: str = ""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The validated options of a CSV file, small enough to be sent to workers."""

    columns: tuple[tuple[str, str | None], ...]
    delimiter: str
    null: str


PLAIN_CSV = CsvOptions((), ",", "")
"""The options of a file whose columns are named after properties."""


def parse_options(given: CsvFile) -> CsvOptions:
    """The options of a `CsvFile`; raises `InvalidValueError` if one of them is invalid."""
    problem = _find_problem(given.columns, given.delimiter, given.null)
    if problem is not None:
        raise InvalidValueError(
            subject="CsvFile", expected="CSV options", value=given, problem=problem
        )
    return CsvOptions(tuple(given.columns.items()), given.delimiter, given.null)


def _find_problem(columns: object, delimiter: object, null: object) -> str | None:
    is_mapping = isinstance(columns, Mapping) and all(
        isinstance(name, str) and isinstance(target, str | None) for name, target in columns.items()
    )
    if not is_mapping:
        return "columns lead from names in the file to names of properties, or to None"
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii():
        return f"a delimiter is one ASCII character, not {delimiter!r}"
    if delimiter in '"\r\n':
        return "a delimiter cannot be a quote or a line end"
    if not isinstance(null, str):
        return f"null is spelled by a text, not a {type(null).__name__}"
    return None


def read_csv(
    path: str,
    files: ExternalFiles,
    declared: Declared,
    options: CsvOptions,
    counter: RowCounter,
    report: Report | None,
) -> Iterator[pa.RecordBatch]:
    """The fields of a file as bytes, with columns named as properties, in at least one batch.

    A row with too many or too few fields raises `InvalidValueError`; with a `report` it is reported
    instead, and counted in the `counter`.
    """
    uneven = _UnevenRows(path, report)
    try:
        with open_unpacked(path, files) as file:
            reader = _open(file, declared, options, uneven)
            for batch in at_least_one(reader, reader.schema):
                for part in uneven.part(batch, counter):
                    yield _rename(part, options, path)
        counter.add(records=len(uneven.numbers), lines=0)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _refuse(path, uneven.problem or _describe(error)) from error
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def parse_texts(column: pa.Array, wanted: PropertyType) -> pa.Array:
    """Fields parsed for a property type; raises `CoercionError` for a field that is invalid."""
    texts = _convert_all(column, lambda some: pc.cast(some, pa.string()), _NO_TEXT)
    if wanted.is_list or texts.null_count == len(texts):
        return texts
    plain = pc.ascii_trim_whitespace(texts)
    if wanted.element is Scalar.BOOL:
        return _convert_all(plain, _parse_words, "true or false is needed, not {}")
    if wanted.element in INTEGERS:
        kind = pa.uint64() if wanted.element is Scalar.U64 else pa.int64()
        convert = partial(pc.cast, target_type=kind)
        return _convert_all(plain, convert, "a whole number is needed, not {}")
    if wanted.element in FLOATS:
        convert = partial(pc.cast, target_type=pa.float64())
        return _convert_all(plain, convert, "a number is needed, not {}")
    return texts


class _UnevenRows:
    """Rows with too many or too few fields: the numbers of those that are not yet counted."""

    def __init__(self, path: str, report: Report | None) -> None:
        self._path, self._report = path, report
        self.numbers: deque[int] = deque()
        self.problem: str | None = None

    def meet(self, row: csv.InvalidRow) -> str:
        """Handle one such row: report and skip it, or end with an error."""
        # Arrow counts the header as the first row.
        place = InputLocation("", row.number - 1, None)
        counts = f"Expected {row.expected_columns} columns, got {row.actual_columns}"
        problem = f"{place}: {counts}"
        if self._report is None:
            self.problem = problem
            return "error"
        refusal = _refuse(self._path, problem)
        place = replace(place, file=self._path)
        self._report(RowError(place, str(refusal), orjson.dumps(row.text)))
        self.numbers.append(row.number - 1)
        return "skip"

    def part(self, batch: pa.RecordBatch, counter: RowCounter) -> Iterator[pa.RecordBatch]:
        """The rows between those that were left out, which are counted in the `counter`."""
        while self.numbers:
            # The consumer of the parts counts the rows in them.
            count = self.numbers[0] - counter.counted.records - 1
            if count >= batch.num_rows:
                break
            if count:
                yield batch.slice(0, count)
            batch = batch.slice(count)
            counter.add(records=1, lines=0)
            self.numbers.popleft()
        yield batch


def _open(
    file: SeekableStream, declared: Declared, options: CsvOptions, uneven: _UnevenRows
) -> csv.CSVStreamingReader:
    given = (name for name, _ in options.columns)
    names = [*table_schema(declared).names, *END_BY_ROLE, *given]
    return csv.open_csv(
        file,
        # With several threads, Arrow does not number the rows that it rejects.
        read_options=csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES),
        parse_options=csv.ParseOptions(
            delimiter=options.delimiter,
            newlines_in_values=True,
            invalid_row_handler=uneven.meet,
        ),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            # An unquoted field with this spelling is null, and a quoted one is text.
            null_values=[options.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _describe(error: Exception) -> str:
    if "straddles two block boundaries" in str(error):
        return f"a row has more than {CSV_BLOCK_BYTES:,} bytes; check that every quote is closed"
    return str(error)


def _rename(batch: pa.RecordBatch, options: CsvOptions, path: str) -> pa.RecordBatch:
    """The columns renamed to properties, without those that are left out."""
    found = batch.schema.names
    target_by_name = dict(options.columns)
    for name in target_by_name:
        if name not in found:
            near = find_near_name(name, found)
            advice = "" if near is None else f"; did you mean '{near}'?"
            raise _refuse(path, f"unknown column {show_text(name)} in the file{advice}")
    retained = [
        (target, column)
        for name, column in zip(found, batch.columns, strict=True)
        if (target := target_by_name.get(name, name)) is not None
    ]
    return pa.RecordBatch.from_arrays(
        [each for _, each in retained], [name for name, _ in retained]
    )


def _convert_all(
    column: pa.Array, convert: Callable[[pa.Array], pa.Array], problem: str
) -> pa.Array:
    def is_refused(some: pa.Array) -> bool:
        try:
            convert(some)
        except pa.ArrowInvalid:
            return True
        return False

    try:
        return convert(column)
    except pa.ArrowInvalid as error:
        rows = range(len(column))
        row = bisect_left(rows, 1, key=lambda each: is_refused(column[: each + 1]))
        value = column[row].as_py()
        shown = show_text(value) if isinstance(value, str) else ""
        raise invalid_value(row, value, problem.format(shown)) from error


def _parse_words(texts: pa.Array) -> pa.Array:
    codes = pc.index_in(texts, value_set=_WORDS)
    if codes.null_count != texts.null_count:
        raise pa.ArrowInvalid("neither true nor false")
    return pc.less(codes, _TRUE_COUNT)


def _refuse(path: str, problem: str) -> InvalidValueError:
    return InvalidValueError(subject=path, expected="rows", value=path, problem=problem)
