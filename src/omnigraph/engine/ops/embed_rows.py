"""Rows with vectors: what one part of a type is given where it lies, here or on an executor.

Reads the rows that lack a vector, asks the model for one of each text, and writes them again. Knows
nothing of commits: the files that it writes are named by nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.model.catalog import NodeType
from omnigraph.model.embedding import Embedder
from omnigraph.model.errors import EmbeddingError
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.lance_parts import replace_rows
from omnigraph.storage.table_parts import RewrittenPart, TablePart


@dataclass(frozen=True, slots=True)
class Target:
    """A vector property, the text that it is made of, and how long it is."""

    column: str
    source: str
    dimension: int


@dataclass(frozen=True, slots=True)
class EmbedCall:
    """What is to be embedded, by whom; rows that have a vector are left alone if only missing
    ones are asked for."""

    declared: NodeType
    targets: tuple[Target, ...]
    embedder: Embedder
    is_only_missing: bool


@dataclass(frozen=True, slots=True)
class EmbedTask:
    """What every part is told."""

    call: EmbedCall
    predicate: str


@dataclass(frozen=True, slots=True)
class EmbeddedPart:
    """The rows of a part that got a vector, and how many of them for each target."""

    rows: RewrittenPart
    row_counts: tuple[int, ...]


def embed_part(task: EmbedTask, part: TablePart) -> EmbeddedPart:
    """Write the rows of a part that lack a vector again, with it."""
    call = task.call
    counts = [0] * len(call.targets)

    def convert(rows: pa.Table) -> pa.Table:
        for number, target in enumerate(call.targets):
            rows, count = _fill(rows, target, call)
            counts[number] += count
        return rows

    columns = table_schema(call.declared).names
    rows = replace_rows(part, columns=columns, predicate=task.predicate, convert=convert)
    return EmbeddedPart(rows, tuple(counts))


def _fill(rows: pa.Table, target: Target, call: EmbedCall) -> tuple[pa.Table, int]:
    """The rows with the vectors of a property that they lack, and how many these were."""
    texts = rows[target.source].combine_chunks()
    vectors = rows[target.column].combine_chunks()
    # Providers have no vector for nothing at all.
    is_wanted = pc.fill_null(pc.not_equal(texts, ""), fill_value=False)
    if call.is_only_missing:
        is_wanted = pc.and_(is_wanted, pc.is_null(vectors))
    wanted = np.flatnonzero(is_wanted.to_numpy(zero_copy_only=False))
    if not len(wanted):
        return rows, 0
    # A text that several rows have is asked for once.
    encoded = texts.take(wanted).dictionary_encode()
    made = _make_vectors(encoded.dictionary, target, call)
    places = np.arange(len(vectors))
    places[wanted] = len(vectors) + encoded.indices.to_numpy()
    filled = pa.concat_arrays([vectors, made.cast(vectors.type)]).take(places)
    number = rows.schema.get_field_index(target.column)
    return rows.set_column(number, rows.schema.field(number), filled), len(wanted)


def _make_vectors(texts: pa.Array, target: Target, call: EmbedCall) -> pa.Array:
    numbers = call.embedder.embed_many(texts.to_pylist(), target.dimension)
    row_count, length = numbers.shape
    if (row_count, length) != (len(texts), target.dimension):
        raise EmbeddingError(
            action=f"embed {target.source}, so the graph is unchanged",
            reason=f"model '{call.embedder.model}' gave a vector of {length} numbers where "
            f"{target.column} has {target.dimension}",
        )
    return pa.FixedSizeListArray.from_arrays(numbers.reshape(-1), target.dimension)
