"""Rows by their positions in a scan, wherever rows were deleted."""

from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.table_stores import place_on_disk

ROWS = 40
FRAGMENTS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables of this module are."""
    return tmp_path_factory.mktemp("positions")


@settings(max_examples=25)
@given(
    deleted=st.sets(st.integers(0, FRAGMENTS * ROWS - 1), max_size=FRAGMENTS * ROWS - 1),
    chosen=st.sets(st.integers(0, FRAGMENTS * ROWS - 1), min_size=1),
)
def test_a_position_is_the_same_row_to_take_and_to_scan(
    folder: Path, deleted: set[int], chosen: set[int]
) -> None:
    store = place_on_disk(folder).open()
    ids = [f"r{number:03d}" for number in range(FRAGMENTS * ROWS)]
    at = store.create(uuid4().hex, pa.table({"id": ids[:ROWS]}), config={})
    for part in range(1, FRAGMENTS):
        rows = pa.table({"id": ids[part * ROWS : (part + 1) * ROWS]})
        at = store.apply(store.stage_append(rows, onto=at))
    staged = store.stage_delete(pa.array([ids[each] for each in sorted(deleted)]), onto=at)
    at = at if staged is None else store.apply(staged)

    every = store.scan(at, columns=["id"], predicate=None)["id"].to_pylist()
    places = np.array(sorted(each for each in chosen if each < len(every)), np.int64)
    taken = store.take(at, positions=places, columns=["id"])["id"].to_pylist()

    assert taken == [every[each] for each in places]
