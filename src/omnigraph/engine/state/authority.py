"""What is true now: the accepted schema and the manifest of every branch, kept warm.

Promises that an answer is never older than the call: each one asks the storage whether anything
is newer, and reads only what is. Safe to share between threads.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa

from omnigraph.engine.state.contract import Contract, read_contract
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.known_ids import KnownIds
from omnigraph.engine.state.manifest import (
    MANIFEST_PATH,
    STAMP,
    STAMP_VERSION,
    STATE_COLUMNS,
    ManifestState,
    decode_commits,
    manifest_ref,
    reduce_manifest,
)
from omnigraph.engine.state.snapshot import Snapshot
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import (
    CorruptError,
    NotFoundError,
    SchemaChangedError,
    UnreadableError,
)
from omnigraph.model.names import MAIN, BranchName, find_near_name
from omnigraph.storage.lance_literals import render_in
from omnigraph.storage.ports import Listing, ObjectStore, TableStore, TableVersion


@dataclass(frozen=True, slots=True)
class Basis:
    """What a write is prepared against, or a read is answered from."""

    state: ManifestState
    contract: Contract

    @property
    def branch(self) -> BranchName:
        return self.state.branch

    @property
    def head(self) -> Commit:
        return self.state.head

    @property
    def snapshot(self) -> Snapshot:
        return self.state.snapshot

    @property
    def catalog(self) -> Catalog:
        return self.contract.catalog


class Authority:
    """The one place that knows the present of a graph."""

    def __init__(
        self, *, uri: str, objects: ObjectStore, tables: TableStore, known_ids: KnownIds
    ) -> None:
        self._uri = uri
        self._objects = objects
        self._tables = tables
        self._known_ids = known_ids
        self._generation = tables.generation()
        self._lock = Lock()
        self._state_by_branch: dict[BranchName, ManifestState] = {}
        self._contract: Contract | None = None

    def capture(self, branch: BranchName) -> Basis:
        """The present of a branch."""
        state = self.state(branch)
        return Basis(state, self._contract_of(state))

    def pin(self, branch: BranchName) -> Basis:
        """The present of a branch for a read, after a look at the schema's files."""
        self.require_contract(self._objects.list(""))
        return self.capture(branch)

    def state(self, branch: BranchName) -> ManifestState:
        """What the branch's manifest says now."""
        ref = manifest_ref(branch)
        version = self._tables.find_head(ref)
        self._forget_replaced()
        if version is None:
            raise self._no_branch(branch)
        known = self._state_by_branch.get(branch)
        if known is not None and known.at.version == version:
            return known
        at = TableVersion(ref, version)
        if known is None:
            self._require_format(at)
        rows = self._tables.scan_new(at, since=known.at if known else None, columns=STATE_COLUMNS)
        state = reduce_manifest(rows, at=at, branch=branch, onto=known)
        self.remember(state)
        return state

    def newest_known(self, state: ManifestState) -> ManifestState:
        """The newest state of a branch that this process has seen; asks nobody."""
        return self._state_by_branch.get(state.branch, state)

    def state_at(self, branch: BranchName, version: int) -> ManifestState:
        """What a version of a branch's manifest said; `NotFoundError` if there is none."""
        at = TableVersion(manifest_ref(branch), version)
        rows = self._tables.scan(at, columns=STATE_COLUMNS, predicate=None)
        return reduce_manifest(rows, at=at, branch=branch, onto=None)

    def commits(self, branch: BranchName) -> tuple[Commit, ...]:
        """The commits of a branch and those it inherited, oldest first."""
        at = self.state(branch).at
        rows = self._tables.scan(
            at, columns=STATE_COLUMNS, predicate="object_type = 'graph_commit'"
        )
        return decode_commits(rows)

    def remember(self, state: ManifestState) -> None:
        """Keep a state that was read or published, unless a newer one is known."""
        with self._lock:
            known = self._state_by_branch.get(state.branch)
            if known is None or known.at.version <= state.at.version:
                self._state_by_branch[state.branch] = state

    def forget(self, branch: BranchName) -> None:
        """Drop what is known of a branch: it is gone, or another one of that name."""
        with self._lock:
            self._state_by_branch.pop(branch, None)

    def require_contract(self, root: Listing) -> Contract:
        """The accepted schema, read again if a look at the root says that its files changed."""
        known = self._contract
        if known is not None and known.is_as_listed(root):
            return known
        contract = read_contract(self._objects, uri=self._uri)
        if known is not None and contract.schema_hash != known.schema_hash:
            self._require_accepted(contract)
        self._contract = contract
        return contract

    def branches(self) -> tuple[BranchName, ...]:
        """Every branch, `main` first, then by name."""
        named = sorted(self._tables.branches(MANIFEST_PATH))
        public = [
            BranchName(name) for name in named if not name.startswith("__schema_apply_lock__")
        ]
        return (MAIN, *public)

    def find_commit(self, commit_id: str) -> Commit | None:
        """The commit of an id, on whatever branch it is."""
        for branch in self.branches():
            # A branch that was deleted since has no commits any more.
            with suppress(NotFoundError):
                for commit in self._commits_of(self.state(branch), commit_id):
                    return commit
        return None

    def has_commit(self, state: ManifestState, commit_id: str) -> bool:
        """Whether a commit is part of a branch's history."""
        return bool(self._commits_of(state, commit_id))

    def _commits_of(self, state: ManifestState, commit_id: str) -> tuple[Commit, ...]:
        predicate = render_in("object_id", pa.array([commit_id]))
        rows = self._tables.scan(state.at, columns=STATE_COLUMNS, predicate=predicate)
        return decode_commits(rows)

    def _forget_replaced(self) -> None:
        # Equal numbers of versions prove nothing once a branch or the graph was made anew.
        generation = self._tables.generation()
        with self._lock:
            if generation != self._generation:
                self._generation = generation
                self._state_by_branch.clear()
                self._known_ids.forget_all()

    def _contract_of(self, state: ManifestState) -> Contract:
        known = self._contract
        if known is None:
            known = self._contract = read_contract(self._objects, uri=self._uri)
        expected = state.head.schema_hash
        if expected is not None and expected != known.schema_hash and state.branch == MAIN:
            # Somebody applied a schema since the files were read.
            known = self._contract = read_contract(self._objects, uri=self._uri)
            if known.schema_hash != expected:
                raise _replaced_schema()
        return known

    def _require_accepted(self, contract: Contract) -> None:
        if self.state(MAIN).head.schema_hash != contract.schema_hash:
            raise _replaced_schema()

    def _require_format(self, at: TableVersion) -> None:
        metadata = self._tables.schema(at).metadata or {}
        stamp = metadata.get(STAMP.encode(), b"1").decode(errors="replace")
        if not stamp.isdigit():
            raise CorruptError(subject="the manifest's format stamp", problem=f"it is {stamp!r}")
        if int(stamp) > STAMP_VERSION:
            advice = "a newer OmniGraph wrote it; upgrade this one"
        elif int(stamp) < STAMP_VERSION:
            advice = "export it with the version that wrote it and load it into a new graph"
        else:
            return
        raise UnreadableError(
            path=self._uri,
            reason=f"the graph has format {stamp}, this version reads {STAMP_VERSION}: {advice}",
        )

    def _no_branch(self, branch: BranchName) -> NotFoundError | CorruptError:
        if branch == MAIN:
            return CorruptError(
                subject=f"the graph at {self._uri}",
                problem="its manifest is missing; if its creation was interrupted, "
                "`init` with `force=True` starts over, else restore `__manifest` from a copy",
            )
        names = self.branches()
        near = find_near_name(branch, names)
        return NotFoundError(
            kind="branch",
            name=branch,
            advice=f"did you mean '{near}'?" if near else f"there are: {', '.join(names)}",
        )


def _replaced_schema() -> SchemaChangedError:
    return SchemaChangedError(
        reason="the schema's files no longer match the accepted compiled schema that history "
        "names; restore them, and change a schema with `apply_schema`"
    )
