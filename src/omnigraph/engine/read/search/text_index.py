"""Full-text search over one text column: tokens, stems, an inverted index, and BM25 scores.

Columns and queries are tokenized alike: split at non-alphanumeric characters, lowercased, folded
to ASCII where possible, and stemmed in the language of the property; English stop words are left
out. Without a language, words are not stemmed or are cut into grams. Matches and scores depend only
on the texts and the language. An index may hold a part of a column, with the statistics of the
whole column. Callers import this module at first use, because its libraries are slow to import.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import Stemmer
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from omnigraph.model import limits
from omnigraph.model.types import TextLanguage

if TYPE_CHECKING:
    from omnigraph.engine.read.entities import EntityDelta

_TEXT = pa.large_string()

_STOP_WORDS = """
    a about above after again against all am an and any are as at be because been before being
    below between both but by can did do does doing down during each few for from further had has
    have having he her here hers herself him himself his how i if in into is it its itself just me
    more most my myself now of off on once only or other our ours ourselves out over own same she
    should so some such than that the their theirs them themselves then there these they this those
    through to too under until up very was we were what when where which while who whom why will
    with you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_IDEOGRAPHS = "\u2e80"
"""The first of the characters that are cut into grams of two: Chinese, Japanese, Korean."""

_STRETCH = re.compile(f"[{_IDEOGRAPHS}-\U0010ffff]+|[^{_IDEOGRAPHS}-\U0010ffff]+")

# Letters without a Unicode decomposition that are commonly transliterated to ASCII.
_WRITTEN_OTHERWISE = {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "đ": "d",
    "ð": "d",
    "ħ": "h",
    "\N{LATIN SMALL LETTER DOTLESS I}": "i",
    "ł": "l",
    "ŋ": "n",
    "þ": "th",
    "ŧ": "t",
}


@dataclass(frozen=True, slots=True)
class Words:
    """Words, each in the two forms that searches use: as written, and stemmed."""

    written: tuple[str, ...]
    stems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tokens:
    """The occurrences of words: the position of the text, and the position in `words`, of each."""

    texts: NDArray[np.int64]
    codes: NDArray[np.int64]
    words: Words


def analyze(text: str, language: TextLanguage) -> Words:
    """The words of a query, in order."""
    separated = "".join(each if _is_in_word(each, language) else " " for each in text)
    contents = _contents(separated.split(), language)
    written, stems = contents.words.written, contents.words.stems
    codes = contents.codes.tolist()
    return Words(tuple(written[code] for code in codes), tuple(stems[code] for code in codes))


def tokenize(texts: pa.Array, language: TextLanguage) -> Tokens:
    """The words of each text of a column, in order; a null has none."""
    column = (texts.fill_null("") if texts.null_count else texts).cast(_TEXT)
    positions, runs = _runs(column, language)
    encoded = runs.dictionary_encode().combine_chunks()
    contents = _contents(encoded.dictionary.to_pylist(), language)
    which = encoded.indices.to_numpy()
    counts = contents.counts[which]
    starts = (np.cumsum(contents.counts) - contents.counts)[which]
    # The words of the runs one after the other: each run's start, and the place within the run.
    places = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return Tokens(np.repeat(positions, counts), contents.codes[places], contents.words)


def _is_in_word(letter: str, language: TextLanguage) -> bool:
    """Whether a character belongs to words; marks write vowels in some languages."""
    if letter.isalnum():
        return True
    return language is not TextLanguage.ENGLISH and unicodedata.category(letter).startswith("M")


def _runs(column: pa.Array, language: TextLanguage) -> tuple[NDArray[np.int64], pa.ChunkedArray]:
    """The position of the text of each run of characters of words, and the runs."""
    _, offset_buffer, byte_buffer = column.buffers()
    if not len(column) or byte_buffer is None:
        return np.empty(0, np.int64), pa.chunked_array([], _TEXT)
    borders = np.frombuffer(offset_buffer, np.int64)[column.offset :][: len(column) + 1]
    letters = np.frombuffer(byte_buffer, np.uint8)
    steps = np.arange(borders[0], borders[-1], limits.SEARCH_BLOCK_BYTES)
    cuts = np.unique(np.append(np.searchsorted(borders, steps), len(column)))
    blocks = [_split(letters, borders[start : end + 1], language) for start, end in pairwise(cuts)]
    counts = np.concatenate([np.empty(0, np.int64), *(counts for counts, _ in blocks)])
    positions = np.repeat(np.arange(cuts[0], len(column)), counts)
    return positions, pa.chunked_array([runs for _, runs in blocks], _TEXT)


