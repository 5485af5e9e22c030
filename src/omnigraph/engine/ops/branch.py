"""Branches: a branch of the graph is a Lance branch of the manifest, and nothing else at first.

Creating one copies no rows. Tables fork when the branch first writes them.
"""

from __future__ import annotations

from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.state.manifest import MANIFEST_PATH
from omnigraph.model.errors import AlreadyExistsError, InvalidNameError
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.locks import LockKey


def create_branch(name: BranchName, *, base: BranchName, path: WritePath) -> None:
    """Start a branch at the head of another; `AlreadyExistsError` if there is one of that name."""
    if name == MAIN:
        raise InvalidNameError(kind="branch", name=name, rule="cannot create branch 'main'")
    # Whoever else makes the same branch waits, and then finds it.
    with path.locks.hold([LockKey(MANIFEST_PATH, name)]):
        _require_free(name, path)
        path.stores.tables.fork(path.authority.state(base).at, branch=name)


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
