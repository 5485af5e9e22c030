"""Rankings of matched entities: vector distance, BM25 relevance, and reciprocal rank fusion.

A ranking contains only entities that the pattern matched, after all conditions. Ties are broken by
id, so every ranking has one order. The query vector and the fusion constant are computed alike for
every executor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.compiler.ir import Bm25, Exact, Given, Nearest, PropertyValue, Ranking, Rrf, Value
from omnigraph.engine.read.entities import (
    UNBOUND,
    EntityIndex,
    Indexes,
    Marks,
    Ordinals,
    WholeEntities,
    move,
)
from omnigraph.engine.read.filter import Filter
from omnigraph.engine.read.relation import Relation
from omnigraph.engine.read.search.vectors import are_decisive, choose_candidates
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import EmbeddingError, InvalidValueError
from omnigraph.model.limits import NEAREST_PROBES
from omnigraph.model.ports import Embedder
from omnigraph.model.types import Vector
from omnigraph.storage.ports import VectorSearch

QueryVector = npt.NDArray[np.float32]

_PROBES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """The query vectors of one read; without an embedder, texts cannot be embedded."""

    inputs: Inputs
    embedder: Embedder | None
    catalog: Catalog
    type_by_variable: Mapping[str, str]

    def find(self, ranking: Nearest) -> QueryVector | None:
        """The vector that a ranking measures distances from, or None if it is null.

        Raises `EmbeddingError` if a text cannot be embedded, and `InvalidValueError` if the stored
        vectors were made by another model.
        """
        element = ranking.field.type.element
        assert isinstance(element, Vector), "only vectors have neighbours"
        value = self.inputs.value_of(ranking.query)
        if value is None:
            return None
        if isinstance(value, str):
            value = self._embed(value, ranking.field, element.dimension)
        assert isinstance(value, tuple)
        return np.array(value, np.float32)

    def _embed(self, text: str, field: PropertyValue, dimension: int) -> Value:
        if self.embedder is None:
            raise EmbeddingError(
                action=f"embed the text that ${field.variable}.{field.property} is compared with",
                reason="no embedding provider is configured; set OMNIGRAPH_EMBEDDINGS_MOCK=1 for "
                "the built-in one, or give a vector",
            )
        self._require_model(field, self.embedder)
        return self.embedder.embed(text, dimension)

    def _require_model(self, field: PropertyValue, embedder: Embedder) -> None:
        type_name = self.type_by_variable[field.variable]
        declared = self.catalog.nodes[type_name].properties[field.property]
        recorded = declared.embedding.model if declared.embedding is not None else None
        if recorded is not None and recorded != embedder.model:
            raise InvalidValueError(
                subject=f"{type_name}.{field.property}",
                expected=f"a vector of model '{recorded}'",
                value=None,
                problem=f"its vectors were made by model '{recorded}', and texts are embedded by "
                f"'{embedder.model}'; configure '{recorded}' or give a vector",
            )


def fusion_constant(k: Given, inputs: Inputs) -> int | None:
    """The constant of `rrf()`, or None if null; `InvalidValueError` if it is not positive."""
    constant = inputs.value_of(k)
    if constant is None:
        return None
    assert isinstance(constant, int)
    if constant <= 0:
        raise InvalidValueError(
            subject="the constant of rrf()",
            expected="a positive number",
            value=constant,
            problem=f"{constant} is not positive",
        )
    return constant


def find_index_search(ranking: Nearest, query: QueryVector, inputs: Inputs) -> VectorSearch | None:
    """The search of the index that a ranking may use; None if it has to compare all vectors.

    Raises `InvalidValueError` if the number of partitions is not positive.
    """
    if isinstance(ranking.effort, Exact) or not np.isfinite(query).all():
        return None
    given = None if ranking.effort is None else inputs.value_of(ranking.effort)
    probes = NEAREST_PROBES if given is None else given
    assert isinstance(probes, int)
    if probes < 1:
        raise InvalidValueError(
            subject="the number of partitions of nearest()",
            expected="a positive number",
            value=probes,
            problem=f"{probes} is not positive",
        )
    # Lance counts partitions in 32 bits, and no index has this many.
    return VectorSearch(ranking.field.property, query, min(probes, _PROBES_MAX))


def fuse(
    primary: NDArray[np.int64], secondary: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The ordinals of either ranking, best first, and their fused scores.

    Each ranking must hold distinct ordinals, best first.
    """
    ordinals, which = np.unique(np.concatenate([primary, secondary]), return_inverse=True)
    order, scores = fuse_places(
        _places(which[: len(primary)], len(ordinals)),
        _places(which[len(primary) :], len(ordinals)),
        k,
    )
    return ordinals[order], scores


