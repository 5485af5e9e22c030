"""Stores of objects that break one promise each, for those who must notice.

A defect is one that storages have had: a proxy that drops a condition, a cache, a listing that
lags, a check that is not one step with the write. Everything else goes to a real store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.storage.locations import Location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import Listing, ObjectStore, StoredObject

# Long enough for every racer to look before the first one writes.
LAPSE_S = 0.05
LARGE_BYTES_MIN = 8 * 1024 * 1024


class Defect(StrEnum):
    """What is wrong with a store."""

    CREATE_OVERWRITES = "a create that must find nothing overwrites"
    MATCH_OVERWRITES = "a replace that expects something overwrites whatever is there"
    REFUSAL_WRITES = "a refused replace is done all the same"
    REFUSES_ALL = "every conditional write is refused"
    CHECKS_FIRST = "conditions are looked at first, and written later"
    STALE_READS = "the first read of what was replaced gives what was there before"
    LAGGING_LISTINGS = "a listing shows what was there before the last write"
    OTHER_TAGS = "listings show tags that no write returned"
    TORN_WRITES = "an object is written in two steps"
    SHORT_UPLOADS = "a large object is cut"
    CACHED_READS = "reads return what this client wrote"
    FORGETS_LEASES = "leases are never found and never block"
    KEEPS_DELETED = "nothing is ever deleted"


@dataclass(slots=True)
class _Memory:
    stale: dict[str, StoredObject] = field(default_factory=dict)
    shown: dict[str, Listing] = field(default_factory=dict)
    cached: dict[str, bytes] = field(default_factory=dict)


def defective(defect: Defect) -> Callable[[Location], ObjectStore]:
    """Clients of one storage with a defect."""
    memory = _Memory()
    return lambda location: DefectiveObjects(
        open_objects(location, is_durable=False), defect, memory
    )


class DefectiveObjects:
    """One client of it."""

    def __init__(self, objects: ObjectStore, defect: Defect, memory: _Memory) -> None:
        self._objects = objects
        self._defect = defect
        self._memory = memory

    def find(self, path: str) -> StoredObject | None:
        found = self._objects.find(path)
        match self._defect:
            case Defect.STALE_READS:
                return self._memory.stale.pop(path, found)
            case Defect.FORGETS_LEASES if "__leases" in path:
                return None
            case Defect.CACHED_READS if found and path in self._memory.cached:
                return StoredObject(self._memory.cached[path], found.token)
            case _:
                return found

    def list(self, prefix: str) -> Listing:
        found = self._objects.list(prefix)
        match self._defect:
            case Defect.LAGGING_LISTINGS:
                before = self._memory.shown.get(prefix, Listing({}, frozenset()))
                self._memory.shown[prefix] = found
                return before
            case Defect.OTHER_TAGS:
                return Listing(dict.fromkeys(found.token_by_name, '"0"'), found.prefixes)
            case _:
                return found

    def tokens(self, prefix: str) -> Mapping[str, str]:
        return self.list(prefix).token_by_name

    def put(self, path: str, content: bytes) -> str:
        before = self._objects.find(path)
        if self._defect is Defect.STALE_READS and before is not None:
            self._memory.stale[path] = before
        if self._defect is Defect.SHORT_UPLOADS and len(content) > LARGE_BYTES_MIN:
            content = content[:LARGE_BYTES_MIN]
        if self._defect is Defect.TORN_WRITES:
            self._objects.put(path, content[: len(content) // 2])
            time.sleep(LAPSE_S)
        self._memory.cached[path] = content
        return self._objects.put(path, content)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        match self._defect:
            case Defect.CREATE_OVERWRITES:
                self._objects.put(path, content)
                return True
            case Defect.FORGETS_LEASES if "__leases" in path:
                self._objects.put(path, content)
                return True
            case Defect.REFUSES_ALL:
                return False
            case Defect.CHECKS_FIRST:
                is_free = self._objects.find(path) is None
                time.sleep(LAPSE_S)
                if is_free:
                    self._objects.put(path, content)
                return is_free
            case _:
                return self._objects.put_if_absent(path, content)

    def put_if_match(self, path: str, content: bytes, *, token: str) -> str | None:
        match self._defect:
            case Defect.MATCH_OVERWRITES:
                return self._objects.put(path, content)
            case Defect.REFUSAL_WRITES:
                landed = self._objects.put_if_match(path, content, token=token)
                if landed is None:
                    self._objects.put(path, content)
                return landed
            case Defect.REFUSES_ALL:
                return None
            case Defect.CHECKS_FIRST:
                found = self._objects.find(path)
                time.sleep(LAPSE_S)
                is_expected = found is not None and found.token == token
                return self._objects.put(path, content) if is_expected else None
            case _:
                self._memory.cached.pop(path, None)
                return self._objects.put_if_match(path, content, token=token)

    def delete(self, path: str) -> None:
        if self._defect is not Defect.KEEPS_DELETED:
            self._objects.delete(path)

    def delete_prefix(self, prefix: str) -> None:
        if self._defect is not Defect.KEEPS_DELETED:
            self._objects.delete_prefix(prefix)
