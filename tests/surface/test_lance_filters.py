"""Names in predicates: unquoted they keep their case, in backticks they are exact.

A double-quoted name is a string literal and matches nothing, or everything, in silence.
"""

from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from tests.support.lance_probes import create_table, named_columns

Count = Callable[[Path, str], int]


def by_scan(folder: Path, predicate: str) -> int:
    return len(lance.dataset(_table(folder)).to_table(filter=predicate))


def by_count(folder: Path, predicate: str) -> int:
    return lance.dataset(_table(folder)).count_rows(predicate)


def by_delete(folder: Path, predicate: str) -> int:
    return lance.dataset(_table(folder)).delete(predicate)["num_deleted_rows"]


def by_staged_delete(folder: Path, predicate: str) -> int:
    (fragment,) = lance.dataset(_table(folder)).get_fragments()
    remaining = fragment.delete(predicate)
    return fragment.count_rows() if remaining is None else remaining.num_deletions


EVERY_WAY = pytest.mark.parametrize("count", [by_scan, by_count, by_delete, by_staged_delete])


@EVERY_WAY
@pytest.mark.parametrize(
    "predicate",
    [
        "fullName = 'Ann'",
        "`fullName` = 'Ann'",
        "order = 1",
        "`order` = 1",
        "select = 1",
        "`with space` = 1",
        "quote = 'it''s'",
        "fullName = 'Ann' AND order = 1",
    ],
)
def test_a_name_finds_its_column(tmp_path: Path, count: Count, predicate: str) -> None:
    assert count(tmp_path, predicate) == 1


@EVERY_WAY
@pytest.mark.parametrize("predicate", ["fullname = 'Ann'", "FULLNAME = 'Ann'"])
def test_a_name_in_the_wrong_case_finds_the_column_when_there_is_no_other(
    tmp_path: Path, count: Count, predicate: str
) -> None:
    assert count(tmp_path, predicate) == 1


@EVERY_WAY
@pytest.mark.parametrize(
    ("predicate", "matched"),
    [("\"fullName\" = 'Ann'", 0), ("\"fullName\" = 'fullName'", 2)],
)
def test_a_double_quoted_name_is_a_string(
    tmp_path: Path, count: Count, predicate: str, matched: int
) -> None:
    assert count(tmp_path, predicate) == matched


@pytest.mark.parametrize(
    ("predicate", "matched"),
    [("name = 1", "b"), ("Name = 1", "a"), ("`name` = 1", "b"), ("`Name` = 1", "a")],
)
def test_columns_that_differ_in_case_only_are_distinguished(
    tmp_path: Path, predicate: str, matched: str
) -> None:
    rows = named_columns(id=["a", "b"], Name=[1, 2], name=[2, 1])
    uri = create_table(tmp_path / "t", rows)

    found = lance.dataset(uri).to_table(filter=predicate)

    assert found["id"].to_pylist() == [matched]


def _table(folder: Path) -> str:
    columns: dict[str, list[str | int | None]] = {
        "fullName": ["Ann", "Bob"],
        "with space": [1, 2],
        "quote": ["it's", "its"],
        "order": [1, 2],
        "select": [1, 2],
    }
    return create_table(folder / "t", named_columns(**columns))
