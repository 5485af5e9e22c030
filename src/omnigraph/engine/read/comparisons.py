"""Two columns compared row by row.

Null matches nothing. Numbers compare as real numbers do, whatever their widths, so that no integer
is rounded to a float on the way; NaN is unequal to everything and neither less nor greater. Texts
compare by their UTF-8 bytes, false is less than true. Constants have `conditions` and `masks`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.ir import Comparator

Marks = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64] | npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

_INTEGERS_END = 2.0**64


def compare(left: pa.Array, comparator: Comparator, right: pa.Array) -> Marks:
    """Where a comparison of two columns of one length holds."""
    match comparator:
        case Comparator.LIST_CONTAINS:
            return _mark_lists(left, right)
        case Comparator.IN:
            return _mark_lists(right, left)
        case Comparator.STRING_CONTAINS:
            found = _mark_texts(operator.contains, left, right)
        case Comparator.STARTS_WITH:
            found = _mark_texts(str.startswith, left, right)
        case _:
            found = _mark(_relate(left, right), comparator)
    present: Marks = found & _present(left) & _present(right)
    return present


@dataclass(frozen=True, slots=True, eq=False)
class _Relation:
    """Where the left side is less than, equal to or greater than the right; nowhere for NaN."""

    less: Marks
    equal: Marks
    greater: Marks

    def reversed(self) -> _Relation:
        return _Relation(self.greater, self.equal, self.less)


def _mark(relation: _Relation, comparator: Comparator) -> Marks:
    match comparator:
        case Comparator.EQ:
            return relation.equal
        case Comparator.NE:
            return ~relation.equal
        case Comparator.LT:
            return relation.less
        case Comparator.LE:
            return relation.less | relation.equal
        case Comparator.GT:
            return relation.greater
        case Comparator.GE:
            return relation.greater | relation.equal
        case _:
            raise AssertionError(f"{comparator} is about lists or parts of texts")


def _relate(left: pa.Array, right: pa.Array) -> _Relation:
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        nowhere = np.zeros(len(left), np.bool_)
        return _Relation(nowhere, nowhere, nowhere)
    if pa.types.is_string(left.type):
        return _Relation(
            _known(pc.less(left, right)),
            _known(pc.equal(left, right)),
            _known(pc.greater(left, right)),
        )
    match pa.types.is_floating(left.type), pa.types.is_floating(right.type):
        case (True, True):
            return _relate_numbers(_floats(left), _floats(right))
        case (False, True):
            return _relate_mixed(_integers(left), _floats(right))
        case (True, False):
            return _relate_mixed(_integers(right), _floats(left)).reversed()
        case _:
            return _relate_numbers(_integers(left), _integers(right))


def _relate_numbers(left: Integers | Floats, right: Integers | Floats) -> _Relation:
    # numpy compares integers with and without a sign as they are, unlike other operations.
    return _Relation(left < right, left == right, left > right)


def _relate_mixed(left: Integers, right: Floats) -> _Relation:
    """Integers beside floats: by the whole part, then by whether there is a fraction."""
    is_unsigned = left.dtype == np.uint64
    low, high = (0.0, _INTEGERS_END) if is_unsigned else (-_INTEGERS_END / 2, _INTEGERS_END / 2)
    floors = np.floor(right)
    is_below, is_above = right < low, right >= high
    is_between = (right >= low) & ~is_above
    wholes = np.where(is_between, floors, 0.0).astype(left.dtype)
    has_fraction = right > floors
    is_whole_part = is_between & (left == wholes)
    return _Relation(
        less=is_above | (is_between & (left < wholes)) | (is_whole_part & has_fraction),
        equal=is_whole_part & ~has_fraction,
        greater=is_below | (is_between & (left > wholes)),
    )


def _mark_lists(lists: pa.Array, elements: pa.Array) -> Marks:
    """Where a list holds the element that stands beside it."""
    marks = np.zeros(len(lists), np.bool_)
    if pa.types.is_null(lists.type):
        return marks
    parents = pc.list_parent_indices(lists)
    beside = elements.take(parents)
    found = compare(lists.flatten(), Comparator.EQ, beside)
    marks[parents.to_numpy()[found]] = True
    return marks


def _floats(column: pa.Array) -> Floats:
    numbers: Floats = column.cast(pa.float64()).fill_null(0.0).to_numpy()
    return numbers


def _integers(column: pa.Array) -> Integers:
    """The numbers, days, milliseconds or truth values of a column, all with 64 bits."""
    type = column.type
    if pa.types.is_boolean(type):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(type):
        column = column.cast(pa.int32())
    wide = pa.uint64() if pa.types.is_uint64(type) else pa.int64()
    numbers: Integers = column.cast(wide).fill_null(0).to_numpy()
    return numbers


def _mark_texts(holds: Callable[[str, str], bool], left: pa.Array, right: pa.Array) -> Marks:
    # Arrow searches a column for one text at a time, and numpy's texts end at a NUL.
    lefts, rights = (each.cast(pa.string()).fill_null("").to_pylist() for each in (left, right))
    return np.fromiter(map(holds, lefts, rights), np.bool_, len(left))


def _present(column: pa.Array) -> Marks:
    marks: Marks = column.is_valid().to_numpy(zero_copy_only=False)
    return marks


def _known(marks: pa.Array) -> Marks:
    known: Marks = pc.fill_null(marks, fill_value=False).to_numpy(zero_copy_only=False)
    return known
