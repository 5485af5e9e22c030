"""Adopt writes made outside OmniGraph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.commit.publish import PublishRequest, publish
from omnigraph.engine.commit.sidecar import list_sidecars
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import MANIFEST_PATH, Entry, Update, manifest_ref, type_name_of
from omnigraph.model.catalog import TypeKind
from omnigraph.model.errors import (
    InvalidValueError,
    NotFoundError,
    RecoveryRequiredError,
    UnavailableError,
    UncertainError,
)
from omnigraph.model.limits import WRITE_LOCK_TIMEOUT_S
from omnigraph.model.names import MAIN
from omnigraph.storage.locations import Location
from omnigraph.storage.locks import HeldLocks, Locking, LockKey, open_write_locks
from omnigraph.storage.ports import ObjectStore, Stores, TableReader
from omnigraph.storage.tables import (
    ForeignVersion,
    find_foreign_versions,
    list_table_branches,
    relocate_version,
)

REPAIR_ACTOR = "omnigraph:repair"
FORCED_REPAIR_ACTOR = "omnigraph:repair:force"

_LAYOUT_OPERATIONS = frozenset({"Rewrite", "ReserveFragments"})
_UNKNOWN = "unknown"


class Drift(StrEnum):
    """What kind of operation moved a table past the version that history names."""

    NONE = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    SUSPICIOUS = "suspicious"
    UNVERIFIABLE = "unverifiable"


class RepairAction(StrEnum):
    """What the repair did about the drift of a table."""

    NO_OP = "no_op"
    PREVIEW = "preview"
    HEALED = "healed"
    FORCED = "forced"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The drift of one type, and the action taken.

    `manifest_version` is the version that history named before, `lance_head_version` the newest
    version of the table, and `operations` Lance's names of the operations between the two.
    """

    type: str
    table_key: str
    manifest_version: int
    lance_head_version: int | None
    classification: Drift
    action: RepairAction
    operations: tuple[str, ...]
    error: str | None


@dataclass(frozen=True, slots=True)
class Consent:
    """What the caller agrees to adopt: nothing, layout changes only, or any change."""

    is_confirmed: bool
    is_forced: bool


def parse_consent(*, confirm: bool, force: bool) -> Consent:
    """Parse a caller's consent; `InvalidValueError` if `force` is set without `confirm`."""
    if force and not confirm:
        raise InvalidValueError(
            subject="force",
            expected="confirm=True with it",
            value=force,
            problem="it needs confirm=True as well; nothing was changed",
        )
    return Consent(confirm, force)


def repair(consent: Consent, *, path: WritePath) -> tuple[RepairReport, ...]:
    """Check every type of main, adopt what the caller consents to as one commit, and report.

    `RecoveryRequiredError` means that a write stopped half-way and has to be recovered first.
    """
    keys = [LockKey(entry.table_key, None) for entry in path.branch_states.capture(MAIN).snapshot]
    # Taking the locks waits for writes in progress.
    with path.locks.hold(keys) as held:
        for sidecar in list_sidecars(path.stores.objects):
            if any(pin.table_branch is None for pin in sidecar.pins):
                raise RecoveryRequiredError(operation_id=sidecar.operation_id)
        basis = path.branch_states.capture(MAIN)
        looked = [
            entry for entry in basis.snapshot if held.covers([LockKey(entry.table_key, None)])
        ]
        reports = [_look(entry, consent, path.stores.tables) for entry in looked]
        changing = (RepairAction.HEALED, RepairAction.FORCED)
        adopted = [report for report in reports if report.action in changing]
        if adopted:
            _publish(adopted, basis, held, path)
    return tuple(reports)


def _look(entry: Entry, consent: Consent, tables: TableReader) -> RepairReport:
    newest = tables.find_head(entry.at.ref)
    report = RepairReport(
        type=type_name_of(entry.table_key),
        table_key=entry.table_key,
        manifest_version=entry.version,
        lance_head_version=newest,
        classification=Drift.NONE,
        action=RepairAction.NO_OP,
        operations=(),
        error=None,
    )
    if newest == entry.version:
        return report
    if newest is None or newest < entry.version:
        return replace(
            report,
            classification=Drift.UNVERIFIABLE,
            action=RepairAction.REFUSED if consent.is_confirmed else RepairAction.PREVIEW,
            error=f"history names version {entry.version}, but the table ends at {newest}; "
            f"restore {entry.path} from a copy",
        )
    found = tables.find_operations(entry.at.ref, after=entry.version)
    operations = tuple(each or _UNKNOWN for each in found)
    if _UNKNOWN in operations:
        drift = Drift.UNVERIFIABLE
    elif _LAYOUT_OPERATIONS.issuperset(operations):
        drift = Drift.VERIFIED_MAINTENANCE
    else:
        drift = Drift.SUSPICIOUS
    return replace(
        report, classification=drift, action=_decide(drift, consent), operations=operations
    )


