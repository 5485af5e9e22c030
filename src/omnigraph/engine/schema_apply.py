"""Schema changes: plans a migration and applies it to the tables, as one commit.

Everything that can be rejected is checked before the first change. The schema lock and the locks
of all types of `main` exclude other schema changes, new branches and writers. Added, renamed and
removed properties change only metadata; only data that is dropped permanently causes a rewrite.
Recovery finishes or undoes an interrupted change.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from omnigraph.compiler import migration
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.migration import MigrationPlan as PlannedMigration
from omnigraph.compiler.migration_steps import (
    AddType,
    DropMode,
    DropProperty,
    DropType,
    RenameProperty,
    RenameType,
    Step,
    UnsupportedChange,
    describe_step,
    encode_step,
)
from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.engine.commit.idempotency import request_lock
from omnigraph.engine.commit.prepared_write import (
    PreparedWrite,
    SchemaChange,
    SchemaDelta,
    StagingMode,
    TableChange,
)
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.sidecar import list_sidecars
from omnigraph.engine.maintenance.cleanup import purge
from omnigraph.engine.ops.create import create_table, place_of
from omnigraph.engine.ops.recorded_responses import SCHEMA_APPLY_CODEC, record_result
from omnigraph.engine.ops.retry import find_recorded_in
from omnigraph.engine.results import MigrationPlan, SchemaApplyResult
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.history import CommitNotes
from omnigraph.engine.state.manifest import (
    Entry,
    ManifestState,
    Register,
    Snapshot,
    Tombstone,
    make_table_key,
    table_key_of,
    table_keys_of,
    type_name_of,
)
from omnigraph.engine.state.readers import Readers
from omnigraph.engine.state.renames import record_names
from omnigraph.engine.state.schema_files import SCHEMA_LOCK
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import (
    LimitExceededError,
    ReadSetChangedError,
    StillNeededError,
    UnsupportedChangeError,
)
from omnigraph.model.limits import PREPARE_ATTEMPTS_MAX, REUSED_TABLE_VERSIONS_MAX
from omnigraph.model.names import MAIN, BranchName, is_internal_branch
from omnigraph.model.ports import Phase
from omnigraph.model.source import Source
from omnigraph.storage.locks import HeldLocks, LockKey
from omnigraph.storage.ports import (
    NewFile,
    Stores,
    TableReader,
    TableRef,
    TableStore,
    TableVersion,
    Workers,
)
from omnigraph.storage.row_files import table_schema
from omnigraph.storage.tables import copy_rows


@dataclass(frozen=True, slots=True)
class TableMove:
    """An existing table that becomes the table of a type, with the type's name and columns.

    It is rewritten if dropped values must not remain. `version_bumps` is the number of additional
    versions that it has to advance, because an earlier type of its new name used those numbers.
    """

    declared: NodeType | EdgeType
    entry: Entry
    renames: Mapping[str, str]
    has_other_columns: bool
    is_final: bool
    version_bumps: int

    @property
    def published_key(self) -> str:
        """The key of the table after the change."""
        return table_key_of(self.declared)

    @property
    def is_version(self) -> bool:
        """Whether the change needs a new table version, or only a new row in the manifest."""
        return self.has_other_columns or self.version_bumps > 0


@dataclass(frozen=True, slots=True)
class TypeDrop:
    """A type that is dropped, and whether its rows are also deleted from the storage."""

    declared: NodeType | EdgeType
    entry: Entry
    is_final: bool


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The changes to the tables of a graph."""

    added: tuple[NodeType | EdgeType, ...]
    changed: tuple[TableMove, ...]
    dropped: tuple[TypeDrop, ...]
    registered: tuple[Register, ...]
    adopted: tuple[Entry, ...]
    tombstones: tuple[Tombstone, ...]


