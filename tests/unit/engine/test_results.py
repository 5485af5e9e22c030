"""A result of a query: its rows as JSON values, and the frames it becomes."""

import math
import sys
from datetime import UTC, date, datetime

import polars as pl
import pyarrow as pa
import pytest

from omnigraph.compiler.ir import Value
from omnigraph.engine.results import Result, ResultColumn
from omnigraph.engine.rows.values import column_of
from omnigraph.errors import InvalidValueError, NotFoundError
from omnigraph.model.types import (
    BOOL,
    DATE,
    DATETIME,
    F64,
    I64,
    STRING,
    PropertyType,
    Scalar,
    Vector,
)

F32 = PropertyType(Scalar.F32)
TIMESTAMP = datetime(2024, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC)

Given = tuple[str, PropertyType, list[Value]]


def result_of(*columns: Given, aggregates: frozenset[str] = frozenset()) -> Result:
    """A result with these columns; those named as aggregates were worked out over rows."""
    arrays = [column_of(values, type, subject=name) for name, type, values in columns]
    return Result(
        pa.Table.from_arrays(arrays, names=[str(number) for number in range(len(columns))]),
        columns=[ResultColumn(name, type, name in aggregates) for name, type, _ in columns],
        query_name="find",
        branch="main",
        commit_id="01K",
    )


GAUGE: list[Given] = [
    ("f", F64, [2.5]),
    ("g", F32, [0.1]),
    ("i", PropertyType(Scalar.I32), [1]),
    ("l", I64, [9007199254740993]),
    ("u", PropertyType(Scalar.U32), [7]),
    ("w", PropertyType(Scalar.U64), [12]),
    ("on", BOOL, [True]),
    ("day", DATE, [date(2024, 6, 1)]),
    ("at", DATETIME, [datetime(2024, 6, 1, 12, tzinfo=UTC)]),
    ("tags", PropertyType(Scalar.STRING, is_list=True), [("x", "y")]),
    ("nums", PropertyType(Scalar.I32, is_list=True), [(1, 2)]),
    ("v", PropertyType(Vector(2)), [(0.25, -1.0)]),
    ("kind", PropertyType(Scalar.STRING, enum_values=("cold", "hot")), ["hot"]),
]


def test_a_row_writes_every_type_as_json() -> None:
    (row,) = result_of(*GAUGE).rows

    assert list(row.values()) == [
        2.5,
        0.10000000149011612,
        1,
        9007199254740993,
        7,
        12,
        True,
        "2024-06-01",
        "2024-06-01T12:00:00.000Z",
        ["x", "y"],
        [1, 2],
        [0.25, -1.0],
        "hot",
    ]


def test_what_is_absent_is_null_whatever_its_type() -> None:
    nulls: list[Given] = [(name, type, [None]) for name, type, _values in GAUGE]

    (row,) = result_of(*nulls).rows

    assert row == dict.fromkeys(row)
    assert len(row) == 13


def test_numbers_that_json_lacks_are_words_and_null_inside_a_vector() -> None:
    unfinite = (math.nan, math.inf, -math.inf)

    result = result_of(
        ("f", F64, list(unfinite)),
        ("fs", PropertyType(Scalar.F32, is_list=True), [unfinite, (), (1.0,)]),
        ("v", PropertyType(Vector(3)), [unfinite, (1.0, 2.0, 3.0), None]),
    )

    words = ["NaN", "Infinity", "-Infinity"]
    assert [row["f"] for row in result] == words
    assert [row["fs"] for row in result] == [words, [], [1.0]]
    assert [row["v"] for row in result] == [[None, None, None], [1.0, 2.0, 3.0], None]


def test_a_result_knows_its_columns_its_length_and_where_it_was_read() -> None:
    result = result_of(("p.name", STRING, ["Ann", "Bob"]), ("n", I64, [1, 2]))

    assert result.columns == ["p.name", "n"]
    assert len(result) == 2
    assert list(result) == [{"p.name": "Ann", "n": 1}, {"p.name": "Bob", "n": 2}]
    assert (result.query_name, result.branch, result.commit_id) == ("find", "main", "01K")
    assert repr(result) == "<Result of find: 2 rows of p.name, n at commit 01K>"
    one = result_of(("n", I64, [1]))
    assert repr(one) == "<Result of find: 1 row of n at commit 01K>"


def test_rows_are_made_once() -> None:
    result = result_of(("n", I64, [1]))

    assert result.rows is result.rows


