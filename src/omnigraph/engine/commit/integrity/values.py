"""Integrity checks of single values: required, enum, `@range` and `@check`.

Each rule is evaluated over whole columns; only rows that violate it are visited one by one. A null
is exempt from every rule except required. Range comparisons are exact: they round neither a value
nor a bound, and NaN is outside every range. Patterns run on RE2, in linear time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.violations import (
    RowNumbers,
    Violations,
    make_violations,
    plain_value,
    show_value,
)
from omnigraph.engine.commit.prepared_write import TableChange
from omnigraph.model.catalog import Check, Property, Range
from omnigraph.model.errors import InvalidValueError, Violation, show_text


def find_outside(cells: pa.ChunkedArray, bounds: Range) -> pa.ChunkedArray:
    """Mark the values that a range excludes; null for null."""
    if pa.types.is_floating(cells.type):
        return _find_floats_outside(pc.cast(cells, pa.float64()), bounds)
    return _find_integers_outside(cells, bounds)


def describe_excess(cell: pa.Scalar, bounds: Range) -> str:
    """How a value violates the range that excludes it."""
    value = cell.as_py()
    if math.isnan(value):
        return "is NaN"
    # Python compares integers with floats exactly.
    if bounds.minimum is not None and value < bounds.minimum:
        return f"{show_value(cell)} < min {bounds.minimum}"
    return f"{show_value(cell)} > max {bounds.maximum}"


def _find_floats_outside(cells: pa.ChunkedArray, bounds: Range) -> pa.ChunkedArray:
    outside = pc.is_nan(cells)
    if (low := bounds.minimum) is not None:
        nearest = float(low)
        least = nearest if nearest >= low else math.nextafter(nearest, math.inf)
        outside = pc.or_(outside, pc.less(cells, least))
    if (high := bounds.maximum) is not None:
        nearest = float(high)
        greatest = nearest if nearest <= high else math.nextafter(nearest, -math.inf)
        outside = pc.or_(outside, pc.greater(cells, greatest))
    return outside


def _find_integers_outside(cells: pa.ChunkedArray, bounds: Range) -> pa.ChunkedArray:
    bits = cells.type.bit_width
    least, greatest = 0, 2**bits - 1
    if pa.types.is_signed_integer(cells.type):
        least, greatest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    low = least if bounds.minimum is None else math.ceil(bounds.minimum)
    high = greatest if bounds.maximum is None else math.floor(bounds.maximum)
    if low > greatest or high < least:
        return pc.is_valid(cells)
    # In the type of the column, because Arrow cannot compare the upper half of UInt64 with Int64.
    return pc.or_(
        pc.less(cells, pa.scalar(max(low, least), cells.type)),
        pc.greater(cells, pa.scalar(min(high, greatest), cells.type)),
    )


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def find_unmatched(texts: pa.ChunkedArray, pattern: str, *, label: str) -> pa.ChunkedArray:
    """Mark the texts that do not contain a match of a pattern; null for null."""
    # RE2 rejects a backslash before a non-ASCII character.
    for_re2 = _ESCAPED.sub(lambda each: each[0] if each[1].isascii() else each[1], pattern)
    try:
        return pc.invert(pc.match_substring_regex(texts, pattern=for_re2))
    except pa.ArrowInvalid as error:
        # RE2 does not compile many long repetitions in a row.
        raise InvalidValueError(
            subject=f"@check on {label}",
            expected="a smaller pattern",
            value=pattern,
            problem=f"the pattern cannot be run ({error}); the graph is unchanged; "
            "shorten its repetitions in the schema",
        ) from error


@dataclass(frozen=True, slots=True)
class ValueFaults:
    """The rows that violate one rule, and a function that describes each violation."""

    rows: RowNumbers
    describe: Callable[[int], Violation]


def check_values(change: TableChange) -> Iterator[Violations]:
    """The violations of value rules by the rows that a write puts, rule by rule."""
    return (make_violations(each.rows, each.describe) for each in find_value_faults(change))


def find_value_faults(change: TableChange) -> Iterator[ValueFaults]:
    """All rows that violate a value rule, rule by rule; the rules of the type are in order."""
    properties = [change.type.properties[name] for name in sorted(change.type.properties)]
    for each in properties:
        yield _check_required(_column(change, each.name), each)
    for each in properties:
        if each.type.enum_values is not None:
            yield _check_enum(_column(change, each.name), each, each.type.enum_values)
    for constraint in change.type.constraints:
        if isinstance(constraint, Range):
            yield _check_range(_column(change, constraint.property), constraint)
    for constraint in change.type.constraints:
        if isinstance(constraint, Check):
            yield _check_pattern(_column(change, constraint.property), constraint)


@dataclass(frozen=True, slots=True)
class _Column:
    """One property of the rows that a write puts."""

    type_name: str
    name: str
    ids: pa.ChunkedArray
    cells: pa.ChunkedArray

    @property
    def label(self) -> str:
        return f"{self.type_name}.{self.name}"

    def id(self, row: int) -> str:
        return str(self.ids[row].as_py())

    def blame(self, row: int, cell: pa.Scalar, *, rule: str, problem: str) -> Violation:
        message = f"{problem} (row {show_text(self.id(row))})"
        return self.violation(row, rule=rule, value=plain_value(cell), message=message)

    def violation(self, row: int, *, rule: str, value: object, message: str) -> Violation:
        return Violation(
            type=self.type_name,
            id=self.id(row),
            rule=rule,
            property=self.name,
            value=value,
            message=message,
        )


def _column(change: TableChange, name: str) -> _Column:
    return _Column(change.type.name, name, change.put.column("id"), change.put.column(name))


def _check_required(column: _Column, declared: Property) -> ValueFaults:
    cells = column.cells
    rows = _no_rows()
    if cells.null_count and not declared.type.is_nullable:
        rows = _true_rows(pc.is_null(cells))
    is_nested = declared.type.is_list or declared.type.is_vector
    # Flattening copies every vector if one is null, so check the child values first.
    if is_nested and any(chunk.values.null_count for chunk in cells.chunks):
        is_hole = pc.is_null(pc.list_flatten(cells))
        rows = np.union1d(rows, _parent_rows(cells)[_true_rows(is_hole)])

    def describe(row: int) -> Violation:
        shown = show_text(column.id(row))
        problem = f"missing required property {column.label}: row {shown} has null"
        if cells[row].is_valid:
            problem = f"{column.label} of row {shown} has a null among its elements"
        return column.violation(row, rule="required", value=None, message=problem)

    return ValueFaults(rows, describe)


def _check_enum(column: _Column, declared: Property, allowed: tuple[str, ...]) -> ValueFaults:
    is_list = declared.type.is_list
    values = pc.list_flatten(column.cells) if is_list else column.cells
    is_known = pc.is_in(values, value_set=pa.array(allowed, values.type))
    wrong = _true_rows(pc.and_not(pc.is_valid(values), is_known))
    rows = _parent_rows(column.cells)[wrong] if is_list and len(wrong) else wrong

    def describe(row: int) -> Violation:
        cell = values[int(wrong[np.searchsorted(rows, row)])]
        problem = f"invalid enum value {show_value(cell)} for {column.label}"
        problem = f"{problem} (expected: {', '.join(allowed)})"
        return column.blame(row, cell, rule="enum", problem=problem)

    return ValueFaults(np.unique(rows), describe)


def _check_range(column: _Column, bounds: Range) -> ValueFaults:
    rows = _true_rows(find_outside(column.cells, bounds))

    def describe(row: int) -> Violation:
        cell = column.cells[row]
        problem = f"@range violation on {column.label}: value {describe_excess(cell, bounds)}"
        return column.blame(row, cell, rule="range", problem=problem)

    return ValueFaults(rows, describe)


def _check_pattern(column: _Column, check: Check) -> ValueFaults:
    rows = _true_rows(find_unmatched(column.cells, check.pattern, label=column.label))

    def describe(row: int) -> Violation:
        cell = column.cells[row]
        problem = f"@check violation on {column.label}: value {show_value(cell)}"
        problem = f"{problem} does not match pattern '{check.pattern}'"
        return column.blame(row, cell, rule="check", problem=problem)

    return ValueFaults(rows, describe)


def _no_rows() -> RowNumbers:
    return np.empty(0, np.int64)


def _true_rows(mask: pa.ChunkedArray) -> RowNumbers:
    if not pc.any(mask).as_py():
        return _no_rows()
    return np.flatnonzero(pc.fill_null(mask, fill_value=False).to_numpy())


def _parent_rows(lists: pa.ChunkedArray) -> RowNumbers:
    """The row of each element of a column of lists."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return np.repeat(np.arange(len(lists)), lengths)
