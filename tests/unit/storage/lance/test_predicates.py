"""Values looked up in Lance: how they are written in a predicate."""

import math

import pyarrow as pa
import pytest

from omnigraph.storage.lance.predicates import in_predicate
from omnigraph.storage.row_files import TIMESTAMP


@pytest.mark.parametrize(
    ("values", "predicate"),
    [
        (pa.array(["a", "it's", None]), "`x` IN ('a', 'it''s')"),
        (pa.array([1, -(2**63)]), "`x` IN (1, arrow_cast('-9223372036854775808', 'Int64'))"),
        (pa.array([2**64 - 1], pa.uint64()), "`x` IN (18446744073709551615)"),
        (pa.array([True, False]), "`x` IN (true, false)"),
        (pa.array([0.1, math.nan, None]), "`x` IN (0.1)"),
        (pa.array([0.5], pa.float32()), "`x` IN (0.5)"),
        (
            pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
            "`x` IN (arrow_cast(2147483647, 'Date32'))",
        ),
        (
            pa.array([10**17], pa.int64()).cast(TIMESTAMP),
            "`x` IN (arrow_cast(100000000000000000, 'Timestamp(Millisecond, Some(\"UTC\"))'))",
        ),
        (pa.array([], pa.string()), "false"),
        (pa.array([None, math.nan], pa.float64()), "false"),
    ],
)
def test_values_are_looked_up_as_they_are_stored(values: pa.Array, predicate: str) -> None:
    assert in_predicate("x", values) == predicate
