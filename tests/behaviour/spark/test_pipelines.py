"""Pipelines that end in a graph: declared ones, and streams of several types."""

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat_ws, explode

from demo.pipeline.prepare import prepare
from omnigraph import Graph
from omnigraph.spark.connector.options import parse_write_options
from tests.support.graphs import contents
from tests.support.source_tree import ROOT
from tests.support.spark_servers import run_script

DEMO = ROOT / "demo" / "pipeline"
DEMO_HOME = "/tmp/omnigraph-pipeline"

# The command as people type it, in a process of its own; what a test says of Spark is not its.
RUN = """
import os, sys
from pathlib import Path
del os.environ["SPARK_CONNECT_MODE"]
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
command = str(Path(sys.executable).with_name("spark-pipelines"))
os.execv(command, [command, "run", "--spec", sys.argv[1], "--conf", "spark.ui.enabled=false"])
"""

FIRST = {
    "Person": {
        "Ann": {"name": "Ann", "age": 34},
        "Bob": {"name": "Bob", "age": 19},
        "Cyd": {"name": "Cyd", "age": 51},
    },
    "Knows": {
        "Ann knows Bob": {"from": "Ann", "to": "Bob"},
        "Ann knows Cyd": {"from": "Ann", "to": "Cyd"},
        "Bob knows Cyd": {"from": "Bob", "to": "Cyd"},
    },
}


# Declared pipelines


def test_a_declared_pipeline_ends_in_a_commit_for_each_type(tmp_path: Path) -> None:
    graph = prepare(tmp_path / "home")
    shutil.copytree(DEMO, tmp_path / "pipeline")
    spec = tmp_path / "pipeline" / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace(DEMO_HOME, str(tmp_path / "home")))

    printed = run_script(RUN, str(spec))

    assert "Run is COMPLETED" in printed
    assert contents(graph) == FIRST
    commits = graph.commits()[1:]
    assert [each.actor for each in commits] == ["contacts", "contacts"]
    assert [each.notes.batch.batch_id for each in commits if each.notes.batch] == [0, 0]


def test_a_stream_that_was_given_a_name_is_taken() -> None:
    given = {
        "path": "/graph",
        "type": "Person",
        "queryname": "people",
        "checkpointlocation": "/x",
    }

    options = parse_write_options(given, is_overwrite=False)

    assert (options.type_name, options.query_id) == ("Person", None)


# Streams of several types


def write_contacts(graph: Graph, batch: DataFrame) -> None:
    """Make a batch of contacts one commit."""
    pairs = batch.select(col("name").alias("src"), explode("friends").alias("dst"))
    knows = pairs.withColumn("id", concat_ws(" knows ", "src", "dst"))
    graph.load({"Person": batch.select("name", "age"), "Knows": knows}, mode="merge")


def read_to_end(spark: SparkSession, graph: Graph, home: Path) -> None:
    """Load every file of contacts that was not loaded before."""
    columns = "name string, age int, friends array<string>"
    arriving = spark.readStream.schema(columns).json(str(home / "incoming"))
    stream = arriving.writeStream.foreachBatch(lambda batch, _: write_contacts(graph, batch))
    retained = stream.option("checkpointLocation", str(home / "checkpoint"))
    retained.trigger(availableNow=True).start().awaitTermination()


def test_a_batch_of_several_types_is_one_commit_and_its_replay_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = prepare(tmp_path)

    read_to_end(spark, graph, tmp_path)
    first, commits = contents(graph), len(graph.commits())
    # As if the query had died before Spark recorded that the batch was done.
    shutil.rmtree(tmp_path / "checkpoint" / "commits")
    read_to_end(spark, graph, tmp_path)

    assert (first, commits) == (FIRST, 2)
    assert contents(graph) == FIRST
