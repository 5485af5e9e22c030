"""The storage check: probes whether a storage provides the guarantees that a graph needs.

The check works below a separate prefix and removes everything that it wrote, however it ends;
objects that cannot be removed are reported. Each probe uses the ports that a graph uses, with
several clients where several writers matter. Races are repeated, but a storage that fails rarely
may still pass. No graph is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier, Event
from typing import TypeVar

from omnigraph.model.errors import BusyError, GraphError
from omnigraph.model.limits import LEASE_S
from omnigraph.model.runtime import SystemClock
from omnigraph.storage.errors import storage_errors
from omnigraph.storage.fsync import flush_path
from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.locks import Locking, LockKey, ProcessLocks, open_write_locks
from omnigraph.storage.objects import open_bucket, open_objects
from omnigraph.storage.ports import Listing, ObjectStore, StoredObject

LOCK_PATIENCE_S = 0.5
"""How long a probe waits for a lock that it holds itself, to verify that it is refused."""

_PART_BYTES = 5 * 1024 * 1024

OpenObjects = Callable[[Location], ObjectStore]


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The location of a check, and the paths below it that were written."""

    place: Location
    open_store: OpenObjects
    written: set[str] = field(default_factory=set)

    def open_objects(self) -> ObjectStore:
        """A new client, which records what it writes."""
        return _NotingObjects(self.open_store(self.place), self.written)

    def put_large(self, path: str, content: bytes) -> None:
        """Write an object the way row files are written."""
        place = self.place
        self.written.add(path)
        if place.bucket is None:
            self.open_store(place).put(path, content)
            return
        bucket = open_bucket(place.bucket, place.prefix, place.storage_options)
        with storage_errors(f"write {place.uri}/{path} in parts"):
            bucket.put(path, content, use_multipart=True, chunk_size=_PART_BYTES)

    def hold_lock(self) -> AbstractContextManager[object]:
        """Hold the only lock there, each time as another process would."""
        locks = open_write_locks(
            self.place,
            objects=self.open_objects(),
            locking=Locking(ProcessLocks(), SystemClock(), LEASE_S),
            fence=lambda _: None,
            timeout_s=LOCK_PATIENCE_S,
        )
        return locks.hold([LockKey("check", None)])


class _NotingObjects:
    """A store that records the paths that are written."""

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


ROUNDS = 8
"""How often an operation is repeated that a storage may get wrong only occasionally."""

RACERS = 4
"""Writers that start at the same time: enough to collide, few enough for a small machine."""

RAISES = 5
"""How often each racer increments a shared number."""

ATTEMPTS_MAX = 200
"""Most attempts of a racer in all; each failed one means that another racer succeeded."""

LARGE_BYTES = 12 * 1024 * 1024 + 1
"""Three parts of a multipart upload, the last of them short."""

_WHOLE_BYTES = 64 * 1024

Outcome = TypeVar("Outcome")


def probe_access(ground: CheckContext) -> str | None:
    """Whether one object can be written, read, listed and deleted."""
    objects = ground.open_objects()
    objects.put("access", b"1")
    found = objects.find("access")
    objects.list("")
    objects.delete("access")
    return None if found and found.content == b"1" else "what was written is not there"


def probe_reading(ground: CheckContext) -> str | None:
    """Whether every client reads the latest write."""
    writer, reader = ground.open_objects(), ground.open_objects()
    for number in range(ROUNDS):
        path = f"reading/{number}"
        # Read before it exists, because some storages cache a negative response.
        if reader.find(path) is not None:
            return "an object was found that was never written"
        for content in (b"old", b"new"):
            writer.put(path, content)
            found = reader.find(path)
            if found is None:
                return "an object was not found after it had been written"
            if found.content != content:
                return "an object was read as it had been before it was replaced"
        writer.delete(path)
        if reader.find(path) is not None:
            return "an object was found after it had been deleted"
    return None


