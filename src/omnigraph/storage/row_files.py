"""Files of rows outside of a graph: lines of JSON, Parquet or Arrow, on a local disk.

A file or folder appears whole and durable under its name, or not at all; until then it has a hidden
name beside it, which a load of the folder passes over. Takes rows a batch at a time. What lines of
JSON say is the caller's business.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from secrets import token_hex
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import parquet

from omnigraph.model.errors import AlreadyExistsError, InvalidValueError, UnavailableError
from omnigraph.model.limits import ROW_GROUP_BYTES
from omnigraph.storage.durability import flush_path

EncodeBlock = Callable[[pa.RecordBatch], memoryview]
"""Makes lines of JSON, with their ends, of some rows."""


class FileFormat(StrEnum):
    """What a file of rows can be."""

    NDJSON = "ndjson"
    PARQUET = "parquet"
    ARROW = "arrow"


def parse_format(text: str) -> FileFormat:
    """The format that a caller names."""
    try:
        return FileFormat(text)
    except ValueError as error:
        raise InvalidValueError(
            subject="format",
            expected="ndjson, parquet or arrow",
            value=text,
            problem=f"{text!r} is none of ndjson, parquet and arrow",
        ) from error


def format_of(target: Path) -> FileFormat:
    """The format that a file's name tells, as a load would read it: lines of JSON if none does."""
    suffix = target.suffix.lower().removeprefix(".")
    return FileFormat(suffix) if suffix in tuple(FileFormat) else FileFormat.NDJSON


def parse_target(given: str | os.PathLike[str]) -> Path:
    """The local path that a caller wants written."""
    text = os.fsdecode(given)
    uri = urlsplit(text) if "://" in text else None
    if uri is not None and (uri.scheme != "file" or uri.netloc not in ("", "localhost")):
        raise InvalidValueError(
            subject=text,
            expected="a local path",
            value=text,
            problem="files are written to local disks only; write there and copy",
        )
    return Path(text if uri is None else unquote(uri.path)).resolve()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name at the end of the block; it must be new or empty."""
    with _writing(target):
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            advice = "an export goes into a new or empty folder; name another one"
            raise AlreadyExistsError(kind="path", name=str(target), advice=advice)
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = _hide(target)
        try:
            hidden.mkdir()
            yield hidden
            flush_path(hidden)
            hidden.rename(target)
            flush_path(target.parent)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of a file at the end of the block.

    A device or a pipe is written to as it is: nothing takes its place.
    """
    with _writing(target):
        if target.exists() and not (target.is_file() or target.is_dir()):
            yield target
            return
        hidden = _hide(target)
        try:
            yield hidden
            flush_path(hidden)
            hidden.replace(target)
            flush_path(target.parent)
        finally:
            hidden.unlink(missing_ok=True)


def write_rows(
    path: Path,
    batches: Iterable[pa.RecordBatch],
    *,
    schema: pa.Schema,
    format: FileFormat,
    encode: EncodeBlock,
) -> int:
    """Write rows to a path and return how many there were; for JSON they go through `encode`."""
    match format:
        case FileFormat.NDJSON:
            return _write_lines(path, batches, encode)
        case FileFormat.PARQUET:
            return _write_parquet(path, batches, schema)
        case FileFormat.ARROW:
            return _write_arrow(path, batches, schema)


def exchange_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as other libraries take them: to many of them a `date64` is a whole day."""
    return pa.schema([each.with_type(exchange_type(each.type)) for each in schema])


def exchange_type(type: pa.DataType) -> pa.DataType:
    """The same for one type: instants are UTC timestamps."""
    if pa.types.is_date64(type):
        return pa.timestamp("ms", tz="UTC")
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(exchange_type(type.value_type)))
    return type


def _write_lines(path: Path, batches: Iterable[pa.RecordBatch], encode: EncodeBlock) -> int:
    row_count = 0
    with path.open("wb") as file:
        for batch in batches:
            file.write(encode(batch))
            row_count += batch.num_rows
    return row_count


def _write_parquet(path: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    row_count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for group in _gather(batches):
            writer.write_table(pa.Table.from_batches(group, schema))
            row_count += sum(each.num_rows for each in group)
    return row_count


def _gather(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches in groups that are worth the description that Parquet gives each."""
    group: list[pa.RecordBatch] = []
    for batch in batches:
        group.append(batch)
        if sum(each.nbytes for each in group) >= ROW_GROUP_BYTES:
            yield group
            group = []
    if group:
        yield group


def _write_arrow(path: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    row_count = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            row_count += batch.num_rows
    return row_count


def _hide(target: Path) -> Path:
    return target.with_name(f".{target.name}.{token_hex(8)}")


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnavailableError(action=f"write '{target}'", reason=reason) from error
