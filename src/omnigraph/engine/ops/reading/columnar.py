"""Files of rows in columns, as batches of Arrow: Parquet and Arrow's own.

Whatever is read gives at least one batch, which may be empty, so that a file without rows still
tells its columns. Memory is bounded by batches, not by files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import ipc, parquet

from omnigraph.model.limits import ARROW_BATCH_BYTES, ARROW_BATCH_ROWS_MAX
from omnigraph.storage.outside_files import OutsideFiles, is_remote, unreadable

_ARROW_FILE = b"ARROW1"


def measure_parquet(path: str, files: OutsideFiles) -> list[int]:
    """The bytes of each row group of a file."""
    with _reading(path), _open_parquet(path, files) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        return [
            sum(each.column(number).total_compressed_size for number in range(each.num_columns))
            for each in groups
        ]


def read_parquet(
    path: str, files: OutsideFiles, *, start: int, end: int | None
) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups of a file."""
    with _reading(path), _open_parquet(path, files) as file:
        groups = range(start, file.num_row_groups if end is None else end)
        is_empty = True
        for number in groups:
            group = file.metadata.row_group(number)
            row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
            row_count = max(1, min(ARROW_BATCH_ROWS_MAX, ARROW_BATCH_BYTES // row_bytes))
            for batch in file.iter_batches(batch_size=row_count, row_groups=[number]):
                is_empty = False
                yield batch
        if is_empty:
            yield _no_rows(file.schema_arrow)


def measure_arrow(path: str, files: OutsideFiles) -> int:
    """How many batches a file has; one if it has to be read from its start."""
    with _reading(path), _open(path, files) as file:
        if not _is_arrow_file(file):
            return 1
        with ipc.open_file(file) as reader:
            return int(reader.num_record_batches)


def read_arrow(
    path: str, files: OutsideFiles, *, start: int, end: int | None
) -> Iterator[pa.RecordBatch]:
    """The rows of some batches of a file, or of all of a stream in a file."""
    with _reading(path), _open(path, files) as file:
        is_file = _is_arrow_file(file)
        with ipc.open_file(file) if is_file else ipc.open_stream(file) as reader:
            is_empty = True
            if is_file:
                numbers = range(start, reader.num_record_batches if end is None else end)
                batches = map(reader.get_batch, numbers)
            else:
                batches = iter(reader)
            for batch in batches:
                is_empty = False
                yield batch
            if is_empty:
                yield _no_rows(reader.schema)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


@contextmanager
def _open(path: str, files: OutsideFiles) -> Iterator[pa.NativeFile]:
    with files.open(path) as file, pa.PythonFile(file, "r") as opened:
        yield opened


@contextmanager
def _open_parquet(path: str, files: OutsideFiles) -> Iterator[parquet.ParquetFile]:
    # Where each request takes its time, a few large ones are made ahead of need.
    is_slow = is_remote(path)
    with _open(path, files) as opened, parquet.ParquetFile(opened, pre_buffer=is_slow) as file:
        yield file


def _is_arrow_file(file: pa.NativeFile) -> bool:
    start = file.read(len(_ARROW_FILE))
    file.seek(0)
    return bool(start == _ARROW_FILE)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