def _split(
    all_letters: NDArray[np.uint8], borders: NDArray[np.int64], language: TextLanguage
) -> tuple[NDArray[np.int64], pa.Array]:
    """The number of runs in each text between two borders, and the runs."""
    letters = all_letters[borders[0] : borders[-1]]
    borders = borders - borders[0]
    in_run = _in_words(letters, language)
    # Adjacent texts have no separator in the buffer, so a run must end at each border.
    continues = in_run[1:] & in_run[:-1]
    inner = borders[(borders > 0) & (borders < len(letters))]
    continues[inner - 1] = False
    starts = np.flatnonzero(in_run & ~np.append(False, continues))
    ends = np.flatnonzero(in_run & ~np.append(continues, False))

    counts = np.diff(np.searchsorted(starts, borders))
    offsets = np.append(0, np.cumsum(ends + 1 - starts))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters[in_run])]
    return counts, pa.Array.from_buffers(_TEXT, len(starts), buffers)


def _in_words(letters: NDArray[np.uint8], language: TextLanguage) -> NDArray[np.bool_]:
    """Which bytes of UTF-8 belong to a character of words."""
    # A byte below the first letter or digit wraps around to a value far above the last.
    is_letter = (letters | 0x20) - np.uint8(ord("a")) < 26
    is_digit = letters - np.uint8(ord("0")) < 10
    found: NDArray[np.bool_] = is_letter | is_digit
    beyond = letters >= 128
    if beyond.any():
        # The bytes beyond ASCII, without the others, form whole characters.
        others = letters[beyond].tobytes().decode("utf-8")
        codes = np.frombuffer(others.encode("utf-32-le"), np.uint32)
        distinct, which = np.unique(codes, return_inverse=True)
        is_in_word = np.array([_is_in_word(chr(code), language) for code in distinct])[which]
        widths = 2 + (codes > 0x7FF).astype(np.int64) + (codes > 0xFFFF)
        found[beyond] = np.repeat(is_in_word, widths)
    return found


@dataclass(frozen=True, slots=True)
class _Contents:
    """The words of runs: how many each run has, and their positions in `words`, run by run."""

    counts: NDArray[np.int64]
    codes: NDArray[np.int64]
    words: Words


def _contents(runs: list[str], language: TextLanguage) -> _Contents:
    lowered = [run.lower() for run in runs]
    if language is TextLanguage.NGRAM:
        return _cut(lowered)
    is_selected = [_is_searchable(word, language) for word in lowered]
    selected = list(compress(lowered, is_selected))
    foldings = _foldings(selected)
    words = Words(
        tuple(word.translate(foldings) for word in selected),
        tuple(stem.translate(foldings) for stem in _stem(selected, language)),
    )
    return _Contents(np.array(is_selected, np.int64), np.arange(len(selected)), words)


def _is_searchable(word: str, language: TextLanguage) -> bool:
    if len(word) > limits.SEARCH_WORD_CHARACTERS_MAX:
        return False
    if language is TextLanguage.ENGLISH:
        return word not in STOP_WORDS
    return _has_letter(word)


def _has_letter(word: str) -> bool:
    """Whether a word has a letter or a digit, and not only marks."""
    return any(map(str.isalnum, word))


def _stem(words: list[str], language: TextLanguage) -> list[str]:
    if language is TextLanguage.NONE:
        return words
    # A stemmer cannot be shared between threads, so each call makes one. Its cache has size 0,
    # because every word occurs once.
    stems: list[str] = Stemmer.Stemmer(str(language), 0).stemWords(words)
    return stems


def _cut(runs: list[str]) -> _Contents:
    """The grams of runs. They are their own stems."""
    foldings = _foldings(runs)
    grams_by_run = [_grams(run.translate(foldings)) for run in runs]
    grams = list(chain.from_iterable(grams_by_run))
    code_by_gram = {gram: code for code, gram in enumerate(dict.fromkeys(grams))}
    written = tuple(code_by_gram)
    counts = np.array([len(each) for each in grams_by_run], np.int64)
    codes = np.array([code_by_gram[gram] for gram in grams], np.int64)
    return _Contents(counts, codes, Words(written, written))


