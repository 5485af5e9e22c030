"""Tables worked on by many processes: parts are read, files and deletions written, none committed.

What a process writes here is named by nobody until the one process that runs the write hands it to
a staged write. Files may be written for a line that does not exist yet: they lie where it will be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import lance
import numpy as np
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceFragment, LanceOperation
from lance.file import LanceFileReader
from lance.fragment import write_fragments
from lance.schema import LanceSchema

from omnigraph.model.errors import UnavailableError
from omnigraph.model.limits import BLOB_BATCH_ROWS_MAX, FRAGMENT_ROWS_MAX, STAGED_BYTES_MAX
from omnigraph.storage.lance_blobs import (
    as_bytes,
    blobs_among,
    to_stored,
    to_stored_schema,
)
from omnigraph.storage.lance_errors import lance_errors
from omnigraph.storage.lance_staging import (
    Addresses,
    data_files,
    deletion_files,
    fields_of,
    make_staged,
)
from omnigraph.storage.ports import StagedKind, StagedWrite, TableVersion
from omnigraph.storage.table_parts import (
    LineFolder,
    NewFile,
    RewrittenPart,
    StruckFragment,
    TablePart,
)


def split_table(table: LanceDataset, *, folder: LineFolder, rows_max: int) -> tuple[TablePart, ...]:
    """A version in parts of about so many rows; a fragment is in one part."""
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
    part: TablePart, *, columns: Sequence[str], predicate: str | None, with_address: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a part that a predicate holds for, in order, blobs as bytes.

    With their addresses there is a column `_rowaddr` behind the others.
    """
    with lance_errors(table=part.folder.uri, action=f"read '{part.folder.uri}'"):
        table = _open(part)
        blobs = blobs_among(columns, table.schema)
        scanner = table.scanner(
            columns=list(columns),
            filter=predicate,
            fragments=[_fragment(table, number) for number in part.fragments],
            batch_size=BLOB_BATCH_ROWS_MAX if blobs else None,
            blob_handling="all_binary" if blobs else None,
            with_row_address=with_address,
            scan_in_order=True,
        )
        for batch in scanner.to_batches():
            if blobs:
                yield pa.record_batch(batch.columns, schema=as_bytes(batch.schema, blobs))
            else:
                yield batch


def write_files(folder: LineFolder, rows: pa.Table) -> tuple[NewFile, ...]:
    """Write rows with the columns of their type into new files of a line."""
    with lance_errors(table=folder.uri, action=f"write files for '{folder.uri}'"):
        try:
            fragments = _write(folder, rows, mode="create" if folder.is_bare else "overwrite")
        except OSError:
            if not folder.is_bare:
                raise
            # Somebody else has made the line meanwhile.
            fragments = _write(folder, rows, mode="overwrite")
    return tuple(NewFile(json.dumps(each.to_json()), each.physical_rows) for each in fragments)


