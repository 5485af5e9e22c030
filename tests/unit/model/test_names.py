"""Names: hashes that others compute too, near spellings, folding."""

import pytest

from omnigraph.model.names import find_near_name, fnv1a_32, fold_edge_name


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)]
)
def test_fnv1a_gives_the_published_values(text: str, expected: int) -> None:
    assert fnv1a_32(text) == expected


def test_fnv1a_reads_utf_8() -> None:
    assert fnv1a_32("é") != fnv1a_32("e")


@pytest.mark.parametrize(
    ("name", "near"),
    [("nme", "name"), ("NAME", "name"), ("ages", "age"), ("zzz", None), ("", None)],
)
def test_the_near_name_is_the_one_that_was_meant(name: str, near: str | None) -> None:
    assert find_near_name(name, ["age", "email", "name"]) == near


def test_no_near_name_is_searched_among_thousands() -> None:
    assert find_near_name("n1", (f"n{number}" for number in range(5_000))) is None


def test_edge_names_fold_by_case() -> None:
    assert fold_edge_name("WorksAt") == fold_edge_name("wORKSAT")
