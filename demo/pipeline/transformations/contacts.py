"""From files of contacts to persons and who knows whom: `spark-pipelines` imports this by itself.

Every flow is a stream that reads what is new, and every sink makes it one commit of the graph.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat_ws, explode

spark = SparkSession.active()
home = spark.conf.get("contacts.home")

for type_name in ("Person", "Knows"):
    place = {"uri": f"{home}/graph", "type": type_name, "mode": "merge", "actor": "contacts"}
    dp.create_sink(type_name, "omnigraph", place)


@dp.temporary_view
def contacts() -> DataFrame:
    """What the files say, one line a person."""
    columns = "name string, age int, friends array<string>"
    return spark.readStream.schema(columns).json(f"{home}/incoming")


@dp.append_flow(target="Person")
def persons() -> DataFrame:
    """Nodes, whose key is their name."""
    return spark.readStream.table("contacts").select("name", "age")


@dp.append_flow(target="Knows")
def friends() -> DataFrame:
    """Edges, with ids of our own: rows that come again replace themselves."""
    pairs = spark.readStream.table("contacts").select(
        col("name").alias("src"), explode("friends").alias("dst")
    )
    return pairs.withColumn("id", concat_ws(" knows ", "src", "dst"))
