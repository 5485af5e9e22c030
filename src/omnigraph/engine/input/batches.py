"""Batches of input rows of one type: columns, ids from keys, blob references, and row origins.

Rows have the columns of the type's table, in order. Two nodes have the same id exactly when their
keys are equal as stored. An id that is neither given nor derived stays null until the rows are
gathered. The origin of a row is computed only when an error message needs it.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.input.coerce import CoercionError, invalid_value, refusal, require_none
from omnigraph.engine.rows.json_rows import escape
from omnigraph.engine.rows.values import BLOB_PREFIX
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import RequestError, show_text
from omnigraph.model.names import RESERVED_EDGE_PROPERTIES, RESERVED_PROPERTIES, find_near_name
from omnigraph.model.runtime import Runtime
from omnigraph.model.types import STRING, PropertyType, Scalar, Vector
from omnigraph.storage.external_files import ExternalBlobs, ExternalFiles
from omnigraph.storage.row_files import table_schema

Declared = NodeType | EdgeType


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The context of reading: the catalog, the resolver of blob references, and file access."""

    catalog: Catalog
    external: ExternalBlobs
    files: ExternalFiles


@dataclass(frozen=True, slots=True)
class InputLocation:
    """The location of a record: the file, empty if it has no name, and the record number from 1.

    `line` is None for input that has rows and no lines.
    """

    file: str
    record: int
    line: int | None

    def __str__(self) -> str:
        within = f"record {self.record} (line {self.line})"
        if self.line is None:
            within = f"row {self.record}"
        return f"{self.file}: {within}" if self.file else within


@dataclass(frozen=True, slots=True)
class RowError:
    """A record that was left out: its location, the error message, and the original record.

    `original` is the line of NDJSON or, for other formats, a line with the same values.
    """

    place: InputLocation
    message: str
    original: bytes


Report = Callable[[RowError], None]
"""Receives the row errors of reading, one at a time."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The records, or rows, and the completed lines of a part of a file."""

    records: int
    lines: int


NOTHING_YET = Counted(0, 0)
"""The counts at the start of a file."""


class RowCounter:
    """Counts the records and lines read from a file, starting from those before the first one."""

    def __init__(self, before: Counted) -> None:
        self.counted = before

    def add(self, *, records: int, lines: int) -> None:
        """Add to the counts."""
        self.counted = Counted(self.counted.records + records, self.counted.lines + lines)


