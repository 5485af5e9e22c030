"""Staged writes: append, merge, overwrite, delete, and column changes.

Staging writes data and deletion files that no version names and changes nothing that a reader
sees. One scan finds all rows to replace or delete. A column change rewrites only metadata: it
keeps the type and the field id of a column and costs the same for any number of rows. Nothing here
commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.fragment import RowIdSequence, write_fragments
from lance.schema import LanceSchema
from numpy.typing import NDArray

from omnigraph.model.errors import CorruptError
from omnigraph.model.limits import FRAGMENT_ROWS_MAX, PROBED_VALUES_MAX
from omnigraph.storage.lance.branches import encode_varint
from omnigraph.storage.lance.id_lookup import RowAddressCache
from omnigraph.storage.lance.predicates import in_predicate
from omnigraph.storage.lance.scan import scan_ids, to_stored, to_stored_schema
from omnigraph.storage.lance.timestamps import as_stored, date64_columns, store_rows
from omnigraph.storage.ports import StagedKind, StagedWrite, TableVersion

Addresses = NDArray[np.uint64]

# An id in a predicate costs about as much as reading the ids of this many rows.
_ROWS_PER_PROBE = 32


def stage_append(table: LanceDataset, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
    """Stage rows to add; at least one row is required."""
    fragments = _write_rows(table, rows)
    assert fragments, "an append needs rows"
    staged = make_staged(
        LanceOperation.Append(fragments),
        kind=StagedKind.APPEND,
        onto=onto,
        rows_added=sum(each.physical_rows for each in fragments),
        files=data_files(fragments),
    )
    return _with_ids(staged, rows)


def stage_overwrite(table: LanceDataset, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
    """Stage rows, possibly none, that replace all rows."""
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
    places: RowAddressCache,
) -> StagedWrite:
    """Stage an upsert by id; ids must be distinct.

    Rows with the ids in `removing` are deleted. Replaced rows retain their row ids. Lance's own
    merge-insert stages the same, but takes twice as long for a few rows and rejects blobs that are
    references.
    """
    ids = rows["id"].combine_chunks()
    assert rows.num_rows, "a merge needs rows"
    assert ids.null_count == 0, "an id is missing"
    assert pc.count_distinct(ids).as_py() == len(ids), "an id is given twice"
    found = _locate(table, ids, onto, places)
    deleted = _locate(table, removing, onto, places)
    written = rows
    if not (found.num_rows or deleted.num_rows):
        fragments = _write_rows(table, rows)
        operation: LanceOperation.BaseOperation = LanceOperation.Append(fragments)
        files = data_files(fragments)
    else:
        _require_distinct(found["id"], onto)
        written = _found_first(rows, ids, found["id"].combine_chunks())
        fragments = _write_rows(table, written)
        _carry_row_ids(fragments, found["_rowid"])
        addresses = pa.chunked_array([*found["_rowaddr"].chunks, *deleted["_rowaddr"].chunks])
        updated, emptied = _write_deletions(table, addresses.to_numpy())
        operation = exchange_rows(fragments, updated=updated, emptied=emptied)
        files = (*data_files(fragments), *deletion_files(updated))
    staged = make_staged(
        operation,
        kind=StagedKind.MERGE,
        onto=onto,
        rows_added=rows.num_rows - found.num_rows,
        rows_removed=deleted.num_rows,
        files=files,
    )
    return _with_ids(staged, written)


def stage_delete(
    table: LanceDataset, ids: pa.Array, *, onto: TableVersion, places: RowAddressCache
) -> StagedWrite | None:
    """Stage the deletion of the rows with these ids; None if none exists."""
    addresses = _locate(table, ids, onto, places)["_rowaddr"].to_numpy()
    if not len(addresses):
        return None
    updated, emptied = _write_deletions(table, addresses)
    # Lance stores the predicate only for people to read, and a list of ids is not readable.
    shown = f"id IN ({len(addresses)} ids)"
    return make_staged(
        LanceOperation.Delete(updated, emptied, shown),
        kind=StagedKind.DELETE,
        onto=onto,
        rows_removed=len(addresses),
        files=deletion_files(updated),
    )


def stage_replacement(
    table: LanceDataset, rows: pa.Table, *, replacing: Sequence[str], onto: TableVersion
) -> StagedWrite:
    """Stage rows, and the deletion of the rows with the `object_id`s in `replacing`.

    This is the publisher's fence. Lance rejects a write that deletes rows of a fragment when
    another write has done so since, so only one of two writers that replace the same row succeeds.
    The row is searched from the newest fragment backwards, so the cost does not depend on the
    number of rows.
    """
    addresses = _find_newest(table, replacing, onto)
    updated, emptied = _write_deletions(table, addresses)
    fragments = _write_rows(table, rows)
    return make_staged(
        exchange_rows(fragments, updated=updated, emptied=emptied),
        kind=StagedKind.REPLACEMENT,
        onto=onto,
        rows_added=rows.num_rows,
        rows_removed=len(replacing),
        files=(*data_files(fragments), *deletion_files(updated)),
    )


def make_staged(
    operation: LanceOperation.BaseOperation,
    *,
    kind: StagedKind,
    onto: TableVersion,
    rows_added: int = 0,
    rows_removed: int = 0,
    files: Iterable[str] = (),
) -> StagedWrite:
    """A staged write with a new uuid; `files` are paths below the table or its branch."""
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
    """The data files of new fragments."""
    return tuple(f"data/{file.path}" for each in fragments for file in each.files)


def deletion_files(fragments: Iterable[FragmentMetadata]) -> tuple[str, ...]:
    """The deletion files of changed fragments."""
    return tuple(str(each.deletion_file.path(each.id)) for each in fragments if each.deletion_file)


def _write_rows(table: LanceDataset, rows: pa.Table) -> list[FragmentMetadata]:
    return write_fragments(
        to_stored(store_rows(rows, table.schema)),
        table,
        mode="append",
        max_rows_per_file=FRAGMENT_ROWS_MAX,
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )


def _locate(
    table: LanceDataset, ids: pa.Array, at: TableVersion, places: RowAddressCache
) -> pa.Table:
    """The given ids that exist, with the row id and the address of each."""
    if len(ids) <= PROBED_VALUES_MAX:
        return places.find(table, at.ref.path, ids, columns=["id"])
    if len(ids) * _ROWS_PER_PROBE <= table.count_rows():
        return scan_ids(table, ids, columns=["id"], fragments=None)
    every = table.scanner(columns=["id"], with_row_id=True, with_row_address=True).to_reader()
    # The set is hashed once for all batches, and only matching rows are held in memory.
    scanner = ds.Scanner.from_batches(every, filter=pc.field("id").isin(ids))
    return scanner.to_table()


def _find_newest(table: LanceDataset, ids: Sequence[str], onto: TableVersion) -> Addresses:
    """The addresses of the rows with some object ids; raises `CorruptError` if one is missing."""
    found: list[Addresses] = []
    wanted = in_predicate("object_id", pa.array(ids, pa.string()))
    for fragment in reversed(table.get_fragments()):
        rows = table.scanner(
            columns=[], filter=wanted, fragments=[fragment], with_row_address=True
        ).to_table()
        found.append(rows["_rowaddr"].to_numpy())
        if sum(map(len, found)) == len(ids):
            return np.concatenate(found)
    raise CorruptError(subject=f"'{onto.ref.path}'", problem=f"there is no row {', '.join(ids)}")


def _found_first(rows: pa.Table, ids: pa.Array, found: pa.Array) -> pa.Table:
    """The replacing rows in the order of the replaced ones, then the new rows in their order."""
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
        # Rows after the last carried id get new ones when the write is applied.
        fragment.row_id_meta = RowIdSequence(carried).to_inline_metadata()
        start += fragment.physical_rows


def _write_deletions(
    table: LanceDataset, addresses: Addresses
) -> tuple[list[FragmentMetadata], list[int]]:
    """The fragments without the rows at the addresses, and the ids of emptied fragments."""
    updated, emptied = [], []
    for fragment_id, offsets in _by_fragment(addresses):
        fragment = table.get_fragment(fragment_id)
        if fragment is None:
            raise CorruptError(
                subject=f"'{table.uri}'",
                problem=f"a row lies in fragment {fragment_id}, which the version does not have; "
                "nothing was written; restore it from a copy of the graph",
            )
        if len(offsets) == fragment.metadata.num_rows:
            emptied.append(fragment_id)
            continue
        remaining = fragment.delete_rows(offsets.tolist())
        assert remaining is not None
        updated.append(remaining)
    return updated, emptied


def _by_fragment(addresses: Addresses) -> Iterator[tuple[int, Addresses]]:
    # An address is a fragment id above 32 bits of offset.
    ordered = np.sort(addresses)
    fragments = ordered >> np.uint64(32)
    starts = np.flatnonzero(np.diff(fragments)) + 1
    for part in np.split(ordered, starts):
        yield int(part[0] >> np.uint64(32)), part & np.uint64(0xFFFFFFFF)


def exchange_rows(
    new: Sequence[FragmentMetadata], *, updated: Sequence[FragmentMetadata], emptied: Sequence[int]
) -> LanceOperation.Update:
    """The operation that adds new fragments, and deletes rows or all rows of others."""
    fields = {field for each in new for file in each.files for field in file.fields}
    return LanceOperation.Update(
        removed_fragment_ids=list(emptied),
        updated_fragments=list(updated),
        new_fragments=list(new),
        # Every field is listed as rewritten, so that no index claims to cover the new files.
        fields_for_preserving_frag_bitmap=sorted(fields),
        update_mode="rewrite_rows",
    )


_NO_PARENT = -1

# The protobuf tags of the parts of Lance's field record that are set here.
_NAME, _ID, _PARENT, _TYPE = b"\x12", b"\x18", b"\x20", b"\x2a"
_TIMESTAMP_RECORD = b"timestamp:ms:UTC"


@dataclass(frozen=True, slots=True)
class _Field:
    """A column or a nested field, and Lance's record of it."""

    id: int
    parent: int
    record: bytes


