"""What PySpark 4.3 does with Arrow rows that it is handed, as our own frames rely on it."""

import pyarrow as pa
from pyspark.sql import SparkSession


def test_rows_behind_a_chunk_without_rows_are_lost(spark: SparkSession) -> None:
    chunks = [pa.array(each, pa.int64()) for each in ([1, 2], [], [3, 4])]
    rows = pa.table({"a": pa.chunked_array(chunks)})

    # Four would be right: as soon as it is four, rows need not be put together before.
    assert spark.createDataFrame(rows).count() == 2
    assert spark.createDataFrame(rows.combine_chunks()).count() == 4