def _decide(drift: Drift, consent: Consent) -> RepairAction:
    if not consent.is_confirmed:
        return RepairAction.PREVIEW
    if drift is Drift.VERIFIED_MAINTENANCE:
        return RepairAction.HEALED
    return RepairAction.FORCED if consent.is_forced else RepairAction.REFUSED


def _publish(
    adopted: Sequence[RepairReport], basis: Basis, held: HeldLocks, path: WritePath
) -> None:
    """Publish the newest version of the tables as one commit, or raise and publish none."""
    tables = path.stores.tables
    changes = []
    for each in adopted:
        assert each.lance_head_version is not None, "a table that is not there is not adopted"
        entry = replace(basis.snapshot.get(each.table_key), version=each.lance_head_version)
        entry = replace(entry, row_count=tables.count(entry.at, predicate=None))
        changes.append(Update(entry, tables.describe(entry.at)))
    is_forced = any(each.action is RepairAction.FORCED for each in adopted)
    intent = PublishRequest(
        changes=tuple(changes),
        expected={each.table_key: each.manifest_version for each in adopted},
        expected_head=None,
        commit_id=path.runtime.new_id(),
        created_at=path.runtime.now(),
        actor=FORCED_REPAIR_ACTOR if is_forced else REPAIR_ACTOR,
        merged_parent_id=None,
        schema_hash=basis.accepted_schema.schema_hash,
    )
    with path.locks.hold_within(held, [LockKey(MANIFEST_PATH, None)]) as turn:
        try:
            publish(
                intent,
                onto=path.branch_states.newest_known(basis.state),
                held=turn,
                branch_states=path.branch_states,
                tables=tables,
                failpoints=path.failpoints,
            )
        except UnavailableError as error:
            raise UncertainError(
                f"the repair may have been published: {error}; call `repair` again to check"
            ) from error


@dataclass(frozen=True, slots=True)
class RelocationReport:
    """A branch that referred to another place, and how many of its version files were rewritten."""

    branch: str
    rewritten_files: int
    old_place: str


def relocate(
    location: Location, *, stores: Stores, locking: Locking
) -> tuple[RelocationReport, ...]:
    """Rewrite the paths that branches store, and report on each branch with another path.

    `NotFoundError` if there is no graph. `CorruptError` if a path does not belong to a copy of this
    graph; nothing is rewritten then.
    """
    if stores.tables.find_head(manifest_ref(MAIN)) is None:
        raise NotFoundError(kind="graph", name=location.uri, advice="")
    foreign_by_branch = _find_foreign(stores.objects, root=location.root)
    locks = open_write_locks(
        location,
        objects=stores.objects,
        locking=locking,
        # A lease that was copied with the graph has no writer here: while a branch refers to
        # another place, no writer can publish on it.
        fence=lambda _: None,
        timeout_s=WRITE_LOCK_TIMEOUT_S,
    )
    reports: list[RelocationReport] = []
    for branch, versions in sorted(foreign_by_branch.items()):
        with locks.hold([LockKey(MANIFEST_PATH, branch)]):
            for version in versions:
                # A crash here leaves a branch that is rejected until the next relocation.
                relocate_version(stores.objects, version, root=location.root)
        reports.append(RelocationReport(branch, len(versions), versions[0].old_root))
    return tuple(reports)


def _find_foreign(objects: ObjectStore, *, root: str) -> dict[str, list[ForeignVersion]]:
    """The version files to rewrite, by branch, with those of the manifest last."""
    # Listed from storage, because earlier commits name tables of types that are dropped now.
    tops = [f"{kind}s" for kind in (TypeKind.NODE, TypeKind.EDGE)]
    tables = [f"{top}/{name}" for top in tops for name in sorted(objects.list(top).prefixes)]
    found: dict[str, list[ForeignVersion]] = {}
    for path in [*tables, MANIFEST_PATH]:
        for ref in list_table_branches(objects, path):
            assert ref.branch is not None, "only branches are listed"
            versions = list(find_foreign_versions(objects, ref, root=root))
            if versions:
                found.setdefault(ref.branch, []).extend(versions)
    return found