def plan_tables(
    plan: PlannedMigration, *, accepted: Catalog, desired: Catalog, state: ManifestState
) -> TablePlan:
    """The changes that a supported plan makes to the tables in the manifest."""
    moved = list(_find_moved(plan, accepted, desired, state))
    renamed = [each for each in moved if each.published_key != each.entry.table_key]
    dropped = tuple(_find_dropped(plan, accepted, state.snapshot))
    return TablePlan(
        added=tuple(
            _declared(desired, step.type_kind, step.name)
            for step in plan.steps
            if isinstance(step, AddType) and step.type_kind is not TypeKind.INTERFACE
        ),
        changed=tuple(each for each in moved if each.is_version),
        dropped=dropped,
        registered=tuple(Register(each.published_key, each.entry.path) for each in renamed),
        adopted=tuple(
            replace(each.entry, table_key=each.published_key)
            for each in renamed
            if not each.is_version
        ),
        tombstones=(
            *(Tombstone(each.entry.table_key, each.entry.version + 1) for each in renamed),
            # One above the last version; emptying the table of a permanent drop adds another.
            *(
                Tombstone(each.entry.table_key, each.entry.version + 1 + each.is_final)
                for each in dropped
            ),
        ),
    )


def is_additive(step: Step) -> bool:
    """Whether rows that were written before a step, on any branch, are valid after it."""
    return not isinstance(step, RenameType | RenameProperty | DropType | DropProperty)


def _find_dropped(
    plan: PlannedMigration, accepted: Catalog, snapshot: Snapshot
) -> Iterator[TypeDrop]:
    for step in plan.steps:
        match step:
            case DropType(kind, name, mode) if kind is not TypeKind.INTERFACE:
                entry = snapshot.get(make_table_key(kind, name))
                yield TypeDrop(_declared(accepted, kind, name), entry, mode is DropMode.HARD)


def _find_moved(
    plan: PlannedMigration, accepted: Catalog, desired: Catalog, state: ManifestState
) -> Iterator[TableMove]:
    """The retained types for which a step changes the name or the properties."""
    old_names = {
        (step.type_kind, step.new): step.old for step in plan.steps if isinstance(step, RenameType)
    }
    for declared in desired.stored_types():
        old_name = old_names.get((declared.kind, declared.name), declared.name)
        entry = state.snapshot.entries.get(make_table_key(declared.kind, old_name))
        if entry is None or old_name not in _names(accepted, declared.kind):
            continue
        own = [
            step
            for step in plan.steps
            if isinstance(step, RenameProperty | DropProperty)
            and (step.type_kind, step.type_name) == (declared.kind, declared.name)
        ]
        renames = {step.old: step.new for step in own if isinstance(step, RenameProperty)}
        before = _declared(accepted, declared.kind, old_name)
        has_other_columns = bool(renames) or (
            set(table_schema(before).names) != set(table_schema(declared).names)
        )
        key = table_key_of(declared)
        hidden = 0 if key == entry.table_key else state.tombstones.get(key, 0)
        yield TableMove(
            declared=declared,
            entry=entry,
            renames=renames,
            has_other_columns=has_other_columns,
            is_final=any(isinstance(s, DropProperty) and s.mode is DropMode.HARD for s in own),
            version_bumps=max(0, hidden + 1 - (entry.version + has_other_columns)),
        )


def _names(catalog: Catalog, kind: TypeKind) -> Mapping[str, NodeType | EdgeType]:
    return catalog.nodes if kind is TypeKind.NODE else catalog.edges