def _grams(run: str) -> list[str]:
    """The overlapping grams of a run; a shorter stretch is a gram of its own."""
    found: list[str] = []
    if not _has_letter(run):
        return found
    for stretch in _STRETCH.findall(run):
        width = 2 if stretch[0] >= _IDEOGRAPHS else 3
        starts = range(max(1, len(stretch) - width + 1))
        found += (stretch[start : start + width] for start in starts)
    return found


def _foldings(words: list[str]) -> dict[int, str]:
    """The folded form of each character beyond ASCII that occurs in the words, by code point."""
    occurring = {letter for word in words if not word.isascii() for letter in word}
    folded = {letter: _fold(letter) for letter in occurring if not letter.isascii()}
    return {ord(letter): ascii_form for letter, ascii_form in folded.items()}


def _fold(letter: str) -> str:
    if unicodedata.combining(letter):
        return ""  # English words have one: lowercasing a dotted capital I yields it
    if letter in _WRITTEN_OTHERWISE:
        return _WRITTEN_OTHERWISE[letter]
    parts = unicodedata.normalize("NFKD", letter)
    bare = "".join(part for part in parts if not unicodedata.combining(part))
    # A letter of another script is left unchanged, including its marks.
    return bare.lower() if bare.isascii() and bare.isalnum() else letter


