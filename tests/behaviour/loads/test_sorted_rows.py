"""Rows sorted by id in bounded memory: in one piece, in runs on disk, with their blobs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.model.limits import SCAN_BATCH_BYTES
from omnigraph.storage.external_sort import sort_by_id
from tests.support.table_stores import place_on_disk

ROWS = st.lists(st.tuples(st.text(), st.none() | st.integers(0, 9)), unique_by=lambda row: row[0])


def batches_of(rows: Sequence[tuple[str, int | None]], size: int) -> Iterator[pa.RecordBatch]:
    """The rows a few at a time."""
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield pa.record_batch(
            {"id": [id for id, _ in part], "n": pa.array([n for _, n in part], pa.int64())}
        )


def blob_rows(**sizes: int | None) -> pa.Table:
    """Rows with blobs of these sizes, each of another byte."""
    blobs = [None if size is None else bytes([n]) * size for n, size in enumerate(sizes.values())]
    return pa.table(
        {"id": list(sizes), "blob": pa.array(blobs, pa.large_binary()), "n": range(len(sizes))}
    )


@given(ROWS, st.integers(1, 5), st.integers(1, 200))
def test_rows_are_sorted_in_however_many_parts(
    rows: list[tuple[str, int | None]], batch_rows: int, bytes_max: int
) -> None:
    batches = batches_of(rows, batch_rows)

    found = list(sort_by_id(batches, bytes_max=bytes_max, batch_bytes=32))

    listed = [row for batch in found for row in zip(*batch.to_pydict().values(), strict=True)]
    assert listed == sorted(rows, key=lambda row: row[0].encode())


def test_blobs_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    store = place_on_disk(tmp_path).open()
    size = SCAN_BATCH_BYTES // 2
    rows = blob_rows(d=size, b=3, a=size, c=None, e=size, f=0, g=2 * size)
    at = store.create("nodes/docs", rows, config={})

    batches = list(store.scan_by_id(at, columns=["n", "blob", "id"]))

    expected = rows.select(["n", "blob", "id"]).sort_by("id")
    assert pa.Table.from_batches(batches).cast(expected.schema).equals(expected)
    assert all(batch.nbytes <= SCAN_BATCH_BYTES + 2 * size for batch in batches)
    assert len(batches) > 1


def test_rows_that_lie_in_order_after_deletions_and_appends_are_read_in_order(
    tmp_path: Path,
) -> None:
    store = place_on_disk(tmp_path).open()
    at = store.create("nodes/docs", blob_rows(a=1, b=2, c=3, d=4), config={})
    removal = store.stage_delete(pa.array(["b", "d"]), onto=at)
    assert removal is not None
    at = store.apply(removal)
    at = store.apply(store.stage_append(blob_rows(e=5, bb=6), onto=at))

    (batch,) = store.scan_by_id(at, columns=["id", "blob"])

    assert batch["id"].to_pylist() == ["a", "bb", "c", "e"]
    assert [len(each.as_py()) for each in batch["blob"]] == [1, 6, 3, 5]