def at_least_one(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches, or one without rows, so that an empty file still has columns."""
    is_empty = True
    for batch in batches:
        is_empty = False
        yield batch
    if is_empty:
        yield pa.RecordBatch.from_pylist([], schema=schema)


class Origin(Protocol):
    """The origin of the rows of a batch."""

    def locate(self, row: int) -> InputLocation:
        """The location of a row."""

    def original(self, row: int) -> bytes:
        """A row as a line of NDJSON that a load accepts, without the line end."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows of one type with the columns of its table; ids that are to be generated are null."""

    declared: Declared
    rows: pa.Table
    origin: Origin


def node_ids(declared: NodeType, columns: pa.Table) -> pa.Array:
    """The ids of rows, derived from the stored values of their keys.

    A key that is null, or a number that is not finite, raises `InvalidValueError`.
    """
    try:
        return derive_ids(declared, columns)
    except CoercionError as fault:
        expected = str(declared.properties[fault.column].type)
        subject = f"{declared.name}.{fault.column}"
        raise refusal(fault, subject=subject, expected=expected) from fault


def derive_ids(declared: NodeType, columns: pa.Table) -> pa.Array:
    """The ids of rows, as `node_ids`; raises `CoercionError` for a row with an invalid key."""
    parts = []
    for name in declared.key:
        try:
            parts.append(_write(columns[name].combine_chunks(), declared.properties[name].type))
        except CoercionError as fault:
            fault.column = name
            raise
    if len(parts) == 1:
        return parts[0]
    pieces = ['["', *(piece for part in parts for piece in (escape(part), '","'))]
    pieces[-1] = '"]'
    return pc.binary_join_element_wise(*pieces, "")


def _write(values: pa.Array, declared: PropertyType) -> pa.Array:
    if values.null_count:
        require_none(values.is_null(), values, lambda _: "missing @key property")
    match declared.element:
        case Scalar.STRING:
            return values
        case Scalar.F32 | Scalar.F64:
            is_other = pc.invert(pc.is_finite(values))
            require_none(is_other, values, lambda value: f"{value} cannot be a key")
            return _write_floats(values)
        case Scalar.DATE:
            return pc.cast(pc.cast(values, pa.int32()), pa.string())
        case Scalar.DATETIME:
            return pc.cast(pc.cast(values, pa.int64()), pa.string())
        case Scalar.BOOL | Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return pc.cast(values, pa.string())
        case Scalar.BLOB | Vector():
            raise AssertionError("a schema with such a key does not compile")


def _write_floats(values: pa.Array) -> pa.Array:
    """The shortest decimal that identifies each float, without an exponent or a zero fraction."""
    texts = pc.cast(values, pa.string())
    has_exponent = pc.match_substring(texts, "e")
    if pc.any(has_exponent).as_py():
        # Arrow writes only very large and very small floats with an exponent.
        written = [
            np.format_float_positional(value, unique=True, trim="-")
            for value in values.filter(has_exponent).to_numpy()
        ]
        texts = pc.replace_with_mask(texts, has_exponent, pa.array(written, pa.string()))
    return pc.if_else(pc.equal(values, 0), "0", texts)


ReadColumn = Callable[[str, PropertyType], pa.Array]
"""Reads the column of a name in the stored type of a property."""


def build_rows(declared: NodeType | EdgeType, read: ReadColumn) -> pa.Table:
    """The rows of a type; raises `CoercionError` with the row and column that cannot be stored."""
    schema = table_schema(declared)
    columns: dict[str, pa.Array] = {}
    for name in schema.names:
        try:
            columns[name] = read(name, type_of(declared, name))
        except CoercionError as fault:
            fault.column = name
            raise
    if isinstance(declared, NodeType) and declared.key:
        columns["id"] = _identify(declared, columns)
    return pa.Table.from_arrays(list(columns.values()), schema=schema)


def type_of(declared: NodeType | EdgeType, column: str) -> PropertyType:
    """The property type of a column of a type; ids and ends are strings."""
    found = declared.properties.get(column)
    return STRING if found is None else found.type


def refuse_row(declared: NodeType | EdgeType, fault: CoercionError, *, place: str) -> RequestError:
    """The error for a row that cannot be stored."""
    wanted = type_of(declared, fault.column)
    if fault.column in declared.properties and not wanted.is_nullable:
        fault.problem += "; a required property cannot be null or invalid"
    subject = f"{place}, {declared.name}.{fault.column}"
    return refusal(fault, subject=subject, expected=str(wanted))


def describe_unknown(declared: NodeType | EdgeType, name: str, *, ends: str) -> str:
    """The message for a name that is not a property; `ends` names the ends of an edge."""
    if isinstance(declared, EdgeType) and name in RESERVED_EDGE_PROPERTIES - RESERVED_PROPERTIES:
        return f"{declared.name} has no property {show_text(name)}; the ends of an edge are {ends}"
    if name in RESERVED_PROPERTIES:
        return f"{show_text(name)} is a built-in column and cannot be given"
    near = find_near_name(name, declared.properties)
    advice = "" if near is None else f"; did you mean '{near}'?"
    return f"{declared.name} has no property {show_text(name)}{advice}"


def _identify(declared: NodeType, columns: dict[str, pa.Array]) -> pa.Array:
    given = columns["id"]
    derived = derive_ids(declared, pa.table({name: columns[name] for name in declared.key}))
    row = pc.index(pc.not_equal(given, derived), True).as_py()
    if row >= 0:
        found, expected = given[row].as_py(), derived[row].as_py()
        problem = f"{show_text(found)} does not match {show_text(expected)}, which the key makes"
        other = invalid_value(row, found, problem)
        other.column = "id"
        raise other
    return derived


def inline_reference(text: str, external: ExternalBlobs) -> str:
    """The content of a blob as base64 text; raises `ValueError` if a reference cannot be read."""
    if text.startswith(BLOB_PREFIX):
        return text
    return f"{BLOB_PREFIX}{b64encode(external.read(text)).decode()}"


def inline_references(
    values: Sequence[object], wanted: PropertyType, external: ExternalBlobs
) -> Sequence[object]:
    """The JSON values of a property, with blob references replaced by the content.

    Raises `CoercionError` for a row whose reference cannot be followed.
    """
    if wanted.element is not Scalar.BLOB:
        return values
    given = list(values)
    for row, value in enumerate(given):
        if isinstance(value, str):
            try:
                given[row] = inline_reference(value, external)
            except ValueError as error:
                raise invalid_value(row, value, str(error)) from error
    return given


def inline_column(column: pa.Array, wanted: PropertyType, external: ExternalBlobs) -> pa.Array:
    """An Arrow column with blob references replaced, as `inline_references`."""
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if wanted.element is not Scalar.BLOB or not is_text:
        return column
    if pc.all(pc.starts_with(column.cast(pa.string()), BLOB_PREFIX)).as_py():
        return column
    return pa.array(inline_references(column.to_pylist(), wanted, external), pa.large_string())


@dataclass(frozen=True, slots=True)
class ReceivedRows:
    """The rows of one type as the caller gave them, including repeated ids.

    `rows` has the columns of the type's table. `has_given_id` is set if a row has an id, derived
    from its key or given explicitly; otherwise every id is new and cannot exist yet.
    """

    type: NodeType | EdgeType
    rows: pa.Table
    has_given_id: bool


def gather(pieces: Iterable[RowBatch], *, runtime: Runtime) -> dict[str, ReceivedRows]:
    """The rows of all batches by table key, in the order of keys; generates missing ids."""
    types: dict[str, NodeType | EdgeType] = {}
    rows_by_key: dict[str, list[pa.Table]] = defaultdict(list)
    for piece in pieces:
        # The batch itself is not retained, because it holds the text that its rows were read from.
        key = table_key_of(piece.declared)
        types[key] = piece.declared
        rows_by_key[key].append(piece.rows)
    return {key: _join(types[key], rows_by_key[key], runtime) for key in sorted(types)}


def _join(
    declared: NodeType | EdgeType, parts: Sequence[pa.Table], runtime: Runtime
) -> ReceivedRows:
    rows = pa.concat_tables(parts).combine_chunks()
    ids = rows["id"]
    has_given_id = ids.null_count < len(ids)
    if ids.null_count:
        made = pa.chunked_array([_fill(chunk, runtime) for chunk in ids.chunks], pa.string())
        rows = rows.set_column(0, rows.schema.field("id"), made)
    return ReceivedRows(type=declared, rows=rows, has_given_id=has_given_id)


def _fill(ids: pa.Array, runtime: Runtime) -> pa.Array:
    made = pa.array(runtime.new_ids(ids.null_count), pa.string())
    return made if ids.null_count == len(ids) else pc.replace_with_mask(ids, ids.is_null(), made)


class RowsDigest:
    """Computes a digest of the rows of a load, which identifies a retry with the same rows.

    Generated ids differ between retries and are not part of the digest.
    """

    def __init__(self) -> None:
        self._ids_by_key: dict[str, list[pa.ChunkedArray]] = defaultdict(list)

    def note(self, piece: RowBatch) -> None:
        """Record the ids of a batch before missing ones are generated."""
        self._ids_by_key[table_key_of(piece.declared)].append(piece.rows["id"])

    def digest(self, received: Mapping[str, ReceivedRows]) -> str:
        """The digest of all noted rows, after they have been gathered."""
        whole = hashlib.sha256()
        for key, each in received.items():
            parts = [chunk for part in self._ids_by_key[key] for chunk in part.chunks]
            ids = pa.chunked_array(parts, pa.string())
            whole.update(key.encode())
            whole.update(_digest_rows(each.rows.set_column(0, "id", ids)))
        return whole.hexdigest()


def _digest_rows(rows: pa.Table) -> bytes:
    # Columns without values are left out, so that a property added to the schema between retries
    # does not change the digest.
    given = [name for name in rows.schema.names if rows[name].null_count < rows.num_rows]
    sink = _HashingSink()
    with pa.PythonFile(sink, mode="w") as file:
        whole = rows.select(given).replace_schema_metadata(None).combine_chunks()
        with pa.ipc.new_stream(file, whole.schema) as stream:
            stream.write_table(whole)
    return sink.digest()


class _HashingSink:
    """A write-only file that computes a digest and stores nothing."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.closed = False

    def write(self, content: bytes) -> int:
        self._hash.update(content)
        return len(content)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def digest(self) -> bytes:
        return self._hash.digest()


def bisect_refused(
    count: int, attempt: Callable[[int, int], object]
) -> Iterator[tuple[int, RequestError]]:
    """The indexes of the rows that are invalid on their own, in order, each with its error.

    `attempt` reads the rows from one index up to another and raises `RequestError` if any of them
    is invalid. Failing ranges are bisected.
    """
    waiting = [(0, count)] if count else []
    while waiting:
        start, end = waiting.pop()
        try:
            attempt(start, end)
        except RequestError as refusal:
            if end - start == 1:
                yield start, refusal
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
