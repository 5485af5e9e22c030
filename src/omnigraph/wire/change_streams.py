"""Change sets as Arrow streams that follow each other, and reading them back.

A change set is a stream without columns whose schema says how many types follow, then one stream a
type: `op`, and `before` and `after` as structs of the type's columns. What is read back is a
`ChangeSet` of typed rows, so that counting, paging and showing it is what it always is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from omnigraph.engine.changes import ChangedRows, ChangeSet
from omnigraph.model.catalog import ANY_CARDINALITY, EdgeType, NodeType, Property, TypeKind
from omnigraph.wire.arrow import encode_batches
from omnigraph.wire.columns import describe_type, find_note, type_of, with_note

OpenStream = Callable[[], pa.RecordBatchReader]
"""Opens the next stream of an answer."""


def encode_change_set(found: ChangeSet, note: Mapping[str, object]) -> Iterator[bytes]:
    """A change set as the messages of its streams; the first of them carries the note."""
    parts = found.parts
    told = {
        **note,
        "old_commit_id": found.old_commit_id,
        "new_commit_id": found.new_commit_id,
        "parts": len(parts),
    }
    yield from encode_batches(with_note(pa.table({}), told))
    for part in parts:
        columns = {
            "op": part.ops,
            "before": _as_struct(part.before),
            "after": _as_struct(part.after),
        }
        yield from encode_batches(with_note(pa.table(columns), _describe(part.declared)))


def decode_change_set(
    first: pa.RecordBatchReader, open_next: OpenStream
) -> tuple[ChangeSet, dict[str, object]]:
    """The change set whose first stream was opened, and the note that came with it.

    `ValueError` if this is no such stream.
    """
    note = find_note(first.schema)
    if note is None:
        raise ValueError("the stream has no note")
    first.read_all()
    parts = [_decode_part(open_next()) for _ in range(int(str(note["parts"])))]
    old = note["old_commit_id"]
    found = ChangeSet(
        parts,
        old_commit_id=None if old is None else str(old),
        new_commit_id=str(note["new_commit_id"]),
    )
    return found, note


def _decode_part(reader: pa.RecordBatchReader) -> ChangedRows:
    note = find_note(reader.schema)
    if note is None:
        raise ValueError("the stream has no note")
    rows = reader.read_all().combine_chunks()
    return ChangedRows(
        _declared_of(note),
        ops=rows["op"].combine_chunks(),
        before=_as_rows(rows["before"]),
        after=_as_rows(rows["after"]),
    )


def _as_struct(rows: pa.Table) -> pa.Array:
    columns = [column.combine_chunks() for column in rows.columns]
    # No mask: an image that is not there is a row of nulls, and stays one.
    fields = [pa.field(each.name, each.type) for each in rows.schema]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _as_rows(images: pa.ChunkedArray) -> pa.Table:
    struct = images.combine_chunks()
    fields = [struct.type.field(place) for place in range(struct.type.num_fields)]
    return pa.Table.from_arrays(struct.flatten(), schema=pa.schema(fields))


def _describe(declared: NodeType | EdgeType) -> dict[str, object]:
    return {
        "kind": declared.kind.value,
        "name": declared.name,
        "properties": [
            {"name": each.name, "type": describe_type(each.type)}
            for each in declared.properties.values()
        ],
    }


def _declared_of(note: Mapping[str, object]) -> NodeType | EdgeType:
    """A type as far as its rows show it: nothing else is asked of it here."""
    told = note["properties"]
    if not isinstance(told, list):
        raise TypeError("a list is needed")
    properties = {
        each["name"]: Property(each["name"], type_of(each["type"]), (), None) for each in told
    }
    name = str(note["name"])
    if note["kind"] == TypeKind.EDGE:
        return EdgeType(name, "", "", ANY_CARDINALITY, properties, (), (), None)
    return NodeType(name, properties, (), (), (), None)
