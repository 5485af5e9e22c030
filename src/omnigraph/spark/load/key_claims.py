"""Key claims: one shuffle that finds duplicate keys, missing endpoints and cardinality doubts.

Each row claims its id, its unique values and its endpoints, and all claims of one key meet in one
group. Claims are pre-aggregated per task. The result is conservative: a key without doubt violates
no rule, and `validate` decides the others exactly. Keys are equal exactly if their values are equal
to the rules: -0.0 equals 0.0, NaN equals NaN, and a null gives no key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from omnigraph.engine.commit.integrity.edges import ends_of
from omnigraph.engine.commit.integrity.violations import normal_floats
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import ANY_CARDINALITY, Cardinality, EdgeType, NodeType, Unique
from omnigraph.model.limits import CLAIMED_ROWS_MAX, CLAIMING_ROWS_MAX
from omnigraph.spark.jobs import map_tasks
from omnigraph.spark.load.staged import JobRows
from omnigraph.spark.load.staging import Declared, StagedFile, StoredRows, read_stored
from omnigraph.storage.ports import TablePart

S = TypeVar("S", StagedFile, TablePart)


def encode_keys(rows: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    """One text per row for the combined values of some columns; null if any of them is null."""
    texts = [_as_text(rows.column(name)) for name in columns]
    if len(texts) == 1:
        return texts[0]
    # With the length prefix, the texts of different tuples are distinct.
    lengths = [pc.cast(pc.binary_length(text), pa.string()) for text in texts]
    pieces = [piece for pair in zip(lengths, texts, strict=True) for piece in (*pair, ":")]
    return pc.binary_join_element_wise(*pieces, ":")


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_floating(kind):
        return pc.cast(normal_floats(column), pa.string())
    if pa.types.is_date32(kind):
        return pc.cast(pc.cast(column, pa.int32()), pa.string())
    if pa.types.is_timestamp(kind):
        return pc.cast(pc.cast(column, pa.int64()), pa.string())
    return pc.cast(column, pa.string())


class SpaceKind(StrEnum):
    """The kind of the keys of a space."""

    ID = "ids of a type"
    UNIQUE = "values of a group that occur once"
    SOURCE = "sources of the edges of a type"


@dataclass(frozen=True, slots=True)
class KeySpace:
    """Keys that are compared with each other.

    `bounds` apply to the number of edges of a source. With `is_replaced`, all committed rows are
    deleted.
    """

    kind: SpaceKind
    table_key: str
    columns: tuple[str, ...]
    bounds: Cardinality
    is_replaced: bool


class Role(StrEnum):
    """The role of a key in a row."""

    PUT = "put"
    HELD = "held"
    REFERENCED = "referenced"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim by each of some rows on the key that some columns form in a space."""

    space: int
    columns: tuple[str, ...]
    role: Role


@dataclass(frozen=True, slots=True)
class ClaimSource:
    """Rows to be read by one task, and their claims."""

    rows: StoredRows
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class KeyOutcome:
    """How many keys of a space are put twice, put and held, referenced but absent, or in doubt.

    `first_met` is the smallest key that is both put and held.
    """

    repeated: int
    met: int
    absent: int
    doubtful: int
    first_met: str | None


NO_OUTCOME = KeyOutcome(0, 0, 0, 0, None)


@dataclass(frozen=True, slots=True)
class KeyCheckResult:
    """The outcome of the key claims of a job for each key space, and the claims themselves."""

    spaces: tuple[KeySpace, ...]
    outcomes: Mapping[int, KeyOutcome]
    claims: DataFrame

    def of_ids(self, table_key: str) -> tuple[int, KeyOutcome]:
        """The key space of a type's ids, and its outcome."""
        for number, space in enumerate(self.spaces):
            if space.kind is SpaceKind.ID and space.table_key == table_key:
                return number, self.outcomes.get(number, NO_OUTCOME)
        return -1, NO_OUTCOME

    def doubtful(self, kind: SpaceKind, table_key: str) -> Iterator[KeySpace]:
        """The key spaces of a kind in which a rule may be violated."""
        for number, space in enumerate(self.spaces):
            is_match = (space.kind, space.table_key) == (kind, table_key)
            if is_match and self.outcomes.get(number, NO_OUTCOME).doubtful:
                yield space


