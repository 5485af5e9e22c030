"""Typed values as Arrow columns, and the comparison of two columns row by row.

Integers widen to floats, timestamps are truncated to milliseconds, and a value that its type
cannot hold raises `InvalidValueError`. Numbers compare exactly, whatever their widths. Null
matches nothing, and NaN is unequal to every value. Null and enum rules are integrity rules and are
not checked here.
"""

from __future__ import annotations

import operator
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.ir import Comparator, Value
from omnigraph.engine.rows.comparisons import (
    MIRRORED,
    OPERATOR_BY_COMPARATOR,
    RULE_BY_COMPARATOR,
    InList,
    InOrder,
    InText,
    Order,
    select,
)
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.types import INTEGER_RANGE, PropertyType, Scalar, Vector, fits_f32
from omnigraph.storage.row_files import TIMESTAMP, arrow_type, require_property_size

Stored = None | bool | int | float | str | bytes | tuple["Stored", ...]
"""A value as the number, text or bytes that a column stores."""

BLOB_PREFIX = "base64:"

SUBJECT = "a value of the query"
"""The subject of errors about parameters and literals."""

_EPOCH_DATE = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def column_of(values: Sequence[Value], type: PropertyType, *, subject: str) -> pa.Array:
    """The values as a column of a property's type; `subject` names the property in errors."""
    target = arrow_type(type)
    stored = [_store(each, type, subject) for each in values]
    return pa.array(stored, _stored_type(target)).cast(target)


def repeat_value(value: Value, type: PropertyType, *, count: int, subject: str) -> pa.Array:
    """A column that holds one value in every row."""
    return column_of((value,), type, subject=subject).take(pa.array(np.zeros(count, np.int64)))


def to_stored(value: Value) -> Stored:
    """The days of a date or the milliseconds of a timestamp; other values unchanged."""
    match value:
        case datetime():
            return (value - _EPOCH) // timedelta(milliseconds=1)
        case date():
            return (value - _EPOCH_DATE).days
        case tuple():
            return tuple(to_stored(each) for each in value)
        case _:
            return value


def _stored_type(target: pa.DataType) -> pa.DataType:
    """The type of stored values before the cast to dates and timestamps."""
    if target == TIMESTAMP:
        return pa.int64()
    if target == pa.date32():
        return pa.int32()
    if pa.types.is_list(target):
        return pa.list_(_stored_type(target.value_type))
    return target


def _store(value: Value, type: PropertyType, subject: str) -> Stored:
    if value is None:
        return None
    try:
        if isinstance(type.element, Vector):
            return tuple(_store_float(each, Scalar.F32) for each in _elements(value))
        if type.is_list:
            return tuple(_store_scalar(each, type.element) for each in _elements(value))
        return _store_scalar(value, type.element)
    except ValueError as error:
        raise InvalidValueError(
            subject=subject, expected=type.describe(), value=value, problem=str(error)
        ) from error


def _elements(value: Value) -> tuple[Value, ...]:
    assert isinstance(value, tuple), "the compiler lets no scalar be assigned to a list"
    return value


def _store_scalar(value: Value, scalar: Scalar) -> Stored:
    match scalar:
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            assert isinstance(value, int), "the compiler lets only whole numbers be assigned here"
            low, high = INTEGER_RANGE[scalar]
            if not low <= value <= high:
                raise ValueError(f"{value} exceeds {scalar} ({low} to {high})")
            return value
        case Scalar.F32 | Scalar.F64:
            return _store_float(value, scalar)
        case Scalar.BLOB:
            assert isinstance(value, str), "the compiler lets only texts be assigned to a blob"
            content = decode_blob(value)
            require_property_size(len(content))
            return content
        case Scalar.STRING:
            assert isinstance(value, str), "the compiler lets only texts be assigned here"
            require_property_size(len(value.encode()))
            return value
        case Scalar.BOOL | Scalar.DATE | Scalar.DATETIME:
            return to_stored(value)


