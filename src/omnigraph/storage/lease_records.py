"""Leases as they are stored: one small object a branch, in `__leases/`, and what may be done to it.

Encoding and decoding are exact inverses; an object from a newer version is refused, never guessed
at. Every state of a lease differs from every other in its epoch or its heartbeat, because entity
tags may be equal where contents are. Knows no clock and waits for nobody.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson

from omnigraph.model.errors import CorruptError, UnavailableError
from omnigraph.model.limits import LEASE_CLOCK_SKEW_S_MAX
from omnigraph.model.temporal import read_moment
from omnigraph.storage.ports import ObjectStore

LEASES_PREFIX = "__leases"
LEASE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: the nonce tells it from an earlier one that had its number."""

    host: str
    process_id: int
    nonce: str


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may write on a branch, for the how manyth time, and until when.

    `branch` is None on main. The epoch grows whenever the lease changes hands and never shrinks:
    a lease that was let go stays where it is, with `is_held` false.
    """

    branch: str | None
    owner: Owner
    epoch: int
    heartbeat: int
    ttl_s: float
    since: datetime
    expires_at: datetime
    is_held: bool

    @property
    def state(self) -> tuple[Owner, int, int]:
        """What no two states of a lease have in common."""
        return (self.owner, self.epoch, self.heartbeat)

    def is_good(self, now: datetime) -> bool:
        """Whether its holder may well be alive at a moment, as far as clocks can tell."""
        return self.is_held and now <= self.expires_at + timedelta(seconds=LEASE_CLOCK_SKEW_S_MAX)


@dataclass(frozen=True, slots=True)
class SeenLease:
    """A lease as it was found, and the token that replacing it needs."""

    lease: Lease
    token: str


@dataclass(frozen=True, slots=True)
class LeaseObject:
    """Where the lease of one branch is."""

    objects: ObjectStore
    branch: str | None

    @property
    def path(self) -> str:
        """The object's path; names of branches have any length and slashes, a digest has not."""
        return (
            f"{LEASES_PREFIX}/{hashlib.sha256((self.branch or '').encode()).hexdigest()[:32]}.json"
        )

    def find(self) -> SeenLease | None:
        """The lease as it is now; None if nobody ever took it."""
        stored = self.objects.find(self.path)
        if stored is None:
            return None
        return SeenLease(decode_lease(stored.content, path=self.path), stored.token)

    def write(self, lease: Lease, *, after: SeenLease | None) -> SeenLease | None:
        """Durable effect: replace what was seen; what is there afterwards, ours or another's.

        An answer that got lost, also one to a request that was repeated, is found out by looking.
        """
        content = encode_lease(lease)
        try:
            token = None
            if after is None:
                self.objects.put_if_absent(self.path, content)
            else:
                token = self.objects.put_if_match(self.path, content, token=after.token)
        except UnavailableError:
            found = self.find()
            if found is not None and found.lease.state == lease.state:
                return found
            raise
        return self.find() if token is None else SeenLease(lease, token)


def encode_lease(lease: Lease) -> bytes:
    """The content of a lease's object."""
    document: dict[str, object] = {
        "format_version": LEASE_FORMAT,
        "branch": lease.branch,
        "owner": {
            "host": lease.owner.host,
            "process_id": lease.owner.process_id,
            "nonce": lease.owner.nonce,
        },
        "epoch": lease.epoch,
        "heartbeat": lease.heartbeat,
        "ttl_s": lease.ttl_s,
        "since": lease.since.isoformat(),
        "expires_at": lease.expires_at.isoformat(),
        "is_held": lease.is_held,
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def decode_lease(content: bytes, *, path: str) -> Lease:
    """The lease of an object, or `CorruptError`; the object is left as it is."""
    try:
        document: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _corrupt(path, "it is no JSON") from error
    match document:
        case {"format_version": int(version)} if version != LEASE_FORMAT:
            raise _corrupt(
                path, f"it has format {version}, this version of OmniGraph reads {LEASE_FORMAT}"
            )
        case {
            "format_version": int(),
            "branch": str() | None as branch,
            "owner": {"host": str(host), "process_id": int(process_id), "nonce": str(nonce)},
            "epoch": int(epoch),
            "heartbeat": int(heartbeat),
            "ttl_s": float() | int() as ttl_s,
            "since": str(since),
            "expires_at": str(expires_at),
            "is_held": bool(is_held),
        }:
            return Lease(
                branch=branch,
                owner=Owner(host, process_id, nonce),
                epoch=epoch,
                heartbeat=heartbeat,
                ttl_s=float(ttl_s),
                since=_decode_moment(since, path),
                expires_at=_decode_moment(expires_at, path),
                is_held=is_held,
            )
        case _:
            raise _corrupt(path, "a field is missing or has another type")


def _decode_moment(text: str, path: str) -> datetime:
    try:
        return read_moment(text)
    except ValueError as error:
        raise _corrupt(path, str(error)) from error


def _corrupt(path: str, problem: str) -> CorruptError:
    return CorruptError(
        subject=f"the lease {path}",
        problem=f"{problem}; nothing was written; upgrade this OmniGraph if a newer one wrote it, "
        "or delete the object when nobody writes to the graph",
    )