def _declared(catalog: Catalog, kind: TypeKind, name: str) -> NodeType | EdgeType:
    return _names(catalog, kind)[name]


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a type, and the stored column for each; None for new columns."""

    schema: pa.Schema
    stored: tuple[str | None, ...]

    @property
    def sought(self) -> Sequence[str]:
        """The stored columns that have to be read."""
        return [name for name in self.stored if name is not None]


def _find_columns(move: TableMove, tables: TableReader) -> _Columns:
    schema = table_schema(move.declared)
    old_name = {new: old for old, new in move.renames.items()}
    stored = frozenset(tables.schema(move.entry.at).names)
    wanted = [old_name.get(name, name) for name in schema.names]
    return _Columns(schema, tuple(name if name in stored else None for name in wanted))


def _rewrite_by(
    workers: Workers, entry: Entry, columns: _Columns, tables: TableReader
) -> tuple[NewFile, ...]:
    parts = tables.parts(entry.at, rows_max=workers.share(entry.row_count))
    # The workers import these functions by name.
    work = partial(
        copy_rows,
        into=tables.folder(entry.at.ref),
        columns=columns.sought,
        convert=partial(_arrange, columns),
    )
    written = workers.run(work, parts, stage="rewrite")
    return tuple(file for files in written for file in files)


def _arrange(columns: _Columns, rows: pa.Table) -> pa.Table:
    arranged = [
        pa.nulls(rows.num_rows, field.type) if name is None else rows[name]
        for name, field in zip(columns.stored, columns.schema, strict=True)
    ]
    return pa.table(arranged, schema=columns.schema)


def plan_schema(
    source: Source, *, accepted: Catalog, allow_data_loss: bool, path: WritePath
) -> MigrationPlan:
    """The steps from the accepted schema to another, and whether all of them can be applied now."""
    plan = migration.plan_migration(
        accepted, compile_schema(source), source=source, allow_data_loss=allow_data_loss
    )
    blocked = _find_blocked(plan, path.branch_states.others())
    blockers = () if blocked is None else (str(blocked),)
    return MigrationPlan(plan.supported and blocked is None, _encode_steps(plan), blockers)


def apply_schema(
    source: Source,
    *,
    allow_data_loss: bool,
    find_workers: Callable[[int], Workers | None],
    authorship: Authorship,
    readers: Readers,
    path: WritePath,
) -> SchemaApplyResult:
    """Replace the schema of the graph and change its tables accordingly, or change nothing.

    `UnsupportedChangeError` contains every step that cannot be applied; `StillNeededError` means
    that branches have to be deleted first. Data that is dropped permanently is also removed from
    earlier commits. `find_workers` takes the number of bytes to rewrite and returns the workers
    that do it; if it returns None, this process does.
    """
    desired = compile_schema(source)
    path.recover()
    known = path.branch_states.capture(MAIN)
    for _ in range(PREPARE_ATTEMPTS_MAX):
        with path.locks.hold(_lock_keys(desired, known, authorship)) as held:
            # Under the locks no other writer of `main` is active. The sidecar of one that died
            # names types as they are now, so it has to be recovered before they change.
            if not any(each.branch == MAIN for each in list_sidecars(path.stores.objects)):
                known_hash = known.accepted_schema.schema_hash
                call = _Call(source, desired, known_hash, find_workers, authorship, readers)
                return _apply_under(held, call, allow_data_loss=allow_data_loss, path=path)
        path.recover()
    raise ReadSetChangedError(
        member="the schema", expected="no interrupted write", actual="an interrupted write"
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """The schema to apply, its author, and the hash of the accepted schema when the call began."""

    source: Source
    desired: Catalog
    known_hash: str
    find_workers: Callable[[int], Workers | None]
    authorship: Authorship
    readers: Readers


def _lock_keys(desired: Catalog, known: Basis, authorship: Authorship) -> list[LockKey]:
    types = {*table_keys_of(desired), *known.snapshot.entries}
    keys = [SCHEMA_LOCK, *(LockKey(each, None) for each in types)]
    if authorship.request is not None:
        keys.append(request_lock(authorship.request.key, MAIN))
    return keys


def _apply_under(
    held: HeldLocks, call: _Call, *, allow_data_loss: bool, path: WritePath
) -> SchemaApplyResult:
    with path.observer.phase(Phase.CAPTURE):
        basis = path.branch_states.capture(MAIN)
        recorded = find_recorded_in(
            basis.state, codec=SCHEMA_APPLY_CODEC, authorship=call.authorship, path=path
        )
    if recorded is not None:
        return recorded
    path.require_head(call.authorship.expected_head, basis.state)
    plan = migration.plan_migration(
        basis.catalog, call.desired, source=call.source, allow_data_loss=allow_data_loss
    )
    steps = _encode_steps(plan)
    if not plan.steps:
        return SchemaApplyResult(applied=False, steps=steps, commit_id=None)
    if basis.accepted_schema.schema_hash != call.known_hash:
        # Types that another process added meanwhile are not in the text and would be dropped again.
        raise ReadSetChangedError(
            member="the schema",
            expected=call.known_hash[:14],
            actual=basis.accepted_schema.schema_hash[:14],
        )
    _require_applicable(plan, path)
    with path.observer.phase(Phase.PREPARE):
        write = _prepare(plan, call, basis=basis, path=path)
    result = SchemaApplyResult(applied=True, steps=steps, commit_id=None)
    request = call.authorship.request
    if request is not None:
        write = record_result(write, result, codec=SCHEMA_APPLY_CODEC, request=request)
    commit = path.commit(write, basis=basis, authorship=call.authorship, held=held)
    emptied = [key for key, change in write.changes.items() if change.is_overwrite]
    if emptied:
        # A crash here leaves the dropped data to the next cleanup.
        purge({basis.snapshot.get(key).path for key in emptied}, readers=call.readers, path=path)
    return replace(result, commit_id=commit.id)


def _require_applicable(plan: migration.MigrationPlan, path: WritePath) -> None:
    refused = [step for step in plan.steps if isinstance(step, UnsupportedChange)]
    if refused:
        raise UnsupportedChangeError(
            steps=[encode_step(step) for step in refused],
            reasons=[_explain(step) for step in refused],
        )
    blocked = _find_blocked(plan, path.branch_states.others())
    if blocked is not None:
        raise blocked


def _find_blocked(
    plan: migration.MigrationPlan, branches: Collection[BranchName]
) -> StillNeededError | None:
    """The error if other branches prevent a plan from being applied."""
    taken = [step for step in plan.steps if not isinstance(step, UnsupportedChange)]
    step = next((step for step in taken if not is_additive(step)), None)
    if step is None or not branches:
        return None
    advice = "merge or delete the other branches first"
    if all(map(is_internal_branch, branches)):
        advice = "wait for the transaction to end"
    names = (
        "a transaction" if is_internal_branch(each) else f"branch '{each}'" for each in branches
    )
    return StillNeededError(
        kind="the accepted schema of",
        name=MAIN,
        needed_by=" and ".join(dict.fromkeys(names)),
        advice=f"'{describe_step(step)}' needs a graph with only main; {advice}; "
        "nothing was changed",
    )


def _explain(step: UnsupportedChange) -> str:
    text = f"{step.entity}: {step.reason}"
    return f"[{step.code}] {text}" if step.code else text


def _encode_steps(plan: migration.MigrationPlan) -> tuple[dict[str, object], ...]:
    return tuple(dict(encode_step(step)) for step in plan.steps)


def _prepare(
    plan: migration.MigrationPlan, call: _Call, *, basis: Basis, path: WritePath
) -> PreparedWrite:
    state, stores = basis.state, path.stores
    tables = plan_tables(plan, accepted=basis.catalog, desired=call.desired, state=state)
    _require_near(tables, state)
    made = _open_tables(tables.added, state, stores)
    changes = dict(sorted(_list_changes(tables, call, stores.tables)))
    return PreparedWrite(
        changes=changes,
        placement={key: _place(change) for key, change in changes.items()},
        # No other process writes meanwhile, so the decisions made here cover all rows.
        read_set=frozenset(basis.snapshot.entries),
        is_strict=True,
        notes=CommitNotes(names=record_names(plan.steps)),
        schema=SchemaChange(
            source=call.source.text,
            schema_hash=hash_schema(call.desired),
            delta=SchemaDelta(
                replaced_hash=basis.accepted_schema.schema_hash,
                registered=(
                    *tables.registered,
                    *(Register(each.table_key, each.path) for each in made),
                ),
                adopted=(*tables.adopted, *made),
                dropped=tables.tombstones,
            ),
        ),
    )


def _place(change: TableChange) -> StagingMode:
    if change.files:
        return StagingMode.FILES
    return StagingMode.OVERWRITE if change.is_overwrite else StagingMode.COLUMNS


def _list_changes(
    plan: TablePlan, call: _Call, tables: TableStore
) -> Iterable[tuple[str, TableChange]]:
    nothing = pa.array([], pa.string())
    # A table is rewritten completely, so that no file contains dropped values.
    rewritten = {
        each.entry.table_key: _find_columns(each, tables) for each in plan.changed if each.is_final
    }
    size = sum(
        tables.stored_bytes(each.entry.at, name)
        for each in plan.changed
        if each.is_final
        for name in rewritten[each.entry.table_key].sought
    )
    workers = call.find_workers(size) if size else None
    for each in plan.changed:
        put, files = table_schema(each.declared).empty_table(), tuple[NewFile, ...]()
        columns = rewritten.get(each.entry.table_key)
        if columns is not None and workers is not None:
            files = _rewrite_by(workers, each.entry, columns, tables)
        elif columns is not None:
            rows = tables.scan(each.entry.at, columns=columns.sought, predicate=None)
            put = _arrange(columns, rows)
        yield (
            each.entry.table_key,
            TableChange(
                type=each.declared,
                put=put,
                removed=nothing,
                is_overwrite=each.is_final,
                renames=each.renames,
                published_key=each.published_key,
                version_bumps=each.version_bumps,
                files=files,
            ),
        )
    for drop in plan.dropped:
        if drop.is_final:
            rows = table_schema(drop.declared).empty_table()
            change = TableChange(drop.declared, put=rows, removed=nothing, is_overwrite=True)
            yield drop.entry.table_key, change


# Tables of new types


def _require_near(tables: TablePlan, state: ManifestState) -> None:
    """Raise if a table would have to advance too many versions to reuse a name."""
    bumps_by_key = {each.published_key: each.version_bumps for each in tables.changed}
    bumps_by_key |= {key: state.tombstones.get(key, 0) for key in map(table_key_of, tables.added)}
    for key, versions in bumps_by_key.items():
        if versions > REUSED_TABLE_VERSIONS_MAX:
            raise LimitExceededError(
                resource=f"the number of versions of an earlier type named {type_name_of(key)}",
                limit=REUSED_TABLE_VERSIONS_MAX,
                found=versions,
            )


def _open_tables(
    types: Iterable[NodeType | EdgeType], state: ManifestState, stores: Stores
) -> list[Entry]:
    """An empty table for each new type, at a version that no earlier type of its name hides.

    A crash leaves versions and tables that history does not name.
    """
    taken = {entry.path for entry in state.snapshot}
    opened = []
    for declared in types:
        key = table_key_of(declared)
        # An earlier type of the same name left its table, unless another type uses it now.
        path = state.path_by_table.get(key)
        left = None if path is None or path in taken else TableRef(path, None)
        head = None if left is None else stores.tables.find_head(left)
        if left is None or head is None:
            path = _find_place(declared, stores.tables)
            at = create_table(declared, path=path, stores=stores).at
        else:
            at = _empty(declared, TableVersion(left, head), stores.tables)
        while at.version <= state.tombstones.get(key, 0):
            at = _empty(declared, at, stores.tables)
        taken.add(at.ref.path)
        opened.append(Entry(key, at.ref.path, at.version, None, 0))
    return opened


def _find_place(declared: NodeType | EdgeType, tables: TableStore) -> str:
    # The location of a dropped type may contain data that earlier commits read, so no table is
    # created there.
    first = place_of(declared)
    places = itertools.chain([first], (f"{first}-{number}" for number in itertools.count(2)))
    return next(each for each in places if tables.find_head(TableRef(each, None)) is None)


def _empty(declared: NodeType | EdgeType, at: TableVersion, tables: TableStore) -> TableVersion:
    rows = table_schema(declared).empty_table()
    return tables.apply(tables.stage_overwrite(rows, onto=at))
