"""Checks as joins: every row of a job that breaks a rule across rows, found exactly.

Asked only about rules that the claims put in doubt. The verdicts are those of the evaluator in
process: what counts as a row's first occurrence, as held, as untouched and as mentioned is the same
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from omnigraph.spark.loading.keys import encode_keys
from omnigraph.spark.loading.stored import StagedFile, StoredRows, read_positions, read_stored
from omnigraph.spark.spark_errors import carried_errors
from omnigraph.storage.table_parts import TablePart

_POSITION = "position long"


@dataclass(frozen=True, slots=True)
class TypeRows:
    """All rows of a type that a job can meet: those it staged, and those committed, in tasks.

    With `is_replaced` the committed rows all go.
    """

    staged: tuple[tuple[StagedFile, ...], ...]
    committed: tuple[tuple[TablePart, ...], ...]
    is_replaced: bool


@dataclass(frozen=True, slots=True)
class Checks:
    """The rows of a job as frames, and the rules as joins of them."""

    spark: SparkSession
    rows: Mapping[str, TypeRows]

    def repeats(self, table_key: str, *, is_last_kept: bool) -> DataFrame:
        """The positions of rows whose id another of the job has, all but the first or the last."""
        order = f.col("position").desc() if is_last_kept else f.col("position").asc()
        numbered = self._staged(table_key, {}).withColumn(
            "number", f.row_number().over(Window.partitionBy("id").orderBy(order))
        )
        return numbered.where("number > 1").select("position")

    def existing(self, table_key: str) -> DataFrame:
        """The positions of rows whose id is committed already."""
        held = self._held(table_key, {}, is_kept=True).select("id")
        return self._staged(table_key, {}).join(held, "id", "left_semi").select("position")

    def shared(self, table_key: str, group: Sequence[str]) -> DataFrame:
        """The positions of rows whose values another row has, with the id of the first of these."""
        put = self._distinct(table_key, {"key": tuple(group)}).select(
            f.lit(1).alias("rank"), "position", "id", "key"
        )
        held = self._untouched(table_key, {"key": tuple(group)}).select(
            f.lit(0).alias("rank"), f.lit(0).cast("long").alias("position"), "id", "key"
        )
        everyone = put.unionByName(held).where("key is not null")
        order = Window.partitionBy("key").orderBy("rank", "position", "id")
        told = everyone.select(
            "rank",
            "position",
            f.row_number().over(order).alias("number"),
            f.first("id").over(order).alias("other"),
        )
        return told.where("rank = 1 and number > 1").select("position", "other")

    def dangling(self, edge_key: str, column: str, node_key: str) -> DataFrame:
        """The positions and ends of edges of the job whose end will not be there."""
        edges = self._staged(edge_key, {"node": (column,)}).select("position", "node")
        present = self._present(node_key).select(f.col("id").alias("node"))
        return edges.join(present, "node", "left_anti").select("position", "node")

    def stranded(self, edge_key: str, column: str, node_key: str) -> DataFrame:
        """The ids and ends of committed edges that lose their node, because all nodes go."""
        edges = self._untouched(edge_key, {"node": (column,)}).select("id", "node")
        present = self._staged(node_key, {}).select(f.col("id").alias("node"))
        return edges.join(present, "node", "left_anti").select("id", "node")

    def miscounted(
        self, edge_key: str, node_key: str, *, minimum: int, maximum: int | None
    ) -> DataFrame:
        """The sources with too few or too many edges, and how many they have."""
        source = {"source": ("src",)}
        put = self._distinct(edge_key, source).select("source", f.lit(1).alias("put"))
        kept = self._untouched(edge_key, source).select("source", f.lit(0).alias("put"))
        every = put.unionByName(kept)
        counts = every.groupBy("source").agg(f.sum("put").alias("put"), f.count("*").alias("count"))
        mentioned = put.select("source").distinct()
        if minimum:
            mentioned = mentioned.union(self._lost(edge_key)).distinct()
        counts = mentioned.join(counts, "source", "left").fillna(0)
        is_wrong = f.col("count") < minimum
        if maximum is not None:
            is_wrong |= (f.col("put") > 0) & (f.col("count") > maximum)
        wrong = counts.where(is_wrong).select("source", "count")
        nodes = self.rows.get(node_key)
        if nodes is None or not nodes.is_replaced:
            return wrong
        present = self._staged(node_key, {}).select(f.col("id").alias("source"))
        return wrong.join(present, "source", "left_semi")

    def edges_from(self, edge_key: str, sources: DataFrame) -> DataFrame:
        """The positions of the edges of the job that leave some sources."""
        edges = self._staged(edge_key, {"source": ("src",)})
        return edges.join(sources, "source", "left_semi").select("position", "source")

    # The rows as frames

    def _distinct(self, table_key: str, keys: Mapping[str, tuple[str, ...]]) -> DataFrame:
        """The rows of the job, of those with one id the first."""
        numbered = self._staged(table_key, keys).withColumn(
            "number", f.row_number().over(Window.partitionBy("id").orderBy("position"))
        )
        return numbered.where("number = 1")

    def _untouched(self, table_key: str, keys: Mapping[str, tuple[str, ...]]) -> DataFrame:
        """The committed rows that the job leaves alone."""
        held = self._held(table_key, keys, is_kept=True)
        return held.join(self._staged(table_key, {}).select("id"), "id", "left_anti")

    def _lost(self, edge_key: str) -> DataFrame:
        """The sources of the committed edges that the job replaces."""
        held = self._held(edge_key, {"source": ("src",)}, is_kept=False)
        if not self._find(edge_key).is_replaced:
            held = held.join(self._staged(edge_key, {}).select("id"), "id", "left_semi")
        return held.select("source")

    def _present(self, node_key: str) -> DataFrame:
        return (
            self._staged(node_key, {})
            .select("id")
            .union(self._held(node_key, {}, is_kept=True).select("id"))
        )

    def _staged(self, table_key: str, keys: Mapping[str, tuple[str, ...]]) -> DataFrame:
        schema = ", ".join([_POSITION, "id string", *(f"{name} string" for name in keys)])
        return self._read(self._find(table_key).staged, keys, schema)

    def _held(
        self, table_key: str, keys: Mapping[str, tuple[str, ...]], *, is_kept: bool
    ) -> DataFrame:
        rows = self._find(table_key)
        schema = ", ".join(["id string", *(f"{name} string" for name in keys)])
        return self._read(() if is_kept and rows.is_replaced else rows.committed, keys, schema)

    def _find(self, table_key: str) -> TypeRows:
        return self.rows.get(table_key, TypeRows((), (), is_replaced=False))

    def _read(
        self, tasks: Sequence[StoredRows], keys: Mapping[str, tuple[str, ...]], schema: str
    ) -> DataFrame:
        count = max(len(tasks), 1)
        read = partial(_read_keys, tuple(tasks), dict(keys))
        return self.spark.range(0, count, 1, count).mapInArrow(read, schema)


def _read_keys(
    tasks: Sequence[StoredRows],
    keys: Mapping[str, tuple[str, ...]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    columns = sorted({"id", *(name for each in keys.values() for name in each)})
    with carried_errors():
        for batch in batches:
            for number in batch.column("id").to_pylist():
                if number < len(tasks):
                    rows = _read_task(tasks[number], columns)
                    known = [name for name in ("position", "id") if name in rows.column_names]
                    found = {name: rows[name] for name in known}
                    found |= {name: encode_keys(rows, group) for name, group in keys.items()}
                    yield from pa.table(found).to_batches()


def _read_task(stored: StoredRows, columns: Sequence[str]) -> pa.Table:
    staged = [each for each in stored if isinstance(each, StagedFile)]
    if staged:
        return read_positions(staged, columns=columns)
    return read_stored(stored, columns=columns, with_address=False)
