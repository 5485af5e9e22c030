"""What a job breaks: claims first, and joins where these leave a doubt.

Plans which rows have to say something about which keys, from what was staged and what is committed,
and turns the answers into violations in the order of the evaluator in process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from omnigraph.engine.commit.integrity.endpoints import ends_of
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import ANY_CARDINALITY, Catalog, EdgeType, NodeType, Unique
from omnigraph.model.limits import CLAIMED_ROWS_MAX, CLAIMING_ROWS_MAX
from omnigraph.spark.loading.checks import TypeRows
from omnigraph.spark.loading.claims import (
    NO_VERDICT,
    Claim,
    Claimants,
    Role,
    Space,
    SpaceKind,
    Verdict,
    gather_claims,
    judge,
)
from omnigraph.spark.loading.staged import StagedPortion
from omnigraph.spark.loading.stored import StagedFile, files_of
from omnigraph.storage.ports import TableStore
from omnigraph.storage.table_parts import LineFolder, TablePart

Declared = NodeType | EdgeType
S = TypeVar("S", StagedFile, TablePart)


@dataclass(frozen=True, slots=True)
class JobRows:
    """The rows of a job beside those that are committed.

    `types` are those that the job puts rows of, by table key; `parts` the committed rows of those
    that it looks at.
    """

    mode: LoadMode
    catalog: Catalog
    types: Mapping[str, Declared]
    staged: Mapping[str, tuple[StagedFile, ...]]
    with_given_id: frozenset[str]
    parts: Mapping[str, tuple[TablePart, ...]]

    @property
    def related(self) -> frozenset[str]:
        """The types whose committed rows the job is judged by."""
        return frozenset(_list_related(self.types, self.catalog, is_overwrite=self.is_overwrite))

    @property
    def is_overwrite(self) -> bool:
        """Whether the rows of its types go."""
        return self.mode is LoadMode.OVERWRITE

    def is_replaced(self, table_key: str) -> bool:
        """Whether every committed row of a type goes."""
        return self.is_overwrite and table_key in self.types

    def for_checks(self) -> dict[str, TypeRows]:
        """All of them by type, in tasks of a bounded number of rows."""
        return {
            key: TypeRows(
                staged=tuple(_in_tasks(self.staged.get(key, ()), rows_max=CLAIMED_ROWS_MAX)),
                committed=tuple((part,) for part in self.parts.get(key, ())),
                is_replaced=self.is_replaced(key),
            )
            for key in {*self.staged, *self.parts}
        }


def collect_rows(
    portions: Sequence[StagedPortion],
    *,
    named: Iterable[str],
    mode: LoadMode,
    basis: Basis,
    folders: Mapping[str, LineFolder],
    tables: TableStore,
) -> JobRows:
    """The rows of staged portions, and the committed ones that matter to them.

    `named` are types that the job is about even if it has no row of them.
    """
    declared_by_key = {table_key_of(each): each for each in basis.catalog.stored_types()}
    staged: dict[str, list[StagedFile]] = {key: [] for key in named}
    with_given_id: set[str] = set()
    for portion in sorted(portions, key=lambda each: each.key):
        for rows in portion.rows:
            files = staged.setdefault(rows.table_key, [])
            files += files_of(portion, rows, folders[rows.table_key])
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
class Judgement:
    """What the claims of a job say, space by space, and the claims themselves."""

    spaces: tuple[Space, ...]
    verdicts: Mapping[int, Verdict]
    claims: DataFrame

    def of_ids(self, table_key: str) -> tuple[int, Verdict]:
        """The space of a type's ids, and what is said of it."""
        for number, space in enumerate(self.spaces):
            if space.kind is SpaceKind.ID and space.table_key == table_key:
                return number, self.verdicts.get(number, NO_VERDICT)
        return -1, NO_VERDICT

    def doubtful(self, kind: SpaceKind, table_key: str) -> Iterator[Space]:
        """The spaces of a kind in which a rule may be broken."""
        for number, space in enumerate(self.spaces):
            is_asked = (space.kind, space.table_key) == (kind, table_key)
            if is_asked and self.verdicts.get(number, NO_VERDICT).doubtful:
                yield space


def judge_job(spark: SparkSession, job: JobRows, *, cores: int) -> Judgement:
    """Have all rows of a job, and the committed ones, say what they have to say.

    A task for each core: claims of one key that one task has read travel as one.
    """
    plan = _ClaimsPlan(job, cores)
    claims = gather_claims(spark, tuple(plan.claimants()), plan.spaces)
    if job.mode is LoadMode.MERGE:
        # They are asked again, for the addresses of what is replaced.
        claims = claims.persist()
    return Judgement(plan.spaces, judge(claims, plan.spaces), claims)


class _ClaimsPlan:
    """Who claims what."""

    def __init__(self, job: JobRows, cores: int) -> None:
        self._job, self._cores = job, cores
        self.spaces = tuple(_list_spaces(job))
        self._number_by_space = {
            (space.kind, space.table_key, space.columns): number
            for number, space in enumerate(self.spaces)
        }

    def claimants(self) -> Iterator[Claimants]:
        """The rows that are read, in tasks of a bounded number."""
        for key, files in self._job.staged.items():
            claims = tuple(self._staged_claims(key))
            if claims:
                rows_max = self._share(each.row_count for each in files)
                tasks = _in_tasks(files, rows_max=rows_max)
                yield from (Claimants(task, claims) for task in tasks)
        for key, parts in self._job.parts.items():
            claims = tuple(self._committed_claims(key))
            if claims:
                rows_max = self._share(part.row_count for part in parts)
                shared = _in_tasks(parts, rows_max=rows_max)
                yield from (Claimants(task, claims) for task in shared)

    def _share(self, row_counts: Iterable[int]) -> int:
        """How many rows of a type one task reads, a file at a time."""
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
        # Ids make one space whichever column they stand in.
        own = ("id",) if kind is SpaceKind.ID else columns
        number = self._number_by_space.get((kind, key, own))
        if number is not None:
            yield Claim(number, columns, role)

    def _find_edge(self, key: str) -> EdgeType | None:
        edges = self._job.catalog.edges.values()
        return next((edge for edge in edges if table_key_of(edge) == key), None)


def _list_spaces(job: JobRows) -> Iterator[Space]:
    wanted = _list_wanted(job)
    for key in sorted({*job.types, *wanted}):
        declared = job.types.get(key)
        # Ids that were made are new, and nobody can know them before.
        if key in job.with_given_id or key in wanted:
            yield Space(SpaceKind.ID, key, ("id",))
        if declared is None:
            continue
        for group in _unique_groups(declared):
            yield Space(SpaceKind.UNIQUE, key, group)
        if isinstance(declared, EdgeType) and declared.cardinality != ANY_CARDINALITY:
            bounds = declared.cardinality
            space = Space(SpaceKind.SOURCE, key, ("src",), bounds.minimum, bounds.maximum)
            yield replace(space, is_replaced=job.is_replaced(key))


def _list_wanted(job: JobRows) -> frozenset[str]:
    """The node types that edges of the job, or committed ones that it may strand, end at."""
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
    """Files or parts that one task reads: as many as come nearest to a number of rows."""
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
