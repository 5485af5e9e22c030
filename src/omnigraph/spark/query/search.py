"""Searches of a query with its inputs filled in: what a task has to be told to judge rows.

Texts to compare vectors with are embedded here, once; what cannot be embedded is refused as the
engine in process refuses it. Reads nothing: who knows the texts of a type is asked for their
statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.compiler.ir import Bm25, Nearest, TextMatch
from omnigraph.engine.read.matching import Inputs
from omnigraph.engine.read.ranking_inputs import QueryVectors
from omnigraph.engine.read.search.text_index import NO_TEXTS, TextStatistics
from omnigraph.spark.query.looks import Search
from omnigraph.spark.query.measures import Distance, HoldsWords, Measure, Relevance

FindStatistics = Callable[[str, str], TextStatistics]
"""From a property and a query's text to the statistics of all texts of the type."""


@dataclass(frozen=True, slots=True)
class Seeker:
    """Makes measures of the searches of one read."""

    inputs: Inputs
    vectors: QueryVectors

    def bind(self, search: Search, statistics: FindStatistics) -> Measure:
        """What a search asks of each row; `statistics` is called where scores need them."""
        name = search.field.property
        match search:
            case TextMatch(is_negated=is_negated):
                return HoldsWords(name, self.inputs.sought(search), is_negated)
            case Nearest():
                found = self.vectors.find(search)
                return Distance(name, None if found is None else tuple(found.tolist()))
            case Bm25(query=query):
                words = self.inputs.value_of(query)
                if words is None:
                    return Relevance(name, None, NO_TEXTS)
                assert isinstance(words, str)
                return Relevance(name, words, statistics(name, words))
