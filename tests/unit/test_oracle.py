"""The oracle of reads knows the cases of the language, worked out by hand."""

import pytest

from tests.support.oracle_search import Library, count_edits, embed
from tests.support.read_cases import CASES, ReadCase, number_of
from tests.support.read_graphs import run_oracle


@pytest.mark.parametrize("case", CASES, ids=number_of)
def test_the_oracle_gives_the_result_of_the_case(case: ReadCase) -> None:
    found = run_oracle(case.graph, case.text, case.params, rows_max=1_000)

    assert [list(row) for row in found.rows] == case.cells
    assert case.columns is None or list(found.columns) == case.columns


def test_a_score_is_the_one_of_the_formula() -> None:
    library = Library(["red fox", "red red dog barks", "green"], "english")

    assert library.score("red fox", "red") == pytest.approx(0.4991763, rel=1e-6)
    assert library.score("red fox", "red red foxes") > library.score("red fox", "red")
    assert library.score("green", "red") == 0


def test_a_mock_vector_is_the_published_one() -> None:
    published = [-0.5420488, -0.4717994, 0.1609051, 0.6765338]

    assert embed("alpha", 4) == pytest.approx(published, abs=5e-8)


def test_edits_are_insertions_removals_and_replacements() -> None:
    assert count_edits("kitten", "sitting") == 3
    assert count_edits("ab", "ba") == 2
    assert count_edits("", "abc") == 3
