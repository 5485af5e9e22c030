"""The doctor: examines schema files, write records, leftovers, and the types of each branch.

An examination is read-only: it writes nothing, takes no lock and recovers nothing, so it may run
beside writers. A failure to read something becomes a finding, and the examination continues. A
branch that changes meanwhile is examined again. If any ref cannot be read, nothing is reported as
a leftover.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.engine.commit.audit import list_recoveries
from omnigraph.engine.commit.sidecar import (
    RECOVERY_PREFIX,
    Sidecar,
    changes_schema,
    decode_sidecar,
    list_sidecars,
    sidecar_path,
)
from omnigraph.engine.maintenance.doctor_report import DoctorReport, FindingKind, Severity
from omnigraph.engine.maintenance.doctor_tables import (
    FROM_A_COPY,
    DoctorContext,
    Ends,
    StoredType,
    examine_endpoints,
    examine_layout,
    examine_recorded_responses,
    examine_rows,
    list_ends,
    say_branch,
)
from omnigraph.engine.ops.refs import TAGS_PREFIX, find_tag
from omnigraph.engine.ops.transaction import TRANSACTIONS_PREFIX, life_of
from omnigraph.engine.state.manifest import (
    MANIFEST_PATH,
    Entry,
    ManifestState,
    manifest_ref,
    table_branch_of,
    table_key_of,
    type_name_of,
)
from omnigraph.engine.state.readers import CLEANUPS_PREFIX, READERS_PREFIX, decode_claim
from omnigraph.engine.state.schema_files import (
    ARCHIVE_PREFIX,
    FILES,
    SCHEMA_LOCK,
    SOURCE_FILE,
    STAGED_FILE,
    AcceptedSchema,
    find_archived,
    is_bare,
    is_staged,
    read_accepted_schema,
)
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import CorruptError, GraphError, plural
from omnigraph.model.limits import EXAMINATIONS_MAX
from omnigraph.model.names import MAIN, BranchName, TagName, is_internal_branch, is_private_branch
from omnigraph.model.types import format_datetime
from omnigraph.storage.leases import LEASES_PREFIX, decode_lease
from omnigraph.storage.locks import LockKey
from omnigraph.storage.objects import read_records
from omnigraph.storage.ports import TableRef, TableVersion
from omnigraph.storage.row_files import table_schema

_SUBJECT = "the schema"


def examine_schema(scope: DoctorContext, *, main: ManifestState | None) -> Catalog | None:
    """Check the schema's files, and return the accepted schema, or None if it cannot be read."""
    accepted = None if main is None else main.head.schema_hash
    archived = _find_archived(scope, accepted)
    # While a schema is being applied, the files at the root are incomplete, so the schema that
    # history names takes precedence.
    is_moving = _examine_staged(scope)
    accepted_schema = None if is_moving and archived is not None else _read_files(scope, accepted)
    if accepted_schema is not None and accepted not in (None, accepted_schema.schema_hash):
        scope.add(
            FindingKind.SCHEMA_NOT_ACCEPTED,
            _SUBJECT,
            "its files are consistent, but they are not the accepted schema",
            advice=_bring_back(accepted, is_archived=archived is not None),
        )
    chosen = archived or accepted_schema
    return None if chosen is None else chosen.catalog


def _find_archived(scope: DoctorContext, schema_hash: str | None) -> AcceptedSchema | None:
    if schema_hash is None:
        return None
    subject = f"archived schema {schema_hash}"
    with scope.noting(FindingKind.SCHEMA_DAMAGED, subject, advice=FROM_A_COPY):
        archived = find_archived(schema_hash, objects=scope.stores.objects)
        if archived is None:
            scope.add(
                FindingKind.SCHEMA_LOST,
                subject,
                f"it is not in {ARCHIVE_PREFIX}, so commits that were written under it are read "
                "with the current schema",
                advice=FROM_A_COPY,
            )
        return archived
    return None


