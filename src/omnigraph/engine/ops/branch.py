"""Branches: a branch of the graph is a Lance branch of the manifest, and nothing else at first.

Creating one copies no rows. Tables fork when the branch first writes them.
"""

from __future__ import annotations

from omnigraph.engine.state.authority import Authority
from omnigraph.engine.state.manifest import manifest_ref
from omnigraph.model.errors import AlreadyExistsError, InvalidNameError
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.ports import TableStore


def create_branch(
    name: BranchName, *, base: BranchName, authority: Authority, tables: TableStore
) -> None:
    """Start a branch at the head of another."""
    if name == MAIN:
        raise InvalidNameError(kind="branch", name=name, rule="cannot create branch 'main'")
    for existing in authority.branches():
        if existing == name:
            raise AlreadyExistsError(kind="branch", name=name, advice="")
        if f"{name}/".startswith(f"{existing}/") or f"{existing}/".startswith(f"{name}/"):
            raise InvalidNameError(
                kind="branch",
                name=name,
                rule=f"branch '{existing}' exists, and one name may not be a folder of another",
            )
    authority.forget(name)
    tables.fork(authority.state(base).at, branch=name)


def withdraw_branch(name: BranchName, *, authority: Authority, tables: TableStore) -> None:
    """Remove a branch that nobody has written to yet."""
    authority.forget(name)
    tables.delete_branch(manifest_ref(name))
