"""Arrow producers: anything that exports an Arrow stream or array, as rows of one type.

Columns are found by name: properties, `id` if there are any to give, `src` and `dst` of an edge.
Every column is validated before it is believed, because producers can be wrong about themselves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.reading.fitting import fit, is_list
from omnigraph.engine.ops.reading.references import inline_column
from omnigraph.engine.ops.reading.rows import Rows, build_rows, describe_unknown, refuse_row
from omnigraph.engine.ops.reading.unfit import UnfitError, require_none, unfit
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import ARROW_PIECE_BYTES_MAX
from omnigraph.model.types import PropertyType
from omnigraph.storage.external_blobs import ExternalBlobs

_STREAM, _ARRAY = "__arrow_c_stream__", "__arrow_c_array__"
_ENDS = ("src", "dst")


def is_producer(given: object) -> bool:
    """Whether something offers its rows in Arrow's own exchange format."""
    return hasattr(given, _STREAM) or hasattr(given, _ARRAY)


def read_producer(
    given: object, declared: NodeType | EdgeType, *, name: str, external: ExternalBlobs
) -> Iterator[Rows]:
    """The rows of a producer; refusals begin with `name`."""
    try:
        if hasattr(given, _STREAM):
            table = pa.RecordBatchReader.from_stream(given).read_all()
        else:
            table = pa.Table.from_batches([pa.record_batch(given)])
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        problem = f"no Arrow rows can be had from a {type(given).__name__}: {error}"
        raise _refuse(declared, name, problem) from error
    return read_table(table, declared, name=name, external=external)


def read_table(
    table: pa.Table, declared: NodeType | EdgeType, *, name: str, external: ExternalBlobs
) -> Iterator[Rows]:
    """The same from a table."""
    _require_columns(table.column_names, declared, name)
    row_count = 0
    for batch in _cut(table):
        yield declared, _read_batch(batch, declared, name, row_count, external)
        row_count += batch.num_rows


def _require_columns(columns: Sequence[str], declared: NodeType | EdgeType, name: str) -> None:
    ends = _ends_of(declared)
    for column, count in Counter(columns).items():
        if count > 1:
            raise _refuse(declared, name, f"there are {count} columns '{column}'")
        if column not in declared.properties and column not in ("id", *ends):
            problem = describe_unknown(declared, column, ends="'src' and 'dst'")
            raise _refuse(declared, name, problem)
    for end in ends:
        if end not in columns:
            raise _refuse(declared, name, f"the column '{end}' is missing")


def _ends_of(declared: NodeType | EdgeType) -> Sequence[str]:
    return _ENDS if isinstance(declared, EdgeType) else ()


def _refuse(declared: NodeType | EdgeType, name: str, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=f"{name}rows of {declared.name}", expected="rows", value=None, problem=problem
    )


def _cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows in as few batches as Arrow's offsets allow, and at least one."""
    if any(column.num_chunks > 1 for column in table.columns):
        with suppress(pa.ArrowNotImplementedError):  # of a type that no property has, anyway
            table = table.combine_chunks()
    batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    while batches:
        batch = batches.pop(0)
        if batch.nbytes > ARROW_PIECE_BYTES_MAX and batch.num_rows > 1:
            half = batch.num_rows // 2
            batches[:0] = [batch.slice(0, half), batch.slice(half)]
        else:
            yield batch


def _read_batch(
    batch: pa.RecordBatch,
    declared: NodeType | EdgeType,
    name: str,
    rows_before: int,
    external: ExternalBlobs,
) -> pa.Table:
    end, first = batch.num_rows, None
    while True:
        part = batch.slice(0, end)
        try:
            read = partial(_read_column, part, _ends_of(declared), external)
            rows = build_rows(declared, read)
        except UnfitError as fault:
            # Each column tells of its own first fault: look whether an earlier row has another.
            end, first = fault.row, fault
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _refuse(declared, name, f"Arrow cannot convert the rows: {error}") from error
        else:
            if first is None:
                return rows
            place = f"{name}row {rows_before + end + 1}"
            raise refuse_row(declared, first, place=place) from first


def _read_column(
    batch: pa.RecordBatch,
    ends: Sequence[str],
    external: ExternalBlobs,
    name: str,
    wanted: PropertyType,
) -> pa.Array:
    if name not in batch.schema.names:
        return fit(pa.nulls(batch.num_rows), wanted)
    column = batch.column(name)
    if not _is_valid(column):
        row = bisect_left(range(len(column)), 1, key=lambda r: not _is_valid(column[: r + 1]))
        raise unfit(row, None, "the column holds what is no value of its Arrow type")
    fitted = fit(inline_column(column, wanted, external), wanted)
    if name in ends:
        require_none(fitted.is_null(), fitted, lambda _: "an edge needs both its ends")
    return fitted


def _is_valid(column: pa.Array) -> bool:
    if not len(column) or "date64" in str(column.type):
        # Arrow knows whole days only in a date64, and we keep instants.
        return True
    try:
        if not is_list(column.type):
            column.validate(full=True)
            return True
        # A list's elements are all looked at, whichever rows of it are asked about.
        column.validate()
    except pa.ArrowInvalid:
        return False
    return _is_valid(pc.list_flatten(column))
