"""Validation of staged rows: key checks for all rules, exact joins where a key is in doubt.

Outcomes equal those of the checks in process, in the same order. Rows stay on executors; only keys
and positions of violations are collected. In merge mode the last row of an id counts. Violations
are counted in full and shown up to a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from omnigraph.engine.commit.integrity.edges import (
    PUT_EDGE,
    UNTOUCHED_EDGE,
    End,
    describe_count,
    describe_dangling,
    ends_of,
)
from omnigraph.engine.commit.integrity.keys import describe_repeat, describe_shared
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import KeyConflictError, Violation
from omnigraph.model.limits import CLAIMED_ROWS_MAX, QUARANTINED_ROWS_MAX, VIOLATIONS_MAX
from omnigraph.spark.jobs import map_tasks
from omnigraph.spark.load.key_claims import KeyCheckResult, SpaceKind, encode_keys, group_rows
from omnigraph.spark.load.rejections import gather_values, require_none
from omnigraph.spark.load.staged import JobRows, LeftOut, StagedJob
from omnigraph.spark.load.staging import (
    Declared,
    Reason,
    StoredRows,
    ViolatedRule,
    read_stored,
    reason_of,
    take_positions,
)

# The ranks of the rules of a type, after the value rules.
_UNIQUE, _ID, _END, _UNTOUCHED, _COUNT = 1000, 2000, 3000, 4000, 5000
_EXISTING = 6000


@dataclass(frozen=True, slots=True)
class Validator:
    """Validates the rows of a staged job.

    If the job is tolerant, rejected rows are left out; otherwise any violation is an error.
    """

    spark: SparkSession
    staged: StagedJob
    job: JobRows
    keys: KeyCheckResult

    @property
    def _is_tolerant(self) -> bool:
        return self.staged.plan.is_tolerant

    @property
    def _joins(self) -> _Joins:
        return _Joins(self.spark, self.job)

    def find_rejected(self) -> LeftOut:
        """The rows to leave out; removing a row can violate another rule.

        Raises `RequestError` if rows are rejected and must not be left out.
        """
        superseded = self._find_superseded()
        if superseded:
            return superseded
        existing = self._find_existing()
        if not self._is_tolerant:
            every = [*gather_values(self.staged.partitions), *self._find()]
            require_none(self.spark, every, job=self.staged)
            return {}
        violated = [*existing, *self._find()]
        # A count may become valid once other rows are left out.
        certain = [each for each in violated if each.count and each.rank != _COUNT]
        left_out: dict[str, dict[int, Reason | None]] = {}
        for rule in certain or violated:
            rejected = self._find_rows(rule)
            if not rejected:
                # No row of the job violates the rule; the violation is caused by rows that are
                # missing.
                require_none(self.spark, [rule], job=self.staged)
            reasons = left_out.setdefault(rule.table_key, {})
            for position, violation in rejected.items():
                reasons.setdefault(position, reason_of(violation))
        return {key: reasons for key, reasons in left_out.items() if reasons}

    def _find_superseded(self) -> LeftOut:
        """The rows of a merge whose id a later row has, where ids do not come from keys."""
        superseded: dict[str, dict[int, Reason | None]] = {}
        if self.job.mode is not LoadMode.MERGE:
            return superseded
        for key, declared in self.job.types.items():
            has_key = isinstance(declared, NodeType) and bool(declared.key)
            if not has_key and self.keys.of_ids(key)[1].repeated:
                rows = self._joins.repeats(key, is_last_valid=True).collect()
                superseded[key] = {row["position"]: None for row in rows}
        return superseded

    def _find_existing(self) -> list[ViolatedRule]:
        """The rows of an append whose ids already exist."""
        if self.job.mode is not LoadMode.APPEND:
            return []
        found: list[ViolatedRule] = []
        for key, declared in self.job.types.items():
            _, outcome = self.keys.of_ids(key)
            if not outcome.met:
                continue
            if not self._is_tolerant:
                raise KeyConflictError(type=declared.name, id=outcome.first_met or "")
            describe = partial(_describe_existing, declared.name)
            existing = self._joins.existing(key)
            found.append(self._collect(key, _EXISTING, existing, ["id"], describe))
        return found

    def _find_rows(self, rule: ViolatedRule) -> Mapping[int, Violation]:
        """The positions of the rows of the job that violate a rule, each with its violation."""
        if rule.rank != _COUNT:
            pairs = zip(rule.positions, rule.violations, strict=True)
            return {position: violation for position, violation in pairs if position is not None}
        by_source = {each.id: each for each in rule.violations}
        sources = self.spark.createDataFrame([(each,) for each in by_source], "source string")
        rows = self._joins.edges_from(rule.table_key, sources).collect()
        return {row["position"]: by_source[row["source"]] for row in rows}

    def _find(self) -> Iterator[ViolatedRule]:
        """Every violated rule, ordered by table key and then by rank."""
        edge_by_key = {table_key_of(edge): edge for edge in self.job.catalog.edges.values()}
        for key in sorted({*self.job.types, *edge_by_key}):
            declared = self.job.types.get(key)
            if declared is not None:
                yield from self._find_shared(key, declared)
                yield from self._find_repeats(key, declared)
            edge = edge_by_key.get(key)
            if edge is not None:
                yield from self._find_without_nodes(key, edge)
                if declared is not None:
                    yield from self._find_miscounted(key, edge)

    def _find_shared(self, key: str, declared: Declared) -> Iterator[ViolatedRule]:
        for number, space in enumerate(self.keys.doubtful(SpaceKind.UNIQUE, key)):
            group = space.columns

            def describe(row: Row, found: pa.Table, group: Sequence[str] = group) -> Violation:
                return describe_shared(declared.name, group, found, other=row["other"])

            shared = self._joins.shared(key, group)
            yield self._collect(key, _UNIQUE + number, shared, ["id", *group], describe)

    def _find_repeats(self, key: str, declared: Declared) -> Iterator[ViolatedRule]:
        if not self.keys.of_ids(key)[1].repeated:
            return
        repeats = self._joins.repeats(key, is_last_valid=False)
        columns = ["id", *(declared.key if isinstance(declared, NodeType) else ())]
        yield self._collect(
            key, _ID, repeats, columns, lambda _row, found: describe_repeat(declared, found)
        )

    def _find_without_nodes(self, key: str, edge: EdgeType) -> Iterator[ViolatedRule]:
        for number, end in enumerate(ends_of(edge)):
            if self.keys.of_ids(end.table_key)[1].absent and key in self.job.types:
                yield self._find_dangling(key, number, edge, end)
        for number, end in enumerate(ends_of(edge)):
            is_left = self.job.is_replaced(end.table_key) and not self.job.is_replaced(key)
            if is_left and self.keys.of_ids(end.table_key)[1].absent:
                yield self._find_stranded(key, number, edge, end)

    def _find_dangling(self, key: str, number: int, edge: EdgeType, end: End) -> ViolatedRule:
        def describe(row: Row, found: pa.Table) -> Violation:
            id = found["id"][0].as_py()
            return describe_dangling(edge, end, id=id, node=row["node"], prefix=PUT_EDGE)

        dangling = self._joins.dangling(key, end.column, end.table_key)
        return self._collect(key, _END + number, dangling, ["id"], describe)

    def _find_stranded(self, key: str, number: int, edge: EdgeType, end: End) -> ViolatedRule:
        stranded = self._joins.stranded(key, end.column, end.table_key)
        count, rows = self._take(stranded, "id")
        violations = tuple(
            describe_dangling(edge, end, id=row["id"], node=row["node"], prefix=UNTOUCHED_EDGE)
            for row in rows
        )
        return ViolatedRule(key, _UNTOUCHED + number, count, violations, (None,) * len(violations))

    def _find_miscounted(self, key: str, edge: EdgeType) -> Iterator[ViolatedRule]:
        bounds = edge.cardinality
        is_doubtful = any(self.keys.doubtful(SpaceKind.SOURCE, key))
        # Edges that are replaced may have had another source before.
        is_doubtful |= self.job.mode is LoadMode.MERGE and self.keys.of_ids(key)[1].met > 0
        if not is_doubtful or (not bounds.minimum and bounds.maximum is None):
            return
        source = ends_of(edge)[0]
        wrong = self._joins.miscounted(
            key, source.table_key, minimum=bounds.minimum, maximum=bounds.maximum
        )
        count, rows = self._take(wrong, "source")
        violations = tuple(describe_count(edge, row["source"], row["count"]) for row in rows)
        if count:
            yield ViolatedRule(key, _COUNT, count, violations, (None,) * len(violations))

    def _collect(
        self,
        key: str,
        rank: int,
        frame: DataFrame,
        columns: Sequence[str],
        describe: Callable[[Row, pa.Table], Violation],
    ) -> ViolatedRule:
        """The violated rule of some positions, described by their row and some stored columns."""
        count, rows = self._take(frame, "position")
        if not rows:
            return ViolatedRule(key, rank, 0, (), ())
        positions = tuple(row["position"] for row in rows)
        found = take_positions(self.job.staged[key], positions, columns=columns)
        violations = tuple(describe(row, found.slice(index, 1)) for index, row in enumerate(rows))
        return ViolatedRule(key, rank, count, violations, positions)

    def _take(self, frame: DataFrame, order: str) -> tuple[int, Sequence[Row]]:
        shown_max = QUARANTINED_ROWS_MAX + 1 if self._is_tolerant else VIOLATIONS_MAX
        rows = frame.orderBy(order).limit(shown_max + 1).collect()
        if len(rows) <= shown_max:
            return len(rows), rows
        return frame.count(), rows[:shown_max]


def _describe_existing(name: str, _row: Row, found: pa.Table) -> Violation:
    id = found["id"][0].as_py()
    return Violation(name, id, "exists", None, id, f"{name} '{id}' already exists")


@dataclass(frozen=True, slots=True)
class _Joins:
    """The rows of a job as frames, and the rules as joins of them."""

    spark: SparkSession
    job: JobRows

    def repeats(self, table_key: str, *, is_last_valid: bool) -> DataFrame:
        """The positions of rows with a repeated id in the job, except the first or the last."""
        order = f.col("position").desc() if is_last_valid else f.col("position").asc()
        numbered = self._staged(table_key, {}).withColumn(
            "number", f.row_number().over(Window.partitionBy("id").orderBy(order))
        )
        return numbered.where("number > 1").select("position")

    def existing(self, table_key: str) -> DataFrame:
        """The positions of rows whose id is already committed."""
        held = self._held(table_key, {}, is_current=True).select("id")
        return self._staged(table_key, {}).join(held, "id", "left_semi").select("position")

    def shared(self, table_key: str, group: Sequence[str]) -> DataFrame:
        """The positions of rows whose values another row has, with the id of the first such row."""
        put = self._distinct(table_key, {"key": tuple(group)}).select(
            f.lit(1).alias("rank"), "position", "id", "key"
        )
        held = self._untouched(table_key, {"key": tuple(group)}).select(
            f.lit(0).alias("rank"), f.lit(0).cast("long").alias("position"), "id", "key"
        )
        every = put.unionByName(held).where("key is not null")
        order = Window.partitionBy("key").orderBy("rank", "position", "id")
        numbered = every.select(
            "rank",
            "position",
            f.row_number().over(order).alias("number"),
            f.first("id").over(order).alias("other"),
        )
        return numbered.where("rank = 1 and number > 1").select("position", "other")

    def dangling(self, edge_key: str, column: str, node_key: str) -> DataFrame:
        """The positions and endpoints of edges of the job whose endpoint will not exist."""
        edges = self._staged(edge_key, {"node": (column,)}).select("position", "node")
        staged = self._staged(node_key, {}).select(f.col("id").alias("node"))
        held = self._held(node_key, {}, is_current=True).select(f.col("id").alias("node"))
        return edges.join(staged.union(held), "node", "left_anti").select("position", "node")

    def stranded(self, edge_key: str, column: str, node_key: str) -> DataFrame:
        """The ids and endpoints of committed edges whose node is lost as all nodes are deleted."""
        edges = self._untouched(edge_key, {"node": (column,)}).select("id", "node")
        present = self._staged(node_key, {}).select(f.col("id").alias("node"))
        return edges.join(present, "node", "left_anti").select("id", "node")

    def miscounted(
        self, edge_key: str, node_key: str, *, minimum: int, maximum: int | None
    ) -> DataFrame:
        """The sources with too few or too many edges, and their edge counts."""
        source = {"source": ("src",)}
        put = self._distinct(edge_key, source).select("source", f.lit(1).alias("put"))
        held = self._untouched(edge_key, source).select("source", f.lit(0).alias("put"))
        every = put.unionByName(held)
        counts = every.groupBy("source").agg(f.sum("put").alias("put"), f.count("*").alias("count"))
        affected = put.select("source").distinct()
        if minimum:
            affected = affected.union(self._lost(edge_key)).distinct()
        counts = affected.join(counts, "source", "left").fillna(0)
        is_wrong = f.col("count") < minimum
        if maximum is not None:
            is_wrong |= (f.col("put") > 0) & (f.col("count") > maximum)
        wrong = counts.where(is_wrong).select("source", "count")
        if not self.job.is_replaced(node_key):
            return wrong
        present = self._staged(node_key, {}).select(f.col("id").alias("source"))
        return wrong.join(present, "source", "left_semi")

    def edges_from(self, edge_key: str, sources: DataFrame) -> DataFrame:
        """The positions of the edges of the job that leave the given sources."""
        edges = self._staged(edge_key, {"source": ("src",)})
        return edges.join(sources, "source", "left_semi").select("position", "source")

    # The rows as frames

    def _distinct(self, table_key: str, keys: Mapping[str, tuple[str, ...]]) -> DataFrame:
        """The rows of the job, with only the first row for each id."""
        numbered = self._staged(table_key, keys).withColumn(
            "number", f.row_number().over(Window.partitionBy("id").orderBy("position"))
        )
        return numbered.where("number = 1")

    def _untouched(self, table_key: str, keys: Mapping[str, tuple[str, ...]]) -> DataFrame:
        """The committed rows that the job does not change."""
        held = self._held(table_key, keys, is_current=True)
        return held.join(self._staged(table_key, {}).select("id"), "id", "left_anti")

    def _lost(self, edge_key: str) -> DataFrame:
        """The sources of the committed edges that the job replaces."""
        held = self._held(edge_key, {"source": ("src",)}, is_current=False)
        if not self.job.is_replaced(edge_key):
            held = held.join(self._staged(edge_key, {}).select("id"), "id", "left_semi")
        return held.select("source")

    def _staged(self, table_key: str, keys: Mapping[str, tuple[str, ...]]) -> DataFrame:
        tasks = group_rows(self.job.staged.get(table_key, ()), rows_max=CLAIMED_ROWS_MAX)
        return self._read(tuple(tasks), keys, with_position=True)

    def _held(
        self, table_key: str, keys: Mapping[str, tuple[str, ...]], *, is_current: bool
    ) -> DataFrame:
        """The committed rows; with `is_current`, only those that are not all replaced."""
        is_empty = is_current and self.job.is_replaced(table_key)
        parts = () if is_empty else self.job.parts.get(table_key, ())
        return self._read([(part,) for part in parts], keys, with_position=False)

    def _read(
        self,
        tasks: Sequence[StoredRows],
        keys: Mapping[str, tuple[str, ...]],
        *,
        with_position: bool,
    ) -> DataFrame:
        names = ["position long"] if with_position else []
        schema = ", ".join([*names, "id string", *(f"{name} string" for name in keys)])
        read = partial(_read_keys, dict(keys), with_position=with_position)
        return map_tasks(self.spark, read, tasks, schema)


def _read_keys(
    keys: Mapping[str, tuple[str, ...]], stored: StoredRows, *, with_position: bool
) -> Iterator[pa.RecordBatch]:
    columns = sorted({"id", *(name for each in keys.values() for name in each)})
    rows = read_stored(stored, columns=columns, with_place=with_position)
    found = {name: rows[name] for name in ("position", "id") if name in rows.column_names}
    found |= {name: encode_keys(rows, group) for name, group in keys.items()}
    yield from pa.table(found).to_batches()
