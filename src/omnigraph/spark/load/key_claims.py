"""Key claims: one shuffle that finds duplicate keys, missing endpoints and cardinality doubts.

Each row claims its id, its unique values and its endpoints, and all claims of one key meet in one
group. Claims are pre-aggregated per task. The result is conservative: a key without doubt violates
no rule, and `checks` decides the others exactly. Keys are equal exactly if their values are equal
to the rules: -0.0 equals 0.0, NaN equals NaN, and a null gives no key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from omnigraph.engine.commit.integrity.violations import normal_floats
from omnigraph.model.limits import CLAIMED_ROWS_MAX
from omnigraph.spark.errors import carried_errors
from omnigraph.spark.load.staged import StoredRows, read_stored


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

    `minimum` and `maximum` bound the number of edges of a source. With `is_replaced`, committed
    rows are deleted whatever they contain.
    """

    kind: SpaceKind
    table_key: str
    columns: tuple[str, ...]
    minimum: int = 0
    maximum: int | None = None
    is_replaced: bool = False


class Role(StrEnum):
    """The role of a key in a row."""

    PUT = "put"
    HELD = "held"
    WANTED = "wanted"


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
    """Counts of keys of a space that are put twice, put and held, wanted but absent, or in doubt.

    `first_met` is the smallest key that is both put and held.
    """

    repeated: int
    met: int
    absent: int
    doubtful: int
    first_met: str | None


NO_VERDICT = KeyOutcome(0, 0, 0, 0, None)

_CLAIMS = pa.schema(
    [
        pa.field("space", pa.int32()),
        pa.field("key", pa.string()),
        pa.field("put", pa.int64()),
        pa.field("held", pa.int64()),
        pa.field("wanted", pa.int64()),
        pa.field("low", pa.string()),
        pa.field("high", pa.string()),
        pa.field("address", pa.int64()),
    ]
)
_CLAIMS_DDL = (
    "space int, key string, put long, held long, wanted long, low string, high string, address long"
)


def gather_claims(
    spark: SparkSession, claimants: Sequence[ClaimSource], spaces: Sequence[KeySpace]
) -> DataFrame:
    """All claims, one row per space and key."""
    count = max(len(claimants), 1)
    emitted = spark.range(0, count, 1, count).mapInArrow(
        partial(_emit_all, tuple(claimants), tuple(spaces)), _CLAIMS_DDL
    )
    return emitted.groupBy("space", "key").agg(
        f.sum("put").alias("put"),
        f.sum("held").alias("held"),
        f.sum("wanted").alias("wanted"),
        f.min("low").alias("low"),
        f.max("high").alias("high"),
        f.max("address").alias("address"),
    )


def check_claims(claims: DataFrame, spaces: Sequence[KeySpace]) -> Mapping[int, KeyOutcome]:
    """The outcome of the claims of each space."""
    is_id = f.col("space").isin(_numbers(spaces, SpaceKind.ID))
    is_met = is_id & (f.col("put") > 0) & (f.col("held") > 0)
    is_absent = is_id & (f.col("wanted") > 0) & (f.col("put") == 0) & (f.col("held") == 0)
    summary = claims.groupBy("space").agg(
        _count_where(is_id & (f.col("put") > 1)).alias("repeated"),
        _count_where(is_met).alias("met"),
        _count_where(is_absent).alias("absent"),
        _count_where(_is_doubtful(spaces)).alias("doubtful"),
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
    is_wrong = f.lit(space.minimum > 0) & (count < space.minimum)
    if space.maximum is not None:
        is_wrong |= (put > 0) & (count > space.maximum)
    # Sources that only committed edges have matter only if those edges are deleted.
    return is_wrong if space.is_replaced else is_wrong & (put > 0)


def _count_where(condition: Column) -> Column:
    return f.count_if(condition)


def _numbers(spaces: Sequence[KeySpace], kind: SpaceKind) -> list[int]:
    return [number for number, space in enumerate(spaces) if space.kind is kind]


# On executors


def _emit_all(
    claimants: Sequence[ClaimSource], spaces: Sequence[KeySpace], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with carried_errors():
        for batch in batches:
            for number in batch.column("id").to_pylist():
                if number < len(claimants):
                    yield from _emit(claimants[number], spaces)


def _emit(claimants: ClaimSource, spaces: Sequence[KeySpace]) -> Iterator[pa.RecordBatch]:
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
        rows = read_stored((stored,), columns=columns, with_address=needs_address)
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
