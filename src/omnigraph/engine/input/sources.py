"""The entry point for load input: paths, open files, Arrow producers, dicts, and splits.

Every source becomes a stream of row batches that know their origin; gathering them holds the whole
input in memory. Input of any other kind is rejected. Spark data frames are recognized here and
loaded by the Spark package. Integrity rules are not checked here.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from omnigraph.engine.input.arrow import (
    ColumnSource,
    is_producer,
    keep_column,
    read_arrow,
    read_batches,
    read_parquet,
    read_producer,
)
from omnigraph.engine.input.batches import (
    NOTHING_YET,
    Declared,
    InputLocation,
    ReadContext,
    ReceivedRows,
    Report,
    RowBatch,
    RowCounter,
    gather,
)
from omnigraph.engine.input.csv_files import PLAIN_CSV, parse_texts, read_csv
from omnigraph.engine.input.files import LineRange, Stream, is_stream, open_unpacked, read_blocks
from omnigraph.engine.input.ndjson import read_records
from omnigraph.engine.input.splits import InputFormat, Split, is_named, plan_splits, refuse_given
from omnigraph.engine.rows.values import BLOB_PREFIX
from omnigraph.engine.state.manifest import get_type, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import LOAD_BLOCK_BYTES
from omnigraph.model.names import END_BY_ROLE
from omnigraph.model.runtime import Runtime
from omnigraph.model.types import Scalar
from omnigraph.storage.row_files import group_by_size
from omnigraph.storage.tables import read_lance


def read_split(
    split: Split, *, context: ReadContext, counter: RowCounter, report: Report | None
) -> Iterator[RowBatch]:
    """The rows of a split, counted in the `counter` on top of the rows before it in its file.

    A row that cannot be converted raises `InvalidValueError` with its location; with a `report` it
    is reported and left out instead. A file that cannot be read always raises.
    """
    if split.format is InputFormat.NDJSON:
        yield from _read_lines(split, context, counter, report)
        return
    assert split.declared is not None, "only records of NDJSON name their types"
    declared = get_type(split.declared, context.catalog)
    convert = parse_texts if split.format is InputFormat.CSV else keep_column
    yield from read_batches(
        _read_batches(split, declared, context, counter, report),
        ColumnSource(declared, split.path, convert),
        context=context,
        counter=counter,
        report=report,
    )


def _read_lines(
    split: Split, context: ReadContext, counter: RowCounter, report: Report | None
) -> Iterator[RowBatch]:
    with open_unpacked(split.path, context.files) as file:
        stream: Stream = file
        if split.end is not None:
            stream = LineRange(file, start=split.start, end=split.end, name=split.path)
        yield from read_records(
            read_blocks(stream, name=split.path),
            file=split.path,
            is_start=not split.start,
            context=context,
            counter=counter,
            report=report,
        )


def _read_batches(
    split: Split,
    declared: Declared,
    context: ReadContext,
    counter: RowCounter,
    report: Report | None,
) -> Iterator[pa.RecordBatch]:
    files, start, end = context.files, split.start, split.end
    match split.format:
        case InputFormat.PARQUET:
            return read_parquet(split.path, files, start=start, end=end)
        case InputFormat.ARROW:
            return read_arrow(split.path, files, start=start, end=end)
        case InputFormat.CSV:
            return read_csv(split.path, files, declared, split.csv or PLAIN_CSV, counter, report)
        case InputFormat.LANCE:
            options = files.storage_options
            return read_lance(
                files.resolve(split.path), options, version=split.version, start=start, end=end
            )
        case InputFormat.NDJSON:
            raise AssertionError("its lines are read")


_ENDS = frozenset({*END_BY_ROLE, *END_BY_ROLE.values()})


def holds_dicts(given: object) -> TypeGuard[Sequence[Mapping[str, object]]]:
    """Whether a value is a non-empty list of dicts."""
    return (
        isinstance(given, list | tuple)
        and len(given) > 0
        and all(isinstance(each, Mapping) for each in given)
    )


def read_dicts(
    given: Sequence[Mapping[str, object]],
    declared: Declared | None,
    *,
    context: ReadContext,
    report: Report | None,
) -> Iterator[RowBatch]:
    """The rows of dicts, which hold properties if a type is given, and whole records otherwise."""
    rows = given if declared is None else (_wrap(each, declared) for each in given)
    lines = (_write(row, number, context.catalog) for number, row in enumerate(rows, 1))
    return read_records(
        map(b"".join, group_by_size(lines, size_of=len, size_max=LOAD_BLOCK_BYTES)),
        file="",
        is_start=True,
        context=context,
        counter=RowCounter(NOTHING_YET),
        report=report,
        has_lines=False,
    )


def _wrap(row: Mapping[str, object], declared: Declared) -> Mapping[str, object]:
    """A row of a type as an NDJSON record."""
    if not isinstance(declared, EdgeType):
        return {"type": declared.name, "data": dict(row)}
    ends = {name: value for name, value in row.items() if name in _ENDS}
    properties = {name: value for name, value in row.items() if name not in _ENDS}
    return {"edge": declared.name, **ends, "data": properties}


def _write(record: Mapping[str, object], number: int, catalog: Catalog) -> bytes:
    has_other = False

    def write_other(value: object) -> object:
        nonlocal has_other
        has_other = True
        return _write_other(value)

    try:
        text = json.dumps(dict(record), allow_nan=False, ensure_ascii=False, default=write_other)
        if has_other:
            _require_text_is_meant(record, number, catalog)
        return text.encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError(
            subject=str(InputLocation("", number, None)),
            expected="a row",
            value=record,
            problem=f"it holds a value that cannot be stored ({error}); give None where a value is "
            "missing; nothing was written",
        ) from error


def _require_text_is_meant(record: Mapping[str, object], number: int, catalog: Catalog) -> None:
    """Raise `InvalidValueError` for bytes or a date that would be stored as text in a String."""
    declared = catalog.nodes.get(str(record.get("type"))) or catalog.edges.get(
        str(record.get("edge"))
    )
    given = record.get("data")
    if declared is None or not isinstance(given, Mapping):
        return
    for name, property in declared.properties.items():
        value = given.get(name)
        values = value if isinstance(value, list | tuple) else (value,)
        other = next((each for each in values if isinstance(each, _WRITTEN_AS_TEXT)), None)
        if other is not None and property.type.element not in _TYPES_IN_TEXT:
            raise InvalidValueError(
                subject=f"{InputLocation('', number, None)}, {declared.name}.{name}",
                expected=str(property.type),
                value=other,
                problem=f"a {property.type} is needed, not {type(other).__name__}; nothing was "
                "written",
            )


_WRITTEN_AS_TEXT = (bytes, bytearray, date, np.datetime64)
_TYPES_IN_TEXT = (Scalar.BLOB, Scalar.DATE, Scalar.DATETIME)


def _write_other(value: object) -> object:
    match value:
        case Mapping():
            return dict(value)
        case bytes() | bytearray():
            return f"{BLOB_PREFIX}{b64encode(value).decode()}"
        case date():  # a datetime is one too
            return value.isoformat()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case np.datetime64():
            return str(value)
        case np.generic() | np.ndarray():
            return value.tolist()
        case _:
            raise TypeError(f"a value of type {type(value).__name__}")


def read_input(given: object, *, context: ReadContext, runtime: Runtime) -> dict[str, ReceivedRows]:
    """The rows of the input by table key, in the order of keys.

    A row that cannot be converted raises `InvalidValueError` with its location. Integrity rules are
    not checked.
    """
    return gather(read_given(given, context=context, report=None), runtime=runtime)


def read_given(given: object, *, context: ReadContext, report: Report | None) -> Iterator[RowBatch]:
    """The batches of the input as they are read.

    With a `report`, a row that cannot be converted is reported and left out.
    """
    if isinstance(given, Mapping):
        for name, source in given.items():
            yield from _read_typed(source, get_type(name, context.catalog), context, report)
    elif holds_dicts(given):
        yield from read_dicts(given, None, context=context, report=report)
    elif is_named(given) or isinstance(given, list | tuple):
        yield from _read_named(given, context, report)
    elif is_stream(given):
        name = getattr(given, "name", None)
        called = name if isinstance(name, str) else ""
        yield from read_records(
            read_blocks(given, name=called or "the given file"),
            file=called,
            is_start=True,
            context=context,
            counter=RowCounter(NOTHING_YET),
            report=report,
        )
    else:
        advice = (
            "give a path, an open file, a list of records as dicts, or a mapping from the names of "
            "types to Arrow rows or lists of dicts"
        )
        if isinstance(given, bytes | bytearray):
            advice = "wrap it in io.BytesIO"
        raise refuse_given(given, advice)


def is_spark_frame(source: object) -> bool:
    """Whether a value is a Spark data frame."""
    # Checked by name, because pyspark takes a second to import and may not be installed.
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pyspark"
        for kind in type(source).__mro__
    )


def _read_named(given: object, context: ReadContext, report: Report | None) -> Iterator[RowBatch]:
    for split in plan_splits(given, context=context, split_bytes=None):
        yield from read_split(
            split, context=context, counter=RowCounter(NOTHING_YET), report=report
        )


def _read_typed(
    source: object, declared: Declared, context: ReadContext, report: Report | None
) -> Iterator[RowBatch]:
    if is_spark_frame(source):
        raise refuse_given(source, 'loading it needs engine="spark"')
    if is_producer(source):
        yield from read_producer(source, declared, context=context, report=report)
    elif holds_dicts(source):
        yield from read_dicts(source, declared, context=context, report=report)
    elif is_named(source):
        yield from _read_named({table_key_of(declared): source}, context, report)
    elif isinstance(source, list | tuple):
        for part in source:
            yield from _read_typed(part, declared, context, report)
    else:
        raise refuse_given(source, f"give {declared.name} as Arrow rows, a list of dicts, or paths")
