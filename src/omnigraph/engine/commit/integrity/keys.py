"""Integrity checks of identity: repeated ids within a write, and `@unique` groups.

A repeated id is a violation only within one write: a committed row with the same id is the row
that the write replaces. Uniqueness holds across the write and the rows that it leaves untouched.
Values compare by type and content, and a null exempts its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.violations import (
    NOTHING,
    DictionaryColumn,
    RowNumbers,
    Violations,
    describe_columns,
    encode_column,
    encode_tuples,
    find_first_rows,
    has_repeats,
    make_violations,
    plain_values,
    select_untouched,
    show_values,
)
from omnigraph.engine.commit.prepared_write import CommittedRows, TableChange
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType, Unique
from omnigraph.model.errors import Violation, show_text


def find_duplicate_ids(put: pa.Table) -> RowNumbers:
    """The rows whose id also occurs in an earlier row."""
    ids = put.column("id")
    if len(pc.unique(ids)) == len(ids):
        return np.empty(0, np.int64)
    first = find_first_rows(encode_column(ids).codes)
    return np.flatnonzero(first != np.arange(len(first)))


def drop_rows(put: pa.Table, rows: RowNumbers) -> pa.Table:
    """The rows except the given ones, in their order."""
    return put.take(np.delete(np.arange(len(put)), rows)) if len(rows) else put


def check_ids(change: TableChange, repeats: RowNumbers) -> Violations:
    """A violation for each row that repeats an id."""
    return make_violations(
        repeats, lambda row: describe_repeat(change.type, change.put.slice(row, 1))
    )


def describe_repeat(declared: NodeType | EdgeType, row: pa.Table) -> Violation:
    """The violation for a row that repeats an earlier id; it has `id` and the key's columns."""
    name, id = declared.name, row.column("id")[0].as_py()
    if isinstance(declared, NodeType) and declared.key:
        cells = [row.column(column)[0] for column in declared.key]
        return Violation(
            type=name,
            id=id,
            rule="key",
            property=declared.key[0] if len(declared.key) == 1 else None,
            value=plain_values(cells),
            message=f"@key violation on {name}.{describe_columns(declared.key)}: "
            f"{show_values(cells)} occurs more than once in this write",
        )
    return Violation(
        type=name,
        id=id,
        rule="id",
        property=None,
        value=id,
        message=f"{name} {show_text(id)} occurs more than once in this write",
    )


def check_unique_groups(change: TableChange, *, committed: CommittedRows) -> Iterator[Violations]:
    """A violation for each row whose values an untouched or an earlier row already has."""
    for constraint in change.type.constraints:
        if isinstance(constraint, Unique):
            yield _check_group(change, constraint.columns, committed=committed)


def describe_shared(
    type_name: str, group: Sequence[str], row: pa.Table, *, other: str
) -> Violation:
    """The violation for a row with the same values as another; it has `id` and these values."""
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
        # Column by column: the fields of older rows may differ in properties such as nullability.
        rows = pa.table(
            {
                name: pa.chunked_array([*held.column(name).chunks, *rows.column(name).chunks])
                for name in rows.column_names
            }
        )
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

    return make_violations(repeats[repeats >= len(held)], describe)


def _drop_exempt(rows: pa.Table, group: Sequence[str]) -> pa.Table:
    for name in group:
        if rows.column(name).null_count:
            rows = rows.filter(pc.is_valid(rows.column(name)))
    return rows


def _encode_group(rows: pa.Table, group: Sequence[str]) -> list[DictionaryColumn]:
    """The columns up to the first one without repeats, which makes every tuple distinct."""
    encoded: list[DictionaryColumn] = []
    for name in group:
        encoded.append(encode_column(rows.column(name)))
        if _is_distinct(encoded[-1]):
            break
    return encoded


def _is_distinct(column: DictionaryColumn) -> bool:
    return len(column.distinct) == len(column.codes)


def _find_held(
    change: TableChange,
    group: tuple[str, ...],
    encoded: Sequence[DictionaryColumn],
    *,
    committed: CommittedRows,
) -> pa.Table:
    """The untouched committed rows that may share a tuple with the write, by id."""
    columns = ["id", *group]
    table_key = table_key_of(change.type)
    if change.is_overwrite or not committed.count(table_key):
        return change.put.select(columns).slice(0, 0)
    # The column with the most distinct values has the fewest rows per value.
    widest = max(range(len(encoded)), key=lambda position: len(encoded[position].distinct))
    values = encoded[widest].distinct
    if _has_ambiguous_equality(values):
        found = committed.scan(table_key, columns=columns)
    else:
        found = committed.find_rows(table_key, group[widest], values, columns=columns)
    held = _drop_exempt(select_untouched(found, change), group)
    return held.sort_by("id") if len(held) else held


def _has_ambiguous_equality(values: pa.Array) -> bool:
    """Whether stores disagree on what equals one of the values: a NaN, or a zero with its sign."""
    if not pa.types.is_floating(values.type):
        return False
    zero = pa.scalar(0.0, values.type)
    return bool(pc.any(pc.or_(pc.is_nan(values), pc.equal(values, zero))).as_py())
