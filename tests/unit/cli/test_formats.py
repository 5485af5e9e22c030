"""Results as table, kv, JSON, CSV, file (deferred)."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cli.formats import (
    TableStyle,
    draw_table,
    fit_widths,
    write_csv,
    write_json,
    write_jsonl,
    write_kv,
    write_table,
)
from omnigraph.cli.output import measure
from omnigraph.engine.results import Result, ResultColumn
from omnigraph.http.responses import Target
from omnigraph.model.limits import JSON_PIECE_ROWS
from omnigraph.model.types import PropertyType, Scalar

MAIN: Target = {"branch": "main", "snapshot": None}
PLAIN = TableStyle(column_width_max=80, is_wrapped=False, terminal_width=None)


def people(names: list[str | None], ages: list[int | None]) -> Result:
    text, number = PropertyType(Scalar.STRING), PropertyType(Scalar.I32)
    return Result(
        pa.table({"p.name": pa.array(names, pa.string()), "p.age": pa.array(ages, pa.int32())}),
        columns=[
            ResultColumn("p.name", text, is_aggregate=False),
            ResultColumn("p.age", number, is_aggregate=False),
        ],
        query_name="find",
        branch="main",
        commit_id="01C",
    )


def text_of(pieces: Iterator[bytes]) -> str:
    return b"".join(pieces).decode()


def test_json_output_is_the_response_of_the_server_indented() -> None:
    shown = text_of(write_json(people(["Ann", None], [30, None]), MAIN))

    assert shown == json.dumps(json.loads(shown), indent=2) + "\n"
    assert json.loads(shown) == {
        "query_name": "find",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 2,
        "columns": ["p.name", "p.age"],
        "commit_id": "01C",
        "rows": [{"p.name": "Ann", "p.age": 30}, {"p.name": None, "p.age": None}],
    }


@pytest.mark.parametrize("row_count", [0, 1, JSON_PIECE_ROWS, JSON_PIECE_ROWS + 1])
def test_a_long_result_written_in_pieces_equals_one_written_at_once(row_count: int) -> None:
    result = people([f"p{each}" for each in range(row_count)], list(range(row_count)))

    shown = text_of(write_json(result, MAIN))

    assert shown == json.dumps(json.loads(shown), indent=2) + "\n"
    assert json.loads(shown)["rows"] == result.rows


def test_jsonl_begins_with_a_line_about_the_result() -> None:
    shown = text_of(write_jsonl(people(["Ann", "Bo"], [30, None]), MAIN))

    described, *rows = map(json.loads, shown.splitlines())
    assert list(described)[:4] == ["kind", "query_name", "target", "row_count"]
    assert (described["kind"], described["row_count"]) == ("metadata", 2)
    assert rows == [{"p.name": "Ann", "p.age": 30}, {"p.name": "Bo", "p.age": None}]
    assert shown.splitlines()[1] == '{"p.name":"Ann","p.age":30}'


def test_csv_marks_null_and_quotes_only_where_required() -> None:
    shown = text_of(write_csv(people(["Ann", 'a "b", c', None, "two\nlines"], [30, None, 1, 2])))

    assert shown == 'p.name,p.age\nAnn,30\n"a ""b"", c",null\nnull,1\n"two\nlines",2\n'


@given(names=st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1))
def test_csv_is_read_back_except_for_escaped_formulas(
    names: list[str],
) -> None:
    shown = text_of(write_csv(people([*names], [7] * len(names))))

    found = list(csv.reader(io.StringIO(shown, newline="")))
    assert found == [["p.name", "p.age"], *([_without_formula(name), "7"] for name in names)]


def _without_formula(text: str) -> str:
    is_number = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII)
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") and not is_number else text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+49 30 1", "'+49 30 1"),
        ("-x", "'-x"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\tx", "'\tx"),
        ("\r=1", '"\'\r=1"'),
        ("=1,2", '"\'=1,2"'),
        ("-12.5e3", "-12.5e3"),
        ("+4", "+4"),
        ("a=b", "a=b"),
    ],
)
def test_csv_holds_no_text_that_a_spreadsheet_would_run(text: str, written: str) -> None:
    shown = text_of(write_csv(people([text], [-7])))

    assert shown == f"p.name,p.age\n{written},-7\n"


def test_a_table_says_what_it_is_of() -> None:
    shown = text_of(write_table(people(["Ann"], [30]), MAIN, look=PLAIN))

    assert shown.splitlines() == [
        "1 row from branch main via find",
        "p.name | p.age",
        "-------+------",
        "Ann    | 30",
    ]


def test_a_table_of_a_commit_names_it() -> None:
    shown = text_of(write_table(people([], []), {"branch": None, "snapshot": "01C"}, look=PLAIN))

    assert shown.splitlines()[0] == "0 rows from snapshot 01C via find"


@pytest.mark.parametrize("hostile", ["\x1b[2J", "a\rb", "\x9b31m"])
def test_a_cell_cannot_command_a_terminal(hostile: str) -> None:
    result = people([hostile], [1])

    shown = text_of(write_table(result, MAIN, look=PLAIN)) + text_of(write_kv(result, MAIN))

    assert hostile not in shown
    assert all(each.isprintable() or each == "\n" for each in shown)


def test_kv_lists_row_by_row() -> None:
    shown = text_of(write_kv(people(["Ann", "Bo"], [30, None]), MAIN))

    assert shown.splitlines() == [
        "2 rows from branch main via find",
        "row 1",
        "p.name: Ann",
        "p.age: 30",
        "",
        "row 2",
        "p.name: Bo",
        "p.age: null",
    ]


def test_kv_says_that_there_are_no_rows() -> None:
    assert text_of(write_kv(people([], []), MAIN)).splitlines()[1:] == ["(no rows)"]


def test_columns_that_share_a_name_are_both_shown() -> None:
    number = ResultColumn("n", PropertyType(Scalar.I32), is_aggregate=False)
    table = pa.Table.from_arrays([pa.array([1], pa.int32()), pa.array([2], pa.int32())], ["n", "n"])
    result = Result(table, columns=[number, number], query_name="q", branch="main", commit_id="01C")

    assert text_of(write_csv(result)) == "n,n\n1,2\n"
    assert orjson.loads(b"".join(write_json(result, MAIN)))["rows"] == [{"n": 2}]


def look(cap: int = 80, *, is_wrapped: bool = False, width: int | None = None) -> TableStyle:
    return TableStyle(column_width_max=cap, is_wrapped=is_wrapped, terminal_width=width)


def test_columns_are_aligned_below_their_names() -> None:
    lines = list(draw_table(["name", "age"], [["Alice", "Bo"], ["30", "null"]], look=look()))

    assert lines == [
        "name  | age",
        "------+-----",
        "Alice | 30",
        "Bo    | null",
    ]


def test_wide_characters_do_not_push_the_next_column() -> None:
    lines = list(draw_table(["n", "x"], [["漢字", "ab"], ["1", "2"]], look=look()))

    assert lines[2:] == ["漢字 | 1", "ab   | 2"]


def test_a_long_cell_is_cut_at_the_cap() -> None:
    lines = list(draw_table(["n", "x"], [["abcdefghijkl"], ["1"]], look=look(10)))

    assert lines == ["n          | x", "-----------+--", "abcdefghi… | 1"]


def test_no_cap_is_smaller_than_eight() -> None:
    lines = list(draw_table(["n"], [["abcdefghijkl"]], look=look(3)))

    assert lines[2] == "abcdefg…"


def test_a_long_cell_is_wrapped_where_that_is_wanted() -> None:
    lines = list(draw_table(["n", "x"], [["abcdefghijkl"], ["1"]], look=look(8, is_wrapped=True)))

    assert lines[2:] == ["abcdefgh | 1", "ijkl     |"]


def test_a_table_without_rows_still_names_its_columns() -> None:
    assert list(draw_table(["name"], [[]], look=look())) == ["name", "----"]


def test_a_terminal_narrows_the_widest_columns_first() -> None:
    rows = [["Ann"], ["a" * 60], ["b" * 60]]

    lines = list(draw_table(["n", "x", "y"], rows, look=look(width=40)))

    assert lines[2] == f"Ann | {'a' * 15}… | {'b' * 14}…"
    assert max(map(measure, lines)) == 40


def test_a_pipe_narrows_nothing() -> None:
    lines = list(draw_table(["x", "y"], [["a" * 60], ["b" * 60]], look=look()))

    assert lines[2] == f"{'a' * 60} | {'b' * 60}"


@given(wanted=st.lists(st.integers(1, 80), min_size=1, max_size=12), available=st.integers(48, 400))
def test_columns_use_the_width_that_there_is(wanted: list[int], available: int) -> None:
    rooms = fit_widths(wanted, available)

    assert sum(rooms) == min(sum(wanted), available)
    assert all(0 < room <= each for room, each in zip(rooms, wanted, strict=True))


def test_a_column_keeps_a_few_places_however_narrow_the_terminal_is() -> None:
    assert fit_widths([30, 30, 2], 5) == [4, 4, 2]
