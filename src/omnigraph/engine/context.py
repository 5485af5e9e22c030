"""The shared state of an open graph: stores, caches, paths and access checks.

A context is created once, when a graph is opened, and is safe to share between threads. It
determines the state that a call reads, whether the call may write, the actor, and the rows that
the actor may see. The operations themselves are in other modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.publish import Fence
from omnigraph.engine.commit.recover import Recoverer
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.input.batches import ReadContext
from omnigraph.engine.ops.query import QueryCache, ReadPath
from omnigraph.engine.ops.refs import find_tagged
from omnigraph.engine.ops.retry import READ_AGAIN, branch_guard
from omnigraph.engine.read.cache import ReadCache
from omnigraph.engine.read.expand import AccessRules
from omnigraph.engine.row_security.views import RowSecurity
from omnigraph.engine.settings import Settings
from omnigraph.engine.state.branch_state import Basis, BranchStates
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.engine.state.readers import Readers
from omnigraph.model.errors import (
    Conflict,
    ForbiddenError,
    IntegrityError,
    InvalidNameError,
    MergeConflictError,
    NotFoundError,
    PolicyDeniedError,
)
from omnigraph.model.limits import WRITE_LOCK_TIMEOUT_S
from omnigraph.model.names import (
    MAIN,
    BranchName,
    PrivateBranchName,
    find_near_name,
    is_commit_id_like,
    parse_branch_name,
    require_branch_or_commit,
    require_text,
)
from omnigraph.model.ports import UNTOLD_BRANCH, Access, Action
from omnigraph.model.runtime import lazy_module
from omnigraph.storage.external_files import ExternalFiles
from omnigraph.storage.locks import open_write_locks
from omnigraph.storage.ports import Stores

if TYPE_CHECKING:
    from omnigraph.engine.maintenance.background import Reconciler
    from omnigraph.engine.row_security import writes
else:
    writes = lazy_module("omnigraph.engine.row_security.writes")


class GraphContext:
    """The state that the calls of one handle share; safe to share between threads."""

    def __init__(
        self, settings: Settings, stores: Stores, *, actor: str | None, is_read_only: bool
    ) -> None:
        self.settings = settings
        self.stores = stores
        self.compiled = QueryCache(settings.observer)
        self.reads = ReadPath(
            tables=stores.tables,
            cache=ReadCache(settings.observer, bytes_max=settings.cache_bytes_max),
            embedder=settings.embedder,
            access=AccessRules(settings.traversal, settings.lookups),
            allowance=settings.allowance,
        )
        self.branch_states = BranchStates(
            uri=settings.location.uri,
            objects=stores.objects,
            tables=stores.tables,
        )
        self.readers = Readers(stores.objects, settings.locking.clock)
        self.views = RowSecurity(stores.tables, self.reads.cache)
        self.writes = _make_write_path(settings, stores, self.branch_states)
        # Nothing may be written, not even the registration of a reader.
        self.is_read_only = is_read_only
        self.life = Life(None)
        self._actor = actor

    def for_actor(self, actor: str) -> GraphContext:
        """The same context for another actor, with shared caches; closing this one closes both."""
        require_text(actor, subject="actor")
        made: GraphContext = copy(self)
        made._actor = actor
        made.life = Life(self.life)
        return made

    def pin(self, branch: BranchName) -> Basis:
        """The current state of a branch, for a read."""
        self.require_open()
        return self.branch_states.pin(branch)

    def at(self, branch: str | None, commit: str | None, *, action: Action) -> Basis:
        """The state that a read requests: a branch, `main` if none is named, or a commit.

        Raises unless the caller may read or export it; the permission for a commit is that of its
        branch.
        """
        require_branch_or_commit(branch, commit)
        if commit is None:
            name = parse_branch_name(branch or MAIN)
            self.require_allowed(action, branch=name, target=None, actor=None)
            present = self.pin(name)
            return self.restrict(present, action, branch=name, present=present)
        present = self.pin(MAIN)
        try:
            state = self.state_of(commit)
        except NotFoundError:
            # A caller without permission to read any branch gets the same error whether or not the
            # name exists.
            self._require_allowed_somewhere(action)
            raise
        self.require_allowed(action, branch=state.branch, target=None, actor=None)
        found = Basis(state, self.branch_states.schema_at(state))
        restricted = self.restrict(found, action, branch=state.branch, present=present)
        # After the policy is applied, because hidden properties have no current name either.
        names = self.branch_states.names_since(state)
        return replace(restricted, accepted_schema=restricted.accepted_schema.with_names(names))

    def _require_allowed_somewhere(self, action: Action) -> None:
        """Raise unless the caller is allowed the action on at least one branch."""
        if self.settings.gate is None:
            return
        for branch in (None, *self.branch_states.branches()):
            with suppress(PolicyDeniedError):
                self.require_allowed(action, branch=branch, target=None, actor=None)
                return
        raise PolicyDeniedError(
            actor=self._actor, action=action, branch=None, target=None, reason=UNTOLD_BRANCH
        )

    def restrict(
        self, basis: Basis, action: Action, *, branch: BranchName, present: Basis
    ) -> Basis:
        """The part of a state that the caller sees when reading or exporting a branch.

        `present` is a state under the accepted schema.
        """
        gate = self.settings.gate
        view = None if gate is None else gate.view(self._make_access(action, branch, None))
        if view is None:
            return basis
        return self.views.limit(basis, view, present=present, now=self.settings.runtime.now())

    def visible_to_writer(self, present: Basis, *, branch: BranchName) -> Basis:
        """The part of the current state that is visible to a caller who is allowed to change it.

        A caller without permission to read gets the whole state, because no rule restricts it to a
        part; its actions are still checked.
        """
        try:
            return self.restrict(present, Action.READ, branch=branch, present=present)
        except PolicyDeniedError:
            return present

    def require_full_view(self, action: str, *, branch: BranchName) -> None:
        """Raise unless the caller sees all of a branch; for calls that match or replace rows."""
        if self.settings.gate is None:
            return
        present = self.pin(branch)
        self.require_unrestricted(self.visible_to_writer(present, branch=branch), action)

    def require_full_views(self, action: str) -> None:
        """Raise if the caller does not see all of every branch."""
        if self.settings.gate is not None:
            for branch in self.branch_states.branches():
                self.require_full_view(action, branch=branch)

    def require_unrestricted(self, basis: Basis, action: str) -> None:
        """Raise if row-level security restricts a state."""
        if basis.visible is not None:
            raise ForbiddenError(
                actor=self._actor,
                action=action,
                reason="the policy restricts the rows they see, and this call reads all rows",
            )

    def named(self, name: str) -> Basis:
        """The state that a name refers to: the current state of a branch, else a commit or a tag.

        Raises unless the caller may read it.
        """
        self.require_open()
        require_text(name, subject="branch or commit")
        with suppress(InvalidNameError):
            branch = parse_branch_name(name)
            if self.branch_states.has_branch(branch):
                return self.at(branch, None, action=Action.READ)
        try:
            return self.at(None, name, action=Action.READ)
        except NotFoundError as error:
            if is_commit_id_like(name):
                raise
            near = find_near_name(name, self._listed_branches())
            advice = "" if near is None else f"did you mean branch '{near}'?"
            raise NotFoundError(kind="branch, commit or tag", name=name, advice=advice) from error

    def state_of(self, commit: str) -> ManifestState:
        """The state that a commit published, by its id or by a tag that names it."""
        self.require_open()
        require_text(commit, subject="commit")
        tag = find_tagged(commit, self.stores.objects)
        if tag is not None:
            return self.branch_states.state_of(
                tag.commit_id, branch=tag.branch, version=tag.manifest_version
            )
        found = self.branch_states.find_commit(commit)
        if found is None:
            advice = "a commit is named by its full id, or by a tag"
            for each in self.branch_states.commits(MAIN):
                if each.merged_parent_id == commit:
                    advice = f"commit {each.id} merged it, and then its branch was deleted"
            raise NotFoundError(kind="commit", name=commit, advice=advice)
        return self.branch_states.state_of(
            found.id, branch=found.branch, version=found.manifest_version
        )

    def _listed_branches(self) -> Iterable[str]:
        """The branches, if the caller may list them; otherwise none."""
        try:
            self.require_allowed(Action.READ, branch=None, target=None, actor=None)
        except PolicyDeniedError:
            return ()
        return self.branch_states.branches()

    @contextmanager
    def redacted_errors(self, source: BranchName | None, *, target: BranchName) -> Iterator[None]:
        """Remove rows that the caller may not see from integrity errors and merge conflicts.

        Without a source, the source is the caller's input, or a commit that the caller was allowed
        to read.
        """
        try:
            yield
        except IntegrityError as error:
            if self._sees_all_rows(target):
                raise
            raise writes.without_others(error) from None
        except MergeConflictError as error:
            if self.settings.gate is None:
                raise
            conflicts = self.redact_conflicts(error.conflicts, source=source, target=target)
            raise MergeConflictError(conflicts=conflicts) from None

    def redact_conflicts(
        self, conflicts: Sequence[Conflict], *, source: BranchName | None, target: BranchName
    ) -> tuple[Conflict, ...]:
        """Conflicts of two branches, without the rows that the caller may not see."""
        if self.settings.gate is None or not conflicts:
            return tuple(conflicts)
        redact = partial(
            writes.without_unseen,
            sees_source=source is None or self._sees_all_rows(source),
            sees_target=self._sees_all_rows(target),
        )
        return tuple(map(redact, conflicts))

    def redact_commits(self, commits: Iterable[Commit], *, branch: BranchName) -> list[Commit]:
        """Commits of a branch, without the details that the caller may not see."""
        if self._sees_all_rows(branch):
            return list(commits)
        return [writes.without_rows(each) for each in commits]

    def _sees_all_rows(self, branch: BranchName) -> bool:
        if self.settings.gate is None:
            return True
        present = self.pin(branch)
        try:
            restricted = self.restrict(present, Action.READ, branch=branch, present=present)
        except PolicyDeniedError:
            return False
        return restricted.visible is None

    def read_context(self, basis: Basis) -> ReadContext:
        """The context for reading the input of a load under the schema of a state."""
        files = ExternalFiles(self.settings.location.storage_options, folder="")
        return ReadContext(basis.catalog, self.settings.external_blobs, files)

    @contextmanager
    def reading(self, basis: Basis, *, is_past: bool) -> Iterator[None]:
        """Protect the versions of a state from cleanup during a long read."""
        with self.guard(basis):
            if self.is_read_only:
                # A read-only graph registers no reader; cleanup retains recent versions for a
                # while.
                yield
                return
            id = self.settings.runtime.new_id()
            # Files are retained for any reader, regardless of which rows it sees.
            with self.readers.reading(basis.state.snapshot, id=id, is_past=is_past):
                yield

    def guard(self, basis: Basis) -> AbstractContextManager[list[ManifestState]]:
        """A block that reads a state; if its branch is deleted meanwhile, the error says so."""
        return branch_guard(
            basis.state, branch_states=self.branch_states, advice=READ_AGAIN, checks_result=False
        )

    def author(
        self, actor: str | None, kind: WriterKind, *, expected_head: str | None
    ) -> Authorship:
        """The author, the kind and the expected head of a write."""
        return Authorship(actor=self.actor_of(actor), kind=kind, expected_head=expected_head)

    def actor_of(self, actor: str | None) -> str | None:
        """The actor that the call names, or else the actor that the graph was opened for.

        With a gate, raises `ForbiddenError` if the call names a different actor than the one that
        the graph was opened for.
        """
        name = actor or self._actor
        if self.settings.gate is not None and name != self._actor:
            raise ForbiddenError(
                actor=self._actor,
                action=f"act as '{name}'",
                reason="under a policy, the actor is set when the graph is opened, or by "
                "`for_actor`",
            )
        if name is not None:
            require_text(name, subject="actor")
        return name

    def require_allowed(
        self, action: Action, *, branch: str | None, target: str | None, actor: str | None
    ) -> None:
        """Raise unless the graph is open and its actor may perform an action.

        Without a gate, every actor may. `actor` is the actor that the call names, if any; it must
        be the actor of the graph.
        """
        self.require_open()
        gate = self.settings.gate
        if gate is None:
            return
        self.actor_of(actor)
        access = self._make_access(action, branch, target)
        if access.actor is None:
            raise PolicyDeniedError(
                actor=None,
                action=access.action,
                branch=access.branch,
                target=access.target,
                reason="open the graph for an actor, because a policy controls access",
            )
        gate.require(access)

    def _make_access(self, action: Action, branch: str | None, target: str | None) -> Access:
        if isinstance(branch, PrivateBranchName):
            # A transaction counts as a change of the branch that it began on, and as nothing else.
            is_end = action is Action.BRANCH_MERGE
            return Access(self._actor, Action.CHANGE if is_end else action, branch.base, None)
        return Access(self._actor, action, branch, target)

    def require_open(self) -> None:
        """Raise if the graph was closed."""
        if self.life.has_ended:
            raise ForbiddenError(actor=None, action="use this graph", reason="it was closed")

    def require_writable(self, action: str) -> None:
        """Raise unless the graph is open for writing."""
        self.require_open()
        if self.is_read_only:
            raise ForbiddenError(
                actor=self._actor, action=action, reason="the graph was opened with read_only=True"
            )


class Life:
    """Whether a graph is open, and the background tasks to stop when it is closed."""

    def __init__(self, within: Life | None) -> None:
        self._within = within
        self._is_over = False
        self._working: WeakSet[Reconciler] = WeakSet()

    @property
    def has_ended(self) -> bool:
        """Whether this handle, or the handle that it was derived from, was closed."""
        return self._is_over or (self._within is not None and self._within.has_ended)

    def stop_with(self, working: Reconciler) -> None:
        """Stop a background task when the handle is closed."""
        self._working.add(working)
        if self._within is not None:
            self._within.stop_with(working)

    def end(self) -> None:
        """Close the handle, and stop its background tasks."""
        self._is_over = True
        for each in list(self._working):
            each.stop()


def _make_write_path(settings: Settings, stores: Stores, branch_states: BranchStates) -> WritePath:
    open_locks = partial(
        open_write_locks,
        settings.location,
        objects=stores.objects,
        locking=settings.locking,
        fence=Fence(branch_states, stores.tables),
    )
    locks = open_locks(timeout_s=WRITE_LOCK_TIMEOUT_S)
    recoverer = Recoverer(
        branch_states=branch_states,
        stores=stores,
        locks=locks,
        free_locks=open_locks(timeout_s=0.0),
        runtime=settings.runtime,
        failpoints=settings.failpoints,
        observer=settings.observer,
    )
    return WritePath(
        branch_states=branch_states,
        stores=stores,
        recoverer=recoverer,
        locks=locks,
        runtime=settings.runtime,
        failpoints=settings.failpoints,
        observer=settings.observer,
        load_concurrency=settings.load_concurrency,
    )
