"""Staged writes of rows: files that nobody refers to, and the transaction that would name them.

Everything here writes data and deletion files next to those of a version and changes nothing that
anybody reads. Rows to replace or remove are found by one scan, however many fragments there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.fragment import RowIdSequence, write_fragments
from numpy.typing import NDArray

from omnigraph.model.errors import CorruptError
from omnigraph.model.limits import (
    FRAGMENT_ROWS_MAX,
    PROBED_VALUES_MAX,
)
from omnigraph.storage.lance_blobs import to_stored, to_stored_stream
from omnigraph.storage.lance_literals import render_in
from omnigraph.storage.lance_places import IdPlaces
from omnigraph.storage.lance_scans import scan_placed
from omnigraph.storage.ports import StagedKind, StagedWrite, TableVersion

Addresses = NDArray[np.uint64]

# An id in a predicate costs about as much as reading the ids of this many rows.
_ROWS_PER_PROBE = 32


def stage_append(
    table: LanceDataset, rows: pa.Table | pa.RecordBatchReader, *, onto: TableVersion
) -> StagedWrite:
    """Write rows to add; there must be some."""
    fragments = _write_rows(table, rows)
    assert fragments, "an append needs rows"
    staged = make_staged(
        LanceOperation.Append(fragments),
        kind=StagedKind.APPEND,
        onto=onto,
        rows_added=sum(each.physical_rows for each in fragments),
        rows_removed=0,
        files=data_files(fragments),
    )
    return _with_ids(staged, rows) if isinstance(rows, pa.Table) else staged


def stage_overwrite(table: LanceDataset, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
    """Write rows, perhaps none, to replace all there are."""
    transaction = write_fragments(
        to_stored(rows),
        table,
        mode="overwrite",
        return_transaction=True,
        max_rows_per_file=FRAGMENT_ROWS_MAX,
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )
    operation = transaction.operation
    assert isinstance(operation, LanceOperation.Overwrite)
    return make_staged(
        operation,
        kind=StagedKind.OVERWRITE,
        onto=onto,
        rows_added=rows.num_rows,
        rows_removed=table.count_rows(),
        files=data_files(operation.fragments),
    )


def stage_merge(
    table: LanceDataset,
    rows: pa.Table,
    *,
    removing: pa.Array,
    onto: TableVersion,
    places: IdPlaces,
) -> StagedWrite:
    """Write rows that replace those with the same id and are added otherwise; ids are distinct.

    Rows with the ids in `removing` go. Replaced rows keep their row ids. This is what Lance's own
    merge-insert stages, at half its time for a few rows, and it takes blobs that are references,
    which Lance's refuses.
    """
    ids = rows["id"].combine_chunks()
    assert rows.num_rows, "a merge needs rows"
    assert ids.null_count == 0, "an id is missing"
    assert pc.count_distinct(ids).as_py() == len(ids), "an id is given twice"
    found = _locate(table, ids, onto, places)
    gone = _locate(table, removing, onto, places)
    written = rows
    if not (found.num_rows or gone.num_rows):
        fragments = _write_rows(table, rows)
        operation: LanceOperation.BaseOperation = LanceOperation.Append(fragments)
        files = data_files(fragments)
    else:
        _require_distinct(found["id"], onto)
        written = _found_first(rows, ids, found["id"].combine_chunks())
        fragments = _write_rows(table, written)
        _carry_row_ids(fragments, found["_rowid"])
        addresses = pa.chunked_array([*found["_rowaddr"].chunks, *gone["_rowaddr"].chunks])
        struck, emptied = _strike(table, addresses.to_numpy())
        operation = LanceOperation.Update(
            removed_fragment_ids=emptied,
            updated_fragments=struck,
            new_fragments=fragments,
            # Every field is rewritten, so that no index claims to know the new files.
            fields_for_preserving_frag_bitmap=fields_of(fragments),
            update_mode="rewrite_rows",
        )
        files = (*data_files(fragments), *deletion_files(struck))
    staged = make_staged(
        operation,
        kind=StagedKind.MERGE,
        onto=onto,
        rows_added=rows.num_rows - found.num_rows,
        rows_removed=gone.num_rows,
        files=files,
    )
    return _with_ids(staged, written)


def stage_delete(
    table: LanceDataset, ids: pa.Array, *, onto: TableVersion, places: IdPlaces
) -> StagedWrite | None:
    """Mark the rows with these ids as removed; None if there is none of them."""
    addresses = _locate(table, ids, onto, places)["_rowaddr"].to_numpy()
    if not len(addresses):
        return None
    struck, emptied = _strike(table, addresses)
    # Lance only keeps the predicate for people to read, and a list of ids is not for them.
    shown = f"id IN ({len(addresses)} ids)"
    return make_staged(
        LanceOperation.Delete(struck, emptied, shown),
        kind=StagedKind.DELETE,
        onto=onto,
        rows_added=0,
        rows_removed=len(addresses),
        files=deletion_files(struck),
    )


def stage_replacement(
    table: LanceDataset, rows: pa.Table, *, replacing: Sequence[str], onto: TableVersion
) -> StagedWrite:
    """Write rows, those with the `object_id`s of others in place of these.

    This is the publisher's fence. Lance refuses a write that marks rows of a fragment when another
    one has done so since, so of two writers who replace the same row one lands. Looking for the
    row from the newest fragment backwards costs the same however many there are.
    """
    addresses = _find_newest(table, replacing, onto)
    struck, emptied = _strike(table, addresses)
    fragments = _write_rows(table, rows)
    return make_staged(
        LanceOperation.Update(
            removed_fragment_ids=emptied,
            updated_fragments=struck,
            new_fragments=fragments,
            fields_for_preserving_frag_bitmap=fields_of(fragments),
            update_mode="rewrite_rows",
        ),
        kind=StagedKind.REPLACEMENT,
        onto=onto,
        rows_added=rows.num_rows,
        rows_removed=len(replacing),
        files=(*data_files(fragments), *deletion_files(struck)),
    )


def make_staged(
    operation: LanceOperation.BaseOperation,
    *,
    kind: StagedKind,
    onto: TableVersion,
    rows_added: int,
    rows_removed: int,
    files: Iterable[str],
) -> StagedWrite:
    """A staged write under a new uuid; the files are given below the table or its branch."""
    prefix = "" if onto.ref.branch is None else f"tree/{onto.ref.branch}/"
    return StagedWrite(
        base=onto,
        kind=kind,
        transaction=Transaction(onto.version, operation, str(uuid4()), {}),
        rows_added=rows_added,
        rows_removed=rows_removed,
        files=tuple(prefix + file for file in files),
    )


def _with_ids(staged: StagedWrite, rows: pa.Table) -> StagedWrite:
    if rows.num_rows > PROBED_VALUES_MAX or "id" not in rows.schema.names:
        return staged
    return replace(staged, ids=rows["id"].combine_chunks())


def data_files(fragments: Iterable[FragmentMetadata]) -> tuple[str, ...]:
    """The files that hold the rows of new fragments."""
    return tuple(f"data/{file.path}" for each in fragments for file in each.files)


def deletion_files(fragments: Iterable[FragmentMetadata]) -> tuple[str, ...]:
    """The files that say which rows of changed fragments are gone."""
    return tuple(str(each.deletion_file.path(each.id)) for each in fragments if each.deletion_file)


def _write_rows(
    table: LanceDataset, rows: pa.Table | pa.RecordBatchReader
) -> list[FragmentMetadata]:
    is_stream = isinstance(rows, pa.RecordBatchReader)
    return write_fragments(
        to_stored_stream(rows) if is_stream else to_stored(rows),
        table,
        mode="append",
        max_rows_per_file=FRAGMENT_ROWS_MAX,
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )


def _locate(table: LanceDataset, ids: pa.Array, at: TableVersion, places: IdPlaces) -> pa.Table:
    """Which of the ids are there, with the row id and the address of each."""
    if len(ids) <= PROBED_VALUES_MAX:
        return places.find(table, at.ref.path, ids, columns=["id"])
    if len(ids) * _ROWS_PER_PROBE <= table.count_rows():
        return scan_placed(table, columns=["id"], predicate=render_in("id", ids), fragments=None)
    every = table.scanner(columns=["id"], with_row_id=True, with_row_address=True).to_reader()
    # The set is hashed once for all batches, and only what matches is held.
    scanner = ds.Scanner.from_batches(every, filter=pc.field("id").isin(ids))
    return scanner.to_table()


def _find_newest(table: LanceDataset, ids: Sequence[str], onto: TableVersion) -> Addresses:
    """Where the rows with some object ids are; all of them must be there."""
    found: list[Addresses] = []
    wanted = render_in("object_id", pa.array(ids, pa.string()))
    for fragment in reversed(table.get_fragments()):
        rows = table.scanner(
            columns=[], filter=wanted, fragments=[fragment], with_row_address=True
        ).to_table()
        found.append(rows["_rowaddr"].to_numpy())
        if sum(map(len, found)) == len(ids):
            return np.concatenate(found)
    raise CorruptError(subject=f"'{onto.ref.path}'", problem=f"there is no row {', '.join(ids)}")


def _found_first(rows: pa.Table, ids: pa.Array, found: pa.Array) -> pa.Table:
    """The rows that replace others, in the order of those, and then the new ones in their own."""
    position = pc.index_in(ids, value_set=found).fill_null(len(found)).to_numpy()
    return rows.take(np.argsort(position, kind="stable"))


def _require_distinct(ids: pa.ChunkedArray, onto: TableVersion) -> None:
    if pc.count_distinct(ids).as_py() != len(ids):
        raise CorruptError(subject=f"'{onto.ref.path}'", problem="an id is there more than once")


def _carry_row_ids(fragments: list[FragmentMetadata], row_ids: pa.ChunkedArray) -> None:
    start = 0
    for fragment in fragments:
        carried = row_ids.slice(start, fragment.physical_rows)
        if not len(carried):
            return
        # Rows behind the last carried id get new ones when the write is applied.
        fragment.row_id_meta = RowIdSequence(carried).to_inline_metadata()
        start += fragment.physical_rows


def _strike(table: LanceDataset, addresses: Addresses) -> tuple[list[FragmentMetadata], list[int]]:
    """The fragments without the rows at the addresses, and the ids of those without any left."""
    struck, emptied = [], []
    for fragment_id, offsets in _by_fragment(addresses):
        fragment = table.get_fragment(fragment_id)
        assert fragment is not None, "an address names a fragment of the version it came from"
        if len(offsets) == fragment.metadata.num_rows:
            emptied.append(fragment_id)
            continue
        remaining = fragment.delete_rows(offsets.tolist())
        assert remaining is not None
        struck.append(remaining)
    return struck, emptied


def _by_fragment(addresses: Addresses) -> Iterator[tuple[int, Addresses]]:
    # An address is a fragment's id above 32 bits of offset.
    ordered = np.sort(addresses)
    fragments = ordered >> np.uint64(32)
    starts = np.flatnonzero(np.diff(fragments)) + 1
    for part in np.split(ordered, starts):
        yield int(part[0] >> np.uint64(32)), part & np.uint64(0xFFFFFFFF)


def fields_of(fragments: Iterable[FragmentMetadata]) -> list[int]:
    """The numbers of the columns that new fragments hold."""
    return sorted({field for each in fragments for file in each.files for field in file.fields})
