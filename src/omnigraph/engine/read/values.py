"""Values of queries and parameters as Arrow columns of the type that a property is stored as.

Whole numbers widen to floats, timestamps are cut to milliseconds, `base64:` texts become the bytes
of a blob. A value that the type cannot hold is an `InvalidValueError`; whether null or a word of an
enum is allowed is a rule about rows and not asked here.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa

from omnigraph.compiler.ir import Value
from omnigraph.model.errors import InvalidValueError, LimitExceededError
from omnigraph.model.limits import PROPERTY_BYTES_MAX
from omnigraph.model.types import INTEGER_RANGE, PropertyType, Scalar, Vector, fits_f32
from omnigraph.storage.arrow_schema import arrow_type

Stored = None | bool | int | float | str | bytes | tuple["Stored", ...]
"""A value as the number, text or bytes that a column keeps."""

BLOB_PREFIX = "base64:"

_EPOCH_DATE = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def column_of(values: Sequence[Value], type: PropertyType, *, subject: str) -> pa.Array:
    """The values as a column of a property's type; the subject names the property in errors."""
    target = arrow_type(type)
    stored = [_store(each, type, subject) for each in values]
    return pa.array(stored, _stored_type(target)).cast(target)


def repeat_value(value: Value, type: PropertyType, *, count: int, subject: str) -> pa.Array:
    """A column that holds one value in every row."""
    return column_of((value,), type, subject=subject).take(pa.array(np.zeros(count, np.int64)))


def stored_form(value: Value) -> Stored:
    """The days or milliseconds of a date or timestamp; other values as they are."""
    match value:
        case datetime():
            return (value - _EPOCH) // timedelta(milliseconds=1)
        case date():
            return (value - _EPOCH_DATE).days
        case tuple():
            return tuple(stored_form(each) for each in value)
        case _:
            return value


def _stored_type(target: pa.DataType) -> pa.DataType:
    """The type that stored forms have before they are called dates."""
    if target == pa.date64():
        # Arrow would cut a timestamp to its day on the way.
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
            _require_size(len(content))
            return content
        case Scalar.STRING:
            assert isinstance(value, str), "the compiler lets only texts be assigned here"
            _require_size(len(value.encode()))
            return value
        case Scalar.BOOL | Scalar.DATE | Scalar.DATETIME:
            return stored_form(value)


def _require_size(byte_count: int) -> None:
    if byte_count > PROPERTY_BYTES_MAX:
        raise LimitExceededError(
            resource="the bytes of a property", limit=PROPERTY_BYTES_MAX, found=byte_count
        )


def _store_float(value: Value, scalar: Scalar) -> float:
    assert isinstance(value, int | float), "the compiler lets only numbers be assigned here"
    if scalar is Scalar.F32 and not fits_f32(value):
        raise ValueError(f"the number is too large for {scalar}")
    return float(value)


def decode_blob(text: str) -> bytes:
    """The bytes that a text stands for; `ValueError` says why it stands for none."""
    if not text.startswith(BLOB_PREFIX):
        raise ValueError(f"a blob is given as `{BLOB_PREFIX}…`")
    try:
        return b64decode(text.removeprefix(BLOB_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"the text after `{BLOB_PREFIX}` is not base64") from error
