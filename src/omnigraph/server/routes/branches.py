"""The routes about branches and tags."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.engine.graph import Graph
from omnigraph.model.names import looks_like_commit, parse_branch_name, parse_tag_name
from omnigraph.model.policy import Action
from omnigraph.server.answers import Answer, answer_json
from omnigraph.server.calls import Call
from omnigraph.server.limits import BODY_BYTES_MAX
from omnigraph.server.problems import bad_request
from omnigraph.server.requests import BRANCH, MERGE, TAG, Decision
from omnigraph.server.routes.terms import find_terms, parse_branch, with_commit
from omnigraph.server.routing import GRAPH, Body, Route
from omnigraph.wire.bodies import branch_created, branch_deleted, merge_output
from omnigraph.wire.shapes import BranchList, TagDeleted, TagList, TagOutput


async def list_branches(call: Call) -> Answer:
    """GET /graphs/{graph_id}/branches"""
    call.require(Action.READ, branch=None, target=None)
    output: BranchList = {"branches": sorted(await call.read(lambda graph: graph.branches()))}
    return answer_json(output)


async def create_branch(call: Call) -> Answer:
    """POST /graphs/{graph_id}/branches"""
    asked = BRANCH.read(call.body)
    name, base = parse_branch_name(asked.name), parse_branch(asked.base)
    call.require(Action.BRANCH_CREATE, branch=base, target=name)
    terms = find_terms(call)
    with call.admit(len(call.body)):
        await call.write(
            lambda graph: graph.create_branch(name, base=base, if_commit=terms.if_commit)
        )
    return answer_json(branch_created(uri=call.uri, base=base, name=name, actor=call.actor))


async def delete_branch(call: Call) -> Answer:
    """DELETE /graphs/{graph_id}/branches/{branch}"""
    name = parse_branch_name(call.name("branch"))
    call.require(Action.BRANCH_DELETE, branch=None, target=name)
    terms = find_terms(call)
    with call.admit(len(call.body)):
        await call.write(lambda graph: graph.delete_branch(name, if_commit=terms.if_commit))
    return answer_json(branch_deleted(uri=call.uri, name=name, actor=call.actor))


async def merge(call: Call) -> Answer:
    """POST /graphs/{graph_id}/branches/merge"""
    asked = MERGE.read(call.body)
    source, target = parse_branch_name(asked.source), parse_branch(asked.target)
    resolve = None if asked.resolve is None else _read_decisions(asked.resolve)
    call.require(Action.BRANCH_MERGE, branch=source, target=target)
    terms = find_terms(call)
    with call.admit(len(call.body)):
        done = await call.write(
            lambda graph: graph.merge(
                source,
                into=target,
                dry_run=asked.dry_run is True,
                granularity="row" if asked.granularity is None else asked.granularity,
                resolve=resolve,
                engine=asked.engine or "auto",
                if_commit=terms.if_commit,
                idempotency_key=terms.idempotency_key,
            )
        )
    output = merge_output(done, source=source, target=target, actor=call.actor)
    return with_commit(answer_json(output), done.commit_id)


async def list_tags(call: Call) -> Answer:
    """GET /graphs/{graph_id}/tags"""
    call.require(Action.READ, branch=None, target=None)
    found = await call.read(lambda graph: graph.tags())
    output: TagList = {"tags": [{"name": name, "commit_id": found[name]} for name in sorted(found)]}
    return answer_json(output)


async def create_tag(call: Call) -> Answer:
    """POST /graphs/{graph_id}/tags"""
    asked = TAG.read(call.body)
    name = parse_tag_name(asked.name)
    call.require(Action.ADMIN, branch=None, target=None)

    def work(graph: Graph) -> TagOutput:
        is_id = looks_like_commit(asked.commit)
        commit_id = asked.commit if is_id else graph.commit(asked.commit).id
        graph.tag(name, commit_id)
        return {"name": name, "commit_id": commit_id}

    with call.admit(len(call.body)):
        return answer_json(await call.write(work))


async def delete_tag(call: Call) -> Answer:
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


ROUTES = (
    Route("GET", f"{GRAPH}/branches", Body.NONE, 0, list_branches),
    Route("POST", f"{GRAPH}/branches", Body.JSON, BODY_BYTES_MAX, create_branch),
    Route("POST", f"{GRAPH}/branches/merge", Body.JSON, BODY_BYTES_MAX, merge),
    Route("DELETE", f"{GRAPH}/branches/{{branch}}", Body.NONE, 0, delete_branch),
    Route("GET", f"{GRAPH}/tags", Body.NONE, 0, list_tags),
    Route("POST", f"{GRAPH}/tags", Body.JSON, BODY_BYTES_MAX, create_tag),
    Route("DELETE", f"{GRAPH}/tags/{{tag}}", Body.NONE, 0, delete_tag),
)
