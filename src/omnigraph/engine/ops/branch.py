"""Branches: a branch of the graph is a Lance branch of the manifest, and nothing else at first.

Creating one copies no rows. Tables fork when the branch first writes them.
"""

from __future__ import annotations

from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.state.manifest import MANIFEST_PATH
from omnigraph.model.errors import (
    AlreadyExistsError,
    GraphError,
    InvalidNameError,
    UnavailableError,
    UncertainError,
)
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.locks import LockKey


def create_branch(name: BranchName, *, base: BranchName, path: WritePath) -> None:
    """Start a branch at the head of another; `AlreadyExistsError` if there is one of that name.

    `UncertainError` means that the storage answers neither whether the branch was made nor whether
    it is there.
    """
    if name == MAIN:
        raise InvalidNameError(kind="branch", name=name, rule="cannot create branch 'main'")
    # Whoever else makes the same branch waits, and then finds it.
    with path.locks.hold([LockKey(MANIFEST_PATH, name)]):
        _require_free(name, path)
        start = path.authority.state(base).at
        try:
            path.stores.tables.fork(start, branch=name)
            path.failpoints.maybe_fail(Failpoint.BRANCH_CREATE_AFTER_MANIFEST_BRANCH_CREATE)
        except (AlreadyExistsError, UnavailableError) as error:
            # An answer may get lost on its way, and a request that is repeated then be refused by
            # its own success; under the lock, nobody else made the branch.
            if not _is_there(name, path, after=error):
                raise


def _is_there(name: BranchName, path: WritePath, *, after: GraphError) -> bool:
    try:
        return name in path.authority.branches()
    except UnavailableError as error:
        raise UncertainError(
            f"branch '{name}' may have been made: {after}; see whether `branches` lists it"
        ) from error


def _require_free(name: BranchName, path: WritePath) -> None:
    for existing in path.authority.branches():
        if existing == name:
            raise AlreadyExistsError(kind="branch", name=name, advice="")
        if f"{name}/".startswith(f"{existing}/") or f"{existing}/".startswith(f"{name}/"):
            raise InvalidNameError(
                kind="branch",
                name=name,
                rule=f"branch '{existing}' exists, and one name may not be a folder of another",
            )