def _read_files(scope: DoctorContext, accepted: str | None) -> AcceptedSchema | None:
    objects = scope.stores.objects
    try:
        if is_bare(objects):
            scope.add(
                FindingKind.SCHEMA_INCOMPLETE,
                _SUBJECT,
                f"only {SOURCE_FILE} exists, without the two files that are generated from it",
                advice="`graph.refresh()`, or open the graph for writing",
            )
            return None
        return read_accepted_schema(objects, uri=scope.uri)
    except GraphError as error:
        is_archived = accepted is not None and f"{accepted.removeprefix('sha256:')}.pg" in (
            objects.list(ARCHIVE_PREFIX).token_by_name
        )
        advice = _bring_back(accepted, is_archived=is_archived)
        scope.add(FindingKind.SCHEMA_DAMAGED, _SUBJECT, str(error), advice=advice)
        return None


def _bring_back(accepted: str | None, *, is_archived: bool) -> str:
    if not is_archived or accepted is None:
        return f"restore {', '.join(FILES)} from a copy of the graph"
    archived = f"{ARCHIVE_PREFIX}/{accepted.removeprefix('sha256:')}.pg"
    return (
        f"copy {archived} over {SOURCE_FILE}, delete {' and '.join(FILES[1:])}, "
        "then open the graph for writing"
    )


def _examine_staged(scope: DoctorContext) -> bool:
    """Whether a staged schema is waiting to be moved to the root; reports it."""
    if not is_staged(scope.stores.objects.list("")):
        return False
    holder = scope.locks.find_holder([SCHEMA_LOCK])
    if holder is None:
        if not is_staged(scope.stores.objects.list("")):
            # It was moved between the listing of the root and the check of the lock.
            return False
        scope.add(
            FindingKind.SCHEMA_LEFT,
            _SUBJECT,
            f"{STAGED_FILE} exists: a schema change was interrupted",
            advice="`graph.refresh()` completes or discards it",
        )
    else:
        scope.add(
            FindingKind.SCHEMA_UNDER_WAY,
            _SUBJECT,
            f"{holder} is applying another schema",
            advice="wait for it",
        )
    return True


_RECOVER = "`graph.refresh()` or the next write completes it or rolls it back"
_UPGRADE = (
    "upgrade this OmniGraph if a newer one wrote it; otherwise move the file out of the graph and "
    "run the check again"
)


def is_explained(entry: Entry, scope: DoctorContext) -> bool:
    """Whether a sidecar explains why a table is ahead of the version that its branch names."""
    return any(
        (pin.table_path, pin.table_branch) == (entry.path, entry.branch)
        for sidecar in _read_sidecars(replace(scope, findings=[]))
        for pin in sidecar.pins
    )


def examine_records(scope: DoctorContext) -> None:
    """Check unfinished writes and transactions, leases, claims, and the audit table."""
    for sidecar in _read_sidecars(scope):
        _report_write(scope, sidecar)
    _examine_transactions(scope)
    _examine_leases(scope)
    _examine_claims(scope)
    with scope.noting(FindingKind.AUDIT_DAMAGED, "the list of recoveries", advice=FROM_A_COPY):
        list_recoveries(scope.stores.tables)


def _read_sidecars(scope: DoctorContext) -> Iterator[Sidecar]:
    for path, content in read_records(scope.stores.objects, RECOVERY_PREFIX):
        with scope.noting(FindingKind.RECORD_DAMAGED, path, advice=_UPGRADE):
            yield decode_sidecar(content, path=path)


