"""Rules across rows for staged rows: key checks for all, exact joins where a key is in doubt.

Outcomes equal those of the checks in process, in the same order. Rows stay on executors; only keys
and positions of violations are collected. Writes of the data source use the same rules over keys in
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from omnigraph.engine.commit.integrity.check import find_violations_except_values
from omnigraph.engine.commit.integrity.edges import ends_of
from omnigraph.engine.commit.integrity.violations import Violations
from omnigraph.engine.commit.prepared_write import CommittedRows, TableChange
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import ANY_CARDINALITY, Catalog, EdgeType, NodeType, Unique
from omnigraph.model.errors import IntegrityError
from omnigraph.model.limits import CLAIMED_ROWS_MAX, CLAIMING_ROWS_MAX
from omnigraph.spark.errors import carried_errors
from omnigraph.spark.load.key_claims import (
    NO_VERDICT,
    Claim,
    ClaimSource,
    KeyOutcome,
    KeySpace,
    Role,
    SpaceKind,
    check_claims,
    encode_keys,
    gather_claims,
)
from omnigraph.spark.load.rejections import gather_values
from omnigraph.spark.load.staged import (
    StagedFile,
    StagedSplit,
    StoredRows,
    files_of,
    read_positions,
    read_stored,
)
from omnigraph.storage.ports import NewFile, TableBranchFolder, TablePart, TableReader
from omnigraph.storage.row_files import table_schema
from omnigraph.storage.tables import scan_file

_POSITION = "position long"


@dataclass(frozen=True, slots=True)
class TypeRows:
    """All rows of a type that a job can encounter: staged and committed rows, grouped into tasks.

    With `is_replaced`, all committed rows are deleted.
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
        """The positions of rows with a repeated id in the job, except the first or the last."""
        order = f.col("position").desc() if is_last_kept else f.col("position").asc()
        numbered = self._staged(table_key, {}).withColumn(
            "number", f.row_number().over(Window.partitionBy("id").orderBy(order))
        )
        return numbered.where("number > 1").select("position")

    def existing(self, table_key: str) -> DataFrame:
        """The positions of rows whose id is already committed."""
        held = self._held(table_key, {}, is_kept=True).select("id")
        return self._staged(table_key, {}).join(held, "id", "left_semi").select("position")

    def shared(self, table_key: str, group: Sequence[str]) -> DataFrame:
        """The positions of rows whose values another row has, with the id of the first such row."""
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
        """The positions and endpoints of edges of the job whose endpoint will not exist."""
        edges = self._staged(edge_key, {"node": (column,)}).select("position", "node")
        present = self._present(node_key).select(f.col("id").alias("node"))
        return edges.join(present, "node", "left_anti").select("position", "node")

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


Declared = NodeType | EdgeType
S = TypeVar("S", StagedFile, TablePart)


@dataclass(frozen=True, slots=True)
class JobRows:
    """The rows of a job and the committed rows that they are checked against.

    `types` are the types that the job writes rows of, by table key. `parts` are the committed rows
    of the types that the checks read.
    """

    mode: LoadMode
    catalog: Catalog
    types: Mapping[str, Declared]
    staged: Mapping[str, tuple[StagedFile, ...]]
    with_given_id: frozenset[str]
    parts: Mapping[str, tuple[TablePart, ...]]

    @property
    def related(self) -> frozenset[str]:
        """The types whose committed rows affect the checks of the job."""
        return frozenset(_list_related(self.types, self.catalog, is_overwrite=self.is_overwrite))

    @property
    def is_overwrite(self) -> bool:
        """Whether the job replaces all rows of its types."""
        return self.mode is LoadMode.OVERWRITE

    def is_replaced(self, table_key: str) -> bool:
        """Whether every committed row of a type is deleted."""
        return self.is_overwrite and table_key in self.types

    def for_checks(self) -> dict[str, TypeRows]:
        """All rows by type, in tasks with a bounded number of rows."""
        return {
            key: TypeRows(
                staged=tuple(_in_tasks(self.staged.get(key, ()), rows_max=CLAIMED_ROWS_MAX)),
                committed=tuple((part,) for part in self.parts.get(key, ())),
                is_replaced=self.is_replaced(key),
            )
            for key in {*self.staged, *self.parts}
        }