def stage_columns(
    table: LanceDataset, schema: pa.Schema, *, renames: Mapping[str, str], onto: TableVersion
) -> StagedWrite | None:
    """Stage a change to the columns of a schema, in its order; None if the table has them.

    A renamed column retains its values and its index, and a new column is null in all rows.
    """
    wanted = as_stored(to_stored_schema(schema), table.schema)
    old_by_new = _pair_columns(table.schema, wanted, renames)
    if list(old_by_new.items()) == [(name, name) for name in table.schema.names]:
        return None
    # Lance's own operation for new columns, `Merge`, rejects a name that another field id had. A
    # projection accepts any name, and a column that is in no file is null.
    operation = LanceOperation.Project(
        _rearrange(table, wanted, old_by_new), preserves_nullability=False
    )
    return make_staged(operation, kind=StagedKind.COLUMNS, onto=onto)


def stage_conversion(table: LanceDataset, *, onto: TableVersion) -> StagedWrite:
    """Stage the conversion of `date64` columns to timestamps.

    At least one such column must exist, and none may have an index. Lance reads a file by the types
    that a version declares, and the two types hold the same numbers, so no file is written.
    """
    converted = date64_columns(table.schema)
    assert converted, "there is nothing to convert"
    remake, metadata, _ = _take_apart(table.lance_schema)
    records: list[bytes] = []
    for name, fields in _fields_by_column(table.lance_schema).items():
        own = [field.record for field in fields]
        if name in converted:
            # For a list, this is the type of its elements, which is the last field.
            own[-1] += _TYPE + encode_varint(len(_TIMESTAMP_RECORD)) + _TIMESTAMP_RECORD
        records += own
    operation = LanceOperation.Project(remake(metadata, *records), preserves_nullability=False)
    return make_staged(operation, kind=StagedKind.COLUMNS, onto=onto)


