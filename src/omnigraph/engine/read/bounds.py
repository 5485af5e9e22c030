"""Numbers beside numbers: what a constant means to a column of another width.

Promises that comparing with what is found here is comparing with the constant itself, exactly, as
real arithmetic does; only a float that meets an `F32` column is rounded to `F32` first. Knows
neither conditions nor Arrow.
"""

from __future__ import annotations

import math
import struct
import sys
from dataclasses import dataclass

import numpy as np

from omnigraph.model.types import INTEGER_RANGE, Scalar, fits_f32

F32_MAX = float(np.finfo(np.float32).max)
F64_MAX = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Bounds:
    """The greatest value of a type that is no greater than a constant, and the least that is no
    smaller; None where the type has none. They are equal where the type has the constant itself."""

    below: int | float | None
    above: int | float | None


def find_bounds(constant: int | float, scalar: Scalar) -> Bounds:
    """The values of a numeric type around a constant, which is not NaN."""
    match scalar:
        case Scalar.F32:
            return _around_f32(constant)
        case Scalar.F64:
            return _around_f64(constant)
        case _:
            low, high = INTEGER_RANGE[scalar]
            return _around_integer(constant, low, high)


def _around_integer(constant: int | float, low: int, high: int) -> Bounds:
    # Python compares an integer with a float exactly, the infinities included.
    if constant < low:
        return Bounds(None, low)
    if constant > high:
        return Bounds(high, None)
    return Bounds(math.floor(constant), math.ceil(constant))


def _around_f64(constant: int | float) -> Bounds:
    if isinstance(constant, float):
        return Bounds(constant, constant)
    try:
        nearest = float(constant)
    except OverflowError:
        return _beyond(constant, F64_MAX)
    if nearest == constant:
        return Bounds(nearest, nearest)
    if nearest < constant:
        return Bounds(nearest, math.nextafter(nearest, math.inf))
    return Bounds(math.nextafter(nearest, -math.inf), nearest)


def _around_f32(constant: int | float) -> Bounds:
    if isinstance(constant, float):
        if math.isfinite(constant) and not fits_f32(constant):
            return _beyond(constant, F32_MAX)
        # A stored 0.1 equals 0.1, although no F32 is that number.
        rounded = _round_to_f32(constant)
        return Bounds(rounded, rounded)
    if abs(constant) > F32_MAX:
        return _beyond(constant, F32_MAX)
    nearest = _round_to_f32(constant)
    if nearest == constant:
        return Bounds(nearest, nearest)
    if nearest < constant:
        return Bounds(nearest, _next_f32(nearest, towards=math.inf))
    return Bounds(_next_f32(nearest, towards=-math.inf), nearest)


def _beyond(constant: int | float, largest: float) -> Bounds:
    """A finite constant that is too large for a float type lies before the infinity."""
    return Bounds(largest, math.inf) if constant > 0 else Bounds(-math.inf, -largest)


def _round_to_f32(number: int | float) -> float:
    (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    assert isinstance(rounded, float)
    return rounded


def _next_f32(number: float, *, towards: float) -> float:
    return float(np.nextafter(np.float32(number), np.float32(towards)))
