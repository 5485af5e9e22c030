"""Lance tables outside of a graph, read as rows: one version of each, and nothing but reads.

Blobs come as bytes. Rows come in the order in which they were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import lance
import pyarrow as pa
from lance import LanceFragment

from omnigraph.model.errors import UnavailableError, UnreadableError
from omnigraph.model.limits import (
    ARROW_BATCH_ROWS_MAX,
    BLOB_BATCH_ROWS_MAX,
    SCAN_BATCH_BYTES,
    SCAN_BUFFER_BYTES,
)
from omnigraph.storage.lance_blobs import as_bytes, blobs_among
from omnigraph.storage.lance_errors import FOREIGN, Failure, classify

_BYTES_A_ROW = 64


def measure_lance(uri: str, storage_options: Mapping[str, str]) -> tuple[int, list[int]]:
    """The newest version of a table, and about how many bytes each of its fragments has."""
    with _reading(uri):
        table = lance.dataset(uri, storage_options=dict(storage_options))
        return table.version, [_size_of(each) for each in table.get_fragments()]


def read_lance(
    uri: str,
    storage_options: Mapping[str, str],
    *,
    version: int | None,
    start: int,
    end: int | None,
) -> Iterator[pa.RecordBatch]:
    """The rows of some fragments of a version, in at least one batch, which may be empty."""
    with _reading(uri):
        table = lance.dataset(uri, version=version, storage_options=dict(storage_options))
        fragments = table.get_fragments()[start:end]
        names = table.schema.names
        blobs = blobs_among(names, table.schema)
        schema = as_bytes(table.schema, blobs)
        is_empty = True
        if fragments:
            found = table.scanner(
                fragments=fragments,
                batch_size=BLOB_BATCH_ROWS_MAX if blobs else ARROW_BATCH_ROWS_MAX,
                batch_size_bytes=SCAN_BATCH_BYTES,
                io_buffer_size=SCAN_BUFFER_BYTES,
                blob_handling="all_binary",
                scan_in_order=True,
            )
            for batch in found.to_batches():
                is_empty = False
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema) if blobs else batch
        if is_empty:
            yield pa.RecordBatch.from_pylist([], schema=schema)


@contextmanager
def _reading(uri: str) -> Iterator[None]:
    try:
        yield
    except FOREIGN as error:
        failure = classify(error)
        if failure is Failure.REFUSED:
            raise UnavailableError(action=f"read {uri}", reason=str(error)) from error
        raise UnreadableError(path=uri, reason=str(failure)) from error


def _size_of(fragment: LanceFragment) -> int:
    """The bytes of its files; a guess by its rows where Lance did not write them down."""
    sizes = [each.file_size_bytes for each in fragment.data_files()]
    known = [size for size in sizes if size]
    return sum(known) if len(known) == len(sizes) else fragment.physical_rows * _BYTES_A_ROW
