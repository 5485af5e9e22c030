"""The history and schema calls of a remote graph: branches, tags, merges, commits, diffs, changes.

A change set is read whole, as Arrow streams. A change feed reads a page of commits at a time and
ends at the commit that was the head when iteration began. A feed has one reader at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.client.requests import (
    READ,
    GraphEndpoint,
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
from omnigraph.http.decode import (
    applied_of,
    commit_of,
    merge_of,
    plan_of,
    recovery_of,
    tables_of,
)
from omnigraph.http.transport import (
    ARROW,
    ConnectionLostError,
    InvalidResponseError,
    Response,
    RetrySafety,
)
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import FEED_COMMITS_MAX
from omnigraph.model.names import (
    MAIN,
    parse_branch_name,
    parse_tag_name,
    require_names,
    require_text,
)
from omnigraph.model.runtime import lazy_module

if TYPE_CHECKING:
    from omnigraph.engine.merge import options as merge_options
    from omnigraph.engine.state.history import Recovery
else:
    merge_options = lazy_module("omnigraph.engine.merge.options")

COMMIT_HEADER = "Omnigraph-Graph-Commit"

_AFTER = "after:"


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
        count = str(FEED_COMMITS_MAX)
        arguments = {"start": self._cursor, "branch": self._branch, "commits": count}
        request = self._routes.request(
            "GET",
            ("changes",),
            "follow the changes",
            arguments=arguments,
            headers={"Accept": ARROW},
        )
        return self._routes.sender.send(request, _read_page)


def _read_one(response: Response) -> ChangeSet:
    with open_streams(response) as file:
        return _decode(file)[0]


def _read_page(response: Response) -> tuple[list[CommitChanges], str]:
    found = []
    count, head = response.number("Omnigraph-Commit-Count"), response.header(COMMIT_HEADER)
    if count is None or head is None:
        raise InvalidResponseError("it does not contain the number of commits")
    with open_streams(response) as file:
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
        raise ConnectionLostError(f"the changes are incomplete: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponseError(str(error)) from error


class RemoteHistory:
    """The history and schema calls of a remote graph."""

    _routes: GraphEndpoint

    def branches(self) -> list[str]:
        names = self._routes.get("list the branches", "branches", decode=_branches_of)
        return [MAIN, *sorted(names - {MAIN})]

    def create_branch(
        self,
        name: str,
        *,
        base: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
    ) -> None:
        require_no_actor(actor, action="create a branch")
        self._routes.post(
            "create_branch",
            "branches",
            decode=dict,
            body={"name": parse_branch_name(name), "from": parse_branch_name(base)},
            options=self._routes.conditional(if_commit),
        )

    def delete_branch(
        self, name: str, *, actor: str | None = None, if_commit: str | None = None
    ) -> None:
        require_no_actor(actor, action="delete a branch")
        branch = parse_branch_name(name)
        self._routes.delete("delete_branch", "branches", branch, if_commit=if_commit)

    def tag(self, name: str, commit: str, *, actor: str | None = None) -> None:
        require_no_actor(actor, action="tag a commit")
        require_text(commit, subject="commit")
        body = {"name": parse_tag_name(name), "commit": commit}
        options = self._routes.conditional(None)
        self._routes.post("tag", "tags", decode=dict, body=body, options=options)

    def tags(self) -> dict[str, str]:
        decode = list_field("tags", lambda each: (str(each["name"]), str(each["commit_id"])))
        return dict(self._routes.get("list the tags", "tags", decode=decode))

    def delete_tag(self, name: str) -> None:
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
        require_no_actor(actor, action="merge")
        require_no_session(spark)
        if resolve is not None or granularity not in ("row", "property"):
            merge_options.parse_options(
                granularity=granularity, resolve=resolve, is_dry_run=dry_run
            )
        decisions = [_encode_decision(key, given) for key, given in (resolve or {}).items()]
        body = {
            "source": parse_branch_name(source),
            "target": parse_branch_name(into),
            "dry_run": dry_run,
            "granularity": granularity,
            "resolve": decisions or None,
            "engine": _encode_engine(engine),
        }
        return self._routes.post(
            "merge",
            "branches",
            "merge",
            decode=merge_of,
            body=body,
            options=self._routes.conditional(if_commit, RetrySafety.READ)
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
        require_no_actor(actor, action="revert")
        return self._apply_commit(
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
        require_no_actor(actor, action="cherry-pick")
        return self._apply_commit(
            commit, "cherry-pick", {"onto": parse_branch_name(onto)}, if_commit, idempotency_key
        )

    def _apply_commit(
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
            decode=merge_of,
            body=body,
            options=self._routes.keyed(if_commit, idempotency_key),
        )

    def commits(self, branch: str = "main", *, actor: str | None = None) -> list[Commit]:
        arguments: dict[str, str] = {"branch": parse_branch_name(branch)}
        if actor is not None:
            arguments["actor"] = actor
        found = self._routes.get(
            "list the commits",
            "commits",
            decode=list_field("commits", commit_of),
            arguments=arguments,
        )
        return CommitLog(found)

    def commit(self, id: str) -> Commit:
        require_text(id, subject="commit")
        return self._routes.get("find a commit", "commits", id, decode=commit_of)

    def head(self, branch: str = "main") -> str:
        arguments = {"branch": parse_branch_name(branch)}
        decode = text_field("commit_id")
        return self._routes.get("find the head", "head", decode=decode, arguments=arguments)

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
        require_no_session(spark)
        for subject, given in (("old", old), ("new", new)):
            require_text(given, subject=subject)
        arguments = {
            "old": old,
            "new": new,
            "types": None if types is None else ",".join(require_names(types, subject="types")),
            "ops": None if ops is None else ",".join(require_names(ops, subject="ops")),
            "engine": _encode_engine(engine),
        }
        request = self._routes.request(
            "GET", ("diff",), "compare", arguments=arguments, headers={"Accept": ARROW}
        )
        return self._routes.sender.send(request, _read_one)

    def changes(self, start: str, branch: str = "main") -> RemoteFeed:
        require_text(start, subject="start")
        name, decode = parse_branch_name(branch), text_field("cursor")
        # The server checks whether the feed can start there.
        arguments = {"start": start, "branch": name, "commits": "0"}
        cursor = self._routes.get(
            "follow the changes", "changes", decode=decode, arguments=arguments
        )
        return RemoteFeed(self._routes, cursor, name)

    def tables(self, branch: str = "main") -> dict[str, TableState]:
        """As `Graph.tables`; paths are relative to the graph."""
        return self._snapshot(branch)[1]

    def snapshot(self, branch: str = "main") -> SnapshotState:
        commit_id, tables = self._snapshot(branch)
        return SnapshotState(self.commit(commit_id), tables)

    def _snapshot(self, branch: str) -> tuple[str, dict[str, TableState]]:
        return self._routes.get(
            "read a branch",
            "snapshot",
            decode=lambda body: (str(body["commit_id"]), tables_of(body)),
            arguments={"branch": parse_branch_name(branch)},
        )

    def recoveries(self) -> list[Recovery]:
        decode = list_field("recoveries", recovery_of)
        return self._routes.get("list the recoveries", "recoveries", decode=decode)

    # Schema

    def plan_schema(self, source: str, *, allow_data_loss: bool = False) -> MigrationPlan:
        require_text(source, subject="source")
        return self._routes.post(
            "plan_schema",
            "schema",
            "plan",
            decode=plan_of,
            body={"schema_source": source, "allow_data_loss": allow_data_loss},
            options=READ,
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
        require_no_actor(actor, action="apply a schema")
        require_no_session(spark)
        require_text(source, subject="source")
        body = {
            "schema_source": source,
            "allow_data_loss": allow_data_loss,
            "engine": _encode_engine(engine),
        }
        return self._routes.post(
            "apply_schema",
            "schema",
            "apply",
            decode=applied_of,
            body=body,
            options=self._routes.keyed(if_commit, idempotency_key),
            text=source,
        )


def _encode_engine(engine: str) -> str | None:
    """The engine as a request field; None if the server is to choose."""
    return None if engine == "auto" else parse_engine(engine, spark=None).value


def _branches_of(body: Mapping[str, object]) -> set[str]:
    found = body["branches"]
    if not isinstance(found, list):
        raise TypeError("expected a list")
    return {str(each) for each in found}


def _encode_decision(key: tuple[str, str], given: object) -> dict[str, object]:
    entity: dict[str, object] = {"type": key[0], "id": key[1]}
    if isinstance(given, Mapping):
        return {**entity, "row": plain_row(given, subject=f"resolve {key[0]} '{key[1]}'")}
    if isinstance(given, str):
        return {**entity, "choice": given}
    raise InvalidValueError(
        subject="resolve",
        expected="a decision",
        value=given,
        problem=f'{key[0]} \'{key[1]}\': the decision is "source", "target" or a row',
    )
