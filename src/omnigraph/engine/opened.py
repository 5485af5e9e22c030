"""An open graph: the stores, caches and paths that its calls share, and where a call may look.

Built once when a graph is opened. Says which state a call is about, whether it may write, who is
calling, and asks the gate whether they may; what the calls do is in `ops`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from omnigraph.engine.commit.fencing import Fence
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.recover import Recoverer
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.compiled import CompiledQueries
from omnigraph.engine.ops.query import ReadPath
from omnigraph.engine.ops.reading.pieces import Means
from omnigraph.engine.ops.standing import telling_gone
from omnigraph.engine.ops.tags import find_tagged
from omnigraph.engine.read.access import AccessRules
from omnigraph.engine.read.memory import ReadMemory
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.read.views import Views
from omnigraph.engine.settings import Settings, require_text
from omnigraph.engine.state.authority import Authority, Basis
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.engine.state.readers import Readers
from omnigraph.model.arguments import require_one_place
from omnigraph.model.deferred import defer
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
    looks_like_commit,
    parse_branch_name,
)
from omnigraph.model.policy import Access, Action, View
from omnigraph.storage.locks import open_write_locks
from omnigraph.storage.outside_files import OutsideFiles
from omnigraph.storage.ports import Stores

if TYPE_CHECKING:
    from omnigraph.engine.ops import change_feed, limited_callers
    from omnigraph.engine.ops.change_feed import FeedPath
    from omnigraph.engine.reconciler import Reconciler
else:
    change_feed = defer("omnigraph.engine.ops.change_feed")
    limited_callers = defer("omnigraph.engine.ops.limited_callers")


class OpenGraph:
    """What the calls of one handle share; safe to share between threads."""

    def __init__(
        self, settings: Settings, stores: Stores, *, actor: str | None, is_read_only: bool
    ) -> None:
        self.settings = settings
        self.stores = stores
        self.compiled = CompiledQueries(settings.observer)
        self.reads = ReadPath(
            tables=stores.tables,
            memory=ReadMemory(settings.observer),
            embedder=settings.embedder,
            access=AccessRules(settings.traversal, settings.lookups),
            allowance=settings.allowance,
        )
        self.authority = Authority(
            uri=settings.location.uri,
            objects=stores.objects,
            tables=stores.tables,
        )
        self.readers = Readers(stores.objects, settings.locking.clock)
        self.views = Views(stores.tables, self.reads.memory)
        self.writes = _make_write_path(settings, stores, self.authority)
        self._actor = actor
        self._is_read_only = is_read_only
        self._life = _Life(None)

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be written, not even who reads."""
        return self._is_read_only

    @property
    def feeds(self) -> FeedPath:
        """What a change feed of this graph needs."""
        return change_feed.FeedPath(self.pin, self.seen, self.authority, self.stores.tables)

    def close(self) -> None:
        """Refuse further calls, and stop what works on the graph by itself."""
        self._life.end()

    def stop_with(self, working: Reconciler) -> None:
        """Have something that works by itself stopped when the graph is closed."""
        self._life.stop_with(working)

    def for_actor(self, actor: str) -> OpenGraph:
        """The same stores, caches and paths for somebody else; it ends with this one at the
        latest."""
        require_text(actor, subject="actor")
        made: OpenGraph = copy(self)
        made._actor = actor
        made._life = _Life(self._life)
        return made

    def pin(self, branch: BranchName) -> Basis:
        """The present of a branch, for a read."""
        self.require_open()
        return self.authority.pin(branch)

    def at(self, branch: str | None, commit: str | None, *, action: Action) -> Basis:
        """The state that a read asks for: a branch, `main` if it names nothing, or a commit.

        Raises unless the caller may read or export it; a commit is judged by its branch.
        """
        require_one_place(branch, commit)
        if commit is None:
            name = parse_branch_name(branch or MAIN)
            self.require_allowed(action, branch=name, target=None, actor=None)
            present = self.pin(name)
            return self.seen(present, action, branch=name, present=present)
        present = self.pin(MAIN)
        state = self.state_of(commit)
        self.require_allowed(action, branch=state.branch, target=None, actor=None)
        found = Basis(state, self.authority.contract_at(state))
        return self.seen(found, action, branch=state.branch, present=present)

    def seen(self, basis: Basis, action: Action, *, branch: BranchName, present: Basis) -> Basis:
        """The part of a state that the caller sees when reading or exporting a branch.

        `present` is a state under the accepted schema.
        """
        view = self.view_of(action, branch=branch)
        if view is None:
            return basis
        return self.views.limit(basis, view, present=present, now=self.settings.runtime.now())

    def seen_by_writer(self, present: Basis, *, branch: BranchName) -> Basis:
        """The part of the present that somebody sees who was allowed to change it.

        Who may not read at all is held to what they may do: no rule shows them a part.
        """
        try:
            return self.seen(present, Action.READ, branch=branch, present=present)
        except PolicyDeniedError:
            return present

    def require_whole(self, action: str, *, branch: BranchName) -> None:
        """Raise if the caller does not see all of a branch, for what matches or replaces rows."""
        if self.settings.gate is None:
            return
        present = self.pin(branch)
        self.require_seen_whole(self.seen_by_writer(present, branch=branch), action)

    def require_whole_graph(self, action: str) -> None:
        """Raise if there is a branch that the caller does not see all of."""
        if self.settings.gate is not None:
            for branch in self.authority.branches():
                self.require_whole(action, branch=branch)

    def require_seen_whole(self, basis: Basis, action: str) -> None:
        """Raise if a state is only a part of what there is."""
        if basis.limited is not None:
            raise ForbiddenError(
                actor=self._actor,
                action=action,
                reason="the policy limits what they see, and this call looks at everything",
            )

    def named(self, name: str) -> Basis:
        """The state that a name means: the present of a branch, else a commit or a tag.

        Raises unless the caller may read it.
        """
        self.require_open()
        require_text(name, subject="branch or commit")
        with suppress(InvalidNameError):
            branch = parse_branch_name(name)
            if self.authority.has_branch(branch):
                return self.at(branch, None, action=Action.READ)
        try:
            return self.at(None, name, action=Action.READ)
        except NotFoundError as error:
            if looks_like_commit(name):
                raise
            near = find_near_name(name, self._listed_branches())
            advice = "" if near is None else f"did you mean branch '{near}'?"
            raise NotFoundError(kind="branch, commit or tag", name=name, advice=advice) from error

    def state_of(self, commit: str) -> ManifestState:
        """What a commit made true, by its id or by a tag that names it."""
        self.require_open()
        require_text(commit, subject="commit")
        tag = find_tagged(commit, self.stores.objects)
        if tag is not None:
            return self.authority.state_of(
                tag.commit_id, branch=tag.branch, version=tag.manifest_version
            )
        found = self.authority.find_commit(commit)
        if found is None:
            raise self._no_commit(commit)
        return self.authority.state_of(
            found.id, branch=found.branch, version=found.manifest_version
        )

    def _no_commit(self, name: str) -> NotFoundError:
        advice = "a commit is named by its whole id, or by a tag"
        for each in self.authority.commits(MAIN):
            if each.merged_parent_id == name:
                advice = f"commit {each.id} merged it, and then its branch was deleted"
        return NotFoundError(kind="commit", name=name, advice=advice)

    def _listed_branches(self) -> Iterable[str]:
        """The branches, for those who may list them."""
        try:
            self.require_allowed(Action.READ, branch=None, target=None, actor=None)
        except PolicyDeniedError:
            return ()
        return self.authority.branches()

    @contextmanager
    def telling_no_rows(self, branch: BranchName) -> Iterator[None]:
        """Keep the rows of others out of what refuses a write, if not all of them are seen."""
        try:
            yield
        except IntegrityError as error:
            if self._sees_all_of(branch):
                raise
            raise limited_callers.without_others(error) from None

    @contextmanager
    def telling_conflicts(self, source: BranchName | None, *, target: BranchName) -> Iterator[None]:
        """Keep the rows of branches that are not all seen out of what refuses to join them.

        No source is a commit that the caller was allowed to read.
        """
        try:
            yield
        except MergeConflictError as error:
            if self.settings.gate is None:
                raise
            told = self.tell_conflicts(error.conflicts, source=source, target=target)
            raise MergeConflictError(conflicts=told) from None

    def tell_conflicts(
        self, conflicts: Sequence[Conflict], *, source: BranchName | None, target: BranchName
    ) -> tuple[Conflict, ...]:
        """Conflicts of two branches, as the caller may know of them."""
        if self.settings.gate is None or not conflicts:
            return tuple(conflicts)
        seen = partial(
            limited_callers.without_unseen,
            sees_source=source is None or self._sees_all_of(source),
            sees_target=self._sees_all_of(target),
        )
        return tuple(map(seen, conflicts))

    def tell(self, commits: Iterable[Commit], *, branch: BranchName) -> list[Commit]:
        """Commits of a branch, as the caller may know of them."""
        if self._sees_all_of(branch):
            return list(commits)
        return [limited_callers.without_rows(each) for each in commits]

    def _sees_all_of(self, branch: BranchName) -> bool:
        if self.settings.gate is None:
            return True
        present = self.pin(branch)
        try:
            seen = self.seen(present, Action.READ, branch=branch, present=present)
        except PolicyDeniedError:
            return False
        return seen.limited is None

    def rows_of(self, basis: Basis) -> SnapshotRows:
        """The rows of a state, as a write looks them up."""
        return SnapshotRows(basis.snapshot, tables=self.stores.tables)

    def means_of(self, basis: Basis) -> Means:
        """What reading the input of a load takes, by the schema of a state."""
        files = OutsideFiles(self.settings.location.storage_options, folder="")
        return Means(basis.catalog, self.settings.external_blobs, files)

    @contextmanager
    def reading(self, basis: Basis, *, is_past: bool) -> Iterator[None]:
        """Keep what a state names from being cleaned up while it is read for long."""
        if self._is_read_only:
            # Who may not write leaves no claim either; what was true lately is kept for a while.
            with self.telling_gone(basis):
                yield
            return
        id = self.settings.runtime.new_id()
        # Files are kept for whoever reads them, whichever of their rows that is.
        with (
            self.telling_gone(basis),
            self.readers.reading(basis.state.snapshot, id=id, is_past=is_past),
        ):
            yield

    def telling_gone(self, basis: Basis) -> AbstractContextManager[None]:
        """A block that reads a state; if its branch is deleted meanwhile, that is what is told."""
        return telling_gone(basis.state, authority=self.authority)

    def author(
        self, actor: str | None, kind: WriterKind, *, expected_head: str | None
    ) -> Authorship:
        """Who a write is by, and how."""
        return Authorship(actor=self.actor_of(actor), kind=kind, expected_head=expected_head)

    def actor_of(self, actor: str | None) -> str | None:
        """Whoever the call names, else whoever the graph was opened for.

        Where a gate decides, a call speaks for nobody but whom the graph was opened for.
        """
        name = actor or self._actor
        if self.settings.gate is not None and name != self._actor:
            raise ForbiddenError(
                actor=self._actor,
                action=f"act as '{name}'",
                reason="under a policy, who calls is said when the graph is opened, or by "
                "`for_actor`",
            )
        if name is not None:
            require_text(name, subject="actor")
        return name

    def require_allowed(
        self, action: Action, *, branch: str | None, target: str | None, actor: str | None
    ) -> None:
        """Raise unless whoever the graph was opened for may do this; without a gate all may.

        `actor` is whom the call names, if it names anybody: nobody else may be meant.
        """
        gate = self.settings.gate
        if gate is None:
            return
        self.actor_of(actor)
        asked = self._asked(action, branch, target)
        if asked.actor is None:
            raise PolicyDeniedError(
                actor=None,
                action=asked.action,
                branch=asked.branch,
                target=asked.target,
                reason="open the graph for an actor, because a policy decides who may do what",
            )
        gate.require(asked)

    def view_of(self, action: Action, *, branch: str | None) -> View | None:
        """What the caller sees of a branch when reading or exporting; None if that is all."""
        gate = self.settings.gate
        return None if gate is None else gate.view(self._asked(action, branch, None))

    def _asked(self, action: Action, branch: str | None, target: str | None) -> Access:
        if isinstance(branch, PrivateBranchName):
            # A transaction is a change of the branch that it began on, and nothing else.
            is_end = action is Action.BRANCH_MERGE
            return Access(self._actor, Action.CHANGE if is_end else action, branch.base, None)
        return Access(self._actor, action, branch, target)

    def require_open(self) -> None:
        """Raise if the graph was closed."""
        if self._life.has_ended:
            raise ForbiddenError(actor=None, action="use this graph", reason="it was closed")

    def require_writable(self, action: str) -> None:
        """Raise unless the graph is open for writing."""
        self.require_open()
        if self._is_read_only:
            raise ForbiddenError(
                actor=self._actor, action=action, reason="the graph was opened with read_only=True"
            )


