"""The arms of a hybrid search: which properties of which types are ranked, and by what.

A text is searched by its words; where a type has texts with `@index` they are the ones, else all
of its texts are. A vector that was made of a text, by `@embed`, is searched by its distance from
that of the text that is looked for; any other only if the caller gives a vector of its length.
Looks at the catalog only, and asks the provider for vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.compiler.ir import Constant, Nearest, PropertyValue
from omnigraph.engine.read.matching import Inputs
from omnigraph.engine.read.ranking_inputs import QueryVectors
from omnigraph.engine.retrieval.answers import QueryVector, Request, hash_text
from omnigraph.model.catalog import Catalog, Embedding, Index, NodeType, Property
from omnigraph.model.embedding import Embedder
from omnigraph.model.errors import EmbeddingError, InvalidValueError, NotFoundError
from omnigraph.model.types import STRING, Vector

VARIABLE = "n"


@dataclass(frozen=True, slots=True)
class WordArm:
    """The texts of a property, ranked by their relevance."""

    type: str
    field: PropertyValue

    @property
    def name(self) -> str:
        return f"bm25({self.type}.{self.field.property})"


@dataclass(frozen=True, slots=True)
class VectorArm:
    """The vectors of a property, ranked by their distance; `embedding` says what of and by which
    model they were made, if that is declared."""

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
        """What two arms share that compare with the same vector."""
        return self.dimension, None if self.embedding is None else self.embedding.model


Arm = WordArm | VectorArm


def find_arms(request: Request, catalog: Catalog, *, given: QueryVector | None) -> tuple[Arm, ...]:
    """The rankings that a request asks for, in one order; `InvalidValueError` if there is none.

    `given` is the vector that stands in for that of the text.
    """
    found = [arm for each in _find_types(request.types, catalog) for arm in _arms_of(each)]
    words = [each for each in found if isinstance(each, WordArm)]
    vectors = [each for each in found if isinstance(each, VectorArm) and _is_asked(each, given)]
    if given is not None and not (vectors and request.vector_weight):
        raise InvalidValueError(
            subject="vector",
            expected="a vector as long as those that are searched",
            value=None,
            problem=f"nothing that is searched has vectors of {len(given.numbers)} numbers"
            if request.vector_weight
            else "with vector_weight=0 it is not looked at; leave it out",
        )
    arms = (*(words if request.word_weight else ()), *(vectors if request.vector_weight else ()))
    _require_searched(request, arms)
    return arms


def make_vectors(
    arms: Iterable[Arm], text: str, *, embedder: Embedder | None, catalog: Catalog, now: datetime
) -> tuple[QueryVector, ...]:
    """The vectors of a text that arms compare with, one for each length, shortest first.

    `EmbeddingError` if there is nobody to make them, and `InvalidValueError` if they could not be
    compared.
    """
    numbers_by_kind: dict[tuple[int, str | None], tuple[float, ...]] = {}
    for arm in arms:
        if isinstance(arm, VectorArm) and arm.kind not in numbers_by_kind:
            sought = Nearest(arm.field, Constant(text, STRING))
            asking = QueryVectors(Inputs({}, now), embedder, catalog, {VARIABLE: arm.type})
            try:
                found = asking.find(sought)
            except EmbeddingError as error:
                # Searching words alone instead would give another answer without a word.
                reason = f"{error.reason}; or search words alone, with vector_weight=0"
                raise EmbeddingError(action=error.action, reason=reason) from error
            assert found is not None, "a text was given"
            numbers_by_kind[arm.kind] = tuple(found.tolist())
    # Whatever is recorded with the vectors, they are compared with those of the one provider.
    by_length = {length: numbers for (length, _), numbers in numbers_by_kind.items()}
    if embedder is None or not by_length:
        return ()
    # Only who embeds something is asked for the model: without a key there may be none.
    model, made_of = embedder.model, hash_text(text)
    return tuple(QueryVector(model, made_of, by_length[each]) for each in sorted(by_length))


def require_vectors(arms: Iterable[Arm], vectors: Sequence[QueryVector]) -> None:
    """Raise unless every arm has a vector to compare with; a receipt may lack one."""
    lengths = {len(each.numbers) for each in vectors}
    for arm in arms:
        if isinstance(arm, VectorArm) and arm.dimension not in lengths:
            raise InvalidValueError(
                subject="receipt",
                expected="a receipt of this graph",
                value=None,
                problem=f"it has no vector for {arm.name}",
            )


def _find_types(names: Sequence[str] | None, catalog: Catalog) -> list[NodeType]:
    if names is None:
        return list(catalog.nodes.values())
    return [_get_node_type(name, catalog) for name in names]


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


def _arms_of(declared: NodeType) -> Iterator[Arm]:
    indexed = {
        name for each in declared.constraints if isinstance(each, Index) for name in each.columns
    }
    texts = [each for each in declared.properties.values() if _is_text(each)]
    for each in [text for text in texts if text.name in indexed] or texts:
        yield WordArm(declared.name, PropertyValue(VARIABLE, each.name, each.type))
    for each in declared.properties.values():
        if each.type.is_vector:
            field = PropertyValue(VARIABLE, each.name, each.type)
            yield VectorArm(declared.name, field, each.embedding)


def _is_asked(arm: VectorArm, given: QueryVector | None) -> bool:
    if given is None:
        return arm.embedding is not None
    return arm.dimension == len(given.numbers)


def _is_text(declared: Property) -> bool:
    return declared.type.is_string and declared.type.enum_values is None


def _require_searched(request: Request, arms: Iterable[Arm]) -> None:
    searched = {each.type for each in arms}
    missing = [name for name in request.types or () if name not in searched]
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
