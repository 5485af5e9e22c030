"""Lazy forks: the first write of a branch to a table gives the branch a line of its own.

The caller holds the write locks of every table it will touch, from before the fork until after
the publish. A line that the manifest does not name is what a dead writer left: if anything was
added to it, it is removed and forked afresh, so a branch never shows rows that were never published
on it.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.engine.commit.fencing import require_kept
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.engine.state.snapshot import Entry, type_name_of
from omnigraph.model.errors import (
    AlreadyExistsError,
    ExpectedVersionMismatchError,
    ReadSetChangedError,
)
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.failpoints import Failpoint, Failpoints
from omnigraph.storage.locks import HeldLocks
from omnigraph.storage.ports import TableRef, TableStore


def needs_fork(entry: Entry, branch: BranchName) -> bool:
    """Whether a write on a branch would touch a line that belongs to another."""
    return branch not in (MAIN, entry.branch)


def fork(
    entry: Entry,
    *,
    branch: BranchName,
    state: ManifestState,
    held: HeldLocks,
    tables: TableStore,
    failpoints: Failpoints,
) -> Entry:
    """The entry on the branch's own line, which starts at the version that the entry names.

    `state` is the branch's manifest as it is now, under the locks that are `held`.
    """
    current = state.snapshot.get(entry.table_key)
    if current != entry:
        raise ExpectedVersionMismatchError(
            table_key=entry.table_key, expected=entry.version, actual=current.version
        )
    failpoints.maybe_fail(Failpoint.FORK_BEFORE_CLASSIFY)
    line = TableRef(entry.path, branch)
    if branch in tables.branches(entry.path):
        if tables.is_fresh_fork(line, of=entry.at):
            # Nothing was ever added to it. Files may lie there that a long write is about to name.
            return replace(entry, branch=branch)
        failpoints.maybe_fail(Failpoint.FORK_BEFORE_RECLAIM)
        # It was there before we asked, so if it is still our turn, nobody has published it.
        require_kept(held)
        tables.delete_branch(line)
    try:
        tables.fork(entry.at, branch=branch)
    except AlreadyExistsError as error:
        # Only somebody who took our turn makes it at the same time.
        raise ReadSetChangedError(
            member=f"the line of {type_name_of(entry.table_key)}",
            expected="none",
            actual="one that somebody else made",
        ) from error
    return replace(entry, branch=branch)
