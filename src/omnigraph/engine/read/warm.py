"""What reads made of immutable versions, kept for the next read.

A version of a table never changes, so neither does anything made from it: entries are not
invalidated, only the least used ones dropped when there are too many bytes. Safe to share between
threads; two that miss at once both make the entry, and one of them is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from omnigraph.model.observer import Event, Observer

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Warm(Generic[K, V]):
    """Values by key, up to a number of bytes; `size_of` says how many a value has.

    An observer, if there is one, is told what was found and what had to be made.
    """

    def __init__(
        self, *, bytes_max: int, size_of: Callable[[V], int], observer: Observer | None = None
    ) -> None:
        self._bytes_max = bytes_max
        self._size_of = size_of
        self._observer = observer
        self._lock = Lock()
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._bytes = 0

    def find(self, key: K) -> V | None:
        """What is kept under a key."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            found = self._kept[key]
        if self._observer is not None:
            self._observer.count(Event.WARM_HIT)
        return found

    def get(self, key: K, make: Callable[[], V]) -> V:
        """What is kept under a key, made now if nothing is."""
        found = self.find(key)
        if found is not None:
            return found
        if self._observer is not None:
            self._observer.count(Event.WARM_MISS)
        made = make()
        self.keep(key, made)
        return made

    def __contains__(self, key: K) -> bool:
        with self._lock:
            return key in self._kept

    def keep(self, key: K, made: V) -> None:
        """Keep a value under a key, unless there is one or it is too large."""
        size = self._size_of(made)
        with self._lock:
            # What alone has too many bytes would only push all others out.
            if key in self._kept or size > self._bytes_max:
                return
            self._kept[key] = made
            self._bytes += size
            while self._bytes > self._bytes_max and self._kept:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= self._size_of(dropped)


class Asked(Generic[K]):
    """How often something was asked for, so that what is asked again can be kept in memory."""

    def __init__(self, *, keys_max: int) -> None:
        self._keys_max = keys_max
        self._lock = Lock()
        self._count_by_key: OrderedDict[K, int] = OrderedDict()

    def note(self, key: K) -> int:
        """Count one more question and return how many there have been."""
        with self._lock:
            count = self._count_by_key.pop(key, 0) + 1
            self._count_by_key[key] = count
            if len(self._count_by_key) > self._keys_max:
                self._count_by_key.popitem(last=False)
            return count

    def count(self, key: K) -> int:
        """How many questions there have been."""
        with self._lock:
            return self._count_by_key.get(key, 0)
