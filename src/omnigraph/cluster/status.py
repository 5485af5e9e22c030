"""`status` and `force-unlock`: looking at the state without the lock, and taking a lock away."""

from __future__ import annotations

from pathlib import Path

from omnigraph.cluster.catalog_blobs import BadBlob, BlobFault, check_blob, has_blob
from omnigraph.cluster.findings import Findings
from omnigraph.cluster.ledger import STATE_PATH
from omnigraph.cluster.lock import Lock, break_lock
from omnigraph.cluster.planning import warn_pending
from omnigraph.cluster.reports import StateReport, UnlockReport
from omnigraph.cluster.session import Session
from omnigraph.cluster.world import Cluster, World


def status(folder: Path, world: World) -> StateReport:
    """Tell how a cluster stands; writes nothing and waits for nobody."""
    session = Session(folder, world, Findings())
    with session.findings.stopping():
        cluster = session.open()
        warn_pending(cluster, session.findings)
    facts = session.facts()
    if session.cluster is not None and facts is not None:
        if facts.ledger is not None:
            _warn_blobs(session.cluster, facts.ledger.digests, session.findings)
        elif facts.cas is None and not session.findings.has_errors:
            session.findings.warn(
                "state_missing",
                STATE_PATH,
                "the cluster has no state yet; `omnigraph cluster import` makes one",
            )
    return StateReport(session.heading(), None, facts)


def force_unlock(folder: Path, world: World, *, lock_id: str) -> UnlockReport:
    """Take away the lock with exactly this id."""
    session = Session(folder, world, Findings())
    removed: Lock | None = None
    with session.findings.stopping():
        cluster = session.open()
        own = cluster.make_lock("force-unlock", actor=None)
        removed = break_lock(lock_id, own, cluster.objects)
    facts = session.facts()
    return UnlockReport(session.heading(), facts, removed)


def _warn_blobs(cluster: Cluster, digests: dict[str, str], findings: Findings) -> None:
    for address, digest in sorted(digests.items()):
        found = check_blob(address, digest, cluster.objects) if has_blob(address) else None
        if isinstance(found, BadBlob):
            code = (
                "catalog_payload_read_error"
                if found.fault is BlobFault.UNREADABLE
                else f"catalog_{found.fault}"
            )
            findings.warn(
                code, address, f"{found.message}; `omnigraph cluster refresh`, then `apply`"
            )
