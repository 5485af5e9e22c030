"""Arrow columns of any producer, made what a property stores, or refused at a row.

Nothing is lost on the way but what every other way in loses too: a timestamp below the
millisecond, a float below the precision of its type. Nulls stay nulls: whether a property may be
null is a rule about data, and not decided here. Knows nothing of names, types or records.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.ops.reading.moments import (
    MOMENT_MAX,
    MOMENT_MIN,
    MS_PER_DAY,
    floor_divide,
    parse_moments,
)
from omnigraph.engine.ops.reading.unfit import UnfitError, require_none, require_size, unfit
from omnigraph.model.types import INTEGER_RANGE, PropertyType, Scalar, Vector
from omnigraph.storage.arrow_schema import arrow_type

_BASE64 = "base64:"
_UNITS_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_OUTSIDE = "since 1970 lies outside the years 1 to 9999"

Ends = NDArray[np.int64]
"""Where the elements of each row end, counted over all rows."""


def fit(column: pa.Array, wanted: PropertyType) -> pa.Array:
    """The column as the property stores it; `UnfitError` tells of the first row that cannot be."""
    plain = _decode(column)
    if plain.null_count == len(plain):
        return pa.nulls(len(plain), arrow_type(wanted))
    if isinstance(wanted.element, Vector):
        return _fit_vector(plain, wanted.element)
    if wanted.is_list:
        return _fit_list(plain, wanted)
    return _fit_scalar(plain, wanted.element)


def exceeds(number: object, scalar: Scalar) -> str:
    """What is wrong with a number outside an integer type."""
    low, high = INTEGER_RANGE[scalar]
    return f"{number} exceeds {scalar} ({low} to {high})"


def is_list(kind: pa.DataType) -> bool:
    """Whether the values of an Arrow type are arrays, however it lays them out."""
    is_one = (
        pa.types.is_list,
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(is_kind(kind) for is_kind in is_one)


def row_of(ends: Ends, element: int) -> int:
    """The row that an element belongs to."""
    return int(np.searchsorted(ends, element, side="right"))


def _decode(column: pa.Array) -> pa.Array:
    """The same values without dictionaries, runs and extensions."""
    while True:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        elif isinstance(column, pa.RunEndEncodedArray):
            column = pc.run_end_decode(column)
        elif isinstance(column, pa.DictionaryArray):
            values = _decode(column.dictionary)
            if pa.types.is_string_view(values.type):  # which pyarrow 26 cannot take from
                values = values.cast(pa.string())
            column = pc.take(values, column.indices)
        else:
            return column


def _fit_scalar(column: pa.Array, scalar: Scalar) -> pa.Array:
    match scalar:
        case Scalar.STRING:
            return _fit_text(column)
        case Scalar.BLOB:
            return _fit_blob(column)
        case Scalar.BOOL:
            is_boolean = pa.types.is_boolean(column.type)
            _require_type(column, is_accepted=is_boolean, need="true or false is needed")
            return column
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return _fit_integer(column, scalar)
        case Scalar.F32 | Scalar.F64:
            return _fit_float(column, scalar)
        case Scalar.DATE:
            return _fit_date(column)
        case Scalar.DATETIME:
            return _fit_datetime(column)


def _require_type(column: pa.Array, *, is_accepted: bool, need: str) -> None:
    if not is_accepted:
        require_none(column.is_valid(), column, lambda _: f"{need}, not {column.type}")


def _require_within(
    numbers: pa.Array, low: int, high: int, describe: Callable[[object], str]
) -> None:
    bounds = pc.min_max(numbers).as_py()
    if low <= bounds["min"] and bounds["max"] <= high:
        return
    for row, number in enumerate(numbers.to_pylist()):
        if number is not None and not low <= number <= high:
            raise unfit(row, number, describe(number))


def _is_text(kind: pa.DataType) -> bool:
    is_one = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in is_one)


def _fit_text(column: pa.Array) -> pa.Array:
    _require_type(column, is_accepted=_is_text(column.type), need="a string is needed")
    texts = pc.cast(column, pa.string())
    require_size(texts)
    return texts


def _fit_blob(column: pa.Array) -> pa.Array:
    if _is_text(column.type):
        blobs = _decode_blobs(column)
    else:
        is_one = (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        )
        is_binary = any(is_kind(column.type) for is_kind in is_one)
        _require_type(column, is_accepted=is_binary, need="bytes are needed")
        blobs = pc.cast(column, pa.large_binary())
    require_size(blobs)
    return blobs


def _decode_blobs(column: pa.Array) -> pa.Array:
    blobs: list[bytes | None] = []
    # A call a blob: each is large, and Arrow has no base64.
    for row, text in enumerate(column.to_pylist()):
        if text is not None and not text.startswith(_BASE64):
            problem = 'a blob is given as "base64:…"'
            raise unfit(row, text, problem)
        try:
            blobs.append(None if text is None else b64decode(text[len(_BASE64) :], validate=True))
        except ValueError as error:
            raise unfit(row, text, "what follows base64: is no base64") from error
    return pa.array(blobs, pa.large_binary())


def _fit_integer(column: pa.Array, scalar: Scalar) -> pa.Array:
    kind = column.type
    is_whole = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)
    _require_type(column, is_accepted=is_whole, need="a whole number is needed")
    _require_within(column, *INTEGER_RANGE[scalar], lambda number: exceeds(number, scalar))
    return pc.cast(column, arrow_type(PropertyType(scalar)))


def _fit_float(column: pa.Array, scalar: Scalar) -> pa.Array:
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    _require_type(column, is_accepted=is_number, need="a number is needed")
    stored = arrow_type(PropertyType(scalar))
    if kind == stored:
        return column
    # An integer is rounded to the nearest float, as everywhere else.
    numbers = pc.cast(column, pa.float64(), safe=False)
    floats = pc.cast(numbers, stored, safe=False)
    is_lost = pc.and_(pc.is_inf(floats), pc.is_finite(numbers))
    require_none(is_lost, numbers, lambda _: f"the number is too large for {scalar}")
    return floats


def _fit_date(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_date32(kind):
        days = pc.cast(column, pa.int32())
    elif pa.types.is_integer(kind):
        days = column
    else:
        days = floor_divide(_moments_of(column, "Date"), MS_PER_DAY)
    low, high = MOMENT_MIN // MS_PER_DAY, MOMENT_MAX // MS_PER_DAY
    _require_within(days, low, high, lambda number: f"day {number} {_OUTSIDE}")
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())


def _fit_datetime(column: pa.Array) -> pa.Array:
    is_number = pa.types.is_integer(column.type)
    moments = column if is_number else _moments_of(column, "DateTime")
    _require_within(
        moments, MOMENT_MIN, MOMENT_MAX, lambda number: f"millisecond {number} {_OUTSIDE}"
    )
    # Not from a timestamp: that cast would cut every instant to its day.
    return pc.cast(pc.cast(moments, pa.int64()), pa.date64())


def _moments_of(column: pa.Array, word: str) -> pa.Array:
    """Milliseconds since 1970."""
    kind = column.type
    if _is_text(kind):
        return parse_moments(pc.cast(column, pa.string()), word=word)
    if pa.types.is_date64(kind):
        return pc.cast(column, pa.int64())
    if pa.types.is_date32(kind):
        return pc.multiply(pc.cast(pc.cast(column, pa.int32()), pa.int64()), MS_PER_DAY)
    is_timestamp = pa.types.is_timestamp(kind)
    _require_type(column, is_accepted=is_timestamp, need=f"a {word} is needed")
    numbers = pc.cast(column, pa.int64())
    if kind.unit == "s":
        low, high = MOMENT_MIN // 1000, MOMENT_MAX // 1000
        _require_within(numbers, low, high, lambda number: f"second {number} {_OUTSIDE}")
        return pc.multiply(numbers, 1000)
    return floor_divide(numbers, _UNITS_PER_MS[kind.unit])


def _fit_list(column: pa.Array, wanted: PropertyType) -> pa.Array:
    ends, elements = _unfold(column)
    fitted = _fit_elements(elements, wanted.list_element, ends)
    offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(offsets, fitted, type=arrow_type(wanted), mask=mask)


def _fit_vector(column: pa.Array, vector: Vector) -> pa.Array:
    ends, elements = _unfold(column)
    lengths, dimension = pc.list_value_length(column), vector.dimension
    is_other = pc.not_equal(lengths, dimension)
    require_none(is_other, lengths, lambda n: f"{vector} expects {dimension} dimensions, got {n}")
    floats = _fit_elements(elements, PropertyType(Scalar.F32), ends)
    stored = arrow_type(PropertyType(vector))
    if not column.null_count:
        return pa.FixedSizeListArray.from_arrays(floats, type=stored)
    # A row without a vector still takes the room of one.
    spread = np.zeros((len(column), dimension), np.float32)
    is_given = column.is_valid().to_numpy(zero_copy_only=False)
    spread[is_given] = floats.to_numpy().reshape(-1, dimension)
    filled = pa.array(spread.ravel())
    return pa.FixedSizeListArray.from_arrays(filled, type=stored, mask=column.is_null())


def _unfold(column: pa.Array) -> tuple[Ends, pa.Array]:
    """Where the elements of each row end, and all elements, none of them null."""
    _require_type(column, is_accepted=is_list(column.type), need="an array is needed")
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = np.cumsum(lengths.to_numpy(), dtype=np.int64)
    elements = _decode(pc.list_flatten(column))
    if elements.null_count:
        row = row_of(ends, pc.index(elements.is_null(), True).as_py())
        raise unfit(row, column[row].as_py(), "an element of an array cannot be null")
    return ends, elements


def _fit_elements(elements: pa.Array, wanted: PropertyType, ends: Ends) -> pa.Array:
    try:
        return fit(elements, wanted)
    except UnfitError as fault:
        fault.row = row_of(ends, fault.row)
        raise
