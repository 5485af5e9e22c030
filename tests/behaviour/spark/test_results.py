"""Results of queries as Spark frames."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import omnigraph

SCHEMA = """
node Reading {
  name: String @key
  at: DateTime
  count: U64
  spot: Vector(2)?
  tags: [String]
}
"""
READING = pa.schema(
    [
        ("name", pa.string()),
        ("at", pa.timestamp("ms", "UTC")),
        ("count", pa.uint64()),
        ("spot", pa.list_(pa.float32())),
        ("tags", pa.list_(pa.string())),
    ]
)
AT = datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)


def test_a_result_becomes_a_frame_without_loss(spark: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "graph", SCHEMA)
    rows = [{"name": "a", "at": AT, "count": 2**64 - 1, "spot": [0.5, 1.5], "tags": []}]
    graph.load({"Reading": pa.Table.from_pylist(rows, schema=READING)}, mode="append")

    result = graph.query(
        "query all() { match { $r: Reading } return "
        "{ $r.name as name, $r.at as at, $r.count as count, $r.spot as spot, $r.tags as tags } }"
    )
    frame = result.to_spark(spark)

    (row,) = frame.collect()
    assert frame.columns == ["name", "at", "count", "spot", "tags"]
    assert row["count"] == Decimal(2**64 - 1)
    assert (row["spot"], row["tags"]) == ([0.5, 1.5], [])
    assert row["at"].astimezone(UTC) == AT
