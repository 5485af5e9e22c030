"""The change feed: the commits of a branch in order, each with exactly its changes.

The feed follows first parents, so a merge is one commit with all the changes that it brought. The
cursor advances past a commit when the next one is requested, so a reader that stops in between
receives that commit again. The cost depends on what the commits wrote, plus one read of the history
since the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from omnigraph.engine.changes import CommitChanges
from omnigraph.engine.ops.diff import diff, parse_selection
from omnigraph.engine.ops.retry import branch_guard
from omnigraph.engine.row_security.writes import without_rows
from omnigraph.engine.state.branch_state import Basis, BranchStates
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import (
    GRAPH_COMMIT,
    STATE_COLUMNS,
    ManifestState,
    decode_commits,
    manifest_ref,
    reduce_manifest,
)
from omnigraph.model.errors import FeedGapError, InvalidValueError, NotFoundError
from omnigraph.model.names import BranchName, require_text
from omnigraph.model.ports import Action
from omnigraph.storage.ports import TableReader, TableVersion
from omnigraph.storage.predicates import And, Operator, Predicate, compare, equals

_BEGINNING = "beginning"
_AFTER = "after:"
_COMMITS = equals("object_type", GRAPH_COMMIT)


class VisibleStateFunction(Protocol):
    """Returns the part of a state that a reader sees."""

    def __call__(
        self, basis: Basis, action: Action, *, branch: BranchName, present: Basis
    ) -> Basis: ...


@dataclass(frozen=True, slots=True)
class FeedPath:
    """The dependencies of a feed: the current state, the visible part, past states, and rows."""

    pin: Callable[[BranchName], Basis]
    restrict: VisibleStateFunction
    branch_states: BranchStates
    tables: TableReader


def open_feed(start: str, *, branch: BranchName, path: FeedPath) -> ChangeFeed:
    """The feed of a branch from now on, from its first commit, or from after a commit.

    Raises `NotFoundError` of kind `cursor` if the commit is not in the history of the branch: it
    belongs to another branch, or the branch was recreated since.
    """
    require_text(start, subject="start")
    if start not in ("now", _BEGINNING) and not start.startswith(_AFTER):
        raise InvalidValueError(
            subject="start",
            expected="now, beginning or after:<commit>",
            value=start,
            problem=f"{start!r} is neither now, beginning nor after:<commit>",
        )
    state = path.pin(branch).state
    if start == "now":
        return ChangeFeed(f"{_AFTER}{state.head.id}", branch=branch, path=path)
    _read_backlog(start, state, path.tables)
    return ChangeFeed(start, branch=branch, path=path)


class ChangeFeed:
    """An iterable of commits; each iteration yields the commits since the last one, and ends.

    Store `cursor` to continue later. A feed supports one reader at a time.
    """

    def __init__(self, cursor: str, *, branch: BranchName, path: FeedPath) -> None:
        self._cursor = cursor
        self._branch = branch
        self._path = path

    @property
    def cursor(self) -> str:
        """The position of the feed: `beginning`, or `after:` and the last commit that it passed."""
        return self._cursor

    def __iter__(self) -> Iterator[CommitChanges]:
        basis, tables = self._path.pin(self._branch), self._path.tables
        selection = parse_selection([basis.catalog], types=None, ops=None)
        last, pending = _read_backlog(self._cursor, basis.state, tables)
        state = None
        if last is not None:
            with self._reading(basis.state, last):
                state = self._state_of(last)
        for commit in pending:
            before = state
            with self._reading(basis.state, commit):
                state = self._advance(before, commit)
                older = None if before is None else self._as_of(before, basis)
                newer = self._as_of(state, basis)
                changes = diff(older, newer, selection=selection, tables=tables)
            shown = commit if newer.visible is None else without_rows(commit)
            yield CommitChanges(shown, changes)
            self._cursor = f"{_AFTER}{commit.id}"

    def __repr__(self) -> str:
        return f"<ChangeFeed of {self._branch} at {self._cursor}>"

    @contextmanager
    def _reading(self, state: ManifestState, commit: Commit) -> Iterator[None]:
        """A block that reads a commit of the pinned branch, which must still exist."""
        branch_states = self._path.branch_states
        advice = "`branches` lists those that are there"
        try:
            # If the head of a branch exists, so does every commit by first parents: a branch
            # retains its base.
            with branch_guard(
                state, branch_states=branch_states, advice=advice, checks_result=True
            ):
                yield
        except NotFoundError as error:
            if not branch_states.has_branch(self._branch):
                raise
            if error.kind == "branch":
                raise _rejected(commit.id, state) from error
            resume = f"{_AFTER}{state.head.id}"
            raise FeedGapError(commit_id=commit.id, resume=resume) from error

    def _as_of(self, state: ManifestState, present: Basis) -> Basis:
        """The visible part of a past state, under the schema of that state."""
        found = Basis(state, self._path.branch_states.schema_at(state))
        return self._path.restrict(found, Action.READ, branch=self._branch, present=present)

    def _advance(self, state: ManifestState | None, commit: Commit) -> ManifestState:
        if state is None:
            return self._state_of(commit)
        branch = BranchName(commit.branch)
        at = TableVersion(manifest_ref(branch), commit.manifest_version)
        rows = self._path.tables.scan_new(at, since=state.at, columns=STATE_COLUMNS)
        found = reduce_manifest(rows, at=at, branch=branch, onto=state)
        if found.head.id != commit.id:
            raise _rejected(commit.id, found)
        return found

    def _state_of(self, commit: Commit) -> ManifestState:
        return self._path.branch_states.state_of(
            commit.id, branch=commit.branch, version=commit.manifest_version
        )


def _read_backlog(
    cursor: str, state: ManifestState, tables: TableReader
) -> tuple[Commit | None, list[Commit]]:
    """The commit at a cursor, None before the first, and the later ones by first parents."""
    last_id = None if cursor == _BEGINNING else cursor.removeprefix(_AFTER)
    last = None
    predicate: Predicate = _COMMITS
    if last_id is not None:
        is_last = And((_COMMITS, equals("object_id", last_id)))
        found = decode_commits(tables.scan(state.at, columns=STATE_COLUMNS, predicate=is_last))
        if not found:
            raise _rejected(last_id, state)
        last = found[0]
        # Along first parents, the versions of the manifest only increase.
        newer = compare("table_version", Operator.GT, last.manifest_version)
        predicate = And((_COMMITS, newer))
    rows = tables.scan(state.at, columns=STATE_COLUMNS, predicate=predicate)
    commit_by_id = {commit.id: commit for commit in decode_commits(rows)}
    pending: list[Commit] = []
    next_id: str | None = state.head.id
    while next_id != last_id:
        commit = commit_by_id.get(next_id or "")
        if commit is None:
            raise _rejected(last_id or _BEGINNING, state)
        pending.append(commit)
        next_id = commit.parent_id
    return last, pending[::-1]


def _rejected(name: str, state: ManifestState) -> NotFoundError:
    return NotFoundError(
        kind="cursor",
        name=name,
        advice=f"it is not in the history of branch '{state.branch}': it is another branch's, or "
        "this one was recreated; export a commit and start again after it",
    )
