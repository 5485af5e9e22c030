"""The doctor's examination of one table: rows, endpoints, indexes, and layout.

Rows are checked against the integrity rules that writes must satisfy; blobs are not read. Endpoint
checks hold a bounded part of the node ids in memory. A scalar index is compared with the rows that
it covers. The context opens its own stores, so an examination sees stored state and not the caches
of an open graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.edges import check_cardinality
from omnigraph.engine.commit.integrity.keys import (
    check_unique_groups,
    drop_rows,
    find_duplicate_ids,
)
from omnigraph.engine.commit.integrity.values import check_values
from omnigraph.engine.commit.integrity.violations import Violations
from omnigraph.engine.commit.prepared_write import TableChange
from omnigraph.engine.input.batches import node_ids
from omnigraph.engine.maintenance.doctor_report import Finding, FindingKind
from omnigraph.engine.maintenance.optimize import find_buildable
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.branch_state import BranchStates
from omnigraph.engine.state.manifest import (
    Entry,
    ManifestState,
    Snapshot,
    make_table_key,
    table_branch_of,
)
from omnigraph.model.catalog import (
    ANY_CARDINALITY,
    EdgeType,
    NodeType,
    TypeKind,
    Unique,
    columns_of,
)
from omnigraph.model.errors import (
    GraphError,
    InvalidValueError,
    UnavailableError,
    plural,
    show_text,
)
from omnigraph.model.limits import EXAMINED_BLOCK_BYTES, EXAMINED_IDS_BYTES_MAX
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.locks import WriteLocks
from omnigraph.storage.ports import IndexKind, Stores, TableReader, TableVersion
from omnigraph.storage.predicates import OneOf, Operator, compare
from omnigraph.storage.row_files import bytes_of, group_by_size

FROM_A_COPY = "restore it from a copy of the graph"


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """One graph, as one examination sees it, and its findings in the order of discovery.

    `locks` are only read, never taken.
    """

    uri: str
    stores: Stores
    branch_states: BranchStates
    locks: WriteLocks
    now: datetime
    is_deep: bool
    findings: list[Finding] = field(default_factory=list)

    def add(self, code: FindingKind, subject: str, message: str, *, advice: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(code.severity, code, subject, message, advice))

    def noting(self, code: FindingKind, subject: str, *, advice: str) -> _Noting:
        """A context manager that turns a `GraphError` of its block into a finding."""
        return _Noting(self, code, subject, advice)


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type of a branch whose version can be opened; `columns` are the stored ones."""

    declared: NodeType | EdgeType
    entry: Entry
    subject: str
    columns: frozenset[str]


class _Noting:
    """A block whose errors become findings.

    It is a class because the return type of `__exit__` shows type checkers that errors may be
    suppressed.
    """

    def __init__(self, scope: DoctorContext, code: FindingKind, subject: str, advice: str) -> None:
        self._scope, self._code, self._subject, self._advice = scope, code, subject, advice

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, GraphError):
            return False
        is_silent = isinstance(error, UnavailableError)
        advice = "run the check again when the storage responds" if is_silent else self._advice
        self._scope.add(self._code, self._subject, str(error), advice=advice)
        return True


def say_branch(branch: BranchName) -> str:
    """The name of a branch in the subject of a finding."""
    return "main" if branch == MAIN else f"branch '{branch}'"


_CORRECT_ROWS = "correct or delete those rows with `graph.mutate`"
_DELETE_REPEATED = (
    "delete them with `graph.mutate`, which deletes all rows of an id and its edges, and load the "
    "correct rows again"
)
_UNREADABLE = "restore the table of the type from a copy of the graph"


def examine_rows(scope: DoctorContext, stored: StoredType) -> bool:
    """Check every row of a type and report broken rules; returns whether all could be read."""
    checks, is_read = _RowChecks(stored, scope.stores.tables), False
    with scope.noting(FindingKind.TYPE_DAMAGED, stored.subject, advice=_UNREADABLE):
        checks.run()
        is_read = True
    checks.report(scope, stored.subject)
    return is_read


