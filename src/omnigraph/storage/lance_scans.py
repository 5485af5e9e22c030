"""Reading rows of one version: projected, filtered, or only those in some places of it.

Blobs come as bytes. Rows come in the order in which they were written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from lance import LanceDataset, LanceFragment, LanceScanner

from omnigraph.model.limits import BLOB_BATCH_ROWS_MAX, PROBED_VALUES_MAX
from omnigraph.storage.lance_blobs import as_bytes, blobs_among


def scan(table: LanceDataset, *, columns: Sequence[str], predicate: str | None) -> pa.Table:
    """The rows that a predicate holds for."""
    blobs = blobs_among(columns, table.schema)
    found = _scanner(
        table, columns=columns, predicate=predicate, fragments=None, blobs=blobs
    ).to_table()
    return pa.table(found.columns, schema=as_bytes(found.schema, blobs)) if blobs else found


def stored_bytes(table: LanceDataset, column: str) -> int:
    """The bytes of a column in files, and of everything inside of it."""
    waiting = [table.lance_schema.field(column)]
    wanted = set()
    while waiting:
        field = waiting.pop()
        assert field is not None, f"there is no column {column}"
        wanted.add(field.id())
        waiting += field.children()
    found = table.stats.data_stats().fields
    return sum(
        each.bytes_on_disk
        for each in found  # type: ignore[attr-defined]  # a list, whatever its type hint says
        if each.id in wanted
    )


def scan_new(table: LanceDataset, *, since: LanceDataset, columns: Sequence[str]) -> pa.Table:
    """The rows of fragments that an earlier version does not have."""
    known = {name_files(each) for each in since.get_fragments()}
    fragments = [each for each in table.get_fragments() if name_files(each) not in known]
    if not fragments:
        return pa.schema([table.schema.field(name) for name in columns]).empty_table()
    return _scanner(
        table,
        columns=columns,
        predicate=None,
        fragments=fragments,
        blobs=frozenset(),
    ).to_table()


def scan_fragments(
    table: LanceDataset, fragments: list[LanceFragment], *, columns: Sequence[str]
) -> pa.Table:
    """The rows of some fragments, at least one."""
    blobs = blobs_among(columns, table.schema)
    found = _scanner(
        table, columns=columns, predicate=None, fragments=fragments, blobs=blobs
    ).to_table()
    return pa.table(found.columns, schema=as_bytes(found.schema, blobs))


def scan_addresses(
    table: LanceDataset, addresses: npt.NDArray[np.uint64], *, columns: Sequence[str]
) -> pa.Table:
    """The rows at some addresses, at least one; all of them are there."""
    if len(addresses) <= PROBED_VALUES_MAX:
        # `take` with the numbers of rows is not used: where rows were deleted, Lance 14 counts
        # through the fragment for each.
        return scan(table, columns=columns, predicate=among_addresses(addresses))
    blobs = blobs_among(columns, table.schema)
    numbers = np.unique(addresses >> np.uint64(32)).tolist()
    every = table.scanner(
        columns=list(columns),
        fragments=[each for each in table.get_fragments() if each.fragment_id in numbers],
        batch_size=BLOB_BATCH_ROWS_MAX if blobs else None,
        blob_handling="all_binary" if blobs else None,
        with_row_address=True,
    ).to_reader()
    # Only what is wanted is held.
    wanted = pc.field("_rowaddr").isin(pa.array(addresses))
    found = ds.Scanner.from_batches(every, columns=list(columns), filter=wanted).to_table()
    return pa.table(found.columns, schema=as_bytes(found.schema, blobs))


def among_addresses(addresses: npt.NDArray[np.uint64]) -> str:
    """The predicate of being at one of some addresses, which Lance reads without a scan."""
    return f"_rowaddr in ({', '.join(map(str, addresses.tolist()))})"


def scan_placed(
    table: LanceDataset,
    *,
    columns: Sequence[str],
    predicate: str,
    fragments: list[LanceFragment] | None,
) -> pa.Table:
    """The rows that a predicate holds for, with `id`, `_rowid` and `_rowaddr`."""
    blobs = blobs_among(columns, table.schema)
    found = table.scanner(
        columns=list(dict.fromkeys(["id", *columns])),
        filter=predicate,
        fragments=fragments,
        batch_size=BLOB_BATCH_ROWS_MAX if blobs else None,
        blob_handling="all_binary" if blobs else None,
        with_row_id=True,
        with_row_address=True,
        scan_in_order=True,
    ).to_table()
    return pa.table(found.columns, schema=as_bytes(found.schema, blobs)) if blobs else found


def no_placed_rows(table: LanceDataset, *, columns: Sequence[str]) -> pa.Table:
    """What `scan_placed` returns where it finds nothing, without looking."""
    names = dict.fromkeys(["id", *columns])
    stored = pa.schema([table.schema.field(name) for name in names])
    schema = as_bytes(stored, blobs_among(columns, table.schema))
    for name in ("_rowid", "_rowaddr"):
        schema = schema.append(pa.field(name, pa.uint64()))
    return schema.empty_table()


def identify(fragment: LanceFragment) -> str:
    """What tells a fragment with its deleted rows from every other of its table and branches."""
    # A restore may give a fragment's number to other files. The representation names all of them,
    # in a tenth of the time that asking for their paths takes.
    return repr(fragment)


def name_files(fragment: LanceFragment) -> str:
    """The same, whatever rows were deleted: what tells its number and files from others."""
    return identify(fragment).partition("]")[0]


def _scanner(
    table: LanceDataset,
    *,
    columns: Sequence[str],
    predicate: str | None,
    fragments: list[LanceFragment] | None,
    blobs: frozenset[str],
) -> LanceScanner:
    return table.scanner(
        columns=list(columns),
        filter=predicate,
        fragments=fragments,
        batch_size=BLOB_BATCH_ROWS_MAX if blobs else None,
        blob_handling="all_binary" if blobs else None,
        scan_in_order=True,
        use_scalar_index=True,
    )
