"""The calls of a served graph about its history and its schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph.client.changes import RemoteFeed, open_feed, read_diff
from omnigraph.client.exchanges import Safety
from omnigraph.client.params import plain_row
from omnigraph.client.routes import (
    Make,
    Routes,
    list_field,
    require_no_actor,
    require_no_session,
    text_field,
)
from omnigraph.engine.changes import ChangeSet
from omnigraph.engine.engines import parse_engine
from omnigraph.engine.results import (
    MergeResult,
    MigrationPlan,
    SchemaApplyResult,
    SnapshotState,
    TableState,
)
from omnigraph.engine.state.history import Commit, CommitLog
from omnigraph.model.arguments import require_names, require_text
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.names import MAIN, parse_branch_name, parse_tag_name
from omnigraph.wire.readings import (
    applied_of,
    commit_of,
    merge_of,
    plan_of,
    tables_of,
)

if TYPE_CHECKING:
    from omnigraph.engine.commit.audit import Recovery


class RemoteHistory:
    """Git for a whole graph, asked of a server."""

    _routes: Routes

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
        """Start a branch at the head of another; no rows are copied.

        `if_commit` names the commit that the other must be at.
        """
        require_no_actor(actor, action="create a branch")
        self._routes.post(
            "create_branch",
            "branches",
            make=dict,
            body={"name": parse_branch_name(name), "from": parse_branch_name(base)},
            safety=Safety.ONCE,
            terms=self._routes.conditional(if_commit),
        )

    def delete_branch(
        self, name: str, *, actor: str | None = None, if_commit: str | None = None
    ) -> None:
        """Delete a branch and the commits that only it had.

        `if_commit` names the commit that it must be at.
        """
        require_no_actor(actor, action="delete a branch")
        terms = self._routes.conditional(if_commit)
        self._routes.delete("delete_branch", "branches", parse_branch_name(name), terms=terms)

    def tag(self, name: str, commit: str, *, actor: str | None = None) -> None:
        """Name a commit, for good; it stays readable as long as the tag is there."""
        require_no_actor(actor, action="tag a commit")
        require_text(commit, subject="commit")
        body = {"name": parse_tag_name(name), "commit": commit}
        self._routes.post("tag", "tags", make=dict, body=body, safety=Safety.ONCE)

    def tags(self) -> dict[str, str]:
        """The tags by name, each with the id of its commit."""
        return dict(self._routes.get("list the tags", "tags", make=list_field("tags", _tag_of)))

    def delete_tag(self, name: str) -> None:
        """Take a tag away; its commit stays."""
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

        Conflicts are a `MergeConflictError`, or part of the result of a dry run; `resolve` decides
        them: `"source"`, `"target"` or a row for each (type, id). `if_commit` names the commit that
        the other branch must be at. What is asked again with the same `idempotency_key` is done
        once, and answered alike.
        """
        require_no_actor(actor, action="merge")
        require_no_session(spark)
        if resolve is not None or granularity not in ("row", "property"):
            part = import_module("omnigraph.engine.ops.terms")
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
            safety=Safety.READ if dry_run else Safety.KEYED,
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
        """Undo one commit of a branch's history by a new one; later commits stay.

        `if_commit` and `idempotency_key` are those of `merge`.
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
        """Do on a branch what one commit did elsewhere.

        `if_commit` and `idempotency_key` are those of `merge`.
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
            safety=Safety.KEYED,
            terms=self._routes.keyed(if_commit, idempotency_key),
        )

    def commits(self, branch: str = "main") -> list[Commit]:
        """The commits of a branch, oldest first."""
        found = self._routes.get(
            "list the commits",
            "commits",
            make=list_field("commits", commit_of),
            arguments={"branch": parse_branch_name(branch)},
        )
        return CommitLog(found)

    def commit(self, id: str) -> Commit:
        """The commit of an id, or the one that a tag names."""
        require_text(id, subject="commit")
        return self._routes.get("find a commit", "commits", id, make=commit_of)

    def head(self, branch: str = "main") -> str:
        """The id of the commit that a branch is at."""
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
        """What changed from one branch, commit or tag to another, net."""
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
        """What each commit of a branch changed, from `now`, `beginning` or `after:<commit>` on."""
        require_text(start, subject="start")
        return open_feed(self._routes, start, parse_branch_name(branch))

    def tables(self, branch: str = "main") -> dict[str, TableState]:
        """The snapshot of a branch; paths are those below the graph."""
        return self._snapshot(branch)[1]

    def snapshot(self, branch: str = "main") -> SnapshotState:
        """The commit that a branch is at, and its types as they are there."""
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
        """Writes that had stopped half-way, and how they were ended, oldest first."""
        part = import_module("omnigraph.wire.recoveries")
        make: Make[list[Recovery]] = list_field("recoveries", part.recovery_of)
        return self._routes.get("list the recoveries", "recoveries", make=make)

    # Schema

    def plan_schema(self, source: str, *, allow_data_loss: bool = False) -> MigrationPlan:
        """The steps from the accepted schema to another one; nothing is changed."""
        require_text(source, subject="source")
        return self._routes.post(
            "plan_schema",
            "schema",
            "plan",
            make=plan_of,
            body={"schema_source": source, "allow_data_loss": allow_data_loss},
            safety=Safety.READ,
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
        """Make a schema the graph's as one commit, or change nothing.

        What is dropped stays readable in earlier commits, unless `allow_data_loss` takes it from
        those too. `if_commit` names the commit that main must be at. What is asked again with the
        same `idempotency_key` is done once, and answered alike.
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
            safety=Safety.KEYED,
            terms=self._routes.keyed(if_commit, idempotency_key),
            text=source,
        )


def _tell_engine(engine: str) -> str | None:
    """The engine as requests name it; nothing where the server shall choose."""
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