def fuse_places(
    primary: NDArray[np.float64], secondary: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The order of entities by fused score, best first, and the scores in that order.

    The arguments hold the position of each entity in either ranking, counted from 1, or NaN. No two
    entities have the same position in a ranking.
    """
    scores = _shares(primary, k) + _shares(secondary, k)
    is_later = np.isnan(primary)
    order = np.lexsort((np.where(is_later, secondary, primary), is_later, -scores))
    return order, scores[order]


def _places(ranked: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    places = np.full(size, np.nan)
    places[ranked] = np.arange(1, len(ranked) + 1)
    return places


def _shares(places: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    return np.where(np.isnan(places), 0.0, 1.0 / (float(k) + places))


Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Ranked entities, best first, with their scores or distances."""

    ordinals: Ordinals
    scores: Scores


@dataclass(frozen=True, slots=True)
class Ranker:
    """Ranks and scores the entities of one read; without an embedder, texts have no vectors."""

    matcher: Filter
    embedder: Embedder | None
    type_by_variable: Mapping[str, str]

    def rank(
        self, ranking: Ranking, ordinals: Ordinals, index: EntityIndex, *, wanted: int | None
    ) -> Ranked:
        """The best `wanted` of some distinct entities, or all of them if `wanted` is None."""
        match ranking:
            case Nearest():
                return self._rank_nearest(ranking, ordinals, index, wanted)
            case Bm25():
                return self._rank_bm25(ranking, ordinals, index, wanted)
            case Rrf(primary, secondary, k):
                # A distance ranker returns its best entities, a relevance ranker all matches.
                first = self.rank(primary, ordinals, index, wanted=ranker_limit(primary, wanted))
                second = self.rank(
                    secondary, ordinals, index, wanted=ranker_limit(secondary, wanted)
                )
                constant = fusion_constant(k, self.matcher.inputs)
                if constant is None:
                    return _NOTHING
                fused, scores = fuse(first.ordinals, second.ordinals, constant)
                return Ranked(fused[:wanted], scores[:wanted])

    def scores(self, ranking: Nearest | Bm25, relation: Relation, indexes: Indexes) -> pa.Array:
        """The distance or relevance of each row; null without a vector or text."""
        name = ranking.field.variable
        table, places = _in_table(relation.ordinals[name], indexes[name])
        if isinstance(ranking, Nearest):
            found = self._distances(ranking, table, places)
        else:
            found = self._relevance(ranking, table)[places]
        return pa.array(found, mask=np.isnan(found))

    def _rank_nearest(
        self, ranking: Nearest, ordinals: Ordinals, index: EntityIndex, wanted: int | None
    ) -> Ranked:
        query = self._vector(ranking)
        table, places = _in_table(ordinals, index)
        if query is None or not table.has_columns([ranking.field.property]) or not len(ordinals):
            return _NOTHING
        is_match = np.zeros(table.size, np.bool_)
        is_match[places] = True
        near, distances = self._find_near(ranking, query, table, is_match, wanted)
        back = np.full(table.size, UNBOUND, np.int64)
        back[places] = ordinals
        return _best(back[near], distances, near, table, wanted)

    def _find_near(
        self,
        ranking: Nearest,
        query: QueryVector,
        table: WholeEntities,
        is_match: Marks,
        wanted: int | None,
    ) -> tuple[Ordinals, Scores]:
        """The matching entities that may be among the nearest, and their distances."""
        name, sources = ranking.field.property, self.matcher.sources
        search = find_index_search(ranking, query, self.matcher.inputs)
        if search is not None:
            chosen = choose_candidates(
                wanted,
                search=lambda count: table.find_nearest(search, count),
                match=lambda found: is_match[found],
            )
            if chosen is not None:
                distances = self._measure(table, name, query, chosen)
                if wanted is not None and are_decisive(distances, wanted):
                    is_vector = ~np.isnan(distances)
                    return chosen[is_vector], distances[is_vector]
        matching = np.flatnonzero(is_match)
        count = len(matching) if wanted is None else wanted
        some = sources.some_vectors(table, name, matching)
        if some is not None:
            near = some.nearest(query, count, None)
            return matching[near], some.distances(query, near)
        column = sources.vector_column(table, name)
        near = column.nearest(query, count, is_match)
        return near, column.distances(query, near)

    def _measure(
        self, table: WholeEntities, name: str, query: QueryVector, ordinals: Ordinals
    ) -> Scores:
        """The distance of each entity; NaN without a vector."""
        some = self.matcher.sources.some_vectors(table, name, ordinals)
        if some is not None:
            return some.distances(query, np.arange(len(ordinals)))
        return self.matcher.sources.vector_column(table, name).distances(query, ordinals)

    def _rank_bm25(
        self, ranking: Bm25, ordinals: Ordinals, index: EntityIndex, wanted: int | None
    ) -> Ranked:
        table, places = _in_table(ordinals, index)
        scores = self._relevance(ranking, table)[places]
        is_match = scores > 0
        matched, found = ordinals[is_match], scores[is_match]
        best = _best(matched, -found, places[is_match], table, wanted)
        return Ranked(best.ordinals, -best.scores)

    def _relevance(self, ranking: Bm25, table: WholeEntities) -> Scores:
        """The relevance of every entity of a type, followed by NaN, which `UNBOUND` indexes."""
        query = self.matcher.inputs.value_of(ranking.query)
        name = ranking.field.property
        if query is None or not table.has_columns([name]) or not table.size:
            return np.full(table.size + 1, np.nan)
        assert isinstance(query, str)
        index = self.matcher.sources.text_index(table, name, ranking.language)
        return np.append(index.score(query), np.nan)

    def _distances(self, ranking: Nearest, table: WholeEntities, places: Ordinals) -> Scores:
        query = self._vector(ranking)
        distances = np.full(len(places), np.nan)
        is_bound = places != UNBOUND
        if query is not None and table.has_columns([ranking.field.property]) and is_bound.any():
            name = ranking.field.property
            distances[is_bound] = self._measure(table, name, query, places[is_bound])
        return distances

    def _vector(self, ranking: Nearest) -> QueryVector | None:
        matcher = self.matcher
        return QueryVectors(
            matcher.inputs, self.embedder, matcher.sources.catalog, self.type_by_variable
        ).find(ranking)


_NOTHING = Ranked(np.zeros(0, np.int64), np.zeros(0, np.float64))


def _in_table(ordinals: Ordinals, index: EntityIndex) -> tuple[WholeEntities, Ordinals]:
    """The index of the whole table, and the ordinals of entities in it."""
    return index.whole, move(ordinals, source=index, target=index.whole)


def _best(
    ordinals: Ordinals, keys: Scores, places: Ordinals, table: WholeEntities, wanted: int | None
) -> Ranked:
    """Entities by ascending key, then by id; `places` are their ordinals in the table."""
    if wanted is not None and 0 < wanted < len(keys):
        # Ids are compared only where they can decide.
        last = np.partition(keys, wanted - 1)[wanted - 1]
        is_near = ~(keys > last)
        ordinals, keys, places = ordinals[is_near], keys[is_near], places[is_near]
    order = np.lexsort((table.id_keys(places), keys))[:wanted]
    return Ranked(ordinals[order], keys[order])


def ranker_limit(ranking: Nearest | Bm25, wanted: int | None) -> int | None:
    """The number of entities that one ranker of a fusion returns; None is all matches."""
    return wanted if isinstance(ranking, Nearest) else None
