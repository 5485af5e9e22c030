"""Jobs on a cluster or through a Spark Connect server have the same effects as on this machine."""

import json
from pathlib import Path

import omnigraph
from omnigraph import Graph
from omnigraph.errors import GraphError
from tests.support.graphs import SOCIAL, build_graph, contents, edge, node
from tests.support.spark_loads import write_lines
from tests.support.spark_servers import connect_server, run_on_cluster, run_script

# Each line that it prints is the outcome of one load, or whether another result is the local one.
JOURNEY = '''
import json, sys
import omnigraph, omnigraph.spark.load.inputs
from omnigraph.errors import GraphError
from omnigraph.spark import session

master, folder = sys.argv[1:]
omnigraph.spark.load.inputs.PARTITION_BYTES_MIN = 1
graph = omnigraph.open(f"{folder}/graph", durability="relaxed")
spark = session(master)

def tell(load):
    try:
        done = load()
    except GraphError as error:
        print(json.dumps([type(error).__name__, str(error)]))
    else:
        print(json.dumps([dict(done.nodes_loaded), dict(done.edges_loaded), done.rejected]))

def load(name, mode, **more):
    tell(lambda: graph.load(f"{folder}/{name}.jsonl", mode=mode, engine="spark", **more))

load("first", "append")
load("broken", "append")
load("unreadable", "append")
load("broken", "append", on_error="quarantine")
frame = spark.createDataFrame([("p3", 3), ("new", 4)], "name string, age int")
tell(lambda: graph.load({"Person": frame}, mode="merge", branch="side", base="main"))

text = """query q() {
  match { $a: Person  $a knows $b  not { $b knows $c  $c.age > 90 } }
  return { $b.name as name, count($a) as n, avg($a.age) as mean } order { n desc } }"""
on_spark = {"engine": "spark", "spark": spark}
print(json.dumps(graph.query(text, **on_spark).rows == graph.query(text).rows))
print(json.dumps("Physical Plan" in graph.explain(text, **on_spark)))
here, there = (graph.algorithms("Knows", **kind).connected_components() for kind in ({}, on_spark))
print(json.dumps(here.rows == there.rows))
before = graph.commits()[1].id
here, there = (graph.diff(before, "main", **kind) for kind in ({}, on_spark))
print(json.dumps(list(here) == list(there)))
spark.stop()
'''


def written_inputs(folder: Path) -> None:
    """Files of people: valid ones and invalid ones."""
    names = [f"p{number}" for number in range(40)]
    write_lines(
        folder / "first.jsonl",
        *(node("Person", name=name, age=1) for name in names),
        *(edge("Knows", name, "p0", id=f"to {name}") for name in names),
    )
    broken = write_lines(
        folder / "broken.jsonl",
        *(node("Person", name=f"q{number % 30}") for number in range(40)),
        edge("Knows", "q1", "absent", id="x"),
    )
    (folder / "unreadable.jsonl").write_bytes(broken.read_bytes() + b"{")


def reported(graph: Graph, path: Path) -> list[object]:
    """The outcome of a load in process."""
    try:
        done = graph.load(path, mode="append")
    except GraphError as error:
        return [type(error).__name__, str(error)]
    return [done.nodes_loaded, done.edges_loaded, 0]


def require_journey(folder: Path, printed: str) -> None:
    """Fail unless loads and results of the script equal those of this process."""
    graph = omnigraph.open(str(folder / "graph"))
    inline = build_graph(folder / "inline", SOCIAL)
    names = ("first", "broken", "unreadable")
    expected: list[object] = [reported(inline, folder / f"{name}.jsonl") for name in names]
    expected += [[{"Person": 30}, {}, 11], [{"Person": 2}, {}, 0], True, True, True, True]
    assert [json.loads(line) for line in printed.splitlines()] == expected
    people = {f"q{number}": {"name": f"q{number}", "age": None} for number in range(30)}
    loaded = contents(inline)
    assert contents(graph) == {**loaded, "Person": {**loaded["Person"], **people}}
    side = contents(graph, "side")["Person"]
    assert (side["p3"]["age"], side["new"]["age"], len(side)) == (3, 4, 71)
    assert graph.doctor().is_healthy


def test_a_cluster_loads_as_this_machine_does(tmp_path: Path) -> None:
    build_graph(tmp_path / "graph", SOCIAL)
    written_inputs(tmp_path)

    printed = run_on_cluster(JOURNEY, str(tmp_path))

    require_journey(tmp_path, printed)


def test_a_spark_connect_server_loads_as_this_machine_does(tmp_path: Path) -> None:
    build_graph(tmp_path / "graph", SOCIAL)
    written_inputs(tmp_path)

    with connect_server() as address:
        printed = run_script(JOURNEY, address, str(tmp_path))

    require_journey(tmp_path, printed)
