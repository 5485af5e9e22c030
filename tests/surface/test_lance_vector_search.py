"""Vector indexes: what a search of one returns while rows are deleted, added and written again."""

from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from lance import Index, LanceDataset, LanceOperation, Transaction
from lance.indices import IndicesBuilder
from lance.lance import indices

from tests.support.lance_probes import apply, head

DIMENSION = 16
ROWS = 600

Matrix = npt.NDArray[np.float32]


def vectors_of(count: int, *, seed: int, dimension: int = DIMENSION) -> Matrix:
    return np.random.default_rng(seed).random((count, dimension), dtype=np.float32)


def write(path: Path, vectors: Matrix, *, mode: str = "create") -> str:
    count, dimension = vectors.shape
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), dimension)
    rows = pa.table({"id": [f"{mode}{number}" for number in range(count)], "vector": column})
    lance.write_dataset(
        rows, str(path), mode=mode, enable_stable_row_ids=True, data_storage_version="2.2"
    )
    return str(path)


def build(
    table: LanceDataset,
    fragments: list[int],
    *,
    centres: pa.FixedSizeListArray | None = None,
    rotation: str | None = None,
) -> Index:
    return table.create_index_uncommitted(
        "vector",
        "IVF_RQ",
        name="v",
        metric="l2",
        num_partitions=2,
        num_bits=5,
        ivf_centroids=centres,
        rabitq_model=rotation,
        fragment_ids=fragments,
    )


def add_index(uri: str, segment: Index) -> None:
    apply(uri, Transaction(head(uri), LanceOperation.CreateIndex([segment], [])))


def search(uri: str, vector: Matrix, *, count: int = 10, is_fast: bool = True) -> pa.Table:
    nearest = {"column": "vector", "q": vector, "k": count, "nprobes": 100}
    found = lance.dataset(uri).scanner(
        columns=["_distance", "_rowaddr"],
        nearest=nearest,
        fast_search=is_fast,
        disable_scoring_autoprojection=True,
    )
    return found.to_table()


def addresses(uri: str, vector: Matrix, *, count: int = 10) -> list[int]:
    return list(search(uri, vector, count=count)["_rowaddr"].to_pylist())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of one file with an index of all its rows."""
    uri = write(tmp_path / "t", vectors_of(ROWS, seed=1))
    add_index(uri, build(lance.dataset(uri), [0]))
    return uri


def test_distances_of_a_quantized_index_are_estimates(uri: str) -> None:
    vector = vectors_of(1, seed=2)[0]

    found = search(uri, vector)

    rows = vectors_of(ROWS, seed=1)[found["_rowaddr"].to_numpy()]
    exact = np.square(rows - vector).sum(axis=1)
    estimates = found["_distance"].to_numpy()
    assert np.abs(estimates - exact).max() < 0.2
    assert (estimates != exact).any()


def test_a_deleted_row_is_not_found(uri: str) -> None:
    vector = vectors_of(ROWS, seed=1)[7]
    assert addresses(uri, vector)[0] == 7

    lance.dataset(uri).delete("id = 'create7'")

    found = addresses(uri, vector)
    assert 7 not in found
    assert len(found) == 10


def test_a_fast_search_finds_no_row_that_the_index_does_not_cover(uri: str) -> None:
    added = vectors_of(5, seed=3)
    write(Path(uri), added, mode="append")

    fast, slow = (
        search(uri, added[2], is_fast=each)["_rowaddr"].to_pylist() for each in (True, False)
    )

    assert slow[0] == (1 << 32) + 2
    assert all(address < ROWS for address in fast)


def test_a_row_that_was_written_again_is_not_found_by_its_earlier_vector_alone(uri: str) -> None:
    # Such a row keeps its id, by which an index knows it, and moves to another file.
    old, new = vectors_of(ROWS, seed=1)[7], vectors_of(1, seed=4)[0]
    column = pa.FixedSizeListArray.from_arrays(pa.array(new), DIMENSION)
    rows = pa.table({"id": ["create7"], "vector": column})
    lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(rows)

    found = addresses(uri, old)

    assert 7 not in found
    assert set(found) - set(range(ROWS)) <= {1 << 32}


def test_fragments_cannot_be_searched_alone(uri: str) -> None:
    table = lance.dataset(uri)
    nearest = {"column": "vector", "q": vectors_of(1, seed=2)[0], "k": 1, "use_index": False}

    with pytest.raises(ValueError, match="not supported for fragment scan"):
        table.scanner(nearest=nearest, fragments=table.get_fragments())


def test_segments_of_one_model_are_merged(tmp_path: Path) -> None:
    uri = write(tmp_path / "t", vectors_of(ROWS, seed=1))
    write(tmp_path / "t", vectors_of(ROWS, seed=2), mode="append")
    table = lance.dataset(uri)
    centres = IndicesBuilder(table, "vector").train_ivf(2, distance_type="l2").centroids
    rotation = indices.build_rq_model(DIMENSION, num_bits=5)
    segments = [build(table, [each], centres=centres, rotation=rotation) for each in (0, 1)]

    add_index(uri, table.merge_existing_index_segments(segments))

    assert addresses(uri, vectors_of(ROWS, seed=1)[5])[0] == 5
    assert addresses(uri, vectors_of(ROWS, seed=2)[5])[0] == (1 << 32) + 5


def test_only_dimensions_that_are_multiples_of_eight_are_quantized(tmp_path: Path) -> None:
    uri = write(tmp_path / "t", vectors_of(20, seed=1, dimension=12))

    with pytest.raises(ValueError, match="divisible by 8"):
        build(lance.dataset(uri), [0])


def test_training_needs_as_many_vectors_as_partitions(tmp_path: Path) -> None:
    uri = write(tmp_path / "t", vectors_of(600, seed=1))
    table = lance.dataset(uri)
    table.update({"vector": "null"}, where="id != 'create1'")

    with pytest.raises(RuntimeError, match="cannot train 2 centroids"):
        IndicesBuilder(lance.dataset(uri), "vector").train_ivf(2, distance_type="l2")
