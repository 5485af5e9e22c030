"""Staging run by Spark: every input of a job in one go, and again where rows are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from omnigraph.engine.ops.reading.splits import Split
from omnigraph.model.errors import LimitExceededError
from omnigraph.model.limits import PORTIONS_MAX
from omnigraph.spark.exchange import decode, encode
from omnigraph.spark.loading.inputs import FileInput, FrameInput, JobInput, LocalInput
from omnigraph.spark.loading.staged import PortionKey, StagedPortion
from omnigraph.spark.loading.staging import StagingPlan, stage_batches, stage_pieces, stage_splits
from omnigraph.spark.spark_errors import carried_errors

_RESULT = "staged string"


def stage_inputs(
    spark: SparkSession,
    plan: StagingPlan,
    inputs: Sequence[JobInput],
    *,
    only: frozenset[PortionKey] | None,
) -> tuple[StagedPortion, ...]:
    """Stage all portions of some inputs, or only some of them, in the order of the input."""
    found: list[StagedPortion] = []
    for source, each in enumerate(inputs):
        if only is not None and all(key.source != source for key in only):
            continue
        if isinstance(each, LocalInput):
            found.append(stage_pieces(plan, PortionKey(source, 0), each.pieces, each.faults))
            continue
        # One job an input: a task knows the number of its partition within its job only.
        rows = _plan_input(spark, plan, source, each, only).collect()
        found += sorted((decode(StagedPortion, row["staged"]) for row in rows), key=_key_of)
    return tuple(found)


def _key_of(portion: StagedPortion) -> PortionKey:
    return portion.key


def _plan_input(
    spark: SparkSession,
    plan: StagingPlan,
    source: int,
    given: FileInput | FrameInput,
    only: frozenset[PortionKey] | None,
) -> DataFrame:
    match given:
        case FileInput(portions):
            chosen = tuple(
                (PortionKey(source, number), splits)
                for number, splits in enumerate(portions)
                if only is None or PortionKey(source, number) in only
            )
            numbers = spark.range(0, len(chosen), 1, max(len(chosen), 1))
            return numbers.mapInArrow(partial(_stage_files, plan, chosen), _RESULT)
        case FrameInput(table_key, frame):
            return frame.mapInArrow(partial(_stage_frame, plan, source, table_key, only), _RESULT)


# On executors


def _stage_files(
    plan: StagingPlan,
    chosen: Sequence[tuple[PortionKey, Sequence[Split]]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    with carried_errors():
        for batch in batches:
            for number in batch.column("id").to_pylist():
                key, splits = chosen[number]
                yield _as_batch(stage_splits(plan, key, splits))


def _stage_frame(
    plan: StagingPlan,
    source: int,
    table_key: str,
    only: frozenset[PortionKey] | None,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    assert context is not None, "it runs in a task"
    key = PortionKey(source, context.partitionId())
    with carried_errors():
        if key.number >= PORTIONS_MAX:
            raise LimitExceededError(
                resource="the partitions of a frame", limit=PORTIONS_MAX, found=key.number + 1
            )
        if only is None or key in only:
            yield _as_batch(stage_batches(plan, key, table_key, batches))


def _as_batch(portion: StagedPortion) -> pa.RecordBatch:
    return pa.record_batch({"staged": [encode(portion)]})
