"""A reference implementation of hybrid search: an exhaustive scan of all documents.

Implements the definitions directly: Euclidean distances in double precision, BM25 with the usual
constants over all documents, and reciprocal rank fusion of the documents that pass the filters. It
caches only the word counts of the documents.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import numpy.typing as npt

from bench.support.documents import Library, Request
from omnigraph.engine.read.search.text_index import analyze
from omnigraph.model.types import TextLanguage

_K1, _B, _RRF = 1.2, 0.75, 60


class ReferenceSearch:
    """Computes the exact best documents of a request."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._words = [Counter(analyze(text, TextLanguage.ENGLISH).stems) for text in library.texts]
        self._lengths = [sum(each.values()) for each in self._words]
        self._average = sum(self._lengths) / len(self._lengths)

    def best(self, request: Request) -> list[str]:
        """The titles of the ten best documents, best first."""
        library = self._library
        is_allowed = (library.years >= request.year) & (library.countries == request.country)
        allowed = np.flatnonzero(is_allowed)
        near = self._nearest(request, allowed)[:10]
        scores = self._scores(request.words, allowed)
        relevant = sorted(scores, key=lambda number: (-scores[number], library.titles[number]))
        shares: dict[int, float] = {}
        for ranking in (near, relevant):
            for rank, number in enumerate(ranking):
                shares[number] = shares.get(number, 0.0) + 1 / (_RRF + rank + 1)
        # Documents with equal shares keep their insertion order.
        fused = sorted(shares, key=lambda number: -shares[number])
        return [library.titles[number] for number in fused[:10]]

    def _nearest(self, request: Request, allowed: npt.NDArray[np.int64]) -> list[int]:
        offsets = self._library.vectors[allowed].astype(np.float64) - request.vector
        distances = np.sqrt(np.square(offsets).sum(axis=1))
        return [int(number) for number in allowed[np.argsort(distances, kind="stable")]]

    def _scores(self, text: str, allowed: npt.NDArray[np.int64]) -> dict[int, float]:
        """The BM25 score of every allowed document that contains a word of the text."""
        scores: dict[int, float] = {}
        allowed_numbers = set(allowed.tolist())
        for word in sorted(set(analyze(text, TextLanguage.ENGLISH).stems)):
            holders = [number for number, words in enumerate(self._words) if word in words]
            rarity = math.log(1 + (len(self._words) - len(holders) + 0.5) / (len(holders) + 0.5))
            for number in allowed_numbers.intersection(holders):
                count = self._words[number][word]
                length_factor = 1 - _B + _B * self._lengths[number] / self._average
                score = rarity * count * (_K1 + 1) / (count + _K1 * length_factor)
                scores[number] = scores.get(number, 0.0) + score
        return scores
