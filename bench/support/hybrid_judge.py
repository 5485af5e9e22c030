"""The judge of a hybrid search: looks at every document, and keeps nothing but their words.

Follows from the definitions alone: Euclidean distances in double precision, BM25 with the usual
constants over all documents, and reciprocal ranks of those that pass the filters.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import numpy.typing as npt

from bench.support.documents import Library, Request
from omnigraph.engine.read.search.text_index import analyze

_K1, _B, _RRF = 1.2, 0.75, 60


class Judge:
    """Knows which documents are the best for a request."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._words = [Counter(analyze(text).stems) for text in library.texts]
        self._lengths = [sum(each.values()) for each in self._words]
        self._average = sum(self._lengths) / len(self._lengths)

    def best(self, request: Request) -> list[str]:
        """The titles of the ten best documents, best first."""
        library = self._library
        is_allowed = (library.years >= request.year) & (library.countries == request.country)
        allowed = np.flatnonzero(is_allowed)
        near = self._nearest(request, allowed)[:10]
        scores = self._scores(request.words, allowed)
        relevant = sorted(scores, key=lambda place: (-scores[place], library.titles[place]))
        shares: dict[int, float] = {}
        for ranking in (near, relevant):
            for rank, place in enumerate(ranking):
                shares[place] = shares.get(place, 0.0) + 1 / (_RRF + rank + 1)
        # Equal shares keep the order in which they were first given.
        fused = sorted(shares, key=lambda place: -shares[place])
        return [library.titles[place] for place in fused[:10]]

    def _nearest(self, request: Request, allowed: npt.NDArray[np.int64]) -> list[int]:
        offsets = self._library.vectors[allowed].astype(np.float64) - request.vector
        distances = np.sqrt(np.square(offsets).sum(axis=1))
        return [int(place) for place in allowed[np.argsort(distances, kind="stable")]]

    def _scores(self, text: str, allowed: npt.NDArray[np.int64]) -> dict[int, float]:
        """The relevance of every allowed document that has a word of the text."""
        scores: dict[int, float] = {}
        permitted = set(allowed.tolist())
        for word in sorted(set(analyze(text).stems)):
            holders = [place for place, words in enumerate(self._words) if word in words]
            rarity = math.log(1 + (len(self._words) - len(holders) + 0.5) / (len(holders) + 0.5))
            for place in permitted.intersection(holders):
                count = self._words[place][word]
                crowding = 1 - _B + _B * self._lengths[place] / self._average
                score = rarity * count * (_K1 + 1) / (count + _K1 * crowding)
                scores[place] = scores.get(place, 0.0) + score
        return scores
