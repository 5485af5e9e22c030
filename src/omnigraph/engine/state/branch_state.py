"""The current state of every branch: its manifest and the accepted schema, cached.

A state is never older than the call that requests it: each call checks the storage for a newer
version and reads only what is new. The cache is safe to share between threads. A basis is the
immutable state that a write is prepared against or a read runs on. A restricted basis names
versions that the table store does not have, so a read that bypasses row-level security fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock

import pyarrow as pa

from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import (
    GRAPH_COMMIT,
    MANIFEST_PATH,
    STAMP,
    STAMP_VERSION,
    STATE_COLUMNS,
    TABLE_VERSION,
    ManifestState,
    Snapshot,
    decode_commits,
    find_first_entries,
    manifest_ref,
    reduce_manifest,
    table_keys_of,
)
from omnigraph.engine.state.renames import (
    PresentName,
    SchemaChange,
    list_schema_changes,
    trace_names,
)
from omnigraph.engine.state.schema_files import (
    AcceptedSchema,
    find_accepted,
    find_archived,
    find_files,
    is_staged,
    promote_schema,
    read_accepted_schema,
)
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import CorruptError, NotFoundError, SchemaChangedError, UnreadableError
from omnigraph.model.limits import SCHEMA_READS_MAX
from omnigraph.model.names import MAIN, BranchName, find_near_name, is_internal_branch
from omnigraph.storage.ports import ObjectStore, RowReader, TableReader, TableVersion
from omnigraph.storage.predicates import And, OneOf, Operator, compare, equals
from omnigraph.storage.tables import (
    BranchReference,
    decode_names,
    decode_reference,
    folder_of,
    reference_path,
    references_of,
)


@dataclass(frozen=True, slots=True)
class VisibleState:
    """The part of a state that a caller may read: its types with the visible rows, and a reader."""

    snapshot: Snapshot
    tables: RowReader
    unseen_keys: frozenset[str]
    """The tables of types of which no row is ever visible."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The state that a write is prepared against, or that a read runs on.

    For a caller with restricted access, `visible` is the visible part of the state, and
    `accepted_schema` has only the properties that are not hidden. A write is never prepared against
    a restricted basis.
    """

    state: ManifestState
    accepted_schema: AcceptedSchema
    visible: VisibleState | None = None

    @property
    def branch(self) -> BranchName:
        return self.state.branch

    @property
    def head(self) -> Commit:
        return self.state.head

    @property
    def snapshot(self) -> Snapshot:
        return self.state.snapshot if self.visible is None else self.visible.snapshot

    @property
    def catalog(self) -> Catalog:
        return self.accepted_schema.catalog

    def reader(self, tables: TableReader) -> RowReader:
        """The reader of this state: the given store, or a restricted one if access is limited."""
        return tables if self.visible is None else self.visible.tables


class BranchStates:
    """The current state of every branch of a graph, and its accepted schema."""

    def __init__(self, *, uri: str, objects: ObjectStore, tables: TableReader) -> None:
        self._uri = uri
        self._objects = objects
        self._tables = tables
        self._generation = tables.generation()
        self._lock = Lock()
        self._state_by_branch: dict[BranchName, ManifestState] = {}
        self._accepted_schema: AcceptedSchema | None = None
        self._past_schemas: dict[str, AcceptedSchema] = {}
        self._schema_changes: tuple[int, tuple[SchemaChange, ...]] = (0, ())

    def capture(self, branch: BranchName) -> Basis:
        """The current state of a branch, as the basis of a write."""
        if not self.has_branch(branch):
            # A process that died while deleting the branch leaves its versions behind, and a write
            # to them would be lost.
            raise self._no_branch(branch)
        return self._basis_of(self.state(branch))

    def pin(self, branch: BranchName) -> Basis:
        """The current state of a branch, as the basis of a read; checks the schema files first."""
        self.refresh_accepted_schema(self._objects.tokens(""))
        return self._basis_of(self.state(branch))

    def state(self, branch: BranchName) -> ManifestState:
        """The state of the newest version of a branch's manifest."""
        ref = manifest_ref(branch)
        version = self._find_head(branch)
        self._forget_replaced()
        known = self._state_by_branch.get(branch)
        # A process that dies while creating or deleting a branch leaves versions that do not belong
        # to a branch.
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
        """The newest state of a branch that this process has seen; does no I/O."""
        return self._state_by_branch.get(state.branch, state)

    def state_at(self, branch: BranchName, version: int) -> ManifestState:
        """The state at a version of a branch's manifest; `NotFoundError` if there is none."""
        at = TableVersion(manifest_ref(branch), version)
        rows = self._tables.scan(at, columns=STATE_COLUMNS, predicate=None)
        return reduce_manifest(rows, at=at, branch=branch, onto=None)

    def state_of(self, commit_id: str, *, branch: str, version: int) -> ManifestState:
        """The state that a commit published.

        Raises `NotFoundError` if the branch of the commit was deleted or recreated, or if the
        commit was cleaned up.
        """
        try:
            state = self.state_at(BranchName(branch), version)
        except NotFoundError as error:
            advice = f"branch '{branch}', which it was on, was deleted, or it was cleaned up"
            raise NotFoundError(kind="commit", name=commit_id, advice=advice) from error
        if state.head.id != commit_id:
            raise NotFoundError(kind="commit", name=commit_id, advice="its branch was recreated")
        return state

    def commits(self, branch: BranchName) -> tuple[Commit, ...]:
        """The commits of a branch and those it inherited, oldest first."""
        return self.commits_at(self.state(branch), since=0)

    def commits_at(self, state: ManifestState, *, since: int) -> tuple[Commit, ...]:
        """The commits of a state from a version of its manifest on, oldest first."""
        predicate = And(
            (
                equals("object_type", GRAPH_COMMIT),
                compare("table_version", Operator.GE, max(since, 0)),
            )
        )
        rows = self._tables.scan(state.at, columns=STATE_COLUMNS, predicate=predicate)
        return decode_commits(rows)

    def remember(self, state: ManifestState) -> None:
        """Cache a state that was read or published, unless a newer one is cached."""
        with self._lock:
            known = self._state_by_branch.get(state.branch)
            if known is None or known.at.version <= state.at.version:
                self._state_by_branch[state.branch] = state

    def forget(self, branch: BranchName) -> None:
        """Remove a branch from the cache: it was deleted, or recreated under the same name."""
        with self._lock:
            self._state_by_branch.pop(branch, None)

    def refresh_accepted_schema(self, root: Mapping[str, str]) -> AcceptedSchema:
        """The accepted schema, read again if a listing of the root shows that its files changed."""
        known = self._accepted_schema
        if known is not None and known.is_as_listed(root):
            return known
        try:
            accepted_schema = read_accepted_schema(self._objects, uri=self._uri)
        except SchemaChangedError:
            accepted_schema = self._read_accepted()
        is_other = known is not None and accepted_schema.schema_hash != known.schema_hash
        if is_other and self.state(MAIN).head.schema_hash != accepted_schema.schema_hash:
            accepted_schema = self._read_accepted()
        self._accepted_schema = accepted_schema
        return accepted_schema

    def schema_at(self, state: ManifestState) -> AcceptedSchema:
        """The schema under which a past state was written."""
        present = self._accepted_schema_of(self.state(MAIN))
        schema_hash = state.head.schema_hash
        if schema_hash is None or schema_hash == present.schema_hash:
            return present
        with self._lock:
            known = self._past_schemas.get(schema_hash)
        if known is None:
            known = find_archived(schema_hash, objects=self._objects)
            if known is None:
                return present
            with self._lock:
                self._past_schemas[schema_hash] = known
        return known

    def names_since(self, state: ManifestState) -> frozenset[PresentName]:
        """The current names of the types and properties of a past state, where they differ."""
        present, then = self._accepted_schema_of(self.state(MAIN)), self.schema_at(state)
        if state.branch != MAIN or then.schema_hash == present.schema_hash:
            # No name changes while a branch other than main exists.
            return frozenset()
        return trace_names(
            then.catalog,
            present.catalog,
            [
                each
                for each in self._list_schema_changes(self.state(MAIN))
                if each.manifest_version > state.at.version
            ],
        )

    def _list_schema_changes(self, main: ManifestState) -> tuple[SchemaChange, ...]:
        since, known = self._schema_changes
        if since > main.at.version:
            since, known = 0, ()
        if since < main.at.version:
            # Start at the newest known commit: a change is detected by comparison with the commit
            # before it.
            commits = self.commits_at(main, since=since)
            known = (*known, *list_schema_changes(commits))
            self._schema_changes = (commits[-1].manifest_version, known)
        return known

    def branches(self) -> tuple[BranchName, ...]:
        """Every branch except internal ones: `main` first, then by name."""
        return (MAIN, *(name for name in self._named() if not is_internal_branch(name)))

    def others(self) -> tuple[BranchName, ...]:
        """Every branch except main, including those of open transactions, by name."""
        return tuple(self._named())

    def has_branch(self, branch: BranchName) -> bool:
        """Whether a branch exists, internal or not; a damaged one raises `CorruptError`."""
        return branch == MAIN or self._find_reference(branch) is not None

    def find_overlapping(self, branch: BranchName) -> BranchName | None:
        """A branch whose name is a parent folder of this branch's name, or the other way round."""
        parts = branch.split("/")
        for count in range(1, len(parts)):
            above = BranchName("/".join(parts[:count]))
            if self.has_branch(above):
                return above
        inside = self._objects.list(folder_of(manifest_ref(branch)))
        if not inside.prefixes and not inside.token_by_name:
            return None
        # The folder of another branch, or the remains of a branch of this name after a crash.
        return next((name for name in self._named() if name.startswith(f"{branch}/")), None)

    def children(self, branch: BranchName) -> tuple[BranchName, ...]:
        """The branches that were created from a branch, including internal ones, by name."""
        references = {name: self._find_reference(name) for name in self._named()}
        return tuple(name for name, each in references.items() if each and each.parent == branch)

    def _named(self) -> list[BranchName]:
        # One listing costs the same for ten branches as for a thousand; Lance would read each
        # branch.
        listing = self._objects.list(references_of(MANIFEST_PATH))
        return [BranchName(name) for name in sorted(decode_names(listing.token_by_name))]

    def _find_reference(self, branch: BranchName) -> BranchReference | None:
        path = reference_path(manifest_ref(branch))
        stored = self._objects.find(path)
        return None if stored is None else decode_reference(stored.content, path=path)

    def find_commit(self, commit_id: str) -> Commit | None:
        """The commit with an id, on any branch."""
        for branch in self.branches():
            # A branch that was deleted in the meantime no longer has commits.
            with suppress(NotFoundError):
                for commit in self._commits_of(self.state(branch), commit_id):
                    return commit
        return None

    def has_commit(self, state: ManifestState, commit_id: str) -> bool:
        """Whether a commit is part of a branch's history."""
        return bool(self._commits_of(state, commit_id))

    def _commits_of(self, state: ManifestState, commit_id: str) -> tuple[Commit, ...]:
        predicate = equals("object_id", commit_id)
        rows = self._tables.scan(state.at, columns=STATE_COLUMNS, predicate=predicate)
        return decode_commits(rows)

    def _basis_of(self, state: ManifestState) -> Basis:
        accepted_schema = self._accepted_schema_of(state)
        return Basis(self._with_all_types(state, accepted_schema.catalog), accepted_schema)

    def _with_all_types(self, state: ManifestState, catalog: Catalog) -> ManifestState:
        """A branch's state with the types that were added after it, which have no rows on it."""
        if state.branch == MAIN:
            return state
        missing = [key for key in table_keys_of(catalog) if key not in state.snapshot.entries]
        if not missing:
            return state
        main = self.state(MAIN)
        named = OneOf("table_key", pa.array(missing, pa.string()))
        predicate = And((equals("object_type", TABLE_VERSION), named))
        versions = self._tables.scan(main.at, columns=STATE_COLUMNS, predicate=predicate)
        firsts = find_first_entries(versions, missing, main)
        return replace(
            state,
            path_by_table={**state.path_by_table, **{e.table_key: e.path for e in firsts}},
            latest={**state.latest, **{each.table_key: each for each in firsts}},
        )

    def _find_head(self, branch: BranchName) -> int | None:
        try:
            return self._tables.find_head(manifest_ref(branch))
        except CorruptError:
            # A branch that is being deleted loses one file after another.
            if self.has_branch(branch):
                raise
            return None

    def _forget_replaced(self) -> None:
        # Equal version numbers prove nothing once a branch or the graph was recreated.
        generation = self._tables.generation()
        with self._lock:
            if generation != self._generation:
                self._generation = generation
                self._state_by_branch.clear()
                self._schema_changes = (0, ())

    def _accepted_schema_of(self, state: ManifestState) -> AcceptedSchema:
        known = self._accepted_schema
        if known is None:
            known = self._accepted_schema = read_accepted_schema(self._objects, uri=self._uri)
        # The schema belongs to the graph, so other branches use the last known state of main.
        main = state if state.branch == MAIN else self._state_by_branch.get(MAIN)
        accepted = None if main is None else main.head.schema_hash
        if accepted not in (None, known.schema_hash):
            # A schema was applied after the files were read.
            known = self._accepted_schema = self._read_accepted()
        return known

    def _read_accepted(self) -> AcceptedSchema:
        """The schema that history names, even if its files have not reached the root yet."""
        failure = SchemaChangedError(
            reason="the schema's files no longer match the accepted compiled schema that history "
            "names; restore them, and change a schema with `apply_schema`"
        )
        for _ in range(SCHEMA_READS_MAX):
            root = self._objects.list("")
            accepted = self.state(MAIN).head.schema_hash
            try:
                accepted_schema = read_accepted_schema(self._objects, uri=self._uri)
            except SchemaChangedError as error:
                failure = error
            else:
                if accepted_schema.schema_hash == accepted:
                    return accepted_schema
            if is_staged(root) and accepted is not None:
                on_its_way = find_accepted(accepted, objects=self._objects)
                if on_its_way is not None:
                    return on_its_way
            if self._objects.list("").token_by_name == root.token_by_name:
                # The files did not change in the meantime: they are not being promoted, they are
                # wrong.
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


def promote_accepted(schema_hash: str, branch_states: BranchStates, objects: ObjectStore) -> bool:
    """Write a schema's files to the root if history names it; return whether it does.

    A later schema may have been accepted since, and its files may already be at the root.
    """
    # Read before the check: a process that promotes a later schema replaces these files.
    over = find_files(objects)
    is_accepted = branch_states.state(MAIN).head.schema_hash == schema_hash
    if is_accepted:
        promote_schema(schema_hash, over=over, objects=objects)
    return is_accepted
