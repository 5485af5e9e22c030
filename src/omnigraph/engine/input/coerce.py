"""Coercion of input columns, from Arrow or JSON, to the stored types of properties.

A value that does not fit raises an error that identifies its row. The only losses are timestamp
digits below the millisecond and float digits below the precision of the type. Nulls pass through:
whether a property may be null is an integrity rule. The module knows no property names, types of
the schema, or files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from types import NoneType
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.rows.values import decode_blob
from omnigraph.model.errors import InvalidValueError, LimitExceededError, RequestError
from omnigraph.model.limits import PROPERTY_BYTES_MAX
from omnigraph.model.types import (
    FLOATS,
    HAS_TIME_OF_DAY,
    INTEGER_RANGE,
    INTEGERS,
    IS_TOO_FINE,
    PropertyType,
    Scalar,
    Vector,
    explain,
    parse_date,
    parse_datetime,
)
from omnigraph.storage.row_files import TIMESTAMP, arrow_type


class CoercionError(Exception):
    """A row of a column that cannot be stored; `size` is set if only its size is wrong.

    The caller of a column reader sets `column`, and corrects `row` if it counts other rows.
    """

    def __init__(self, *, row: int, value: object, problem: str, size: int | None) -> None:
        super().__init__(problem)
        self.row, self.value, self.problem, self.size = row, value, problem, size
        self.column = ""


def invalid_value(row: int, value: object, problem: str) -> CoercionError:
    """The error for a row with an invalid value."""
    return CoercionError(row=row, value=value, problem=problem, size=None)


def require_none(faults: pa.Array, values: pa.Array, describe: Callable[[object], str]) -> None:
    """Raise `CoercionError` for the first row that is marked in `faults`."""
    row = pc.index(faults, True).as_py()
    if row >= 0:
        value = values[row].as_py()
        raise invalid_value(row, value, describe(value))


def require_size(values: pa.Array) -> None:
    """Raise `CoercionError` for the first text or blob above `PROPERTY_BYTES_MAX`."""
    sizes = pc.binary_length(values)
    row = pc.index(pc.greater(sizes, PROPERTY_BYTES_MAX), True).as_py()
    if row >= 0:
        raise CoercionError(row=row, value=None, problem="too large", size=sizes[row].as_py())


def refusal(fault: CoercionError, *, subject: str, expected: str) -> RequestError:
    """The error for a value that does not fit, to be raised to the caller of a load."""
    if fault.size is not None:
        resource = f"the size of {subject} in bytes"
        return LimitExceededError(resource=resource, limit=PROPERTY_BYTES_MAX, found=fault.size)
    return InvalidValueError(
        subject=subject, expected=expected, value=fault.value, problem=fault.problem
    )


MS_PER_DAY = 86_400_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

TIMESTAMP_MIN = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MS
TIMESTAMP_MAX = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS
"""The first and last millisecond of the years 1 to 9999."""

_ISO_DATE_CHARACTERS = 10
_ISO_TIMESTAMP = (
    r"^(?P<seconds>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)"
    r"(?:\.(?P<fraction>\d{1,3})0*)?(?P<zone>[Zz]|[+-]\d\d:?\d\d)?$"
)


def parse_timestamps(texts: pa.Array, scalar: Scalar) -> pa.Array:
    """The timestamps of `Date` or `DateTime` texts, in milliseconds since 1970.

    Raises `CoercionError` for the first invalid text.
    """
    try:
        timestamps = _parse_dates(texts)
        if timestamps is None and scalar is Scalar.DATETIME:
            timestamps = _parse_timestamps(texts)
    except pa.ArrowInvalid:
        timestamps = None
    if timestamps is None or not _is_within_years(timestamps):
        return _parse_distinct(texts, scalar)
    return timestamps


def floor_divide(numbers: pa.Array, divisor: int) -> pa.Array:
    """Quotients rounded down, so that a timestamp before 1970 belongs to its own day."""
    quotients = pc.divide(numbers, divisor)
    is_above = pc.less(numbers, pc.multiply(quotients, divisor))
    return pc.subtract(quotients, pc.cast(is_above, pa.int64()))


def _parse_dates(texts: pa.Array) -> pa.Array | None:
    """The starts of days, or None if a text does not have the form of an ISO date.

    Raises `ArrowInvalid` if a text is not a day of the calendar.
    """
    lengths = pc.min_max(pc.binary_length(texts)).as_py()
    if lengths != {"min": _ISO_DATE_CHARACTERS, "max": _ISO_DATE_CHARACTERS}:
        return None
    days = pc.cast(pc.cast(texts, pa.date32()), pa.int32())
    return pc.multiply(pc.cast(days, pa.int64()), MS_PER_DAY)


def _parse_timestamps(texts: pa.Array) -> pa.Array | None:
    """The timestamps, or None if a text does not have the form of an ISO timestamp.

    Raises `ArrowInvalid` if a text is not a time of the calendar.
    """
    parts = pc.extract_regex(texts, _ISO_TIMESTAMP)
    if parts.null_count != texts.null_count:
        return None
    seconds = pc.cast(pc.cast(parts.field("seconds"), pa.timestamp("s")), pa.int64())
    fractions = pc.utf8_rpad(parts.field("fraction"), 3, "0")
    timestamps = pc.add(pc.multiply(seconds, 1000), pc.cast(fractions, pa.int64()))
    zones = parts.field("zone").dictionary_encode()
    try:
        epochs = [
            parse_datetime(f"1970-01-01T00:00:00{zone or ''}")
            for zone in zones.dictionary.to_pylist()
        ]
    except ValueError:
        return None
    offsets = pa.array([(_EPOCH - epoch) // _MS for epoch in epochs], pa.int64())
    return pc.subtract(timestamps, pc.take(offsets, zones.indices))


def _is_within_years(timestamps: pa.Array) -> bool:
    bounds = pc.min_max(timestamps).as_py()
    return bounds["min"] is None or (
        bounds["min"] >= TIMESTAMP_MIN and bounds["max"] <= TIMESTAMP_MAX
    )


def _parse_distinct(texts: pa.Array, scalar: Scalar) -> pa.Array:
    spellings = texts.dictionary_encode()
    timestamps: list[int] = []
    for code, text in enumerate(spellings.dictionary.to_pylist()):
        try:
            timestamps.append(_parse_one(text, scalar))
        except ValueError as error:
            # Dictionary codes are assigned in order of first use, so this is the first invalid row.
            row = pc.index(spellings.indices, pa.scalar(code, spellings.indices.type)).as_py()
            problem = f"invalid {scalar} literal {text[:40]!r}{explain(error)}"
            raise invalid_value(row, text, problem) from error
    return pc.take(pa.array(timestamps, pa.int64()), spellings.indices)


def _parse_one(text: str, scalar: Scalar) -> int:
    if scalar is Scalar.DATE:
        return (parse_date(text) - _EPOCH.date()).days * MS_PER_DAY
    return (parse_datetime(text) - _EPOCH) // _MS


_UNITS_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_OUTSIDE = "since 1970 lies outside the years 1 to 9999"

V = TypeVar("V")

Ends = NDArray[np.int64]
"""The end offset of the elements of each row, counted over all rows."""


def coerce_column(column: pa.Array, wanted: PropertyType) -> pa.Array:
    """The column in its stored type; raises `CoercionError` for the first row that does not fit."""
    plain = _decode(column)
    if plain.null_count == len(plain):
        return pa.nulls(len(plain), arrow_type(wanted))
    if isinstance(wanted.element, Vector):
        return _coerce_vector(plain, wanted.element)
    if wanted.is_list:
        return _coerce_list(plain, wanted)
    return _coerce_scalar(plain, wanted.element)


def exceeds(number: object, scalar: Scalar) -> str:
    """The message for a number outside the range of an integer type."""
    low, high = INTEGER_RANGE[scalar]
    return f"{number} exceeds {scalar} ({low} to {high})"


def is_list(kind: pa.DataType) -> bool:
    """Whether the values of an Arrow type are lists, in any of its layouts."""
    is_one = (
        pa.types.is_list,
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(is_kind(kind) for is_kind in is_one)


def row_of(ends: Ends, element: int) -> int:
    """The row that contains an element."""
    return int(np.searchsorted(ends, element, side="right"))


def _decode(column: pa.Array) -> pa.Array:
    """The same values without dictionary, run-end and extension encodings."""
    while True:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        elif isinstance(column, pa.RunEndEncodedArray):
            column = pc.run_end_decode(column)
        elif isinstance(column, pa.DictionaryArray):
            values = _decode(column.dictionary)
            if pa.types.is_string_view(values.type):  # pyarrow 26 has no `take` for these
                values = values.cast(pa.string())
            column = pc.take(values, column.indices)
        else:
            return column


def _coerce_scalar(column: pa.Array, scalar: Scalar) -> pa.Array:
    match scalar:
        case Scalar.STRING:
            return _coerce_text(column)
        case Scalar.BLOB:
            return _coerce_blob(column)
        case Scalar.BOOL:
            is_boolean = pa.types.is_boolean(column.type)
            _require_type(column, is_accepted=is_boolean, need="true or false is needed")
            return column
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return _coerce_integer(column, scalar)
        case Scalar.F32 | Scalar.F64:
            return _coerce_float(column, scalar)
        case Scalar.DATE:
            return _coerce_date(column)
        case Scalar.DATETIME:
            return _coerce_datetime(column)


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
            raise invalid_value(row, number, describe(number))


def _is_text(kind: pa.DataType) -> bool:
    is_one = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in is_one)


def _coerce_text(column: pa.Array) -> pa.Array:
    _require_type(column, is_accepted=_is_text(column.type), need="a string is needed")
    texts = pc.cast(column, pa.string())
    require_size(texts)
    return texts


def _coerce_blob(column: pa.Array) -> pa.Array:
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
    # Decoded one by one, because Arrow has no base64; blobs are large, so the calls are cheap.
    for row, text in enumerate(column.to_pylist()):
        try:
            blobs.append(None if text is None else decode_blob(text))
        except ValueError as error:
            raise invalid_value(row, text, str(error)) from error
    return pa.array(blobs, pa.large_binary())


def _coerce_integer(column: pa.Array, scalar: Scalar) -> pa.Array:
    kind = column.type
    is_whole = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)
    _require_type(column, is_accepted=is_whole, need="a whole number is needed")
    _require_within(column, *INTEGER_RANGE[scalar], lambda number: exceeds(number, scalar))
    return pc.cast(column, arrow_type(PropertyType(scalar)))


def _coerce_float(column: pa.Array, scalar: Scalar) -> pa.Array:
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    _require_type(column, is_accepted=is_number, need="a number is needed")
    stored = arrow_type(PropertyType(scalar))
    if kind == stored:
        return column
    # An integer is rounded to the nearest float, as in all other readers.
    numbers = pc.cast(column, pa.float64(), safe=False)
    floats = pc.cast(numbers, stored, safe=False)
    is_lost = pc.and_(pc.is_inf(floats), pc.is_finite(numbers))
    require_none(is_lost, numbers, lambda _: f"the number is too large for {scalar}")
    return floats


def _coerce_date(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_date32(kind):
        days = pc.cast(column, pa.int32())
    else:
        timestamps = _timestamps_of(column, Scalar.DATE)
        days = floor_divide(timestamps, MS_PER_DAY)
        is_within = pc.not_equal(pc.multiply(days, MS_PER_DAY), timestamps)
        require_none(is_within, timestamps, lambda _: HAS_TIME_OF_DAY)
    low, high = TIMESTAMP_MIN // MS_PER_DAY, TIMESTAMP_MAX // MS_PER_DAY
    _require_within(days, low, high, lambda number: f"day {number} {_OUTSIDE}")
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())


def _coerce_datetime(column: pa.Array) -> pa.Array:
    is_number = pa.types.is_integer(column.type)
    timestamps = column if is_number else _timestamps_of(column, Scalar.DATETIME)
    _require_within(
        timestamps, TIMESTAMP_MIN, TIMESTAMP_MAX, lambda number: f"millisecond {number} {_OUTSIDE}"
    )
    return pc.cast(pc.cast(timestamps, pa.int64()), TIMESTAMP)


def _timestamps_of(column: pa.Array, scalar: Scalar) -> pa.Array:
    """Milliseconds since 1970."""
    kind = column.type
    if _is_text(kind):
        return parse_timestamps(pc.cast(column, pa.string()), scalar)
    if pa.types.is_date64(kind):
        return pc.cast(column, pa.int64())
    if pa.types.is_date32(kind):
        return pc.multiply(pc.cast(pc.cast(column, pa.int32()), pa.int64()), MS_PER_DAY)
    is_timestamp = pa.types.is_timestamp(kind)
    _require_type(column, is_accepted=is_timestamp, need=f"a {scalar} is needed")
    numbers = pc.cast(column, pa.int64())
    if kind.unit == "s":
        low, high = TIMESTAMP_MIN // 1000, TIMESTAMP_MAX // 1000
        _require_within(numbers, low, high, lambda number: f"second {number} {_OUTSIDE}")
        return pc.multiply(numbers, 1000)
    units = _UNITS_PER_MS[kind.unit]
    timestamps = floor_divide(numbers, units)
    is_finer = pc.not_equal(pc.multiply(timestamps, units), numbers)
    problem = HAS_TIME_OF_DAY if scalar is Scalar.DATE else IS_TOO_FINE
    require_none(is_finer, numbers, lambda _: problem)
    return timestamps


def _coerce_list(column: pa.Array, wanted: PropertyType) -> pa.Array:
    ends, elements = _unfold(column)
    coerced = _fit_elements(coerce_column, elements, wanted.list_element, ends)
    offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(offsets, coerced, type=arrow_type(wanted), mask=mask)


def _coerce_vector(column: pa.Array, vector: Vector) -> pa.Array:
    ends, elements = _unfold(column)
    lengths, dimension = pc.list_value_length(column), vector.dimension
    is_other = pc.not_equal(lengths, dimension)
    require_none(is_other, lengths, lambda n: f"{vector} expects {dimension} dimensions, got {n}")
    floats = _fit_elements(coerce_column, elements, PropertyType(Scalar.F32), ends)
    stored = arrow_type(PropertyType(vector))
    if not column.null_count:
        return pa.FixedSizeListArray.from_arrays(floats, type=stored)
    # A null in a fixed-size list still occupies the space of a vector.
    spread = np.zeros((len(column), dimension), np.float32)
    is_given = column.is_valid().to_numpy(zero_copy_only=False)
    spread[is_given] = floats.to_numpy().reshape(-1, dimension)
    filled = pa.array(spread.ravel())
    return pa.FixedSizeListArray.from_arrays(filled, type=stored, mask=column.is_null())


def _unfold(column: pa.Array) -> tuple[Ends, pa.Array]:
    """The end offset of each row, and all elements; raises `CoercionError` for a null element."""
    _require_type(column, is_accepted=is_list(column.type), need="an array is needed")
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = np.cumsum(lengths.to_numpy(), dtype=np.int64)
    elements = _decode(pc.list_flatten(column))
    if elements.null_count:
        row = row_of(ends, pc.index(elements.is_null(), True).as_py())
        raise invalid_value(row, column[row].as_py(), "an element of an array cannot be null")
    return ends, elements


def _fit_elements(
    fit: Callable[[V, PropertyType], pa.Array], elements: V, wanted: PropertyType, ends: Ends
) -> pa.Array:
    """The elements in their stored type; a `CoercionError` names the row of the element."""
    try:
        return fit(elements, wanted)
    except CoercionError as fault:
        fault.row = row_of(ends, fault.row)
        raise


_NAME_BY_KIND: dict[type, str] = {
    NoneType: "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}

_JSON_BY_SCALAR: dict[Scalar, tuple[frozenset[type], str]] = {
    Scalar.STRING: (frozenset({str}), "a string is needed"),
    Scalar.BLOB: (frozenset({str}), 'a string "base64:…" is needed'),
    Scalar.BOOL: (frozenset({bool}), "true or false is needed"),
    **dict.fromkeys(INTEGERS, (frozenset({int}), "a whole number is needed")),
    **dict.fromkeys(FLOATS, (frozenset({int, float}), "a number is needed")),
    Scalar.DATE: (frozenset({str}), 'a date is needed, as text such as "2024-05-31"'),
    Scalar.DATETIME: (
        frozenset({int, str}),
        "a timestamp, as text or in milliseconds since 1970, is needed",
    ),
}
"""The JSON types that a value may have, and the message for others."""

_FLOAT_BEYOND_INTEGERS = 2.0**63


def name_kind(value: object) -> str:
    """The name of the JSON type of a value, with an article."""
    return _NAME_BY_KIND[type(value)]


def read_column(values: Sequence[object], wanted: PropertyType) -> pa.Array:
    """JSON values in the stored type; raises `CoercionError` for a row that cannot be stored."""
    kinds = set(map(type, values)) - {NoneType}
    if not kinds:
        return coerce_column(pa.nulls(len(values)), wanted)
    if not isinstance(wanted.element, Scalar) or wanted.is_list:
        return coerce_column(_fold(values, kinds, wanted), wanted)
    accepted, need = _JSON_BY_SCALAR[wanted.element]
    if not kinds <= accepted:
        row = _first_row_of_other(values, accepted)
        raise invalid_value(row, values[row], _describe_other(values[row], wanted.element, need))
    if kinds == {int, str}:
        # A column with both forms of a timestamp is read once per form, and the results are merged.
        parts = ([v if type(v) is kind else None for v in values] for kind in (int, str))
        return pc.coalesce(*(read_column(part, wanted) for part in parts))
    return coerce_column(_to_arrow(values, kinds, wanted.element), wanted)


def _to_arrow(values: Sequence[object], kinds: set[type], scalar: Scalar) -> pa.Array:
    """The values in the Arrow type of their JSON type, without conversions."""
    if str in kinds:
        return pa.array(values, pa.string())
    if bool in kinds:
        return pa.array(values, pa.bool_())
    if scalar in FLOATS:
        # Arrow rejects an integer that a float cannot represent exactly.
        if int in kinds:
            values = [float(v) if isinstance(v, int) else v for v in values]
        return pa.array(values, pa.float64())
    widest = Scalar.U64 if scalar is Scalar.U64 else Scalar.I64
    try:
        return pa.array(values, pa.uint64() if widest is Scalar.U64 else pa.int64())
    except OverflowError as error:
        low, high = INTEGER_RANGE[widest]
        row = next(r for r, v in enumerate(values) if isinstance(v, int) and not low <= v <= high)
        problem = exceeds(values[row], scalar if scalar in INTEGERS else widest)
        raise invalid_value(row, values[row], problem) from error


def _fold(values: Sequence[object], kinds: set[type], wanted: PropertyType) -> pa.Array:
    """The arrays of a list or vector property, with elements in their stored type."""
    if not kinds <= {list}:
        row = _first_row_of_other(values, frozenset({list}))
        raise invalid_value(row, values[row], f"an array is needed, not {name_kind(values[row])}")
    arrays = [each if isinstance(each, list) else [] for each in values]
    ends = np.cumsum(list(map(len, arrays)), dtype=np.int64)
    elements = list(chain.from_iterable(arrays))
    is_vector = isinstance(wanted.element, Vector)
    element_type = PropertyType(Scalar.F32) if is_vector else wanted.list_element
    coerced = _fit_elements(read_column, elements, element_type, ends)
    offsets = pa.array(np.concatenate(([0], ends)), pa.int64())
    mask = pa.array([each is None for each in values], pa.bool_())
    return pa.LargeListArray.from_arrays(offsets, coerced, mask=mask)


def _first_row_of_other(values: Sequence[object], accepted: frozenset[type]) -> int:
    known = accepted | {NoneType}
    return next(row for row, value in enumerate(values) if type(value) not in known)


def _describe_other(value: object, scalar: Scalar, need: str) -> str:
    if isinstance(value, float) and scalar in INTEGERS:
        # The JSON parser reads integers of more than 64 bits as floats.
        if value.is_integer() and abs(value) >= _FLOAT_BEYOND_INTEGERS:
            return exceeds("the number", scalar)
        return f"{need}, not {value!r}"
    return f"{need}, not {name_kind(value)}"
