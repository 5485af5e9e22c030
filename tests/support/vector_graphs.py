"""Graphs of many vectors, with a bound low enough that their index is used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from tests.support.queries import query

Matrix = npt.NDArray[np.float32]

ROWS = 3_000
DIMENSION = 16
SCHEMA = """
node Doc {
  slug: String @key
  n: I64
  text: String? @index
  vector: Vector(16)? @index
}
edge Cites: Doc -> Doc
"""
_PARAMETERS = "$v: Vector(16)"


def use_small_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the index of types with a few hundred rows, in partitions of some dozens."""
    for name in ("storage.lance.vector_search", "engine.read.cache"):
        monkeypatch.setattr(f"omnigraph.{name}.NEAREST_EXACT_ROWS_MAX", 400)
    monkeypatch.setattr("omnigraph.storage.lance.index.VECTOR_PARTITION_ROWS", 150)


def clustered(count: int, *, seed: int, dimension: int = DIMENSION) -> Matrix:
    """Vectors around a few dozen centres."""
    random = np.random.default_rng(seed)
    centres = 4 * np.random.default_rng(0).standard_normal((60, dimension))
    noise = random.standard_normal((count, dimension))
    return (centres[random.integers(0, len(centres), count)] + noise).astype(np.float32)


def uniform(count: int, *, seed: int, dimension: int = DIMENSION) -> Matrix:
    """Vectors without any structure."""
    return np.random.default_rng(seed).random((count, dimension), dtype=np.float32)


def vector_graph(path: Path, vectors: Matrix, *, schema: str = SCHEMA) -> Graph:
    """Documents with these vectors, each with a number and a word of it, and their index."""
    graph = omnigraph.init(str(path), schema=schema, durability="relaxed")
    add_documents(graph, vectors, first=0)
    graph.ensure_indices()
    return graph


def add_documents(graph: Graph, vectors: Matrix, *, first: int) -> None:
    """Load documents with consecutive numbers."""
    count, dimension = vectors.shape
    numbers = range(first, first + count)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), dimension)
    rows = {
        "slug": [f"d{number:05}" for number in numbers],
        "n": pa.array(numbers, pa.int64()),
        "text": [f"word{number % 7}" for number in numbers],
        "vector": column,
    }
    graph.load({"Doc": pa.table(rows)}, mode="append")


def find(
    graph: Graph,
    vector: Sequence[float],
    *,
    where: str = "",
    effort: str = "",
    limit: int = 10,
    **options: object,
) -> list[tuple[int, float]]:
    """The numbers and distances of the nearest documents."""
    text = query(
        f"match {{ $d: Doc {where} }} "
        "return { $d.n as n, nearest($d.vector, $v) as distance } "
        f"order {{ nearest($d.vector, $v{effort}) }} limit {limit}",
        parameters=_PARAMETERS,
    )
    rows = graph.query(text, {"v": list(vector)}, **options).rows  # type: ignore[arg-type]
    return [(int(str(row["n"])), float(str(row["distance"]))) for row in rows]


def find_exactly(
    graph: Graph, vector: Sequence[float], *, where: str = "", limit: int = 10, **options: object
) -> list[tuple[int, float]]:
    """The same, without the index."""
    return find(graph, vector, where=where, effort=", exact", limit=limit, **options)


def vector_bytes(graph: Graph) -> int:
    """The memory of the vectors that an open graph caches; none if only their index was used."""
    return graph.stats().bytes_by_kind.get("vectors", 0)


def index_files(graph: Graph) -> list[Path]:
    """The files of the vector index of the documents."""
    folder = Path(graph.tables()["node:Doc"].path)
    return sorted(folder.glob("_indices/*/auxiliary.idx"))
