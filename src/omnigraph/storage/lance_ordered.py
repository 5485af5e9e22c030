"""All rows of a version by id, a batch at a time, in a bounded part of memory.

Lance 14 would hold every row to sort them, blobs included. Where rows already lie in the order of
their ids they are only read; elsewhere they are sorted without their blobs, which are read last, a
few at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from omnigraph.model.limits import SCAN_BATCH_BYTES, SCAN_BUFFER_BYTES, SORTED_BYTES_MAX
from omnigraph.storage.lance_blobs import as_bytes, blobs_among
from omnigraph.storage.sorting import sort_by_id

_ADDRESS = "_rowaddr"


def scan_by_id(table: LanceDataset, *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows in the order of their ids."""
    blobs = blobs_among(columns, table.schema)
    batches = _scan(table, list(dict.fromkeys([*columns, "id"])), blobs)
    if not _lies_in_order(table):
        batches = sort_by_id(batches, bytes_max=SORTED_BYTES_MAX, batch_bytes=SCAN_BATCH_BYTES)
    for batch in batches:
        if blobs:
            yield from _read_blobs(table, batch, columns, blobs)
        else:
            yield batch.select(columns)


def _lies_in_order(table: LanceDataset) -> bool:
    last = None
    for batch in _scan(table, ["id"], frozenset()):
        ids = batch["id"]
        if not len(ids):
            continue
        if last is not None and ids[0].as_py() < last:
            return False
        if not pc.all(pc.less(ids[:-1], ids[1:])).as_py():
            return False
        last = ids[-1].as_py()
    return True


def _scan(
    table: LanceDataset, columns: list[str], blobs: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """The rows as they lie; of a blob only its size, and where the row is."""
    found = table.scanner(
        columns=columns,
        batch_size_bytes=SCAN_BATCH_BYTES,
        io_buffer_size=SCAN_BUFFER_BYTES,
        # Each file that is read ahead is held in part, and may have a million rows.
        fragment_readahead=1,
        with_row_address=bool(blobs),
        blob_handling="all_descriptions" if blobs else None,
        scan_in_order=True,
    )
    for batch in found.to_batches():
        for name in blobs:
            place = batch.schema.get_field_index(name)
            sizes = pc.struct_field(batch.column(place), "size")
            batch = batch.set_column(place, name, sizes)  # noqa: PLW2901  # column by column
        yield batch


def _read_blobs(
    table: LanceDataset, batch: pa.RecordBatch, columns: Sequence[str], blobs: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    stored = pa.schema([table.schema.field(name) for name in columns])
    schema = as_bytes(stored, blobs)
    for start, end in _share_out(batch, blobs):
        rows = batch.slice(start, end - start)
        addresses = rows[_ADDRESS].to_pylist()
        filled = [
            _read_column(table, name, addresses) if name in blobs else rows[name]
            for name in columns
        ]
        yield pa.record_batch(filled, schema=schema)


def _share_out(batch: pa.RecordBatch, blobs: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where to cut rows so that the blobs of each part are about as large as a batch."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for name in blobs:
        sizes += pc.fill_null(batch[name], 0).to_numpy().astype(np.int64)
    shares = np.cumsum(sizes) // SCAN_BATCH_BYTES
    cuts = np.flatnonzero(np.diff(shares)) + 1
    return pairwise([0, *cuts.tolist(), batch.num_rows])


def _read_column(table: LanceDataset, name: str, addresses: list[int]) -> pa.Array:
    found = table.read_blobs(name, addresses=addresses, preserve_order=True)
    return pa.array([content for _, content in found], pa.large_binary())
