"""Lines of a branch, made before its first write: where another process can write to them."""

from __future__ import annotations

from collections.abc import Collection

from omnigraph.engine.commit.forks import fork, needs_fork
from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.state.snapshot import line_of
from omnigraph.model.names import BranchName
from omnigraph.storage.locks import LockKey


def open_lines(table_keys: Collection[str], *, branch: BranchName, path: WritePath) -> None:
    """Give a branch lines of its own for some types; nothing of it is visible before a write."""
    locks = [LockKey(key, line_of(branch)) for key in table_keys]
    with path.locks.hold(locks) as held:
        basis = path.authority.capture(branch)
        for key in table_keys:
            entry = basis.snapshot.get(key)
            if needs_fork(entry, branch):
                fork(
                    entry,
                    branch=branch,
                    state=path.authority.newest_known(basis.state),
                    held=held,
                    tables=path.stores.tables,
                    failpoints=path.failpoints,
                )
