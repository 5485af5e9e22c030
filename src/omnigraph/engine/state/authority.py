"""What is true now: the accepted schema and the manifest of every branch, kept warm.

Promises that an answer is never older than the call: each one asks the storage whether anything
is newer, and reads only what is. Safe to share between threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock

import pyarrow as pa

from omnigraph.engine.state.contract import (
    Contract,
    find_accepted,
    find_archived,
    find_files,
    is_staged,
    promote_schema,
    read_contract,
)
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.limited import Limited
from omnigraph.engine.state.manifest import (
    GRAPH_COMMIT,
    MANIFEST_PATH,
    STAMP,
    STAMP_VERSION,
    STATE_COLUMNS,
    TABLE_VERSION,
    ManifestState,
    decode_commits,
    find_first_entries,
    manifest_ref,
    reduce_manifest,
)
from omnigraph.engine.state.snapshot import Snapshot, table_keys_of
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import (
    CorruptError,
    NotFoundError,
    SchemaChangedError,
    UnreadableError,
)
from omnigraph.model.limits import CONTRACT_READS_MAX
from omnigraph.model.names import MAIN, BranchName, find_near_name, is_internal_branch
from omnigraph.storage.lance_branches import (
    BranchReference,
    decode_names,
    decode_reference,
    reference_path,
    references_of,
)
from omnigraph.storage.lance_handles import folder_of
from omnigraph.storage.lance_literals import render_in
from omnigraph.storage.ports import ObjectStore, RowReader, TableStore, TableVersion


@dataclass(frozen=True, slots=True)
class Basis:
    """What a write is prepared against, or a read is answered from.

    For a reader who may not see everything `limited` is what they see, and the contract has only
    the properties that are not hidden from them. A write is never prepared against such a part.
    """

    state: ManifestState
    contract: Contract
    limited: Limited | None = None

    @property
    def branch(self) -> BranchName:
        return self.state.branch

    @property
    def head(self) -> Commit:
        return self.state.head

    @property
    def snapshot(self) -> Snapshot:
        return self.state.snapshot if self.limited is None else self.limited.snapshot

    @property
    def catalog(self) -> Catalog:
        return self.contract.catalog

    def reader(self, tables: TableStore) -> RowReader:
        """What answers reads of this state, the store being given."""
        return tables if self.limited is None else self.limited.tables


class Authority:
    """The one place that knows the present of a graph."""

    def __init__(self, *, uri: str, objects: ObjectStore, tables: TableStore) -> None:
        self._uri = uri
        self._objects = objects
        self._tables = tables
        self._generation = tables.generation()
        self._lock = Lock()
        self._state_by_branch: dict[BranchName, ManifestState] = {}
        self._contract: Contract | None = None
        self._past_contracts: dict[str, Contract] = {}

    def capture(self, branch: BranchName) -> Basis:
        """The present of a branch for a write."""
        if not self.has_branch(branch):
            # Whoever died while deleting it has left its versions, and a write there would be lost.
            raise self._no_branch(branch)
        return self._basis_of(self.state(branch))

    def pin(self, branch: BranchName) -> Basis:
        """The present of a branch for a read, after a look at the schema's files."""
        self.require_contract(self._objects.tokens(""))
        return self._basis_of(self.state(branch))

    def state(self, branch: BranchName) -> ManifestState:
        """What the branch's manifest says now."""
        ref = manifest_ref(branch)
        version = self._find_head(branch)
        self._forget_replaced()
        known = self._state_by_branch.get(branch)
        # Whoever dies while making or deleting a branch leaves versions of what is no branch.
        if version is None or (known is None and not self.has_branch(branch)):
            raise self._no_branch(branch)
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

    def state_of(self, commit_id: str, *, branch: str, version: int) -> ManifestState:
        """What a commit made true; `NotFoundError` if it went with its branch."""
        try:
            state = self.state_at(BranchName(branch), version)
        except NotFoundError as error:
            advice = f"branch '{branch}', which it was on, was deleted, or it was cleaned up"
            raise NotFoundError(kind="commit", name=commit_id, advice=advice) from error
        if state.head.id != commit_id:
            raise NotFoundError(kind="commit", name=commit_id, advice="its branch was made anew")
        return state

    def commits(self, branch: BranchName) -> tuple[Commit, ...]:
        """The commits of a branch and those it inherited, oldest first."""
        return self.commits_at(self.state(branch), since=0)

    def commits_at(self, state: ManifestState, *, since: int) -> tuple[Commit, ...]:
        """The commits of a state from a version of its manifest on, oldest first."""
        predicate = f"object_type = '{GRAPH_COMMIT}' AND table_version >= {max(since, 0)}"
        rows = self._tables.scan(state.at, columns=STATE_COLUMNS, predicate=predicate)
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

    def require_contract(self, root: Mapping[str, str]) -> Contract:
        """The accepted schema, read again if a look at the root says that its files changed."""
        known = self._contract
        if known is not None and known.is_as_listed(root):
            return known
        try:
            contract = read_contract(self._objects, uri=self._uri)
        except SchemaChangedError:
            contract = self._read_accepted()
        is_other = known is not None and contract.schema_hash != known.schema_hash
        if is_other and self.state(MAIN).head.schema_hash != contract.schema_hash:
            contract = self._read_accepted()
        self._contract = contract
        return contract

    def contract_at(self, state: ManifestState) -> Contract:
        """The schema that a state of the past was made under."""
        present = self._contract_of(self.state(MAIN))
        schema_hash = state.head.schema_hash
        if schema_hash is None or schema_hash == present.schema_hash:
            return present
        with self._lock:
            known = self._past_contracts.get(schema_hash)
        if known is None:
            known = find_archived(schema_hash, objects=self._objects)
            if known is None:
                return present
            with self._lock:
                self._past_contracts[schema_hash] = known
        return known

    def branches(self) -> tuple[BranchName, ...]:
        """Every branch but our own, `main` first, then by name."""
        return (MAIN, *(name for name in self._named() if not is_internal_branch(name)))

    def others(self) -> tuple[BranchName, ...]:
        """Every branch but main, those of transactions under way as well, by name."""
        return tuple(self._named())

    def has_branch(self, branch: BranchName) -> bool:
        """Whether there is a branch, one of our own as well; a damaged one is `CorruptError`."""
        return branch == MAIN or self._find_reference(branch) is not None

    def find_overlapping(self, branch: BranchName) -> BranchName | None:
        """A branch whose name is a folder of this one's, or the other way round."""
        parts = branch.split("/")
        for count in range(1, len(parts)):
            above = BranchName("/".join(parts[:count]))
            if self.has_branch(above):
                return above
        inside = self._objects.list(folder_of(manifest_ref(branch)))
        if not inside.prefixes and not inside.token_by_name:
            return None
        # Another's folder, or what a crash has left of a branch of this name.
        return next((name for name in self._named() if name.startswith(f"{branch}/")), None)

    def children(self, branch: BranchName) -> tuple[BranchName, ...]:
        """The branches that were made from one, our own as well, by name."""
        references = {name: self._find_reference(name) for name in self._named()}
        return tuple(name for name, each in references.items() if each and each.parent == branch)

    def _named(self) -> list[BranchName]:
        # A look at names costs the same for ten branches and for a thousand; Lance reads each.
        listing = self._objects.list(references_of(MANIFEST_PATH))
        return [BranchName(name) for name in sorted(decode_names(listing.token_by_name))]

    def _find_reference(self, branch: BranchName) -> BranchReference | None:
        path = reference_path(manifest_ref(branch))
        stored = self._objects.find(path)
        return None if stored is None else decode_reference(stored.content, path=path)

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

    def _basis_of(self, state: ManifestState) -> Basis:
        contract = self._contract_of(state)
        return Basis(self._with_all_types(state, contract.catalog), contract)

    def _with_all_types(self, state: ManifestState, catalog: Catalog) -> ManifestState:
        """A branch together with the types that came after it: to it they have no rows."""
        if state.branch == MAIN:
            return state
        missing = [key for key in table_keys_of(catalog) if key not in state.snapshot.entries]
        if not missing:
            return state
        main = self.state(MAIN)
        firsts = find_first_entries(self._read_versions(main, missing), missing, main)
        return replace(
            state,
            path_by_table={**state.path_by_table, **{e.table_key: e.path for e in firsts}},
            latest={**state.latest, **{each.table_key: each for each in firsts}},
        )

    def _read_versions(self, state: ManifestState, table_keys: list[str]) -> pa.Table:
        named = render_in("table_key", pa.array(table_keys, pa.string()))
        predicate = f"object_type = '{TABLE_VERSION}' AND {named}"
        return self._tables.scan(state.at, columns=STATE_COLUMNS, predicate=predicate)

    def _find_head(self, branch: BranchName) -> int | None:
        try:
            return self._tables.find_head(manifest_ref(branch))
        except CorruptError:
            # A branch that is being deleted loses one file after another.
            if self.has_branch(branch):
                raise
            return None

    def _forget_replaced(self) -> None:
        # Equal numbers of versions prove nothing once a branch or the graph was made anew.
        generation = self._tables.generation()
        with self._lock:
            if generation != self._generation:
                self._generation = generation
                self._state_by_branch.clear()

    def _contract_of(self, state: ManifestState) -> Contract:
        known = self._contract
        if known is None:
            known = self._contract = read_contract(self._objects, uri=self._uri)
        # The schema is the graph's, so on other branches it is what was last heard of main.
        main = state if state.branch == MAIN else self._state_by_branch.get(MAIN)
        accepted = None if main is None else main.head.schema_hash
        if accepted not in (None, known.schema_hash):
            # Somebody applied a schema since the files were read.
            known = self._contract = self._read_accepted()
        return known

    def _read_accepted(self) -> Contract:
        """The schema that history names, while its files may be on their way to the root."""
        failure = _replaced_schema()
        for _ in range(CONTRACT_READS_MAX):
            root = self._objects.list("")
            accepted = self.state(MAIN).head.schema_hash
            try:
                contract = read_contract(self._objects, uri=self._uri)
            except SchemaChangedError as error:
                failure = error
            else:
                if contract.schema_hash == accepted:
                    return contract
            if is_staged(root) and accepted is not None:
                on_its_way = find_accepted(accepted, objects=self._objects)
                if on_its_way is not None:
                    return on_its_way
            if self._objects.list("").token_by_name == root.token_by_name:
                # Nobody has touched them meanwhile: they are not on their way, they are wrong.
                break
        raise failure

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


def promote_accepted(schema_hash: str, authority: Authority, objects: ObjectStore) -> bool:
    """Bring a schema's files to the root if history names it; whether it does.

    A later one may have been accepted since, and be there already.
    """
    # Looked at first: whoever promotes a schema that is accepted later replaces these.
    over = find_files(objects)
    is_accepted = authority.state(MAIN).head.schema_hash == schema_hash
    if is_accepted:
        promote_schema(schema_hash, over=over, objects=objects)
    return is_accepted


def _replaced_schema() -> SchemaChangedError:
    return SchemaChangedError(
        reason="the schema's files no longer match the accepted compiled schema that history "
        "names; restore them, and change a schema with `apply_schema`"
    )
