"""Literals in predicates: which use an index, and where Lance's order is not arithmetic's."""

import math
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.support.lance_probes import create_table

TIMESTAMP = pa.timestamp("ms", tz="UTC")
INSTANT = "'Timestamp(Millisecond, Some(\"UTC\"))'"
LAST = 253_402_300_799_999

NEGATIVE_NAN = -math.nan
FLOATS = [0.0, -0.0, math.nan, NEGATIVE_NAN, math.inf, -math.inf, 1.5, None]

COLUMNS = {
    "text": pa.array(["a", "it's", "back\\slash", "nul\0", "two\nlines", "😀", "", None]),
    "flag": pa.array([True, False, None, True, True, True, True, True]),
    "i32": pa.array([-(2**31), 2**31 - 1, 0, 1, 2, 3, 4, None], pa.int32()),
    "i64": pa.array([-(2**63), 2**63 - 1, 0, 1, 2, 3, 4, None], pa.int64()),
    "u32": pa.array([0, 2**32 - 1, 1, 2, 3, 4, 5, None], pa.uint32()),
    "u64": pa.array([0, 2**64 - 1, 2**63, 2, 3, 4, 5, None], pa.uint64()),
    "f32": pa.array(FLOATS, pa.float32()),
    "f64": pa.array(FLOATS, pa.float64()),
    "day": pa.array([-(2**31), 2**31 - 1, 0, 1, -1, 2, 3, None], pa.int32()).cast(pa.date32()),
    "at": pa.array([-(10**17), 10**17, 0, 1, -1, 2, 3, None], pa.int64()).cast(TIMESTAMP),
    # The last millisecond of the year 9999, as tables of earlier versions have it.
    "old": pa.array([-5, LAST, 0, 1, -1, 2, 3, None], pa.int64()).cast(pa.date64()),
}


@pytest.mark.parametrize(
    ("predicate", "row"),
    [
        ("`text` = 'it''s'", 1),
        ("`text` = 'back\\slash'", 2),
        ("`text` = 'nul\0'", 3),
        ("`text` = 'two\nlines'", 4),
        ("`text` = '😀'", 5),
        ("starts_with(`text`, 'it''')", 1),
        ("`flag` = false", 1),
        ("`i32` = -2147483648", 0),
        ("`i64` = arrow_cast('-9223372036854775808', 'Int64')", 0),
        ("`i64` = 9223372036854775807", 1),
        ("`u32` = 4294967295", 1),
        ("`u64` = 18446744073709551615", 1),
        ("`u64` IN (18446744073709551615)", 1),
        ("`f32` = 1.5", 6),
        ("`f64` = 1.5", 6),
        ("`f32` = arrow_cast('-inf', 'Float32')", 5),
        ("`f64` > 1.5 AND `f64` <= arrow_cast('inf', 'Float64')", 4),
        ("`day` = arrow_cast(2147483647, 'Date32')", 1),
        ("`day` IN (arrow_cast(-2147483648, 'Date32'))", 0),
        (f"`at` = arrow_cast(1, {INSTANT})", 3),
        (f"`at` < arrow_cast(-1, {INSTANT})", 0),
        (f"`at` IN (arrow_cast({10**17}, {INSTANT}))", 1),
        ("`old` = arrow_cast(1, 'Date64')", 3),
        (f"`old` IN (arrow_cast({LAST}, 'Date64'))", 1),
    ],
)
def test_a_literal_of_the_columns_type_uses_an_index(
    tmp_path: Path, predicate: str, row: int
) -> None:
    table = _indexed(tmp_path)

    assert "ScalarIndexQuery" in table.scanner(filter=predicate).explain_plan()
    assert _rows(table, predicate) == [row]


@pytest.mark.parametrize("predicate", ["`i64` = -9223372036854775808", "`day` = '1970-01-01'"])
def test_a_literal_that_is_taken_for_another_type_is_refused(
    tmp_path: Path, predicate: str
) -> None:
    table = _indexed(tmp_path)

    with pytest.raises(ValueError, match="could not convert"):
        _rows(table, predicate)


@pytest.mark.parametrize("column", ["f32", "f64"])
def test_nan_lies_beyond_the_infinity_of_its_sign_and_the_zeros_are_one(
    tmp_path: Path, column: str
) -> None:
    table = _indexed(tmp_path)

    assert _rows(table, f"`{column}` > 1.5") == [2, 4]
    assert _rows(table, f"`{column}` < 0.0") == [3, 5]
    assert _rows(table, f"`{column}` = 0.0") == _rows(table, f"`{column}` = -0.0") == [0, 1]
    assert _rows(table, f"`{column}` != 0.0") == [2, 3, 4, 5, 6]


def test_array_has_distinguishes_the_zeros_and_needs_its_own_width(tmp_path: Path) -> None:
    columns = {
        "row": [0, 1],
        "f64": pa.array([[0.0], [-0.0]]),
        "u64": pa.array([[1], [2]], pa.list_(pa.uint64())),
    }
    table = lance.dataset(create_table(tmp_path / "t", pa.table(columns)))

    assert _rows(table, "array_has(`f64`, 0.0)") == [0]
    assert _rows(table, "array_has(`f64`, -0.0)") == [1]
    assert _rows(table, "array_has(`u64`, arrow_cast(2, 'UInt64'))") == [1]
    with pytest.raises(ValueError, match="Failed to coerce"):
        _rows(table, "array_has(`u64`, 2)")


def test_a_timestamp_far_from_today_is_not_compared_with_a_date64(tmp_path: Path) -> None:
    table = _indexed(tmp_path)

    with pytest.raises(OSError, match=r"Cannot cast Date64|Arithmetic overflow"):
        table.count_rows(f"`at` = arrow_cast({LAST}, 'Date64')")
    with pytest.raises(OSError, match=r"Cannot cast Date64|Arithmetic overflow"):
        table.count_rows(f"`old` = arrow_cast({LAST}, {INSTANT})")


def test_brackets_nest_to_fourteen(tmp_path: Path) -> None:
    table = _indexed(tmp_path)

    assert _rows(table, _nested(14)) == list(range(7))
    with pytest.raises(ValueError, match="recursion limit"):
        _rows(table, _nested(15))


def _nested(depth: int) -> str:
    predicate = f"`at` > arrow_cast(-1, {INSTANT})"
    for _ in range(depth):
        predicate = f"`at` IS NOT NULL OR `text` IS NOT NULL AND ({predicate})"
    return predicate


def _indexed(folder: Path) -> lance.LanceDataset:
    uri = create_table(folder / "t", pa.table({"row": list(range(8)), **COLUMNS}))
    for name in COLUMNS:
        lance.dataset(uri).create_scalar_index(name, "BTREE")
    return lance.dataset(uri)


def _rows(table: lance.LanceDataset, predicate: str) -> list[int]:
    found = [
        sorted(table.scanner(filter=predicate, use_scalar_index=use).to_table()["row"].to_pylist())
        for use in (True, False)
    ]
    assert found[0] == found[1]
    return found[0]
