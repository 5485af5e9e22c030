"""Replaced rows: executors write down, fragment by fragment, which committed rows are gone."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.spark.exchange import decode, encode
from omnigraph.spark.spark_errors import carried_errors
from omnigraph.storage.lance_parts import strike
from omnigraph.storage.table_parts import LineFolder, StruckFragment, TablePart

_FRAGMENT = "shiftright(address, 32)"
_OFFSET = "address & 4294967295"


def strike_rows(
    addresses: DataFrame, *, folder: LineFolder, version: int
) -> tuple[StruckFragment, ...]:
    """Strike the rows of a version at some addresses, given as a column `address`."""
    places = addresses.select(f.expr(_FRAGMENT).alias("fragment"), f.expr(_OFFSET).alias("offset"))
    # A function of one argument: Spark looks at how many there are.
    struck = places.groupBy("fragment").applyInArrow(
        lambda group: _strike(folder, version, group), "struck string"
    )
    found = (decode(StruckFragment, row["struck"]) for row in struck.collect())
    return tuple(sorted(found, key=lambda each: each.number))


def _strike(folder: LineFolder, version: int, places: pa.Table) -> pa.Table:
    number = places["fragment"][0].as_py()
    part = TablePart(folder, version, (number,), places.num_rows)
    with carried_errors():
        struck = strike(part, places["offset"].to_pylist())
    return pa.table({"struck": [encode(struck)]})
