"""The migration planner: from an accepted schema and a desired one to the steps between them.

Promises that a plan is empty exactly when the two schemas have the same canonical form, and that
every difference appears in it: as a step that can be taken, or as a change that cannot. Knows
nothing of rows: what existing rows might forbid is planned as if there were some.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omnigraph.compiler.migration.change import (
    TypeChange,
    descriptions,
    list_changed,
    trace_change,
)
from omnigraph.compiler.migration.constraints import plan_constraints
from omnigraph.compiler.migration.lineage import DeclaredType, Lineage, trace_lineage, types_of
from omnigraph.compiler.migration.properties import plan_properties
from omnigraph.compiler.migration.steps import (
    AddType,
    DropMode,
    DropType,
    RenameType,
    Step,
    UnsupportedChange,
    UpdateTypeMetadata,
)
from omnigraph.model.catalog import Catalog, EdgeType, Interface, NodeType, TypeKind
from omnigraph.model.source import Source


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The steps from an accepted schema to a desired one, in the order they are taken."""

    steps: tuple[Step, ...]

    @property
    def supported(self) -> bool:
        """Whether every step can be taken."""
        return not any(isinstance(step, UnsupportedChange) for step in self.steps)


def plan_migration(
    accepted: Catalog, desired: Catalog, *, source: Source, allow_data_loss: bool
) -> MigrationPlan:
    """Plan how a graph of the accepted schema becomes one of the desired schema.

    Raises `CompileError` if a `@rename_from` of the desired schema, which `source` declares, fits
    nothing. `allow_data_loss` makes every drop final.
    """
    lineage = trace_lineage(accepted, desired, source)
    mode = DropMode.HARD if allow_data_loss else DropMode.SOFT
    steps: list[Step] = []
    for kind in (TypeKind.INTERFACE, TypeKind.NODE, TypeKind.EDGE):
        steps += _plan_kind(types_of(accepted, kind), types_of(desired, kind), lineage, mode)
    return MigrationPlan(tuple(steps))


def _plan_kind(
    accepted: Mapping[str, DeclaredType],
    desired: Mapping[str, DeclaredType],
    lineage: Lineage,
    mode: DropMode,
) -> Iterator[Step]:
    left = dict(accepted)
    for new in desired.values():
        old_name = lineage.find_type(new.kind, new.name)
        if old_name is None:
            yield AddType(new.kind, new.name)
        else:
            change = trace_change(left.pop(old_name), new, lineage)
            yield from _plan_type(change, lineage, mode)
    for old in left.values():
        if old.kind is TypeKind.INTERFACE:
            yield UnsupportedChange(f"{old.kind}:{old.name}", "removing an interface", None)
        else:
            yield DropType(old.kind, old.name, mode)


def _plan_type(change: TypeChange, lineage: Lineage, mode: DropMode) -> Iterator[Step]:
    if change.old.name != change.name:
        yield RenameType(change.kind, change.old.name, change.name)
    match change.old, change.new:
        case NodeType() as old, NodeType() as new:
            if old.implements != new.implements:
                reason = "changing which interfaces the type implements"
                yield change.unsupported(reason, prop=None, code=None)
        case EdgeType() as old, EdgeType() as new:
            yield from _plan_edge(old, new, change, lineage)
        case _:
            pass  # an interface has nothing but properties
    yield from _plan_annotations(change)
    yield from plan_properties(change, mode)
    yield from plan_constraints(change)


def _plan_edge(
    old: EdgeType, new: EdgeType, change: TypeChange, lineage: Lineage
) -> Iterator[Step]:
    ends = tuple(lineage.find_type(TypeKind.NODE, end) for end in (new.source, new.target))
    if ends != (old.source, old.target):
        before, after = f"{old.source} -> {old.target}", f"{new.source} -> {new.target}"
        reason = f"changing the ends of the edge from {before} to {after}"
        yield change.unsupported(reason, prop=None, code=None)
    if old.cardinality != new.cardinality:
        reason = f"changing @card from {old.cardinality} to {new.cardinality}"
        yield change.unsupported(reason, prop=None, code=None)


def _plan_annotations(change: TypeChange) -> Iterator[Step]:
    old, new = change.old, change.new
    if isinstance(old, Interface) or isinstance(new, Interface):
        return
    if changed := list_changed(old.annotations, new.annotations):
        yield change.unsupported(f"changing {changed}", prop=None, code=None)
    if (after := descriptions(new.annotations)) != descriptions(old.annotations):
        yield UpdateTypeMetadata(change.kind, change.name, after)
