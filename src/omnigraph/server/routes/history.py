"""The routes for branches, tags, commits, diffs, the change feed, merge, revert and cherry-pick.

Each write is one commit or changes nothing. Diffs are JSON pages or Arrow streams. A feed response
holds a bounded number of commits and the cursor of the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

import orjson

from omnigraph.engine.changes import ChangeSet
from omnigraph.engine.graph import Graph
from omnigraph.engine.results import MergeResult
from omnigraph.http.arrow import ARROW, accepts_arrow, encode_change_set
from omnigraph.http.encode import (
    branch_created,
    branch_deleted,
    commit_changes_output,
    commit_output,
    diff_output,
    merge_output,
    recovery_output,
    replay_output,
    snapshot_output,
)
from omnigraph.http.responses import (
    BranchList,
    CommitList,
    FeedOutput,
    HeadOutput,
    RecoveryList,
    TagDeleted,
    TagList,
    TagOutput,
)
from omnigraph.model.limits import BODY_BYTES_MAX, CHANGES_PER_PAGE, FEED_COMMITS_MAX
from omnigraph.model.names import BranchName, is_commit_id_like, parse_branch_name, parse_tag_name
from omnigraph.model.ports import Action
from omnigraph.server.context import GRAPH, Body, RequestContext, Route
from omnigraph.server.requests import BRANCH, CHERRY_PICK, MERGE, REVERT, TAG, Decision
from omnigraph.server.responses import (
    JSON,
    Response,
    StreamingResponse,
    answer_bytes,
    answer_json,
    bad_request,
    with_headers,
)
from omnigraph.server.routes.parameters import (
    COMMIT_HEADER,
    parse_branch,
    parse_count,
    parse_names,
    parse_write_options,
    translate_compile_errors,
    with_commit,
)

COUNT_HEADER = "Omnigraph-Commit-Count"


async def snapshot(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/snapshot"""
    branch = parse_branch(call.argument("branch"))
    call.require(Action.READ, branch=branch, target=None)
    output = snapshot_output(await call.read(lambda graph: graph.snapshot(branch)), branch=branch)
    return with_commit(answer_json(output), output["commit_id"])


