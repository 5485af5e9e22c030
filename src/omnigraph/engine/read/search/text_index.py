"""The words of one column of texts, arranged for questions about all of it.

Promises the same answers whoever asks and however the texts are stored: matches and BM25 scores
follow from the texts alone, and N, the average length and the number of texts with a word are those
of the whole column, of which an index may hold a part. Does not know where the texts come from, nor
which of them a query looks at.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from omnigraph.engine.read.search.analysis import Tokens, analyze, tokenize

_SATURATION = 1.2  # k1
_LENGTH_WEIGHT = 0.75  # b


@dataclass(frozen=True, slots=True)
class SoughtText:
    """Words to look for: by their stems or, with a number of edits, as they are written."""

    words: str
    edits: int | None


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """What the scores of one query take from a whole column: texts, words, texts with a stem."""

    text_count: int
    word_count: int
    text_count_by_stem: Mapping[str, int]

    def plus(self, other: TextStatistics) -> TextStatistics:
        """The same of two parts of a column."""
        return TextStatistics(
            self.text_count + other.text_count,
            self.word_count + other.word_count,
            Counter(self.text_count_by_stem) + Counter(other.text_count_by_stem),
        )


NO_TEXTS = TextStatistics(0, 0, {})


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """The texts with a stem, and how often it stands in each."""

    stem: str
    positions: NDArray[np.int64]
    frequencies: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TextIndex:
    """Where each word stands. Words are sorted by stem, so those of one stem are neighbours."""

    stems: pa.Array  # distinct, ascending by code point
    word_starts: NDArray[np.int64]  # where the words of each stem begin; one more for the end
    written: pa.Array  # each word as it is written
    posting_starts: NDArray[np.int64]  # where the postings of each word begin; one more for the end
    positions: NDArray[np.int32]  # the texts with a word, ascending for each word
    frequencies: NDArray[np.int32]  # how often it stands there
    lengths: NDArray[np.int32]  # how many words each text has
    is_null: NDArray[np.bool_]

    def holding(self, sought: SoughtText) -> NDArray[np.bool_]:
        """Which texts hold what is looked for."""
        if sought.edits is None:
            return self.matching(sought.words)
        return self.matching_fuzzily(sought.words, sought.edits)

    def matching(self, query: str) -> NDArray[np.bool_]:
        """Which texts share a stem with the query."""
        found = np.zeros(len(self.lengths), np.bool_)
        for _, postings in self._postings_of_stems(analyze(query).stems):
            found[self.positions[postings]] = True
        return found

    def matching_fuzzily(self, query: str, edits: int) -> NDArray[np.bool_]:
        """Which texts have a word that becomes one of the query within so many edits."""
        is_near = np.zeros(len(self.written), np.bool_)
        for near in self._words_near(analyze(query).written, edits):
            is_near[near] = True
        found = np.zeros(len(self.lengths), np.bool_)
        found[self.positions[np.repeat(is_near, np.diff(self.posting_starts))]] = True
        return found

    def score(self, query: str) -> NDArray[np.float64]:
        """The BM25 score of each text, 0 without a word of the query; NaN for null."""
        occurrences = self._occurrences(query)
        return self._score(occurrences, self._statistics(occurrences))

    def score_within(self, query: str, statistics: TextStatistics) -> NDArray[np.float64]:
        """The same of texts that are a part of the column that the statistics are of."""
        return self._score(self._occurrences(query), statistics)

    def statistics(self, query: str) -> TextStatistics:
        """What these texts add to the statistics that a query's scores take."""
        return self._statistics(self._occurrences(query))

    @property
    def nbytes(self) -> int:
        """How much memory the index takes."""
        arrays = (
            *(self.word_starts, self.posting_starts, self.positions),
            *(self.frequencies, self.lengths, self.is_null, self.stems, self.written),
        )
        return sum(int(array.nbytes) for array in arrays)

    def _statistics(self, occurrences: Iterable[_Occurrences]) -> TextStatistics:
        return TextStatistics(
            text_count=len(self.lengths) - int(np.count_nonzero(self.is_null)),
            word_count=int(self.lengths.sum()),
            text_count_by_stem={each.stem: len(each.positions) for each in occurrences},
        )

    def _score(
        self, occurrences: Iterable[_Occurrences], statistics: TextStatistics
    ) -> NDArray[np.float64]:
        text_count = statistics.text_count
        average_length = statistics.word_count / max(text_count, 1)
        scores = np.zeros(len(self.lengths), np.float64)
        for each in occurrences:
            with_stem = statistics.text_count_by_stem[each.stem]
            rarity = math.log(1 + (text_count - with_stem + 0.5) / (with_stem + 0.5))
            lengths = self.lengths[each.positions]
            crowding = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * lengths / average_length
            peak = rarity * each.frequencies * (_SATURATION + 1)
            scores[each.positions] += peak / (each.frequencies + _SATURATION * crowding)
        scores[self.is_null] = np.nan
        return scores

    def _occurrences(self, query: str) -> Sequence[_Occurrences]:
        """The stems of a query that stand anywhere, always in one order."""
        found: list[_Occurrences] = []
        for stem, postings in self._postings_of_stems(analyze(query).stems):
            # A text occurs once for each word of the stem.
            counts = np.bincount(self.positions[postings], weights=self.frequencies[postings])
            matching = np.flatnonzero(counts)
            found.append(_Occurrences(stem, matching, counts[matching].astype(np.float64)))
        return found

    def _postings_of_stems(
        self, stems: Iterable[str]
    ) -> Iterator[tuple[str, slice[int, int, None]]]:
        # In one order, because a sum of floats depends on it, and "a b" is the query "b a".
        for stem in sorted(set(stems)):
            code = bisect_left(range(len(self.stems)), stem, key=self._stem)
            if code < len(self.stems) and self._stem(code) == stem:
                first, last = self.word_starts[code : code + 2]
                start, end = self.posting_starts[first], self.posting_starts[last]
                yield stem, slice(int(start), int(end), None)

    def _stem(self, code: int) -> str:
        stem: str = self.stems[code].as_py()
        return stem

    def _words_near(self, words: Iterable[str], edits: int) -> Iterator[NDArray[np.int64]]:
        lengths = pc.utf8_length(self.written).to_numpy()
        for word in sorted(set(words)):
            similar = np.flatnonzero(np.abs(lengths - len(word)) <= edits)
            others = self.written.take(pa.array(similar)).to_pylist()
            if others:
                # The longer of two words is how far apart they can be.
                most = min(edits, max(len(word), int(lengths.max())))
                distances = cdist([word], others, scorer=Levenshtein.distance, score_cutoff=most)
                yield similar[distances[0] <= most]


