"""Results and change sets as Arrow IPC streams, with metadata in the stream schema.

Encoding and decoding are exact inverses: a decoded result or change set has the types, rows and
commit of the original. Long tables are encoded batch by batch. Of HTTP only the media type is known
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import orjson
import pyarrow as pa

from omnigraph.engine.changes import ChangedRows, ChangeSet
from omnigraph.engine.results import Result, ResultColumn
from omnigraph.engine.rows.text_rows import encode_objects, write_texts
from omnigraph.http.responses import Target
from omnigraph.model.catalog import ANY_CARDINALITY, EdgeType, NodeType, Property, TypeKind
from omnigraph.model.limits import ARROW_PIECE_ROWS, JSON_PIECE_ROWS, PLAIN_ROWS_MAX
from omnigraph.model.types import PropertyType, Scalar, Vector

ARROW = b"application/vnd.apache.arrow.stream"

# The end-of-stream marker: a continuation marker and a length of zero.
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def accepts_arrow(accept: str | None) -> bool:
    """Whether an `Accept` header names Arrow; otherwise the response is JSON."""
    if accept is None:
        return False
    offered = (each.partition(";")[0].strip().lower() for each in accept.split(","))
    return ARROW.decode() in offered


def encode_batches(rows: pa.Table) -> Iterator[bytes]:
    """Encode a table as the messages of a stream, batch by batch."""
    for message in _write_messages(rows):
        yield message.to_pybytes()
    yield _END


def encode_table(rows: pa.Table) -> bytes:
    """Encode a table as one stream in memory."""
    # Joining Arrow's buffers directly saves a copy of every column.
    return b"".join([*_write_messages(rows), _END])


def _write_messages(rows: pa.Table) -> Iterator[pa.Buffer]:
    yield rows.schema.serialize()
    for batch in rows.to_batches(max_chunksize=ARROW_PIECE_ROWS):
        yield batch.serialize()


NOTE = b"omnigraph"
"""The metadata key of a stream schema under which the JSON object is stored."""


def with_metadata(rows: pa.Table, note: Mapping[str, object]) -> pa.Table:
    """The same rows with a JSON object in the metadata of their schema."""
    return rows.replace_schema_metadata({NOTE: orjson.dumps(note)})


def find_note(schema: pa.Schema) -> dict[str, object] | None:
    """The JSON object in the metadata of a schema, or None if there is none."""
    written = (schema.metadata or {}).get(NOTE)
    note = None if written is None else orjson.loads(written)
    return note if isinstance(note, dict) else None


def _get_note(schema: pa.Schema) -> dict[str, object]:
    note = find_note(schema)
    if note is None:
        raise ValueError("the stream has no note")
    return note


def noted_table(result: Result) -> pa.Table:
    """The rows of a result with the metadata that a client needs to rebuild it."""
    return with_metadata(
        result.to_arrow(),
        {
            "query_name": result.query_name,
            "branch": result.branch,
            "commit_id": result.commit_id,
            "columns": [
                {
                    "name": each.name,
                    "type": describe_type(each.type),
                    "is_aggregate": each.is_aggregate,
                }
                for each in result.result_columns
            ],
        },
    )


def decode_result(stream: pa.RecordBatchReader) -> Result | None:
    """Decode a result from the rows of `noted_table`; None if the stream has no metadata.

    Metadata of the wrong shape raises `KeyError`, `TypeError` or `ValueError`.
    """
    note = find_note(stream.schema)
    if note is None:
        return None
    columns = note["columns"]
    if not isinstance(columns, list):
        raise TypeError("expected a list")
    return Result(
        stream.read_all(),
        columns=[
            ResultColumn(each["name"], type_of(each["type"]), each["is_aggregate"])
            for each in columns
        ],
        query_name=str(note["query_name"]),
        branch=str(note["branch"]),
        commit_id=str(note["commit_id"]),
    )


def describe_type(type: PropertyType) -> dict[str, object]:
    """Encode a property type as JSON; absent flags are false."""
    encoded: dict[str, object] = {}
    match type.element:
        case Scalar() as scalar:
            encoded["element"] = scalar.value
        case Vector(dimension=dimension):
            encoded["vector"] = dimension
    if type.is_nullable:
        encoded["nullable"] = True
    if type.is_list:
        encoded["list"] = True
    if type.enum_values is not None:
        encoded["enum"] = list(type.enum_values)
    return encoded


def type_of(encoded: Mapping[str, object]) -> PropertyType:
    """Decode a property type; the exact inverse of `describe_type`."""
    vector, enum = encoded.get("vector"), encoded.get("enum")
    return PropertyType(
        element=Vector(vector) if isinstance(vector, int) else Scalar(str(encoded["element"])),
        is_nullable=encoded.get("nullable") is True,
        is_list=encoded.get("list") is True,
        enum_values=tuple(map(str, enum)) if isinstance(enum, Sequence) else None,
    )


def encode_change_set(found: ChangeSet, note: Mapping[str, object]) -> Iterator[bytes]:
    """Encode a change set as the messages of its streams; the first stream carries the metadata."""
    parts = found.parts
    encoded = {
        **note,
        "old_commit_id": found.old_commit_id,
        "new_commit_id": found.new_commit_id,
        "parts": len(parts),
    }
    yield from encode_batches(with_metadata(pa.table({}), encoded))
    for part in parts:
        before, after = _as_struct(part.before), _as_struct(part.after)
        columns = {"op": part.ops, "before": before, "after": after}
        yield from encode_batches(with_metadata(pa.table(columns), _describe(part.declared)))


def decode_change_set(
    first: pa.RecordBatchReader, open_next: Callable[[], pa.RecordBatchReader]
) -> tuple[ChangeSet, dict[str, object]]:
    """Decode a change set whose first stream is open, with its metadata.

    Raises `ValueError` if the stream is not the beginning of a change set.
    """
    note = _get_note(first.schema)
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
    note = _get_note(reader.schema)
    rows = reader.read_all().combine_chunks()
    return ChangedRows(
        _declared_of(note),
        ops=rows["op"].combine_chunks(),
        before=_as_rows(rows["before"]),
        after=_as_rows(rows["after"]),
    )


def _as_struct(rows: pa.Table) -> pa.Array:
    columns = [column.combine_chunks() for column in rows.columns]
    # Without a mask, a row version that does not exist is a row of nulls and stays one.
    fields = [pa.field(each.name, each.type) for each in rows.schema]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _as_rows(versions: pa.ChunkedArray) -> pa.Table:
    struct = versions.combine_chunks()
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
    """A type with only the parts that its rows need: name, kind and properties."""
    encoded = note["properties"]
    if not isinstance(encoded, list):
        raise TypeError("expected a list")
    properties = {
        each["name"]: Property(each["name"], type_of(each["type"]), (), None) for each in encoded
    }
    name = str(note["name"])
    if note["kind"] == TypeKind.EDGE:
        return EdgeType(name, "", "", ANY_CARDINALITY, properties, (), (), None)
    return NodeType(name, properties, (), (), (), None)


def describe_result(result: Result, target: Target) -> dict[str, object]:
    """The fields of a response body that precede its rows."""
    columns = {"columns": result.columns} if result.columns else {}
    return {
        "query_name": result.query_name,
        "target": target,
        "row_count": len(result),
        **columns,
        "commit_id": result.commit_id,
    }


def encode_result(result: Result, target: Target) -> bytes:
    """Encode a small result as one JSON body."""
    fields = describe_result(result, target)
    if len(result) <= PLAIN_ROWS_MAX:
        return orjson.dumps({**fields, "rows": result.rows})
    return b"".join(encode_pieces(result, target))


def encode_pieces(result: Result, target: Target) -> Iterator[bytes]:
    """Encode a result of any length as JSON, in pieces."""
    yield orjson.dumps(describe_result(result, target))[:-1] + b',"rows":['
    between = b""
    for objects in encode_in_pieces(result, encode_objects):
        yield between + objects
        between = b","
    yield b"]}"


def encode_in_pieces(result: Result, encode: Callable[[pa.Table], bytes]) -> Iterator[bytes]:
    """Encode each batch of rows with `encode`; yields nothing if there are no rows."""
    rows = result.to_arrow()
    for start in range(0, rows.num_rows, JSON_PIECE_ROWS):
        yield encode(rows.slice(start, JSON_PIECE_ROWS))


def list_cells(result: Result) -> list[list[str]]:
    """Each column as text for display."""
    return [column.to_pylist() for column in write_texts(result.to_arrow())]
