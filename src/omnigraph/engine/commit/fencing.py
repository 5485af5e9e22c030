"""Fencing: a writer that was paused and lost its turn publishes nothing, whenever it wakes.

Whoever takes a lease from a process that had not let go moves the branch's manifest first. A writer
that lost its turn knows the manifest from before that, or from after it. If from before, its
compare-and-swap is refused, because the row of the head was written anew. If from after, it has to
ask whose turn it is once it knows the manifest and before it swaps, and is told that it is
another's, because the lease changed hands before the manifest moved. Clocks play no part in this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.engine.state.authority import Authority
from omnigraph.engine.state.history import encode_head
from omnigraph.engine.state.manifest import (
    GRAPH_HEAD,
    MANIFEST_SCHEMA,
    ManifestState,
    head_id,
    manifest_ref,
)
from omnigraph.model.errors import (
    ExpectedVersionMismatchError,
    ReadSetChangedError,
    UnavailableError,
)
from omnigraph.model.limits import PUBLISHER_RETRY_BUDGET
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.locks import HeldLocks
from omnigraph.storage.ports import TableStore


@dataclass(frozen=True, slots=True)
class Fence:
    """Moves the manifest of a branch out of reach of whoever had its turn before."""

    authority: Authority
    tables: TableStore

    def __call__(self, branch: str | None) -> None:
        """Make a version of a branch's manifest that says what the one before it says."""
        name = MAIN if branch is None else BranchName(branch)
        for _ in range(PUBLISHER_RETRY_BUDGET + 1):
            is_there = self.tables.find_head(manifest_ref(name)) is not None
            if not is_there or not self.authority.has_branch(name):
                # The turn was one to make or delete the branch: there is nothing to publish on.
                return
            if self._move(self.authority.state(name)):
                return
        raise UnavailableError(
            action=f"take over branch '{name}'",
            reason="others keep publishing on it; try again",
        )

    def _move(self, state: ManifestState) -> bool:
        # The head's row is the one that every publish replaces; on a branch that has none of its
        # own yet it is another branch's, and stays so.
        row = {
            "object_id": head_id(state.head.branch),
            "object_type": GRAPH_HEAD,
            "metadata": encode_head(state.head),
            "table_key": "",
        }
        staged = self.tables.stage_replacement(
            pa.Table.from_pylist([row], schema=MANIFEST_SCHEMA),
            replacing=[head_id(state.head.branch)],
            onto=state.at,
        )
        try:
            landed = self.tables.apply(staged)
        except ExpectedVersionMismatchError:
            return False
        self.authority.remember(replace(state, at=landed))
        return True


def require_kept(held: HeldLocks) -> None:
    """Raise if another process has taken the locks, asked of the storage where that can be."""
    if not held.is_kept():
        raise ReadSetChangedError(
            member="the turn to write", expected="this process", actual="another one"
        )
