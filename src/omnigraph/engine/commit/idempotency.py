"""Keyed requests: a request that is repeated with the same key takes effect once.

The commit that answered a request records its key and the response, so no state beside history can
be lost or disagree with it. A key belongs to an actor and a branch. The writer checks for the key
in the state that the write is prepared on, again under the locks, and again when it publishes on a
later state; so does the recovery of the write.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import (
    GRAPH_COMMIT,
    STATE_COLUMNS,
    ManifestState,
    decode_commits,
    table_branch_of,
)
from omnigraph.model.errors import AlreadyExistsError, ReadSetChangedError
from omnigraph.model.limits import REQUEST_LOCKS
from omnigraph.storage.locks import LockKey
from omnigraph.storage.ports import TableReader
from omnigraph.storage.predicates import And, HasText, Operator, compare, equals


@dataclass(frozen=True, slots=True)
class Request:
    """A keyed request: the key that its caller supplied, and a digest of the request."""

    key: str
    digest: str


def find_recorded_commit(
    request: Request, *, actor: str | None, state: ManifestState, since: int, tables: TableReader
) -> Commit | None:
    """The commit that answered a request on a branch after a version of its manifest, if any.

    Raises `AlreadyExistsError` if the key was used for a different request.
    """
    found = find_keyed(request.key, actor=actor, state=state, since=since, tables=tables)
    recorded = None if found is None else found.notes.request
    if found is not None and recorded is not None and recorded.digest != request.digest:
        raise AlreadyExistsError(
            kind="idempotency key",
            name=request.key,
            advice=f"commit {found.id} answered another request by it; nothing was written; "
            "a new request needs a new key",
        )
    return found


def find_keyed(
    key: str, *, actor: str | None, state: ManifestState, since: int, tables: TableReader
) -> Commit | None:
    """The commit with an actor's key on a branch after a version of its manifest, if any."""
    if state.at.version <= since:
        return None
    # The key as the row encodes it, so that the storage returns that row and perhaps accidental
    # matches.
    encoded = f'"request":[{orjson.dumps(key).decode()},'
    predicate = And(
        (
            equals("object_type", GRAPH_COMMIT),
            compare("table_version", Operator.GT, since),
            HasText("metadata", encoded, is_prefix=False),
        )
    )
    rows = tables.scan(state.at, columns=STATE_COLUMNS, predicate=predicate)
    for commit in decode_commits(rows):
        recorded = commit.notes.request
        # A branch inherits the commits of its base, but not the requests that they answered.
        is_own = (commit.branch, commit.actor) == (state.branch, actor)
        if is_own and recorded is not None and recorded.key == key:
            return commit
    return None


def require_key_unused(
    key: str, *, actor: str | None, state: ManifestState, since: int, tables: TableReader
) -> None:
    """Raise `ReadSetChangedError` if a key was used on a branch after a version of its manifest."""
    found = find_keyed(key, actor=actor, state=state, since=since, tables=tables)
    if found is not None:
        raise ReadSetChangedError(
            member=f"the request with key '{key}'",
            expected="being unanswered",
            actual=f"commit {found.id}",
        )


def request_lock(key: str, branch: str) -> LockKey:
    """The lock by which requests with one key exclude each other, whatever types they write."""
    # Locks leave files on a local disk, so all keys share a few locks.
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4]) % REQUEST_LOCKS
    return LockKey(f"__request_{number:02}", table_branch_of(branch))