_SATURATION = 1.2  # k1
_LENGTH_WEIGHT = 0.75  # b


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Words to search for: by stem or, if `edits` is set, by edit distance as written."""

    words: str
    edits: int | None


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """The column statistics that the scores of one query use: texts, words, and texts per stem."""

    text_count: int
    word_count: int
    text_count_by_stem: Mapping[str, int]

    def plus(self, other: TextStatistics) -> TextStatistics:
        """The statistics of two parts of a column together."""
        return TextStatistics(
            self.text_count + other.text_count,
            self.word_count + other.word_count,
            Counter(self.text_count_by_stem) + Counter(other.text_count_by_stem),
        )

    def minus(self, other: TextStatistics) -> TextStatistics:
        """The statistics without those of a part of the column."""
        return TextStatistics(
            self.text_count - other.text_count,
            self.word_count - other.word_count,
            {
                stem: count - other.text_count_by_stem.get(stem, 0)
                for stem, count in self.text_count_by_stem.items()
            },
        )


EMPTY_STATISTICS = TextStatistics(0, 0, {})


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """The texts that contain a stem, and its frequency in each."""

    stem: str
    positions: NDArray[np.int64]
    frequencies: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TextIndex:
    """An inverted index. Words are sorted by stem, so the words of one stem are adjacent."""

    stems: pa.Array  # distinct, ascending by code point
    word_starts: NDArray[np.int64]  # where the words of each stem begin; one more for the end
    written: pa.Array  # each word as it is written
    posting_starts: NDArray[np.int64]  # where the postings of each word begin; one more for the end
    positions: NDArray[np.int32]  # the texts with a word, ascending for each word
    frequencies: NDArray[np.int32]  # how often the word occurs in that text
    lengths: NDArray[np.int32]  # how many words each text has
    is_null: NDArray[np.bool_]
    language: TextLanguage

    def holding(self, sought: TextQuery) -> NDArray[np.bool_]:
        """A mark for each text that matches the query."""
        if sought.edits is None:
            return self.matching(sought.words)
        return self.matching_fuzzily(sought.words, sought.edits)

    def matching(self, query: str) -> NDArray[np.bool_]:
        """A mark for each text that shares a stem with the query."""
        found = np.zeros(len(self.lengths), np.bool_)
        for _, postings in self._postings_of_stems(analyze(query, self.language).stems):
            found[self.positions[postings]] = True
        return found

    def matching_fuzzily(self, query: str, edits: int) -> NDArray[np.bool_]:
        """A mark for each text with a word that is within `edits` of a word of the query."""
        is_near = np.zeros(len(self.written), np.bool_)
        for near in self._words_near(analyze(query, self.language).written, edits):
            is_near[near] = True
        found = np.zeros(len(self.lengths), np.bool_)
        found[self.positions[np.repeat(is_near, np.diff(self.posting_starts))]] = True
        return found

    def score(self, query: str) -> NDArray[np.float64]:
        """The BM25 score of each text: 0 without a word of the query, NaN for a null."""
        occurrences = self._occurrences(query)
        return self._score(occurrences, self._statistics(occurrences))

    def score_within(self, query: str, statistics: TextStatistics) -> NDArray[np.float64]:
        """The scores when these texts are a part of the column that `statistics` describe."""
        return self._score(self._occurrences(query), statistics)

    def statistics(self, query: str) -> TextStatistics:
        """What these texts contribute to the statistics of a query."""
        return self._statistics(self._occurrences(query))

    def statistics_at(self, query: str, texts: NDArray[np.int64]) -> TextStatistics:
        """What some of these texts contribute to the statistics of a query."""
        return TextStatistics(
            text_count=len(texts) - int(np.count_nonzero(self.is_null[texts])),
            word_count=int(self.lengths[texts].sum()),
            text_count_by_stem={
                each.stem: int(np.count_nonzero(np.isin(texts, each.positions)))
                for each in self._occurrences(query)
            },
        )

    @property
    def nbytes(self) -> int:
        """The memory size in bytes."""
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
            # A stem that occurs only in texts that changed since is counted no more.
            with_stem = statistics.text_count_by_stem.get(each.stem, 0)
            rarity = math.log(1 + (text_count - with_stem + 0.5) / (with_stem + 0.5))
            lengths = self.lengths[each.positions]
            crowding = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * lengths / average_length
            peak = rarity * each.frequencies * (_SATURATION + 1)
            scores[each.positions] += peak / (each.frequencies + _SATURATION * crowding)
        scores[self.is_null] = np.nan
        return scores

    def _occurrences(self, query: str) -> Sequence[_Occurrences]:
        """The stems of a query that occur in any text, in a fixed order."""
        found: list[_Occurrences] = []
        for stem, postings in self._postings_of_stems(analyze(query, self.language).stems):
            # A text has one posting for each word of the stem.
            counts = np.bincount(self.positions[postings], weights=self.frequencies[postings])
            matching = np.flatnonzero(counts)
            found.append(_Occurrences(stem, matching, counts[matching].astype(np.float64)))
        return found

    def _postings_of_stems(
        self, stems: Iterable[str]
    ) -> Iterator[tuple[str, slice[int, int, None]]]:
        # Sorted, because sums of floats depend on order, and "a b" must score the same as "b a".
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
                # The distance of two words is at most the length of the longer one.
                most = min(edits, max(len(word), int(lengths.max())))
                distances = cdist([word], others, scorer=Levenshtein.distance, score_cutoff=most)
                yield similar[distances[0] <= most]


@dataclass(frozen=True, slots=True)
class ChangedTexts:
    """The texts of a version: those of its base, and those of the rows that changed since.

    Its positions are ordinals. It matches and scores as `TextIndex` does over all texts.
    """

    base: TextIndex
    changed: TextIndex
    delta: EntityDelta

    def holding(self, sought: TextQuery) -> NDArray[np.bool_]:
        """A mark for each ordinal whose text matches the query."""
        found = np.zeros(self.delta.size, np.bool_)
        found[: self.delta.base_size] = self.base.holding(sought)
        found[self.delta.removed] = False
        found[self.delta.ordinals] = self.changed.holding(sought)
        return found

    def score(self, query: str) -> NDArray[np.float64]:
        """The BM25 score of each ordinal: 0 without a word of the query, NaN for a null."""
        statistics = self.base.statistics(query)
        if len(self.delta.dropped):
            statistics = statistics.minus(self.base.statistics_at(query, self.delta.dropped))
        statistics = statistics.plus(self.changed.statistics(query))
        scores = np.full(self.delta.size, np.nan)
        scores[: self.delta.base_size] = self.base.score_within(query, statistics)
        scores[self.delta.removed] = np.nan
        scores[self.delta.ordinals] = self.changed.score_within(query, statistics)
        return scores


def build_text_index(texts: pa.Array, language: TextLanguage) -> TextIndex:
    """Build the index of a text column; positions are those of its texts."""
    tokens = tokenize(texts, language)
    order, stems, word_starts = _sorted_words(tokens)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    # Word and text are packed into one integer: sorting by two columns is several times slower.
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
        language=language,
    )


def _sorted_words(tokens: Tokens) -> tuple[NDArray[np.int64], pa.Array, NDArray[np.int64]]:
    """The order of the words by stem, the distinct stems, and the offset of the words of each."""
    stems = pa.array(tokens.words.stems, pa.string())
    order = pc.sort_indices(stems).to_numpy().astype(np.int64)
    runs = pc.run_end_encode(stems.take(pa.array(order)), run_end_type=pa.int64())
    return order, runs.values, np.concatenate([[0], runs.run_ends.to_numpy()]).astype(np.int64)
