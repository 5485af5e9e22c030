"""The results of the calls of a graph: plain values, the same for embedded and remote graphs.

A `Result` is immutable. It holds Arrow columns; rows of JSON values and pandas and polars frames
are created from them on demand. pandas and polars are imported only then.
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

import pyarrow as pa

from omnigraph.engine.rows.json_rows import encode_column
from omnigraph.engine.rows.text_rows import (
    Delimiter,
    encode_csv,
    encode_csv_names,
    encode_lines,
    encode_objects,
)
from omnigraph.engine.state.history import Commit, make_facts, make_note, make_table
from omnigraph.model.errors import (
    NOTHING_WRONG,
    Conflict,
    InvalidValueError,
    LoadReport,
    NotFoundError,
    plural,
)
from omnigraph.model.limits import (
    NOTEBOOK_ROWS_MAX,
    RESULT_ROWS_WRITTEN,
)
from omnigraph.model.names import parse_word
from omnigraph.model.types import PropertyType
from omnigraph.storage.row_files import (
    FileFormat,
    ResultFormat,
    find_result_format,
    new_file,
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
    """The number of nodes and edges that the statements affected; no commit if nothing changed."""

    affected_nodes: int
    affected_edges: int
    commit_id: str | None


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The number of loaded rows of each type, the engine that was used, and the commit.

    `rejected` is the number of rows that were skipped, and `report` lists the reasons.
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
    """The outcome of a merge, or the expected outcome of a dry run."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"
    CONFLICTS = "conflicts"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The outcome of a merge, revert or cherry-pick; no commit if nothing was written.

    `commit_id` is None if there was nothing to do, or for a dry run. Only a dry run returns
    conflicts; otherwise they raise an error.
    """

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
            for each in self.conflicts[:NOTEBOOK_ROWS_MAX]
        )
        hidden = len(self.conflicts) - NOTEBOOK_ROWS_MAX
        more = make_note(f"and {hidden:,} more {plural(hidden, 'conflict')}") if hidden > 0 else ""
        return make_facts(facts) + make_table(names, rows) + more


@dataclass(frozen=True, slots=True)
class PendingIndex:
    """An index that a type should have but does not have, and the reason."""

    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    """The layout changes of one type, or the reason why it was skipped.

    `manifest_version` is the version in the manifest, and `lance_head_version` the newest version
    of the table.
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
    """The steps from the accepted schema to another, and whether all of them can be applied now.

    `blockers` lists reasons other than unsupported steps for which applying would be rejected.
    """

    supported: bool
    steps: tuple[Mapping[str, object], ...]
    blockers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaApplyResult:
    """The applied schema changes; without steps or a commit if the schema was already accepted."""

    applied: bool
    steps: tuple[Mapping[str, object], ...]
    commit_id: str | None


@dataclass(frozen=True, slots=True)
class ExportedType:
    """One type of an export: the number of its rows, and their file."""

    type: str
    rows: int
    file: str


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The files of an export, in the order of types, and the commit that they contain."""

    commit_id: str
    folder: str
    format: str
    types: tuple[ExportedType, ...]


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob, or the requested range of it; `size` is the size of the whole blob.

    Equal `etag`s mean equal content. The `etag` changes when the row is rewritten, also with the
    same content: by an update of another property, or by a compaction.
    """

    content: bytes = field(repr=False)
    size: int
    etag: str


class TableState(NamedTuple):
    """One type in a snapshot: its Lance table at `path`, which must be opened at `version`."""

    version: int
    branch: str | None
    row_count: int
    path: str


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """A branch at one commit, with the state of each type by its key."""

    commit: Commit
    tables: Mapping[str, TableState]


