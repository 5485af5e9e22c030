"""Reading rows of one version: projected, filtered, sorted, or only those in new files.

Blobs come as bytes. Rows come in the order in which they were written unless a sort is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceDataset, LanceFragment, LanceScanner
from lance.dataset import ColumnOrdering

from omnigraph.model.limits import BLOB_BATCH_ROWS_MAX
from omnigraph.storage.lance_blobs import as_bytes, blobs_among


def scan(table: LanceDataset, *, columns: Sequence[str], predicate: str | None) -> pa.Table:
    """The rows that a predicate holds for."""
    blobs = blobs_among(columns, table.schema)
    found = _scanner(
        table, columns=columns, predicate=predicate, order_by=(), fragments=None, blobs=blobs
    ).to_table()
    return pa.table(found.columns, schema=as_bytes(found.schema, blobs)) if blobs else found


def take(
    table: LanceDataset, *, positions: npt.NDArray[np.int64], columns: Sequence[str]
) -> pa.Table:
    """The rows at places of a scan; Lance counts only rows that are not deleted, as a scan does."""
    return table.take(positions, columns=list(columns))


def scan_batches(
    table: LanceDataset, *, columns: Sequence[str], predicate: str | None, order_by: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The same a batch at a time, ascending by columns if any are named."""
    blobs = blobs_among(columns, table.schema)
    # Lance 14 sorts only by columns that it also returns.
    read = list(dict.fromkeys([*columns, *order_by]))
    found = _scanner(
        table, columns=read, predicate=predicate, order_by=order_by, fragments=None, blobs=blobs
    )
    for batch in found.to_batches():
        rows = batch.select(columns)
        yield pa.record_batch(rows.columns, schema=as_bytes(rows.schema, blobs)) if blobs else rows


def scan_new(table: LanceDataset, *, since: LanceDataset, columns: Sequence[str]) -> pa.Table:
    """The rows of fragments that an earlier version does not have."""
    known = {_identity(each) for each in since.get_fragments()}
    fragments = [each for each in table.get_fragments() if _identity(each) not in known]
    if not fragments:
        return pa.schema([table.schema.field(name) for name in columns]).empty_table()
    return _scanner(
        table,
        columns=columns,
        predicate=None,
        order_by=(),
        fragments=fragments,
        blobs=frozenset(),
    ).to_table()


def _scanner(
    table: LanceDataset,
    *,
    columns: Sequence[str],
    predicate: str | None,
    order_by: Sequence[str],
    fragments: list[LanceFragment] | None,
    blobs: frozenset[str],
) -> LanceScanner:
    return table.scanner(
        columns=list(columns),
        filter=predicate,
        fragments=fragments,
        order_by=[ColumnOrdering(name, nulls_first=False) for name in order_by] or None,
        batch_size=BLOB_BATCH_ROWS_MAX if blobs else None,
        blob_handling="all_binary" if blobs else None,
        scan_in_order=True,
        use_scalar_index=True,
    )


def _identity(fragment: LanceFragment) -> tuple[int, tuple[str, ...]]:
    # A restore may give a fragment's number to other files.
    return fragment.fragment_id, tuple(str(file.path) for file in fragment.data_files())
