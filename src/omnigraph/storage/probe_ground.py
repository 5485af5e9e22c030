"""The ground on which probes try a storage: clients, uploads and locks, below one prefix.

Promises to remember what was written, so that it can be removed even where listings lag. Knows
nothing of what the probes look for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from omnigraph.model.limits import LEASE_S
from omnigraph.model.runtime import SystemClock
from omnigraph.storage.locations import Location
from omnigraph.storage.locks import Locking, LockKey, ProcessLocks, open_write_locks
from omnigraph.storage.object_errors import storage_errors
from omnigraph.storage.objects import open_bucket
from omnigraph.storage.ports import Listing, ObjectStore, StoredObject

LOCK_PATIENCE_S = 0.5
"""How long a probe waits for a lock that it keeps itself, to see that it does not get it."""

_PART_BYTES = 5 * 1024 * 1024

OpenObjects = Callable[[Location], ObjectStore]


@dataclass(frozen=True, slots=True)
class Ground:
    """A place of our own to try things in, and the paths below it that were ever written.

    `open_objects` gives another client each time. `put_large` writes as files of rows are written.
    `hold_lock` takes the one lock there is, as another process would each time.
    """

    open_objects: Callable[[], ObjectStore]
    put_large: Callable[[str, bytes], None]
    hold_lock: Callable[[], AbstractContextManager[object]]
    written: set[str]


def make_ground(place: Location, open_store: OpenObjects) -> Ground:
    """The ground below a place; nothing is asked of the storage yet."""
    written: set[str] = set()

    def open_noting() -> ObjectStore:
        return _NotingObjects(open_store(place), written)

    def put_large(path: str, content: bytes) -> None:
        written.add(path)
        if place.bucket is None:
            open_store(place).put(path, content)
            return
        bucket = open_bucket(place.bucket, place.prefix, place.storage_options)
        with storage_errors(f"write {place.uri}/{path} in parts"):
            bucket.put(path, content, use_multipart=True, chunk_size=_PART_BYTES)

    def hold_lock() -> AbstractContextManager[object]:
        locks = open_write_locks(
            place,
            objects=open_noting(),
            # Locks of their own each time, as those of another process are.
            locking=Locking(ProcessLocks(), SystemClock(), LEASE_S),
            fence=lambda _: None,
            timeout_s=LOCK_PATIENCE_S,
        )
        return locks.hold([LockKey("check", None)])

    return Ground(open_noting, put_large, hold_lock, written)


class _NotingObjects:
    """A store that notes the paths that are written."""

    def __init__(self, objects: ObjectStore, written: set[str]) -> None:
        self._objects = objects
        self._written = written

    def find(self, path: str) -> StoredObject | None:
        return self._objects.find(path)

    def list(self, prefix: str) -> Listing:
        return self._objects.list(prefix)

    def tokens(self, prefix: str) -> Mapping[str, str]:
        return self._objects.tokens(prefix)

    def put(self, path: str, content: bytes) -> str:
        self._written.add(path)
        return self._objects.put(path, content)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        self._written.add(path)
        return self._objects.put_if_absent(path, content)

    def put_if_match(self, path: str, content: bytes, *, token: str) -> str | None:
        self._written.add(path)
        return self._objects.put_if_match(path, content, token=token)

    def delete(self, path: str) -> None:
        self._objects.delete(path)

    def delete_prefix(self, prefix: str) -> None:
        self._objects.delete_prefix(prefix)