def _report_write(scope: DoctorContext, sidecar: Sidecar) -> None:
    branch = table_branch_of(sidecar.branch)
    keys = [LockKey(pin.table_key, branch) for pin in sidecar.pins]
    if changes_schema(sidecar):
        keys.append(SCHEMA_LOCK)
    holder = _find_holder(scope, keys)
    types = sorted({type_name_of(pin.table_key) for pin in sidecar.pins})
    description = (
        f"a {sidecar.writer_kind} by {sidecar.actor or 'an unnamed actor'} "
        f"since {format_datetime(sidecar.started_at)}, of {', '.join(types) or 'no type'} "
        f"on {sidecar.branch}"
    )
    subject = f"write {sidecar.operation_id}"
    if holder is None:
        if scope.stores.objects.find(sidecar_path(sidecar.operation_id)) is None:
            # The write finished between the read of its sidecar and the check of its locks.
            return
        message = f"{description}, was interrupted"
        scope.add(FindingKind.WRITE_LEFT, subject, message, advice=_RECOVER)
    else:
        message = f"{description}, is in progress in {holder}"
        scope.add(FindingKind.WRITE_UNDER_WAY, subject, message, advice="wait for it")


def _examine_transactions(scope: DoctorContext) -> None:
    for file in sorted(scope.stores.objects.list(TRANSACTIONS_PREFIX).token_by_name):
        name = file.removesuffix(".json")
        if not is_private_branch(name):
            continue
        subject, holder = f"transaction {name}", _find_holder(scope, [life_of(name)])
        if holder is None:
            if scope.stores.objects.find(f"{TRANSACTIONS_PREFIX}/{file}") is None:
                continue
            scope.add(
                FindingKind.TRANSACTION_LEFT,
                subject,
                "it was abandoned, and its private branch remains",
                advice="`graph.refresh()` removes it; its changes were never visible",
            )
        else:
            message = f"it is open in {holder}"
            scope.add(FindingKind.TRANSACTION_UNDER_WAY, subject, message, advice="wait for it")


def _examine_leases(scope: DoctorContext) -> None:
    for path, content in read_records(scope.stores.objects, LEASES_PREFIX):
        advice = f"delete {path} while no process writes, unless a newer OmniGraph wrote it"
        with scope.noting(FindingKind.LEASE_DAMAGED, path, advice=advice):
            lease = decode_lease(content, path=path)
            if lease.is_held and not lease.is_good(scope.now):
                message = (
                    f"process {lease.owner.process_id} on {lease.owner.host} has not released "
                    f"{'main' if lease.branch is None else lease.branch}, and its lease has expired"
                )
                advice = "no action required: the next writer takes it over"
                scope.add(FindingKind.LEASE_LEFT, path, message, advice=advice)


def _examine_claims(scope: DoctorContext) -> None:
    for prefix, who in ((READERS_PREFIX, "reader"), (CLEANUPS_PREFIX, "cleanup")):
        for path, content in read_records(scope.stores.objects, prefix):
            advice = f"delete {path} while no process reads, unless a newer OmniGraph wrote it"
            with scope.noting(FindingKind.CLAIM_DAMAGED, path, advice=advice):
                if decode_claim(content, path=path).is_over(scope.now):
                    message = f"the {who} that wrote it has ended"
                    advice = "no action required: the next cleanup that deletes anything removes it"
                    scope.add(FindingKind.CLAIM_LEFT, path, message, advice=advice)


def _find_holder(scope: DoctorContext, keys: list[LockKey]) -> str | None:
    # A lease that cannot be read is reported separately.
    with suppress(GraphError):
        return scope.locks.find_holder(keys)
    return None


_CLEAN = "`graph.cleanup(keep=10)` removes it"


def examine_leftovers(
    scope: DoctorContext,
    *,
    states: Mapping[BranchName, ManifestState],
    moved: Set[str],
    is_complete: bool,
) -> None:
    """Check tags, and report objects that nothing refers to.

    Tags on `moved` branches are readable again after a relocation. `is_complete` says whether all
    of history was read; otherwise only tags are checked.
    """
    _examine_tags(scope, moved)
    try:
        sidecars = list_sidecars(scope.stores.objects)
    except GraphError:
        # The damaged sidecar is reported separately, and what it refers to is unknown.
        return
    if not is_complete or any(each.schema is not None for each in sidecars):
        return
    pending = {TableRef(pin.table_path, pin.table_branch) for s in sidecars for pin in s.pins}
    _find_table_branches(scope, states, pending)
    _find_folders(scope, states)


