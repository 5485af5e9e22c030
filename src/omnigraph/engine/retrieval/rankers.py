"""The rankers of a hybrid search, their weighted reciprocal rank fusion, and recorded vectors.

A text ranker uses indexed text properties, or all texts of the type if none is indexed. A vector
ranker uses `@embed` vectors, or a vector that the caller supplies. Equal scores are ordered by
type and id. Recorded vectors identify a text only by its hash, so a receipt does not reveal it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.compiler.ir import Constant, Nearest, PropertyValue
from omnigraph.compiler.query.conditions import RRF_K_DEFAULT
from omnigraph.engine.read.ranking import QueryVectors
from omnigraph.engine.retrieval.results import (
    ArmRank,
    NodeName,
    QueryVector,
    Request,
    hash_text,
    refuse_receipt,
)
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.model.catalog import Catalog, Embedding, Index, NodeType
from omnigraph.model.errors import EmbeddingError, InvalidValueError, NotFoundError
from omnigraph.model.ports import Embedder
from omnigraph.model.types import STRING, Vector

VARIABLE = "n"


@dataclass(frozen=True, slots=True)
class TextRanker:
    """Ranks nodes by the relevance of a text property."""

    type: str
    field: PropertyValue

    @property
    def name(self) -> str:
        return f"bm25({self.type}.{self.field.property})"


@dataclass(frozen=True, slots=True)
class VectorRanker:
    """Ranks nodes by the distance of a vector property.

    `embedding` is the declared source and model of the vectors, if any.
    """

    type: str
    field: PropertyValue
    embedding: Embedding | None

    @property
    def name(self) -> str:
        return f"nearest({self.type}.{self.field.property})"

    @property
    def dimension(self) -> int:
        element = self.field.type.element
        assert isinstance(element, Vector), "only vectors have neighbours"
        return element.dimension

    @property
    def kind(self) -> tuple[int, str | None]:
        """The dimension and model; rankers of equal kind use the same query vector."""
        return self.dimension, None if self.embedding is None else self.embedding.model


Ranker = TextRanker | VectorRanker


def find_rankers(
    request: Request, catalog: Catalog, *, given: QueryVector | None
) -> tuple[Ranker, ...]:
    """The rankers of a request in a fixed order; `InvalidValueError` if there is none.

    `given` is a vector from the caller that replaces the vector of the text. `NotFoundError` if a
    requested type is not a node type.
    """
    found = [ranker for each in _find_types(request.types, catalog) for ranker in _rankers_of(each)]
    words = [each for each in found if isinstance(each, TextRanker)]
    vectors = [
        each for each in found if isinstance(each, VectorRanker) and _is_searched(each, given)
    ]
    if given is not None and not (vectors and request.vector_weight):
        raise InvalidValueError(
            subject="vector",
            expected="a vector as long as those that are searched",
            value=None,
            problem=f"nothing that is searched has vectors of {len(given.numbers)} numbers"
            if request.vector_weight
            else "with vector_weight=0 it has no effect; omit it",
        )
    rankers = (*(words if request.word_weight else ()), *(vectors if request.vector_weight else ()))
    _require_searched(request, rankers, catalog)
    return rankers


def make_vectors(
    rankers: Iterable[Ranker],
    text: str,
    *,
    embedder: Embedder | None,
    catalog: Catalog,
    now: datetime,
) -> tuple[QueryVector, ...]:
    """The query vectors of a text for some rankers, one for each length, shortest first.

    `EmbeddingError` if no provider can compute them, and `InvalidValueError` if they cannot be
    compared.
    """
    numbers_by_kind: dict[tuple[int, str | None], tuple[float, ...]] = {}
    for ranker in rankers:
        if isinstance(ranker, VectorRanker) and ranker.kind not in numbers_by_kind:
            ranking = Nearest(ranker.field, Constant(text, STRING), None)
            vectors = QueryVectors(Inputs({}, now), embedder, catalog, {VARIABLE: ranker.type})
            try:
                found = vectors.find(ranking)
            except EmbeddingError as error:
                # Falling back to text rankers alone would silently change the result.
                reason = f"{error.reason}; or search words alone, with vector_weight=0"
                raise EmbeddingError(action=error.action, reason=reason) from error
            assert found is not None, "a text was given"
            numbers_by_kind[ranker.kind] = tuple(found.tolist())
    # Stored vectors of any declared model are compared with vectors of the one provider.
    by_length = {length: numbers for (length, _), numbers in numbers_by_kind.items()}
    if embedder is None or not by_length:
        return ()
    # The model is read only if something was embedded: without a key there may be none.
    model, made_of = embedder.model, hash_text(text)
    return tuple(QueryVector(model, made_of, by_length[each]) for each in sorted(by_length))


def require_vectors(rankers: Iterable[Ranker], vectors: Sequence[QueryVector]) -> None:
    """Raise `InvalidValueError` unless every vector ranker has a query vector.

    A receipt may lack one.
    """
    lengths = {len(each.numbers) for each in vectors}
    for ranker in rankers:
        if isinstance(ranker, VectorRanker) and ranker.dimension not in lengths:
            raise refuse_receipt(f"it has no vector for {ranker.name}")


def _find_types(names: Sequence[str] | None, catalog: Catalog) -> list[NodeType]:
    if names is None:
        return list(catalog.nodes.values())
    # Deduplicated: an earlier schema resolves both the former and the current name of a type.
    found = [_get_node_type(name, catalog) for name in names]
    return list({each.name: each for each in found}.values())


def _get_node_type(name: str, catalog: Catalog) -> NodeType:
    found = catalog.nodes.get(name)
    if found is not None:
        return found
    if name in catalog.interfaces:
        advice = f"it is an interface; name {' or '.join(catalog.implementers(name))}"
    elif name in catalog.edges:
        advice = "it is an edge type; only nodes are searched"
    else:
        advice = advise_name(name, set(catalog.nodes)) or ""
    raise NotFoundError(kind="node type", name=name, advice=advice)


def _rankers_of(declared: NodeType) -> Iterator[Ranker]:
    indexed = {
        name for each in declared.constraints if isinstance(each, Index) for name in each.columns
    }
    texts = [
        each
        for each in declared.properties.values()
        if each.type.is_string and each.type.enum_values is None
    ]
    for each in [text for text in texts if text.name in indexed] or texts:
        yield TextRanker(declared.name, PropertyValue(VARIABLE, each.name, each.type))
    for each in declared.properties.values():
        if each.type.is_vector:
            field = PropertyValue(VARIABLE, each.name, each.type)
            yield VectorRanker(declared.name, field, each.embedding)


def _is_searched(ranker: VectorRanker, given: QueryVector | None) -> bool:
    if given is None:
        return ranker.embedding is not None
    return ranker.dimension == len(given.numbers)


def _require_searched(request: Request, rankers: Iterable[Ranker], catalog: Catalog) -> None:
    searched = {each.type for each in rankers}
    missing = [
        name for name in request.types or () if _get_node_type(name, catalog).name not in searched
    ]
    if not missing and searched:
        return
    whose = f"type {missing[0]}" if missing else "the graph"
    kinds = "a String, or a Vector with @embed,"
    if request.word_weight == 0:
        kinds = "a Vector with @embed, or one as long as the given vector,"
    elif request.vector_weight == 0:
        kinds = "a String"
    raise InvalidValueError(
        subject="types",
        expected="types that can be searched",
        value=request.types,
        problem=f"{whose} has no property to search; {kinds} is needed: name other types, or leave "
        "`types` out and reach this one over its edges",
    )


@dataclass(frozen=True, slots=True)
class RankerResult:
    """The ranking of one ranker: nodes, best first, with their relevance or distance, if any."""

    name: str
    weight: float
    nodes: Sequence[tuple[NodeName, float | None]]


@dataclass(frozen=True, slots=True)
class Fused:
    """The fused score of a node, and its rank in each ranking that contains it."""

    node: NodeName
    score: float
    rankers: tuple[ArmRank, ...]


def fuse(rankers: Sequence[RankerResult]) -> Mapping[NodeName, Fused]:
    """The nodes of all rankings with their fused scores, best first."""
    ranks: dict[NodeName, list[ArmRank]] = {}
    scores: dict[NodeName, float] = {}
    for ranker in rankers:
        for rank, (node, score) in enumerate(ranker.nodes, start=1):
            ranks.setdefault(node, []).append(ArmRank(ranker.name, rank, score))
            share = ranker.weight / (RRF_K_DEFAULT + rank)
            scores[node] = scores.get(node, 0.0) + share
    ordered = sorted(scores, key=lambda node: (-scores[node], node))
    return MappingProxyType(
        {node: Fused(node, scores[node], tuple(ranks[node])) for node in ordered}
    )


class RecordingEmbedder:
    """Wraps a provider: embeds each text once per dimension and records the vectors."""

    def __init__(self, provider: Embedder) -> None:
        self._provider = provider
        self._made: dict[tuple[str, int], QueryVector] = {}

    @property
    def model(self) -> str:
        """The provider's model."""
        return self._provider.model

    @property
    def vectors(self) -> tuple[QueryVector, ...]:
        """The recorded vectors, in an order that depends only on the texts and dimensions."""
        return tuple(self._made[key] for key in sorted(self._made))

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """The provider's vector of a text, from the record if it is there."""
        key = hash_text(text), dimension
        if key not in self._made:
            vector = self._provider.embed(text, dimension)
            self._made[key] = QueryVector(self._provider.model, key[0], tuple(vector))
        return self._made[key].numbers

    def embed_many(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
        """The vectors of some texts, one row per text."""
        return np.array([self.embed(text, dimension) for text in texts], np.float32)


class ReplayEmbedder:
    """Returns the vectors of a receipt without calling a provider."""

    def __init__(self, vectors: Iterable[QueryVector]) -> None:
        self._vectors = tuple(vectors)

    @property
    def model(self) -> str:
        """The model that computed the vectors; empty if the receipt names none."""
        return next((each.model for each in self._vectors if each.model is not None), "")

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """The recorded vector of a text; `InvalidValueError` if the receipt lacks it."""
        wanted = hash_text(text)
        for each in self._vectors:
            if each.text_hash == wanted and len(each.numbers) == dimension:
                return each.numbers
        raise refuse_receipt(f"it has no vector of {dimension} numbers for a text of its query")

    def embed_many(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
        """The vectors of some texts, one row per text."""
        return np.array([self.embed(text, dimension) for text in texts], np.float32)
