"""The nearest in a large type are the same on Spark as in process: both rank the same entities."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph import Graph
from omnigraph.model.ports import TypeView
from tests.support.graphs import edge, ndjson
from tests.support.queries import query
from tests.support.spark_reads import planned_for_few_rows
from tests.support.vector_graphs import (
    ROWS,
    clustered,
    find,
    uniform,
    use_small_index,
    vector_graph,
)
from tests.support.views import see_as_reader

FEW_PARTITIONS = ", 2"


@pytest.fixture(autouse=True)
def _small_index(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Iterator[None]:
    use_small_index(monkeypatch)
    with planned_for_few_rows(spark):
        yield


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Documents of which some changed after the index was built, and some cite others."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_index(patch)
        path: Path = tmp_path_factory.mktemp("graph") / "g"
        graph = vector_graph(path, uniform(ROWS, seed=1))
    changed = uniform(1, seed=2)[0].tolist()
    graph.mutate(query("delete Doc where n < 300"))
    graph.mutate(
        query("update Doc set { vector: $v } where n > 2900", parameters="$v: Vector(16)"),
        {"v": changed},
    )
    numbers = range(400, 2_800, 2)
    graph.load(
        ndjson(*(edge("Cites", f"d{each:05}", f"d{each + 1:05}") for each in numbers)),
        mode="append",
    )
    return graph


@pytest.mark.parametrize(
    ("where", "effort"),
    [
        ("", ""),
        ("", FEW_PARTITIONS),
        ("$d.n < 2500", FEW_PARTITIONS),
        ("$d.n in [500, 501, 502]", FEW_PARTITIONS),
        ("$e: Doc $e cites $d", FEW_PARTITIONS),
    ],
)
def test_the_same_documents_are_found(
    graph: Graph, spark: SparkSession, where: str, effort: str
) -> None:
    vector = uniform(1, seed=2)[0].tolist()

    found = find(graph, vector, where=where, effort=effort, limit=5)

    on_spark = find(graph, vector, where=where, effort=effort, limit=5, engine="spark", spark=spark)
    assert on_spark == found
    assert found


def test_few_partitions_are_approximate(graph: Graph) -> None:
    # Otherwise the executors would agree although one of them compares all vectors.
    vectors = uniform(10, seed=4).tolist()

    few, exact = (
        [find(graph, each, effort=effort, limit=5) for each in vectors]
        for effort in (FEW_PARTITIONS, ", exact")
    )

    assert few != exact


def test_the_same_documents_are_fused(graph: Graph, spark: SparkSession) -> None:
    text = query(
        "match { $d: Doc } return { $d.n as n, nearest($d.vector, $v) as distance } "
        'order { rrf(nearest($d.vector, $v, 2), bm25($d.text, "word2")) } limit 8',
        parameters="$v: Vector(16)",
    )
    given = {"v": clustered(1, seed=5)[0].tolist()}

    found = graph.query(text, given).rows

    assert graph.query(text, given, engine="spark", spark=spark).rows == found


def test_the_same_visible_documents_are_found(graph: Graph, spark: SparkSession) -> None:
    vector = uniform(1, seed=6)[0].tolist()

    reader = see_as_reader(graph, {"Doc": TypeView(("n < 2500",), frozenset())})

    found = find(reader, vector, effort=FEW_PARTITIONS, limit=5)

    on_spark = find(reader, vector, effort=FEW_PARTITIONS, limit=5, engine="spark", spark=spark)
    assert on_spark == found