def _examine_tags(scope: DoctorContext, moved: Set[str]) -> None:
    for file in sorted(scope.stores.objects.list(TAGS_PREFIX).token_by_name):
        name = TagName(file.removesuffix(".json").replace("~", "/"))
        advice = f"`graph.delete_tag({str(name)!r})`, unless a copy of the graph has its commit"
        with scope.noting(FindingKind.TAG_DAMAGED, f"tag '{name}'", advice=advice):
            try:
                tag = find_tag(name, scope.stores.objects)
            except CorruptError as error:
                scope.add(
                    FindingKind.TAG_DAMAGED,
                    f"tag '{name}'",
                    str(error),
                    advice=f"delete {TAGS_PREFIX}/{file} and tag the commit again",
                )
                continue
            if tag is not None and tag.branch not in moved:
                scope.branch_states.state_of(
                    tag.commit_id, branch=tag.branch, version=tag.manifest_version
                )


def _find_table_branches(
    scope: DoctorContext, states: Mapping[BranchName, ManifestState], pending: set[TableRef]
) -> None:
    named = {entry.at.ref for state in states.values() for entry in state.latest.values()}
    named_by_path = {
        path: key for state in states.values() for key, path in state.path_by_table.items()
    }
    for path, key in sorted(named_by_path.items()):
        # A table that cannot be opened was already reported.
        with suppress(GraphError):
            existing = {TableRef(path, each) for each in scope.stores.tables.branches(path)}
            for each in sorted(existing - named - pending, key=lambda each: each.branch or ""):
                scope.add(
                    FindingKind.BRANCH_REMAINS,
                    f"{key.partition(':')[2]} of branch '{each.branch}'",
                    "no branch refers to these rows: their branch was deleted, or a write on it "
                    "was interrupted before it began",
                    advice=_CLEAN,
                )


def _find_folders(scope: DoctorContext, states: Mapping[BranchName, ManifestState]) -> None:
    named = {path for state in states.values() for path in state.path_by_table.values()}
    for top in (f"{TypeKind.NODE}s", f"{TypeKind.EDGE}s"):
        for name in sorted(scope.stores.objects.list(top).prefixes):
            if f"{top}/{name}" not in named:
                scope.add(
                    FindingKind.TYPE_REMAINS,
                    f"{top}/{name}",
                    "history does not name a type at this location",
                    advice="move the folder out of the graph if no process is changing the schema",
                )


@dataclass(frozen=True, slots=True)
class ExaminedTables:
    """What was already examined: table versions with their row counts, and edge endpoints."""

    types: frozenset[tuple[TableVersion, int]]
    ends: frozenset[Ends]


NOTHING_SEEN = ExaminedTables(frozenset(), frozenset())


def examine_types(
    scope: DoctorContext, state: ManifestState, *, catalog: Catalog | None, seen: ExaminedTables
) -> ExaminedTables:
    """Examine every type that a branch names, and return everything examined so far."""
    declared = {} if catalog is None else {table_key_of(e): e for e in catalog.stored_types()}
    if catalog is not None:
        _compare_names(scope, state, frozenset(declared))
    stored: dict[str, StoredType] = {}
    for entry in state.snapshot:
        opened = _examine_type(scope, state, entry, declared=declared.get(entry.table_key))
        if opened is not None:
            stored[entry.table_key] = opened
    for each in stored.values():
        if (each.entry.at, each.entry.row_count) not in seen.types:
            examine_layout(scope, each, state)
            if scope.is_deep and each.entry.row_count and examine_rows(scope, each):
                examine_recorded_responses(scope, each)
    ends = frozenset(list_ends(stored)) if scope.is_deep else frozenset()
    examine_endpoints(scope, ends - seen.ends, stored)
    types = {(entry.at, entry.row_count) for entry in state.snapshot}
    return ExaminedTables(seen.types | types, seen.ends | ends)


