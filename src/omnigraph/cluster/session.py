"""One run of one command on a cluster: the folder's configuration, the lock, and how it all stands.

What every command does around its own work. Never raises what the storage does: it becomes a
finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from omnigraph.cluster.config import ClusterConfig
from omnigraph.cluster.desired import Desired, read_config, read_desired
from omnigraph.cluster.findings import Findings
from omnigraph.cluster.ledger import STATE_PATH, StoredLedger, find_ledger
from omnigraph.cluster.lock import LOCK_PATH, Lock, find_lock, holding
from omnigraph.cluster.reports import Heading, StateFacts
from omnigraph.cluster.world import Cluster, World, open_configured


@dataclass(slots=True)
class Session:
    """What a command has found out so far; the fields are filled in as it goes."""

    folder: Path
    world: World
    findings: Findings
    desired: Desired | None = None
    cluster: Cluster | None = None
    acquired: Lock | None = None

    def open(self) -> Cluster:
        """The cluster of the folder, for who needs no file but the configuration."""
        return self._open(read_config(self.folder, self.findings))

    def open_desired(self) -> tuple[Cluster, Desired]:
        """The cluster of the folder, and what the folder asks for, which is right."""
        self.desired = read_desired(self.folder, self.findings)
        return self._open(self.desired.config), self.desired

    @contextmanager
    def holding(self, operation: str, *, is_locked: bool, actor: str | None) -> Iterator[None]:
        """A block that nobody else is at work during."""
        assert self.cluster is not None, "a cluster is opened before it is held"
        lock = self.cluster.make_lock(operation, actor=actor) if is_locked else None
        with holding(lock, self.cluster.objects, self.findings):
            self.acquired = lock
            yield

    def heading(self) -> Heading:
        """What the report begins with; to be asked for last."""
        return Heading(str(self.folder), tuple(self.findings))

    def facts(self) -> StateFacts | None:
        """How the state and the lock are now; None if it is not even known where they are."""
        if self.cluster is None:
            return None
        root, objects = self.cluster.root.uri.rstrip("/"), self.cluster.objects
        stored: StoredLedger | None = None
        held: Lock | None = None
        with self.findings.stopping():
            stored = find_ledger(objects)
        with self.findings.stopping():
            held = find_lock(objects)
        return StateFacts(
            state_path=f"{root}/{STATE_PATH}",
            lock_path=f"{root}/{LOCK_PATH}",
            ledger=None if stored is None else stored.ledger,
            cas=None if stored is None else stored.cas,
            held=held,
            held_s=None if held is None else _age_of(held, self.world.runtime.now()),
            acquired=self.acquired,
        )

    def _open(self, config: ClusterConfig) -> Cluster:
        self.findings.require_no_errors()
        self.cluster = open_configured(config, self.folder, self.world)
        return self.cluster


def _age_of(lock: Lock, now: datetime) -> int | None:
    try:
        return max(0, int((now - datetime.fromisoformat(lock.created_at)).total_seconds()))
    except (ValueError, TypeError):
        return None