class _RowChecks:
    """The number of rows of a type that break each rule, and the message of the first."""

    def __init__(self, stored: StoredType, tables: TableReader) -> None:
        self._checked, self._at, self._tables = _without_unstored(stored), stored.entry.at, tables
        # Checked as if one write contained all rows, so there are no other rows to compare.
        self._no_rows = SnapshotRows(Snapshot(MAIN, 0, {}), tables=tables)
        self._first: dict[tuple[FindingKind, str], str] = {}
        self._count: dict[tuple[FindingKind, str], int] = {}

    def run(self) -> None:
        checked = self._checked
        self._check_batches()
        for constraint in checked.constraints:
            if isinstance(constraint, Unique):
                alone = replace(checked, constraints=(constraint,))
                change = self._read_change(alone, constraint.columns)
                self._add_violations(check_unique_groups(change, committed=self._no_rows))
        if isinstance(checked, EdgeType) and checked.cardinality != ANY_CARDINALITY:
            change = self._read_change(checked, ["src"])
            found = check_cardinality(change, node_change=None, committed=self._no_rows)
            self._add_violations([found])

    def report(self, scope: DoctorContext, subject: str) -> None:
        for (code, rule), example in self._first.items():
            count = self._count[code, rule]
            message = example if count == 1 else f"{example}; and {count - 1:,} more"
            advice = _DELETE_REPEATED if code is FindingKind.ID_REPEATED else _CORRECT_ROWS
            scope.add(code, subject, message, advice=advice)

    def _check_batches(self) -> None:
        checked, last = self._checked, None
        for batch in self._tables.scan_by_id(self._at, columns=["id", *sorted(checked.properties)]):
            if batch.num_rows:
                rows = pa.Table.from_batches([batch])
                ids = rows["id"].combine_chunks()
                self._check_ids(ids, last=last)
                last = ids[-1].as_py()
                if isinstance(checked, NodeType) and checked.key:
                    self._check_keys(checked, rows)
                self._add_violations(check_values(_as_change(checked, rows)))

    def _check_ids(self, ids: pa.Array, *, last: str | None) -> None:
        """Count the ids that equal the one before them; `last` precedes the first one."""
        before = pa.concat_arrays([pa.array([last], ids.type), ids[:-1]])
        repeated = ids.filter(pc.equal(ids, before))
        if len(repeated):
            id = show_text(repeated[0].as_py())
            example = f"{self._checked.name} {id} exists more than once"
            self._add(FindingKind.ID_REPEATED, "id", count=len(repeated), example=example)

    def _check_keys(self, checked: NodeType, rows: pa.Table) -> None:
        try:
            derived = node_ids(checked, rows)
        except InvalidValueError as error:
            self._add(FindingKind.RULE_BROKEN, "key", count=1, example=str(error))
            return
        wrong = rows["id"].filter(pc.not_equal(rows["id"], derived))
        if len(wrong):
            id = show_text(wrong[0].as_py())
            example = f"{checked.name} {id} has a key that does not match its id"
            self._add(FindingKind.RULE_BROKEN, "key", count=len(wrong), example=example)

    def _read_change(self, checked: NodeType | EdgeType, columns: Iterable[str]) -> TableChange:
        """All rows with distinct ids, with some columns."""
        read = list(dict.fromkeys(["id", *columns]))
        rows = self._tables.scan(self._at, columns=read, predicate=None)
        return _as_change(checked, drop_rows(rows, find_duplicate_ids(rows)))

    def _add_violations(self, parts: Iterable[Violations]) -> None:
        for part in parts:
            if part.count:
                first = part.found[0]
                rule = f"{first.rule} {first.property}"
                self._add(FindingKind.RULE_BROKEN, rule, count=part.count, example=first.message)

    def _add(self, code: FindingKind, rule: str, *, count: int, example: str) -> None:
        self._first.setdefault((code, rule), example)
        self._count[code, rule] = self._count.get((code, rule), 0) + count


def _as_change(checked: NodeType | EdgeType, rows: pa.Table) -> TableChange:
    return TableChange(type=checked, put=rows, removed=pa.array([], pa.string()), is_overwrite=True)


