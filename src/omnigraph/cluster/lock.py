"""The lock, `__cluster/lock.json`: who is at work on a cluster.

Made only where there is none, taken away by whoever made it. It does not expire and nobody looks
whether its holder lives: a person who knows does away with it, by its id.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.cluster.findings import Findings, StoppedError, error_finding, telling
from omnigraph.cluster.stored_fields import ShapeError, VersionError, decode_fields, encode_tree
from omnigraph.model.errors import GraphError

if TYPE_CHECKING:
    # Lance comes with it, and who only checks a folder does without.
    from omnigraph.storage.ports import ObjectStore

LOCK_PATH = "__cluster/lock.json"

_KNOWN = frozenset({"lock_id", "operation", "created_at", "pid", "host", "actor"})


@dataclass(frozen=True, slots=True)
class Lock:
    """Who holds a cluster: doing what, since when, and as which process of which machine."""

    id: str
    operation: str
    created_at: str
    process_id: int
    host: str | None
    actor: str | None

    def describe(self) -> str:
        """The holder in words."""
        by = "" if self.actor is None else f" by {self.actor}"
        on = "" if self.host is None else f" on {self.host}"
        since = f"since {self.created_at} (process {self.process_id}{on})"
        return f"`cluster {self.operation}`{by} {since}"


@contextmanager
def holding(lock: Lock | None, objects: ObjectStore, findings: Findings) -> Iterator[None]:
    """A block that nobody else is at work during; without a lock, a block and a warning.

    Stops at once if somebody else is at work.
    """
    if lock is None:
        findings.warn(
            "state_lock_disabled",
            "state.lock",
            "nothing keeps two commands from working at once; whoever is second is told only "
            "when it writes the state",
        )
        yield
        return
    take_lock(lock, objects)
    try:
        yield
    finally:
        # A crash before this leaves a lock that `force-unlock` takes away.
        _release(lock, objects, findings)


def take_lock(lock: Lock, objects: ObjectStore) -> None:
    """Durable effect: take the lock, or stop and tell who has it."""
    try:
        is_taken = objects.put_if_absent(LOCK_PATH, _encode(lock))
    except GraphError as error:
        # It may have been written all the same, and then nobody else would know whose it is.
        found = Findings()
        _release(lock, objects, found)
        raise StoppedError(
            error_finding("state_lock_error", LOCK_PATH, str(error)), *found
        ) from error
    held = None if is_taken else find_lock(objects)
    # A request whose answer got lost is sent again, and then it is our own lock that is in the way.
    if not is_taken and (held is None or held.id != lock.id):
        raise _stopped("state_lock_held", _tell_holder(held))


def find_lock(objects: ObjectStore) -> Lock | None:
    """The lock that is held, or None; stops if it cannot be read."""
    return _find(objects)[0]


def break_lock(id: str, own: Lock, objects: ObjectStore) -> Lock:
    """Durable effects: take away the lock of somebody else, by its exact id, or stop.

    Our own takes its place first, so that what is deleted cannot be that of a third, who came when
    the holder had gone by itself.
    """
    found, token = _find(objects)
    if found is None:
        raise _stopped("state_lock_missing", "nobody holds the cluster; there is nothing to unlock")
    if found.id != id:
        raise _stopped(
            "state_lock_id_mismatch",
            f"the lock is {found.id}, held for {found.describe()}; it was left as it is; to "
            f"unlock that one: `omnigraph cluster force-unlock {found.id}`",
        )
    with telling("state_lock_error", LOCK_PATH):
        is_ours = objects.put_if_match(LOCK_PATH, _encode(own), token=token) is not None
    held = own if is_ours else find_lock(objects)
    # A request whose answer got lost is sent again, and finds what it has written.
    if held is None or held.id != own.id:
        raise _stopped(
            "state_lock_id_mismatch",
            f"the lock {id} was let go meanwhile; whoever has it now keeps it",
        )
    with telling("state_lock_error", LOCK_PATH):
        # A crash here leaves our lock, which tells that it is one of a `force-unlock`.
        objects.delete(LOCK_PATH)
    return found


def _find(objects: ObjectStore) -> tuple[Lock | None, str]:
    """The lock that is held, if any, with the token of what is stored."""
    with telling("state_lock_read_error", LOCK_PATH):
        stored = objects.find(LOCK_PATH)
    if stored is None:
        return None, ""
    try:
        return _decode(stored.content), stored.token
    except VersionError as error:
        raise _stopped("unsupported_state_lock_version", str(error)) from error
    except ShapeError as error:
        raise _stopped("invalid_state_lock", str(error)) from error


def _release(lock: Lock, objects: ObjectStore, findings: Findings) -> None:
    try:
        stored = objects.find(LOCK_PATH)
        # Somebody may have broken the lock, and another have taken it since.
        if stored is not None and _decode(stored.content).id == lock.id:
            objects.delete(LOCK_PATH)
    except (GraphError, ShapeError, VersionError) as error:
        findings.warn(
            "state_lock_error",
            LOCK_PATH,
            f"the lock could not be taken away: {error}; when nobody is at work, "
            f"`omnigraph cluster force-unlock {lock.id}`",
        )


def _tell_holder(held: Lock | None) -> str:
    if held is None:
        return "somebody else was at work until just now; run the command again"
    return (
        f"the cluster is held for {held.describe()}; nothing was changed; wait for it, or, if it "
        f"no longer runs, `omnigraph cluster force-unlock {held.id}`"
    )


def _encode(lock: Lock) -> bytes:
    return encode_tree(
        {
            "version": 1,
            "lock_id": lock.id,
            "operation": lock.operation,
            "created_at": lock.created_at,
            "pid": lock.process_id,
            "host": lock.host,
            "actor": lock.actor,
        }
    )


def _decode(content: bytes) -> Lock:
    fields = decode_fields(content, version_key="version", known=_KNOWN)
    return Lock(
        id=fields.text("lock_id"),
        operation=fields.text("operation"),
        created_at=fields.text("created_at"),
        process_id=fields.number("pid"),
        host=fields.find_text("host"),
        actor=fields.find_text("actor"),
    )


def _stopped(code: str, message: str) -> StoppedError:
    return StoppedError(error_finding(code, LOCK_PATH, message))
