"""Every type of a schema passes through Spark in both directions without changing a value."""

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from omnigraph import Graph
from tests.support.graphs import build_graph, root_of
from tests.support.spark_probes import configured

SCHEMA = """
node Thing {
  name: String @key
  truth: Bool?
  small: I32?
  whole: I64?
  count: U32?
  large: U64?
  single: F32?
  double: F64?
  day: Date?
  moment: DateTime?
  colour: enum(red, green)?
  photo: Blob?
  vector: Vector(3)?
  words: [String]?
  counts: [U32]?
  larges: [U64]?
  days: [Date]?
  moments: [DateTime]?
}
edge Likes: Thing -> Thing { since: DateTime }
"""

FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
# A local time that occurred twice in New York.
TWICE = datetime(2024, 11, 3, 6, 30, 0, 1_000, tzinfo=UTC)

LEAST = {
    "name": "least",
    "truth": False,
    "small": -(2**31),
    "whole": -(2**63),
    "count": 0,
    "large": 0,
    "single": -math.inf,
    "double": -0.0,
    "day": date(1, 1, 1),
    "moment": FIRST,
    "colour": "green",
    "photo": b"",
    "vector": [0.0, -1.5, 3.4028234663852886e38],
    "words": [],
    "counts": [],
    "larges": [],
    "days": [],
    "moments": [],
}
MOST = {
    "name": "möst 漢 \U0001f600",
    "truth": True,
    "small": 2**31 - 1,
    "whole": 2**63 - 1,
    "count": 2**32 - 1,
    "large": 2**64 - 1,
    "single": math.inf,
    "double": 1.7976931348623157e308,
    "day": date(9999, 12, 31),
    "moment": LAST,
    "colour": "red",
    "photo": bytes(range(256)) * 300,
    "vector": [1.0, 2.0, 3.0],
    "words": ["", "a,b", "\n"],
    "counts": [0, 2**32 - 1],
    "larges": [0, 2**63, 2**64 - 1],
    "days": [date(1582, 10, 10), date(1900, 2, 28)],
    "moments": [FIRST, LAST, TWICE],
}
NOTHING = dict.fromkeys(MOST) | {"name": "nothing"}
ODD = NOTHING | {"name": "odd", "double": math.nan, "moment": TWICE}
ROWS = (LEAST, MOST, NOTHING, ODD)

ZONE = "spark.sql.session.timeZone"
ZONES = ("UTC", "America/New_York", "Pacific/Kiritimati")


def things(root: Path) -> Graph:
    graph = build_graph(root, SCHEMA)
    rows = pa.Table.from_pylist(list(ROWS), schema=exchanged(graph))
    graph.load({"Thing": rows}, mode="append")
    return graph


def exchanged(graph: Graph) -> pa.Schema:
    schema = graph.export_batches("Thing").schema
    return pa.schema([each for each in schema if each.name != "id"])


def read(spark: SparkSession, graph: Graph, type_name: str) -> DataFrame:
    source = spark.read.format("omnigraph").option("type", type_name)
    return source.load(str(root_of(graph)))


def in_spark() -> list[dict[str, object]]:
    """The rows as Spark has them: it takes large numbers for decimals."""
    unsigned = pa.schema({"large": pa.uint64(), "larges": pa.list_(pa.uint64())})
    decimal = pa.decimal128(20, 0)
    decimals = pa.Table.from_pylist(list(ROWS), schema=unsigned).cast(
        pa.schema({"large": decimal, "larges": pa.list_(decimal)})
    )
    return [row | each for row, each in zip(ROWS, decimals.to_pylist(), strict=True)]


def by_name(row: Mapping[str, object]) -> str:
    return str(row["name"])


def retained(graph: Graph) -> pa.Table:
    return graph.export_batches("Thing").read_all().sort_by("id")


def test_each_type_has_the_spark_type_that_holds_all_its_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = build_graph(tmp_path / "graph", SCHEMA)

    schema = read(spark, graph, "Thing").schema

    expected = StructType.fromDDL(
        "id string not null, colour string, count bigint, counts array<bigint>, day date, "
        "days array<date>, double double, large decimal(20,0), larges array<decimal(20,0)>, "
        "moment timestamp, moments array<timestamp>, name string not null, photo binary, "
        "single float, small int, truth boolean, vector array<float>, whole bigint, "
        "words array<string>"
    )
    assert schema.simpleString() == expected.simpleString()
    assert [each.name for each in schema if not each.nullable] == ["id", "name"]


def test_an_edge_has_its_ends_behind_its_id(spark: SparkSession, tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", SCHEMA)

    schema = read(spark, graph, "Likes").schema

    assert [(each.name, each.dataType.simpleString(), each.nullable) for each in schema] == [
        ("id", "string", False),
        ("src", "string", False),
        ("dst", "string", False),
        ("since", "timestamp", False),
    ]


@pytest.mark.parametrize("zone", ZONES)
def test_values_are_the_same_in_spark_whatever_the_time_zone_of_the_session(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    graph = things(tmp_path / "graph")

    with configured(spark, ZONE, zone):
        # A shuffle, so that the values go through Spark's own rows and not only through Arrow.
        frame = read(spark, graph, "Thing").repartition(2, "name").drop("id")
        found = frame.toArrow().to_pylist()

    assert comparable(sorted(found, key=by_name)) == comparable(sorted(in_spark(), key=by_name))


@pytest.mark.parametrize("zone", ZONES)
def test_values_that_come_back_from_spark_are_stored_as_they_were(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    graph = things(tmp_path / "graph")
    copy = build_graph(tmp_path / "copy", SCHEMA)
    with configured(spark, ZONE, zone):
        rows = read(spark, graph, "Thing").repartition(2, "name").toArrow()

    copy.load({"Thing": rows}, mode="append")

    assert comparable(retained(copy).to_pylist()) == comparable(retained(graph).to_pylist())


def test_a_timestamp_is_the_instant_that_spark_shows_in_the_sessions_zone(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = things(tmp_path / "graph")

    with configured(spark, ZONE, "America/New_York"):
        shown = read(spark, graph, "Thing").where("name = 'odd'").selectExpr("string(moment)")
        found = shown.toArrow()[0].to_pylist()

    assert found == ["2024-11-03 01:30:00.001"]


def test_a_column_of_nothing_but_nulls_comes_as_one(spark: SparkSession, tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", SCHEMA)
    rows = pa.Table.from_pylist([NOTHING], schema=exchanged(graph))
    graph.load({"Thing": rows}, mode="append")

    found = read(spark, graph, "Thing").drop("id", "name").toArrow()

    assert {column.null_count for column in found.columns} == {1}


def comparable(value: object) -> object:
    """A value that equals another only if every bit is equal; the time zone does not count."""
    match value:
        case dict():
            return {name: comparable(each) for name, each in value.items()}
        case list():
            return [comparable(each) for each in value]
        case float():
            return value.hex()
        case datetime():
            return (value - FIRST) // timedelta(microseconds=1)
        case _:
            return value