def _without_unstored(stored: StoredType) -> NodeType | EdgeType:
    """The type with only the properties and rules that stored rows can be checked against."""
    declared = stored.declared
    readable = {
        name: each
        for name, each in declared.properties.items()
        if name in stored.columns and not each.type.is_blob
    }
    known = {"id", *declared.ends, *readable}
    rules = [each for each in declared.constraints if known.issuperset(columns_of(each))]
    return replace(declared, properties=readable, constraints=tuple(rules))


@dataclass(frozen=True, slots=True)
class Ends:
    """One endpoint column of an edge type and the node type that it refers to, with versions."""

    node_key: str
    edge_key: str
    column: str
    nodes: TableVersion
    edges: TableVersion


@dataclass(frozen=True, slots=True)
class _Part:
    """All ids above `low` and up to `high`, in order; None means unbounded."""

    ids: pa.Array
    low: str | None
    high: str | None


def list_ends(stored: Mapping[str, StoredType]) -> Iterator[Ends]:
    """The endpoints of all edge types of a branch for which both types can be read."""
    for key, each in stored.items():
        for column, node in each.declared.ends.items():
            target = stored.get(make_table_key(TypeKind.NODE, node))
            if target is not None:
                node_key = target.entry.table_key
                yield Ends(node_key, key, column, target.entry.at, each.entry.at)


def examine_endpoints(
    scope: DoctorContext, ends: Iterable[Ends], stored: Mapping[str, StoredType]
) -> None:
    """Report every edge type that has edges whose endpoint does not exist."""
    tables = scope.stores.tables
    ordered = sorted(ends, key=lambda each: (each.node_key, each.edge_key, each.column))
    for node_key, group in groupby(ordered, key=lambda each: each.node_key):
        edge_ends, node = list(group), stored[node_key]
        with scope.noting(FindingKind.TYPE_DAMAGED, node.subject, advice=_UNREADABLE):
            missing: dict[Ends, tuple[int, str]] = {}
            for part in _list_parts(tables, node.entry.at):
                for each in edge_ends:
                    for count, example in _find_missing(tables, each, part):
                        known, first = missing.get(each, (0, example))
                        missing[each] = (known + count, first)
            for each, (count, first) in missing.items():
                edge = stored[each.edge_key]
                more = "" if count == 1 else f"; and {count - 1:,} more"
                scope.add(
                    FindingKind.ENDPOINT_MISSING,
                    edge.subject,
                    f"{edge.declared.name} {first} in {node.declared.name}{more}",
                    advice="load the missing nodes, or delete those edges with `graph.mutate`",
                )


def _list_parts(tables: TableReader, at: TableVersion) -> Iterator[_Part]:
    held: list[pa.Array] = []
    low: str | None = None
    for batch in tables.scan_by_id(at, columns=["id"]):
        held.append(batch["id"])
        if sum(each.nbytes for each in held) >= EXAMINED_IDS_BYTES_MAX and batch.num_rows:
            high = str(batch["id"][-1].as_py())
            yield _Part(pa.concat_arrays(held), low, high)
            held, low = [], high
    ids = pa.concat_arrays(held) if held else pa.array([], pa.string())
    yield _Part(ids, low, None)


def _find_missing(tables: TableReader, end: Ends, part: _Part) -> Iterator[tuple[int, str]]:
    """The number of edges without a node, and an example, for each block that has any."""
    for block in _list_blocks(tables, end.edges, ["id", end.column]):
        named = block[end.column]
        absent = pc.invert(pc.is_in(named, value_set=part.ids))
        if part.low is not None:
            absent = pc.and_(absent, pc.greater(named, part.low))
        if part.high is not None:
            absent = pc.and_(absent, pc.less_equal(named, part.high))
        edges = block.filter(absent)
        if edges.num_rows:
            id, node = (str(edges[name][0].as_py()) for name in ("id", end.column))
            example = f"{show_text(id)}: {end.column} {show_text(node)} not found"
            yield edges.num_rows, example


def _list_blocks(tables: TableReader, at: TableVersion, columns: list[str]) -> Iterator[pa.Table]:
    """The rows in blocks large enough to justify building a set of ids for each."""
    batches = tables.scan_by_id(at, columns=columns)
    groups = group_by_size(batches, size_of=bytes_of, size_max=EXAMINED_BLOCK_BYTES)
    return map(pa.Table.from_batches, groups)


