"""Shared parts of the integrity checks: violation lists, tuple encoding, and untouched rows.

Violations are counted in full and listed up to a bound. Equal tuples of values have equal
encodings; -0.0 equals 0.0, and all NaNs are equal. All functions are pure and know no rule: the
caller has already read the committed rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.prepared_write import TableChange
from omnigraph.model.errors import Violation, show_text
from omnigraph.model.limits import VIOLATIONS_MAX
from omnigraph.model.types import format_datetime

RowNumbers = npt.NDArray[np.int64]
"""Positions of rows, ascending."""


@dataclass(frozen=True, slots=True)
class Violations:
    """The violations of a write: at most `VIOLATIONS_MAX` of them, and their total count."""

    found: tuple[Violation, ...]
    count: int


NOTHING = Violations((), 0)


def make_violations(rows: RowNumbers, describe: Callable[[int], Violation]) -> Violations:
    """One violation per row; only those that will be shown are described."""
    if not len(rows):
        return NOTHING
    shown = rows[:VIOLATIONS_MAX].tolist()
    return Violations(tuple(describe(row) for row in shown), len(rows))


def concat_violations(parts: Iterable[Violations]) -> Violations:
    """The violations of several checks, in their order."""
    gathered = tuple(parts)
    found = (violation for part in gathered for violation in part.found)
    return Violations(tuple(islice(found, VIOLATIONS_MAX)), sum(part.count for part in gathered))


def describe_columns(columns: Sequence[str]) -> str:
    """The columns of a constraint, as a message shows them after a type's name and a dot."""
    return columns[0] if len(columns) == 1 else f"({', '.join(columns)})"


def plain_values(cells: Sequence[pa.Scalar]) -> object:
    """The cells of a constraint: the value of its column, or a list if it has several columns."""
    values = [plain_value(cell) for cell in cells]
    return values[0] if len(values) == 1 else values


def show_values(cells: Sequence[pa.Scalar]) -> str:
    """The cells of a constraint as a message shows them."""
    shown = [show_value(cell) for cell in cells]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def plain_value(cell: pa.Scalar) -> object:
    """A cell as results encode it: text for dates and for numbers that JSON cannot represent."""
    if not cell.is_valid:
        return None
    if pa.types.is_date32(cell.type) or pa.types.is_timestamp(cell.type):
        return _plain_timestamp(cell)
    value: object = cell.as_py()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def show_value(cell: pa.Scalar) -> str:
    """A cell as a message shows it."""
    value = plain_value(cell)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return show_text(str(value)) if pa.types.is_string(cell.type) else str(value)


def _plain_timestamp(cell: pa.Scalar) -> object:
    try:
        if pa.types.is_date32(cell.type):
            return (date(1970, 1, 1) + timedelta(days=cell.value)).isoformat()
        return format_datetime(
            datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=cell.value)
        )
    except OverflowError:
        # Columns can hold years that Python's dates cannot.
        return int(cell.value)


Codes = npt.NDArray[np.int64]

_CODES_MAX = 2**62


@dataclass(frozen=True, slots=True)
class DictionaryColumn:
    """A column as positions in its distinct values."""

    distinct: pa.Array
    codes: Codes


def encode_column(column: pa.ChunkedArray) -> DictionaryColumn:
    """The distinct values of a column without nulls, in order of appearance, and the row codes."""
    if pa.types.is_floating(column.type):
        column = normal_floats(column)
    encoded = column.dictionary_encode().combine_chunks()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return DictionaryColumn(encoded.dictionary, codes)


def encode_tuples(columns: Sequence[DictionaryColumn]) -> Codes:
    """One code per row for the values of all columns together."""
    codes, code_count = columns[0].codes, len(columns[0].distinct)
    for column in columns[1:]:
        if code_count * len(column.distinct) > _CODES_MAX:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
            code_count = len(codes)
        codes = codes * len(column.distinct) + column.codes
        code_count *= len(column.distinct)
    return codes


def has_repeats(codes: Codes) -> bool:
    """Whether any code occurs twice."""
    ordered = np.sort(codes)
    return bool((ordered[1:] == ordered[:-1]).any())


def find_first_rows(codes: Codes) -> Codes:
    """For each row, the first row with the same code, which may be the row itself."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first[inverse].astype(np.int64)


def normal_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with a single zero and a single NaN."""
    zero, nan = pa.scalar(0.0, column.type), pa.scalar(float("nan"), column.type)
    # Adding zero turns -0.0 into 0.0 and changes nothing else.
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))


def select_untouched(rows: pa.Table, change: TableChange | None) -> pa.Table:
    """The committed rows of a type that a write neither replaces nor removes."""
    if change is None:
        return rows
    if change.is_overwrite:
        return rows.slice(0, 0)
    for ids in (change.put.column("id"), change.removed):
        if len(rows) and len(ids):
            rows = rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=ids)))
    return rows


def without(
    ids: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray
) -> pa.Array | pa.ChunkedArray:
    """The ids that are not among the others."""
    if not len(ids) or not len(others):
        return ids
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others)))


def list_removed(change: TableChange) -> pa.Array:
    """The ids that a write removes explicitly; an overwrite has none."""
    return without(change.removed, change.put.column("id"))


def find_present(ids: pa.Array | pa.ChunkedArray, change: TableChange | None) -> pa.Array:
    """Mark the ids whose rows a write does not remove."""
    if change is not None and change.is_overwrite:
        return pc.is_in(ids, value_set=change.put.column("id"))
    removed = pa.array([], ids.type) if change is None else list_removed(change)
    return pc.invert(pc.is_in(ids, value_set=removed))