def build_text_index(texts: pa.Array) -> TextIndex:
    """Arrange the words of a column whose positions are those of its texts."""
    tokens = tokenize(texts)
    order, stems, word_starts = _sorted_words(tokens)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    # Sorted as single numbers, which is several times faster than by two columns.
    places = np.sort(rank[tokens.codes] * len(texts) + tokens.texts)
    firsts = np.flatnonzero(np.diff(places, prepend=-1))
    words, positions = np.divmod(places[firsts], max(len(texts), 1))
    return TextIndex(
        stems=stems,
        word_starts=word_starts,
        written=pa.array(tokens.words.written, pa.string()).take(pa.array(order)),
        posting_starts=np.searchsorted(words, np.arange(len(order) + 1)),
        positions=positions.astype(np.int32),
        frequencies=np.diff(firsts, append=len(places)).astype(np.int32),
        lengths=np.bincount(tokens.texts, minlength=len(texts)).astype(np.int32),
        is_null=texts.is_null().to_numpy(zero_copy_only=False),
    )


def _sorted_words(tokens: Tokens) -> tuple[NDArray[np.int64], pa.Array, NDArray[np.int64]]:
    """The order of the words by stem, the distinct stems, and where the words of each begin."""
    stems = pa.array(tokens.words.stems, pa.string())
    order = pc.sort_indices(stems).to_numpy().astype(np.int64)
    runs = pc.run_end_encode(stems.take(pa.array(order)), run_end_type=pa.int64())
    return order, runs.values, np.concatenate([[0], runs.run_ends.to_numpy()]).astype(np.int64)
