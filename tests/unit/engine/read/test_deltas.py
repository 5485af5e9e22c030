"""The cache of deltas, shared by threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import pyarrow as pa
import pytest

from omnigraph.engine.read.deltas import DeltaCache, make_delta
from omnigraph.engine.read.entities import EntityDelta
from omnigraph.errors import CorruptError
from omnigraph.storage.ports import TableRef, TableVersion

AT = TableVersion(TableRef("nodes/1", None), 3)
THREADS = 4


def make_own() -> EntityDelta:
    return make_delta(AT, size=2, schema=pa.schema({"id": pa.string()}))


def test_threads_that_need_the_same_delta_share_one() -> None:
    cache, barrier = DeltaCache(), Barrier(THREADS)
    made: list[EntityDelta] = []

    def make() -> EntityDelta:
        made.append(make_own())
        sleep(0.1)  # the other threads arrive meanwhile
        return made[-1]

    def get(_: int) -> EntityDelta:
        barrier.wait()
        return cache.get(AT, make)

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(get, range(THREADS)))

    assert len(made) == 1
    assert all(each is made[0] for each in found)


def test_a_delta_that_could_not_be_made_is_made_by_the_next_call() -> None:
    cache = DeltaCache()

    def fail() -> EntityDelta:
        raise CorruptError(subject="a table", problem="its files are missing")

    with pytest.raises(CorruptError):
        cache.get(AT, fail)
    assert cache.get(AT, make_own).base == AT