def _pair_columns(
    stored: pa.Schema, wanted: pa.Schema, renames: Mapping[str, str]
) -> dict[str, str | None]:
    """The current name of each wanted column; None for new columns."""
    old_by_renamed = {new: old for old, new in renames.items()}
    assert len(old_by_renamed) == len(renames), "two columns are renamed to one"
    assert renames.keys() <= set(stored.names), "a column to rename is not there"
    assert old_by_renamed.keys() <= set(wanted.names), "a column is renamed to none of the schema"
    retained = {name: name for name in stored.names if name not in renames}
    old_by_new = {name: (retained | old_by_renamed).get(name) for name in wanted.names}
    for new, old in old_by_new.items():
        field = wanted.field(new)
        if old is None:
            assert field.nullable, f"column {new} is new, so its values are null"
        else:
            assert field.with_name(old).equals(stored.field(old)), f"column {old} changes its type"
    return old_by_new


def _rearrange(
    table: LanceDataset, wanted: pa.Schema, old_by_new: Mapping[str, str | None]
) -> LanceSchema:
    """The retained columns under their new names, and the new columns, in the wanted order."""
    stored = _fields_by_column(table.lance_schema)
    added = pa.schema([wanted.field(new) for new, old in old_by_new.items() if old is None])
    born = _fields_by_column(LanceSchema.from_pyarrow(added))
    # Above every field id of a column or file, so that the values of a dropped column cannot
    # reappear.
    first = table.max_field_id + 1
    records: list[bytes] = []
    for new, old in old_by_new.items():
        records += _number(born[new], first) if old is None else _rename(stored[old], new)
    remake, metadata, _ = _take_apart(table.lance_schema)
    return remake(metadata, *records)


