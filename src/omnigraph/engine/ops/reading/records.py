"""NDJSON: one object a line, each a node or an edge, read strictly and a block of lines at a time.

A line that breaks a rule is refused by the number of its record and its line; of several faults
the one in the earliest record is reported. Blank lines count as lines and not as records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial

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
from omnigraph.engine.ops.reading.halving import find_refused
from omnigraph.engine.ops.reading.members import find_repeated_member, has_more_members
from omnigraph.engine.ops.reading.pieces import (
    Counted,
    Fault,
    Means,
    Piece,
    Place,
    Report,
    Tally,
)
from omnigraph.engine.ops.reading.references import inline_references
from omnigraph.engine.ops.reading.rows import build_rows, refuse_row
from omnigraph.engine.ops.reading.unfit import UnfitError
from omnigraph.engine.ops.reading.uniform import read_uniform
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, RequestError
from omnigraph.model.limits import LOAD_BLOCK_BYTES_MIN
from omnigraph.model.types import PropertyType
from omnigraph.storage.arrow_schema import ENDPOINTS, table_schema
from omnigraph.storage.external_blobs import ExternalBlobs

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Parsed records are taken apart this many at a time: they stay in the processor's cache, and are
# gone before the garbage collector begins to count them.
_RECORDS_AT_A_TIME = 256

# Longest run of blocks that are read record by record before all at once is tried again.
_PAUSE_MAX = 32


def read_records(
    blocks: Iterable[bytes],
    *,
    file: str,
    is_start: bool,
    means: Means,
    tally: Tally,
    report: Report | None,
) -> Iterator[Piece]:
    """The rows of NDJSON that comes in blocks of whole lines; refusals name the `file`.

    `is_start` says that the first block begins it. With a `report` a record that is refused is
    reported and left out.
    """
    pause = waiting = 0
    for number, content in enumerate(blocks):
        text = content.removeprefix(_BYTE_ORDER_MARK) if is_start and number == 0 else content
        block = _Block(text, tally.counted, file)
        is_worth_it = not waiting and len(text) >= LOAD_BLOCK_BYTES_MIN
        uniform = read_uniform(text, means) if is_worth_it else None
        if uniform is not None:
            pause = 0
            row_count = uniform[1].num_rows
            yield Piece(*uniform, _LineOrigin(block, partial(range, row_count)))
            tally.add(records=row_count, lines=row_count - (not text.endswith(b"\n")))
            continue
        # An attempt in vain takes as long as another saves, so there are ever fewer of them.
        pause = min(_PAUSE_MAX, 2 * pause + 1) if is_worth_it else pause
        waiting = pause if is_worth_it else max(0, waiting - 1)
        yield from _read_block(block, means, report)
        tally.add(records=len(block.records), lines=len(block.lines) - 1)


class _Block:
    """Some lines, and how many came before; what a record is called is worked out if asked for."""

    def __init__(self, text: bytes, before: Counted, file: str) -> None:
        self._text, self._before, self._file = text, before, file

    @cached_property
    def lines(self) -> Sequence[bytes]:
        return self._text.split(b"\n")

    @cached_property
    def records(self) -> Sequence[bytes]:
        """The lines that are not blank."""
        return list(filter(bytes.strip, self.lines))

    def pick(self, indexes: Sequence[int]) -> Sequence[bytes]:
        """Some of the records."""
        if isinstance(indexes, range):
            return self.records[indexes.start : indexes.stop]
        return [self.records[index] for index in indexes]

    @cached_property
    def _numbers(self) -> Sequence[int]:
        """Which lines the records are."""
        return [number for number, line in enumerate(self.lines, 1) if line.strip()]

    def place(self, index: int) -> Place:
        """What to call one of the records."""
        return Place(
            self._file,
            self._before.records + index + 1,
            self._before.lines + self._numbers[index],
        )

    def refuse(self, index: int, problem: str) -> _RecordError:
        """The refusal of a record, whatever its properties are."""
        refusal = InvalidValueError(
            subject=str(self.place(index)),
            expected="record",
            value=self.records[index],
            problem=problem,
        )
        return _RecordError(index, refusal)


class _RecordError(Exception):
    """A record of a block that is refused; an earlier one may deserve it too."""

    def __init__(self, index: int, refusal: RequestError) -> None:
        super().__init__(str(refusal))
        self.index, self.refusal = index, refusal


class _LineOrigin:
    """The lines that became the rows of one type."""

    def __init__(self, block: _Block, find_indexes: Callable[[], Sequence[int]]) -> None:
        self._block, self._find_indexes = block, find_indexes

    @cached_property
    def _indexes(self) -> Sequence[int]:
        return self._find_indexes()

    def locate(self, row: int) -> Place:
        return self._block.place(self._indexes[row])

    def original(self, row: int) -> bytes:
        return self._block.records[self._indexes[row]].strip()


def _read_block(block: _Block, means: Means, report: Report | None) -> list[Piece]:
    every = range(len(block.records))
    if report is None:
        return _read_strictly(block, every, means)
    try:
        return _read_lines(block, every, means)
    except (_RecordError, RequestError):
        refused = _report_refused(block, means, report)
        return _read_strictly(block, [each for each in every if each not in refused], means)


def _read_strictly(block: _Block, indexes: Sequence[int], means: Means) -> list[Piece]:
    refusal = None
    while True:
        try:
            pieces = _read_lines(block, indexes, means)
        except _RecordError as error:
            # Each check sees its own first fault only: look whether an earlier record has another.
            indexes, refusal = indexes[: bisect_left(indexes, error.index)], error.refusal
        else:
            if refusal is not None:
                raise refusal
            return pieces


def _report_refused(block: _Block, means: Means, report: Report) -> set[int]:
    def attempt(start: int, end: int) -> None:
        try:
            _read_lines(block, range(start, end), means)
        except _RecordError as error:
            raise error.refusal from error

    refused = set()
    for index, refusal in find_refused(len(block.records), attempt):
        report(Fault(block.place(index), str(refusal), block.records[index].strip()))
        refused.add(index)
    return refused


def _read_lines(block: _Block, indexes: Sequence[int], means: Means) -> list[Piece]:
    lines = block.pick(indexes)
    collected: dict[str, _Collected] = {}
    for start in range(0, len(lines), _RECORDS_AT_A_TIME):
        some = lines[start : start + _RECORDS_AT_A_TIME]
        those = indexes[start : start + _RECORDS_AT_A_TIME]
        records = _parse(block, some, those)
        opened = _open(block, records, those, means.catalog)
        if has_more_members(b"\n".join(some), sum(each.member_count for each in opened)):
            _require_distinct_members(block, some, records, those)
        for envelopes in opened:
            key = table_key_of(envelopes.declared)
            if key not in collected:
                collected[key] = _Collected(envelopes.declared)
            collected[key].add(envelopes)
    pieces = []
    for each in collected.values():
        find_indexes = partial(_find_indexes, lines, indexes, each.declared, means.catalog)
        try:
            rows = each.build_rows(means.external)
        except UnfitError as fault:
            index = find_indexes()[fault.row]
            refusal = refuse_row(each.declared, fault, place=str(block.place(index)))
            raise _RecordError(index, refusal) from fault
        pieces.append(Piece(each.declared, rows, _LineOrigin(block, find_indexes)))
    return pieces


def _parse(block: _Block, lines: Sequence[bytes], indexes: Sequence[int]) -> list[Record]:
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
        raise block.refuse(indexes[len(records)], problem) from error
    return records


def _open(
    block: _Block, records: Sequence[Record], indexes: Sequence[int], catalog: Catalog
) -> list[Envelopes]:
    opened = open_envelopes(records, catalog)
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
    """Which records became the rows of a type."""
    found = (
        catalog.nodes[record["type"]] if "type" in record else catalog.find_edge(record["edge"])
        for record in map(orjson.loads, lines)
    )
    return [index for index, each in zip(indexes, found, strict=True) if each == declared]


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
