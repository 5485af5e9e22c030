"""NDJSON: one object a line, each a node or an edge, read strictly and a block of lines at a time.

A line that breaks a rule is refused by the number of its record and its line; of several faults
the one in the earliest record is reported. Blank lines count as lines and not as records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import orjson
import pyarrow as pa

from omnigraph.engine.commit.integrity.violations import show_text
from omnigraph.engine.ops.reading.columns import read_column
from omnigraph.engine.ops.reading.envelopes import (
    Envelopes,
    Record,
    find_problem,
    open_envelopes,
)
from omnigraph.engine.ops.reading.members import find_repeated_member, has_more_members
from omnigraph.engine.ops.reading.references import inline_references
from omnigraph.engine.ops.reading.rows import Rows, build_rows, refuse_row
from omnigraph.engine.ops.reading.unfit import UnfitError
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, RequestError
from omnigraph.model.types import PropertyType
from omnigraph.storage.arrow_schema import ENDPOINTS, table_schema
from omnigraph.storage.external_blobs import ExternalBlobs

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Parsed records are taken apart this many at a time: they stay in the processor's cache, and are
# gone before the garbage collector begins to count them.
_RECORDS_AT_A_TIME = 256


def read_records(
    blocks: Iterable[bytes], *, name: str, catalog: Catalog, external: ExternalBlobs
) -> Iterator[Rows]:
    """The rows of NDJSON that comes in blocks of whole lines; refusals begin with `name`."""
    record_count = line_count = 0
    for number, content in enumerate(blocks):
        text = content.removeprefix(_BYTE_ORDER_MARK) if number == 0 else content
        lines = text.split(b"\n")
        block = _Block(lines, list(filter(bytes.strip, lines)), record_count, line_count, name)
        yield from _read_block(block, catalog, external)
        record_count += len(block.records)
        line_count += len(lines) - 1


@dataclass(frozen=True, slots=True)
class _Block:
    """Some lines, those that are not blank, and how many of both came before."""

    lines: Sequence[bytes]
    records: Sequence[bytes]
    records_before: int
    lines_before: int
    name: str

    def place(self, index: int) -> str:
        """What to call one of the records."""
        line = [number for number, line in enumerate(self.lines) if line.strip()][index]
        record = self.records_before + index + 1
        return f"{self.name}record {record} (line {self.lines_before + line + 1})"

    def refuse(self, index: int, problem: str) -> _RecordError:
        """The refusal of a record, whatever its properties are."""
        refusal = InvalidValueError(
            subject=self.place(index), expected="record", value=self.records[index], problem=problem
        )
        return _RecordError(index, refusal)


class _RecordError(Exception):
    """A record of a block that is refused; an earlier one may deserve it too."""

    def __init__(self, index: int, refusal: RequestError) -> None:
        super().__init__(str(refusal))
        self.index, self.refusal = index, refusal


def _read_block(block: _Block, catalog: Catalog, external: ExternalBlobs) -> list[Rows]:
    end, refusal = len(block.records), None
    while True:
        try:
            rows = _read_lines(block, block.records[:end], catalog, external)
        except _RecordError as error:
            # Each check sees its own first fault only: look whether an earlier record has another.
            end, refusal = error.index, error.refusal
        else:
            if refusal is not None:
                raise refusal
            return rows


def _read_lines(
    block: _Block, lines: Sequence[bytes], catalog: Catalog, external: ExternalBlobs
) -> list[Rows]:
    collected: dict[str, _Collected] = {}
    for start in range(0, len(lines), _RECORDS_AT_A_TIME):
        some = lines[start : start + _RECORDS_AT_A_TIME]
        records = _parse(block, some, start)
        opened = _open(block, records, start, catalog)
        if has_more_members(b"\n".join(some), sum(each.member_count for each in opened)):
            _require_distinct_members(block, some, records, start)
        for envelopes in opened:
            key = table_key_of(envelopes.declared)
            if key not in collected:
                collected[key] = _Collected(envelopes.declared)
            collected[key].add(envelopes)
    rows: list[Rows] = []
    for each in collected.values():
        try:
            rows.append((each.declared, each.build_rows(external)))
        except UnfitError as fault:
            index = _find_index(lines, fault.row, each.declared, catalog)
            refusal = refuse_row(each.declared, fault, place=block.place(index))
            raise _RecordError(index, refusal) from fault
    return rows


def _parse(block: _Block, lines: Sequence[bytes], start: int) -> list[Record]:
    records: list[Record] = []
    try:
        records.extend(map(orjson.loads, lines))
    except orjson.JSONDecodeError as error:
        # What was read before the fault is in the list, so its length says which line it is.
        line = lines[len(records)]
        problem = f"invalid JSON at column {error.colno}: {error.msg}; a line holds one object"
        try:
            line.decode()
        except UnicodeDecodeError as undecodable:
            problem = f"invalid UTF-8 at byte {undecodable.start + 1}: {undecodable.reason}"
        raise block.refuse(start + len(records), problem) from error
    return records


def _open(
    block: _Block, records: Sequence[Record], start: int, catalog: Catalog
) -> list[Envelopes]:
    opened = open_envelopes(records, catalog)
    if opened is None:
        for index, record in enumerate(records, start):
            problem = find_problem(record, catalog)
            if problem is not None:
                raise block.refuse(index, problem)
    assert opened is not None
    return opened


def _require_distinct_members(
    block: _Block, lines: Sequence[bytes], records: Sequence[Record], start: int
) -> None:
    for index, (line, record) in enumerate(zip(lines, records, strict=True), start):
        member = find_repeated_member(line, record)
        if member is not None:
            raise block.refuse(index, f"the member {show_text(member)} is given twice")


def _find_index(
    lines: Sequence[bytes], row: int, declared: NodeType | EdgeType, catalog: Catalog
) -> int:
    """Which record became a row of a type."""
    found = (
        catalog.nodes[record["type"]] if "type" in record else catalog.find_edge(record["edge"])
        for record in map(orjson.loads, lines)
    )
    return [index for index, each in enumerate(found) if each == declared][row]


class _Collected:
    """The records of one type, taken apart into values by column."""

    def __init__(self, declared: NodeType | EdgeType) -> None:
        self.declared = declared
        self._values: dict[str, list[object]] = {name: [] for name in table_schema(declared).names}
        ends = ENDPOINTS if isinstance(declared, EdgeType) else ()
        self._of_ends = [self._values[end.name] for end in ends]
        self._of_properties = {n: self._values[n] for n in ("id", *declared.properties)}

    def add(self, envelopes: Envelopes) -> None:
        """Take more of them apart."""
        for values, ends in zip(self._of_ends, envelopes.ends, strict=True):
            values.extend(ends)
        for name, values in self._of_properties.items():
            values.extend([each.get(name) for each in envelopes.properties])

    def build_rows(self, external: ExternalBlobs) -> pa.Table:
        """The rows that they are; `UnfitError` tells of one that is none."""
        return build_rows(self.declared, partial(self._read_column, external))

    def _read_column(self, external: ExternalBlobs, name: str, wanted: PropertyType) -> pa.Array:
        return read_column(inline_references(self._values[name], wanted, external), wanted)