def _fields_by_column(schema: LanceSchema) -> dict[str, list[_Field]]:
    """The fields of each column, starting with the column itself."""
    _, _, records = _take_apart(schema)
    waiting = [(field, _NO_PARENT) for field in reversed(schema.fields())]
    columns: list[list[_Field]] = []
    # Lance lists a field before its nested fields.
    for record in records:
        field, parent = waiting.pop()
        if parent == _NO_PARENT:
            columns.append([])
        columns[-1].append(_Field(field.id(), parent, record))
        waiting += [(child, field.id()) for child in reversed(field.children())]
    return {field.name(): fields for field, fields in zip(schema.fields(), columns, strict=True)}


def _number(fields: Iterable[_Field], first: int) -> Iterator[bytes]:
    """The records of a new column, with field ids that start at `first`."""
    for field in fields:
        parent = _NO_PARENT if field.parent == _NO_PARENT else first + field.parent
        yield field.record + _ID + encode_varint(first + field.id) + _PARENT + encode_varint(parent)


def _rename(fields: Sequence[_Field], name: str) -> Iterator[bytes]:
    """The records of a column under another name."""
    column, *inside = (field.record for field in fields)
    encoded = name.encode()
    yield column + _NAME + encode_varint(len(encoded)) + encoded
    yield from inside


def _take_apart(schema: LanceSchema) -> tuple[Callable[..., LanceSchema], str, list[bytes]]:
    # A schema with chosen field ids can be created only through the function that unpickles it. If
    # a record repeats a field, the last one takes effect, as in all protobuf.
    taken = schema.__reduce__()
    assert isinstance(taken, tuple), "a function and its arguments"
    remake, (metadata, *records) = taken
    return remake, metadata, records