def _compare_names(scope: DoctorContext, state: ManifestState, declared: frozenset[str]) -> None:
    branch = say_branch(state.branch)
    named = frozenset(state.snapshot.entries)
    advice = "restore `__manifest` and the schema's files from one copy of the graph"
    if state.branch == MAIN:
        # Another branch has no rows of types that were added after it was created.
        message = "the schema declares it, but history does not name its table"
        for key in sorted(declared - named):
            subject = f"{type_name_of(key)} on {branch}"
            scope.add(FindingKind.TYPE_NOT_IN_HISTORY, subject, message, advice=advice)
    message = "history names its table, but the schema does not declare it"
    for key in sorted(named - declared):
        subject = f"{type_name_of(key)} on {branch}"
        scope.add(FindingKind.TYPE_NOT_IN_SCHEMA, subject, message, advice=advice)


def _examine_type(
    scope: DoctorContext,
    state: ManifestState,
    entry: Entry,
    *,
    declared: NodeType | EdgeType | None,
) -> StoredType | None:
    """Examine the table of a type; returns None if it cannot be examined further."""
    subject = f"{type_name_of(entry.table_key)} on {say_branch(state.branch)}"
    advice = f"restore {entry.path} from a copy of the graph"
    with scope.noting(FindingKind.TYPE_DAMAGED, subject, advice=advice):
        newest = scope.stores.tables.find_head(entry.at.ref)
        if newest is None or newest < entry.version:
            end = "the table is missing" if newest is None else f"it ends at {newest}"
            message = f"history names its version {entry.version}, but {end}"
            scope.add(FindingKind.TYPE_BEHIND, subject, message, advice=advice)
            return None
        if newest > entry.version:
            _examine_advance(scope, state, entry, newest=newest)
        schema = scope.stores.tables.schema(entry.at)
        count = scope.stores.tables.count(entry.at, predicate=None)
        if count != entry.row_count:
            scope.add(
                FindingKind.ROW_COUNT_WRONG,
                subject,
                f"history records {entry.row_count} {plural(entry.row_count, 'row')}, "
                f"but there are {count}",
                advice=f"restore `__manifest` and {entry.path} from one copy of the graph, or "
                "export the rows and load them into a new graph",
            )
        if declared is None or not _compare_columns(scope, schema, declared, subject):
            return None
        return StoredType(declared, entry, subject, frozenset(schema.names))
    return None


def _examine_advance(
    scope: DoctorContext, state: ManifestState, entry: Entry, *, newest: int
) -> None:
    own = table_branch_of(state.branch)
    # The table branch of another branch may be ahead of the version that this branch names.
    if entry.branch == own and not is_explained(entry, scope):
        if scope.branch_states.state(state.branch).version_of(entry.table_key) != entry.version:
            # The write was published, and its sidecar deleted, in between.
            return
        advice = (
            "`graph.repair()` shows the change; `confirm=True` adopts it if it only changed the "
            "layout, and `force=True` together with it adopts any change"
        )
        if own is not None:
            advice = "export the branch, delete it, and load the rows into a new one"
        scope.add(
            FindingKind.DRIFT,
            f"{type_name_of(entry.table_key)} on {say_branch(state.branch)}",
            f"it was changed outside OmniGraph: its newest version is {newest}, and history names "
            f"{entry.version}; reads use the version in history, and writes are rejected",
            advice=advice,
        )


def _compare_columns(
    scope: DoctorContext, schema: pa.Schema, declared: NodeType | EdgeType, subject: str
) -> bool:
    """Whether the table has the columns of its type; nullable columns may be missing."""
    problems = []
    for field in table_schema(declared):
        if field.name not in schema.names:
            problems += [] if field.nullable else [f"{field.name} is missing"]
            continue
        stored = schema.field(field.name).type
        # The store chooses how a blob is stored.
        if stored != field.type and field.type != pa.large_binary():
            problems.append(f"{field.name} is {stored}, not {field.type}")
    if problems:
        scope.add(
            FindingKind.COLUMNS_WRONG,
            subject,
            f"its columns are not those of the schema: {'; '.join(problems)}",
            advice="restore the schema's files and the type from one copy of the graph",
        )
    return not problems


