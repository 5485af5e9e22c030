"""What a migration does to tables: which get other columns, which change hands, which go.

Pure, from a plan and what the manifest says. A type that is renamed keeps its table where it is,
and a property that comes, goes or is renamed is a change of columns alone; only what is dropped for
good is written anew without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from omnigraph.compiler.migration.plan import MigrationPlan
from omnigraph.compiler.migration.steps import (
    AddType,
    DropMode,
    DropProperty,
    DropType,
    RenameProperty,
    RenameType,
    Step,
)
from omnigraph.engine.state.manifest import ManifestState, Register, Tombstone
from omnigraph.engine.state.snapshot import Entry, Snapshot, make_table_key, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.storage.arrow_schema import table_schema


@dataclass(frozen=True, slots=True)
class TableMove:
    """A table that becomes the table of a type: under its name, with its columns.

    It is written anew if dropped values must not stay. `lift` is by how many versions it has to go
    further, because an earlier type of its new name has had those numbers.
    """

    declared: NodeType | EdgeType
    entry: Entry
    renames: Mapping[str, str]
    has_other_columns: bool
    is_final: bool
    lift: int

    @property
    def published_key(self) -> str:
        """The key that the table has afterwards."""
        return table_key_of(self.declared)

    @property
    def is_renamed(self) -> bool:
        """Whether that is another one than it has."""
        return self.published_key != self.entry.table_key

    @property
    def is_version(self) -> bool:
        """Whether it takes a version of the table, or only another line in the manifest."""
        return self.has_other_columns or self.lift > 0


@dataclass(frozen=True, slots=True)
class TypeDrop:
    """A type that goes, and whether its rows go from the storage too."""

    declared: NodeType | EdgeType
    entry: Entry
    is_final: bool


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What becomes of the tables of a graph."""

    added: tuple[NodeType | EdgeType, ...]
    changed: tuple[TableMove, ...]
    dropped: tuple[TypeDrop, ...]
    registered: tuple[Register, ...]
    adopted: tuple[Entry, ...]
    tombstones: tuple[Tombstone, ...]


def plan_tables(
    plan: MigrationPlan, *, accepted: Catalog, desired: Catalog, state: ManifestState
) -> TablePlan:
    """What a supported plan means for the tables that the manifest names."""
    moved = list(_find_moved(plan, accepted, desired, state))
    renamed = [each for each in moved if each.is_renamed]
    dropped = tuple(_find_dropped(plan, accepted, state.snapshot))
    return TablePlan(
        added=tuple(_find_added(plan, desired)),
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
            *(_bury(each) for each in dropped),
        ),
    )


def is_additive(step: Step) -> bool:
    """Whether rows that were written before, on whatever branch, are good after a step."""
    return not isinstance(step, RenameType | RenameProperty | DropType | DropProperty)


def _bury(drop: TypeDrop) -> Tombstone:
    # One above the last version, which is the one after emptying it if the rows go for good.
    above = 2 if drop.is_final else 1
    return Tombstone(drop.entry.table_key, drop.entry.version + above)


def _find_added(plan: MigrationPlan, desired: Catalog) -> Iterator[NodeType | EdgeType]:
    for step in plan.steps:
        match step:
            case AddType(kind, name) if kind is not TypeKind.INTERFACE:
                yield _declared(desired, kind, name)


def _find_dropped(plan: MigrationPlan, accepted: Catalog, snapshot: Snapshot) -> Iterator[TypeDrop]:
    for step in plan.steps:
        match step:
            case DropType(kind, name, mode) if kind is not TypeKind.INTERFACE:
                entry = snapshot.get(make_table_key(kind, name))
                yield TypeDrop(_declared(accepted, kind, name), entry, mode is DropMode.HARD)


def _find_moved(
    plan: MigrationPlan, accepted: Catalog, desired: Catalog, state: ManifestState
) -> Iterator[TableMove]:
    """The types that carry on, as far as a step is about their name or their properties."""
    old_names = {
        (step.type_kind, step.new): step.old for step in plan.steps if isinstance(step, RenameType)
    }
    for declared in desired.stored_types():
        old_name = old_names.get((declared.kind, declared.name), declared.name)
        entry = state.snapshot.entries.get(make_table_key(declared.kind, old_name))
        if entry is None or old_name not in _names(accepted, declared.kind):
            continue
        own = [step for step in plan.steps if _is_about(step, declared)]
        renames = {step.old: step.new for step in own if isinstance(step, RenameProperty)}
        before = _declared(accepted, declared.kind, old_name)
        has_other_columns = bool(renames) or _columns(before) != _columns(declared)
        yield TableMove(
            declared=declared,
            entry=entry,
            renames=renames,
            has_other_columns=has_other_columns,
            is_final=any(isinstance(s, DropProperty) and s.mode is DropMode.HARD for s in own),
            lift=_find_lift(declared, entry.version + has_other_columns, entry, state),
        )


def _find_lift(
    declared: NodeType | EdgeType, version: int, entry: Entry, state: ManifestState
) -> int:
    key = table_key_of(declared)
    hidden = 0 if key == entry.table_key else state.tombstones.get(key, 0)
    return max(0, hidden + 1 - version)


def _columns(declared: NodeType | EdgeType) -> frozenset[str]:
    return frozenset(table_schema(declared).names)


def _is_about(step: Step, declared: NodeType | EdgeType) -> bool:
    match step:
        case RenameProperty(kind, type_name) | DropProperty(kind, type_name):
            return (kind, type_name) == (declared.kind, declared.name)
        case _:
            return False


def _names(catalog: Catalog, kind: TypeKind) -> Mapping[str, NodeType | EdgeType]:
    return catalog.nodes if kind is TypeKind.NODE else catalog.edges


def _declared(catalog: Catalog, kind: TypeKind, name: str) -> NodeType | EdgeType:
    return _names(catalog, kind)[name]
