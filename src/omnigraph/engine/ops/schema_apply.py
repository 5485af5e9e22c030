"""Applying a schema: one commit by which a graph of one schema becomes a graph of another.

Everything that could refuse comes before anything moves. Whoever applies a schema holds the lock
of the schema, so that no other is applied and no branch is made, and those of all types of main, so
that nobody writes. Tables of new types are made first: until history names them they are nobody's.
The rest is a write like any other; what it leaves half-way is finished or undone by whether the
text of the schema was staged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.migration import plan as planner
from omnigraph.compiler.migration.steps import UnsupportedChange, describe_step, encode_step
from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.engine.commit.changes import Placement, PreparedWrite, SchemaChange, TableChange
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.requests import request_lock
from omnigraph.engine.commit.schema_delta import SchemaDelta
from omnigraph.engine.commit.sidecar import list_sidecars
from omnigraph.engine.ops.attempts import find_told_at
from omnigraph.engine.ops.cleanup import purge
from omnigraph.engine.ops.create import create_table, place_of
from omnigraph.engine.ops.schema_rows import measure, rewrite, rewrite_by
from omnigraph.engine.ops.schema_tables import TablePlan, is_additive, plan_tables
from omnigraph.engine.ops.told import schema_result, with_answer
from omnigraph.engine.results import MigrationPlan, SchemaApplyResult
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.contract import SCHEMA_LOCK
from omnigraph.engine.state.manifest import ManifestState, Register
from omnigraph.engine.state.readers import Readers
from omnigraph.engine.state.snapshot import Entry, table_key_of, table_keys_of, type_name_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import (
    LimitExceededError,
    ReadSetChangedError,
    StillNeededError,
    UnsupportedChangeError,
)
from omnigraph.model.limits import PREPARE_ATTEMPTS_MAX, REUSED_TABLE_VERSIONS_MAX
from omnigraph.model.names import MAIN, BranchName, is_internal_branch
from omnigraph.model.observer import Phase
from omnigraph.model.source import Source
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.locks import HeldLocks, LockKey
from omnigraph.storage.ports import Stores, TableRef, TableStore, TableVersion
from omnigraph.storage.table_layout import Workers


def plan_schema(source: Source, *, accepted: Catalog, allow_data_loss: bool) -> MigrationPlan:
    """The steps from the accepted schema to another, and whether all of them can be taken."""
    plan = planner.plan_migration(
        accepted, compile_schema(source), source=source, allow_data_loss=allow_data_loss
    )
    return MigrationPlan(plan.supported, _encode_steps(plan))


def apply_schema(
    source: Source,
    *,
    allow_data_loss: bool,
    find_workers: Callable[[int], Workers | None],
    authorship: Authorship,
    readers: Readers,
    path: WritePath,
) -> SchemaApplyResult:
    """Make a schema the graph's, with all that follows for its tables, or change nothing.

    `UnsupportedChangeError` holds every step that cannot be taken; `StillNeededError` means that
    branches have to go first. What is dropped for good goes from earlier commits too. Whoever is
    found for so many bytes of rows writes them anew; if nobody is, this process does.
    """
    desired = compile_schema(source)
    path.heal()
    known = path.authority.capture(MAIN)
    for _ in range(PREPARE_ATTEMPTS_MAX):
        with path.locks.hold(_lock_keys(desired, known, authorship)) as held:
            if not _has_left_something(path):
                known_hash = known.contract.schema_hash
                call = _Call(source, desired, known_hash, find_workers, authorship, readers)
                return _apply_under(held, call, allow_data_loss=allow_data_loss, path=path)
        path.heal()
    raise ReadSetChangedError(
        member="the schema's turn", expected="nobody else's write", actual="one that stopped"
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """What is to be applied, by whom, and which schema was the accepted one when it was asked."""

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


def _has_left_something(path: WritePath) -> bool:
    """Whether a writer of main has died before its write was done: nobody else can be at work.

    Its record names types as they are now, so it has to be recovered before they change.
    """
    return any(each.branch == MAIN for each in list_sidecars(path.stores.objects))


def _apply_under(
    held: HeldLocks, call: _Call, *, allow_data_loss: bool, path: WritePath
) -> SchemaApplyResult:
    with path.observer.phase(Phase.CAPTURE):
        basis = path.authority.capture(MAIN)
        known = find_told_at(basis.state, authorship=call.authorship, path=path)
    if known is not None:
        return schema_result(known)
    path.require_head(call.authorship.expected_head, basis.state)
    plan = planner.plan_migration(
        basis.catalog, call.desired, source=call.source, allow_data_loss=allow_data_loss
    )
    steps = _encode_steps(plan)
    if not plan.steps:
        return SchemaApplyResult(applied=False, steps=steps, commit_id=None)
    if basis.contract.schema_hash != call.known_hash:
        # What another has added meanwhile is not in the text, and would be dropped again.
        raise ReadSetChangedError(
            member="the schema",
            expected=call.known_hash[:14],
            actual=basis.contract.schema_hash[:14],
        )
    _require_applicable(plan, path)
    with path.observer.phase(Phase.PREPARE):
        write = _prepare(plan, call, basis=basis, path=path)
    write = with_answer(write, {"steps": steps}, request=call.authorship.request)
    commit = path.commit(write, basis=basis, authorship=call.authorship, held=held)
    emptied = [key for key, change in write.changes.items() if change.is_overwrite]
    if emptied:
        # A crash here leaves what was dropped to the next clean-up.
        purge({basis.snapshot.get(key).path for key in emptied}, readers=call.readers, path=path)
    return SchemaApplyResult(applied=True, steps=steps, commit_id=commit.id)


def _require_applicable(plan: planner.MigrationPlan, path: WritePath) -> None:
    refused = [step for step in plan.steps if isinstance(step, UnsupportedChange)]
    if refused:
        raise UnsupportedChangeError(
            steps=[encode_step(step) for step in refused],
            reasons=[_explain(step) for step in refused],
        )
    branches = path.authority.others()
    if branches and not all(is_additive(step) for step in plan.steps):
        step = next(step for step in plan.steps if not is_additive(step))
        raise StillNeededError(
            kind="the accepted schema of",
            name=MAIN,
            needed_by=" and ".join(dict.fromkeys(map(_name_branch, branches))),
            advice=f"'{describe_step(step)}' needs a graph with only main; {_advise(branches)}; "
            "nothing was changed",
        )


def _name_branch(branch: BranchName) -> str:
    return "a transaction" if is_internal_branch(branch) else f"branch '{branch}'"


def _advise(branches: Iterable[BranchName]) -> str:
    if all(map(is_internal_branch, branches)):
        return "wait for the transaction to end"
    return "merge or delete the other branches first"


def _explain(step: UnsupportedChange) -> str:
    told = f"{step.entity}: {step.reason}"
    return f"[{step.code}] {told}" if step.code else told


def _encode_steps(plan: planner.MigrationPlan) -> tuple[dict[str, object], ...]:
    return tuple(dict(encode_step(step)) for step in plan.steps)


def _prepare(
    plan: planner.MigrationPlan, call: _Call, *, basis: Basis, path: WritePath
) -> PreparedWrite:
    state, stores = basis.state, path.stores
    tables = plan_tables(plan, accepted=basis.catalog, desired=call.desired, state=state)
    _require_near(tables, state)
    made = _open_tables(tables.added, state, stores)
    changes = dict(sorted(_list_changes(tables, call, stores.tables)))
    return PreparedWrite(
        changes=changes,
        placement={key: _place(change) for key, change in changes.items()},
        # Nobody writes meanwhile: what is decided here is about all rows that there are.
        read_set=frozenset(basis.snapshot.entries),
        is_strict=True,
        schema=SchemaChange(
            source=call.source.text,
            schema_hash=hash_schema(call.desired),
            delta=SchemaDelta(
                replaced_hash=basis.contract.schema_hash,
                registered=(
                    *tables.registered,
                    *(Register(each.table_key, each.path) for each in made),
                ),
                adopted=(*tables.adopted, *made),
                dropped=tables.tombstones,
            ),
        ),
    )


def _place(change: TableChange) -> Placement:
    if change.files:
        return Placement.FILES
    return Placement.OVERWRITE if change.is_overwrite else Placement.COLUMNS


def _list_changes(
    plan: TablePlan, call: _Call, tables: TableStore
) -> Iterable[tuple[str, TableChange]]:
    nothing = pa.array([], pa.string())
    rewrites = [each for each in plan.changed if each.is_final]
    size = sum(measure(each, tables) for each in rewrites)
    workers = call.find_workers(size) if size else None
    for each in plan.changed:
        is_here = each.is_final and workers is None
        yield (
            each.entry.table_key,
            TableChange(
                type=each.declared,
                put=rewrite(each, tables) if is_here else table_schema(each.declared).empty_table(),
                removed=nothing,
                is_overwrite=each.is_final,
                renames=each.renames,
                published_key=each.published_key,
                lift=each.lift,
                files=rewrite_by(workers, each, tables) if each.is_final and workers else (),
            ),
        )
    for drop in plan.dropped:
        if drop.is_final:
            rows = table_schema(drop.declared).empty_table()
            change = TableChange(drop.declared, put=rows, removed=nothing, is_overwrite=True)
            yield drop.entry.table_key, change


# Tables of new types


def _require_near(tables: TablePlan, state: ManifestState) -> None:
    """Raise if a table would have to go through too many versions to get a name again."""
    lifts = {each.published_key: each.lift for each in tables.changed}
    lifts |= {key: state.tombstones.get(key, 0) for key in map(table_key_of, tables.added)}
    for key, versions in lifts.items():
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
        at = _reopen(declared, state.path_by_table.get(key), taken, stores.tables)
        if at is None:
            path = _find_place(declared, stores.tables)
            at = create_table(declared, path=path, stores=stores).at
        while at.version <= state.tombstones.get(key, 0):
            at = _empty(declared, at, stores.tables)
        taken.add(at.ref.path)
        opened.append(Entry(key, at.ref.path, at.version, None, 0))
    return opened


def _reopen(
    declared: NodeType | EdgeType, path: str | None, taken: Collection[str], tables: TableStore
) -> TableVersion | None:
    """The table that an earlier type of the name had, without its rows, if nobody has it now."""
    if path is None or path in taken:
        return None
    head = tables.find_head(TableRef(path, None))
    return None if head is None else _empty(declared, _at(path, head), tables)


def _find_place(declared: NodeType | EdgeType, tables: TableStore) -> str:
    # A place that no type has any more may hold what earlier commits read, so it is left alone.
    first = place_of(declared)
    places = itertools.chain([first], (f"{first}-{number}" for number in itertools.count(2)))
    return next(each for each in places if tables.find_head(TableRef(each, None)) is None)


def _empty(declared: NodeType | EdgeType, at: TableVersion, tables: TableStore) -> TableVersion:
    rows = table_schema(declared).empty_table()
    return tables.apply(tables.stage_overwrite(rows, onto=at))


def _at(path: str, version: int) -> TableVersion:
    return TableVersion(TableRef(path, None), version)
