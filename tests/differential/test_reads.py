"""A read returns the rows of the oracle, in the oracle's order, whatever the graph and the read."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.corpus import corpus_id, corpus_paths, read_corpus_file
from tests.support.generated_graphs import GeneratedRead
from tests.support.read_comparison import GENERATING, ROWS_MAX, compare_all, find_fault, show
from tests.support.read_corpus import parse_case
from tests.support.read_graphs import run_oracle, store

READS_MIN = 20 * settings().max_examples


def test_the_engine_and_the_oracle_agree() -> None:
    counts: list[int] = []

    @GENERATING
    @given(st.data())
    def agree(drawn: st.DataObject) -> None:
        counts.append(compare_all(drawn))

    agree()

    assert sum(counts) >= READS_MIN, "too many reads were given up"


@pytest.mark.parametrize("path", corpus_paths("reads/*.gq"), ids=corpus_id)
def test_a_read_that_went_wrong_once_does_so_no_more(tmp_path: Path, path: Path) -> None:
    graph, text, params = parse_case(read_corpus_file(path))
    expected = run_oracle(graph, text, params, rows_max=ROWS_MAX)

    fault = find_fault(store(tmp_path / "g", graph), GeneratedRead(text, params), expected)

    assert fault is None, f"engine: {fault}\nreferee: {show(expected)}"
