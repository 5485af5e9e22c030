"""Missing vectors of a write: which rows lack them, their texts, and calls of the provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.prepared_write import TableChange
from omnigraph.model.catalog import EdgeType, NodeType, Property
from omnigraph.model.errors import EmbeddingError, LimitExceededError
from omnigraph.model.limits import WRITE_VECTOR_BYTES_MAX
from omnigraph.model.names import parse_word
from omnigraph.model.ports import Embedder
from omnigraph.model.types import Vector
from omnigraph.storage.ports import RewrittenPart, TablePart
from omnigraph.storage.predicates import Predicate
from omnigraph.storage.row_files import table_schema
from omnigraph.storage.tables import replace_rows

RowNumbers = npt.NDArray[np.int64]
"""Row numbers in a table, ascending."""


@dataclass(frozen=True, slots=True)
class Target:
    """A vector property, its source text property, and its dimension."""

    column: str
    source: str
    dimension: int


@dataclass(frozen=True, slots=True)
class EmbedCall:
    """What to embed, and the embedder.

    With `is_only_missing`, rows that have a vector are not changed.
    """

    declared: NodeType
    targets: tuple[Target, ...]
    embedder: Embedder
    is_only_missing: bool


@dataclass(frozen=True, slots=True)
class EmbeddedPart:
    """The rows of a part that got a vector, and their number for each target."""

    rows: RewrittenPart
    row_counts: tuple[int, ...]


def embed_part(call: EmbedCall, predicate: Predicate, part: TablePart) -> EmbeddedPart:
    """Rewrite the rows of a part that lack a vector, with the vector."""
    counts = [0] * len(call.targets)

    def convert(rows: pa.Table) -> pa.Table:
        for number, target in enumerate(call.targets):
            rows, count = _fill(rows, target, call)
            counts[number] += count
        return rows

    columns = table_schema(call.declared).names
    rows = replace_rows(part, columns=columns, predicate=predicate, convert=convert)
    return EmbeddedPart(rows, tuple(counts))


def _fill(rows: pa.Table, target: Target, call: EmbedCall) -> tuple[pa.Table, int]:
    """The rows with the missing vectors of a property, and the number of vectors."""
    wanted = find_wanted(rows, target, is_only_missing=call.is_only_missing)
    if not len(wanted):
        return rows, 0
    # A text that occurs in multiple rows is embedded once.
    encoded = rows[target.source].combine_chunks().take(wanted).dictionary_encode()
    vectors = make_vectors(encoded.dictionary, target, call.embedder)
    return put_vectors(rows, target, wanted, vectors.take(encoded.indices)), len(wanted)


def find_wanted(rows: pa.Table, target: Target, *, is_only_missing: bool) -> RowNumbers:
    """The numbers of the rows that have a text; optionally, only of those without a vector."""
    # Providers have no vector for an empty text.
    is_wanted = pc.fill_null(pc.not_equal(rows[target.source], ""), fill_value=False)
    if is_only_missing:
        is_wanted = pc.and_(is_wanted, pc.is_null(rows[target.column]))
    return np.flatnonzero(is_wanted.to_numpy())


def put_vectors(rows: pa.Table, target: Target, numbers: RowNumbers, vectors: pa.Array) -> pa.Table:
    """The rows with one vector set for each of the given row numbers."""
    stored = rows[target.column].combine_chunks()
    places = np.arange(len(stored))
    places[numbers] = len(stored) + np.arange(len(numbers))
    filled = pa.concat_arrays([stored, vectors.cast(stored.type)]).take(places)
    column = rows.schema.get_field_index(target.column)
    return rows.set_column(column, rows.schema.field(column), filled)


def make_vectors(texts: pa.Array, target: Target, embedder: Embedder) -> pa.Array:
    """The vectors of texts, from one call of the provider.

    Raises `EmbeddingError` if a vector has another dimension.
    """
    numbers = embedder.embed_many(texts.to_pylist(), target.dimension)
    row_count, length = numbers.shape
    if (row_count, length) != (len(texts), target.dimension):
        raise EmbeddingError(
            action=f"embed {target.source}, so the graph is unchanged",
            reason=f"model '{embedder.model}' returned a vector of {length} numbers, but "
            f"{target.column} has {target.dimension}",
        )
    return pa.FixedSizeListArray.from_arrays(numbers.reshape(-1), target.dimension)


LATER_ADVICE = 'to write without vectors and fill them afterwards, use embed="later"'

_NUMBER_BYTES = 4


class EmbedMode(StrEnum):
    """When the empty vectors of a write are filled."""

    NOW = "now"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class VectorPolicy:
    """The treatment of vectors in a write.

    Without an embedder, empty vectors stay empty. With `is_demanded`, every vector has to be
    filled, whichever model it names; otherwise a vector that names a model other than the
    embedder's stays empty. With `follows_text`, an update that changes a text clears the vector of
    the previous text.
    """

    embedder: Embedder | None
    is_demanded: bool
    follows_text: bool


KEEP_VECTORS = VectorPolicy(None, is_demanded=False, follows_text=False)
"""Vectors are stored exactly as the caller provides them."""


def parse_embed(text: str | None) -> EmbedMode | None:
    """The mode that a caller names, if any."""
    return None if text is None else parse_word(EmbedMode, text, subject="embed")


def choose_policy(
    mode: EmbedMode | None, *, embedder: Embedder | None, embeds_on_write: bool
) -> VectorPolicy:
    """The policy of a write, from its mode, if any, and the default of the graph.

    Raises `EmbeddingError` if vectors are required and no provider is configured.
    """
    match mode:
        case EmbedMode.NOW if embedder is None:
            raise EmbeddingError(
                action="embed texts, so the graph is unchanged",
                reason="no embedding provider is configured; set OMNIGRAPH_EMBEDDINGS_MOCK=1 for "
                f"the built-in one; {LATER_ADVICE}",
            )
        case EmbedMode.NOW:
            return VectorPolicy(embedder, is_demanded=True, follows_text=True)
        case EmbedMode.LATER:
            return VectorPolicy(None, is_demanded=False, follows_text=True)
        case None if embeds_on_write and embedder is not None:
            return VectorPolicy(embedder, is_demanded=False, follows_text=True)
        case None:
            return KEEP_VECTORS


class WriteVectors:
    """The vectors of one write in this process: those computed so far, and those missing."""

    def __init__(self, policy: VectorPolicy) -> None:
        self.policy = policy
        self._embedded_by_dimension: dict[int, _EmbeddedTexts] = {}
        self._lacking: dict[int, _Lacking] = {}

    @property
    def is_due(self) -> bool:
        """Whether the rows that were filled last lack a vector that has to be requested."""
        return bool(self._lacking)

    @property
    def text_count(self) -> int:
        """The number of texts to embed."""
        return sum(len(each.texts) for each in self._lacking.values())

    def fill(self, changes: Mapping[str, TableChange]) -> dict[str, TableChange]:
        """The changes with the vectors computed so far; missing vectors are noted.

        A missing vector of a required property is replaced by a placeholder, so that the other
        rules can be checked before anything is requested.
        """
        self._lacking = {}
        return {key: self._fill_type(change) for key, change in changes.items()}

    def request(self) -> None:
        """Request the missing vectors; raises `EmbeddingError` if they are not available.

        Raises `LimitExceededError` if they are too large for one write in this process.
        """
        embedder = self.policy.embedder
        assert embedder is not None, "nothing is lacking without an embedder"
        found = sum(len(each.texts) * dimension for dimension, each in self._lacking.items())
        found *= _NUMBER_BYTES
        if found > WRITE_VECTOR_BYTES_MAX:
            raise LimitExceededError(
                resource="the size in bytes of the vectors that one write computes in this process",
                limit=WRITE_VECTOR_BYTES_MAX,
                found=found,
                advice='nothing was written; load in parts, with engine="spark", or with '
                'embed="later"',
            )
        for dimension, lacking in self._lacking.items():
            texts = lacking.texts
            vectors = request_vectors(texts, lacking.target, lacking.subject, embedder)
            known = self._embedded_by_dimension.get(dimension)
            if known is not None:
                texts = pa.concat_arrays([known.texts, texts])
                vectors = pa.concat_arrays([known.vectors, vectors])
            self._embedded_by_dimension[dimension] = _EmbeddedTexts(texts, vectors)
        self._lacking = {}

    def _fill_type(self, change: TableChange) -> TableChange:
        rows = change.put
        for found in find_lacking(change.type, rows, self.policy):
            texts = rows[found.target.source].combine_chunks().take(found.numbers)
            vectors = self._find_vectors(texts, found)
            if vectors is not None:
                rows = put_vectors(rows, found.target, found.numbers, vectors)
        return change if rows is change.put else replace(change, put=rows)

    def _find_vectors(self, texts: pa.Array, found: LackingRows) -> pa.Array | None:
        """The vectors of texts; if any is missing, placeholders if required, otherwise None."""
        dimension = found.target.dimension
        known = self._embedded_by_dimension.get(dimension)
        distinct = pc.unique(texts)
        if known is not None:
            distinct = distinct.filter(pc.invert(pc.is_in(distinct, value_set=known.texts)))
        if not len(distinct):
            assert known is not None, "there is at least one text"
            return known.vectors.take(pc.index_in(texts, value_set=known.texts))
        lacking = self._lacking.setdefault(
            dimension, _Lacking(distinct.slice(0, 0), found.target, found.subject)
        )
        # Two properties of the same dimension use the vectors of one model.
        together = pc.unique(pa.concat_arrays([lacking.texts, distinct]))
        self._lacking[dimension] = replace(lacking, texts=together)
        return make_placeholders(found) if found.is_required else None


@dataclass(frozen=True, slots=True)
class LackingRows:
    """The rows of a type that lack the vector of a property, by number."""

    target: Target
    numbers: RowNumbers
    subject: str
    is_required: bool


def find_lacking(
    declared: NodeType | EdgeType, rows: pa.Table, policy: VectorPolicy
) -> Iterator[LackingRows]:
    """The rows whose vectors a write has to fill, for each property."""
    if policy.embedder is None or not rows.num_rows:
        return
    for property, target in list_targets(declared):
        numbers = find_wanted(rows, target, is_only_missing=True)
        subject = f"{declared.name}.{property.name}"
        if len(numbers) and _is_filled(property, subject, policy, policy.embedder):
            yield LackingRows(target, numbers, subject, not property.type.is_nullable)


def fill_rows(declared: NodeType | EdgeType, rows: pa.Table, policy: VectorPolicy) -> pa.Table:
    """The rows with their missing vectors, requested at once; for processes that hold no lock."""
    for found in find_lacking(declared, rows, policy):
        assert policy.embedder is not None, "nothing is lacking without an embedder"
        texts = rows[found.target.source].combine_chunks().take(found.numbers).dictionary_encode()
        vectors = request_vectors(texts.dictionary, found.target, found.subject, policy.embedder)
        rows = put_vectors(rows, found.target, found.numbers, vectors.take(texts.indices))
    return rows


def promise_vectors(
    declared: NodeType | EdgeType, rows: pa.Table, policy: VectorPolicy
) -> pa.Table:
    """The rows with placeholders for required vectors that are filled after the checks."""
    for found in find_lacking(declared, rows, policy):
        if found.is_required:
            rows = put_vectors(rows, found.target, found.numbers, make_placeholders(found))
    return rows


def make_placeholders(found: LackingRows) -> pa.Array:
    """A vector of zeros for each row."""
    zeros = np.zeros(len(found.numbers) * found.target.dimension, np.float32)
    return pa.FixedSizeListArray.from_arrays(zeros, found.target.dimension)


def request_vectors(texts: pa.Array, target: Target, subject: str, embedder: Embedder) -> pa.Array:
    """The vectors of texts; an error states that nothing was written and how to do without."""
    try:
        return make_vectors(texts, target, embedder)
    except EmbeddingError as error:
        raise refuse_unembedded(subject, error.reason) from error


def refuse_unembedded(subject: str, reason: str) -> EmbeddingError:
    """The error of a write whose texts could not be embedded."""
    return EmbeddingError(
        action=f"embed {subject}, so the graph is unchanged", reason=f"{reason}; {LATER_ADVICE}"
    )


def empty_stale(
    declared: NodeType, before: pa.Table, after: pa.Table, *, assigned: Set[str]
) -> pa.Table:
    """Updated rows without the vectors of their previous texts.

    A vector that the update assigns belongs to the caller, and a vector whose text is unchanged
    stays.
    """
    for _, target in list_targets(declared):
        if target.source not in assigned or target.column in assigned:
            continue
        old, new = before[target.source].combine_chunks(), after[target.source].combine_chunks()
        is_equal = pc.fill_null(pc.equal(old, new), fill_value=False)
        is_same = pc.or_(is_equal, pc.and_(pc.is_null(old), pc.is_null(new)))
        places = pa.array(np.arange(after.num_rows), mask=~is_same.to_numpy(zero_copy_only=False))
        column = after.schema.get_field_index(target.column)
        unchanged = after[target.column].combine_chunks().take(places)
        after = after.set_column(column, after.schema.field(column), unchanged)
    return after


@dataclass(frozen=True, slots=True)
class _EmbeddedTexts:
    """Texts, and the vector of each."""

    texts: pa.Array
    vectors: pa.Array


@dataclass(frozen=True, slots=True)
class _Lacking:
    """Texts to embed, and the first property that needs them."""

    texts: pa.Array
    target: Target
    subject: str


def list_targets(declared: NodeType | EdgeType) -> Iterator[tuple[Property, Target]]:
    """The embedded properties of a type, by name."""
    for name in sorted(declared.properties):
        property = declared.properties[name]
        if property.embedding is not None:
            assert isinstance(property.type.element, Vector), "only vectors are embedded"
            source, dimension = property.embedding.source, property.type.element.dimension
            yield property, Target(name, source, dimension)


def _is_filled(property: Property, subject: str, policy: VectorPolicy, embedder: Embedder) -> bool:
    """Whether the embedder computes the vectors of a property."""
    model = None if property.embedding is None else property.embedding.model
    if model is None:
        return True
    try:
        configured = embedder.model
    except EmbeddingError as error:
        raise refuse_unembedded(subject, error.reason) from error
    if model != configured and policy.is_demanded:
        problem = f"its vectors are computed by model '{model}', and texts are embedded by"
        raise refuse_unembedded(subject, f"{problem} '{configured}'; configure '{model}'")
    return model == configured
