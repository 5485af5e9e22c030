"""A constant of one width beside a column of another: which values of the column lie around it."""

import math

import pytest

from omnigraph.engine.read.bounds import F32_MAX, F64_MAX, Bounds, find_bounds
from omnigraph.model.types import INTEGER_RANGE, INTEGERS, Scalar


@pytest.mark.parametrize("scalar", sorted(INTEGERS))
def test_a_fraction_lies_between_two_whole_numbers(scalar: Scalar) -> None:
    assert find_bounds(2.5, scalar) == Bounds(2, 3)


@pytest.mark.parametrize("scalar", sorted(INTEGERS))
def test_beyond_the_range_of_a_type_there_is_nothing(scalar: Scalar) -> None:
    low, high = INTEGER_RANGE[scalar]

    assert find_bounds(low - 1, scalar) == find_bounds(-math.inf, scalar) == Bounds(None, low)
    assert find_bounds(high + 1, scalar) == find_bounds(math.inf, scalar) == Bounds(high, None)
    assert find_bounds(-1e300, scalar) == Bounds(None, low)
    assert find_bounds(low, scalar) == Bounds(low, low)
    assert find_bounds(float(2**64), scalar) == Bounds(high, None)


@pytest.mark.parametrize(
    ("constant", "bounds"),
    [
        (0.1, Bounds(0.1, 0.1)),
        (7, Bounds(7.0, 7.0)),
        (2**53 + 1, Bounds(2.0**53, 2.0**53 + 2)),
        (-(2**53) - 1, Bounds(-(2.0**53) - 2, -(2.0**53))),
        (2**53 + 3, Bounds(2.0**53 + 2, 2.0**53 + 4)),
        (10**400, Bounds(F64_MAX, math.inf)),
        (-(10**400), Bounds(-math.inf, -F64_MAX)),
        (math.inf, Bounds(math.inf, math.inf)),
    ],
)
def test_a_whole_number_lies_between_two_floats(constant: float, bounds: Bounds) -> None:
    assert find_bounds(constant, Scalar.F64) == bounds


@pytest.mark.parametrize(
    ("constant", "bounds"),
    [
        (0.1, Bounds(0.10000000149011612, 0.10000000149011612)),
        (16777217.0, Bounds(16777216.0, 16777216.0)),
        (16777217, Bounds(16777216.0, 16777218.0)),
        (16777219, Bounds(16777218.0, 16777220.0)),
        (-16777217, Bounds(-16777218.0, -16777216.0)),
        (1e300, Bounds(F32_MAX, math.inf)),
        (-1e300, Bounds(-math.inf, -F32_MAX)),
        (10**39, Bounds(F32_MAX, math.inf)),
        (-(10**400), Bounds(-math.inf, -F32_MAX)),
        (1e-300, Bounds(0.0, 0.0)),
        (-math.inf, Bounds(-math.inf, -math.inf)),
    ],
)
def test_a_float_is_rounded_to_a_narrow_column_and_a_whole_number_is_not(
    constant: float, bounds: Bounds
) -> None:
    assert find_bounds(constant, Scalar.F32) == bounds
