"""From texts to words: what full-text search compares.

Promises that a column of texts and a single query come apart in the same way: at everything that
is not a letter or a digit of some script; in lower case; without very long words and without
English stop words. A word is kept in two forms, folded to ASCII where that is possible: as it is
written, for fuzzy matches, and as its English stem, for all others. Knows no index and no scores.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import compress, pairwise

import numpy as np
import pyarrow as pa
import Stemmer
from numpy.typing import NDArray

from omnigraph.model import limits

# Python's `\w` is its `isalnum` and the underscore.
_RUN = re.compile(r"[^\W_]+")
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

# Letters that Unicode does not take apart, although everybody writes them in ASCII.
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
    """Words, each in the two forms under which it is found."""

    written: tuple[str, ...]
    stems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Every word of every text: in which text it stands, and which of the words it is."""

    texts: NDArray[np.int64]
    codes: NDArray[np.int64]
    words: Words


def analyze(text: str) -> Words:
    """The words of a query, in the order in which they stand there."""
    return _forms(_RUN.findall(text))[1]


def tokenize(texts: pa.Array) -> Tokens:
    """The words of each text of a column in turn; null has none."""
    positions, runs = _runs((texts.fill_null("") if texts.null_count else texts).cast(_TEXT))
    encoded = runs.dictionary_encode().combine_chunks()
    has_form, words = _forms(encoded.dictionary.to_pylist())
    codes = np.where(has_form, np.cumsum(has_form) - 1, -1)[encoded.indices.to_numpy()]
    kept = codes >= 0
    return Tokens(positions[kept], codes[kept], words)


def _runs(column: pa.Array) -> tuple[NDArray[np.int64], pa.ChunkedArray]:
    """The runs of letters and digits, and the position of the text that each stands in."""
    _, offset_buffer, byte_buffer = column.buffers()
    if not len(column) or byte_buffer is None:
        return np.empty(0, np.int64), pa.chunked_array([], _TEXT)
    borders = np.frombuffer(offset_buffer, np.int64)[column.offset :][: len(column) + 1]
    letters = np.frombuffer(byte_buffer, np.uint8)
    steps = np.arange(borders[0], borders[-1], limits.SEARCH_BLOCK_BYTES)
    cuts = np.unique(np.append(np.searchsorted(borders, steps), len(column)))
    blocks = [_split(letters, borders[start : end + 1]) for start, end in pairwise(cuts)]
    counts = np.concatenate([np.empty(0, np.int64), *(counts for counts, _ in blocks)])
    positions = np.repeat(np.arange(cuts[0], len(column)), counts)
    return positions, pa.chunked_array([runs for _, runs in blocks], _TEXT)


def _split(
    all_letters: NDArray[np.uint8], borders: NDArray[np.int64]
) -> tuple[NDArray[np.int64], pa.Array]:
    """How many runs each text between two borders has, and all of them."""
    letters = all_letters[borders[0] : borders[-1]]
    borders = borders - borders[0]
    in_run = _alphanumeric(letters)
    # Texts stand in the buffer without anything between them.
    continues = in_run[1:] & in_run[:-1]
    inner = borders[(borders > 0) & (borders < len(letters))]
    continues[inner - 1] = False
    starts = np.flatnonzero(in_run & ~np.append(False, continues))
    ends = np.flatnonzero(in_run & ~np.append(continues, False))

    counts = np.diff(np.searchsorted(starts, borders))
    offsets = np.append(0, np.cumsum(ends + 1 - starts))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters[in_run])]
    return counts, pa.Array.from_buffers(_TEXT, len(starts), buffers)


def _alphanumeric(letters: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which bytes of UTF-8 belong to a letter or a digit."""
    # Whatever is below the first letter or digit wraps around and is far above the last.
    is_letter = (letters | 0x20) - np.uint8(ord("a")) < 26
    is_digit = letters - np.uint8(ord("0")) < 10
    found: NDArray[np.bool_] = is_letter | is_digit
    beyond = letters >= 128
    if beyond.any():
        # The bytes beyond ASCII, taken alone, are whole characters.
        others = letters[beyond].tobytes().decode("utf-8")
        codes = np.frombuffer(others.encode("utf-32-le"), np.uint32)
        distinct, which = np.unique(codes, return_inverse=True)
        is_alphanumeric = np.array([chr(code).isalnum() for code in distinct])[which]
        widths = 2 + (codes > 0x7FF).astype(np.int64) + (codes > 0xFFFF)
        found[beyond] = np.repeat(is_alphanumeric, widths)
    return found


def _forms(runs: list[str]) -> tuple[NDArray[np.bool_], Words]:
    """Which of the distinct runs are words to search for, and the forms of those."""
    lowered = [run.lower() for run in runs]
    is_kept = [
        len(word) <= limits.SEARCH_WORD_CHARACTERS_MAX and word not in STOP_WORDS
        for word in lowered
    ]
    kept = list(compress(lowered, is_kept))
    # One for each call, because a stemmer may not be shared between threads; it remembers nothing,
    # because every word comes once.
    stems: list[str] = Stemmer.Stemmer("english", 0).stemWords(kept)
    foldings = _foldings(kept)
    words = Words(
        tuple(word.translate(foldings) for word in kept),
        tuple(stem.translate(foldings) for stem in stems),
    )
    return np.array(is_kept, np.bool_), words


def _foldings(words: list[str]) -> dict[int, str]:
    """What each character beyond ASCII that occurs becomes, where it becomes something else."""
    occurring = {letter for word in words if not word.isascii() for letter in word}
    folded = {letter: _fold(letter) for letter in occurring if not letter.isascii()}
    return {ord(letter): ascii_form for letter, ascii_form in folded.items()}


def _fold(letter: str) -> str:
    if unicodedata.combining(letter):
        return ""  # from the lower case of a capital i with a dot; no other mark is in a word
    if letter in _WRITTEN_OTHERWISE:
        return _WRITTEN_OTHERWISE[letter]
    parts = unicodedata.normalize("NFKD", letter)
    bare = "".join(part for part in parts if not unicodedata.combining(part))
    # A letter of another script stays as it is, with its marks.
    return bare.lower() if bare.isascii() and bare.isalnum() else letter
