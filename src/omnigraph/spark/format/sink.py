"""Where Spark writes rows to: a DataFrame's, or a batch of a stream's.

Each method is called in a process of its own: `write` in tasks, `commit` and `abort` on the
driver's machine, where there is no session. What they exchange is pickled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from omnigraph.engine.state.history import StreamBatch
from omnigraph.spark.format.options import refuse_option
from omnigraph.spark.format.sinking import WriteJob, commit_rows, discard_rows, stage_rows
from omnigraph.spark.loading.staged import StagedPortion

Messages = list[WriterCommitMessage | None]

# Set by Spark for every task of a stream; it stays the same when a query is started again.
_QUERY_ID = "sql.streaming.queryId"


class StagedMessage(WriterCommitMessage):
    """What a task tells whoever commits: the rows it staged, for which job and query."""

    def __init__(self, job: WriteJob, portion: StagedPortion, query_id: str | None) -> None:
        self.job = job
        self.portion = portion
        self.query_id = query_id

    @classmethod
    def of_task(cls, job: WriteJob, batches: Iterator[pa.RecordBatch]) -> Self:
        """Stage the rows of this task."""
        context = TaskContext.get()
        assert context is not None, "only a task writes"
        portion = stage_rows(job, context.partitionId(), batches)
        return cls(job, portion, context.getLocalProperty(_QUERY_ID))


class BatchSink(DataSourceArrowWriter):
    """Makes the rows of a DataFrame one commit."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        return StagedMessage.of_task(self._job, iterator)

    def commit(self, messages: Messages) -> None:
        commit_rows(self._job, _portions(messages), batch=None)

    def abort(self, messages: Messages) -> None:
        _abort(self._job, messages)


class StreamSink(DataSourceStreamArrowWriter):
    """Makes each batch of a stream one commit, and only once."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        return StagedMessage.of_task(self._job, iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803  # Spark's name
        # What tasks were told counts: the plan of this process may be by another schema.
        staged = [each for each in messages if isinstance(each, StagedMessage)]
        if staged:
            batch = StreamBatch(_query_id_of(staged[0]), batchId)
            commit_rows(staged[0].job, _portions(messages), batch=batch)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803  # Spark's name
        _abort(self._job, messages)


def _query_id_of(message: StagedMessage) -> str:
    query_id = message.job.options.query_id or message.query_id
    if query_id is None:
        raise refuse_option("queryId", "Spark does not tell it; give the stream a name of its own")
    return query_id


def _portions(messages: Messages) -> list[StagedPortion]:
    return [each.portion for each in messages if isinstance(each, StagedMessage)]


def _abort(job: WriteJob, messages: Messages) -> None:
    # Where every task has told of its rows, somebody has tried to commit them and knows what became
    # of them: files that may be part of a version are never deleted.
    if None in messages:
        discard_rows(job, _portions(messages))
