"""Rows near a vector: by the index of any version, as positions in another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.ports import IndexKind, IndexSpec, TableVersion, VectorSearch
from tests.support.vector_graphs import DIMENSION, Matrix, uniform, use_small_index

T = TypeVar("T")
R = TypeVar("R")

FILES, FILE_ROWS = 3, 400
SPEC = IndexSpec("vector", IndexKind.VECTOR)


class Parts:
    """Workers that each index one file, in this process."""

    def share(self, row_count: int) -> int:
        return row_count // FILES

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, stage: str) -> tuple[R, ...]:
        assert stage
        return tuple(map(work, tasks))


@pytest.fixture(autouse=True)
def _small_index(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_index(monkeypatch)


@pytest.fixture
def tables(tmp_path: Path) -> LanceTables:
    return LanceTables(str(tmp_path), storage_options={}, is_local=True, is_durable=False)


def rows_of(vectors: Matrix, *, first: int) -> pa.Table:
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSION)
    ids = [f"row{number}" for number in range(first, first + len(vectors))]
    return pa.table({"id": ids, "vector": column})


def create(tables: LanceTables, vectors: Matrix) -> TableVersion:
    """A table of these vectors in several files."""
    at = tables.create("nodes/doc", rows_of(vectors[:FILE_ROWS], first=0), config={})
    for first in range(FILE_ROWS, len(vectors), FILE_ROWS):
        rows = rows_of(vectors[first : first + FILE_ROWS], first=first)
        at = tables.apply(tables.stage_append(rows, onto=at))
    return at


def find(
    tables: LanceTables, at: TableVersion, vector: Matrix, *, base: TableVersion
) -> tuple[list[int], list[str]]:
    near = tables.find_nearest(at, VectorSearch("vector", vector, 100), count=5, base=base)
    assert near is not None
    return near.positions.tolist(), near.ids.to_pylist()


@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "in parts"])
def test_an_index_finds_rows_of_all_files(tables: LanceTables, in_parts: bool) -> None:  # noqa: FBT001  # a case
    vectors = uniform(FILES * FILE_ROWS, seed=1)
    at = create(tables, vectors)
    builder = tables.with_workers(Parts()) if in_parts else tables

    at = tables.apply(builder.stage_indexes([SPEC], onto=at))

    assert tables.indexes(at) == {SPEC: len(vectors)}
    for number in range(0, len(vectors), 97):
        positions, _ = find(tables, at, vectors[number], base=at)
        assert positions[0] == number


def test_an_index_of_few_vectors_is_built_in_parts(tables: LanceTables) -> None:
    vectors = uniform(FILES * FILE_ROWS, seed=1)
    at = create(tables, vectors)
    rare = rows_of(vectors, first=0).set_column(
        1, "vector", pa.array([vectors[5].tolist(), *[None] * 1_199], pa.list_(pa.float32(), 16))
    )
    at = tables.apply(tables.stage_merge_insert(rare, onto=at))

    at = tables.apply(tables.with_workers(Parts()).stage_indexes([SPEC], onto=at))

    positions, _ = find(tables, at, vectors[5], base=at)
    ids = tables.take(at, positions=np.array(positions), columns=["id"])["id"].to_pylist()
    assert ids == ["row0"]


def test_rows_are_found_as_positions_in_another_version(tables: LanceTables) -> None:
    vectors = uniform(FILES * FILE_ROWS, seed=1)
    at = create(tables, vectors)
    base = tables.apply(tables.stage_indexes([SPEC], onto=at))
    deletion = tables.stage_delete(pa.array([f"row{number}" for number in range(10)]), onto=base)
    assert deletion is not None
    at = tables.apply(deletion)
    added = uniform(3, seed=2)
    at = tables.apply(tables.stage_append(rows_of(added, first=9_000), onto=at))

    old, _ = find(tables, at, vectors[20], base=base)
    own, _ = find(tables, at, vectors[20], base=at)
    new, ids = find(tables, at, added[1], base=base)
    deleted, _ = find(tables, at, vectors[3], base=base)

    assert (old[0], own[0]) == (20, 10)
    assert (new[0], ids) == (-1, ["row9001"])
    assert 3 not in deleted


def test_a_row_that_was_written_again_is_found_by_its_new_vector(tables: LanceTables) -> None:
    vectors = uniform(FILES * FILE_ROWS, seed=1)
    base = tables.apply(tables.stage_indexes([SPEC], onto=create(tables, vectors)))
    moved = uniform(1, seed=3)
    at = tables.apply(tables.stage_merge_insert(rows_of(moved, first=7), onto=base))

    old, others = find(tables, at, vectors[7], base=base)
    new, ids = find(tables, at, moved[0], base=base)

    assert 7 not in old
    assert others == []
    assert (new[0], ids) == (-1, ["row7"])


def test_small_versions_and_columns_without_an_index_are_not_searched(
    tables: LanceTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = uniform(FILES * FILE_ROWS, seed=1)
    bare = create(tables, vectors)
    at = tables.apply(tables.stage_indexes([SPEC], onto=bare))

    def search(at: TableVersion) -> object:
        return tables.find_nearest(at, VectorSearch("vector", vectors[0], 100), count=5, base=at)

    assert search(bare) is None
    assert search(at) is not None
    monkeypatch.undo()
    assert search(at) is None
