"""JSON values, one list a property, made what the property stores, or refused at a row.

Works on whole columns: what kinds of value a column holds is asked once, and only a column that is
refused is looked at value by value. Null and absent are the same here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from types import NoneType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.reading.fitting import exceeds, fit, row_of
from omnigraph.engine.ops.reading.unfit import UnfitError, unfit
from omnigraph.model.types import FLOATS, INTEGER_RANGE, INTEGERS, PropertyType, Scalar, Vector

_NAME_BY_KIND: dict[type, str] = {
    NoneType: "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}

_KINDS_BY_SCALAR: dict[Scalar, frozenset[type]] = {
    Scalar.STRING: frozenset({str}),
    Scalar.BLOB: frozenset({str}),
    Scalar.BOOL: frozenset({bool}),
    **dict.fromkeys(INTEGERS, frozenset({int})),
    **dict.fromkeys(FLOATS, frozenset({int, float})),
    Scalar.DATE: frozenset({int, str}),
    Scalar.DATETIME: frozenset({int, str}),
}

_NEED_BY_SCALAR: dict[Scalar, str] = {
    Scalar.STRING: "a string is needed",
    Scalar.BLOB: 'a string "base64:…" is needed',
    Scalar.BOOL: "true or false is needed",
    **dict.fromkeys(INTEGERS, "a whole number is needed"),
    **dict.fromkeys(FLOATS, "a number is needed"),
    Scalar.DATE: "a date, as text or in days since 1970, is needed",
    Scalar.DATETIME: "a timestamp, as text or in milliseconds since 1970, is needed",
}

_FLOAT_BEYOND_INTEGERS = 2.0**63


def name_kind(value: object) -> str:
    """What a value is called in JSON."""
    return _NAME_BY_KIND[type(value)]


def read_column(values: Sequence[object], wanted: PropertyType) -> pa.Array:
    """The column of a property; `UnfitError` tells of a row that cannot be stored."""
    kinds = set(map(type, values)) - {NoneType}
    if not kinds:
        return fit(pa.nulls(len(values)), wanted)
    if not isinstance(wanted.element, Scalar) or wanted.is_list:
        return fit(_fold(values, kinds, wanted), wanted)
    accepted = _KINDS_BY_SCALAR[wanted.element]
    if not kinds <= accepted:
        row = _first_row_of_other(values, accepted)
        raise unfit(row, values[row], _describe_other(values[row], wanted.element))
    if kinds == {int, str}:
        # Both spellings of a date in one column: read apart, then laid over each other.
        parts = ([v if type(v) is kind else None for v in values] for kind in (int, str))
        return pc.coalesce(*(read_column(part, wanted) for part in parts))
    return fit(_to_arrow(values, kinds, wanted.element), wanted)


def _to_arrow(values: Sequence[object], kinds: set[type], scalar: Scalar) -> pa.Array:
    """The values in the Arrow type that says what JSON said, and no more."""
    if str in kinds:
        return pa.array(values, pa.string())
    if bool in kinds:
        return pa.array(values, pa.bool_())
    if scalar in FLOATS:
        # Arrow would refuse an integer that a float rounds.
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
        raise unfit(row, values[row], problem) from error


def _fold(values: Sequence[object], kinds: set[type], wanted: PropertyType) -> pa.Array:
    """Arrays of a list or vector property, their elements already what the property stores."""
    if not kinds <= {list}:
        row = _first_row_of_other(values, frozenset({list}))
        raise unfit(row, values[row], f"an array is needed, not {name_kind(values[row])}")
    arrays = [each if isinstance(each, list) else [] for each in values]
    ends = np.cumsum(list(map(len, arrays)), dtype=np.int64)
    elements = list(chain.from_iterable(arrays))
    is_vector = isinstance(wanted.element, Vector)
    try:
        fitted = read_column(
            elements, PropertyType(Scalar.F32) if is_vector else wanted.list_element
        )
    except UnfitError as fault:
        fault.row = row_of(ends, fault.row)
        raise
    offsets = pa.array(np.concatenate(([0], ends)), pa.int64())
    mask = pa.array([each is None for each in values], pa.bool_())
    return pa.LargeListArray.from_arrays(offsets, fitted, mask=mask)


def _first_row_of_other(values: Sequence[object], accepted: frozenset[type]) -> int:
    known = accepted | {NoneType}
    return next(row for row, value in enumerate(values) if type(value) not in known)


def _describe_other(value: object, scalar: Scalar) -> str:
    if isinstance(value, float) and scalar in INTEGERS:
        # Integers of more than 64 bits are read as floats.
        if value.is_integer() and abs(value) >= _FLOAT_BEYOND_INTEGERS:
            return exceeds("the number", scalar)
        return f"{_NEED_BY_SCALAR[scalar]}, not {value!r}"
    return f"{_NEED_BY_SCALAR[scalar]}, not {name_kind(value)}"