def check_keys(spark: SparkSession, job: JobRows, *, cores: int) -> KeyCheckResult:
    """Collect and check the key claims of all staged and committed rows of a job.

    There is one task per core, because a task combines its claims of the same key into one.
    """
    plan = _ClaimsPlan(job, cores)
    emit, sources = partial(_emit, plan.spaces), tuple(plan.sources())
    emitted = map_tasks(spark, emit, sources, from_arrow_schema(_CLAIMS))
    # One row per space and key.
    claims = emitted.groupBy("space", "key").agg(
        *(f.sum(role.value).alias(role.value) for role in Role),
        f.min("low").alias("low"),
        f.max("high").alias("high"),
        f.max("address").alias("address"),
    )
    if job.mode is LoadMode.MERGE:
        # The claims are read again for the addresses of replaced rows.
        claims = claims.persist()
    return KeyCheckResult(plan.spaces, _check_claims(claims, plan.spaces), claims)


_CLAIMS = pa.schema(
    {
        "space": pa.int32(),
        "key": pa.string(),
        "put": pa.int64(),
        "held": pa.int64(),
        "referenced": pa.int64(),
        "low": pa.string(),
        "high": pa.string(),
        "address": pa.int64(),
    }
)


def _check_claims(claims: DataFrame, spaces: Sequence[KeySpace]) -> Mapping[int, KeyOutcome]:
    """The outcome of the claims of each space."""
    is_id = f.col("space").isin(_numbers(spaces, SpaceKind.ID))
    is_met = is_id & (f.col("put") > 0) & (f.col("held") > 0)
    is_absent = is_id & (f.col("referenced") > 0) & (f.col("put") == 0) & (f.col("held") == 0)
    summary = claims.groupBy("space").agg(
        f.count_if(is_id & (f.col("put") > 1)).alias("repeated"),
        f.count_if(is_met).alias("met"),
        f.count_if(is_absent).alias("absent"),
        f.count_if(_is_doubtful(spaces)).alias("doubtful"),
        f.min(f.when(is_met, f.col("key"))).alias("first_met"),
    )
    return {
        row["space"]: KeyOutcome(
            row["repeated"], row["met"], row["absent"], row["doubtful"], row["first_met"]
        )
        for row in summary.collect()
    }


def select_met(claims: DataFrame, space: int) -> DataFrame:
    """The addresses of the committed rows of an id space that the job replaces."""
    is_met = (f.col("space") == space) & (f.col("put") > 0) & (f.col("held") > 0)
    return claims.where(is_met).select("address")


def _is_doubtful(spaces: Sequence[KeySpace]) -> Column:
    put, held = f.col("put"), f.col("held")
    is_shared = (put > 1) | ((put > 0) & (held > 0) & (f.col("low") != f.col("high")))
    doubt = f.col("space").isin(_numbers(spaces, SpaceKind.UNIQUE)) & is_shared
    for number, space in enumerate(spaces):
        if space.kind is SpaceKind.SOURCE:
            doubt |= (f.col("space") == number) & _is_miscounted(space)
    return doubt


def _is_miscounted(space: KeySpace) -> Column:
    put, held = f.col("put"), f.col("held")
    count = put if space.is_replaced else put + held
    bounds = space.bounds
    is_wrong = f.lit(bounds.minimum > 0) & (count < bounds.minimum)
    if bounds.maximum is not None:
        is_wrong |= (put > 0) & (count > bounds.maximum)
    # Sources that only committed edges have matter only if those edges are deleted.
    return is_wrong if space.is_replaced else is_wrong & (put > 0)


def _numbers(spaces: Sequence[KeySpace], kind: SpaceKind) -> list[int]:
    return [number for number, space in enumerate(spaces) if space.kind is kind]


# On executors


def _emit(spaces: Sequence[KeySpace], claimants: ClaimSource) -> Iterator[pa.RecordBatch]:
    columns = sorted({name for claim in claimants.claims for name in claim.columns})
    needs_id = any(spaces[claim.space].kind is SpaceKind.UNIQUE for claim in claimants.claims)
    if needs_id and "id" not in columns:
        columns.append("id")
    needs_address = any(
        claim.role is Role.HELD and spaces[claim.space].kind is SpaceKind.ID
        for claim in claimants.claims
    )
    gathered = {claim.space: _Gathered(spaces[claim.space].kind) for claim in claimants.claims}
    for stored in claimants.rows:
        rows = read_stored((stored,), columns=columns, with_place=needs_address)
        for claim in claimants.claims:
            yield from gathered[claim.space].add(_claim(rows, claim, spaces[claim.space].kind))
    for each in gathered.values():
        yield from each.flush()


