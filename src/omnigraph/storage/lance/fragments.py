"""Parts of tables for other processes: reads of fragments, and new files and deletions.

No version names the files that a worker writes until the coordinating process stages them. Files
can be written for a table branch that does not exist yet. Rows come in the order in which they
were written. Lance tables outside a graph are read at one version and never written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import lance
import numpy as np
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceFragment, LanceOperation
from lance.file import LanceFileReader
from lance.fragment import write_fragments
from lance.schema import LanceSchema

from omnigraph.model.errors import UnavailableError, UnreadableError
from omnigraph.model.limits import (
    ARROW_BATCH_ROWS_MAX,
    BLOB_BATCH_ROWS_MAX,
    FRAGMENT_ROWS_MAX,
    SCAN_BATCH_BYTES,
    SCAN_BUFFER_BYTES,
    STAGED_BYTES_MAX,
)
from omnigraph.storage.lance.errors import FOREIGN, Failure, classify, lance_errors
from omnigraph.storage.lance.predicates import render_predicate
from omnigraph.storage.lance.scan import (
    as_bytes,
    blobs_among,
    get_fragment,
    open_version,
    to_stored,
    to_stored_schema,
)
from omnigraph.storage.lance.stage import (
    Addresses,
    data_files,
    deletion_files,
    exchange_rows,
    make_staged,
)
from omnigraph.storage.lance.timestamps import read_batches
from omnigraph.storage.ports import (
    FragmentDeletions,
    NewFile,
    RewrittenPart,
    StagedKind,
    StagedWrite,
    TableBranchFolder,
    TablePart,
    TableVersion,
)
from omnigraph.storage.predicates import Predicate
from omnigraph.storage.row_files import bytes_of, group_by_size


def split_table(
    table: LanceDataset, *, folder: TableBranchFolder, rows_max: int
) -> tuple[TablePart, ...]:
    """A version split into parts of about `rows_max` rows; a fragment is never split."""
    parts: list[TablePart] = []
    for fragment in table.get_fragments():
        rows = fragment.metadata.num_rows
        number = fragment.fragment_id
        if parts and parts[-1].row_count + rows <= rows_max:
            last = parts[-1]
            parts[-1] = replace(
                last, fragments=(*last.fragments, number), row_count=last.row_count + rows
            )
        else:
            parts.append(TablePart(folder, table.version, (number,), rows))
    return tuple(parts)


def scan_part(
    part: TablePart, *, columns: Sequence[str], predicate: Predicate | None, with_address: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a part that match a predicate, in order; blobs are returned as bytes.

    With `with_address`, the last column is `_rowaddr`.
    """
    with lance_errors(table=part.folder.uri, action=f"read '{part.folder.uri}'"):
        table = open_version(part.folder, part.version)
        blobs = blobs_among(columns, table.schema)
        scanner = table.scanner(
            columns=list(columns),
            filter=render_predicate(predicate, table.schema),
            fragments=[get_fragment(table, number) for number in part.fragments],
            batch_size=BLOB_BATCH_ROWS_MAX if blobs else None,
            blob_handling="all_binary" if blobs else None,
            with_row_address=with_address,
            scan_in_order=True,
        )
        for batch in read_batches(scanner.to_batches()):
            if blobs:
                yield pa.record_batch(batch.columns, schema=as_bytes(batch.schema, blobs))
            else:
                yield batch


def write_files(folder: TableBranchFolder, rows: pa.Table) -> tuple[NewFile, ...]:
    """Write rows with the columns of their type into new files of a table branch."""
    with lance_errors(table=folder.uri, action=f"write files for '{folder.uri}'"):
        try:
            fragments = _write(folder, rows, mode="create" if folder.is_bare else "overwrite")
        except OSError:
            if not folder.is_bare:
                raise
            # Another process has created the table branch meanwhile.
            fragments = _write(folder, rows, mode="overwrite")
    return tuple(NewFile(json.dumps(each.to_json()), each.physical_rows) for each in fragments)


