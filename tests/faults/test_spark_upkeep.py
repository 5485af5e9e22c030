"""Upkeep on Spark that fails, or dies: the graph is as it was, or whole when it is looked at."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph import Graph
from omnigraph.engine.opening import open_graph
from omnigraph.engine.settings import make_settings
from omnigraph.errors import GraphError, RecoveryRequiredError, UnavailableError
from omnigraph.storage.failpoints import FAIL_ALWAYS, Failpoint, Failpoints
from tests.support.embedders import Deadly, embedding
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

SCHEMA = """
node Memo { head: String @key  body: String? @index  v: Vector(3)? @embed("body") @index }
"""


def memo_graph(root: Path) -> Graph:
    """Two memos, in a file each."""
    graph = build_graph(root, SCHEMA, node("Memo", head="m1", body="one", v=[1, 2, 3]))
    graph.load(ndjson(node("Memo", head="m2", body="two")), mode="append")
    return graph


def open_bulk(root: Path, failpoints: Failpoints) -> Graph:
    """The graph of a directory that works on Spark, and fails where a test wants it to."""
    plain = make_settings(str(root), storage_options=None, durability="relaxed")
    settings = replace(plain, spark_package="omnigraph.spark", failpoints=failpoints)
    return open_graph(settings, actor=None, is_read_only=False)


def test_indexes_whose_publishing_fails_are_undone_or_finished(
    tmp_path: Path, spark: SparkSession
) -> None:
    before = contents(memo_graph(tmp_path))
    failpoints = Failpoints()
    place = Failpoint.ENSURE_INDICES_POST_PHASE_B_PRE_MANIFEST_COMMIT

    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        open_bulk(tmp_path, failpoints).ensure_indices(spark=spark)

    graph = open_plain(tmp_path)
    assert contents(graph) == before
    assert not sidecars(tmp_path)
    assert pins(graph) == head_versions(tmp_path)
    assert all(each.rows_covered == 2 for each in graph.ensure_indices())


def test_upkeep_whose_files_are_gone_leaves_the_graph_as_it_was(
    tmp_path: Path, spark: SparkSession
) -> None:
    memo_graph(tmp_path)
    graph = open_plain(tmp_path)
    lost = sorted(table_paths(tmp_path)["node:Memo"].glob("data/*"))[0]
    kept = lost.read_bytes()
    lost.unlink()

    for upkeep in (graph.ensure_indices, graph.optimize):
        with pytest.raises(GraphError):
            upkeep(engine="spark", spark=spark)

    lost.write_bytes(kept)
    assert not sidecars(tmp_path)
    assert {each.actor for each in graph.commits()} == {None}
    graph.optimize(spark=spark)
    assert contents(graph) == contents(open_plain(tmp_path))


def test_a_job_that_dies_embeds_nothing(tmp_path: Path, spark: SparkSession) -> None:
    graph = embedding(memo_graph(tmp_path), Deadly())

    with unchanged(graph), pytest.raises(UnavailableError, match="worker"):
        graph.embed("Memo", spark=spark)
