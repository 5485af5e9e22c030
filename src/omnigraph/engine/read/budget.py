"""Budgets and profiles of queries, and the memory that a graph caches.

A budget bounds the memory and time of one query; a profile records what the steps of one took.

A query that exceeds its budget fails with `LimitExceededError` and does not affect other work on
the machine. A cancelled query fails at its next check. A call can lower the limits of the graph but
never raise them. The caches of a graph share one memory, which drops the values that were not used
for the longest time. They are safe to share between threads; two threads that miss at once both
compute the value, and the cache retains one of them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from threading import Event, Lock, get_ident
from typing import Generic, TypeVar

from omnigraph.model import ports
from omnigraph.model.errors import InvalidValueError, LimitExceededError, UnavailableError
from omnigraph.storage.ports import ReadAccess, StorageRead

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_CODE_BYTES = 8


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The limits of one call; None is the limit of the graph.

    Setting `cancelled`, from any thread, stops the call. A limit that is not positive raises
    `InvalidValueError`.
    """

    seconds_max: float | None = None
    bytes_max: int | None = None
    cancelled: Event | None = None

    def __post_init__(self) -> None:
        for name, given in (("seconds_max", self.seconds_max), ("bytes_max", self.bytes_max)):
            # `given <= 0` would accept NaN.
            if given is not None and not given > 0:
                raise InvalidValueError(
                    subject=name,
                    expected="a positive number",
                    value=given,
                    problem=f"{given} leaves nothing to spend",
                )


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of each query of a graph; only differences between readings of `clock` are used.

    The caller sets `cancelled` to stop a query.
    """

    bytes_max: int
    seconds_max: float
    clock: Callable[[], float]
    cancelled: Event | None = None

    def within(self, limits: CallLimits | None) -> Allowance:
        """The allowance of a call; its limits can lower those of the graph, never raise them."""
        if limits is None:
            return self
        bytes_max = self.bytes_max if limits.bytes_max is None else limits.bytes_max
        seconds_max = self.seconds_max if limits.seconds_max is None else limits.seconds_max
        return replace(
            self,
            bytes_max=min(self.bytes_max, bytes_max),
            seconds_max=min(self.seconds_max, seconds_max),
            cancelled=limits.cancelled,
        )


class Budget:
    """The budget of one query; its time starts when the budget is created."""

    def __init__(self, allowance: Allowance) -> None:
        self._bytes_max = allowance.bytes_max
        self._seconds_max = allowance.seconds_max
        self._clock = allowance.clock
        self._cancelled = allowance.cancelled
        self._end = allowance.clock() + allowance.seconds_max

    def require_rows(self, count: int, *, width: int) -> None:
        """Raise unless `count` rows of `width` columns fit the budget and there is time left."""
        self.require_time()
        self.require_bytes(count * max(width, 1) * _CODE_BYTES)

    def require_bytes(self, count: int) -> None:
        """Raise `LimitExceededError` unless `count` bytes fit the budget."""
        if count > self._bytes_max:
            raise LimitExceededError(
                resource="the memory of a query in bytes", limit=self._bytes_max, found=count
            )

    def require_time(self) -> None:
        """Raise `LimitExceededError` after the time limit, and `UnavailableError` if cancelled."""
        if self._cancelled is not None and self._cancelled.is_set():
            raise UnavailableError(action="finish the query", reason="its caller stopped it")
        now = self._clock()
        if now > self._end:
            raise LimitExceededError(
                resource="the time of a query in seconds",
                limit=int(self._seconds_max),
                found=ceil(now - self._end + self._seconds_max),
            )


@dataclass(slots=True)
class Measurement:
    """What one step of a query took, including the steps inside it; filled while it runs.

    `rows` is the number of matches after the step, and `path` how a traversal found its edges. No
    `accesses` means that nothing was read.
    """

    rows: int = 0
    path: str | None = None
    seconds: float = 0.0
    bytes_read: int = 0
    accesses: set[ReadAccess] = field(default_factory=set)


class Profile:
    """The measurements of one query, in the order in which its steps began."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.measurements: list[Measurement] = []
        self._clock = clock
        self._thread = get_ident()
        self._running: list[Measurement] = []

    @contextmanager
    def step(self) -> Iterator[Measurement]:
        """A block that is measured as one step; the block sets the rows."""
        measured = Measurement()
        self.measurements.append(measured)
        self._running.append(measured)
        start = self._clock()
        yield measured
        measured.seconds = self._clock() - start
        self._running.pop()

    def note_path(self, path: str) -> None:
        """Set how the running step, a traversal, finds its edges."""
        self._running[-1].path = path

    def note_read(self, read: StorageRead) -> None:
        """Add a read to the running steps."""
        # Edges that are cached in the background are not part of the query that requested it.
        if get_ident() == self._thread:
            for each in self._running:
                each.bytes_read += read.bytes_read
                each.accesses.add(read.access)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The caches of an open graph: bytes by kind of value, and lookups since it was opened."""

    bytes_max: int
    bytes_by_kind: Mapping[str, int]
    hits: int
    misses: int
    evictions: int

    @property
    def bytes(self) -> int:
        """The memory of all cached values."""
        return sum(self.bytes_by_kind.values())


_Token = tuple[int, object]
"""The identity of a cache, and a key of it."""


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    size: int
    drop: Callable[[], object]


class CacheMemory:
    """The memory that several caches share: at most `bytes_max` bytes of values.

    An observer, if there is one, counts hits and misses.
    """

    def __init__(self, bytes_max: int, observer: ports.Observer | None) -> None:
        self.bytes_max = bytes_max
        self.lock = Lock()
        self._observer = observer
        self._entries: OrderedDict[_Token, _Entry] = OrderedDict()
        self._bytes_by_name: Counter[str] = Counter()
        self._bytes = 0
        self._hits, self._misses, self._evictions = 0, 0, 0

    def stats(self) -> CacheStats:
        """The present sizes and counts."""
        with self.lock:
            sizes = {name: size for name, size in sorted(self._bytes_by_name.items()) if size}
            return CacheStats(self.bytes_max, sizes, self._hits, self._misses, self._evictions)

    def count(self, *, is_hit: bool) -> None:
        """Count a lookup."""
        with self.lock:
            self._hits += is_hit
            self._misses += not is_hit
        if self._observer is not None:
            event = ports.Event.CACHE_HIT if is_hit else ports.Event.CACHE_MISS
            self._observer.count(event)

    # The caller holds the lock

    def touch(self, token: _Token) -> None:
        """Note that a value was used."""
        self._entries.move_to_end(token)

    def admit(self, token: _Token, *, name: str, size: int, drop: Callable[[], object]) -> bool:
        """Make room for a value; false if it exceeds the memory. `drop` evicts it later."""
        if size > self.bytes_max:
            # It would only evict all others.
            return False
        self._entries[token] = _Entry(name, size, drop)
        self._add(name, size)
        while self._bytes > self.bytes_max:
            _, evicted = self._entries.popitem(last=False)
            evicted.drop()
            self._add(evicted.name, -evicted.size)
            self._evictions += 1
        return True

    def _add(self, name: str, size: int) -> None:
        self._bytes += size
        self._bytes_by_name[name] += size


class LruCache(Generic[K, V]):
    """Values by key in a shared memory; `size_of` returns the bytes of a value."""

    def __init__(self, memory: CacheMemory, *, name: str, size_of: Callable[[V], int]) -> None:
        self.name = name
        self._memory = memory
        self._size_of = size_of
        self._value_by_key: dict[K, V] = {}

    def find(self, key: K) -> V | None:
        """The cached value of a key, or None."""
        with self._memory.lock:
            if key not in self._value_by_key:
                return None
            self._memory.touch((id(self), key))
            found = self._value_by_key[key]
        self._memory.count(is_hit=True)
        return found

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The cached value of a key; a miss calls `make` and caches its result."""
        found = self.find(key)
        if found is not None:
            return found
        self._memory.count(is_hit=False)
        value = make()
        self.put(key, value)
        return value

    def __contains__(self, key: K) -> bool:
        return key in self._value_by_key

    def __iter__(self) -> Iterator[K]:
        with self._memory.lock:
            return iter(tuple(self._value_by_key))

    def put(self, key: K, value: V) -> None:
        """Cache a value, unless the key has one already or the value is too large."""
        size = self._size_of(value)
        with self._memory.lock:
            if key in self._value_by_key:
                return
            drop = partial(self._value_by_key.pop, key)
            if self._memory.admit((id(self), key), name=self.name, size=size, drop=drop):
                self._value_by_key[key] = value


class UseCounter(Generic[K]):
    """Counts requests by key, so that a repeated request can be served from a cache."""

    def __init__(self, *, keys_max: int) -> None:
        self._keys_max = keys_max
        self._lock = Lock()
        self._count_by_key: OrderedDict[K, int] = OrderedDict()

    def note(self, key: K) -> int:
        """Count one more request and return the number of requests."""
        with self._lock:
            count = self._count_by_key.pop(key, 0) + 1
            self._count_by_key[key] = count
            if len(self._count_by_key) > self._keys_max:
                self._count_by_key.popitem(last=False)
            return count

    def count(self, key: K) -> int:
        """The number of requests."""
        with self._lock:
            return self._count_by_key.get(key, 0)