async def head(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/head"""
    branch = parse_branch(call.argument("branch"))
    call.require(Action.READ, branch=branch, target=None)
    output: HeadOutput = {
        "branch": branch,
        "commit_id": await call.read(lambda graph: graph.head(branch)),
    }
    return with_commit(answer_json(output), output["commit_id"])


async def list_commits(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/commits"""
    given = call.argument("branch")
    branch = parse_branch(given)
    call.require(Action.READ, branch=None if given is None else branch, target=None)
    actor = call.argument("actor")

    def work(graph: Graph) -> bytes:
        found = graph.commits(branch, actor=actor)
        output: CommitList = {"commits": [commit_output(each) for each in found]}
        return orjson.dumps(output)

    return answer_bytes(await call.read(work), content_type=JSON)


async def show_commit(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/commits/{commit_id}"""
    call.require(Action.READ, branch=None, target=None)
    commit_id = call.name("commit_id")
    found = await call.read(lambda graph: graph.commit(commit_id))
    return answer_json(commit_output(found))


async def revert(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/commits/{commit_id}/revert"""
    branch = parse_branch(REVERT.read_optional(call.body, subject="body").branch)
    commit_id, terms = call.name("commit_id"), parse_write_options(call)

    def work(graph: Graph) -> MergeResult:
        return graph.revert(
            commit_id,
            branch=branch,
            if_commit=terms.if_commit,
            idempotency_key=terms.idempotency_key,
        )

    return await _answer_replay(call, branch, work)


async def cherry_pick(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/commits/{commit_id}/cherry-pick"""
    branch = parse_branch(CHERRY_PICK.read_optional(call.body, subject="body").onto)
    commit_id, terms = call.name("commit_id"), parse_write_options(call)

    def work(graph: Graph) -> MergeResult:
        return graph.cherry_pick(
            commit_id,
            onto=branch,
            if_commit=terms.if_commit,
            idempotency_key=terms.idempotency_key,
        )

    return await _answer_replay(call, branch, work)


async def _answer_replay(
    call: RequestContext, branch: BranchName, work: Callable[[Graph], MergeResult]
) -> Response:
    """Revert or cherry-pick a commit on a branch, and return the result."""
    call.require_typed()
    call.require(Action.CHANGE, branch=branch, target=None)
    with call.admit(len(call.body)):
        done = await call.write(work)
    output = replay_output(done, branch=branch, actor=call.actor)
    return with_commit(answer_json(output), done.commit_id)


async def diff(call: RequestContext) -> Response | StreamingResponse:
    """GET /graphs/{graph_id}/diff"""
    old, new = call.argument("old"), call.argument("new")
    if old is None or new is None:
        raise bad_request("say what to compare: ?old=…&new=…, each a branch, a commit or a tag")
    types, ops = parse_names(call, "types"), parse_names(call, "ops")
    token = call.argument("page_token")
    limit = parse_count(call, "limit", otherwise=CHANGES_PER_PAGE)

    engine = call.argument("engine") or "auto"

    def find(graph: Graph) -> ChangeSet:
        with translate_compile_errors(advice=""):
            return graph.diff(old, new, types=types, ops=ops, engine=engine)

    def work(graph: Graph) -> bytes:
        found = find(graph)
        return orjson.dumps(diff_output(found, found.page(token, limit=limit)))

    # The engine checks access once the names are resolved, for each of them.
    if accepts_arrow(call.header("accept")):
        return await call.stream(
            lambda graph: encode_change_set(find(graph), {}), content_type=ARROW
        )
    return answer_bytes(await call.read(work), content_type=JSON)


async def changes(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/changes"""
    branch = parse_branch(call.argument("branch"))
    call.require(Action.READ, branch=branch, target=None)
    start = call.argument("start")
    if start is None:
        raise bad_request("say where to start: ?start=now, beginning or after:<commit>")
    commits = parse_count(call, "commits", otherwise=FEED_COMMITS_MAX, least=0)
    limit = parse_count(call, "limit", otherwise=CHANGES_PER_PAGE)
    if commits > FEED_COMMITS_MAX:
        raise bad_request(f"commits: at most {FEED_COMMITS_MAX} come at a time")
    if accepts_arrow(call.header("accept")):
        page = await call.read(lambda graph: _read_page(graph, start, branch, commits, limit))
        headers = {COMMIT_HEADER: page.head, COUNT_HEADER: str(page.count)}
        return with_headers(answer_bytes(page.body, content_type=ARROW), headers)
    body = await call.read(lambda graph: _follow(graph, start, branch, commits, limit))
    return answer_bytes(body, content_type=JSON)


async def list_recoveries(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/recoveries"""
    call.require(Action.ADMIN, branch=None, target=None)
    found = await call.read(lambda graph: graph.recoveries())
    output: RecoveryList = {"recoveries": [recovery_output(each) for each in found]}
    return answer_json(output)


@dataclass(frozen=True, slots=True)
class _Page:
    """Commits of a feed with all their changes, and the head of their branch."""

    head: str
    count: int
    body: bytes


def _read_page(graph: Graph, start: str, branch: BranchName, commits: int, limit: int) -> _Page:
    # The head is read before the feed, so that the feed reaches at least that commit.
    head = graph.head(branch)
    pieces: list[bytes] = []
    count, left = 0, limit
    for each in islice(graph.changes(start, branch), commits):
        pieces += encode_change_set(each.changes, {"commit": commit_output(each.commit)})
        count += 1
        left -= len(each.changes)
        if left <= 0:
            break
    return _Page(head, count, b"".join(pieces))


def _follow(graph: Graph, start: str, branch: BranchName, commits: int, limit: int) -> bytes:
    feed = graph.changes(start, branch)
    found, left = [], limit
    cursor = feed.cursor
    for each in islice(feed, commits):
        found.append(commit_changes_output(each, limit=max(left, 1)))
        cursor = each.cursor
        left -= len(found[-1]["changes"])
        # A response ends once it holds a page of changes, even if these are of few commits.
        if left <= 0:
            break
    output: FeedOutput = {"branch": branch, "commits": found, "cursor": cursor}
    return orjson.dumps(output)


HISTORY_ROUTES = (
    Route("GET", f"{GRAPH}/snapshot", Body.NONE, 0, snapshot),
    Route("GET", f"{GRAPH}/head", Body.NONE, 0, head),
    Route("GET", f"{GRAPH}/commits", Body.NONE, 0, list_commits),
    Route("GET", f"{GRAPH}/commits/{{commit_id}}", Body.NONE, 0, show_commit),
    Route(
        "POST", f"{GRAPH}/commits/{{commit_id}}/revert", Body.OPTIONAL_JSON, BODY_BYTES_MAX, revert
    ),
    Route(
        "POST",
        f"{GRAPH}/commits/{{commit_id}}/cherry-pick",
        Body.OPTIONAL_JSON,
        BODY_BYTES_MAX,
        cherry_pick,
    ),
    Route("GET", f"{GRAPH}/diff", Body.NONE, 0, diff),
    Route("GET", f"{GRAPH}/changes", Body.NONE, 0, changes),
    Route("GET", f"{GRAPH}/recoveries", Body.NONE, 0, list_recoveries),
)


async def list_branches(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/branches"""
    call.require(Action.READ, branch=None, target=None)
    output: BranchList = {"branches": sorted(await call.read(lambda graph: graph.branches()))}
    return answer_json(output)


async def create_branch(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/branches"""
    asked = BRANCH.read(call.body)
    name, base = parse_branch_name(asked.name), parse_branch(asked.base)
    call.require(Action.BRANCH_CREATE, branch=base, target=name)
    terms = parse_write_options(call)
    with call.admit(len(call.body)):
        await call.write(
            lambda graph: graph.create_branch(name, base=base, if_commit=terms.if_commit)
        )
    return answer_json(branch_created(uri=call.uri, base=base, name=name, actor=call.actor))


async def delete_branch(call: RequestContext) -> Response:
    """DELETE /graphs/{graph_id}/branches/{branch}"""
    name = parse_branch_name(call.name("branch"))
    call.require(Action.BRANCH_DELETE, branch=None, target=name)
    terms = parse_write_options(call)
    with call.admit(len(call.body)):
        await call.write(lambda graph: graph.delete_branch(name, if_commit=terms.if_commit))
    return answer_json(branch_deleted(uri=call.uri, name=name, actor=call.actor))


async def merge(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/branches/merge"""
    asked = MERGE.read(call.body)
    source, target = parse_branch_name(asked.source), parse_branch(asked.target)
    resolve = None if asked.resolve is None else _read_decisions(asked.resolve)
    call.require(Action.BRANCH_MERGE, branch=source, target=target)
    is_deleting = asked.delete_branch is True and asked.dry_run is not True
    if is_deleting:
        call.require(Action.BRANCH_DELETE, branch=None, target=source)
    terms = parse_write_options(call)

    def work(graph: Graph) -> MergeResult:
        merged_head = graph.head(source) if is_deleting else None
        done = graph.merge(
            source,
            into=target,
            dry_run=asked.dry_run is True,
            granularity="row" if asked.granularity is None else asked.granularity,
            resolve=resolve,
            engine=asked.engine or "auto",
            if_commit=terms.if_commit,
            idempotency_key=terms.idempotency_key,
        )
        if is_deleting:
            # A commit made after the merge began is not in the target, so the branch is not deleted
            # then.
            graph.delete_branch(source, if_commit=merged_head)
        return done

    with call.admit(len(call.body)):
        done = await call.write(work)
    output = merge_output(done, source=source, target=target, actor=call.actor)
    if asked.delete_branch is not None:
        output["branch_deleted"] = is_deleting
    return with_commit(answer_json(output), done.commit_id)


async def list_tags(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/tags"""
    call.require(Action.READ, branch=None, target=None)
    found = await call.read(lambda graph: graph.tags())
    output: TagList = {"tags": [{"name": name, "commit_id": found[name]} for name in sorted(found)]}
    return answer_json(output)


async def create_tag(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/tags"""
    asked = TAG.read(call.body)
    name = parse_tag_name(asked.name)
    call.require(Action.ADMIN, branch=None, target=None)

    def work(graph: Graph) -> TagOutput:
        is_id = is_commit_id_like(asked.commit)
        commit_id = asked.commit if is_id else graph.commit(asked.commit).id
        graph.tag(name, commit_id)
        return {"name": name, "commit_id": commit_id}

    with call.admit(len(call.body)):
        return answer_json(await call.write(work))


async def delete_tag(call: RequestContext) -> Response:
    """DELETE /graphs/{graph_id}/tags/{tag}"""
    name = parse_tag_name(call.name("tag"))
    call.require(Action.ADMIN, branch=None, target=None)
    with call.admit(len(call.body)):
        await call.write(lambda graph: graph.delete_tag(name))
    output: TagDeleted = {"name": name}
    return answer_json(output)


def _read_decisions(given: list[Decision]) -> Mapping[tuple[str, str], object]:
    decisions: dict[tuple[str, str], object] = {}
    for each in given:
        if (each.choice is None) == (each.row is None):
            raise bad_request(f"resolve: {each.type} '{each.id}' needs a choice or a row")
        if (each.type, each.id) in decisions:
            raise bad_request(f"resolve: {each.type} '{each.id}' is decided about twice")
        decisions[each.type, each.id] = each.choice if each.row is None else each.row
    return decisions


BRANCH_ROUTES = (
    Route("GET", f"{GRAPH}/branches", Body.NONE, 0, list_branches),
    Route("POST", f"{GRAPH}/branches", Body.JSON, BODY_BYTES_MAX, create_branch),
    Route("POST", f"{GRAPH}/branches/merge", Body.JSON, BODY_BYTES_MAX, merge),
    Route("DELETE", f"{GRAPH}/branches/{{branch}}", Body.NONE, 0, delete_branch),
    Route("GET", f"{GRAPH}/tags", Body.NONE, 0, list_tags),
    Route("POST", f"{GRAPH}/tags", Body.JSON, BODY_BYTES_MAX, create_tag),
    Route("DELETE", f"{GRAPH}/tags/{{tag}}", Body.NONE, 0, delete_tag),
)
