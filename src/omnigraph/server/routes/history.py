"""The routes for branches, tags, commits, diffs, the change feed, merge, revert and cherry-pick.

Each write is one commit or changes nothing. Diffs are JSON pages or Arrow streams. A feed response
holds a bounded number of commits and the cursor of the next request.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from omnigraph.engine.changes import ChangeSet
from omnigraph.engine.graph import Graph
from omnigraph.engine.results import MergeOutcome
from omnigraph.http.arrow import ARROW, accepts_arrow, encode_change_set
from omnigraph.http.encode import (
    commit_changes_output,
    commit_output,
    diff_output,
    merge_output,
    recovery_output,
    replay_output,
    snapshot_output,
)
from omnigraph.http.responses import (
    BranchCreated,
    BranchDeleted,
    BranchList,
    CommitList,
    CommitOutput,
    DiffOutput,
    FeedOutput,
    HeadOutput,
    MergeOutput,
    RecoveryList,
    ReplayOutput,
    SnapshotOutput,
    TagDeleted,
    TagList,
    TagOutput,
)
from omnigraph.model.errors import NotFoundError, PreconditionFailedError, StillNeededError
from omnigraph.model.limits import CHANGES_PER_PAGE, FEED_COMMITS_MAX
from omnigraph.model.names import (
    MAIN,
    BranchName,
    is_commit_id_like,
    parse_branch_name,
    parse_tag_name,
)
from omnigraph.model.ports import Action
from omnigraph.server.context import (
    GRAPH,
    READ_STATUSES,
    Operation,
    Pool,
    RequestContext,
    Route,
    Tag,
    route,
    route_with_body,
)
from omnigraph.server.requests import (
    BRANCH,
    IF_COMMIT,
    WRITE_OPTIONS,
    BranchRequest,
    CherryPickRequest,
    Decision,
    JsonType,
    MergeRequest,
    RevertRequest,
    TagRequest,
    integer,
    json_body,
    optional_json_body,
    parse_branch,
    required_text,
    text,
    text_list,
)
from omnigraph.server.responses import (
    COMMIT_HEADER,
    AnyResponse,
    Response,
    bad_request,
    bytes_response,
    json_response,
    translate_compile_errors,
    with_headers,
)

COUNT_HEADER = "Omnigraph-Commit-Count"

COMMIT = f"{GRAPH}/commits/{{commit_id}}"

_ACTOR = text(
    "actor",
    "Lists only the commits of this actor; `omnigraph:recovery` lists the commits that a recovery "
    "published.",
)
_OLD = required_text("old", "A branch, a commit or a tag.")
_NEW = required_text("new", "A branch, a commit or a tag.")
_TYPES = text_list("types", "Comma-separated names of types; the default is all types.")
_OPS = text_list("ops", "Comma-separated: `insert`, `update`, `delete`; the default is all.")
_ENGINE = text("engine", "`auto`, `local` or `spark`.")
_LIMIT = integer(
    "limit",
    "The maximum number of changes in the response.",
    default=CHANGES_PER_PAGE,
    minimum=1,
    maximum=None,
)
_PAGE_TOKEN = text("page_token", "The `next_page_token` of the previous page.")
_START = required_text("start", "`now`, `beginning` or `after:<commit>`.")
_COMMITS = integer(
    "commits",
    "The maximum number of commits in the response; may be 0.",
    default=FEED_COMMITS_MAX,
    minimum=0,
    maximum=FEED_COMMITS_MAX,
)


@route(
    f"GET {GRAPH}/snapshot",
    Operation("getSnapshot", Tag.SNAPSHOTS, (SnapshotOutput,)),
    action=Action.READ,
    scope=lambda call: (call.get(BRANCH), None),
    parameters=(BRANCH,),
)
async def snapshot(call: RequestContext) -> Response:
    """Get the types of a branch and their versions."""
    branch = call.get(BRANCH)
    output = snapshot_output(await call.run(lambda graph: graph.snapshot(branch)), branch=branch)
    return json_response(output, commit_id=output["commit_id"])


@route(
    f"GET {GRAPH}/head",
    Operation("getHead", Tag.COMMITS, (HeadOutput,)),
    action=Action.READ,
    scope=lambda call: (call.get(BRANCH), None),
    parameters=(BRANCH,),
)
async def head(call: RequestContext) -> Response:
    """Get the head commit of a branch."""
    branch = call.get(BRANCH)
    commit_id = await call.run(lambda graph: graph.head(branch))
    output: HeadOutput = {"branch": branch, "commit_id": commit_id}
    return json_response(output, commit_id=commit_id)


@route(
    f"GET {GRAPH}/commits",
    Operation("listCommits", Tag.COMMITS, (CommitList,)),
    action=Action.READ,
    # Without a branch, permission is needed for the graph as a whole.
    scope=lambda call: (call.get(BRANCH) if BRANCH.name in call.arguments else None, None),
    parameters=(BRANCH, _ACTOR),
)
async def list_commits(call: RequestContext) -> Response:
    """List the commits of a branch, oldest first."""
    branch, actor = call.get(BRANCH), call.get(_ACTOR)

    def work(graph: Graph) -> Response:
        found = graph.commits(branch, actor=actor)
        return json_response(CommitList(commits=[commit_output(each) for each in found]))

    return await call.run(work)


@route(f"GET {COMMIT}", Operation("getCommit", Tag.COMMITS, (CommitOutput,)), action=Action.READ)
async def show_commit(call: RequestContext) -> Response:
    """Get a commit by its id or a tag."""
    commit_id = call.name("commit_id")
    return json_response(commit_output(await call.run(lambda graph: graph.commit(commit_id))))


@route_with_body(
    f"POST {COMMIT}/revert",
    Operation("revertCommit", Tag.COMMITS, (ReplayOutput,)),
    optional_json_body(RevertRequest, json_type=JsonType.ALWAYS),
    action=Action.CHANGE,
    scope=lambda _, body: (parse_branch(body.branch), None),
    pool=Pool.WRITE,
    parameters=WRITE_OPTIONS,
)
async def revert(call: RequestContext, body: RevertRequest) -> Response:
    """Revert a commit by a new commit."""
    branch, commit_id = parse_branch(body.branch), call.name("commit_id")
    done = await call.run(
        lambda graph: graph.revert(commit_id, branch=branch, **call.write_options)
    )
    output = replay_output(done, branch=branch, actor=call.actor)
    return json_response(output, commit_id=done.commit_id)


@route_with_body(
    f"POST {COMMIT}/cherry-pick",
    Operation("cherryPickCommit", Tag.COMMITS, (ReplayOutput,)),
    optional_json_body(CherryPickRequest, json_type=JsonType.ALWAYS),
    action=Action.CHANGE,
    scope=lambda _, body: (parse_branch(body.onto), None),
    pool=Pool.WRITE,
    parameters=WRITE_OPTIONS,
)
async def cherry_pick(call: RequestContext, body: CherryPickRequest) -> Response:
    """Cherry-pick a commit onto a branch."""
    branch, commit_id = parse_branch(body.onto), call.name("commit_id")
    done = await call.run(
        lambda graph: graph.cherry_pick(commit_id, onto=branch, **call.write_options)
    )
    output = replay_output(done, branch=branch, actor=call.actor)
    return json_response(output, commit_id=done.commit_id)


@route(
    f"GET {GRAPH}/diff",
    Operation("diff", Tag.COMMITS, (DiffOutput,), statuses=(*READ_STATUSES, 413)),
    # The engine checks access to both sides once their names are resolved.
    action=None,
    parameters=(_OLD, _NEW, _TYPES, _OPS, _ENGINE, _LIMIT, _PAGE_TOKEN),
)
async def diff(call: RequestContext) -> AnyResponse:
    """List the net changes between two branches, commits or tags, in pages."""
    old, new, types, ops = call.get(_OLD), call.get(_NEW), call.get(_TYPES), call.get(_OPS)
    engine, limit, token = call.get(_ENGINE) or "auto", call.get(_LIMIT), call.get(_PAGE_TOKEN)

    def find(graph: Graph) -> ChangeSet:
        with translate_compile_errors(advice=""):
            return graph.diff(old, new, types=types, ops=ops, engine=engine)

    def work(graph: Graph) -> Response:
        found = find(graph)
        return json_response(diff_output(found, found.page(token, limit=limit)))

    if accepts_arrow(call.header("accept")):
        for parameter in (_LIMIT, _PAGE_TOKEN):
            if parameter.name in call.arguments:
                raise bad_request(f"as Arrow, a diff is not paged; leave out '{parameter.name}'")
        return await call.stream(
            lambda graph: encode_change_set(find(graph), {}), content_type=ARROW
        )
    return await call.run(work)


@route(
    f"GET {GRAPH}/changes",
    Operation("listChanges", Tag.COMMITS, (FeedOutput,), statuses=(*READ_STATUSES, 413)),
    action=Action.READ,
    scope=lambda call: (call.get(BRANCH), None),
    parameters=(_START, BRANCH, _COMMITS, _LIMIT),
)
async def changes(call: RequestContext) -> Response:
    """List the changes of each commit of a branch, in order."""
    branch, start = call.get(BRANCH), call.get(_START)
    commits, limit = call.get(_COMMITS), call.get(_LIMIT)

    def read_arrow(graph: Graph) -> Response:
        # The head is read before the feed, so that the feed reaches at least that commit.
        headers = {COMMIT_HEADER: graph.head(branch)}
        pieces: list[bytes] = []
        count, left = 0, limit
        for each in islice(graph.changes(start, branch), commits):
            pieces += encode_change_set(each.changes, {"commit": commit_output(each.commit)})
            count += 1
            left -= len(each.changes)
            if left <= 0:
                break
        headers[COUNT_HEADER] = str(count)
        return with_headers(bytes_response(b"".join(pieces), content_type=ARROW), headers)

    def read_json(graph: Graph) -> Response:
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
        return json_response(FeedOutput(branch=branch, commits=found, cursor=cursor))

    return await call.run(read_arrow if accepts_arrow(call.header("accept")) else read_json)


@route(
    f"GET {GRAPH}/recoveries",
    Operation("listRecoveries", Tag.COMMITS, (RecoveryList,)),
    action=Action.ADMIN,
)
async def list_recoveries(call: RequestContext) -> Response:
    """List the recoveries of interrupted writes and their outcomes."""
    found = await call.run(lambda graph: graph.recoveries())
    return json_response(RecoveryList(recoveries=[recovery_output(each) for each in found]))


@route(
    f"GET {GRAPH}/branches",
    Operation("listBranches", Tag.BRANCHES, (BranchList,), statuses=(403, 409, 500)),
    action=Action.READ,
)
async def list_branches(call: RequestContext) -> Response:
    """List the branches by name."""
    found = await call.run(lambda graph: graph.branches())
    return json_response(BranchList(branches=sorted(found)))


@route_with_body(
    f"POST {GRAPH}/branches",
    Operation("createBranch", Tag.BRANCHES, (BranchCreated,)),
    json_body(BranchRequest),
    action=Action.BRANCH_CREATE,
    scope=lambda _, body: (parse_branch(body.base), parse_branch_name(body.name)),
    pool=Pool.WRITE,
    parameters=(IF_COMMIT,),
)
async def create_branch(call: RequestContext, body: BranchRequest) -> Response:
    """Create a branch at the head of another."""
    name, base = parse_branch_name(body.name), parse_branch(body.base)
    if_commit = call.get(IF_COMMIT)
    await call.run(lambda graph: graph.create_branch(name, base=base, if_commit=if_commit))
    output: BranchCreated = {"uri": call.uri, "from": base, "name": name, "actor_id": call.actor}
    return json_response(output)


@route(
    f"DELETE {GRAPH}/branches/{{branch}}",
    Operation("deleteBranch", Tag.BRANCHES, (BranchDeleted,)),
    action=Action.BRANCH_DELETE,
    scope=lambda call: (None, parse_branch_name(call.name("branch"))),
    pool=Pool.WRITE,
    parameters=(IF_COMMIT,),
)
async def delete_branch(call: RequestContext) -> Response:
    """Delete a branch and the commits that only it contains."""
    name, if_commit = parse_branch_name(call.name("branch")), call.get(IF_COMMIT)
    await call.run(lambda graph: graph.delete_branch(name, if_commit=if_commit))
    return json_response(BranchDeleted(uri=call.uri, name=name, actor_id=call.actor))


@route_with_body(
    f"POST {GRAPH}/branches/merge",
    Operation("mergeBranches", Tag.BRANCHES, (MergeOutput,)),
    json_body(MergeRequest),
    action=Action.BRANCH_MERGE,
    scope=lambda _, body: (parse_branch_name(body.source), parse_branch(body.target)),
    pool=Pool.WRITE,
    parameters=WRITE_OPTIONS,
)
async def merge(call: RequestContext, body: MergeRequest) -> Response:
    """Merge a branch into another as one commit, or preview the merge."""
    source, target = parse_branch_name(body.source), parse_branch(body.target)
    resolve = None if body.resolve is None else _parse_decisions(body.resolve)
    is_deleting = body.delete_branch is True and body.dry_run is not True
    if is_deleting:
        if source == MAIN:
            raise bad_request("branch 'main' cannot be deleted; nothing was merged")
        call.require(Action.READ, branch=source, target=None)
        call.require(Action.BRANCH_DELETE, branch=None, target=source)

    def work(graph: Graph) -> MergeOutput:
        done = graph.merge(
            source,
            into=target,
            dry_run=body.dry_run is True,
            granularity="row" if body.granularity is None else body.granularity,
            resolve=resolve,
            engine=body.engine or "auto",
            **call.write_options,
        )
        output = merge_output(done, source=source, target=target, actor=call.actor)
        if body.delete_branch is not None:
            is_deleted = is_deleting and _delete_merged(graph, source, target=target)
            output["branch_deleted"] = is_deleted
        return output

    output = await call.run(work)
    return json_response(output, commit_id=output["commit_id"])


def _delete_merged(graph: Graph, source: BranchName, *, target: BranchName) -> bool:
    """Delete the source of a merge if its target has all its commits; whether it is deleted.

    A request that is repeated with the same key may find commits that it did not merge.
    """
    try:
        head = graph.head(source)
        rest = graph.merge(source, into=target, dry_run=True)
        if rest.outcome is not MergeOutcome.ALREADY_UP_TO_DATE:
            return False
        graph.delete_branch(source, if_commit=head)
    except NotFoundError:
        # An earlier request with the same key has deleted it.
        return True
    except (PreconditionFailedError, StillNeededError):
        # The merge is committed, so the response must not be an error.
        return False
    return True


def _parse_decisions(given: list[Decision]) -> Mapping[tuple[str, str], object]:
    decisions: dict[tuple[str, str], object] = {}
    for each in given:
        if (each.choice is None) == (each.row is None):
            raise bad_request(f"resolve: {each.type} '{each.id}' needs a choice or a row")
        if (each.type, each.id) in decisions:
            raise bad_request(f"resolve: {each.type} '{each.id}' has two decisions")
        decisions[each.type, each.id] = each.choice if each.row is None else each.row
    return decisions


@route(
    f"GET {GRAPH}/tags",
    Operation("listTags", Tag.BRANCHES, (TagList,), statuses=(403,)),
    action=Action.READ,
)
async def list_tags(call: RequestContext) -> Response:
    """List the tags by name."""
    found = await call.run(lambda graph: graph.tags())
    output: TagList = {"tags": [{"name": name, "commit_id": found[name]} for name in sorted(found)]}
    return json_response(output)


@route_with_body(
    f"POST {GRAPH}/tags",
    Operation("createTag", Tag.BRANCHES, (TagOutput,)),
    json_body(TagRequest),
    action=Action.ADMIN,
    pool=Pool.WRITE,
)
async def create_tag(call: RequestContext, body: TagRequest) -> Response:
    """Create a tag for a commit."""
    name = parse_tag_name(body.name)

    def work(graph: Graph) -> TagOutput:
        is_id = is_commit_id_like(body.commit)
        commit_id = body.commit if is_id else graph.commit(body.commit).id
        graph.tag(name, commit_id)
        return {"name": name, "commit_id": commit_id}

    return json_response(await call.run(work))


@route(
    f"DELETE {GRAPH}/tags/{{tag}}",
    Operation("deleteTag", Tag.BRANCHES, (TagDeleted,)),
    action=Action.ADMIN,
    pool=Pool.WRITE,
)
async def delete_tag(call: RequestContext) -> Response:
    """Delete a tag; its commit remains."""
    name = parse_tag_name(call.name("tag"))
    await call.run(lambda graph: graph.delete_tag(name))
    return json_response(TagDeleted(name=name))


ROUTES: tuple[Route, ...] = (
    snapshot,
    head,
    list_commits,
    show_commit,
    revert,
    cherry_pick,
    diff,
    changes,
    list_recoveries,
    list_branches,
    create_branch,
    merge,
    delete_branch,
    list_tags,
    create_tag,
    delete_tag,
)
