"""Maintenance on Spark that fails or is killed leaves the graph unchanged or whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.settings import make_settings
from omnigraph.errors import CorruptError, RecoveryRequiredError, UnavailableError
from omnigraph.storage.failpoints import Failpoint
from tests.support.embedders import Deadly, embedding
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    build_graph,
    contents,
    head_versions,
    ndjson,
    node,
    pins,
    sidecars,
    table_paths,
    unchanged,
)
from tests.support.sweeps import open_plain

WITH_VECTORS = """
node Memo { head: String @key  body: String? @index  v: Vector(3)? @embed("body") @index }
"""
# Only executors read its rows.
PLAIN = "node Memo { head: String @key  body: String? @index }"


def memo_graph(root: Path, schema: str) -> Graph:
    """Two memos, in a file each."""
    graph = build_graph(root, schema, node("Memo", head="m1", body="one"))
    graph.load(ndjson(node("Memo", head="m2", body="two")), mode="append")
    return graph


@contextmanager
def losing_a_file(root: Path) -> Iterator[None]:
    """A graph without one of its files, which comes back at the end of the block."""
    lost = sorted(table_paths(root)["node:Memo"].glob("data/*"))[0]
    retained = lost.read_bytes()
    lost.unlink()
    yield
    lost.write_bytes(retained)


def open_bulk(root: Path, failpoints: Failpoints) -> Graph:
    """The graph of a directory that works on Spark, and fails where a test wants it to."""
    plain = make_settings(str(root), storage_options=None, durability="relaxed")
    settings = replace(plain, spark_package="omnigraph.spark", failpoints=failpoints)
    return open_graph(settings, actor=None, is_read_only=False)


def test_indexes_whose_publishing_fails_are_undone_or_finished(
    tmp_path: Path, spark: SparkSession
) -> None:
    before = contents(memo_graph(tmp_path, PLAIN))
    failpoints = Failpoints()
    place = Failpoint.ENSURE_INDICES_POST_PHASE_B_PRE_MANIFEST_COMMIT

    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        open_bulk(tmp_path, failpoints).ensure_indices(spark=spark)

    graph = open_plain(tmp_path)
    assert contents(graph) == before
    assert not sidecars(tmp_path)
    assert pins(graph) == head_versions(tmp_path)
    assert all(each.rows_covered == 2 for each in graph.ensure_indices())


@pytest.mark.parametrize("name", ["ensure_indices", "optimize"])
def test_maintenance_whose_files_are_deleted_changes_nothing(
    tmp_path: Path, spark: SparkSession, name: str
) -> None:
    graph = memo_graph(tmp_path, PLAIN)
    maintenance = {"ensure_indices": graph.ensure_indices, "optimize": graph.optimize}[name]

    with unchanged(graph), losing_a_file(tmp_path), pytest.raises(CorruptError):
        maintenance(engine="spark", spark=spark)

    assert not sidecars(tmp_path)


def test_maintenance_that_stops_between_its_steps_is_undone(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = memo_graph(tmp_path, PLAIN)
    graph.ensure_indices()
    before = contents(graph)

    # What indexes know of the files is released first, and then executors cannot read them.
    with losing_a_file(tmp_path), pytest.raises(RecoveryRequiredError):
        graph.optimize(spark=spark)

    graph = open_plain(tmp_path)
    assert contents(graph) == before
    assert not sidecars(tmp_path)
    assert pins(graph) == head_versions(tmp_path)
    assert all(each.rows_covered == 2 for each in graph.ensure_indices(engine="local"))


def test_a_job_that_dies_embeds_nothing(tmp_path: Path, spark: SparkSession) -> None:
    graph = embedding(memo_graph(tmp_path, WITH_VECTORS), Deadly())

    with unchanged(graph), pytest.raises(UnavailableError, match="worker"):
        graph.embed("Memo", spark=spark)