class _Gathered:
    """The claims of one space that a task has read but not sent, combined by key."""

    def __init__(self, kind: SpaceKind) -> None:
        self._aggregates = [(role.value, "sum") for role in Role]
        if kind is SpaceKind.UNIQUE:
            self._aggregates += [("low", "min"), ("high", "max")]
        if kind is SpaceKind.ID:
            self._aggregates += [("address", "max")]
        self._waiting: list[pa.Table] = []

    def add(self, claims: pa.Table) -> Iterator[pa.RecordBatch]:
        """Add claims; yields the batches that are worth sending now."""
        self._waiting.append(claims)
        if sum(each.num_rows for each in self._waiting) > CLAIMED_ROWS_MAX:
            self._waiting = [self._add_up()]
            # If keys rarely repeat, buffering them saves nothing.
            if self._waiting[0].num_rows > CLAIMED_ROWS_MAX // 2:
                yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield all remaining claims."""
        if self._waiting:
            yield from self._add_up().to_batches()
        self._waiting = []

    def _add_up(self) -> pa.Table:
        if len(self._waiting) == 1:
            return self._waiting[0]
        every = pa.concat_tables(self._waiting)
        grouped = every.group_by("key", use_threads=False).aggregate(self._aggregates)
        found = {name: grouped[f"{name}_{how}"] for name, how in self._aggregates}
        found |= {"key": grouped["key"], "space": every["space"].slice(0, grouped.num_rows)}
        return _complete(found, grouped.num_rows)


def _claim(rows: pa.Table, claim: Claim, kind: SpaceKind) -> pa.Table:
    keys = encode_keys(rows, claim.columns)
    table = pa.table({"key": keys})
    aggregates: list[tuple[str, str] | tuple[list[str], str]] = [([], "count_all")]
    if kind is SpaceKind.UNIQUE:
        table = table.append_column("id", rows["id"])
        table = table.filter(pc.is_valid(table["key"]))
        aggregates += [("id", "min"), ("id", "max")]
    elif "_rowaddr" in rows.column_names and kind is SpaceKind.ID:
        table = table.append_column("address", pc.cast(rows["_rowaddr"], pa.int64()))
        aggregates += [("address", "max")]
    grouped = table.group_by("key", use_threads=False).aggregate(aggregates)
    found = {
        "space": pa.repeat(pa.scalar(claim.space, pa.int32()), grouped.num_rows),
        "key": grouped["key"],
        claim.role.value: grouped["count_all"],
    }
    for name, aggregate in (("low", "id_min"), ("high", "id_max"), ("address", "address_max")):
        if aggregate in grouped.column_names:
            found[name] = grouped[aggregate]
    return _complete(found, grouped.num_rows)


def _complete(found: Mapping[str, pa.ChunkedArray], count: int) -> pa.Table:
    """Claims with all columns: missing counts are 0, other missing values are null."""
    columns = []
    for field in _CLAIMS:
        if field.name in found:
            columns.append(found[field.name])
        elif field.name in tuple(Role):
            columns.append(pa.repeat(pa.scalar(0, pa.int64()), count))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.table(columns, schema=_CLAIMS)


class _ClaimsPlan:
    """The plan of which rows claim which keys."""

    def __init__(self, job: JobRows, cores: int) -> None:
        self._job, self._cores = job, cores
        self.spaces = tuple(_list_spaces(job))
        self._number_by_space = {
            (space.kind, space.table_key, space.columns): number
            for number, space in enumerate(self.spaces)
        }

    def sources(self) -> Iterator[ClaimSource]:
        """The rows to read and their claims, in tasks with a bounded number of rows."""
        for key, files in self._job.staged.items():
            yield from self._in_tasks(files, tuple(self._staged_claims(key)))
        for key, parts in self._job.parts.items():
            yield from self._in_tasks(parts, tuple(self._committed_claims(key)))

    def _in_tasks(self, stored: Sequence[S], claims: tuple[Claim, ...]) -> Iterator[ClaimSource]:
        if claims:
            # A task reads whole files.
            share = -(-sum(each.row_count for each in stored) // self._cores)
            rows_max = min(max(share, CLAIMED_ROWS_MAX // 4), CLAIMING_ROWS_MAX)
            yield from (ClaimSource(task, claims) for task in group_rows(stored, rows_max=rows_max))

    def _staged_claims(self, key: str) -> Iterator[Claim]:
        declared = self._job.types[key]
        yield from self._claim(SpaceKind.ID, key, ("id",), Role.PUT)
        yield from self._unique_claims(key, declared, Role.PUT)
        if isinstance(declared, EdgeType):
            for end in ends_of(declared):
                yield from self._claim(SpaceKind.ID, end.table_key, (end.column,), Role.REFERENCED)
            yield from self._claim(SpaceKind.SOURCE, key, ("src",), Role.PUT)

    def _committed_claims(self, key: str) -> Iterator[Claim]:
        declared = self._job.types.get(key)
        if not self._job.is_replaced(key):
            yield from self._claim(SpaceKind.ID, key, ("id",), Role.HELD)
            if declared is not None:
                yield from self._unique_claims(key, declared, Role.HELD)
            edges = (each for each in self._job.catalog.edges.values() if table_key_of(each) == key)
            for end in (end for edge in edges for end in ends_of(edge)):
                if self._job.is_replaced(end.table_key):
                    yield from self._claim(
                        SpaceKind.ID, end.table_key, (end.column,), Role.REFERENCED
                    )
        yield from self._claim(SpaceKind.SOURCE, key, ("src",), Role.HELD)

    def _unique_claims(self, key: str, declared: Declared, role: Role) -> Iterator[Claim]:
        for group in _unique_groups(declared):
            yield from self._claim(SpaceKind.UNIQUE, key, group, role)

    def _claim(
        self, kind: SpaceKind, key: str, columns: tuple[str, ...], role: Role
    ) -> Iterator[Claim]:
        # Ids share one key space, whichever column holds them.
        group = ("id",) if kind is SpaceKind.ID else columns
        number = self._number_by_space.get((kind, key, group))
        if number is not None:
            yield Claim(number, columns, role)


def _list_spaces(job: JobRows) -> Iterator[KeySpace]:
    referenced = _list_referenced(job)
    for key in sorted({*job.types, *referenced}):
        declared = job.types.get(key)
        space = partial(KeySpace, table_key=key, is_replaced=job.is_replaced(key))
        # Generated ids are new, so no other row can refer to them.
        if key in job.with_given_id or key in referenced:
            yield space(SpaceKind.ID, columns=("id",), bounds=ANY_CARDINALITY)
        if declared is None:
            continue
        for group in _unique_groups(declared):
            yield space(SpaceKind.UNIQUE, columns=group, bounds=ANY_CARDINALITY)
        if isinstance(declared, EdgeType) and declared.cardinality != ANY_CARDINALITY:
            yield space(SpaceKind.SOURCE, columns=("src",), bounds=declared.cardinality)


def _list_referenced(job: JobRows) -> frozenset[str]:
    """The node types at the ends of the job's edges, or of committed edges that may be stranded."""
    edges = [each for each in job.types.values() if isinstance(each, EdgeType)]
    referenced = {end.table_key for edge in edges for end in ends_of(edge)}
    if job.is_overwrite:
        for edge in job.catalog.edges.values():
            if table_key_of(edge) not in job.types and table_key_of(edge) in job.parts:
                ends = {end.table_key for end in ends_of(edge)}
                referenced |= ends & job.types.keys()
    return frozenset(referenced)


def _unique_groups(declared: Declared) -> Iterator[tuple[str, ...]]:
    for constraint in declared.constraints:
        if isinstance(constraint, Unique):
            yield constraint.columns


def group_rows(stored: Sequence[S], *, rows_max: int) -> Iterator[tuple[S, ...]]:
    """Files or parts grouped into tasks with about the given number of rows."""
    task: list[S] = []
    count = 0
    for each in stored:
        rows = each.row_count
        if task and count + rows / 2 > rows_max:
            yield tuple(task)
            task, count = [], 0
        task.append(each)
        count += rows
    if task:
        yield tuple(task)


def key_columns(declared: Declared) -> list[str]:
    """The columns of a type that cross-row rules use."""
    ends = ("src", "dst") if isinstance(declared, EdgeType) else ()
    key = declared.key if isinstance(declared, NodeType) else ()
    unique = (name for group in _unique_groups(declared) for name in group)
    return list(dict.fromkeys(["id", *ends, *key, *unique]))
