"""Whether a table is where its branch says it is, and if not, whose doing that is.

A table that is ahead was moved by a write that has been published since, by one that stopped
half-way and left a sidecar, or by somebody from outside.
"""

from __future__ import annotations

from omnigraph.engine.commit.changes import PreparedWrite
from omnigraph.engine.commit.sidecar import Pin, list_sidecars
from omnigraph.engine.state.authority import Authority, Basis
from omnigraph.engine.state.snapshot import Entry, type_name_of
from omnigraph.model.errors import (
    CorruptError,
    DriftError,
    ExpectedVersionMismatchError,
    MovedError,
    ReadSetChangedError,
)
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.ports import ObjectStore, Stores


def require_same_branch(write: PreparedWrite, *, basis: Basis, authority: Authority) -> None:
    """Raise unless a branch is still the one that a write was prepared on; main always is.

    One that was made anew may have versions of the same numbers, with other rows in them.
    """
    if basis.branch == MAIN:
        return
    state = authority.state(basis.branch)
    if state.head.id == basis.head.id:
        return
    if not authority.has_commit(state, basis.head.id):
        raise ReadSetChangedError(
            member=f"branch '{basis.branch}'",
            expected=f"the one with commit {basis.head.id}",
            actual="another one of its name",
        )
    if write.schema is not None and state.head.schema_hash != basis.head.schema_hash:
        raise ReadSetChangedError(
            member=f"the schema of branch '{basis.branch}'",
            expected=str(basis.head.schema_hash),
            actual=str(state.head.schema_hash),
        )


def require_head_is_pin(
    entry: Entry,
    write: PreparedWrite,
    *,
    branch: BranchName,
    authority: Authority,
    stores: Stores,
) -> None:
    """Raise unless the newest version of a table is the one that a write was prepared on."""
    newest = stores.tables.find_head(entry.at.ref)
    if newest == entry.version:
        return
    if newest is None or newest < entry.version:
        # A branch that was deleted since took its lines of tables along; made anew it has others.
        state = authority.state(branch)
        if state.snapshot.entries.get(entry.table_key) != entry:
            raise moved(entry, state.version_of(entry.table_key), write)
        raise CorruptError(
            subject=f"the table of {type_name_of(entry.table_key)}",
            problem=f"history names its version {entry.version}, but it ends at {newest}; "
            f"restore {entry.path} from a copy",
        )
    pin = authority.state(branch).version_of(entry.table_key)
    if pin != entry.version:
        raise moved(entry, pin, write)
    if is_covered(entry, stores.objects):
        raise ReadSetChangedError(
            member=type_name_of(entry.table_key),
            expected=f"version {entry.version}",
            actual=f"version {newest}, of a write that stopped half-way",
        )
    raise DriftError(
        type=type_name_of(entry.table_key),
        expected=entry.version,
        actual=newest,
        advice="`omnigraph repair` shows what it was and adopts or refuses it",
    )


def is_covered(entry: Entry, objects: ObjectStore) -> bool:
    """Whether a sidecar explains why a table is ahead."""
    sidecars = list_sidecars(objects)
    return any(_is_pinned(entry, pin) for sidecar in sidecars for pin in sidecar.pins)


def moved(entry: Entry, pin: int, write: PreparedWrite) -> MovedError:
    """What a write is told that another has moved a table before."""
    if entry.table_key in write.changes:
        return ExpectedVersionMismatchError(
            table_key=entry.table_key, expected=entry.version, actual=pin
        )
    return ReadSetChangedError(
        member=type_name_of(entry.table_key),
        expected=f"version {entry.version}",
        actual=f"version {pin}",
    )


def _is_pinned(entry: Entry, pin: Pin) -> bool:
    return (pin.table_key, pin.table_branch) == (entry.table_key, entry.branch)