def examine(scope: DoctorContext) -> DoctorReport:
    """Examine a graph and report its problems, errors first."""
    names: tuple[BranchName, ...] = (MAIN,)
    with scope.noting(FindingKind.HISTORY_DAMAGED, "the list of branches", advice=FROM_A_COPY):
        names = (MAIN, *scope.branch_states.others())
    moved = frozenset(name for name in names if _has_moved(scope, name))
    placed = [name for name in names if name not in moved]
    states = {name: state for name in placed if (state := _read_state(scope, name))}
    catalog = examine_schema(scope, main=states.get(MAIN))
    hashes: set[str] = set()
    for name, state in states.items():
        with scope.noting(FindingKind.HISTORY_DAMAGED, say_branch(name), advice=FROM_A_COPY):
            commits = scope.branch_states.commits_at(state, since=0)
            hashes |= {each.schema_hash for each in commits if each.schema_hash is not None}
    head = states[MAIN].head.schema_hash if MAIN in states else None
    for each in sorted(hashes - {head}):
        # Reads of a commit use its archived schema.
        _find_archived(scope, each)
    seen = NOTHING_SEEN
    for name, state in states.items():
        if not is_internal_branch(name):
            seen = _examine_branch(
                scope, state, catalog=catalog, seen=seen, attempts_left=EXAMINATIONS_MAX
            )
    examine_records(scope)
    is_complete = len(states) == len(names) and all(
        each.code is not FindingKind.TYPE_NOT_IN_HISTORY for each in scope.findings
    )
    examine_leftovers(scope, states=states, moved=moved, is_complete=is_complete)
    # Without duplicates, by severity and then in the order of discovery.
    order = list(Severity)
    findings = sorted(dict.fromkeys(scope.findings), key=lambda each: order.index(each.severity))
    return DoctorReport(scope.uri, scope.is_deep, tuple(findings))


def _has_moved(scope: DoctorContext, name: BranchName) -> bool:
    """Whether a branch refers to files of the place from which its graph was moved or copied."""
    # A branch that cannot be opened is reported when its state is read.
    with suppress(GraphError):
        newest = None if name == MAIN else scope.stores.tables.find_head(manifest_ref(name))
        if newest is None:
            return False
        at = TableVersion(manifest_ref(name), newest)
        places = sorted(scope.stores.tables.find_outside(at))
        if places:
            scope.add(
                FindingKind.BRANCH_MOVED,
                say_branch(name),
                f"its files are expected below {places[0].removesuffix(f'/{MANIFEST_PATH}')}, "
                "where it was created: the graph was moved or copied since",
                advice=f"`omnigraph.relocate({scope.uri!r})` makes it refer to this graph's files",
            )
        return bool(places)
    return False


def _read_state(scope: DoctorContext, name: BranchName) -> ManifestState | None:
    with scope.noting(FindingKind.HISTORY_DAMAGED, say_branch(name), advice=FROM_A_COPY):
        if scope.branch_states.has_branch(name):
            return scope.branch_states.state(name)
    return None


def _examine_branch(
    scope: DoctorContext,
    state: ManifestState,
    *,
    catalog: Catalog | None,
    seen: ExaminedTables,
    attempts_left: int,
) -> ExaminedTables:
    """Examine the types of a branch, and again if the branch moved while a problem was found."""
    part, again = replace(scope, findings=[]), replace(scope, findings=[])
    after = examine_types(part, state, catalog=catalog, seen=seen)
    if any(each.severity is not Severity.NOTE for each in part.findings):
        now = _read_state(again, state.branch)
        if now is None and not again.findings:
            # The branch was deleted meanwhile, and its tables with it.
            return seen
        if now is not None and now.at != state.at and attempts_left > 1:
            return _examine_branch(
                scope, now, catalog=catalog, seen=seen, attempts_left=attempts_left - 1
            )
    scope.findings.extend(part.findings)
    return after
