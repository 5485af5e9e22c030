"""Staged changes of columns: what a version says of its files is written anew, the files are not.

Lance knows a column by a number that its files repeat, so a rename keeps the number, a drop leaves
it out and a new column gets one that no file has. Costs the same however many rows there are. Does
not know why columns change, nor converts values: a column keeps its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.schema import LanceSchema

from omnigraph.storage.lance_blobs import to_stored_schema
from omnigraph.storage.lance_staging import make_staged
from omnigraph.storage.ports import StagedKind, StagedWrite, TableVersion

_NO_PARENT = -1

# The parts of Lance's record of a field that are set here, as protobuf introduces them.
_NAME, _ID, _PARENT = b"\x12", b"\x18", b"\x20"


@dataclass(frozen=True, slots=True)
class _Field:
    """A column or a part of one, and Lance's record of it."""

    id: int
    parent: int
    record: bytes


def stage_columns(
    table: LanceDataset, schema: pa.Schema, *, renames: Mapping[str, str], onto: TableVersion
) -> StagedWrite | None:
    """Give a table the columns of a schema, in its order; None if it has them.

    A renamed column keeps its values and its index, and a new one is null everywhere.
    """
    wanted = to_stored_schema(schema)
    old_by_new = _pair_columns(table.schema, wanted, renames)
    if list(old_by_new.items()) == [(name, name) for name in table.schema.names]:
        return None
    # Lance's own way to new columns, `Merge`, refuses a name that another number had. A projection
    # takes any, and what no file has is null.
    operation = LanceOperation.Project(
        _rearrange(table, wanted, old_by_new), preserves_nullability=False
    )
    return make_staged(
        operation, kind=StagedKind.COLUMNS, onto=onto, rows_added=0, rows_removed=0, files=()
    )


def _pair_columns(
    stored: pa.Schema, wanted: pa.Schema, renames: Mapping[str, str]
) -> dict[str, str | None]:
    """Which column each wanted one was so far; None for those that are new."""
    old_by_renamed = {new: old for old, new in renames.items()}
    assert len(old_by_renamed) == len(renames), "two columns are renamed to one"
    assert renames.keys() <= set(stored.names), "a column to rename is not there"
    assert old_by_renamed.keys() <= set(wanted.names), "a column is renamed to none of the schema"
    kept = {name: name for name in stored.names if name not in renames}
    old_by_new = {name: (kept | old_by_renamed).get(name) for name in wanted.names}
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
    """The columns that are kept, under their new names, and new ones, in the wanted order."""
    stored = _fields_by_column(table.lance_schema)
    added = pa.schema([wanted.field(new) for new, old in old_by_new.items() if old is None])
    born = _fields_by_column(LanceSchema.from_pyarrow(added))
    # Above what any column or file has, so that the bytes of a dropped column cannot come back.
    first = table.max_field_id + 1
    records: list[bytes] = []
    for new, old in old_by_new.items():
        records += _number(born[new], first) if old is None else _rename(stored[old], new)
    remake, metadata, _ = _take_apart(table.lance_schema)
    return remake(metadata, *records)


def _fields_by_column(schema: LanceSchema) -> dict[str, list[_Field]]:
    """The fields of each column, the column itself first."""
    _, _, records = _take_apart(schema)
    waiting = [(field, _NO_PARENT) for field in reversed(schema.fields())]
    columns: list[list[_Field]] = []
    # Lance records a field before what is inside of it.
    for record in records:
        field, parent = waiting.pop()
        if parent == _NO_PARENT:
            columns.append([])
        columns[-1].append(_Field(field.id(), parent, record))
        waiting += [(child, field.id()) for child in reversed(field.children())]
    return {field.name(): fields for field, fields in zip(schema.fields(), columns, strict=True)}


def _number(fields: Iterable[_Field], first: int) -> Iterator[bytes]:
    """The records of a new column under numbers from the first free one on."""
    for field in fields:
        parent = _NO_PARENT if field.parent == _NO_PARENT else first + field.parent
        yield field.record + _ID + _encode(first + field.id) + _PARENT + _encode(parent)


def _rename(fields: Sequence[_Field], name: str) -> Iterator[bytes]:
    """The records of a column under another name."""
    column, *inside = (field.record for field in fields)
    encoded = name.encode()
    yield column + _NAME + _encode(len(encoded)) + encoded
    yield from inside


def _encode(number: int) -> bytes:
    """A number as protobuf writes it: seven bits a byte, a negative one as if of 64 bits."""
    rest = number % 2**64
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def _take_apart(schema: LanceSchema) -> tuple[Callable[..., LanceSchema], str, list[bytes]]:
    # A schema with numbers of our choice can be had in no other way than the one by which copies
    # are made of it. Of a part that a record repeats the last one counts, as in all protobuf.
    taken = schema.__reduce__()
    assert isinstance(taken, tuple), "a function and its arguments"
    remake, (metadata, *records) = taken
    return remake, metadata, records
