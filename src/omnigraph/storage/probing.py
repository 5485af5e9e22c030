"""A trial of a storage before a graph is trusted to it.

Promises to work below a prefix that nobody else has, and to remove everything again however the
trial ends; what could not be removed is told. Knows what each probe means for a graph, and what to
change where one fails. Opens no graph: what is there stays unread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from omnigraph.model.errors import GraphError
from omnigraph.storage.durability import flush_path
from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.object_errors import storage_errors
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import ObjectStore
from omnigraph.storage.probe_ground import Ground, OpenObjects, make_ground
from omnigraph.storage.probes import (
    probe_access,
    probe_creating,
    probe_creating_races,
    probe_large,
    probe_listing,
    probe_locks,
    probe_reading,
    probe_replacing,
    probe_replacing_races,
    probe_wholeness,
)

CHECK_PREFIX = "__omnigraph_check"

_CONDITIONS = (
    "use a storage that honours `If-None-Match: *` and `If-Match` on PUT, or a newer release of "
    "this one; what stands between (a gateway, a proxy) must pass both headers on"
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
    """Something to try, what a graph has of it, and what to change if it fails."""

    name: str
    promise: str
    advice_on_bucket: str
    advice_on_disk: str
    run: Callable[[Ground], str | None]


@dataclass(frozen=True, slots=True)
class Probed:
    """What came of one probe: `problem` is what was seen that must not be, None if nothing."""

    name: str
    promise: str
    problem: str | None
    advice: str | None

    @property
    def is_ok(self) -> bool:
        """Whether the storage keeps this promise, as far as the trial can tell."""
        return self.problem is None


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of all probes; without access to the storage there are no others."""

    uri: str
    probed: tuple[Probed, ...]
    is_complete: bool

    @property
    def is_passed(self) -> bool:
        """Whether a graph may be trusted to this storage."""
        return self.is_complete and all(each.is_ok for each in self.probed)


_ACCESS = Probe(
    "access",
    "objects can be written, read, listed and deleted here",
    "say who asks and where (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and for another "
    "storage than AWS AWS_ENDPOINT_URL_S3), and allow these credentials to get, put, list and "
    "delete objects below this prefix",
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
        "who reads while another writes never sees half of a file",
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


def try_storage(location: Location, *, id: str, open_store: OpenObjects) -> Trial:
    """Run every probe below a prefix of this id, and remove what they wrote."""
    place = parse_location(
        f"{location.uri}/{CHECK_PREFIX}/{id}", storage_options=location.storage_options
    )
    ground = make_ground(place, open_store)
    probed: list[Probed] = []
    has_access = False
    with _removing_folders(location):
        try:
            probed.append(_run(_ACCESS, ground, place))
            has_access = probed[0].is_ok
            if has_access:
                probed += [_run(each, ground, place) for each in _probes_of(place)]
        finally:
            # Also when somebody interrupts us.
            removed = _run(_removal_of(open_store(location), place), ground, place)
    if has_access or not removed.is_ok:
        probed.append(removed)
    return Trial(location.uri, tuple(probed), is_complete=has_access)


def open_durably(location: Location) -> ObjectStore:
    """The objects of a place as a graph opens them."""
    return open_objects(location, is_durable=True)


def _probes_of(place: Location) -> tuple[Probe, ...]:
    if not place.is_local:
        return _PROBES
    flushing = Probe(
        "flush and rename",
        "what was committed survives the loss of power",
        "",
        "use a file system whose files and folders can be flushed (fsync), on a disk without "
        "faults",
        lambda ground: _probe_flushing(ground, Path(place.root)),
    )
    return (*_PROBES, flushing)


def _run(probe: Probe, ground: Ground, place: Location) -> Probed:
    try:
        problem = probe.run(ground)
    except GraphError as error:
        # Told as a problem of this probe, so that the others are still made.
        problem = str(error)
    advice = probe.advice_on_disk if place.is_local else probe.advice_on_bucket
    return Probed(probe.name, probe.promise, problem, None if problem is None else advice)


def _removal_of(objects: ObjectStore, place: Location) -> Probe:
    prefix = "/".join(place.uri.rsplit("/", 2)[1:])

    def remove(ground: Ground) -> str | None:
        own = ground.open_objects()
        for path in sorted(ground.written):
            # One by one, because a listing that lags would leave some of them out.
            own.delete(path)
        objects.delete_prefix(prefix)
        return None if _is_empty(own) else f"objects are left below {place.uri}"

    return Probe(
        "clean-up",
        "everything that the check wrote is gone again",
        f"allow these credentials to list and delete objects, and delete {place.uri}",
        f"see who owns the folder, and delete {place.uri}",
        remove,
    )


def _is_empty(objects: ObjectStore) -> bool:
    found = objects.list("")
    return not found.token_by_name and not found.prefixes


@contextmanager
def _removing_folders(location: Location) -> Iterator[None]:
    """Remove folders that the block made on the way to its files, if they are empty again."""
    if not location.is_local:
        yield
        return
    check = Path(location.root) / CHECK_PREFIX
    made = [each for each in (check, *check.parents) if not each.exists()]
    try:
        yield
    finally:
        for folder in dict.fromkeys([check, *made]):
            # Somebody else uses it, or nobody ever made it.
            with suppress(OSError):
                folder.rmdir()


def _probe_flushing(ground: Ground, root: Path) -> str | None:
    objects = ground.open_objects()
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