def test_a_repeated_name_keeps_the_last_in_a_row_and_both_in_arrow() -> None:
    result = result_of(("n", I64, [1]), ("n", STRING, ["one"]))

    assert result.columns == ["n", "n"]
    assert result.rows == [{"n": "one"}]
    assert [each.to_pylist() for each in result.to_arrow().columns] == [[1], ["one"]]
    assert result.to_arrow().column_names == ["n", "n"]


def test_a_plain_column_is_nullable_where_it_holds_null_and_an_aggregate_always() -> None:
    result = result_of(
        ("full", I64, [1, 2]),
        ("gaps", I64, [1, None]),
        ("total", I64, [1, 2]),
        aggregates=frozenset({"total"}),
    )

    fields = result.to_arrow().schema

    assert [each.nullable for each in fields] == [False, True, True]


def test_no_rows_still_have_columns_and_types() -> None:
    result = result_of(*((name, type, []) for name, type, _values in GAUGE))

    assert result.rows == []
    assert result.columns == [name for name, _type, _values in GAUGE]
    assert result.to_arrow().schema.types == result_of(*GAUGE).to_arrow().schema.types
    assert result.to_pandas().shape == (0, 13)
    assert result.to_polars().shape == (0, 13)


def test_any_reader_of_arrow_streams_takes_a_result() -> None:
    result = result_of(("n", I64, [1, None]), ("at", DATETIME, [TIMESTAMP, None]))

    assert pa.table(result).equals(result.to_arrow())


def test_pandas_keeps_whole_numbers_whole_and_instants_exact() -> None:
    large = 2**53 + 1
    result = result_of(
        ("n", I64, [large, None]),
        ("on", BOOL, [True, None]),
        ("at", DATETIME, [TIMESTAMP, None]),
        ("day", DATE, [date(2024, 6, 1), None]),
        ("times", PropertyType(Scalar.DATETIME, is_list=True), [(TIMESTAMP,), None]),
    )

    frame = result.to_pandas()

    assert [str(each) for each in frame.dtypes][:3] == ["Int64", "boolean", "datetime64[ms, UTC]"]
    first = frame.iloc[0]
    assert (first["n"], first["on"]) == (large, True)
    assert first["at"].to_pydatetime() == TIMESTAMP
    assert first["day"].date() == date(2024, 6, 1)
    assert frame.iloc[1].isna().all()


def test_pandas_takes_columns_without_null_as_numpy_has_them() -> None:
    frame = result_of(("n", I64, [1, 2]), ("n", BOOL, [True, False])).to_pandas()

    assert [str(each) for each in frame.dtypes] == ["int64", "bool"]
    assert list(frame.columns) == ["n", "n"]


def test_polars_gets_the_types_of_the_schema() -> None:
    result = result_of(
        ("n", I64, [2**53 + 1, None]),
        ("at", DATETIME, [TIMESTAMP, None]),
        ("v", PropertyType(Vector(2)), [(0.5, 1.0), None]),
        ("times", PropertyType(Scalar.DATETIME, is_list=True), [(TIMESTAMP,), None]),
    )

    frame = result.to_polars()

    timestamps = pl.Datetime("ms", "UTC")
    assert frame.dtypes == [pl.Int64, timestamps, pl.Array(pl.Float32, 2), pl.List(timestamps)]
    assert frame.row(0)[:2] == (2**53 + 1, TIMESTAMP)
    assert frame.row(1) == (None, None, None, None)


def test_polars_never_receives_two_columns_of_one_name() -> None:
    result = result_of(("n", I64, [1]), ("n", I64, [2]))

    with pytest.raises(InvalidValueError, match="two columns are named 'n'"):
        result.to_polars()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_package_that_is_not_installed_is_named(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = result_of(("n", I64, [1]))
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(NotFoundError, match=f"package '{package}' not found; install it"):
        getattr(result, f"to_{package}")()


def test_a_notebook_shows_some_rows_and_says_how_many_more() -> None:
    result = result_of(
        ("<b>", STRING, ["<script>"] * 23), ("n", I64, [None] * 23), ("f", F64, [math.nan] * 23)
    )

    shown = result._repr_html_()

    assert shown.count("<tr>") == 21
    assert "<th>&lt;b&gt;</th>" in shown
    assert "<tr><td>&lt;script&gt;</td><td>null</td><td>NaN</td></tr>" in shown
    assert "and 3 more rows" in shown


def test_a_notebook_cuts_long_cells_and_says_nothing_of_rows_when_all_are_there() -> None:
    shown = result_of(("v", PropertyType(Vector(100)), [(0.5,) * 100]))._repr_html_()

    assert "0.5,0.5" in shown
    assert "…</td>" in shown
    assert "more rows" not in shown
