"""The routes about history: snapshots, commits, differences, the change feed, undoing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import orjson

from omnigraph.engine.changes import ChangeSet
from omnigraph.engine.graph import Graph
from omnigraph.engine.results import MergeResult
from omnigraph.model.limits import CHANGES_PER_PAGE
from omnigraph.model.names import BranchName
from omnigraph.model.policy import Action
from omnigraph.server.answers import (
    JSON,
    Answer,
    Stream,
    answer_bytes,
    answer_json,
    with_headers,
)
from omnigraph.server.calls import Call
from omnigraph.server.limits import BODY_BYTES_MAX, FEED_COMMITS_MAX
from omnigraph.server.problems import bad_request
from omnigraph.server.requests import CHERRY_PICK, REVERT
from omnigraph.server.routes.terms import (
    COMMIT_HEADER,
    find_terms,
    parse_branch,
    parse_count,
    parse_names,
    refusing,
    with_commit,
)
from omnigraph.server.routing import GRAPH, Body, Route
from omnigraph.wire.arrow import ARROW, accepts_arrow
from omnigraph.wire.bodies import (
    commit_changes_output,
    commit_output,
    diff_output,
    recovery_output,
    replay_output,
    snapshot_output,
)
from omnigraph.wire.change_streams import encode_change_set
from omnigraph.wire.shapes import CommitList, FeedOutput, HeadOutput, RecoveryList

COUNT_HEADER = "Omnigraph-Commit-Count"


async def snapshot(call: Call) -> Answer:
    """GET /graphs/{graph_id}/snapshot"""
    branch = parse_branch(call.argument("branch"))
    call.require(Action.READ, branch=branch, target=None)
    output = snapshot_output(await call.read(lambda graph: graph.snapshot(branch)), branch=branch)
    return with_commit(answer_json(output), output["commit_id"])


async def head(call: Call) -> Answer:
    """GET /graphs/{graph_id}/head"""
    branch = parse_branch(call.argument("branch"))
    call.require(Action.READ, branch=branch, target=None)
    output: HeadOutput = {
        "branch": branch,
        "commit_id": await call.read(lambda graph: graph.head(branch)),
    }
    return with_commit(answer_json(output), output["commit_id"])


async def list_commits(call: Call) -> Answer:
    """GET /graphs/{graph_id}/commits"""
    given = call.argument("branch")
    branch = parse_branch(given)
    call.require(Action.READ, branch=None if given is None else branch, target=None)

    def work(graph: Graph) -> bytes:
        output: CommitList = {"commits": [commit_output(each) for each in graph.commits(branch)]}
        return orjson.dumps(output)

    return answer_bytes(await call.read(work), content_type=JSON)


async def show_commit(call: Call) -> Answer:
    """GET /graphs/{graph_id}/commits/{commit_id}"""
    call.require(Action.READ, branch=None, target=None)
    commit_id = call.name("commit_id")
    found = await call.read(lambda graph: graph.commit(commit_id))
    return answer_json(commit_output(found))


async def revert(call: Call) -> Answer:
    """POST /graphs/{graph_id}/commits/{commit_id}/revert"""
    branch = parse_branch(REVERT.read_optional(call.body, subject="body").branch)
    commit_id, terms = call.name("commit_id"), find_terms(call)

    def work(graph: Graph) -> MergeResult:
        return graph.revert(
            commit_id,
            branch=branch,
            if_commit=terms.if_commit,
            idempotency_key=terms.idempotency_key,
        )

    return await _answer_replay(call, branch, work)


async def cherry_pick(call: Call) -> Answer:
    """POST /graphs/{graph_id}/commits/{commit_id}/cherry-pick"""
    branch = parse_branch(CHERRY_PICK.read_optional(call.body, subject="body").onto)
    commit_id, terms = call.name("commit_id"), find_terms(call)

    def work(graph: Graph) -> MergeResult:
        return graph.cherry_pick(
            commit_id,
            onto=branch,
            if_commit=terms.if_commit,
            idempotency_key=terms.idempotency_key,
        )

    return await _answer_replay(call, branch, work)


async def _answer_replay(
    call: Call, branch: BranchName, work: Callable[[Graph], MergeResult]
) -> Answer:
    """Undo or repeat a commit on a branch, and answer what came of it."""
    call.require(Action.CHANGE, branch=branch, target=None)
    with call.admit(len(call.body)):
        done = await call.write(work)
    output = replay_output(done, branch=branch, actor=call.actor)
    return with_commit(answer_json(output), done.commit_id)


async def diff(call: Call) -> Answer | Stream:
    """GET /graphs/{graph_id}/diff"""
    old, new = call.argument("old"), call.argument("new")
    if old is None or new is None:
        raise bad_request("say what to compare: ?old=…&new=…, each a branch, a commit or a tag")
    types, ops = parse_names(call, "types"), parse_names(call, "ops")
    token = call.argument("page_token")
    limit = parse_count(call, "limit", otherwise=CHANGES_PER_PAGE)

    engine = call.argument("engine") or "auto"

    def find(graph: Graph) -> ChangeSet:
        with refusing(advice=""):
            return graph.diff(old, new, types=types, ops=ops, engine=engine)

    def work(graph: Graph) -> bytes:
        found = find(graph)
        return orjson.dumps(diff_output(found, found.page(token, limit=limit)))

    # Who may read what is known once the names are: the engine asks for each of them.
    if accepts_arrow(call.header("accept")):
        return await call.stream(
            lambda graph: encode_change_set(find(graph), {}), content_type=ARROW
        )
    return answer_bytes(await call.read(work), content_type=JSON)


async def changes(call: Call) -> Answer:
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


async def list_recoveries(call: Call) -> Answer:
    """GET /graphs/{graph_id}/recoveries"""
    call.require(Action.ADMIN, branch=None, target=None)
    found = await call.read(lambda graph: graph.recoveries())
    output: RecoveryList = {"recoveries": [recovery_output(each) for each in found]}
    return answer_json(output)


@dataclass(frozen=True, slots=True)
class _Page:
    """Commits of a feed with all their changes, and the commit that their branch was at."""

    head: str
    count: int
    body: bytes


def _read_page(graph: Graph, start: str, branch: BranchName, commits: int, limit: int) -> _Page:
    # Before the feed looks, so that it goes at least as far.
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
        # As many changes as a page holds are enough, however few commits they are of.
        if left <= 0:
            break
    output: FeedOutput = {"branch": branch, "commits": found, "cursor": cursor}
    return orjson.dumps(output)


ROUTES = (
    Route("GET", f"{GRAPH}/snapshot", Body.NONE, 0, snapshot),
    Route("GET", f"{GRAPH}/head", Body.NONE, 0, head),
    Route("GET", f"{GRAPH}/commits", Body.NONE, 0, list_commits),
    Route("GET", f"{GRAPH}/commits/{{commit_id}}", Body.NONE, 0, show_commit),
    Route("POST", f"{GRAPH}/commits/{{commit_id}}/revert", Body.RAW, BODY_BYTES_MAX, revert),
    Route(
        "POST", f"{GRAPH}/commits/{{commit_id}}/cherry-pick", Body.RAW, BODY_BYTES_MAX, cherry_pick
    ),
    Route("GET", f"{GRAPH}/diff", Body.NONE, 0, diff),
    Route("GET", f"{GRAPH}/changes", Body.NONE, 0, changes),
    Route("GET", f"{GRAPH}/recoveries", Body.NONE, 0, list_recoveries),
)
