"""The Arrow schema of a type, and local row files in NDJSON, Parquet or Arrow format.

Equal declarations give equal schemas, and a blob is a `large_binary` column. A file or folder
appears under its name complete and durable, or not at all. Rows are written a batch at a time. The
caller supplies the JSON encoding.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import parquet

from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import (
    AlreadyExistsError,
    InvalidValueError,
    LimitExceededError,
    UnavailableError,
)
from omnigraph.model.limits import PROPERTY_BYTES_MAX, ROW_GROUP_BYTES
from omnigraph.model.types import PropertyType, Scalar, Vector
from omnigraph.storage.environment import expand_home
from omnigraph.storage.fsync import flush_path

Item = TypeVar("Item")

EncodeBlock = Callable[[pa.RecordBatch], memoryview]
"""Encodes rows as lines of JSON, including the line ends."""


class FileFormat(StrEnum):
    """The formats of a row file."""

    NDJSON = "ndjson"
    PARQUET = "parquet"
    ARROW = "arrow"


class ResultFormat(StrEnum):
    """The formats of a query result: those that a load can read, and text for other programs.

    They are separate from the formats of an export, because the text formats do not preserve types.
    """

    NDJSON = "ndjson"
    PARQUET = "parquet"
    ARROW = "arrow"
    JSON = "json"
    CSV = "csv"
    TSV = "tsv"


_FORMAT_BY_SUFFIX = {
    ".parquet": ResultFormat.PARQUET,
    ".arrow": ResultFormat.ARROW,
    ".feather": ResultFormat.ARROW,
    ".ipc": ResultFormat.ARROW,
    ".ndjson": ResultFormat.NDJSON,
    ".jsonl": ResultFormat.NDJSON,
    ".json": ResultFormat.JSON,
    ".csv": ResultFormat.CSV,
    ".tsv": ResultFormat.TSV,
}


def find_result_format(target: Path) -> ResultFormat:
    """The result format for a file's suffix; NDJSON for a name without a suffix, such as a pipe.

    Raises `InvalidValueError` for an unknown suffix.
    """
    suffix = target.suffix.lower()
    if not suffix:
        return ResultFormat.NDJSON
    found = _FORMAT_BY_SUFFIX.get(suffix)
    if found is None:
        known = _list_words(tuple(_FORMAT_BY_SUFFIX))
        raise InvalidValueError(
            subject=str(target),
            expected=known,
            value=suffix,
            problem=f"rows cannot be written as '{suffix}'; nothing was written; use one of the "
            f"suffixes {known}",
        )
    return found


def _list_words(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def parse_target(given: str | os.PathLike[str]) -> Path:
    """The local path of an output file; raises `InvalidValueError` for any other location."""
    text = os.fsdecode(given)
    uri = urlsplit(text) if "://" in text else None
    if uri is not None and (uri.scheme != "file" or uri.netloc not in ("", "localhost")):
        raise InvalidValueError(
            subject=text,
            expected="a local path",
            value=text,
            problem="files are written to local disks only; write there and copy",
        )
    return expand_home(text if uri is None else unquote(uri.path)).resolve()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, renamed to its target at the end of the block.

    Raises `AlreadyExistsError` unless the target is new or an empty folder.
    """
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
    """A path to write to, which replaces the target file at the end of the block.

    A device or a pipe is written directly and not replaced.
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
    """Write rows to a path and return their number; NDJSON rows are encoded by `encode`."""
    row_count = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal row_count
        for batch in batches:
            row_count += batch.num_rows
            yield batch

    match format:
        case FileFormat.NDJSON:
            with path.open("wb") as lines:
                lines.writelines(map(encode, counted()))
        case FileFormat.PARQUET:
            with parquet.ParquetWriter(path, schema) as groups:
                # A row group is large enough to justify its metadata.
                for group in group_by_size(counted(), size_of=bytes_of, size_max=ROW_GROUP_BYTES):
                    groups.write_table(pa.Table.from_batches(group, schema))
        case FileFormat.ARROW:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as stream:
                for batch in counted():
                    stream.write_batch(batch)
    return row_count


def group_by_size(
    items: Iterable[Item], *, size_of: Callable[[Item], int], size_max: int
) -> Iterator[list[Item]]:
    """Items in groups that reach a size with their last item; the last group may be smaller."""
    group: list[Item] = []
    size = 0
    for each in items:
        group.append(each)
        size += size_of(each)
        if size >= size_max:
            yield group
            group, size = [], 0
    if group:
        yield group


def bytes_of(rows: pa.RecordBatch) -> int:
    """The size of rows in memory."""
    return int(rows.nbytes)


def _hide(target: Path) -> Path:
    return target.with_name(f".{target.name}.{token_hex(8)}")


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnavailableError(action=f"write '{target}'", reason=reason) from error


ID = pa.field("id", pa.string(), nullable=False)
ENDPOINTS = (
    pa.field("src", pa.string(), nullable=False),
    pa.field("dst", pa.string(), nullable=False),
)

TIMESTAMP = pa.timestamp("ms", tz="UTC")
"""The Arrow type of every `DateTime`, in rows and in results."""

_TYPE_BY_SCALAR: Mapping[Scalar, pa.DataType] = MappingProxyType(
    {
        Scalar.STRING: pa.string(),
        Scalar.BLOB: pa.large_binary(),
        Scalar.BOOL: pa.bool_(),
        Scalar.I32: pa.int32(),
        Scalar.I64: pa.int64(),
        Scalar.U32: pa.uint32(),
        Scalar.U64: pa.uint64(),
        Scalar.F32: pa.float32(),
        Scalar.F64: pa.float64(),
        Scalar.DATETIME: TIMESTAMP,
        Scalar.DATE: pa.date32(),
    }
)


def table_schema(declared: NodeType | EdgeType) -> pa.Schema:
    """The columns of a type's rows: the id, the endpoints of an edge, then properties by name."""
    endpoints = ENDPOINTS if isinstance(declared, EdgeType) else ()
    properties = [
        pa.field(name, arrow_type(each.type), nullable=each.type.is_nullable)
        for name, each in sorted(declared.properties.items())
    ]
    return pa.schema([ID, *endpoints, *properties])


def arrow_type(type: PropertyType) -> pa.DataType:
    """The Arrow type of a property's values; nullability is set on the field."""
    if isinstance(type.element, Vector):
        # Lance indexes vectors of this type, and list elements are always nullable.
        return pa.list_(_element(pa.float32()), type.element.dimension)
    scalar = _TYPE_BY_SCALAR[type.element]
    return pa.list_(_element(scalar)) if type.is_list else scalar


def _element(type: pa.DataType) -> pa.Field:
    return pa.field("item", type, nullable=True)


def require_property_size(byte_count: int) -> None:
    """Raise `LimitExceededError` if a property would have too many bytes."""
    if byte_count > PROPERTY_BYTES_MAX:
        raise LimitExceededError(
            resource="the bytes of a property", limit=PROPERTY_BYTES_MAX, found=byte_count
        )
