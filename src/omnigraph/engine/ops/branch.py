"""Branches: a branch of the graph is a Lance branch of the manifest, and nothing else at first.

Creating one copies no rows. Tables fork when the branch first writes them. Deleting one is a single
step as well: once the manifest's branch is gone, so is the graph's, and what remains of its lines
is only space. Whoever creates or deletes a branch holds the turn to publish on it, so nobody
publishes on a branch that goes away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from omnigraph.engine.commit.fencing import require_kept
from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.ops.tags import find_tag_on
from omnigraph.engine.state.contract import SCHEMA_LOCK
from omnigraph.engine.state.manifest import MANIFEST_PATH, manifest_ref
from omnigraph.model.errors import (
    AlreadyExistsError,
    GraphError,
    InvalidNameError,
    StillNeededError,
    UnavailableError,
    UncertainError,
)
from omnigraph.model.names import MAIN, BranchName, is_internal_branch
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.locks import HeldLocks, LockKey
from omnigraph.storage.ports import TableRef

_LOG = logging.getLogger(__name__)


def ensure_branch(
    name: BranchName, *, base: BranchName, if_head: str | None, path: WritePath
) -> bool:
    """Whether a branch had to be made; somebody else may have made it meanwhile."""
    try:
        create_branch(name, base=base, if_head=if_head, path=path)
    except AlreadyExistsError:
        return False
    return True


def create_branch(
    name: BranchName, *, base: BranchName, if_head: str | None, path: WritePath
) -> None:
    """Start a branch at the head of another; `AlreadyExistsError` if there is one of that name.

    `if_head` is the commit that the other must be at, or else `PreconditionFailedError`.
    `UncertainError` means that the storage answers neither whether the branch was made nor whether
    it is there.
    """
    if name == MAIN:
        raise InvalidNameError(kind="branch", name=name, rule="cannot create branch 'main'")
    # Whoever else makes the same branch, or one whose name is a folder of the other's, waits, and
    # then finds it; whoever deletes its base waits, and then finds this one. Nobody deletes main.
    turns = [LockKey(MANIFEST_PATH, each) for each in {*_list_folders(name), name, base} - {MAIN}]
    # Whoever changes the schema has looked at which branches there are.
    with path.locks.hold([SCHEMA_LOCK, *turns]) as held:
        _require_free(name, path)
        start = path.authority.capture(base).state
        path.require_head(if_head, start)
        if base != MAIN:
            require_kept(held)
        try:
            path.stores.tables.fork(start.at, branch=name)
            path.failpoints.maybe_fail(Failpoint.BRANCH_CREATE_AFTER_MANIFEST_BRANCH_CREATE)
        except (AlreadyExistsError, UnavailableError) as error:
            # An answer may get lost on its way, and a request that is repeated then be refused by
            # its own success; under the lock, nobody else made the branch.
            if not _is_there(name, path, after=error, deed="made"):
                raise


def delete_branch(name: BranchName, *, if_head: str | None, path: WritePath) -> None:
    """Delete a branch and what only it had; `StillNeededError` if something is made of it.

    `if_head` is the commit that it must be at, or else `PreconditionFailedError`.
    Waits for whoever writes on it; what died before was recovered by the caller. `UncertainError`
    means that the storage answers neither whether the branch was deleted nor whether it is there.
    """
    if name == MAIN:
        raise InvalidNameError(kind="branch", name=name, rule="cannot delete branch 'main'")
    tables = path.authority.state(name).path_by_table
    with (
        # In the order in which a writer takes them: its types, then its turn to publish.
        path.locks.hold([LockKey(table_key, name) for table_key in tables]) as held,
        path.locks.hold_within(held, [LockKey(MANIFEST_PATH, name)]) as turn,
    ):
        # Another may have deleted it while we waited.
        state = path.authority.state(name)
        path.require_head(if_head, state)
        path.failpoints.maybe_fail(Failpoint.BRANCH_DELETE_POST_TABLE_GATES)
        _require_untagged(name, path)
        remove_branch(name, state.path_by_table.values(), held=turn, path=path)


def remove_branch(
    name: BranchName, table_paths: Iterable[str], *, held: HeldLocks, path: WritePath
) -> None:
    """Delete a branch that nobody writes on, and its lines of tables; a missing one is fine.

    The caller holds its locks. A write on it that died is forgotten by the next recovery.
    """
    require_kept(held)
    try:
        # From here on there is no such branch: readers and writers are told so.
        path.stores.tables.delete_branch(manifest_ref(name))
        path.failpoints.maybe_fail(Failpoint.BRANCH_DELETE_POST_NATIVE)
    except UnavailableError as error:
        if _is_there(name, path, after=error, deed="deleted"):
            # Lance refuses as well, and does not say for whose sake.
            _require_childless(name, path)
            raise
    path.authority.forget(name)
    # A crash here leaves lines that nobody refers to; a branch of that name forks them afresh.
    for line in [TableRef(table_path, name) for table_path in sorted(set(table_paths))]:
        try:
            path.failpoints.maybe_fail(Failpoint.BRANCH_DELETE_BEFORE_TABLE_CLEANUP)
            if path.stores.tables.find_head(line) is not None:
                path.stores.tables.delete_branch(line)
        except GraphError as error:
            _LOG.warning("a line of the deleted branch '%s' stays: %s", name, error)


def _is_there(name: BranchName, path: WritePath, *, after: GraphError, deed: str) -> bool:
    try:
        return path.authority.has_branch(name)
    except UnavailableError as error:
        raise UncertainError(
            f"branch '{name}' may have been {deed}: {after}; see whether `branches` lists it"
        ) from error


def _list_folders(name: BranchName) -> list[BranchName]:
    parts = name.split("/")
    return [BranchName("/".join(parts[:count])) for count in range(1, len(parts))]


def _require_free(name: BranchName, path: WritePath) -> None:
    if path.authority.has_branch(name):
        raise AlreadyExistsError(kind="branch", name=name, advice="")
    other = path.authority.find_overlapping(name)
    if other is not None:
        raise InvalidNameError(
            kind="branch",
            name=name,
            rule=f"branch '{other}' exists, and one name may not be a folder of another",
        )


def _require_untagged(name: BranchName, path: WritePath) -> None:
    tag = find_tag_on(name, path.stores.objects)
    if tag is not None:
        raise StillNeededError(
            kind="branch",
            name=name,
            needed_by=f"tag '{tag.name}'",
            advice="delete the tag first, or keep the branch: its commits live on it",
        )


def _require_childless(name: BranchName, path: WritePath) -> None:
    for child in path.authority.children(name):
        # A branch names lines of another only by having been made from it, or from one that was.
        is_private = is_internal_branch(child)
        raise StillNeededError(
            kind="branch",
            name=name,
            needed_by="a transaction" if is_private else f"branch '{child}'",
            advice="wait for it to end" if is_private else "delete that one first",
        )
