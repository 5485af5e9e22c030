"""`@unique`: the values of a group together occur once, in the write and in what it leaves alone.

Values are compared by type, as `tuples` says; a null exempts a row. A committed row that the write
replaces or removes no longer holds its values. Rows must have distinct ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.changes import TableChange
from omnigraph.engine.commit.committed import CommittedRows
from omnigraph.engine.commit.integrity.tuples import (
    EncodedColumn,
    encode_column,
    encode_tuples,
    find_first_rows,
    has_repeats,
)
from omnigraph.engine.commit.integrity.untouched import keep_untouched
from omnigraph.engine.commit.integrity.violations import (
    NOTHING,
    Violations,
    describe_columns,
    plain_values,
    show_text,
    show_values,
    tell,
)
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Unique
from omnigraph.model.errors import Violation


def check_unique_groups(change: TableChange, *, committed: CommittedRows) -> Iterator[Violations]:
    """A violation for each row whose values an untouched or an earlier row already has."""
    for constraint in change.type.constraints:
        if isinstance(constraint, Unique):
            yield _check_group(change, constraint.columns, committed=committed)


def describe_shared(
    type_name: str, group: Sequence[str], row: pa.Table, *, other: str
) -> Violation:
    """What is wrong with a row whose values another has; it has `id` and those."""
    cells = [row.column(name)[0] for name in group]
    id = str(row.column("id")[0].as_py())
    return Violation(
        type=type_name,
        id=id,
        rule="unique",
        property=group[0] if len(group) == 1 else None,
        value=plain_values(cells),
        message=f"@unique violation on {type_name}.{describe_columns(group)}: "
        f"{show_text(other)} and {show_text(id)} both have {show_values(cells)}",
    )


def _check_group(
    change: TableChange, group: tuple[str, ...], *, committed: CommittedRows
) -> Violations:
    rows = _drop_exempt(change.put.select(["id", *group]), group)
    if not len(rows):
        return NOTHING
    encoded = _encode_group(rows, group)
    held = _find_held(change, group, encoded, committed=committed)
    if len(held):
        rows = _join(held, rows)
        encoded = _encode_group(rows, group)
    if _is_distinct(encoded[-1]):
        return NOTHING
    codes = encode_tuples(encoded)
    if not has_repeats(codes):
        return NOTHING
    first = find_first_rows(codes)
    repeats = np.flatnonzero(first != np.arange(len(rows)))

    def describe(row: int) -> Violation:
        other = str(rows.column("id")[int(first[row])].as_py())
        return describe_shared(change.type.name, group, rows.slice(row, 1), other=other)

    return tell(repeats[repeats >= len(held)], describe)


def _drop_exempt(rows: pa.Table, group: Sequence[str]) -> pa.Table:
    for name in group:
        if rows.column(name).null_count:
            rows = rows.filter(pc.is_valid(rows.column(name)))
    return rows


def _join(held: pa.Table, rows: pa.Table) -> pa.Table:
    # Column by column: the fields of older rows may differ in what is no value, like nullability.
    return pa.table(
        {
            name: pa.chunked_array([*held.column(name).chunks, *rows.column(name).chunks])
            for name in rows.column_names
        }
    )


def _encode_group(rows: pa.Table, group: Sequence[str]) -> list[EncodedColumn]:
    """The columns up to the first without repeats, which makes every tuple different."""
    encoded: list[EncodedColumn] = []
    for name in group:
        encoded.append(encode_column(rows.column(name)))
        if _is_distinct(encoded[-1]):
            break
    return encoded


def _is_distinct(column: EncodedColumn) -> bool:
    return len(column.distinct) == len(column.codes)


def _find_held(
    change: TableChange,
    group: tuple[str, ...],
    encoded: Sequence[EncodedColumn],
    *,
    committed: CommittedRows,
) -> pa.Table:
    """The untouched committed rows that may have a tuple of the write, by id."""
    columns = ["id", *group]
    table_key = table_key_of(change.type)
    if change.is_overwrite or not committed.count(table_key):
        return change.put.select(columns).slice(0, 0)
    # The column with the most values has the fewest rows for each.
    widest = max(range(len(encoded)), key=lambda position: len(encoded[position].distinct))
    values = encoded[widest].distinct
    if _is_told_differently(values):
        found = committed.scan(table_key, columns=columns)
    else:
        found = committed.find_rows(table_key, group[widest], values, columns=columns)
    held = _drop_exempt(keep_untouched(found, change), group)
    return held.sort_by("id") if len(held) else held


def _is_told_differently(values: pa.Array) -> bool:
    """Whether stores disagree on who equals one of the values: a NaN, or a zero with its sign."""
    if not pa.types.is_floating(values.type):
        return False
    zero = pa.scalar(0.0, values.type)
    return bool(pc.any(pc.or_(pc.is_nan(values), pc.equal(values, zero))).as_py())
