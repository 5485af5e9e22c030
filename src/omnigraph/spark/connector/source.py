"""The Spark data source `omnigraph`, and temporary views of the types of a commit.

Spark calls the source in processes without a session and pickles what they exchange. Views are
pinned to a commit and do not change when the branch moves. Creating a view replaces the temporary
view of that name and writes nothing to the graph. Needs PySpark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from omnigraph.engine.context import GraphContext
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import GraphError, InvalidNameError, InvalidValueError
from omnigraph.model.names import require_text
from omnigraph.model.ports import Action
from omnigraph.spark.connector.options import parse_read_options, parse_write_options
from omnigraph.spark.connector.reader import (
    PinnedQuery,
    PinnedRead,
    PinnedType,
    collect_query,
    decode_rows,
    pin_read,
    read_part,
    require_readable,
    split_type,
)
from omnigraph.spark.connector.writer import BatchWriter, StreamWriter, WriteJob, plan_write
from omnigraph.spark.errors import spark_errors
from omnigraph.spark.sessions import find_working_session

FORMAT = "omnigraph"


class OmniGraphSource(DataSource):
    """The data source `omnigraph`; `docs/guide/spark.md` lists its options."""

    # Set in `schema`, which Spark calls once per DataFrame, and then pickled.
    _pinned: PinnedRead | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        with _shown_without_traceback():
            self._pinned = pin_read(parse_read_options(self.options))
        return self._pinned.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        # Spark does not call `schema` if the caller gives one; then planning pins the state.
        with _shown_without_traceback():
            pinned = self._pinned or pin_read(parse_read_options(self.options))
            require_readable(schema, pinned.schema)
        return _Reader(pinned, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:  # noqa: FBT001  # Spark's
        return BatchWriter(self._open_job(schema, is_overwrite=overwrite))

    def streamWriter(  # noqa: N802  # Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001  # Spark's signature
    ) -> StreamWriter:
        return StreamWriter(self._open_job(schema, is_overwrite=overwrite))

    def _open_job(self, schema: StructType, *, is_overwrite: bool) -> WriteJob:
        with _shown_without_traceback():
            options = parse_write_options(self.options, is_overwrite=is_overwrite)
            return plan_write(options, to_arrow_schema(schema, timezone="UTC"))


@contextmanager
def _shown_without_traceback() -> Iterator[None]:
    """Make Spark show package errors by their message alone.

    Spark includes the stack frames of the planning process in the error that the caller sees,
    unless an environment variable of that process disables it. The process ends with the error.
    """
    try:
        yield
    except GraphError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


class _Reader(DataSourceReader):
    """Reads the rows of a type, one group of files per task, or the parts of a query's result.

    A query is run in the planning process.
    """

    def __init__(self, pinned: PinnedRead, schema: StructType) -> None:
        self._pinned = pinned
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        match self._pinned:
            case PinnedType() as pinned:
                return [InputPartition(part) for part in split_type(pinned, self._schema)]
            case PinnedQuery() as pinned:
                return [InputPartition(part) for part in collect_query(pinned, self._schema)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Without partitions, Spark creates one with the value None.
        if partition.value is None:
            return iter(())
        match self._pinned:
            case PinnedType() as pinned:
                return read_part(pinned, partition.value, self._schema)
            case PinnedQuery():
                return iter(decode_rows(partition.value).to_batches())


_PREFIX = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)?", re.ASCII)


def make_views(
    opened: GraphContext, *, spark: object, branch: str | None, commit: str | None, prefix: str
) -> dict[str, DataFrame]:
    """Create a view of each type of a branch or a commit, and return the frames by view name.

    The branch is `main` if neither is given.
    """
    require_text(prefix, subject="prefix")
    if not _PREFIX.fullmatch(prefix):
        rule = "a prefix has letters, digits and underscores, and does not start with a digit"
        raise InvalidNameError(kind="view", name=prefix, rule=rule)
    basis = opened.at(branch, commit, action=Action.READ)
    opened.require_unrestricted(basis, "create views of types")
    type_by_view = {f"{prefix}{each.name}": each for each in _distinct_types(basis.catalog)}
    location = opened.settings.location
    options = {
        # The root, not the given URI: an in-memory graph is a folder that tasks on this machine can
        # reach.
        "uri": location.root,
        "commit": basis.head.id,
        "readOnly": str(opened.is_read_only),
        **{f"storage.{name}": value for name, value in location.storage_options.items()},
    }
    session = find_working_session(spark)
    with spark_errors(action="create views of the graph"):
        frame_by_view = {
            view: session.read.format(FORMAT).options(**options, type=table_key_of(declared)).load()
            for view, declared in type_by_view.items()
        }
        # Views are created last, so a read error leaves the session unchanged.
        for view, frame in frame_by_view.items():
            frame.createOrReplaceTempView(view)
    return frame_by_view


def _distinct_types(catalog: Catalog) -> list[NodeType | EdgeType]:
    """The types that have rows; raises if two names differ only in case, which Spark ignores."""
    declared = catalog.stored_types()
    first_by_name: dict[str, NodeType | EdgeType] = {}
    for each in declared:
        first = first_by_name.setdefault(each.name.lower(), each)
        if first is not each:
            names = f"{first.kind} {first.name} and {each.kind} {each.name}"
            advice = f"read one with `spark.read.format({FORMAT!r})` and name the view yourself"
            raise InvalidValueError(
                subject="views",
                expected="types whose names differ in more than case",
                value=each.name,
                problem=f"{names} would be the same view, because Spark ignores case; {advice}",
            )
    return declared