def probe_listing(ground: CheckContext) -> str | None:
    """Whether a listing shows exactly the existing objects, with their current tokens."""
    writer, reader = ground.open_objects(), ground.open_objects()
    tokens: dict[str, str] = {}
    for number in range(ROUNDS):
        tokens[f"{number}"] = writer.put(f"listing/{number}", b"old")
        if reader.list("listing").token_by_name.keys() != tokens.keys():
            return "a listing did not show an object that had been written"
    tokens["0"] = writer.put("listing/0", b"new")
    if reader.list("listing").token_by_name != tokens:
        return "a listing showed another entity tag than the write had been answered with"
    writer.put("listing/deeper/object", b"1")
    if reader.list("listing").prefixes != {"deeper"}:
        return "a listing did not show a prefix below which there is an object"
    for name in list(tokens):
        writer.delete(f"listing/{name}")
        del tokens[name]
        if reader.list("listing").token_by_name.keys() != tokens.keys():
            return "a listing showed an object that had been deleted"
    return None


def probe_creating(ground: CheckContext) -> str | None:
    """Whether a create-if-absent write is rejected where an object exists."""
    first, second = ground.open_objects(), ground.open_objects()
    if not first.put_if_absent("creating", b"first"):
        return "a conditional write was refused although there was no object"
    is_written = second.put_if_absent("creating", b"second")
    if is_written or not _holds(first, "creating", b"first"):
        return "a write that must find no object replaced one"
    return None


def probe_replacing(ground: CheckContext) -> str | None:
    """Whether a replace-if-match write is rejected where the content differs."""
    first, second = ground.open_objects(), ground.open_objects()
    stale = first.put("replacing", b"1")
    current = second.put_if_match("replacing", b"2", token=stale)
    if current is None or not _holds(first, "replacing", b"2"):
        return "a conditional write was refused although the object was the expected one"
    if first.put_if_match("replacing", b"3", token=stale) is not None:
        return "a write that expected an older object replaced a newer one"
    if not _holds(second, "replacing", b"2"):
        return "a write was refused and took effect all the same"
    second.delete("replacing")
    is_written = first.put_if_match("replacing", b"4", token=current) is not None
    if is_written or first.find("replacing") is not None:
        return "a write that expected an object was done although there was none"
    return None


def probe_creating_races(ground: CheckContext) -> str | None:
    """Whether exactly one of several concurrent creates of an object succeeds."""
    clients = [ground.open_objects() for _ in range(RACERS)]
    for number in range(ROUNDS):
        path = f"races/create-{number}"

        def create(racer: int, path: str = path) -> bool:
            return clients[racer].put_if_absent(path, b"%d" % racer)

        won = [racer for racer, is_won in enumerate(_race(create)) if is_won]
        if len(won) != 1:
            return f"of {RACERS} concurrent creations of one object, {len(won)} reported success"
        if not _holds(clients[0], path, b"%d" % won[0]):
            return "an object holds what a writer wrote that was refused"
    return None


def probe_replacing_races(ground: CheckContext) -> str | None:
    """Whether no concurrent update of a number is lost."""
    clients = [ground.open_objects() for _ in range(RACERS)]
    clients[0].put("races/number", b"0")
    if not all(_race(lambda racer: _raise_number(clients[racer]))):
        return "a writer never got its turn"
    found = clients[0].find("races/number")
    total = int(found.content) if found else 0
    if total != RACERS * RAISES:
        return f"of {RACERS * RAISES} changes by {RACERS} writers at once, {total} are there"
    return None


def probe_wholeness(ground: CheckContext) -> str | None:
    """Whether a concurrent reader of a replaced object sees either the old or the new content."""
    writer, reader = ground.open_objects(), ground.open_objects()
    contents = [bytes([digit]) * _WHOLE_BYTES for digit in b"01"]
    writer.put("whole", contents[0])
    is_over = Event()

    def read() -> Iterator[bool]:
        while not is_over.is_set():
            found = reader.find("whole")
            yield found is not None and found.content in contents

    with ThreadPoolExecutor(max_workers=1) as readers:
        reading = readers.submit(lambda: all(read()))
        try:
            for number in range(2 * ROUNDS):
                writer.put("whole", contents[number % 2])
        finally:
            is_over.set()
    return None if reading.result() else "who read while an object was replaced saw a part of it"


