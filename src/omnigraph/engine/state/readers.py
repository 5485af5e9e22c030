"""Reader claims: protect the versions that a long read uses from cleanup.

A short read needs no claim: versions remain for a while after they were replaced. A long read puts
an object into `__readers/` that names the versions it reads and is valid for a minute, and renews
it. A cleanup first writes the versions that it is about to delete to `__cleanups/` and then checks
for readers; a reader first writes its claim and then checks for cleanups. So at least one of two
that overlap sees the other: the cleanup spares the versions being read, or the read is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event, Lock, Thread

from omnigraph.engine.state.manifest import Snapshot
from omnigraph.model.errors import CorruptError, GraphError, NotFoundError
from omnigraph.model.limits import (
    CLEANUP_S_MAX,
    LEASE_CLOCK_SKEW_S_MAX,
    READER_GRACE_S,
    READER_LEASE_S,
)
from omnigraph.model.records import RecordError, decode_record, encode_record
from omnigraph.model.runtime import Clock
from omnigraph.storage.objects import read_records
from omnigraph.storage.ports import ObjectStore, TableRef, TableVersion

READERS_PREFIX = "__readers"
CLEANUPS_PREFIX = "__cleanups"

_FORMAT = 1
_ENDING = ".json"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadClaim:
    """Table versions that are being read or about to be deleted, and the expiry of the claim."""

    versions: frozenset[TableVersion]
    expires_at: datetime

    def is_over(self, now: datetime) -> bool:
        """Whether the claim has expired, allowing for the clock skew between two machines."""
        return now > self.expires_at + timedelta(seconds=LEASE_CLOCK_SKEW_S_MAX)


@dataclass(frozen=True, slots=True)
class Readers:
    """The claims of the readers and cleanups of one graph."""

    objects: ObjectStore
    clock: Clock

    @contextmanager
    def reading(self, snapshot: Snapshot, *, id: str, is_past: bool) -> Iterator[None]:
        """Protect the versions of a snapshot from cleanup for the duration of the block.

        `is_past` says that the snapshot was not current a short time ago, so that nothing else
        protects it; `NotFoundError` then means that it is being cleaned up. `id` must be new.
        """
        claim = _Claiming(
            f"{READERS_PREFIX}/{id}{_ENDING}", frozenset(each.at for each in snapshot), self
        )
        if is_past:
            claim.make()
        claim.keep_alive(first_s=READER_LEASE_S / 3 if is_past else READER_GRACE_S / 2)
        try:
            if is_past:
                self.require_retained(snapshot)
            yield
        finally:
            claim.let_go()

    def find_read(self) -> frozenset[TableVersion]:
        """Every version that an active reader claims."""
        return self._find(READERS_PREFIX)

    def forget_dead(self) -> None:
        """Durable effect: delete the claims of readers and cleanups that died."""
        for prefix in (READERS_PREFIX, CLEANUPS_PREFIX):
            for path, claim in self._claims(prefix):
                if claim.is_over(self.clock.now()):
                    self.objects.delete(path)

    @contextmanager
    def cleaning(self, versions: Iterable[TableVersion], *, id: str) -> Iterator[None]:
        """Durable effect: record the versions that the block is about to delete.

        Inside the block, `find_read` finds the versions that were being read by then.
        """
        path = f"{CLEANUPS_PREFIX}/{id}{_ENDING}"
        expires_at = self.clock.now() + timedelta(seconds=CLEANUP_S_MAX)
        self.objects.put(path, encode_claim(ReadClaim(frozenset(versions), expires_at)))
        # After a crash or a failure from here on, reads of these versions are refused until the
        # claim expires.
        yield
        self.objects.delete(path)

    def find_doomed(self) -> frozenset[TableVersion]:
        """Every version that an active cleanup is about to delete."""
        return self._find(CLEANUPS_PREFIX)

    def require_retained(self, snapshot: Snapshot) -> None:
        """Raise `NotFoundError` if a version of a snapshot is about to be deleted."""
        if self.find_doomed() & {each.at for each in snapshot}:
            raise NotFoundError(
                kind="version",
                name=f"{snapshot.manifest_version} of branch '{snapshot.branch}'",
                advice="it is being cleaned up",
            )

    def _find(self, prefix: str) -> frozenset[TableVersion]:
        now = self.clock.now()
        living = [claim.versions for _, claim in self._claims(prefix) if not claim.is_over(now)]
        return frozenset().union(*living)

    def _claims(self, prefix: str) -> Iterator[tuple[str, ReadClaim]]:
        for path, content in read_records(self.objects, prefix):
            yield path, decode_claim(content, path=path)


class _Claiming:
    """A reader's claim, written and renewed until it is released."""

    def __init__(self, path: str, versions: frozenset[TableVersion], readers: Readers) -> None:
        self._path = path
        self._versions = versions
        self._objects = readers.objects
        self._clock = readers.clock
        self._is_over = Event()
        self._writing = Lock()
        self._is_made = False

    def make(self) -> None:
        """Durable effect: write or renew the claim, valid from now for the length of a lease."""
        expires_at = self._clock.now() + timedelta(seconds=READER_LEASE_S)
        with self._writing:
            if not self._is_over.is_set():
                self._is_made = True
                self._objects.put(self._path, encode_claim(ReadClaim(self._versions, expires_at)))

    def keep_alive(self, *, first_s: float) -> None:
        """Write or renew the claim after some time, and repeatedly until it is released."""
        name = "omnigraph-reader"
        Thread(target=self._beat, args=(first_s,), name=name, daemon=True).start()

    def let_go(self) -> None:
        """Durable effect: stop renewing the claim, and delete it if it was written."""
        self._is_over.set()
        with self._writing:
            if not self._is_made:
                return
            try:
                self._objects.delete(self._path)
            except GraphError as error:
                # The read is complete, and the claim expires by itself.
                _LOG.warning("the claim of a reader stays until it expires: %s", error)

    def _beat(self, pause_s: float) -> None:
        while not self._clock.wait(self._is_over, timeout_s=pause_s):
            pause_s = READER_LEASE_S / 3
            try:
                self.make()
            except GraphError as error:
                _LOG.warning("the claim of a reader could not be renewed: %s", error)


@dataclass(frozen=True, slots=True)
class _StoredVersion:
    """A table version as a claim stores it."""

    table_path: str
    table_branch: str | None
    table_version: int


@dataclass(frozen=True, slots=True)
class _StoredClaim:
    """A claim as it is stored, with its versions in order."""

    expires_at: datetime
    versions: tuple[_StoredVersion, ...]


def encode_claim(claim: ReadClaim) -> bytes:
    """The content of a claim's object."""
    ordered = sorted(claim.versions, key=lambda at: (at.ref.path, at.ref.branch or "", at.version))
    stored = (_StoredVersion(at.ref.path, at.ref.branch, at.version) for at in ordered)
    return encode_record(_StoredClaim(claim.expires_at, tuple(stored)), version=_FORMAT)


def decode_claim(content: bytes, *, path: str) -> ReadClaim:
    """Decode the claim of an object; an invalid one raises `CorruptError` and is left in place."""
    try:
        stored = decode_record(_StoredClaim, content, version=_FORMAT)
    except RecordError as error:
        raise CorruptError(
            subject=f"the claim {path}",
            problem=f"{error}; nothing was deleted; upgrade this OmniGraph if a newer one wrote "
            "it, or delete the object when no process reads the graph",
        ) from error
    versions = (
        TableVersion(TableRef(each.table_path, each.table_branch), each.table_version)
        for each in stored.versions
    )
    return ReadClaim(frozenset(versions), stored.expires_at)
