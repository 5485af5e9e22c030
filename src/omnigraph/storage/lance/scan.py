"""Reads of one table version: filtered, by address, or in id order, with blobs as bytes.

Scans return rows in the order in which they were written. A read in id order uses bounded memory
and sorts without the blobs. A damaged index makes a read slower and does not make it fail. Blob
columns that a read does not select are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from lance import LanceDataset, LanceFragment, ScanStatistics, blob_field

from omnigraph.model.errors import UnavailableError
from omnigraph.model.limits import (
    BLOB_BATCH_ROWS_MAX,
    PROBED_VALUES_MAX,
    SCAN_BATCH_BYTES,
    SCAN_BUFFER_BYTES,
    SORTED_BYTES_MAX,
    STREAMED_ROWS,
)
from omnigraph.storage.external_sort import sort_by_id
from omnigraph.storage.lance.errors import FOREIGN, is_damage
from omnigraph.storage.lance.predicates import in_predicate
from omnigraph.storage.ports import (
    ReadAccess,
    ReadMeter,
    StorageRead,
    StoredBlob,
    TableBranchFolder,
)

_OFFSET_BITS = 32
_BYTES = pa.large_binary()
_BLOB = blob_field("blob").type


def to_stored_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as Lance stores them."""
    fields = [
        blob_field(field.name, nullable=field.nullable) if field.type == _BYTES else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def to_stored(rows: pa.Table) -> pa.Table:
    """The rows as Lance stores them."""
    schema = to_stored_schema(rows.schema)
    if schema.equals(rows.schema):
        return rows
    columns = [
        pa.chunked_array([_to_blobs(chunk) for chunk in column.chunks], field.type)
        if field.type == _BLOB and column.type == _BYTES
        else column
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def as_bytes(schema: pa.Schema, blobs: Collection[str]) -> pa.Schema:
    """The columns of a table, or of rows read from it, with blobs as bytes."""
    fields = [
        pa.field(field.name, _BYTES, nullable=field.nullable) if field.name in blobs else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def blobs_among(columns: Collection[str], schema: pa.Schema) -> frozenset[str]:
    """The given columns that hold blobs."""
    return frozenset(
        field.name for field in schema if field.type == _BLOB and field.name in columns
    )


def read_blob(
    table: LanceDataset, address: int, column: str, *, start: int, length: int | None
) -> StoredBlob:
    """A range of the blob at an address; nothing else of the blob is read."""
    (blob,) = table.take_blobs(column, addresses=[address], buffer_size=0)
    if blob is None:
        return StoredBlob(b"", None, "")
    with blob:
        size = blob.size()
        end = size if length is None else min(size, start + length)
        content = blob.read_range(start, end - start) if start < end else b""
    return StoredBlob(content, size, _name_place(table, address, column))


def _name_place(table: LanceDataset, address: int, column: str) -> str:
    """The file, the row in it and the field id, which together identify immutable bytes."""
    fragment = table.get_fragment(address >> _OFFSET_BITS)
    field = table.lance_schema.field(column)
    assert fragment is not None, "the row was found in it"
    assert field is not None, "the blob was read from it"
    # The field id is used because the column may be renamed while the file remains.
    files = [each.path for each in fragment.data_files() if field.id() in each.fields]
    return f"{files[0]}:{address % 2**_OFFSET_BITS}:{field.id()}"


def _to_blobs(values: pa.Array) -> pa.Array:
    absent = [pa.nulls(len(values), field.type) for field in list(_BLOB.storage_type)[1:]]
    stored = pa.StructArray.from_arrays(
        [values, *absent], fields=list(_BLOB.storage_type), mask=values.is_null()
    )
    return pa.ExtensionArray.from_storage(_BLOB, stored)


def scan(
    table: LanceDataset,
    *,
    columns: Sequence[str],
    predicate: str | None,
    fragments: list[LanceFragment] | None = None,
    is_placed: bool = False,
    meter: ReadMeter | None = None,
) -> pa.Table:
    """The rows that match a predicate, of all fragments or some; if placed, with their addresses.

    The addresses are in the columns `_rowid` and `_rowaddr`.
    """
    blobs = blobs_among(columns, table.schema)
    finished: list[ScanStatistics] = []

    def read(*, is_indexed: bool) -> pa.Table:
        return table.scanner(
            columns=list(columns),
            filter=predicate,
            fragments=fragments,
            batch_size=BLOB_BATCH_ROWS_MAX if blobs else None,
            blob_handling="all_binary" if blobs else None,
            with_row_id=is_placed,
            with_row_address=is_placed,
            scan_in_order=True,
            use_scalar_index=is_indexed,
            scan_stats_callback=None if meter is None else finished.append,
        ).to_table()

    try:
        found = read(is_indexed=predicate is not None)
    except FOREIGN as error:
        if predicate is None or not is_damage(error):
            raise
        # An index is damaged. If the rows are damaged too, the second read raises as well.
        found = read(is_indexed=False)
    _report(finished, meter)
    return pa.table(found.columns, schema=as_bytes(found.schema, blobs)) if blobs else found


def _report(finished: Iterable[ScanStatistics], meter: ReadMeter | None) -> None:
    # Lance calls back on a thread of its own, so the results are passed on afterwards.
    for each in finished:
        # An index search always compares; `indices_loaded` does not count cached indexes.
        access = ReadAccess.INDEX if each.index_comparisons else ReadAccess.SCAN
        if meter is not None:
            meter(StorageRead(access, each.bytes_read))


def scan_batches(
    table: LanceDataset,
    *,
    columns: Sequence[str],
    predicate: str | None,
    meter: ReadMeter | None,
) -> Iterator[pa.RecordBatch]:
    """The rows that match a predicate, in any order, a batch at a time."""
    finished: list[ScanStatistics] = []

    def read(*, is_indexed: bool) -> Iterator[pa.RecordBatch]:
        scanner = table.scanner(
            columns=list(columns),
            filter=predicate,
            batch_size=STREAMED_ROWS,
            scan_in_order=False,
            use_scalar_index=is_indexed,
            scan_stats_callback=None if meter is None else finished.append,
        )
        return iter(scanner.to_reader())

    batches = read(is_indexed=predicate is not None)
    try:
        first = next(batches, None)
    except FOREIGN as error:
        if predicate is None or not is_damage(error):
            raise
        # Lance reads an index before the first row. A second read without it raises only if the
        # rows are damaged too.
        batches = read(is_indexed=False)
        first = next(batches, None)
    if first is not None:
        yield first
        yield from batches
    _report(finished, meter)


def open_version(folder: TableBranchFolder, version: int) -> LanceDataset:
    """A version of a table branch, opened in a process that has no cache of open tables."""
    options = None if folder.storage_options is None else dict(folder.storage_options)
    return lance.dataset(folder.uri, version=version, storage_options=options)


def get_fragment(table: LanceDataset, number: int) -> LanceFragment:
    """A fragment that a plan names; raises `UnavailableError` if it is no longer there."""
    fragment = table.get_fragment(number)
    if fragment is None:
        reason = f"fragment {number} is not there any more; plan the job again"
        raise UnavailableError(action=f"read '{table.uri}'", reason=reason)
    return fragment


def stored_bytes(table: LanceDataset, column: str) -> int:
    """The stored size of a column in bytes, including nested fields."""
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
    return scan(table, columns=columns, predicate=None, fragments=fragments)


def scan_addresses(
    table: LanceDataset, addresses: npt.NDArray[np.uint64], *, columns: Sequence[str]
) -> pa.Table:
    """The rows at some addresses, at least one; all of them must exist."""
    if len(addresses) <= PROBED_VALUES_MAX:
        # `take` by row number is not used: where rows were deleted, Lance 14 counts through the
        # fragment for each row.
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
    # Only the matching rows are held in memory.
    wanted = pc.field("_rowaddr").isin(pa.array(addresses))
    found = ds.Scanner.from_batches(every, columns=list(columns), filter=wanted).to_table()
    return pa.table(found.columns, schema=as_bytes(found.schema, blobs))


def among_addresses(addresses: npt.NDArray[np.uint64]) -> str:
    """The predicate of rows at some addresses, which Lance evaluates without a scan."""
    return f"_rowaddr in ({', '.join(map(str, addresses.tolist()))})"


def scan_placed(
    table: LanceDataset,
    *,
    columns: Sequence[str],
    predicate: str,
    fragments: list[LanceFragment] | None,
    meter: ReadMeter | None = None,
) -> pa.Table:
    """The rows that match a predicate, with `id`, `_rowid` and `_rowaddr`."""
    return scan(
        table,
        columns=list(dict.fromkeys(["id", *columns])),
        predicate=predicate,
        fragments=fragments,
        is_placed=True,
        meter=meter,
    )


def scan_ids(
    table: LanceDataset,
    ids: pa.Array,
    *,
    columns: Sequence[str],
    fragments: list[LanceFragment] | None,
) -> pa.Table:
    """The rows with the given ids, in the form that `scan_placed` returns."""
    predicate = in_predicate("id", ids)
    rows = scan_placed(table, columns=columns, predicate=predicate, fragments=fragments)
    if _are_of(rows["id"], ids):
        return rows
    # Lance does not check index results against the rows: this index returned other rows.
    every = table.scanner(
        columns=["id"], filter=predicate, with_row_address=True, use_scalar_index=False
    ).to_table()
    if not every.num_rows:
        return no_placed_rows(table, columns=columns)
    return scan_placed(
        table,
        columns=columns,
        predicate=among_addresses(every["_rowaddr"].to_numpy()),
        fragments=fragments,
    )


def _are_of(found: pa.ChunkedArray, ids: pa.Array) -> bool:
    """Whether all found ids are among the given ones, each at most once."""
    if not len(found):
        return True
    is_requested = pc.all(pc.is_in(found, value_set=ids)).as_py()
    return bool(is_requested) and pc.count_distinct(found).as_py() == len(found)


def no_placed_rows(table: LanceDataset, *, columns: Sequence[str]) -> pa.Table:
    """The empty result of `scan_placed`, without a scan."""
    names = dict.fromkeys(["id", *columns])
    stored = pa.schema([table.schema.field(name) for name in names])
    schema = as_bytes(stored, blobs_among(columns, table.schema))
    for name in ("_rowid", "_rowaddr"):
        schema = schema.append(pa.field(name, pa.uint64()))
    return schema.empty_table()


def identify(fragment: LanceFragment) -> str:
    """A name that identifies a fragment and its deletions among all branches of its table."""
    # A restore may reuse a fragment id for other files. The representation contains all file names,
    # in a tenth of the time that reading their paths takes.
    return repr(fragment)


def name_files(fragment: LanceFragment) -> str:
    """A name that identifies a fragment and its files, regardless of deletions."""
    return identify(fragment).partition("]")[0]


def scan_by_id(table: LanceDataset, *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows in id order."""
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
    """The rows in stored order; blobs are replaced by their sizes, and rows have addresses."""
    found = table.scanner(
        columns=columns,
        batch_size_bytes=SCAN_BATCH_BYTES,
        io_buffer_size=SCAN_BUFFER_BYTES,
        # Every file that is read ahead is partly held in memory and may have a million rows.
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
        addresses = rows["_rowaddr"].to_pylist()
        filled = [
            _read_column(table, name, addresses) if name in blobs else rows[name]
            for name in columns
        ]
        yield pa.record_batch(filled, schema=schema)


def _share_out(batch: pa.RecordBatch, blobs: frozenset[str]) -> Iterator[tuple[int, int]]:
    """The row ranges into which to split a batch so that the blobs of each fit about one batch."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for name in blobs:
        sizes += pc.fill_null(batch[name], 0).to_numpy().astype(np.int64)
    shares = np.cumsum(sizes) // SCAN_BATCH_BYTES
    cuts = np.flatnonzero(np.diff(shares)) + 1
    return pairwise([0, *cuts.tolist(), batch.num_rows])


def _read_column(table: LanceDataset, name: str, addresses: list[int]) -> pa.Array:
    found = table.read_blobs(name, addresses=addresses, preserve_order=True)
    return pa.array([content for _, content in found], pa.large_binary())
