"""Search as the oracle of reads does it: words, relevance, distance, fusion, mock vectors.

One text and one word at a time. Shares the stemmer with the engine and nothing else.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import Stemmer

from omnigraph.compiler.ir import Value
from tests.support.oracle_values import as_f32
from tests.support.oracle_words import STOP_WORDS, fold_to_ascii

WORD_CHARACTERS_MAX = 40
_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text: folded as it stands, and what is left of it after stemming."""

    spelling: str
    stem: str


@cache
def words_of(text: str, language: str) -> tuple[Word, ...]:
    """The words of a text that can be searched for, in order."""
    is_english = language == "english"
    runs = groupby(text, key=str.isalnum if is_english else _is_letter_or_mark)
    spellings = ["".join(run).lower() for is_word, run in runs if is_word]
    if language == "ngram":
        runs_of_letters = [fold_to_ascii(s) for s in spellings if not all(map(_is_mark, s))]
        return tuple(Word(gram, gram) for run in runs_of_letters for gram in _grams_of(run))
    retained = [s for s in spellings if len(s) <= WORD_CHARACTERS_MAX]
    if is_english:
        retained = [s for s in retained if s not in STOP_WORDS]
    else:
        retained = [s for s in retained if not all(map(_is_mark, s))]
    return tuple(
        Word(fold_to_ascii(each), fold_to_ascii(_stem(each, language))) for each in retained
    )


def stems_of(text: str, language: str) -> list[str]:
    """The stems of a text, in order."""
    return [word.stem for word in words_of(text, language)]


def _is_mark(letter: str) -> bool:
    return unicodedata.category(letter) in {"Mn", "Mc", "Me"}


def _is_letter_or_mark(letter: str) -> bool:
    return letter.isalnum() or _is_mark(letter)


def _grams_of(run: str) -> list[str]:
    grams: list[str] = []
    for is_far_eastern, letters in groupby(run, key=lambda letter: ord(letter) >= 0x2E80):
        stretch, width = "".join(letters), 2 if is_far_eastern else 3
        whole = [stretch[at : at + width] for at in range(len(stretch))]
        grams += [gram for gram in whole if len(gram) == width] or [stretch]
    return grams


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language)


def _stem(word: str, language: str) -> str:
    return word if language == "none" else str(_stemmer(language).stemWord(word))


# Matching


def matches(text: str, query: str, language: str) -> bool:
    """Whether a text has a word of the query."""
    return not set(stems_of(text, language)).isdisjoint(stems_of(query, language))


def matches_fuzzily(text: str, query: str, edits: int, language: str) -> bool:
    """Whether a text has a word within so many edits of a word of the query."""
    return any(
        count_edits(word.spelling, wanted.spelling) <= edits
        for word in words_of(text, language)
        for wanted in words_of(query, language)
    )


@cache
def count_edits(one: str, other: str) -> int:
    """How many characters have to be inserted, removed or replaced."""
    if not one or not other:
        return len(one) + len(other)
    return min(
        count_edits(one[1:], other) + 1,
        count_edits(one, other[1:]) + 1,
        count_edits(one[1:], other[1:]) + (one[0] != other[0]),
    )


# Relevance


@dataclass(frozen=True, slots=True)
class Library:
    """The texts of a property over all nodes of a type; what is null is not among them."""

    texts: Sequence[str]
    language: str

    def score(self, text: str, query: str) -> float:
        """How relevant a text is; zero if it has none of the words."""
        stems = stems_of(text, self.language)
        wanted = sorted(set(stems_of(query, self.language)))
        return sum(self._weigh(word, stems) for word in wanted)

    def _weigh(self, word: str, stems: Sequence[str]) -> float:
        frequency = stems.count(word)
        if not frequency:
            return 0.0
        lengths = [len(stems_of(each, self.language)) for each in self.texts]
        average = sum(lengths) / len(lengths)
        holders = sum(word in stems_of(each, self.language) for each in self.texts)
        rarity = math.log(1 + (len(self.texts) - holders + 0.5) / (holders + 0.5))
        crowd = 1 - _B + _B * len(stems) / average
        return rarity * frequency * (_K1 + 1) / (frequency + _K1 * crowd)


# Distance


def distance(vector: Value, query: Value) -> float | None:
    """How far two vectors are apart; a vector that is not all finite numbers is none."""
    if not (_is_vector(vector) and _is_vector(query)):
        return None
    assert isinstance(vector, tuple)
    assert isinstance(query, tuple)
    pairs = zip(_numbers(as_f32(vector)), _numbers(as_f32(query)), strict=True)
    return math.sqrt(sum((one - other) ** 2 for one, other in pairs))


def _is_vector(value: Value) -> bool:
    return isinstance(value, tuple) and all(map(math.isfinite, _numbers(value)))


def _numbers(value: Value) -> list[float]:
    assert isinstance(value, tuple)
    return [float(each) for each in value if isinstance(each, int | float)]


# Fusion


def fuse(primary: Sequence[str], secondary: Sequence[str], k: int) -> dict[str, float]:
    """The score of every ranked id, best first.

    Equal scores keep the order of the first ranking, then that of the second.
    """
    scores: dict[str, float] = {}
    for ranked in (primary, secondary):
        for rank, id in enumerate(ranked):
            scores[id] = scores.get(id, 0.0) + 1 / (k + rank + 1)
    return dict(sorted(scores.items(), key=lambda entry: -entry[1]))


# Mock vectors


def embed(text: str, dimension: int) -> tuple[float, ...]:
    """The vector that stands for a text where no model is at hand, in 32-bit arithmetic.

    Only the squares are added up in 64 bits.
    """
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    components: list[float] = []
    for _ in range(dimension):
        state ^= state << 13 & 2**64 - 1
        state ^= state >> 7
        state ^= state << 17 & 2**64 - 1
        components.append(_f32(_f32(_f32(state / (2**64 - 1)) * 2) - 1))
    length = _f32(math.sqrt(sum(each * each for each in components)))
    return tuple(_f32(each / length) for each in components)


def _f32(number: float) -> float:
    rounded = as_f32(number)
    assert isinstance(rounded, float)
    return rounded
