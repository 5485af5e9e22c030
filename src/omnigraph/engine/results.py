"""What the calls of a graph return: plain values, the same embedded and remote.

A `Result` never changes. It holds Arrow columns; rows of JSON values, pandas and polars frames are
made of them when asked for. pandas and polars are looked for only then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson
import pyarrow as pa

from omnigraph.engine.html import make_facts, make_note, make_table
from omnigraph.engine.read.json_rows import column_as_json
from omnigraph.engine.state.history import Commit
from omnigraph.model.errors import Conflict, InvalidValueError, NotFoundError
from omnigraph.model.limits import (
    CONFLICTS_SHOWN_MAX,
    RESULT_ROWS_SHOWN_MAX,
    RESULT_ROWS_WRITTEN,
)
from omnigraph.model.load_report import NOTHING_WRONG, LoadReport
from omnigraph.model.types import PropertyType
from omnigraph.storage.row_files import (
    FileFormat,
    exchange_schema,
    format_of,
    new_file,
    parse_format,
    parse_target,
    write_rows,
)

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame

_PANDAS_NULLABLE: Mapping[pa.DataType, str] = MappingProxyType(
    {
        pa.bool_(): "BooleanDtype",
        pa.int32(): "Int32Dtype",
        pa.int64(): "Int64Dtype",
        pa.uint32(): "UInt32Dtype",
        pa.uint64(): "UInt64Dtype",
    }
)


@dataclass(frozen=True, slots=True)
class MutationResult:
    """How many nodes and edges the statements touched; no commit if nothing changed."""

    affected_nodes: int
    affected_edges: int
    commit_id: str | None


@dataclass(frozen=True, slots=True)
class LoadResult:
    """How many rows of each type came in, by what engine, as which commit.

    `rejected` is how many rows were left out, and `report` says why.
    """

    nodes_loaded: Mapping[str, int]
    edges_loaded: Mapping[str, int]
    commit_id: str | None
    branch: str
    base_branch: str | None
    branch_created: bool
    engine: str
    rejected: int = 0
    report: LoadReport = NOTHING_WRONG


class MergeOutcome(StrEnum):
    """What became of a merge, or would become of it."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"
    CONFLICTS = "conflicts"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What became of a merge, a revert or a picked commit; no commit if there was nothing to do or
    nothing was to be done. Only a dry run has conflicts: they are an error otherwise."""

    outcome: MergeOutcome
    commit_id: str | None
    conflicts: tuple[Conflict, ...]

    def _repr_html_(self) -> str:
        facts = [("outcome", self.outcome.value), ("commit", self.commit_id or "none")]
        if not self.conflicts:
            return make_facts(facts)
        names = ("type", "id", "kind", "message", "base", "source", "target")
        rows = (
            [each.type, each.id, each.kind, each.message, each.base, each.source, each.target]
            for each in self.conflicts[:CONFLICTS_SHOWN_MAX]
        )
        hidden = len(self.conflicts) - CONFLICTS_SHOWN_MAX
        more = make_note(f"and {hidden:,} more conflicts") if hidden > 0 else ""
        return make_facts(facts) + make_table(names, rows) + more


@dataclass(frozen=True, slots=True)
class PendingIndex:
    """An index that a type should have and has not, and why."""

    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    """What was done to the layout of one type, and what was not, with the reason.

    `manifest_version` is what history names, `lance_head_version` where the table is.
    """

    type: str
    table_key: str
    fragments_removed: int
    fragments_added: int
    committed: bool
    skipped: str | None
    manifest_version: int
    lance_head_version: int | None
    pending_indexes: tuple[PendingIndex, ...]


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The steps from the accepted schema to another, and whether all of them can be taken."""

    supported: bool
    steps: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class SchemaApplyResult:
    """What was done to the schema; nothing and no commit if it was the accepted one already."""

    applied: bool
    steps: tuple[Mapping[str, object], ...]
    commit_id: str | None


@dataclass(frozen=True, slots=True)
class ExportedType:
    """One type of an export: how many rows it has, and the file that they are in."""

    type: str
    rows: int
    file: str


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The files of an export, in the order of types, and the commit that they hold."""

    commit_id: str
    folder: str
    format: str
    types: tuple[ExportedType, ...]


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob, or the part of it that was asked for; `size` is that of the whole.

    Equal `etag`s mean equal content. It stays while the row is not written again: an update of
    another property gives the same content a new one, and so does a compaction.
    """

    content: bytes = field(repr=False)
    size: int
    etag: str


class TableState(NamedTuple):
    """One type in a snapshot: its Lance table at `path`, opened at `version`, is what counts."""

    version: int
    branch: str | None
    row_count: int
    path: str


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """A branch at one commit: each type by its key, as it is there."""

    commit: Commit
    tables: Mapping[str, TableState]