def scan_file(
    folder: TableBranchFolder, file: NewFile, *, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Some columns, other than blobs, of a new file that no version names."""
    # Such a file has timestamps, even if the table has `date64`.
    with lance_errors(table=folder.uri, action=f"read new files of '{folder.uri}'"):
        yield from _open_file(folder, file, columns).read_all().to_batches()


def take_rows(
    folder: TableBranchFolder, file: NewFile, offsets: Sequence[int], *, columns: Sequence[str]
) -> pa.Table:
    """The rows of such a file at the given offsets, which ascend."""
    with lance_errors(table=folder.uri, action=f"read new files of '{folder.uri}'"):
        return _open_file(folder, file, columns).take_rows(list(offsets)).to_table()


def write_deletions(part: TablePart, offsets: Sequence[int]) -> FragmentDeletions:
    """Write a deletion file that adds rows of the part's only fragment to those already deleted."""
    (number,) = part.fragments
    with lance_errors(table=part.folder.uri, action=f"write files for '{part.folder.uri}'"):
        fragment = get_fragment(open_version(part.folder, part.version), number)
        remaining = None
        if len(offsets) < fragment.metadata.num_rows:
            remaining = fragment.delete_rows(list(offsets))
            assert remaining is not None, "some rows are left"
    return FragmentDeletions(
        number, None if remaining is None else json.dumps(remaining.to_json()), len(offsets)
    )


Convert = Callable[[pa.Table], pa.Table]
"""Converts rows one to one into rows with the columns of their type."""


def replace_rows(
    part: TablePart, *, columns: Sequence[str], predicate: Predicate | None, convert: Convert
) -> RewrittenPart:
    """Write the converted rows that match a predicate, and delete the originals."""
    files: list[NewFile] = []
    addresses: list[Addresses] = []
    found = scan_part(part, columns=columns, predicate=predicate, with_address=True)
    for rows in _gather(found):
        addresses.append(rows["_rowaddr"].to_numpy())
        files += write_files(part.folder, convert(rows.select(list(columns))))
    deletions = _write_all_deletions(part, np.concatenate(addresses)) if addresses else ()
    return RewrittenPart(tuple(files), tuple(deletions))


def copy_rows(
    part: TablePart, *, into: TableBranchFolder, columns: Sequence[str], convert: Convert
) -> tuple[NewFile, ...]:
    """Write all rows converted, in their order."""
    found = scan_part(part, columns=columns, predicate=None, with_address=False)
    return tuple(file for rows in _gather(found) for file in write_files(into, convert(rows)))


def stage_files(
    table: LanceDataset,
    files: Sequence[NewFile],
    deletions: Sequence[FragmentDeletions],
    *,
    columns: pa.Schema,
    is_overwrite: bool,
    onto: TableVersion,
) -> StagedWrite:
    """Stage files that are added or replace all rows, and deletions.

    `columns` is the schema of the rows.
    """
    stored = to_stored_schema(columns)
    if is_overwrite:
        new = [FragmentMetadata.from_json(each.fragment) for each in files]
        operation: LanceOperation.BaseOperation = LanceOperation.Overwrite(stored, new)
        kind = StagedKind.OVERWRITE
    else:
        new = [_renumber(each, stored, table.lance_schema) for each in files]
        operation = LanceOperation.Append(new)
        kind = StagedKind.APPEND
    left = [FragmentMetadata.from_json(each.fragment) for each in deletions if each.fragment]
    if deletions:
        emptied = [each.number for each in deletions if each.fragment is None]
        operation = exchange_rows(new, updated=left, emptied=emptied)
        kind = StagedKind.MERGE
    return make_staged(
        operation,
        kind=kind,
        onto=onto,
        rows_added=sum(each.row_count for each in files),
        rows_removed=table.count_rows() if is_overwrite else sum(s.rows_removed for s in deletions),
        files=(*data_files(new), *deletion_files(left)),
    )


def file_paths(files: Sequence[NewFile]) -> tuple[str, ...]:
    """The paths of new files, below the folder of their table branch."""
    return data_files([FragmentMetadata.from_json(each.fragment) for each in files])


def _gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows gathered into tables of about the size to hold in memory."""
    filled = (batch for batch in batches if batch.num_rows)
    groups = group_by_size(filled, size_of=bytes_of, size_max=STAGED_BYTES_MAX)
    return map(pa.Table.from_batches, groups)


def _write_all_deletions(part: TablePart, addresses: Addresses) -> Iterator[FragmentDeletions]:
    # An address is a fragment id above 32 bits of offset.
    numbers = addresses >> np.uint64(32)
    for number in part.fragments:
        offsets = addresses[numbers == number] & np.uint64(0xFFFFFFFF)
        if len(offsets):
            yield write_deletions(replace(part, fragments=(number,)), np.sort(offsets).tolist())


def _write(folder: TableBranchFolder, rows: pa.Table, *, mode: str) -> list[FragmentMetadata]:
    # Both modes number the columns as if for a new table, so that no table has to be opened;
    # staging corrects the numbers. Timestamps may have another type than in the table, because
    # Lance reads a file by the types that a version declares.
    return write_fragments(
        to_stored(rows),
        folder.uri,
        mode=mode,
        max_rows_per_file=FRAGMENT_ROWS_MAX,
        data_storage_version="2.2",
        storage_options=_options(folder),
        allow_external_blob_outside_bases=True,
    )


def _open_file(folder: TableBranchFolder, file: NewFile, columns: Sequence[str]) -> LanceFileReader:
    (path,) = file_paths([file])
    return LanceFileReader(
        f"{folder.uri}/{path}", storage_options=_options(folder), columns=list(columns)
    )


def _options(folder: TableBranchFolder) -> dict[str, str] | None:
    return None if folder.storage_options is None else dict(folder.storage_options)


def _renumber(file: NewFile, columns: pa.Schema, wanted: LanceSchema) -> FragmentMetadata:
    """Lance's metadata of a file, with the field ids of the table."""
    own, theirs = LanceSchema.from_pyarrow(columns), wanted
    number_by_own = dict(_pair_fields(own.fields(), theirs.fields()))
    document = json.loads(file.fragment)
    for data_file in document["files"]:
        data_file["fields"] = [number_by_own[number] for number in data_file["fields"]]
    return FragmentMetadata.from_json(json.dumps(document))


class _Field(Protocol):
    """A field of a table with its id and nested fields."""

    def name(self) -> str: ...
    def id(self) -> int: ...
    def children(self) -> Sequence[_Field]: ...


def _pair_fields(own: Sequence[_Field], theirs: Sequence[_Field]) -> Iterator[tuple[int, int]]:
    by_name = {field.name(): field for field in theirs}
    for field in own:
        match = by_name[field.name()]
        yield field.id(), match.id()
        yield from _pair_fields(field.children(), match.children())


_BYTES_A_ROW = 64


def measure_lance(uri: str, storage_options: Mapping[str, str]) -> tuple[int, list[int]]:
    """The newest version of a table, and the approximate size of each fragment in bytes."""
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
    """The size of its files in bytes, estimated from its rows where Lance did not record it."""
    sizes = [each.file_size_bytes for each in fragment.data_files()]
    known = [size for size in sizes if size]
    return sum(known) if len(known) == len(sizes) else fragment.physical_rows * _BYTES_A_ROW