def scan_file(
    folder: LineFolder, file: NewFile, *, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Some columns, not blobs, of a file that was written and that no version names."""
    with lance_errors(table=folder.uri, action=f"read new files of '{folder.uri}'"):
        yield from _open_file(folder, file, columns).read_all().to_batches()


def take_rows(
    folder: LineFolder, file: NewFile, offsets: Sequence[int], *, columns: Sequence[str]
) -> pa.Table:
    """The rows of such a file at some offsets, which ascend."""
    with lance_errors(table=folder.uri, action=f"read new files of '{folder.uri}'"):
        return _open_file(folder, file, columns).take_rows(list(offsets)).to_table()


def strike(part: TablePart, offsets: Sequence[int]) -> StruckFragment:
    """Write down that rows of the part's one fragment are gone, besides those that already are."""
    (number,) = part.fragments
    with lance_errors(table=part.folder.uri, action=f"write files for '{part.folder.uri}'"):
        fragment = _fragment(_open(part), number)
        remaining = None
        if len(offsets) < fragment.metadata.num_rows:
            remaining = fragment.delete_rows(list(offsets))
            assert remaining is not None, "some rows are left"
    return StruckFragment(
        number, None if remaining is None else json.dumps(remaining.to_json()), len(offsets)
    )


Convert = Callable[[pa.Table], pa.Table]
"""Makes of rows others of the same number, with the columns of their type."""


def replace_rows(
    part: TablePart, *, columns: Sequence[str], predicate: str | None, convert: Convert
) -> RewrittenPart:
    """Write what becomes of the rows that a predicate holds for, and strike these."""
    files: list[NewFile] = []
    addresses: list[Addresses] = []
    found = scan_part(part, columns=columns, predicate=predicate, with_address=True)
    for rows in _gather(found):
        addresses.append(rows["_rowaddr"].to_numpy())
        files += write_files(part.folder, convert(rows.select(list(columns))))
    struck = _strike_all(part, np.concatenate(addresses)) if addresses else ()
    return RewrittenPart(tuple(files), tuple(struck))


def copy_rows(
    part: TablePart, *, into: LineFolder, columns: Sequence[str], convert: Convert
) -> tuple[NewFile, ...]:
    """Write what becomes of all rows, in their order."""
    found = scan_part(part, columns=columns, predicate=None, with_address=False)
    return tuple(file for rows in _gather(found) for file in write_files(into, convert(rows)))


def stage_files(
    table: LanceDataset,
    files: Sequence[NewFile],
    struck: Sequence[StruckFragment],
    *,
    columns: pa.Schema,
    is_overwrite: bool,
    onto: TableVersion,
) -> StagedWrite:
    """Files of rows to add, or to have in place of all rows, while the struck rows go.

    `columns` are those of the rows.
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
    left = [FragmentMetadata.from_json(each.fragment) for each in struck if each.fragment]
    if struck:
        operation = LanceOperation.Update(
            removed_fragment_ids=[each.number for each in struck if each.fragment is None],
            updated_fragments=left,
            new_fragments=new,
            # Every field is rewritten, so that no index claims to know the new files.
            fields_for_preserving_frag_bitmap=fields_of(new),
            update_mode="rewrite_rows",
        )
        kind = StagedKind.MERGE
    return make_staged(
        operation,
        kind=kind,
        onto=onto,
        rows_added=sum(each.row_count for each in files),
        rows_removed=table.count_rows() if is_overwrite else sum(s.rows_removed for s in struck),
        files=(*data_files(new), *deletion_files(left)),
    )


def file_paths(files: Sequence[NewFile]) -> tuple[str, ...]:
    """Where new files are, below their line's folder."""
    return data_files([FragmentMetadata.from_json(each.fragment) for each in files])


def _gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows in tables as large as should be held."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            waiting_bytes += batch.nbytes
        if waiting_bytes >= STAGED_BYTES_MAX:
            yield pa.Table.from_batches(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _strike_all(part: TablePart, addresses: Addresses) -> Iterator[StruckFragment]:
    # An address is a fragment's id above 32 bits of offset.
    numbers = addresses >> np.uint64(32)
    for number in part.fragments:
        offsets = addresses[numbers == number] & np.uint64(0xFFFFFFFF)
        if len(offsets):
            yield strike(replace(part, fragments=(number,)), np.sort(offsets).tolist())


def _write(folder: LineFolder, rows: pa.Table, *, mode: str) -> list[FragmentMetadata]:
    # Both modes number the columns as if for a table that does not exist, so that none has to be
    # opened: the numbers are put right when the files are staged.
    return write_fragments(
        to_stored(rows),
        folder.uri,
        mode=mode,
        max_rows_per_file=FRAGMENT_ROWS_MAX,
        data_storage_version="2.2",
        storage_options=_options(folder),
        allow_external_blob_outside_bases=True,
    )


def _open(part: TablePart) -> LanceDataset:
    options = _options(part.folder)
    return lance.dataset(part.folder.uri, version=part.version, storage_options=options)


def _open_file(folder: LineFolder, file: NewFile, columns: Sequence[str]) -> LanceFileReader:
    (path,) = file_paths([file])
    return LanceFileReader(
        f"{folder.uri}/{path}", storage_options=_options(folder), columns=list(columns)
    )


def _fragment(table: LanceDataset, number: int) -> LanceFragment:
    fragment = table.get_fragment(number)
    if fragment is None:
        reason = f"fragment {number} is not there any more; plan the job again"
        raise UnavailableError(action=f"read '{table.uri}'", reason=reason)
    return fragment


def _options(folder: LineFolder) -> dict[str, str] | None:
    return None if folder.storage_options is None else dict(folder.storage_options)


def _renumber(file: NewFile, columns: pa.Schema, wanted: LanceSchema) -> FragmentMetadata:
    """What Lance has to be told of a file, with the table's numbers for its columns."""
    own, theirs = LanceSchema.from_pyarrow(columns), wanted
    number_by_own = dict(_pair_fields(own.fields(), theirs.fields()))
    document = json.loads(file.fragment)
    for data_file in document["files"]:
        data_file["fields"] = [number_by_own[number] for number in data_file["fields"]]
    return FragmentMetadata.from_json(json.dumps(document))


class _Field(Protocol):
    """A numbered field of a table, which may have others inside."""

    def name(self) -> str: ...
    def id(self) -> int: ...
    def children(self) -> Sequence[_Field]: ...


def _pair_fields(own: Sequence[_Field], theirs: Sequence[_Field]) -> Iterator[tuple[int, int]]:
    by_name = {field.name(): field for field in theirs}
    for field in own:
        match = by_name[field.name()]
        yield field.id(), match.id()
        yield from _pair_fields(field.children(), match.children())