def examine_recorded_responses(scope: DoctorContext, stored: StoredType) -> None:
    """Query every scalar index of a type, and report those that return wrong counts."""
    tables, entry = scope.stores.tables, stored.entry
    advice = (
        "restore the table of the type from a copy of the graph, or export the type and load "
        'it again with `mode="overwrite"`, then `graph.ensure_indices()`'
    )
    with scope.noting(FindingKind.INDEX_DAMAGED, stored.subject, advice=advice):
        named = {spec.column for spec in tables.indexes(entry.at) if spec.kind is IndexKind.BTREE}
        for column in sorted(named & stored.columns):
            with scope.noting(FindingKind.INDEX_DAMAGED, stored.subject, advice=advice):
                found, expected = _query_index(tables, entry, column)
                if found != expected:
                    rows = plural(expected, "row")
                    message = f"the index of {column} finds {found:,} of {expected:,} {rows}"
                    scope.add(FindingKind.INDEX_DAMAGED, stored.subject, message, advice=advice)


def _query_index(tables: TableReader, entry: Entry, column: str) -> tuple[int, int]:
    """The number of rows that an index finds, and the number that it should find."""
    if tables.schema(entry.at).field(column).type == pa.string():
        batches = tables.scan_by_id(entry.at, columns=[column])
        valid = sum(batch.num_rows - batch[column].null_count for batch in batches)
        return tables.count(entry.at, predicate=compare(column, Operator.GE, "")), valid
    for batch in tables.scan_by_id(entry.at, columns=[column]):
        value = _choose_values(batch[column]).slice(0, 1)
        if len(value):
            rows = tables.scan(entry.at, columns=[column], predicate=None)[column]
            expected = pc.sum(pc.equal(rows, value[0])).as_py()
            return tables.count(entry.at, predicate=OneOf(column, value)), expected or 0
    return 0, 0


def _choose_values(cells: pa.Array) -> pa.Array:
    """The values whose equality is unambiguous: no NaN, and no zero, which may have a sign."""
    known = cells.drop_null()
    if not pa.types.is_floating(known.type):
        return known
    return known.filter(pc.or_(pc.greater(known, 0), pc.less(known, 0)))


def examine_layout(scope: DoctorContext, stored: StoredType, state: ManifestState) -> None:
    """Check the indexes and files of a type that the branch itself has written."""
    entry, tables = stored.entry, scope.stores.tables
    if entry.branch != table_branch_of(state.branch) or not entry.row_count:
        return
    argument = "" if state.branch == MAIN else f"branch={str(state.branch)!r}"
    optimize = f"`graph.optimize({argument})`"
    rebuild = f"{optimize} may rebuild it"
    with scope.noting(FindingKind.TYPE_DAMAGED, stored.subject, advice=rebuild):
        rows_by_spec = tables.indexes(entry.at)
        layout = tables.plan_layout(entry.at, wanted=find_buildable(stored.declared, entry, tables))
        uncovered = (spec.column for spec in layout.uncovered if spec not in rows_by_spec)
        # A string has two indexes: one for comparisons, one for words.
        missing = dict.fromkeys(uncovered)
        if missing:
            message = f"no index of {', '.join(missing)}; lookups read every row"
            advice = f"`graph.ensure_indices({argument})`"
            scope.add(FindingKind.INDEX_MISSING, stored.subject, message, advice=advice)
        for spec in layout.uncovered:
            if spec in rows_by_spec:
                message = (
                    f"the index of {spec.column} covers {rows_by_spec[spec]:,} of "
                    f"{entry.row_count:,} {plural(entry.row_count, 'row')}; the others are scanned"
                )
                scope.add(FindingKind.INDEX_BEHIND, stored.subject, message, advice=optimize)
        if layout.fragments_removed:
            message = (
                f"{layout.fragments_removed} of its {layout.fragments} "
                f"{plural(layout.fragments, 'file')} are small or hold many deleted rows"
            )
            scope.add(FindingKind.MANY_FILES, stored.subject, message, advice=optimize)