def probe_large(ground: CheckContext) -> str | None:
    """Whether a multipart upload arrives complete."""
    # All parts differ, so that a part in the wrong position is detected.
    content = b"".join(b"%08d" % number for number in range(LARGE_BYTES // 8 + 1))[:LARGE_BYTES]
    ground.put_large("large", content)
    if not _holds(ground.open_objects(), "large", content):
        return f"an object of {LARGE_BYTES} bytes was not read as it had been written"
    return None


def probe_locks(ground: CheckContext) -> str | None:
    """Whether a lock excludes others while it is held and can be taken after its release."""
    with ground.hold_lock(), suppress(BusyError), ground.hold_lock():
        return "two held one lock at once"
    with suppress(BusyError), ground.hold_lock():
        return None
    return "a lock could not be taken after it had been let go"


def probe_flushing(ground: CheckContext) -> str | None:
    """Whether a flushed file on a disk can be renamed and takes the place of another."""
    objects, root = ground.open_objects(), Path(ground.place.root)
    file, moved = root / "flushed" / "file", root / "flushed" / "moved"
    objects.put("flushed/file", b"old")
    with storage_errors(f"flush {root}"):
        for path in (file, file.parent, root):
            flush_path(path)
        file.rename(moved)
    objects.put("flushed/file", b"new")
    with storage_errors(f"rename {moved}"):
        moved.rename(file)
        flush_path(file.parent)
    found = objects.find("flushed/file")
    if found is None or found.content != b"old":
        return "a file that was renamed over another is not in its place"
    return None


def _raise_number(objects: ObjectStore) -> bool:
    """Increment the number `RAISES` times; returns whether all updates succeeded."""
    left, attempts = RAISES, 0
    while left and attempts < ATTEMPTS_MAX:
        attempts += 1
        found = objects.find("races/number")
        if found is None:
            return False
        raised = b"%d" % (int(found.content) + 1)
        left -= objects.put_if_match("races/number", raised, token=found.token) is not None
    return left == 0


def _race(attempt: Callable[[int], Outcome]) -> list[Outcome]:
    start = Barrier(RACERS)

    def run(racer: int) -> Outcome:
        start.wait()
        return attempt(racer)

    with ThreadPoolExecutor(max_workers=RACERS) as racers:
        return list(racers.map(run, range(RACERS)))


def _holds(objects: ObjectStore, path: str, content: bytes) -> bool:
    found = objects.find(path)
    return found is not None and found.content == content


CHECK_PREFIX = "__omnigraph_check"

_CONDITIONS = (
    "use a storage that honours `If-None-Match: *` and `If-Match` on PUT, or a newer release of "
    "this one; a gateway or proxy in between must pass both headers on"
)
_LINKS = (
    "use a file system with hard links, renames and `flock` that work, such as ext4 or xfs; not "
    "FAT, and no network disk that was mounted with `nolock`"
)
_CONSISTENCY = (
    "use a storage whose reads and listings are consistent at once; turn off caches and replicas "
    "that stand between, and read from the place that is written to"
)
_CACHES = "turn off the attribute cache of the network disk (for NFS: `noac`), or use a local one"


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe, the guarantee that it tests, and the advice if it fails."""

    name: str
    promise: str
    advice_on_bucket: str
    advice_on_disk: str
    run: Callable[[CheckContext], str | None]


@dataclass(frozen=True, slots=True)
class Probed:
    """The result of one probe; `problem` describes the observed violation, if any."""

    name: str
    promise: str
    problem: str | None
    advice: str | None

    @property
    def is_ok(self) -> bool:
        """Whether the probe observed no violation of this guarantee."""
        return self.problem is None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The results of all probes; without access to the storage no other probe is run."""

    uri: str
    probed: tuple[Probed, ...]
    is_complete: bool

    @property
    def is_passed(self) -> bool:
        """Whether the storage is safe for a graph."""
        return self.is_complete and all(each.is_ok for each in self.probed)


_ACCESS = Probe(
    "access",
    "objects can be written, read, listed and deleted here",
    "set credentials and region (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and for "
    "another storage than AWS AWS_ENDPOINT_URL_S3), and allow these credentials to get, put, list "
    "and delete objects below this prefix",
    "let the user who runs OmniGraph read and write this folder",
    probe_access,
)
_PROBES = (
    Probe(
        "read-after-write",
        "every reader sees the newest commit, and no deleted file comes back",
        _CONSISTENCY,
        _CACHES,
        probe_reading,
    ),
    Probe(
        "listing",
        "recovery and clean-up find every file that was written",
        _CONSISTENCY,
        _CACHES,
        probe_listing,
    ),
    Probe(
        "create-if-absent",
        "no commit and no lock takes the place of another",
        _CONDITIONS,
        _LINKS,
        probe_creating,
    ),
    Probe(
        "replace-if-match",
        "a writer that was overtaken is refused and overwrites nothing",
        _CONDITIONS,
        _LINKS,
        probe_replacing,
    ),
    Probe(
        "racing creates",
        "of writers that commit at the same moment exactly one wins",
        _CONDITIONS,
        _LINKS,
        probe_creating_races,
    ),
    Probe(
        "racing replaces",
        "no change is lost when several processes write at once",
        _CONDITIONS,
        _LINKS,
        probe_replacing_races,
    ),
    Probe(
        "whole objects",
        "a reader never sees a partially written file",
        _CONSISTENCY,
        _LINKS,
        probe_wholeness,
    ),
    Probe(
        "large objects",
        "files of rows arrive whole, also in several parts",
        "allow uploads in parts (multipart), raise limits on the size of requests, and allow "
        "AbortMultipartUpload",
        "make room on the disk, and raise the limit on the size of files (`ulimit -f`)",
        probe_large,
    ),
    Probe(
        "locks",
        "writers of one branch wait for each other instead of being refused",
        _CONDITIONS,
        _LINKS,
        probe_locks,
    ),
)

_FLUSHING = Probe(
    "flush and rename",
    "what was committed survives the loss of power",
    "",
    "use a file system whose files and folders can be flushed (fsync), on a disk without faults",
    probe_flushing,
)


def check_storage(location: Location, *, id: str, open_store: OpenObjects) -> CheckReport:
    """Run every probe below a prefix with this id, and delete what they wrote."""
    place = parse_location(
        f"{location.uri}/{CHECK_PREFIX}/{id}", storage_options=location.storage_options
    )
    ground = CheckContext(place, open_store)
    probed: list[Probed] = []
    has_access = False
    with _removing_folders(location):
        try:
            probed.append(_run(_ACCESS, ground))
            has_access = probed[0].is_ok
            if has_access:
                probes = (*_PROBES, _FLUSHING) if place.is_local else _PROBES
                probed += [_run(each, ground) for each in probes]
        finally:
            # Also after an interrupt.
            removed = _run(_removal_of(open_store(location), place), ground)
    if has_access or not removed.is_ok:
        probed.append(removed)
    return CheckReport(location.uri, tuple(probed), is_complete=has_access)


def open_durably(location: Location) -> ObjectStore:
    """The objects of a location, opened the way a graph opens them."""
    return open_objects(location, is_durable=True)


def _run(probe: Probe, ground: CheckContext) -> Probed:
    try:
        problem = probe.run(ground)
    except GraphError as error:
        # Reported as a problem of this probe, so that the remaining probes still run.
        problem = str(error)
    advice = probe.advice_on_disk if ground.place.is_local else probe.advice_on_bucket
    return Probed(probe.name, probe.promise, problem, None if problem is None else advice)


def _removal_of(objects: ObjectStore, place: Location) -> Probe:
    prefix = "/".join(place.uri.rsplit("/", 2)[1:])

    def remove(ground: CheckContext) -> str | None:
        own = ground.open_objects()
        for path in sorted(ground.written):
            # One by one, because a stale listing would omit some of them.
            own.delete(path)
        objects.delete_prefix(prefix)
        left = own.list("")
        is_empty = not left.token_by_name and not left.prefixes
        return None if is_empty else f"objects are left below {place.uri}"

    return Probe(
        "clean-up",
        "everything that the check wrote is gone again",
        f"allow these credentials to list and delete objects, and delete {place.uri}",
        f"see who owns the folder, and delete {place.uri}",
        remove,
    )


@contextmanager
def _removing_folders(location: Location) -> Iterator[None]:
    """Remove the folders that the block created above its files, if they are empty again."""
    if not location.is_local:
        yield
        return
    check = Path(location.root) / CHECK_PREFIX
    made = [each for each in (check, *check.parents) if not each.exists()]
    try:
        yield
    finally:
        for folder in dict.fromkeys([check, *made]):
            # Another process uses it, or it was never created.
            with suppress(OSError):
                folder.rmdir()