@dataclass(frozen=True, slots=True)
class IndexReport:
    """One index that a type should have: whether this call built it, and how many of the type's
    rows it knows. The others are found by reading them. Without an index there is a reason."""

    type: str
    column: str
    kind: str
    is_built: bool
    rows: int
    rows_covered: int
    pending_reason: str | None


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result: its name, what it holds, and whether it was worked out over rows."""

    name: str
    type: PropertyType
    is_aggregate: bool


class PendingRows(Protocol):
    """Rows that Spark works out when somebody asks for them."""

    def collect(self) -> pa.Table:
        """The rows, here."""
        ...

    def frame(self, session: object) -> DataFrame:
        """The rows as a frame that nobody has worked out yet."""
        ...


class Result:
    """The rows that a query found, in order, at one commit.

    Iterating gives rows: dicts of JSON values. Where two columns share a name, a row keeps the
    last of them and `to_arrow` keeps both. What runs on Spark runs when rows are first asked for.
    """

    def __init__(
        self,
        answer: pa.Table | PendingRows,
        *,
        columns: Sequence[ResultColumn],
        query_name: str,
        branch: str,
        commit_id: str,
    ) -> None:
        self._answer, self._columns = answer, tuple(columns)
        self._rows: list[dict[str, object]] | None = None
        self._query_name, self._branch, self._commit_id = query_name, branch, commit_id

    @cached_property
    def _table(self) -> pa.Table:
        answer = self._answer
        table = answer if isinstance(answer, pa.Table) else answer.collect()
        return pa.Table.from_arrays(table.columns, schema=_schema(table, self._columns))

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order of `return`."""
        return [each.name for each in self._columns]

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The same with what each of them holds."""
        return self._columns

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows as dicts of JSON values, made when they are first asked for."""
        if self._rows is None:
            names = self.columns
            cells = zip(*self._encode(self._table), strict=True)
            self._rows = [dict(zip(names, row, strict=True)) for row in cells]
        return self._rows

    @property
    def query_name(self) -> str:
        """The name of the query that ran."""
        return self._query_name

    @property
    def branch(self) -> str:
        """The branch that was read."""
        return self._branch

    @property
    def commit_id(self) -> str:
        """The commit that was read: the head of the branch, or the one that was asked for."""
        return self._commit_id

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(self.rows)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; a `DateTime` is a `date64`, in milliseconds."""
        return self._table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for any library that reads Arrow streams."""
        return self._table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame.

        Whole numbers and truth values beside null get pandas' nullable types, so that they stay
        what they are. A `DateTime` is a UTC timestamp; a `Date` is one without a zone, at midnight.
        """
        pandas = _import("pandas")
        table = self._with_timestamps()
        nullable = {
            column.type: getattr(pandas, name)()
            for column in table.columns
            if column.null_count and (name := _PANDAS_NULLABLE.get(column.type))
        }
        # As objects, dates would end with the calendar of Python.
        return table.to_pandas(types_mapper=nullable.get, date_as_object=False)

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars frame, which needs a different name for every column."""
        self._require_names("to_polars")
        frame: pl.DataFrame = _import("polars").from_arrow(self._with_timestamps())
        return frame

    def write(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the rows to a file, as `ndjson`, `parquet` or `arrow`: whole, or not at all.

        Without a format the suffix of the name tells it. A file that is there is replaced. Every
        column needs a name of its own.
        """
        target = parse_target(path)
        chosen = format_of(target) if format is None else parse_format(format)
        self._require_names("write")
        table = self._with_timestamps()
        with new_file(target) as hidden:
            write_rows(
                hidden,
                self._table.to_batches(max_chunksize=RESULT_ROWS_WRITTEN)
                if chosen is FileFormat.NDJSON
                else table.to_batches(),
                schema=table.schema,
                format=chosen,
                encode=self._encode_lines,
            )

    def to_spark(self, session: object = None) -> DataFrame:
        """The rows as a frame of a Spark session: the given, the running, or a new one.

        The rows of a query that runs on Spark stay there, and are not worked out yet.
        """
        self._require_names("to_spark")
        if not isinstance(self._answer, pa.Table):
            return self._answer.frame(session)
        columns = [(each.name, each.type) for each in self._columns]
        frame: DataFrame = _import("omnigraph.spark.frames").make_frame(
            self._table, columns, session
        )
        return frame

    def __repr__(self) -> str:
        # To show a result is no reason to work it out.
        is_here = isinstance(self._answer, pa.Table) or "_table" in vars(self)
        return (
            f"<Result of {self._query_name}: {f'{len(self)} ' if is_here else ''}rows of "
            f"{', '.join(self.columns)} at commit {self._commit_id}>"
        )

    def _repr_html_(self) -> str:
        shown = self._table.slice(0, RESULT_ROWS_SHOWN_MAX)
        table = make_table(self.columns, zip(*self._encode(shown), strict=True))
        hidden = len(self) - len(shown)
        more = make_note(f"and {hidden:,} more rows") if hidden else ""
        return table + more + make_note(f"{self._branch} at commit {self._commit_id}")

    def _encode(self, table: pa.Table) -> list[list[object]]:
        columns = zip(table.columns, self._columns, strict=True)
        return [column_as_json(column, each.type) for column, each in columns]

    def _encode_lines(self, rows: pa.RecordBatch) -> memoryview:
        names = self.columns
        cells = zip(*self._encode(pa.table(rows)), strict=True)
        lines = [orjson.dumps(dict(zip(names, row, strict=True))) for row in cells]
        return memoryview(b"\n".join([*lines, b""]))

    def _require_names(self, call: str) -> None:
        repeated = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if repeated:
            raise InvalidValueError(
                subject=call,
                expected="different names",
                value=repeated,
                problem=f"two columns are called '{repeated[0]}'; give one an alias with `as`",
            )

    def _with_timestamps(self) -> pa.Table:
        return self._table.cast(exchange_schema(self._table.schema))


def _schema(table: pa.Table, columns: tuple[ResultColumn, ...]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(each.name, column.type, nullable=each.is_aggregate or column.null_count > 0)
            for column, each in zip(table.columns, columns, strict=True)
        ]
    )


def _import(package: str) -> ModuleType:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise NotFoundError(
            kind="package", name=package, advice="install it, or use `to_arrow`"
        ) from error
