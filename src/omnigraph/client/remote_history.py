"""The history and schema calls of a remote graph: branches, tags, merges, commits, diffs, changes.

A change set is read whole, as Arrow streams. A change feed reads a page of commits at a time and
ends at the commit that was the head when iteration began. A feed has one reader at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.client.requests import (
    Arguments,
    GraphEndpoint,
    Make,
    list_field,
    open_streams,
    plain_row,
    require_no_actor,
    require_no_session,
    text_field,
)
from omnigraph.engine.changes import ChangeSet, CommitChanges
from omnigraph.engine.executors import parse_engine
from omnigraph.engine.results import (
    MergeResult,
    MigrationPlan,
    SchemaApplyResult,
    SnapshotState,
    TableState,
)
from omnigraph.engine.state.history import Commit, CommitLog
from omnigraph.http.arrow import decode_change_set
from omnigraph.http.decode import applied_of, commit_of, merge_of, plan_of, tables_of
from omnigraph.http.transport import (
    ARROW,
    ConnectionLostError,
    InvalidResponseError,
    Response,
    RetrySafety,
)
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import FEED_COMMITS
from omnigraph.model.names import (
    MAIN,
    parse_branch_name,
    parse_tag_name,
    require_names,
    require_text,
)

if TYPE_CHECKING:
    from omnigraph.engine.state.history import Recovery

COMMIT_HEADER = "Omnigraph-Graph-Commit"

_AFTER = "after:"


def read_diff(routes: GraphEndpoint, arguments: Arguments) -> ChangeSet:
    """The changes from one state to another."""
    request = routes.request(
        "GET", ("diff",), "compare", arguments=arguments, headers={"Accept": ARROW}
    )
    return routes.asking.ask(request, _read_one)


def open_feed(routes: GraphEndpoint, start: str, branch: str) -> RemoteFeed:
    """Open the change feed of a branch; the server checks whether it can start there."""
    arguments = {"start": start, "branch": branch, "commits": "0"}
    cursor = routes.get(
        "follow the changes", "changes", make=text_field("cursor"), arguments=arguments
    )
    return RemoteFeed(routes, cursor, branch)


class RemoteFeed:
    """A change feed: iterating yields the commits up to the current head and then ends.

    Iterating again yields the commits made since. Save `cursor` to continue later. A feed supports
    one reader at a time.
    """

    def __init__(self, routes: GraphEndpoint, cursor: str, branch: str) -> None:
        self._routes, self._cursor, self._branch = routes, cursor, branch

    @property
    def cursor(self) -> str:
        """The position of the feed: `beginning`, or `after:` and the id of the last commit read."""
        return self._cursor

    def __iter__(self) -> Iterator[CommitChanges]:
        last: str | None = None
        while self._cursor != last:
            found, head = self._read_page()
            last = f"{_AFTER}{head}" if last is None else last
            if not found:
                return
            for each in found:
                yield each
                self._cursor = each.cursor
                if self._cursor == last:
                    return

    def __repr__(self) -> str:
        return f"<ChangeFeed of {self._branch} at {self._cursor}>"

    def _read_page(self) -> tuple[list[CommitChanges], str]:
        request = self._routes.request(
            "GET",
            ("changes",),
            "follow the changes",
            arguments={
                "start": self._cursor,
                "branch": self._branch,
                "commits": str(FEED_COMMITS),
            },
            headers={"Accept": ARROW},
        )
        return self._routes.asking.ask(request, _read_page)


def _read_one(reply: Response) -> ChangeSet:
    with open_streams(reply) as file:
        return _decode(file)[0]


def _read_page(reply: Response) -> tuple[list[CommitChanges], str]:
    found = []
    count, head = reply.number("Omnigraph-Commit-Count"), reply.header(COMMIT_HEADER)
    if count is None or head is None:
        raise InvalidResponseError("it does not say how many commits there are")
    with open_streams(reply) as file:
        for _ in range(count):
            changes, note = _decode(file)
            commit = note["commit"]
            if not isinstance(commit, dict):
                raise InvalidResponseError("a commit is missing")
            found.append(CommitChanges(commit_of(commit), changes))
    return found, head


def _decode(file: pa.NativeFile) -> tuple[ChangeSet, dict[str, object]]:
    try:
        return decode_change_set(pa.ipc.open_stream(file), lambda: pa.ipc.open_stream(file))
    except pa.ArrowInvalid as error:
        raise ConnectionLostError(f"the changes end in the middle: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponseError(str(error)) from error


class RemoteHistory:
    """The history and schema calls of a remote graph."""

    _routes: GraphEndpoint

    def branches(self) -> list[str]:
        """The branches, `main` first, then by name."""
        names = self._routes.get("list the branches", "branches", make=_branches_of)
        return [MAIN, *sorted(names - {MAIN})]

    def create_branch(
        self,
        name: str,
        *,
        base: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
    ) -> None:
        """Create a branch at the head of another; no rows are copied.

        `if_commit` is the commit that the base branch must be at.
        """
        require_no_actor(actor, action="create a branch")
        self._routes.post(
            "create_branch",
            "branches",
            make=dict,
            body={"name": parse_branch_name(name), "from": parse_branch_name(base)},
            safety=RetrySafety.ONCE,
            terms=self._routes.conditional(if_commit),
        )

    def delete_branch(
        self, name: str, *, actor: str | None = None, if_commit: str | None = None
    ) -> None:
        """Delete a branch and the commits that only it has.

        `if_commit` is the commit that the branch must be at.
        """
        require_no_actor(actor, action="delete a branch")
        terms = self._routes.conditional(if_commit)
        self._routes.delete("delete_branch", "branches", parse_branch_name(name), terms=terms)

    def tag(self, name: str, commit: str, *, actor: str | None = None) -> None:
        """Name a commit permanently; it remains readable as long as the tag exists."""
        require_no_actor(actor, action="tag a commit")
        require_text(commit, subject="commit")
        body = {"name": parse_tag_name(name), "commit": commit}
        self._routes.post("tag", "tags", make=dict, body=body, safety=RetrySafety.ONCE)

    def tags(self) -> dict[str, str]:
        """The tags by name, each with the id of its commit."""
        return dict(self._routes.get("list the tags", "tags", make=list_field("tags", _tag_of)))

    def delete_tag(self, name: str) -> None:
        """Delete a tag; its commit is not affected."""
        self._routes.delete("delete_tag", "tags", parse_tag_name(name))

    def merge(  # noqa: PLR0913  # the published signature
        self,
        source: str,
        *,
        into: str = "main",
        actor: str | None = None,
        dry_run: bool = False,
        granularity: str = "row",
        resolve: Mapping[tuple[str, str], object] | None = None,
        engine: str = "auto",
        spark: object = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Merge a branch into another as one commit, or change nothing.

        Conflicts raise `MergeConflictError`; a dry run returns them in its result. `resolve` maps
        each (type, id) to `"source"`, `"target"` or a row. `if_commit` is the commit that the
        target branch must be at. A retry with the same `idempotency_key` is applied once and
        returns the same result.
        """
        require_no_actor(actor, action="merge")
        require_no_session(spark)
        if resolve is not None or granularity not in ("row", "property"):
            part = import_module("omnigraph.engine.merge.options")
            part.parse_terms(granularity=granularity, resolve=resolve, is_dry_run=dry_run)
        decisions = [_tell_decision(key, given) for key, given in (resolve or {}).items()]
        body = {
            "source": parse_branch_name(source),
            "target": parse_branch_name(into),
            "dry_run": dry_run,
            "granularity": granularity,
            "resolve": decisions or None,
            "engine": _tell_engine(engine),
        }
        return self._routes.post(
            "merge",
            "branches",
            "merge",
            make=merge_of,
            body=body,
            safety=RetrySafety.READ if dry_run else RetrySafety.KEYED,
            terms=self._routes.conditional(if_commit)
            if dry_run
            else self._routes.keyed(if_commit, idempotency_key),
        )

    def revert(
        self,
        commit: str,
        *,
        branch: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Undo one commit of a branch with a new commit; later commits remain.

        `if_commit` and `idempotency_key` work as in `merge`.
        """
        require_no_actor(actor, action="revert")
        return self._replay(
            commit, "revert", {"branch": parse_branch_name(branch)}, if_commit, idempotency_key
        )

    def cherry_pick(
        self,
        commit: str,
        *,
        onto: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Apply the changes of one commit to another branch.

        `if_commit` and `idempotency_key` work as in `merge`.
        """
        require_no_actor(actor, action="cherry-pick")
        return self._replay(
            commit, "cherry-pick", {"onto": parse_branch_name(onto)}, if_commit, idempotency_key
        )

    def _replay(
        self,
        commit: str,
        verb: str,
        body: Mapping[str, object],
        if_commit: str | None,
        idempotency_key: str | None,
    ) -> MergeResult:
        require_text(commit, subject="commit")
        return self._routes.post(
            verb,
            "commits",
            commit,
            verb,
            make=merge_of,
            body=body,
            safety=RetrySafety.KEYED,
            terms=self._routes.keyed(if_commit, idempotency_key),
        )

    def commits(self, branch: str = "main", *, actor: str | None = None) -> list[Commit]:
        """The commits of a branch, oldest first; `actor` selects those of one actor."""
        arguments: dict[str, str] = {"branch": parse_branch_name(branch)}
        if actor is not None:
            arguments["actor"] = actor
        found = self._routes.get(
            "list the commits",
            "commits",
            make=list_field("commits", commit_of),
            arguments=arguments,
        )
        return CommitLog(found)

    def commit(self, id: str) -> Commit:
        """The commit with an id, or the commit that a tag names."""
        require_text(id, subject="commit")
        return self._routes.get("find a commit", "commits", id, make=commit_of)

    def head(self, branch: str = "main") -> str:
        """The id of the head commit of a branch."""
        arguments = {"branch": parse_branch_name(branch)}
        make = text_field("commit_id")
        return self._routes.get("find the head", "head", make=make, arguments=arguments)

    def diff(
        self,
        old: str,
        new: str,
        *,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
        engine: str = "auto",
        spark: object = None,
    ) -> ChangeSet:
        """The net changes from one branch, commit or tag to another."""
        require_no_session(spark)
        for subject, given in (("old", old), ("new", new)):
            require_text(given, subject=subject)
        arguments = {
            "old": old,
            "new": new,
            "types": None if types is None else ",".join(require_names(types, subject="types")),
            "ops": None if ops is None else ",".join(require_names(ops, subject="ops")),
            "engine": _tell_engine(engine),
        }
        return read_diff(self._routes, arguments)

    def changes(self, start: str, branch: str = "main") -> RemoteFeed:
        """A feed of the changes of each commit from `now`, `beginning` or `after:<commit>` on."""
        require_text(start, subject="start")
        return open_feed(self._routes, start, parse_branch_name(branch))

    def tables(self, branch: str = "main") -> dict[str, TableState]:
        """The types of a branch at its head, by key; paths are relative to the graph."""
        return self._snapshot(branch)[1]

    def snapshot(self, branch: str = "main") -> SnapshotState:
        """The head commit of a branch, and its types at that commit."""
        commit_id, tables = self._snapshot(branch)
        return SnapshotState(self.commit(commit_id), tables)

    def _snapshot(self, branch: str) -> tuple[str, dict[str, TableState]]:
        return self._routes.get(
            "look at a branch",
            "snapshot",
            make=lambda body: (str(body["commit_id"]), tables_of(body)),
            arguments={"branch": parse_branch_name(branch)},
        )

    def recoveries(self) -> list[Recovery]:
        """The recoveries of interrupted writes and their outcomes, oldest first."""
        part = import_module("omnigraph.http.decode")
        make: Make[list[Recovery]] = list_field("recoveries", part.recovery_of)
        return self._routes.get("list the recoveries", "recoveries", make=make)

    # Schema

    def plan_schema(self, source: str, *, allow_data_loss: bool = False) -> MigrationPlan:
        """The steps from the accepted schema to another one; changes nothing."""
        require_text(source, subject="source")
        return self._routes.post(
            "plan_schema",
            "schema",
            "plan",
            make=plan_of,
            body={"schema_source": source, "allow_data_loss": allow_data_loss},
            safety=RetrySafety.READ,
            text=source,
        )

    def apply_schema(
        self,
        source: str,
        *,
        allow_data_loss: bool = False,
        actor: str | None = None,
        engine: str = "auto",
        spark: object = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaApplyResult:
        """Apply a schema as one commit, or change nothing.

        Dropped types and properties remain readable in earlier commits, unless `allow_data_loss`
        deletes them there too. `if_commit` is the commit that `main` must be at. A retry with the
        same `idempotency_key` is applied once and returns the same result.
        """
        require_no_actor(actor, action="apply a schema")
        require_no_session(spark)
        require_text(source, subject="source")
        body = {
            "schema_source": source,
            "allow_data_loss": allow_data_loss,
            "engine": _tell_engine(engine),
        }
        return self._routes.post(
            "apply_schema",
            "schema",
            "apply",
            make=applied_of,
            body=body,
            safety=RetrySafety.KEYED,
            terms=self._routes.keyed(if_commit, idempotency_key),
            text=source,
        )


def _tell_engine(engine: str) -> str | None:
    """The engine as a request field; None if the server is to choose."""
    return None if engine == "auto" else parse_engine(engine, spark=None).value


def _branches_of(body: Mapping[str, object]) -> set[str]:
    found = body["branches"]
    if not isinstance(found, list):
        raise TypeError("a list is needed")
    return {str(each) for each in found}


def _tag_of(told: Mapping[str, object]) -> tuple[str, str]:
    return str(told["name"]), str(told["commit_id"])


def _tell_decision(key: tuple[str, str], given: object) -> dict[str, object]:
    told_key: dict[str, object] = {"type": key[0], "id": key[1]}
    if isinstance(given, Mapping):
        return {**told_key, "row": plain_row(given, subject=f"resolve {key[0]} '{key[1]}'")}
    if isinstance(given, str):
        return {**told_key, "choice": given}
    raise InvalidValueError(
        subject="resolve",
        expected="a decision",
        value=given,
        problem=f'{key[0]} \'{key[1]}\': decide with "source", "target" or the row that it '
        "shall be",
    )
