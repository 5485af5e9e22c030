"""Every broken rule across rows, with the rows that break it: joins told in words.

Asks the joins only what the claims put in doubt. What is found is counted in full; as many rows as
the caller wants are told of, in the order of the evaluator in process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from omnigraph.engine.commit.integrity.cardinality import describe_count
from omnigraph.engine.commit.integrity.endpoints import (
    PUT_EDGE,
    UNTOUCHED_EDGE,
    End,
    describe_dangling,
    ends_of,
)
from omnigraph.engine.commit.integrity.identities import describe_repeat
from omnigraph.engine.commit.integrity.uniqueness import describe_shared
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import Violation
from omnigraph.spark.loading.checks import Checks
from omnigraph.spark.loading.claims import SpaceKind
from omnigraph.spark.loading.judging import JobRows, Judgement
from omnigraph.spark.loading.staged import Broken
from omnigraph.spark.loading.stored import take_positions

# Where a rule stands among those of a type, behind the rules about values.
_UNIQUE, _ID, _END, _UNTOUCHED, _COUNT = 1000, 2000, 3000, 4000, 5000
_EXISTING = 6000


def is_count(broken: Broken) -> bool:
    """Whether a rule is about how many edges leave a node."""
    return broken.rank == _COUNT


@dataclass(frozen=True, slots=True)
class Findings:
    """Finds what a job breaks; of each rule at most `told_max` rows are told of."""

    job: JobRows
    judgement: Judgement
    checks: Checks
    told_max: int

    def find(self) -> Iterator[Broken]:
        """Every broken rule, by table key and then in the order of rules."""
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

    def find_existing(self, key: str) -> Broken:
        """The rows that an append brings though their ids are there already."""
        name = self.job.types[key].name

        def describe(_rows: Sequence[Row], found: pa.Table) -> Iterator[Violation]:
            for row in found["id"].to_pylist():
                message = f"{name} '{row}' already exists"
                yield Violation(name, row, "exists", None, row, message)

        return self._tell(key, _EXISTING, self.checks.existing(key), ["id"], describe)

    def find_culprits(self, broken: Broken) -> Mapping[int, Violation]:
        """The positions of the rows of the job that break a rule, each with its violation."""
        if not is_count(broken):
            pairs = zip(broken.positions, broken.violations, strict=True)
            return {position: told for position, told in pairs if position is not None}
        by_source = {each.id: each for each in broken.violations}
        sources = self.checks.spark.createDataFrame(
            [(each,) for each in by_source], "source string"
        )
        rows = self.checks.edges_from(broken.table_key, sources).collect()
        return {row["position"]: by_source[row["source"]] for row in rows}

    def _find_shared(self, key: str, declared: NodeType | EdgeType) -> Iterator[Broken]:
        for number, space in enumerate(self.judgement.doubtful(SpaceKind.UNIQUE, key)):
            group = space.columns

            def describe(
                rows: Sequence[Row], found: pa.Table, group: Sequence[str] = group
            ) -> Iterator[Violation]:
                for index, row in enumerate(rows):
                    one = found.slice(index, 1)
                    yield describe_shared(declared.name, group, one, other=row["other"])

            shared = self.checks.shared(key, group)
            yield self._tell(key, _UNIQUE + number, shared, ["id", *group], describe)

    def _find_repeats(self, key: str, declared: NodeType | EdgeType) -> Iterator[Broken]:
        _, verdict = self.judgement.of_ids(key)
        if not verdict.repeated:
            return

        def describe(rows: Sequence[Row], found: pa.Table) -> Iterator[Violation]:
            for index in range(len(rows)):
                yield describe_repeat(declared, found.slice(index, 1))

        repeats = self.checks.repeats(key, is_last_kept=False)
        columns = ["id", *(declared.key if isinstance(declared, NodeType) else ())]
        yield self._tell(key, _ID, repeats, columns, describe)

    def _find_without_nodes(self, key: str, edge: EdgeType) -> Iterator[Broken]:
        for number, end in enumerate(ends_of(edge)):
            if self.judgement.of_ids(end.table_key)[1].absent and key in self.job.types:
                yield self._tell_dangling(key, number, edge, end)
        for number, end in enumerate(ends_of(edge)):
            is_left = self.job.is_replaced(end.table_key) and not self.job.is_replaced(key)
            if is_left and self.judgement.of_ids(end.table_key)[1].absent:
                yield self._tell_stranded(key, number, edge, end)

    def _tell_dangling(self, key: str, number: int, edge: EdgeType, end: End) -> Broken:
        def describe(rows: Sequence[Row], found: pa.Table) -> Iterator[Violation]:
            for row, id in zip(rows, found["id"].to_pylist(), strict=True):
                yield describe_dangling(edge, end, id=id, node=row["node"], prefix=PUT_EDGE)

        dangling = self.checks.dangling(key, end.column, end.table_key)
        return self._tell(key, _END + number, dangling, ["id"], describe)

    def _tell_stranded(self, key: str, number: int, edge: EdgeType, end: End) -> Broken:
        stranded = self.checks.stranded(key, end.column, end.table_key)
        count, rows = self._take(stranded, "id")
        told = tuple(
            describe_dangling(edge, end, id=row["id"], node=row["node"], prefix=UNTOUCHED_EDGE)
            for row in rows
        )
        return Broken(key, _UNTOUCHED + number, count, told, (None,) * len(told))

    def _find_miscounted(self, key: str, edge: EdgeType) -> Iterator[Broken]:
        bounds = edge.cardinality
        is_doubtful = any(self.judgement.doubtful(SpaceKind.SOURCE, key))
        # Edges that are replaced may have left another source than they leave now.
        is_doubtful |= self.job.mode is LoadMode.MERGE and self.judgement.of_ids(key)[1].met > 0
        if not is_doubtful or (not bounds.minimum and bounds.maximum is None):
            return
        source = ends_of(edge)[0]
        wrong = self.checks.miscounted(
            key, source.table_key, minimum=bounds.minimum, maximum=bounds.maximum
        )
        count, rows = self._take(wrong, "source")
        told = tuple(describe_count(edge, row["source"], row["count"]) for row in rows)
        if count:
            yield Broken(key, _COUNT, count, told, (None,) * len(told))

    def _tell(
        self,
        key: str,
        rank: int,
        frame: DataFrame,
        columns: Sequence[str],
        describe: Callable[[Sequence[Row], pa.Table], Iterator[Violation]],
    ) -> Broken:
        count, rows = self._take(frame, "position")
        if not rows:
            return Broken(key, rank, 0, (), ())
        positions = tuple(row["position"] for row in rows)
        found = take_positions(self.job.staged[key], positions, columns=columns)
        return Broken(key, rank, count, tuple(describe(rows, found)), positions)

    def _take(self, frame: DataFrame, order: str) -> tuple[int, Sequence[Row]]:
        rows = frame.orderBy(order).limit(self.told_max + 1).collect()
        if len(rows) <= self.told_max:
            return len(rows), rows
        return frame.count(), rows[: self.told_max]
