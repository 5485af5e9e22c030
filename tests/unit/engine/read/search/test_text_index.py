"""Full-text matches and scores, against the definitions spelled out over lists."""

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.read.search.text_index import TextIndex, Words, build_text_index
from omnigraph.engine.read.search.text_index import analyze as analyze_in
from omnigraph.model.types import TextLanguage

MEMOS = ["Solar panel audit", "Wind blades forecast", "Solar", None, "The grid runs", ""]

WORD = st.sampled_from(["solar", "Solar", "run", "runs", "running", "résumé", "the", "a1", "b-c"])
TEXTS = st.lists(st.none() | st.lists(WORD, max_size=8).map(" ".join), max_size=12)
QUERIES = st.lists(WORD, max_size=4).map(" ".join)
SPELLINGS = st.text("abcé", min_size=1, max_size=6)


def index_of(texts: Sequence[str | None]) -> TextIndex:
    return build_text_index(pa.array(texts, pa.string()), TextLanguage.ENGLISH)


def analyze(text: str) -> Words:
    return analyze_in(text, TextLanguage.ENGLISH)


def positions(found: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[int]:
    return [int(position) for position in np.flatnonzero(found)]


def naive_scores(texts: Sequence[str | None], query: str) -> list[float]:
    stems = [None if text is None else analyze(text).stems for text in texts]
    there = [words for words in stems if words is not None]
    return [
        math.nan
        if words is None
        else sum(naive_weight(stem, words, there) for stem in sorted(set(analyze(query).stems)))
        for words in stems
    ]


def naive_weight(stem: str, words: tuple[str, ...], there: list[tuple[str, ...]]) -> float:
    frequency = words.count(stem)
    if frequency == 0:
        return 0.0
    with_stem = sum(stem in other for other in there)
    average = sum(map(len, there)) / len(there)
    rarity = math.log(1 + (len(there) - with_stem + 0.5) / (with_stem + 0.5))
    crowding = 1 - 0.75 + 0.75 * len(words) / average
    return rarity * frequency * 2.2 / (frequency + 1.2 * crowding)


def naive_edits(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for count, letter in enumerate(one, 1):
        above = row
        row = [count]
        for column, target in enumerate(other):
            changed = above[column] + (letter != target)
            row.append(min(changed, above[column + 1] + 1, row[column] + 1))
    return row[-1]


@pytest.mark.parametrize(
    ("query", "matching"),
    [
        ("solar", [0, 2]),
        ("AUDIT forecast", [0, 1]),
        ("running", [4]),
        ("zebra", []),
        ("the", []),
        ("", []),
        ("panelled", [0]),
    ],
)
def test_a_text_matches_that_has_one_of_the_words(query: str, matching: list[int]) -> None:
    assert positions(index_of(MEMOS).matching(query)) == matching


@given(TEXTS, QUERIES)
def test_matching_texts_share_a_stem_with_the_query(texts: list[str | None], query: str) -> None:
    expected = [
        text is not None and not set(analyze(text).stems).isdisjoint(analyze(query).stems)
        for text in texts
    ]

    assert index_of(texts).matching(query).tolist() == expected


@given(TEXTS, QUERIES)
def test_scores_are_those_of_the_whole_column(texts: list[str | None], query: str) -> None:
    scores = index_of(texts).score(query)

    np.testing.assert_array_equal(scores, naive_scores(texts, query))


@given(TEXTS, QUERIES)
def test_a_text_scores_exactly_if_it_matches(texts: list[str | None], query: str) -> None:
    index = index_of(texts)

    assert (index.score(query) > 0).tolist() == index.matching(query).tolist()


def test_the_shorter_text_scores_higher() -> None:
    scores = index_of(MEMOS).score("solar")

    assert scores[2] > scores[0] > 0


def test_null_has_no_score_and_an_empty_text_none_above_zero() -> None:
    scores = index_of(MEMOS).score("solar")

    assert math.isnan(scores[3])
    assert scores[5] == 0.0


def test_neither_order_nor_repetition_in_a_query_matters() -> None:
    index = index_of(["ash birch cedar", "birch birch elm", "cedar fir ash", "oak"])

    scores = index.score("ash birch cedar")

    assert scores.tolist() == index.score("cedar ash birch ashes ash").tolist()


@pytest.mark.parametrize(
    ("query", "edits", "matching"),
    [
        ("solar", 0, [0, 2]),
        ("solr", 1, [0, 2]),
        ("sloar", 1, []),
        ("sloar", 2, [0, 2]),
        ("panle blade", 2, [0, 1]),
        ("run", 0, []),
        ("run", 1, [4]),
        ("th", 1, []),
        ("the", 2, []),
        ("solar", -1, []),
        ("x", 10**30, [0, 1, 2, 4]),
    ],
)
def test_a_fuzzy_match_allows_so_many_edits(query: str, edits: int, matching: list[int]) -> None:
    assert positions(index_of(MEMOS).matching_fuzzily(query, edits)) == matching


def test_words_are_compared_fuzzily_before_they_are_stemmed() -> None:
    index = index_of(["running", "runs"])

    assert positions(index.matching_fuzzily("runing", 1)) == [0]
    assert positions(index.matching("runing")) == []


@given(
    st.lists(st.none() | st.lists(SPELLINGS, max_size=4).map(" ".join), max_size=8),
    st.lists(SPELLINGS, max_size=2).map(" ".join),
    st.integers(0, 3),
)
def test_fuzzy_matches_are_counted_in_plain_edits(
    texts: list[str | None], query: str, edits: int
) -> None:
    expected = [
        any(
            naive_edits(word, other) <= edits
            for word in analyze(query).written
            for other in analyze(text or "").written
        )
        for text in texts
    ]

    assert index_of(texts).matching_fuzzily(query, edits).tolist() == expected


@pytest.mark.parametrize("texts", [[], [None], [""], [None, "the"]])
def test_a_column_without_words_matches_nothing(texts: list[str | None]) -> None:
    index = index_of(texts)

    assert not index.matching("solar").any()
    assert not index.matching_fuzzily("solar", 9).any()
    assert not np.nan_to_num(index.score("solar")).any()


def test_an_index_knows_how_much_memory_it_takes() -> None:
    small, large = index_of(["one"]), index_of([f"word{number}" for number in range(1_000)])

    assert 0 < small.nbytes < large.nbytes
    assert large.nbytes >= large.positions.nbytes + large.written.nbytes


@given(TEXTS, QUERIES, st.integers(0, 12))
def test_texts_have_the_same_scores_when_their_column_is_looked_at_in_parts(
    texts: list[str | None], query: str, cut: int
) -> None:
    parts = [index_of(texts[:cut]), index_of(texts[cut:])]
    statistics = parts[0].statistics(query).plus(parts[1].statistics(query))

    scores = np.concatenate([part.score_within(query, statistics) for part in parts])

    assert scores.tobytes() == index_of(texts).score(query).tobytes()