class _Life:
    """Whether an open graph is still open, and what works on it by itself meanwhile."""

    def __init__(self, within: _Life | None) -> None:
        self._within = within
        self._is_over = False
        self._working: WeakSet[Reconciler] = WeakSet()

    @property
    def has_ended(self) -> bool:
        """Whether it was ended, or what it is within was."""
        return self._is_over or (self._within is not None and self._within.has_ended)

    def stop_with(self, working: Reconciler) -> None:
        """Have something that works by itself stopped at the end."""
        self._working.add(working)
        if self._within is not None:
            self._within.stop_with(working)

    def end(self) -> None:
        """End, and stop whatever works by itself."""
        self._is_over = True
        for each in list(self._working):
            each.stop()


def _make_write_path(settings: Settings, stores: Stores, authority: Authority) -> WritePath:
    open_locks = partial(
        open_write_locks,
        settings.location,
        objects=stores.objects,
        locking=settings.locking,
        fence=Fence(authority, stores.tables),
    )
    locks = open_locks(timeout_s=WRITE_LOCK_TIMEOUT_S)
    recoverer = Recoverer(
        authority=authority,
        stores=stores,
        locks=locks,
        free_locks=open_locks(timeout_s=0.0),
        runtime=settings.runtime,
        failpoints=settings.failpoints,
        observer=settings.observer,
    )
    return WritePath(
        authority=authority,
        stores=stores,
        recoverer=recoverer,
        locks=locks,
        runtime=settings.runtime,
        failpoints=settings.failpoints,
        observer=settings.observer,
    )
