"""The data source with executors in separate processes, and behind a Spark Connect server."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.support.graphs import build_graph, node, rows
from tests.support.spark_servers import connect_server, run_on_cluster, run_script

SCHEMA = "node Person { name: String @key  age: I32?  born: DateTime?  many: U64? }"

SCRIPT = """
import sys
import omnigraph.spark
spark = omnigraph.spark.session(sys.argv[1])
people = spark.range(0, 20, 1, 4).selectExpr(
    "concat('p', id) name", "int(id) age",
    "timestamp'2024-11-03 06:30:00.001Z' born", "cast(18446744073709551615 as decimal(20,0)) many")
people.write.format("omnigraph").option("type", "Person").mode("append").save(sys.argv[2])
older = spark.read.format("omnigraph").option("type", "Person").option("where", "age >= 10")
counts = older.load(sys.argv[2]).groupBy("born", "many").count().collect()
query = "query q() { match { $p: Person } return { count($p) as people } }"
asked = spark.read.format("omnigraph").option("query", query).load(sys.argv[2]).collect()
print("found", [row["count"] for row in counts], asked[0]["people"])
try:
    people.write.format("omnigraph").option("type", "Person").mode("append").save(sys.argv[2])
except Exception as error:
    print("KeyConflictError" in str(error))
"""


def on_cluster(graph: Graph) -> str:
    return run_on_cluster(SCRIPT, graph.uri)


def behind_server(graph: Graph) -> str:
    with connect_server() as address:
        return run_script(SCRIPT, address, graph.uri)


@pytest.mark.parametrize(
    "run", [pytest.param(on_cluster, marks=pytest.mark.exhaustive), behind_server]
)
def test_a_frame_is_written_and_read_by_other_processes(
    tmp_path: Path, run: Callable[[Graph], str]
) -> None:
    graph = build_graph(tmp_path / "graph", SCHEMA, node("Person", name="Ann", age=3))

    printed = run(graph)

    assert "found [10] 21" in printed
    assert "True" in printed
    assert len(rows(graph, "Person")) == 21
    assert rows(graph, "Person")["p7"]["many"] == 2**64 - 1
