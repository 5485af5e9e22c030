"""Repair: types of main that something outside of OmniGraph wrote to, looked at and adopted.

A table that is ahead of what history names was moved by no write of ours. If it was only laid out
anew, adopting it is safe; if not, a person has to want it. Adopting names the newest version in one
commit, and rewrites nothing. Where no one asks for it, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.commit.publish import Intent, publish
from omnigraph.engine.commit.sidecar import list_sidecars
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.manifest import MANIFEST_PATH, Update
from omnigraph.engine.state.snapshot import Entry, type_name_of
from omnigraph.model.errors import (
    InvalidValueError,
    RecoveryRequiredError,
    UnavailableError,
    UncertainError,
)
from omnigraph.model.names import MAIN
from omnigraph.storage.locks import HeldLocks, LockKey
from omnigraph.storage.ports import TableStore

REPAIR_ACTOR = "omnigraph:repair"
FORCED_REPAIR_ACTOR = "omnigraph:repair:force"

_LAYOUT_OPERATIONS = frozenset({"Rewrite", "ReserveFragments"})
_UNKNOWN = "unknown"


class Drift(StrEnum):
    """What moved a table past what history names."""

    NONE = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    SUSPICIOUS = "suspicious"
    UNVERIFIABLE = "unverifiable"


class RepairAction(StrEnum):
    """What was done about it."""

    NO_OP = "no_op"
    PREVIEW = "preview"
    HEALED = "healed"
    FORCED = "forced"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was found of one type, and done about it.

    `manifest_version` is what history named before, `lance_head_version` where the table is, and
    `operations` what led from the one to the other, as Lance calls it.
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
    """What a caller wants adopted: nothing, layout only, or whatever there is."""

    is_confirmed: bool
    is_forced: bool


def parse_consent(*, confirm: bool, force: bool) -> Consent:
    """What a caller means; who forces must confirm as well."""
    if force and not confirm:
        raise InvalidValueError(
            subject="force",
            expected="confirm=True with it",
            value=force,
            problem="it needs confirm=True as well; nothing was changed",
        )
    return Consent(confirm, force)


def repair(consent: Consent, *, path: WritePath) -> tuple[RepairReport, ...]:
    """Look at every type of main, adopt what the caller consents to as one commit, and report.

    `RecoveryRequiredError` means that a write stopped half-way and has to be recovered first.
    """
    keys = [LockKey(entry.table_key, None) for entry in path.authority.capture(MAIN).snapshot]
    # Whoever is in the middle of a write is waited for.
    with path.locks.hold(keys) as held:
        _require_none_stopped(path)
        basis = path.authority.capture(MAIN)
        looked = [
            entry for entry in basis.snapshot if held.covers([LockKey(entry.table_key, None)])
        ]
        reports = [_look(entry, consent, path.stores.tables) for entry in looked]
        adopted = {
            report.table_key: report
            for report in reports
            if report.action in (RepairAction.HEALED, RepairAction.FORCED)
        }
        if adopted:
            _publish(adopted.values(), basis, held, path)
    return tuple(reports)


def _require_none_stopped(path: WritePath) -> None:
    for sidecar in list_sidecars(path.stores.objects):
        if any(pin.table_branch is None for pin in sidecar.pins):
            raise RecoveryRequiredError(operation_id=sidecar.operation_id)


def _look(entry: Entry, consent: Consent, tables: TableStore) -> RepairReport:
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
    drift = _classify(operations)
    return replace(
        report, classification=drift, action=_decide(drift, consent), operations=operations
    )


def _classify(operations: tuple[str, ...]) -> Drift:
    if _UNKNOWN in operations:
        return Drift.UNVERIFIABLE
    if _LAYOUT_OPERATIONS.issuperset(operations):
        return Drift.VERIFIED_MAINTENANCE
    return Drift.SUSPICIOUS


def _decide(drift: Drift, consent: Consent) -> RepairAction:
    match drift:
        case Drift.NONE:
            return RepairAction.NO_OP
        case _ if not consent.is_confirmed:
            return RepairAction.PREVIEW
        case Drift.VERIFIED_MAINTENANCE:
            return RepairAction.HEALED
        case Drift.SUSPICIOUS | Drift.UNVERIFIABLE:
            return RepairAction.FORCED if consent.is_forced else RepairAction.REFUSED


def _publish(
    adopted: Iterable[RepairReport], basis: Basis, held: HeldLocks, path: WritePath
) -> None:
    """Name the newest version of tables in one commit, or raise and name none."""
    tables = path.stores.tables
    reports = list(adopted)
    entries = [_newest_entry(basis.snapshot.get(each.table_key), each, tables) for each in reports]
    is_forced = any(each.action is RepairAction.FORCED for each in reports)
    intent = Intent(
        changes=tuple(Update(each, tables.describe(each.at)) for each in entries),
        expected={each.table_key: each.manifest_version for each in reports},
        expected_head=None,
        commit_id=path.runtime.new_id(),
        created_at=path.runtime.now(),
        actor=FORCED_REPAIR_ACTOR if is_forced else REPAIR_ACTOR,
        merged_parent_id=None,
        schema_hash=basis.contract.schema_hash,
    )
    with path.locks.hold_within(held, [LockKey(MANIFEST_PATH, None)]) as turn:
        try:
            publish(
                intent,
                onto=path.authority.newest_known(basis.state),
                held=turn,
                authority=path.authority,
                tables=tables,
                failpoints=path.failpoints,
            )
        except UnavailableError as error:
            raise UncertainError(
                f"the repair may have been made: {error}; call `repair` again to see"
            ) from error


def _newest_entry(entry: Entry, report: RepairReport, tables: TableStore) -> Entry:
    assert report.lance_head_version is not None, "a table that is not there is not adopted"
    newest = replace(entry, version=report.lance_head_version)
    return replace(newest, row_count=tables.count(newest.at, predicate=None))