def collect_rows(
    portions: Sequence[StagedSplit],
    *,
    named: Iterable[str],
    mode: LoadMode,
    basis: Basis,
    folders: Mapping[str, TableBranchFolder],
    tables: TableReader,
) -> JobRows:
    """The rows of staged partitions, and the committed rows that their checks need.

    `named` are types that the job writes even if it has no row of them.
    """
    declared_by_key = {table_key_of(each): each for each in basis.catalog.stored_types()}
    staged: dict[str, list[StagedFile]] = {key: [] for key in named}
    with_given_id: set[str] = set()
    for portion in sorted(portions, key=lambda each: each.key):
        for rows in portion.rows:
            files = staged.setdefault(rows.table_key, [])
            files += files_of(portion.key, rows, folders[rows.table_key])
            if rows.has_given_id:
                with_given_id.add(rows.table_key)
    types = {key: declared_by_key[key] for key in sorted(staged)}
    parts = {
        key: tables.parts(basis.snapshot.get(key).at, rows_max=CLAIMED_ROWS_MAX)
        for key in _list_related(types, basis.catalog, is_overwrite=mode is LoadMode.OVERWRITE)
        if basis.snapshot.get(key).row_count
    }
    return JobRows(
        mode=mode,
        catalog=basis.catalog,
        types=types,
        staged={key: tuple(files) for key, files in staged.items()},
        with_given_id=frozenset(with_given_id),
        parts=parts,
    )


def _list_related(
    types: Mapping[str, Declared], catalog: Catalog, *, is_overwrite: bool
) -> Iterator[str]:
    related = set(types)
    for declared in types.values():
        if isinstance(declared, EdgeType):
            related |= {end.table_key for end in ends_of(declared)}
    if is_overwrite:
        for edge in catalog.edges.values():
            if any(end.table_key in types for end in ends_of(edge)):
                related.add(table_key_of(edge))
    yield from sorted(related)


@dataclass(frozen=True, slots=True)
class KeyCheckResult:
    """The outcome of the key claims of a job for each key space, and the claims themselves."""

    spaces: tuple[KeySpace, ...]
    verdicts: Mapping[int, KeyOutcome]
    claims: DataFrame

    def of_ids(self, table_key: str) -> tuple[int, KeyOutcome]:
        """The key space of a type's ids, and its outcome."""
        for number, space in enumerate(self.spaces):
            if space.kind is SpaceKind.ID and space.table_key == table_key:
                return number, self.verdicts.get(number, NO_VERDICT)
        return -1, NO_VERDICT

    def doubtful(self, kind: SpaceKind, table_key: str) -> Iterator[KeySpace]:
        """The key spaces of a kind in which a rule may be violated."""
        for number, space in enumerate(self.spaces):
            is_asked = (space.kind, space.table_key) == (kind, table_key)
            if is_asked and self.verdicts.get(number, NO_VERDICT).doubtful:
                yield space


def check_keys(spark: SparkSession, job: JobRows, *, cores: int) -> KeyCheckResult:
    """Collect and check the key claims of all staged and committed rows of a job.

    There is one task per core, because a task combines its claims of the same key into one.
    """
    plan = _ClaimsPlan(job, cores)
    claims = gather_claims(spark, tuple(plan.claimants()), plan.spaces)
    if job.mode is LoadMode.MERGE:
        # The claims are read again for the addresses of replaced rows.
        claims = claims.persist()
    return KeyCheckResult(plan.spaces, check_claims(claims, plan.spaces), claims)


