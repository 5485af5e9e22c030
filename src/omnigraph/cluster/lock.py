"""The cluster lock, `__cluster/lock.json`.

A command creates the lock only if none exists, and deletes its own lock. The lock does not expire,
and no process checks whether its holder is alive: an operator deletes a stale lock by its id.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.cluster.resources import (
    Findings,
    StoppedError,
    error_finding,
    stop_on_storage_error,
    stopped,
)
from omnigraph.cluster.state import ReadErrors, RecordFormat, StoredFields, find_decoded
from omnigraph.model.errors import GraphError

if TYPE_CHECKING:
    # The import brings in Lance, which a command that only checks a folder does not need.
    from omnigraph.storage.ports import ObjectStore

LOCK_PATH = "__cluster/lock.json"


@dataclass(frozen=True, slots=True)
class Lock:
    """The holder of a cluster: its operation, start time, process, machine and actor."""

    id: str
    operation: str
    created_at: str
    process_id: int
    host: str | None
    actor: str | None

    def describe(self) -> str:
        """A description of the holder for messages."""
        by = "" if self.actor is None else f" by {self.actor}"
        on = "" if self.host is None else f" on {self.host}"
        since = f"since {self.created_at} (process {self.process_id}{on})"
        return f"`cluster {self.operation}`{by} {since}"


_FORMAT = RecordFormat(
    Lock,
    version_key="version",
    fields={
        "lock_id": ("id", StoredFields.text),
        "operation": ("operation", StoredFields.text),
        "created_at": ("created_at", StoredFields.text),
        "pid": ("process_id", StoredFields.number),
        "host": ("host", StoredFields.find_text),
        "actor": ("actor", StoredFields.find_text),
    },
    codes=ReadErrors(
        "state_lock_read_error", "unsupported_state_lock_version", "invalid_state_lock"
    ),
)


@contextmanager
def hold_lock(lock: Lock | None, objects: ObjectStore, findings: Findings) -> Iterator[None]:
    """Hold the lock for the block; without a lock, only add a warning.

    Raises `StoppedError` if another command holds the lock.
    """
    if lock is None:
        findings.warn(
            "state_lock_disabled",
            "state.lock",
            "locking is disabled, so two commands may run at once; the second one fails only "
            "when it writes the state",
        )
        yield
        return
    take_lock(lock, objects)
    try:
        yield
    finally:
        # A crash before this leaves a lock that `force-unlock` deletes.
        _release(lock, objects, findings)


def take_lock(lock: Lock, objects: ObjectStore) -> None:
    """Durable effect: take the lock; raises `StoppedError` with the holder if it is taken."""
    try:
        is_taken = objects.put_if_absent(LOCK_PATH, _FORMAT.encode(lock))
    except GraphError as error:
        # The lock may have been written all the same, and would then have no known owner.
        found = Findings()
        _release(lock, objects, found)
        raise StoppedError(
            error_finding("state_lock_error", LOCK_PATH, str(error)), *found
        ) from error
    held = None if is_taken else find_lock(objects)
    # A request whose response was lost is sent again, and then finds our own lock.
    if not is_taken and (held is None or held.id != lock.id):
        message = "another command held the lock until just now; run the command again"
        if held is not None:
            message = (
                f"the cluster is locked by {held.describe()}; nothing was changed; wait for it, "
                f"or, if it is no longer running, run `omnigraph cluster force-unlock {held.id}`"
            )
        raise stopped("state_lock_held", LOCK_PATH, message)


def find_lock(objects: ObjectStore) -> Lock | None:
    """The current lock, or None; raises `StoppedError` if it cannot be read."""
    return _find(objects)[0]


def break_lock(id: str, own: Lock, objects: ObjectStore) -> Lock:
    """Durable effects: delete the lock of another command, by its exact id.

    Raises `StoppedError` if the id does not match. Our own lock replaces it first, so that the
    deleted lock cannot be that of a third command, which took it after the holder had released it.
    """
    found, token = _find(objects)
    if found is None:
        raise stopped("state_lock_missing", LOCK_PATH, "the cluster is not locked")
    if found.id != id:
        raise stopped(
            "state_lock_id_mismatch",
            LOCK_PATH,
            f"the lock is {found.id}, held by {found.describe()}; it was not removed; to "
            f"remove it, run `omnigraph cluster force-unlock {found.id}`",
        )
    with stop_on_storage_error("state_lock_error", LOCK_PATH):
        is_ours = objects.put_if_match(LOCK_PATH, _FORMAT.encode(own), token=token) is not None
    held = own if is_ours else find_lock(objects)
    # A request whose response was lost is sent again, and finds what it has written.
    if held is None or held.id != own.id:
        raise stopped(
            "state_lock_id_mismatch",
            LOCK_PATH,
            f"the lock {id} was released in the meantime; the current lock was not removed",
        )
    with stop_on_storage_error("state_lock_error", LOCK_PATH):
        # A crash here leaves our lock, which names `force-unlock` as its operation.
        objects.delete(LOCK_PATH)
    return found


def _find(objects: ObjectStore) -> tuple[Lock | None, str]:
    """The current lock, if any, with its storage token."""
    found = find_decoded(LOCK_PATH, _FORMAT.decode, objects, _FORMAT.codes)
    return (None, "") if found is None else (found[0], found[1].token)


def _release(lock: Lock, objects: ObjectStore, findings: Findings) -> None:
    try:
        held = find_lock(objects)
        # The lock may have been broken, and another command may have taken it since.
        if held is not None and held.id == lock.id:
            objects.delete(LOCK_PATH)
    except (GraphError, StoppedError) as error:
        findings.warn(
            "state_lock_error",
            LOCK_PATH,
            f"the lock could not be removed: {error}; when no command is running, run "
            f"`omnigraph cluster force-unlock {lock.id}`",
        )