def _store_float(value: Value, scalar: Scalar) -> float:
    assert isinstance(value, int | float), "the compiler lets only numbers be assigned here"
    if scalar is Scalar.F32 and not fits_f32(value):
        raise ValueError(f"the number is too large for {scalar}")
    return float(value)


def decode_blob(text: str) -> bytes:
    """The bytes that a text encodes; `ValueError` if it encodes none."""
    if not text.startswith(BLOB_PREFIX):
        raise ValueError(f'a blob is given as "{BLOB_PREFIX}…"')
    try:
        return b64decode(text.removeprefix(BLOB_PREFIX), validate=True)
    except ValueError as error:
        raise ValueError(f"the text after {BLOB_PREFIX} is not valid base64") from error


Marks = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64] | npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

_INTEGERS_END = 2.0**64

ARROW_FUNCTION_BY_COMPARATOR = {
    Comparator.EQ: pc.equal,
    Comparator.NE: pc.not_equal,
    Comparator.LT: pc.less,
    Comparator.LE: pc.less_equal,
    Comparator.GT: pc.greater,
    Comparator.GE: pc.greater_equal,
}


def compare(left: pa.Array, comparator: Comparator, right: pa.Array) -> Marks:
    """Mark the rows in which a comparison of two columns of equal length holds."""
    present: Marks = _present(left) & _present(right)
    match RULE_BY_COMPARATOR[comparator]:
        case InList(is_list_left):
            return _mark_lists(left, right) if is_list_left else _mark_lists(right, left)
        case InText(is_prefix):
            contains = str.startswith if is_prefix else operator.contains
            return present & _mark_texts(contains, left, right)
        case InOrder(orders):
            return present & _mark_order(left, comparator, orders, right)


def _mark_order(
    left: pa.Array, comparator: Comparator, orders: frozenset[Order], right: pa.Array
) -> Marks:
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return np.zeros(len(left), np.bool_)
    if pa.types.is_string(left.type):
        return known_marks(ARROW_FUNCTION_BY_COMPARATOR[comparator](left, right))
    match pa.types.is_floating(left.type), pa.types.is_floating(right.type):
        case (True, False):
            return compare(right, MIRRORED[comparator], left)
        case (False, True):
            return select(orders, _relate_mixed(_integers(left), _floats(right)))
        case (is_float, _):
            numbers = _floats if is_float else _integers
            # numpy compares signed with unsigned integers exactly, unlike its other operations.
            marks: Marks = OPERATOR_BY_COMPARATOR[comparator](numbers(left), numbers(right))
            return marks


def _relate_mixed(left: Integers, right: Floats) -> Mapping[Order, Marks]:
    """Compare integers with floats: by the whole part, then by whether there is a fraction."""
    is_unsigned = left.dtype == np.uint64
    low, high = (0.0, _INTEGERS_END) if is_unsigned else (-_INTEGERS_END / 2, _INTEGERS_END / 2)
    floors = np.floor(right)
    is_below, is_above = right < low, right >= high
    is_between = (right >= low) & ~is_above
    wholes = np.where(is_between, floors, 0.0).astype(left.dtype)
    has_fraction = right > floors
    is_whole_part = is_between & (left == wholes)
    return {
        Order.LESS: is_above | (is_between & (left < wholes)) | (is_whole_part & has_fraction),
        Order.EQUAL: is_whole_part & ~has_fraction,
        Order.GREATER: is_below | (is_between & (left > wholes)),
    }


def _mark_lists(lists: pa.Array, elements: pa.Array) -> Marks:
    """Mark the rows in which a list contains the element of the same row."""
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


def known_marks(marks: pa.Array | pa.ChunkedArray) -> Marks:
    """Marks with null as false."""
    known: Marks = pc.fill_null(marks, fill_value=False).to_numpy(zero_copy_only=False)
    return known
