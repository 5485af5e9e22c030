"""The records that writes, transactions and turns leave while they are under way.

Whether whoever left one is alive is found by a look at locks, which takes none of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.engine.commit.audit import list_recoveries
from omnigraph.engine.commit.sidecar import (
    RECOVERY_PREFIX,
    Sidecar,
    changes_schema,
    decode_sidecar,
    sidecar_path,
)
from omnigraph.engine.ops.doctor.report import Trouble
from omnigraph.engine.ops.doctor.scope import FROM_A_COPY, Findings, Scope
from omnigraph.engine.ops.transaction import TRANSACTIONS_PREFIX, life_of
from omnigraph.engine.state.contract import SCHEMA_LOCK
from omnigraph.engine.state.readers import CLEANUPS_PREFIX, READERS_PREFIX, decode_claim
from omnigraph.engine.state.snapshot import Entry, line_of, type_name_of
from omnigraph.model.names import is_private_branch
from omnigraph.model.temporal import format_datetime
from omnigraph.storage.lease_records import LEASES_PREFIX, decode_lease
from omnigraph.storage.locks import LockKey

_HEAL = "`graph.refresh()` finishes or undoes it; the next write does so too"
_UPGRADE = (
    "upgrade this OmniGraph if a newer one wrote it; otherwise move the file out of the graph and "
    "look again"
)


def is_explained(entry: Entry, scope: Scope) -> bool:
    """Whether the record of a write says why a type is further than its branch names."""
    return any(
        (pin.table_path, pin.table_branch) == (entry.path, entry.branch)
        for sidecar in _read_sidecars(scope, Findings())
        for pin in sidecar.pins
    )


def examine_records(scope: Scope, findings: Findings) -> None:
    """Look at writes and transactions that have not ended, at leases, claims and the audit."""
    for sidecar in _read_sidecars(scope, findings):
        _tell_write(scope, findings, sidecar)
    _examine_transactions(scope, findings)
    _examine_leases(scope, findings)
    _examine_claims(scope, findings)
    with findings.noting(Trouble.AUDIT_DAMAGED, "the list of recoveries", advice=FROM_A_COPY):
        list_recoveries(scope.stores.tables)


def _read_sidecars(scope: Scope, findings: Findings) -> Iterator[Sidecar]:
    for path, content in _read_all(scope, RECOVERY_PREFIX):
        with findings.noting(Trouble.RECORD_DAMAGED, path, advice=_UPGRADE):
            yield decode_sidecar(content, path=path)


def _tell_write(scope: Scope, findings: Findings, sidecar: Sidecar) -> None:
    branch = line_of(sidecar.branch)
    keys = [LockKey(pin.table_key, branch) for pin in sidecar.pins]
    if changes_schema(sidecar):
        keys.append(SCHEMA_LOCK)
    holder = _find_holder(scope, keys)
    types = sorted({type_name_of(pin.table_key) for pin in sidecar.pins})
    deed = (
        f"a {sidecar.writer_kind} by {sidecar.actor or 'nobody named'} "
        f"since {format_datetime(sidecar.started_at)}, of {', '.join(types) or 'no type'} "
        f"on {sidecar.branch}"
    )
    subject = f"write {sidecar.operation_id}"
    if holder is None:
        if not _is_there(scope, sidecar_path(sidecar.operation_id)):
            # It ended between the look at its record and the one at its locks.
            return
        message = f"{deed}, has stopped half-way"
        findings.add(Trouble.WRITE_LEFT, subject, message, advice=_HEAL)
    else:
        message = f"{deed}, is under way; {holder} is at it"
        findings.add(Trouble.WRITE_UNDER_WAY, subject, message, advice="wait for it")


def _examine_transactions(scope: Scope, findings: Findings) -> None:
    for file in sorted(scope.stores.objects.list(TRANSACTIONS_PREFIX).token_by_name):
        name = file.removesuffix(".json")
        if not is_private_branch(name):
            continue
        subject, holder = f"transaction {name}", _find_holder(scope, [life_of(name)])
        if holder is None:
            if not _is_there(scope, f"{TRANSACTIONS_PREFIX}/{file}"):
                continue
            findings.add(
                Trouble.TRANSACTION_LEFT,
                subject,
                "whoever was in it is gone, and its private branch stays",
                advice="`graph.refresh()` removes it; nobody has seen its changes",
            )
        else:
            message = f"{holder} is in it"
            findings.add(Trouble.TRANSACTION_UNDER_WAY, subject, message, advice="wait for it")


def _examine_leases(scope: Scope, findings: Findings) -> None:
    for path, content in _read_all(scope, LEASES_PREFIX):
        advice = f"delete {path} when nobody writes, unless a newer OmniGraph wrote it"
        with findings.noting(Trouble.LEASE_DAMAGED, path, advice=advice):
            lease = decode_lease(content, path=path)
            if lease.is_held and not lease.is_good(scope.now):
                message = (
                    f"process {lease.owner.process_id} on {lease.owner.host} has not let go of "
                    f"{'main' if lease.branch is None else lease.branch}, and its time is up"
                )
                advice = "nothing: whoever writes next takes it"
                findings.add(Trouble.LEASE_LEFT, path, message, advice=advice)


def _examine_claims(scope: Scope, findings: Findings) -> None:
    for prefix, who in ((READERS_PREFIX, "a reader"), (CLEANUPS_PREFIX, "a clean-up")):
        for path, content in _read_all(scope, prefix):
            advice = f"delete {path} when nobody reads, unless a newer OmniGraph wrote it"
            with findings.noting(Trouble.CLAIM_DAMAGED, path, advice=advice):
                if decode_claim(content, path=path).is_over(scope.now):
                    message = f"{who} that made it is gone"
                    advice = "nothing: the next clean-up that deletes anything removes it"
                    findings.add(Trouble.CLAIM_LEFT, path, message, advice=advice)


def _read_all(scope: Scope, prefix: str) -> Iterator[tuple[str, bytes]]:
    """The paths and contents of our own objects below a prefix, by name."""
    for name in sorted(scope.stores.objects.list(prefix).token_by_name):
        path = f"{prefix}/{name}"
        stored = scope.stores.objects.find(path) if name.endswith(".json") else None
        # One that went away since it was listed is none.
        if stored is not None:
            yield path, stored.content


def _is_there(scope: Scope, path: str) -> bool:
    return scope.stores.objects.find(path) is not None


def _find_holder(scope: Scope, keys: list[LockKey]) -> str | None:
    # A lease that cannot be read is a finding of its own.
    holders: list[str] = []
    with Findings().noting(Trouble.LEASE_DAMAGED, "", advice=""):
        holder = scope.locks.find_holder(keys)
        holders += [] if holder is None else [holder]
    return next(iter(holders), None)