@dataclass(frozen=True, slots=True)
class IndexReport:
    """One column that should have an index, and how many rows of the type the index covers.

    A text has two indexes, one for comparisons and one for words; `kind` is that of the second.
    `is_built` is whether this call built it, and `rows_covered` how many of the type's rows it
    covers; the other rows are found by a scan. `pending_reason` explains why there is no index.
    """

    type: str
    column: str
    kind: str
    is_built: bool
    rows: int
    rows_covered: int
    pending_reason: str | None


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result: its name, its type, and whether it is an aggregate."""

    name: str
    type: PropertyType
    is_aggregate: bool


class DeferredRows(Protocol):
    """Rows that Spark computes when they are first used."""

    def collect(self) -> pa.Table:
        """The rows, collected in this process."""

    def frame(self, session: object) -> DataFrame:
        """The rows as a DataFrame that is not computed yet."""


class Result:
    """The rows that a query returned, in order, at one commit.

    Iteration yields rows as dicts of JSON values. If two columns have the same name, a row contains
    only the last one, and `to_arrow` contains both. A query on Spark runs when its rows are first
    used.
    """

    def __init__(
        self,
        rows: pa.Table | DeferredRows,
        *,
        columns: Sequence[ResultColumn],
        query_name: str,
        branch: str,
        commit_id: str,
    ) -> None:
        self._source, self._columns = rows, tuple(columns)
        self._rows: list[dict[str, object]] | None = None
        self._query_name, self._branch, self._commit_id = query_name, branch, commit_id

    @cached_property
    def _table(self) -> pa.Table:
        source = self._source
        table = source if isinstance(source, pa.Table) else source.collect()
        fields = [
            pa.field(each.name, column.type, nullable=each.is_aggregate or column.null_count > 0)
            for column, each in zip(table.columns, self._columns, strict=True)
        ]
        return pa.Table.from_arrays(table.columns, schema=pa.schema(fields))

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order of `return`."""
        return [each.name for each in self._columns]

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The columns with their types."""
        return self._columns

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows as dicts of JSON values, created on first access."""
        if self._rows is None:
            names = self.columns
            cells = zip(*self._encode(self._table), strict=True)
            self._rows = [dict(zip(names, row, strict=True)) for row in cells]
        return self._rows

    @property
    def query_name(self) -> str:
        """The name of the query."""
        return self._query_name

    @property
    def branch(self) -> str:
        """The branch that was read."""
        return self._branch

    @property
    def commit_id(self) -> str:
        """The commit that was read: the head of the branch, or the requested commit."""
        return self._commit_id

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(self.rows)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; a `DateTime` is a `timestamp[ms, tz=UTC]`."""
        return self._table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, for any library that reads Arrow streams."""
        return self._table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame.

        Integer and boolean columns that contain nulls get pandas' nullable types, so that their
        values are preserved. A `DateTime` is a UTC timestamp; a `Date` is a timestamp without a
        time zone, at midnight.
        """
        pandas = _import("pandas")
        table = self._table
        nullable = {
            column.type: getattr(pandas, name)()
            for column in table.columns
            if column.null_count and (name := _PANDAS_NULLABLE.get(column.type))
        }
        # As Python objects, dates would be limited to the range of Python's calendar.
        return table.to_pandas(types_mapper=nullable.get, date_as_object=False)

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars DataFrame, which requires distinct column names."""
        self._require_names("to_polars")
        frame: pl.DataFrame = _import("polars").from_arrow(self._table)
        return frame

    def write(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the rows to a file atomically; an existing file is replaced.

        `format` is `parquet`, `arrow`, `ndjson`, `json`, `csv` or `tsv`. Without it, the suffix of
        the file name determines the format: `.parquet`; `.arrow`, `.feather` or `.ipc`; `.ndjson`
        or `.jsonl`; `.json`, an array of rows; `.csv`; `.tsv`. Any other suffix is rejected. In CSV
        and TSV, a text that a spreadsheet would run as a formula is prefixed with an apostrophe.
        """
        target = parse_target(path)
        if format is None:
            chosen = find_result_format(target)
        else:
            chosen = parse_word(ResultFormat, format, subject="format")
        self._require_names("write")
        with new_file(target) as hidden:
            match chosen:
                case ResultFormat.PARQUET | ResultFormat.ARROW | ResultFormat.NDJSON:
                    is_text = chosen is ResultFormat.NDJSON
                    write_rows(
                        hidden,
                        self._table.to_batches(RESULT_ROWS_WRITTEN if is_text else None),
                        schema=self._table.schema,
                        format=FileFormat(chosen),
                        encode=lambda rows: memoryview(encode_lines(pa.table(rows))),
                    )
                case ResultFormat.JSON | ResultFormat.CSV | ResultFormat.TSV:
                    with hidden.open("wb") as file:
                        file.writelines(self._write_text(chosen))

    def to_spark(self, session: object = None) -> DataFrame:
        """The rows as a DataFrame of the given Spark session, the active session, or a new one.

        The rows of a query on Spark stay there and are not computed yet.
        """
        self._require_names("to_spark")
        if not isinstance(self._source, pa.Table):
            return self._source.frame(session)
        columns = [(each.name, each.type) for each in self._columns]
        frame: DataFrame = _import("omnigraph.spark.types").make_frame(
            self._table, columns, session
        )
        return frame

    def __repr__(self) -> str:
        # Printing a result must not compute it.
        is_here = isinstance(self._source, pa.Table) or "_table" in vars(self)
        counted = f"{len(self)} {plural(len(self), 'row')}" if is_here else "rows"
        return (
            f"<Result of {self._query_name}: {counted} of "
            f"{', '.join(self.columns)} at commit {self._commit_id}>"
        )

    def _repr_html_(self) -> str:
        shown = self._table.slice(0, NOTEBOOK_ROWS_MAX)
        table = make_table(self.columns, zip(*self._encode(shown), strict=True))
        hidden = len(self) - len(shown)
        more = make_note(f"and {hidden:,} more {plural(hidden, 'row')}") if hidden else ""
        return table + more + make_note(f"{self._branch} at commit {self._commit_id}")

    def _encode(self, table: pa.Table) -> list[list[object]]:
        columns = zip(table.columns, self._columns, strict=True)
        return [encode_column(column, each.type) for column, each in columns]

    def _write_text(self, format: ResultFormat) -> Iterator[bytes]:
        """The rows as text, in chunks."""
        parts = (pa.table(each) for each in self._table.to_batches(RESULT_ROWS_WRITTEN))
        if format is ResultFormat.JSON:
            between = b"["
            for part in parts:
                yield between + encode_objects(part)
                between = b",\n"
            yield b"]\n" if len(self) else b"[]\n"
            return
        delimiter = Delimiter.COMMA if format is ResultFormat.CSV else Delimiter.TAB
        yield encode_csv_names(self.columns, delimiter)
        for part in parts:
            yield encode_csv(part, delimiter)

    def _require_names(self, call: str) -> None:
        repeated = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if repeated:
            raise InvalidValueError(
                subject=call,
                expected="different names",
                value=repeated,
                problem=f"two columns are named '{repeated[0]}'; add an alias with `as`",
            )


def _import(package: str) -> ModuleType:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise NotFoundError(
            kind="package", name=package, advice="install it, or use `to_arrow`"
        ) from error
