"""Writes files of contacts to Person nodes and Knows edges; `spark-pipelines` imports this module.

Every flow is a stream that reads new files, and every sink writes each batch as one commit.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat_ws, explode

spark = SparkSession.active()
home = spark.conf.get("contacts.home")

for type_name in ("Person", "Knows"):
    options = {"uri": f"{home}/graph", "type": type_name, "mode": "merge", "actor": "contacts"}
    dp.create_sink(type_name, "omnigraph", options)


@dp.temporary_view
def contacts() -> DataFrame:
    """The contents of the files, one line per person."""
    columns = "name string, age int, friends array<string>"
    return spark.readStream.schema(columns).json(f"{home}/incoming")


@dp.append_flow(target="Person")
def persons() -> DataFrame:
    """Person nodes; their key is the name."""
    return spark.readStream.table("contacts").select("name", "age")


@dp.append_flow(target="Knows")
def friends() -> DataFrame:
    """Knows edges with explicit ids, so that repeated rows replace the existing ones."""
    pairs = spark.readStream.table("contacts").select(
        col("name").alias("src"), explode("friends").alias("dst")
    )
    return pairs.withColumn("id", concat_ws(" knows ", "src", "dst"))
