"""Rules about one value: it is there, it is one of an enum, in a range, matches a pattern.

A null is exempt from all but the first. Each rule is decided for whole columns; only a row that
breaks one is looked at, and it has one violation for each rule and property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.changes import TableChange
from omnigraph.engine.commit.integrity.bounds import describe_excess, find_outside
from omnigraph.engine.commit.integrity.patterns import find_unmatched
from omnigraph.engine.commit.integrity.violations import (
    RowNumbers,
    Violations,
    plain_value,
    show_text,
    show_value,
    tell,
)
from omnigraph.model.catalog import Check, Property, Range
from omnigraph.model.errors import Violation


@dataclass(frozen=True, slots=True)
class ValueFaults:
    """The rows that break one rule, and how to tell of each."""

    rows: RowNumbers
    describe: Callable[[int], Violation]


def check_values(change: TableChange) -> Iterator[Violations]:
    """Every value of the rows that a write puts, rule by rule."""
    return (tell(each.rows, each.describe) for each in find_value_faults(change))


def find_value_faults(change: TableChange) -> Iterator[ValueFaults]:
    """The same with every row that breaks a rule; the rules are those of the type, in order."""
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

    def blame(self, row: int, problem: str) -> str:
        return f"{problem} (row {show_text(self.id(row))})"

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
    # Flattening copies every vector if one is null, so first a look at what lies below.
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
        message = column.blame(row, f"{problem} (expected: {', '.join(allowed)})")
        return column.violation(row, rule="enum", value=plain_value(cell), message=message)

    return ValueFaults(np.unique(rows), describe)


def _check_range(column: _Column, bounds: Range) -> ValueFaults:
    rows = _true_rows(find_outside(column.cells, bounds))

    def describe(row: int) -> Violation:
        cell = column.cells[row]
        problem = f"@range violation on {column.label}: value {describe_excess(cell, bounds)}"
        message = column.blame(row, problem)
        return column.violation(row, rule="range", value=plain_value(cell), message=message)

    return ValueFaults(rows, describe)


def _check_pattern(column: _Column, check: Check) -> ValueFaults:
    rows = _true_rows(find_unmatched(column.cells, check.pattern, label=column.label))

    def describe(row: int) -> Violation:
        cell = column.cells[row]
        message = column.blame(
            row,
            f"@check violation on {column.label}: value {show_value(cell)} "
            f"does not match pattern '{check.pattern}'",
        )
        return column.violation(row, rule="check", value=plain_value(cell), message=message)

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
