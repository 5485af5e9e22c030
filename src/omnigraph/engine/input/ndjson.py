"""The NDJSON reader: one node or edge per line, read strictly, a block of lines at a time.

An error identifies the record and the line; of several errors the reader raises the one in the
earliest record. Repeated members of an object are rejected. Blocks whose lines all have one type
take a fast path through Arrow, which gives the same rows or falls back to the strict reader.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import NoneType

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from omnigraph.engine.input.batches import (
    Counted,
    Declared,
    InputLocation,
    ReadContext,
    Report,
    RowBatch,
    RowCounter,
    RowError,
    bisect_refused,
    build_rows,
    describe_unknown,
    inline_column,
    inline_references,
    refuse_row,
)
from omnigraph.engine.input.coerce import CoercionError, coerce_column, name_kind, read_column
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, RequestError, show_text
from omnigraph.model.limits import LOAD_BLOCK_BYTES, LOAD_BLOCK_BYTES_MIN
from omnigraph.model.names import END_BY_ROLE, find_near_name
from omnigraph.model.types import FLOATS, PropertyType, Scalar
from omnigraph.storage.external_files import ExternalBlobs
from omnigraph.storage.row_files import ENDPOINTS, table_schema

Record = dict[str, object]

_NODE_FIELDS = frozenset({"type", "data"})
_EDGE_FIELDS = frozenset({"edge", "data", *END_BY_ROLE, *END_BY_ROLE.values()})


@dataclass(frozen=True, slots=True)
class RecordHeaders:
    """Well-formed records of one type, in order: their properties and, for edges, their ends.

    `member_count` is the number of members of all their objects together.
    """

    declared: NodeType | EdgeType
    properties: Sequence[Record]
    ends: Sequence[Sequence[object]]
    member_count: int


def group_records(records: Sequence[Record], catalog: Catalog) -> list[RecordHeaders] | None:
    """The records by type; None if some may be malformed, so that each must be checked."""
    if not set(map(type, records)) <= {dict}:
        return None
    names = [record.get("type") for record in records]
    if not set(map(type, names)) <= {str, NoneType}:
        return None
    opened: list[RecordHeaders | None] = []
    for name, group in _group(records, names):
        if name is None:
            opened += _open_edges(group, catalog)
        else:
            node = catalog.nodes.get(str(name))
            opened.append(_open_group(group, node, ends=()) if node else None)
    certain = [each for each in opened if each is not None]
    return certain if len(certain) == len(opened) else None


def find_problem(record: object, catalog: Catalog) -> str | None:
    """A description of what is wrong with a record, or None."""
    if not isinstance(record, dict):
        return f"expected 'type' or 'edge' in an object, not {name_kind(record)}"
    if "type" in record and "edge" in record:
        return "both 'type' and 'edge' are given; a record has one of them"
    if "type" in record:
        return _find_node_problem(record, catalog)
    if "edge" in record:
        return _find_edge_problem(record, catalog)
    return "expected 'type' or 'edge'"


def _group(
    records: Sequence[Record], names: Sequence[object]
) -> Iterable[tuple[object, Sequence[Record]]]:
    if len(set(names)) == 1:
        return [(names[0], records)]
    groups: dict[object, list[Record]] = defaultdict(list)
    for record, name in zip(records, names, strict=True):
        groups[name].append(record)
    return groups.items()


def _open_edges(records: Sequence[Record], catalog: Catalog) -> list[RecordHeaders | None]:
    spellings = [record.get("edge") for record in records]
    if set(map(type, spellings)) != {str}:
        return [None]
    edge_by_spelling = {each: catalog.find_edge(str(each)) for each in set(spellings)}
    names = [edge and edge.name for edge in map(edge_by_spelling.__getitem__, spellings)]
    opened: list[RecordHeaders | None] = []
    for name, group in _group(records, names):
        ends = [_find_ends(group, role, end) for role, end in END_BY_ROLE.items()]
        is_certain = name is not None and {*map(type, ends[0]), *map(type, ends[1])} == {str}
        opened.append(
            _open_group(group, catalog.edges[str(name)], ends=ends) if is_certain else None
        )
    return opened


def _find_ends(records: Sequence[Record], role: str, end: str) -> Sequence[object]:
    """One end of each record, under either of its two names; None where both are missing."""
    found = [each.get(role) for each in records]
    if None not in found:
        return found
    return [each.get(end) if one is None else one for one, each in zip(found, records, strict=True)]


def _open_group(
    records: Sequence[Record],
    declared: NodeType | EdgeType,
    *,
    ends: Sequence[Sequence[object]],
) -> RecordHeaders | None:
    given = [record.get("data") for record in records]
    kinds = set(map(type, given))
    absent_count = sum(each is None for each in given) if NoneType in kinds else 0
    # If there are more members than the known ones, some record has one that is not allowed.
    known_count = len(records) * (len(ends) + 2) - absent_count
    found_count = sum(map(len, records))
    if found_count != known_count or not kinds <= {dict, NoneType}:
        return None
    properties = [each if isinstance(each, dict) else {} for each in given]
    names = set[str]().union(*properties)
    if not names <= declared.properties.keys() | {"id"}:
        return None
    if "id" in names and any(each.get("id", "") is None for each in properties):
        return None
    return RecordHeaders(declared, properties, ends, found_count + sum(map(len, properties)))


def _find_node_problem(record: Record, catalog: Catalog) -> str | None:
    if unknown := [field for field in record if field not in _NODE_FIELDS]:
        return f"unknown field {show_text(unknown[0])}; a node has 'type' and 'data'"
    name = record["type"]
    if not isinstance(name, str):
        return f"'type' must be a string, not {name_kind(name)}"
    if name not in catalog.nodes:
        return f"unknown node type {show_text(name)}{_advise(name, catalog.nodes)}"
    return _find_property_problem(record, catalog.nodes[name])


def _find_edge_problem(record: Record, catalog: Catalog) -> str | None:
    if unknown := [field for field in record if field not in _EDGE_FIELDS]:
        return f"unknown field {show_text(unknown[0])}; an edge has 'edge', 'from', 'to' and 'data'"
    name = record["edge"]
    if not isinstance(name, str):
        return f"'edge' must be a string, not {name_kind(name)}"
    edge = catalog.find_edge(name)
    if edge is None:
        return f"unknown edge type {show_text(name)}{_advise(name, catalog.edges)}"
    for role, end in END_BY_ROLE.items():
        given = [name for name in (role, end) if name in record]
        if not given:
            return f"edge missing '{role}'"
        if len(given) > 1:
            return f"'{role}' and '{end}' name the same end; leave one of them out"
        if not isinstance(record[given[0]], str):
            return f"'{given[0]}' must be a string, not {name_kind(record[given[0]])}"
    return _find_property_problem(record, edge)


def _find_property_problem(record: Record, declared: NodeType | EdgeType) -> str | None:
    given = record.get("data", {})
    if not isinstance(given, dict):
        return f"'data' must be an object, not {name_kind(given)}"
    for name in given:
        if name != "id" and name not in declared.properties:
            return describe_unknown(declared, name, ends="'from' and 'to', beside 'data'")
    if given.get("id", "") is None:
        return "'id' must be a string, not null; leave it out to have one made"
    return None


def _advise(name: str, candidates: Iterable[str]) -> str:
    near = find_near_name(name, candidates)
    return "" if near is None else f"; did you mean '{near}'?"


_MAY_PRECEDE = np.isin(np.arange(256), list(b'" \t\r'))


class _RepeatedMemberError(Exception):
    """An object has two members of one name."""


def has_more_members(text: bytes, member_count: int) -> bool:
    """Whether JSON may hold more members than a parser returned; if False, none were dropped."""
    characters = np.frombuffer(text, np.uint8)
    before = characters[np.flatnonzero(characters == ord(":")) - 1]
    return int(np.count_nonzero(_MAY_PRECEDE[before])) != member_count


def find_repeated_member(line: bytes, record: Mapping[str, object]) -> str | None:
    """The name of a member that an object in a line of JSON repeats, or None."""
    properties = record.get("data")
    member_count = len(record) + (len(properties) if isinstance(properties, dict) else 0)
    if sum(map(line.count, (b'":', b" :", b"\t:", b"\r:"))) == member_count:
        return None
    try:
        json.loads(line.decode(), object_pairs_hook=_keep_distinct)
    except _RepeatedMemberError as error:
        return str(error)
    except RecursionError:
        # No property holds nested arrays, so coercion to its type rejects the value.
        return None
    return None


def _keep_distinct(members: list[tuple[str, object]]) -> dict[str, object]:
    retained = dict(members)
    if len(retained) != len(members):
        names = [name for name, _ in members]
        raise _RepeatedMemberError(next(name for name in retained if names.count(name) > 1))
    return retained


def read_uniform(text: bytes, context: ReadContext) -> tuple[Declared, pa.Table] | None:
    """The rows of a block of lines, one per line; None if the strict reader must read them."""
    # A block above its normal size holds a very large record, and reading few records at once
    # saves nothing.
    line_count = _count_plain(text) if len(text) <= 2 * LOAD_BLOCK_BYTES else 0
    if not line_count:
        return None
    first = _read_first(text, context.catalog)
    if first is None:
        return None
    declared, record = first
    schema = _schema_of(declared, record)
    try:
        table = arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="error"
            ),
        )
        columns = _open_columns(table, declared, schema, context.catalog)
        if table.num_rows != line_count or columns is None or _says_null(text, table, columns):
            return None
        return declared, build_rows(declared, partial(_read_column, columns, context))
    except (CoercionError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _count_plain(text: bytes) -> int:
    """The number of lines if each starts and ends with a brace, else 0; also 0 if not UTF-8.

    A line end between a closing and an opening brace is never inside an object. So if there are as
    many objects as lines, each line holds one.
    """
    if not (text.startswith(b"{") and text.endswith((b"}\n", b"}", b"}\r\n"))):
        return 0
    line_count = text.count(b"\n") + (not text.endswith(b"\n"))
    seam_count = text.count(b"}\n{")
    if seam_count != line_count - 1:
        seam_count += text.count(b"}\r\n{")
    is_text = text.isascii() or _is_utf8(text)
    return line_count if seam_count == line_count - 1 and is_text else 0


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read_first(text: bytes, catalog: Catalog) -> tuple[Declared, dict[str, object]] | None:
    """The type of the first record, and the record; None if the record is invalid."""
    try:
        record = orjson.loads(text[: text.find(b"\n") + 1] or text)
    except orjson.JSONDecodeError:
        return None
    if find_problem(record, catalog) is not None:
        return None
    declared = catalog.nodes.get(record.get("type")) or catalog.find_edge(record["edge"])
    assert declared is not None, "it was found to have no problem"
    return declared, record


def _schema_of(declared: Declared, first: Mapping[str, object]) -> pa.Schema:
    """The Arrow types of the members of records: those of JSON, without conversions."""
    properties = [pa.field("id", pa.string())]
    given = first.get("data", {})
    assert isinstance(given, dict), "the record was found to have no problem"
    for name, each in declared.properties.items():
        kind = _json_type(each.type.element, given.get(name))
        is_nested = each.type.is_list or each.type.is_vector
        properties.append(pa.field(name, pa.list_(kind) if is_nested else kind))
    fields = [pa.field("data", pa.struct(properties))]
    if isinstance(declared, EdgeType):
        # The ends have the names that the first record uses; other names fall back to the strict
        # reader.
        names = ("edge", *(role if role in first else end for role, end in END_BY_ROLE.items()))
        return pa.schema([*(pa.field(name, pa.string()) for name in names), *fields])
    return pa.schema([pa.field("type", pa.string()), *fields])


def _json_type(element: object, value: object) -> pa.DataType:
    value = value[0] if isinstance(value, list) and value else value
    match element:
        case Scalar.BOOL:
            return pa.bool_()
        case Scalar.U64:
            return pa.uint64()
        case Scalar.I32 | Scalar.I64 | Scalar.U32:
            return pa.int64()
        case Scalar.DATETIME:
            # Both forms of a timestamp are valid, and a file usually has only one of them.
            return pa.int64() if isinstance(value, int) else pa.string()
        case Scalar.STRING | Scalar.BLOB | Scalar.DATE:
            return pa.string()
        case _:
            # Always 64 bits, because the other readers also round a decimal to 64 bits first.
            return pa.float64()


def _open_columns(
    table: pa.Table, declared: Declared, schema: pa.Schema, catalog: Catalog
) -> dict[str, pa.Array] | None:
    """The columns by name; None if records may have several types or lack an end."""
    table = table.combine_chunks()
    if table.schema != schema or any(each.num_chunks != 1 for each in table.columns):
        return None
    top = {name: table[name].chunk(0) for name in schema.names}
    given = top.pop("data")
    columns = dict(zip(given.type.names, given.flatten(), strict=True))
    if isinstance(declared, EdgeType):
        names = top["edge"].unique().to_pylist()
        if any(name is None or catalog.find_edge(name) != declared for name in names):
            return None
        columns |= {end: top[role if role in top else end] for role, end in END_BY_ROLE.items()}
        has_ends = not any(columns[end].null_count for end in END_BY_ROLE.values())
        return columns if has_ends else None
    is_other = pc.not_equal(top["type"], declared.name)
    return None if top["type"].null_count or pc.any(is_other).as_py() else columns


def _says_null(text: bytes, table: pa.Table, columns: Mapping[str, pa.Array]) -> bool:
    """Whether a record may have a null where a member can only be omitted.

    Arrow does not distinguish the two.
    """
    if b"null" not in text:
        return False
    if b"\\u00" in text:  # an escape may spell any name
        return True
    given, ids = table["data"], columns["id"]
    counts = (len(given) - given.null_count, len(ids) - ids.null_count)
    return (text.count(b'"data"'), text.count(b'"id"')) != counts


def _read_column(
    columns: Mapping[str, pa.Array], context: ReadContext, name: str, wanted: PropertyType
) -> pa.Array:
    column = columns[name]
    if wanted.is_vector or wanted.element in FLOATS:
        # Arrow accepts NaN, and reads -0 as a negative zero, which in JSON is an integer.
        numbers = column.flatten() if pa.types.is_list(column.type) else column
        array = numbers.drop_null().to_numpy()
        if not np.isfinite(array).all() or np.signbit(array[array == 0]).any():
            raise pa.ArrowInvalid("numbers that the strict reader must check")
    return coerce_column(inline_column(column, wanted, context.external), wanted)


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Records are parsed and converted this many at a time, so that they stay in the processor cache and
# are freed before the garbage collector tracks them.
_RECORDS_AT_A_TIME = 256

# Most blocks that are read record by record before the fast path is tried again.
_PAUSE_MAX = 32


def read_records(
    blocks: Iterable[bytes],
    *,
    file: str,
    is_start: bool,
    context: ReadContext,
    counter: RowCounter,
    report: Report | None,
    has_lines: bool = True,
) -> Iterator[RowBatch]:
    """The rows of NDJSON that comes in blocks of whole lines; errors name the `file`.

    `is_start` is set if the first block is the start of the file. With a `report`, an invalid
    record is reported and left out; otherwise it raises a `RequestError`. Without `has_lines`,
    errors identify records by row number, because the caller has no lines.
    """
    pause = waiting = 0
    for number, content in enumerate(blocks):
        text = content.removeprefix(_BYTE_ORDER_MARK) if is_start and number == 0 else content
        block = _Block(text, counter.counted, file, has_lines=has_lines)
        is_worth_it = not waiting and len(text) >= LOAD_BLOCK_BYTES_MIN
        uniform = read_uniform(text, context) if is_worth_it else None
        if uniform is not None:
            pause = 0
            row_count = uniform[1].num_rows
            yield RowBatch(*uniform, _LineOrigin(block, partial(range, row_count)))
            counter.add(records=row_count, lines=row_count - (not text.endswith(b"\n")))
            continue
        # A failed attempt costs as much as a successful one saves, so failures back off.
        pause = min(_PAUSE_MAX, 2 * pause + 1) if is_worth_it else pause
        waiting = pause if is_worth_it else max(0, waiting - 1)
        yield from _read_block(block, context, report)
        counter.add(records=len(block.records), lines=len(block.lines) - 1)


class _Block:
    """Some lines and the counts before them; record locations are computed only on demand."""

    def __init__(self, text: bytes, before: Counted, file: str, *, has_lines: bool) -> None:
        self._text, self._before, self._file = text, before, file
        self._has_lines = has_lines

    @cached_property
    def lines(self) -> Sequence[bytes]:
        return self._text.split(b"\n")

    @cached_property
    def records(self) -> Sequence[bytes]:
        """The lines that are not blank."""
        return list(filter(bytes.strip, self.lines))

    def pick(self, indexes: Sequence[int]) -> Sequence[bytes]:
        """The records at some indexes."""
        if isinstance(indexes, range):
            return self.records[indexes.start : indexes.stop]
        return [self.records[index] for index in indexes]

    @cached_property
    def _numbers(self) -> Sequence[int]:
        """The line numbers of the records within the block."""
        return [number for number, line in enumerate(self.lines, 1) if line.strip()]

    def place(self, index: int) -> InputLocation:
        """The location of a record."""
        return InputLocation(
            self._file,
            self._before.records + index + 1,
            self._before.lines + self._numbers[index] if self._has_lines else None,
        )

    def refuse(self, index: int, problem: str) -> _RecordError:
        """The error for a record that is malformed as a whole."""
        refusal = InvalidValueError(
            subject=str(self.place(index)),
            expected="record",
            value=self.records[index],
            problem=problem,
        )
        return _RecordError(index, refusal)


class _RecordError(Exception):
    """An invalid record of a block; an earlier record may be invalid too."""

    def __init__(self, index: int, refusal: RequestError) -> None:
        super().__init__(str(refusal))
        self.index, self.refusal = index, refusal


class _LineOrigin:
    """The origin of rows of one type: the lines they were read from."""

    def __init__(self, block: _Block, find_indexes: Callable[[], Sequence[int]]) -> None:
        self._block, self._find_indexes = block, find_indexes

    @cached_property
    def _indexes(self) -> Sequence[int]:
        return self._find_indexes()

    def locate(self, row: int) -> InputLocation:
        return self._block.place(self._indexes[row])

    def original(self, row: int) -> bytes:
        return self._block.records[self._indexes[row]].strip()


def _read_block(block: _Block, context: ReadContext, report: Report | None) -> list[RowBatch]:
    every = range(len(block.records))
    if report is None:
        return _read_strictly(block, every, context)
    try:
        return _read_lines(block, every, context)
    except (_RecordError, RequestError):
        refused = _report_refused(block, context, report)
        return _read_strictly(block, [each for each in every if each not in refused], context)


def _read_strictly(block: _Block, indexes: Sequence[int], context: ReadContext) -> list[RowBatch]:
    refusal = None
    while True:
        try:
            pieces = _read_lines(block, indexes, context)
        except _RecordError as error:
            # Each check reports only its own first error, so earlier records are read again.
            indexes, refusal = indexes[: bisect_left(indexes, error.index)], error.refusal
        else:
            if refusal is not None:
                raise refusal
            return pieces


def _report_refused(block: _Block, context: ReadContext, report: Report) -> set[int]:
    def attempt(start: int, end: int) -> None:
        try:
            _read_lines(block, range(start, end), context)
        except _RecordError as error:
            raise error.refusal from error

    refused = set()
    for index, refusal in bisect_refused(len(block.records), attempt):
        report(RowError(block.place(index), str(refusal), block.records[index].strip()))
        refused.add(index)
    return refused


def _read_lines(block: _Block, indexes: Sequence[int], context: ReadContext) -> list[RowBatch]:
    lines = block.pick(indexes)
    collected: dict[str, _Collected] = {}
    for start in range(0, len(lines), _RECORDS_AT_A_TIME):
        some = lines[start : start + _RECORDS_AT_A_TIME]
        those = indexes[start : start + _RECORDS_AT_A_TIME]
        records = _parse(block, some, those)
        opened = _open_records(block, records, those, context.catalog)
        if has_more_members(b"\n".join(some), sum(each.member_count for each in opened)):
            _require_distinct_members(block, some, records, those)
        for headers in opened:
            key = table_key_of(headers.declared)
            if key not in collected:
                collected[key] = _Collected(headers.declared)
            collected[key].add(headers)
    pieces = []
    for each in collected.values():
        find_indexes = partial(_find_indexes, lines, indexes, each.declared, context.catalog)
        try:
            rows = each.build_rows(context.external)
        except CoercionError as fault:
            index = find_indexes()[fault.row]
            refusal = refuse_row(each.declared, fault, place=str(block.place(index)))
            raise _RecordError(index, refusal) from fault
        pieces.append(RowBatch(each.declared, rows, _LineOrigin(block, find_indexes)))
    return pieces


def _parse(block: _Block, lines: Sequence[bytes], indexes: Sequence[int]) -> list[Record]:
    records: list[Record] = []
    try:
        records.extend(map(orjson.loads, lines))
    except orjson.JSONDecodeError as error:
        # The list holds the records before the error, so its length is the index of the line.
        line = lines[len(records)]
        problem = f"invalid JSON at column {error.colno}: {error.msg}; a line holds one object"
        try:
            line.decode()
        except UnicodeDecodeError as undecodable:
            problem = f"invalid UTF-8 at byte {undecodable.start + 1}: {undecodable.reason}"
        raise block.refuse(indexes[len(records)], problem) from error
    return records


def _open_records(
    block: _Block, records: Sequence[Record], indexes: Sequence[int], catalog: Catalog
) -> list[RecordHeaders]:
    opened = group_records(records, catalog)
    if opened is None:
        for index, record in zip(indexes, records, strict=True):
            problem = find_problem(record, catalog)
            if problem is not None:
                raise block.refuse(index, problem)
    assert opened is not None
    return opened


def _require_distinct_members(
    block: _Block, lines: Sequence[bytes], records: Sequence[Record], indexes: Sequence[int]
) -> None:
    for index, line, record in zip(indexes, lines, records, strict=True):
        member = find_repeated_member(line, record)
        if member is not None:
            raise block.refuse(index, f"the member {show_text(member)} is given twice")


def _find_indexes(
    lines: Sequence[bytes],
    indexes: Sequence[int],
    declared: NodeType | EdgeType,
    catalog: Catalog,
) -> Sequence[int]:
    """The indexes of the records that are rows of a type."""
    found = (
        catalog.nodes[record["type"]] if "type" in record else catalog.find_edge(record["edge"])
        for record in map(orjson.loads, lines)
    )
    return [index for index, each in zip(indexes, found, strict=True) if each == declared]


class _Collected:
    """The values of records of one type, by column."""

    def __init__(self, declared: NodeType | EdgeType) -> None:
        self.declared = declared
        self._values: dict[str, list[object]] = {name: [] for name in table_schema(declared).names}
        ends = ENDPOINTS if isinstance(declared, EdgeType) else ()
        self._of_ends = [self._values[end.name] for end in ends]
        self._of_properties = {n: self._values[n] for n in ("id", *declared.properties)}

    def add(self, headers: RecordHeaders) -> None:
        """Append the values of more records."""
        for values, ends in zip(self._of_ends, headers.ends, strict=True):
            values.extend(ends)
        for name, values in self._of_properties.items():
            values.extend([each.get(name) for each in headers.properties])

    def build_rows(self, external: ExternalBlobs) -> pa.Table:
        """The rows of the records; raises `CoercionError` for one that cannot be stored."""
        return build_rows(self.declared, partial(self._read_column, external))

    def _read_column(self, external: ExternalBlobs, name: str, wanted: PropertyType) -> pa.Array:
        return read_column(inline_references(self._values[name], wanted, external), wanted)