class _ClaimsPlan:
    """The plan of which rows claim which keys."""

    def __init__(self, job: JobRows, cores: int) -> None:
        self._job, self._cores = job, cores
        self.spaces = tuple(_list_spaces(job))
        self._number_by_space = {
            (space.kind, space.table_key, space.columns): number
            for number, space in enumerate(self.spaces)
        }

    def claimants(self) -> Iterator[ClaimSource]:
        """The rows to read and their claims, in tasks with a bounded number of rows."""
        for key, files in self._job.staged.items():
            claims = tuple(self._staged_claims(key))
            if claims:
                rows_max = self._share(each.row_count for each in files)
                tasks = _in_tasks(files, rows_max=rows_max)
                yield from (ClaimSource(task, claims) for task in tasks)
        for key, parts in self._job.parts.items():
            claims = tuple(self._committed_claims(key))
            if claims:
                rows_max = self._share(part.row_count for part in parts)
                shared = _in_tasks(parts, rows_max=rows_max)
                yield from (ClaimSource(task, claims) for task in shared)

    def _share(self, row_counts: Iterable[int]) -> int:
        """How many rows of a type one task reads, in whole files."""
        share = -(-sum(row_counts) // self._cores)
        return min(max(share, CLAIMED_ROWS_MAX // 4), CLAIMING_ROWS_MAX)

    def _staged_claims(self, key: str) -> Iterator[Claim]:
        declared = self._job.types[key]
        yield from self._claim(SpaceKind.ID, key, ("id",), Role.PUT)
        yield from self._unique_claims(key, declared, Role.PUT)
        if isinstance(declared, EdgeType):
            for end in ends_of(declared):
                yield from self._claim(SpaceKind.ID, end.table_key, (end.column,), Role.WANTED)
            yield from self._claim(SpaceKind.SOURCE, key, ("src",), Role.PUT)

    def _committed_claims(self, key: str) -> Iterator[Claim]:
        declared = self._job.types.get(key)
        if not self._job.is_replaced(key):
            yield from self._claim(SpaceKind.ID, key, ("id",), Role.HELD)
            if declared is not None:
                yield from self._unique_claims(key, declared, Role.HELD)
            edge = self._find_edge(key)
            for end in ends_of(edge) if edge is not None else ():
                if self._job.is_replaced(end.table_key):
                    yield from self._claim(SpaceKind.ID, end.table_key, (end.column,), Role.WANTED)
        yield from self._claim(SpaceKind.SOURCE, key, ("src",), Role.HELD)

    def _unique_claims(self, key: str, declared: Declared, role: Role) -> Iterator[Claim]:
        for group in _unique_groups(declared):
            yield from self._claim(SpaceKind.UNIQUE, key, group, role)

    def _claim(
        self, kind: SpaceKind, key: str, columns: tuple[str, ...], role: Role
    ) -> Iterator[Claim]:
        # Ids share one key space, whichever column holds them.
        own = ("id",) if kind is SpaceKind.ID else columns
        number = self._number_by_space.get((kind, key, own))
        if number is not None:
            yield Claim(number, columns, role)

    def _find_edge(self, key: str) -> EdgeType | None:
        edges = self._job.catalog.edges.values()
        return next((edge for edge in edges if table_key_of(edge) == key), None)


def _list_spaces(job: JobRows) -> Iterator[KeySpace]:
    wanted = _list_wanted(job)
    for key in sorted({*job.types, *wanted}):
        declared = job.types.get(key)
        # Generated ids are new, so no other row can refer to them.
        if key in job.with_given_id or key in wanted:
            yield KeySpace(SpaceKind.ID, key, ("id",))
        if declared is None:
            continue
        for group in _unique_groups(declared):
            yield KeySpace(SpaceKind.UNIQUE, key, group)
        if isinstance(declared, EdgeType) and declared.cardinality != ANY_CARDINALITY:
            bounds = declared.cardinality
            space = KeySpace(SpaceKind.SOURCE, key, ("src",), bounds.minimum, bounds.maximum)
            yield replace(space, is_replaced=job.is_replaced(key))


def _list_wanted(job: JobRows) -> frozenset[str]:
    """The node types at the ends of the job's edges, or of committed edges that may be stranded."""
    edges = [each for each in job.types.values() if isinstance(each, EdgeType)]
    wanted = {end.table_key for edge in edges for end in ends_of(edge)}
    if job.is_overwrite:
        for edge in job.catalog.edges.values():
            if table_key_of(edge) not in job.types and table_key_of(edge) in job.parts:
                ends = {end.table_key for end in ends_of(edge)}
                wanted |= ends & job.types.keys()
    return frozenset(wanted)


def _unique_groups(declared: Declared) -> Iterator[tuple[str, ...]]:
    for constraint in declared.constraints:
        if isinstance(constraint, Unique):
            yield constraint.columns


def _in_tasks(stored: Sequence[S], *, rows_max: int) -> Iterator[tuple[S, ...]]:
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


def read_keys(
    declared: NodeType | EdgeType, files: Iterable[NewFile], folder: TableBranchFolder
) -> pa.Table:
    """The columns of staged rows that cross-row rules use, in the order of the files."""
    columns = key_columns(declared)
    schema = pa.schema([table_schema(declared).field(name) for name in columns])
    batches = [batch for file in files for batch in scan_file(folder, file, columns=columns)]
    return pa.table(pa.Table.from_batches(batches, schema=schema).columns, schema=schema)


def require_rules(
    change: TableChange,
    portions: Sequence[StagedSplit],
    *,
    catalog: Catalog,
    committed: CommittedRows,
) -> None:
    """Raise `IntegrityError` unless every rule holds once the rows are committed.

    The rows that `change` puts have the columns of `read_keys`. Violations of value rules were
    found when the rows were staged.
    """
    values = [Violations(each.violations, each.count) for each in gather_values(portions)]
    violations = find_violations_except_values(
        lambda _: iter(values),
        changes={table_key_of(change.type): change},
        catalog=catalog,
        committed=committed,
    )
    if violations.count:
        raise IntegrityError(violations=violations.found, count=violations.count)


def key_columns(declared: NodeType | EdgeType) -> list[str]:
    """The columns of a type that cross-row rules use."""
    ends = ("src", "dst") if isinstance(declared, EdgeType) else ()
    key = declared.key if isinstance(declared, NodeType) else ()
    unique = [
        name for each in declared.constraints if isinstance(each, Unique) for name in each.columns
    ]
    return list(dict.fromkeys(["id", *ends, *key, *unique]))
