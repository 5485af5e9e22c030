"""An open graph: the stores, caches and paths that its calls share, and where a call may look.

Built once when a graph is opened. Says which state a call is about, whether it may write, and who
is writing; what the calls do is in `ops`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from weakref import WeakSet

from omnigraph.engine.commit.fencing import Fence
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.recover import Recoverer
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.compiled import CompiledQueries
from omnigraph.engine.ops.change_feed import FeedPath
from omnigraph.engine.ops.query import ReadPath
from omnigraph.engine.ops.reading.pieces import Means
from omnigraph.engine.ops.tags import find_tagged
from omnigraph.engine.read.memory import ReadMemory
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.reconciler import Reconciler
from omnigraph.engine.settings import Settings, require_text
from omnigraph.engine.state.authority import Authority, Basis
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.engine.state.readers import Readers
from omnigraph.model.errors import (
    ForbiddenError,
    InvalidNameError,
    InvalidValueError,
    NotFoundError,
)
from omnigraph.model.limits import WRITE_LOCK_TIMEOUT_S
from omnigraph.model.names import (
    MAIN,
    BranchName,
    find_near_name,
    looks_like_commit,
    parse_branch_name,
)
from omnigraph.storage.locks import open_write_locks
from omnigraph.storage.outside_files import OutsideFiles
from omnigraph.storage.ports import Stores


class OpenGraph:
    """What the calls of one handle share; safe to share between threads."""

    def __init__(
        self, settings: Settings, stores: Stores, *, actor: str | None, is_read_only: bool
    ) -> None:
        self.settings = settings
        self.stores = stores
        self.compiled = CompiledQueries()
        self.reads = ReadPath(
            tables=stores.tables,
            memory=ReadMemory(),
            embedder=settings.embedder,
            mode=settings.traversal,
            allowance=settings.allowance,
        )
        self.authority = Authority(
            uri=settings.location.uri,
            objects=stores.objects,
            tables=stores.tables,
        )
        self.readers = Readers(stores.objects, settings.locking.clock)
        self.feeds = FeedPath(self.pin, self.authority, stores.tables)
        self.writes = _make_write_path(settings, stores, self.authority)
        self._actor = actor
        self._is_read_only = is_read_only
        self._is_closed = False
        self._working: WeakSet[Reconciler] = WeakSet()

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be written, not even who reads."""
        return self._is_read_only

    def close(self) -> None:
        """Refuse further calls, and stop what works on the graph by itself."""
        self._is_closed = True
        for each in list(self._working):
            each.stop()

    def stop_with(self, working: Reconciler) -> None:
        """Have something that works by itself stopped when the graph is closed."""
        self._working.add(working)

    def pin(self, branch: BranchName) -> Basis:
        """The present of a branch, for a read."""
        self.require_open()
        return self.authority.pin(branch)

    def at(self, branch: str | None, commit: str | None) -> Basis:
        """The state that a read asks for: a branch, `main` if it names nothing, or a commit."""
        if commit is None:
            return self.pin(parse_branch_name(branch or MAIN))
        if branch is not None:
            raise InvalidValueError(
                subject="branch and commit",
                expected="one of them",
                value=(branch, commit),
                problem="a read is at a branch or at a commit, not at both",
            )
        self.pin(MAIN)
        state = self.state_of(commit)
        return Basis(state, self.authority.contract_at(state))

    def named(self, name: str) -> Basis:
        """The state that a name means: the present of a branch, else a commit or a tag."""
        self.require_open()
        require_text(name, subject="branch or commit")
        with suppress(InvalidNameError):
            branch = parse_branch_name(name)
            if self.authority.has_branch(branch):
                return self.pin(branch)
        try:
            return self.at(None, name)
        except NotFoundError as error:
            if looks_like_commit(name):
                raise
            near = find_near_name(name, self.authority.branches())
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
        advice = "`commits` lists them, and `tags` what has a name"
        for each in self.authority.commits(MAIN):
            if each.merged_parent_id == name:
                advice = f"commit {each.id} merged it, and then its branch was deleted"
        return NotFoundError(kind="commit", name=name, advice=advice)

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
            yield
            return
        id = self.settings.runtime.new_id()
        with self.readers.reading(basis.snapshot, id=id, is_past=is_past):
            yield

    def author(
        self, actor: str | None, kind: WriterKind, *, expected_head: str | None
    ) -> Authorship:
        """Who a write is by, and how."""
        return Authorship(actor=self.actor_of(actor), kind=kind, expected_head=expected_head)

    def actor_of(self, actor: str | None) -> str | None:
        """Whoever the call names, else whoever the graph was opened for."""
        name = actor or self._actor
        if name is not None:
            require_text(name, subject="actor")
        return name

    def require_open(self) -> None:
        """Raise if the graph was closed."""
        if self._is_closed:
            raise ForbiddenError(actor=None, action="use this graph", reason="it was closed")

    def require_writable(self, action: str) -> None:
        """Raise unless the graph is open for writing."""
        self.require_open()
        if self._is_read_only:
            raise ForbiddenError(
                actor=self._actor, action=action, reason="the graph was opened with read_only=True"
            )


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
    )
    return WritePath(
        authority=authority,
        stores=stores,
        recoverer=recoverer,
        locks=locks,
        runtime=settings.runtime,
        failpoints=settings.failpoints,
    )
