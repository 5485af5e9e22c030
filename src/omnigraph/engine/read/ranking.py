"""Rankings: the entities of one variable by distance, by relevance, or by both.

Ranks what the pattern matched, never more: every condition has been applied before. Ties are broken
by id, so that one ranking has one order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compiler.ir import Bm25, Nearest, Ranking, Rrf
from omnigraph.engine.read.matching import Matcher
from omnigraph.engine.read.ranking_inputs import QueryVector, QueryVectors, fusion_constant
from omnigraph.engine.read.relation import Relation
from omnigraph.engine.read.search.fusion import fuse
from omnigraph.engine.read.spaces import UNBOUND, Codes, Space, TableSpace, move
from omnigraph.model.embedding import Embedder

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Entities in order, best first, with their scores or distances."""

    codes: Codes
    scores: Scores


@dataclass(frozen=True, slots=True)
class Ranker:
    """Ranks and scores the entities of one read; without an embedder texts have no vectors."""

    matcher: Matcher
    embedder: Embedder | None
    type_by_variable: Mapping[str, str]

    def rank(self, ranking: Ranking, codes: Codes, space: Space, *, wanted: int | None) -> Ranked:
        """The best of some distinct entities: as many as are wanted, all if nobody says."""
        match ranking:
            case Nearest():
                return self._rank_nearest(ranking, codes, space, wanted)
            case Bm25():
                return self._rank_bm25(ranking, codes, space, wanted)
            case Rrf(primary, secondary, k):
                # An arm of distances keeps its best; one of relevance keeps whoever matches.
                first = self.rank(primary, codes, space, wanted=kept_by(primary, wanted))
                second = self.rank(secondary, codes, space, wanted=kept_by(secondary, wanted))
                constant = fusion_constant(k, self.matcher.inputs)
                if constant is None:
                    return _NOTHING
                fused, scores = fuse(first.codes, second.codes, constant)
                return Ranked(fused[:wanted], scores[:wanted])

    def scores(
        self, ranking: Nearest | Bm25, relation: Relation, spaces: Mapping[str, Space]
    ) -> pa.Array:
        """The distance or relevance of each row; null where there is no vector or text."""
        name = ranking.field.variable
        table, places = _in_table(relation.codes[name], spaces[name])
        if isinstance(ranking, Nearest):
            found = self._distances(ranking, table, places)
        else:
            found = self._relevance(ranking, table)[places]
        return pa.array(found, mask=np.isnan(found))

    def _rank_nearest(
        self, ranking: Nearest, codes: Codes, space: Space, wanted: int | None
    ) -> Ranked:
        query = self._vector(ranking)
        table, places = _in_table(codes, space)
        if query is None or not table.has_columns([ranking.field.property]) or not len(codes):
            return _NOTHING
        column = self.matcher.sources.vector_column(table, ranking.field.property)
        is_candidate = np.zeros(table.size, np.bool_)
        is_candidate[places] = True
        near = column.nearest(query, len(codes) if wanted is None else wanted, is_candidate)
        distances = column.distances(query, near)
        back = np.full(table.size, UNBOUND, np.int64)
        back[places] = codes
        return _best(back[near], distances, table.id_keys(near), wanted)

    def _rank_bm25(self, ranking: Bm25, codes: Codes, space: Space, wanted: int | None) -> Ranked:
        table, places = _in_table(codes, space)
        scores = self._relevance(ranking, table)[places]
        is_match = scores > 0
        matched, found = codes[is_match], scores[is_match]
        best = _best(matched, -found, table.id_keys(places[is_match]), wanted)
        return Ranked(best.codes, -best.scores)

    def _relevance(self, ranking: Bm25, table: TableSpace) -> Scores:
        """The relevance of every entity of a type, and NaN for none, at the place of none."""
        query = self.matcher.inputs.value_of(ranking.query)
        name = ranking.field.property
        if query is None or not table.has_columns([name]) or not table.size:
            return np.full(table.size + 1, np.nan)
        assert isinstance(query, str)
        return np.append(self.matcher.sources.text_index(table, name).score(query), np.nan)

    def _distances(self, ranking: Nearest, table: TableSpace, places: Codes) -> Scores:
        query = self._vector(ranking)
        distances = np.full(len(places), np.nan)
        is_bound = places != UNBOUND
        if query is not None and table.has_columns([ranking.field.property]) and is_bound.any():
            column = self.matcher.sources.vector_column(table, ranking.field.property)
            distances[is_bound] = column.distances(query, places[is_bound])
        return distances

    def _vector(self, ranking: Nearest) -> QueryVector | None:
        matcher = self.matcher
        return QueryVectors(
            matcher.inputs, self.embedder, matcher.sources.catalog, self.type_by_variable
        ).find(ranking)


_NOTHING = Ranked(np.zeros(0, np.int64), np.zeros(0, np.float64))


def _in_table(codes: Codes, space: Space) -> tuple[TableSpace, Codes]:
    """Entities as codes of their whole type."""
    return space.whole, move(codes, source=space, target=space.whole)


def _best(codes: Codes, keys: Scores, ids: Codes, wanted: int | None) -> Ranked:
    """Entities by ascending key, then by id."""
    order = np.lexsort((ids, keys))[:wanted]
    return Ranked(codes[order], keys[order])


def kept_by(arm: Nearest | Bm25, wanted: int | None) -> int | None:
    """How many entities one of two rankings keeps when so many of both are wanted."""
    return wanted if isinstance(arm, Nearest) else None
