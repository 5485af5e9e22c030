"""Payloads that only the command line has; the others are the bodies of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from omnigraph.engine.results import LoadResult


class LoadOutput(TypedDict):
    """What a load did, counted."""

    uri: str
    branch: str
    mode: str
    base_branch: NotRequired[str]
    branch_created: bool
    nodes_loaded: int
    edges_loaded: int
    node_types_loaded: int
    edge_types_loaded: int
    rejected: int
    commit_id: str | None
    actor_id: str | None
    engine: str


def load_output(done: LoadResult, *, uri: str, mode: str, actor: str | None) -> LoadOutput:
    """What a load did; without a base there is no word about one."""
    output: LoadOutput = {
        "uri": uri,
        "branch": done.branch,
        "mode": mode,
        "base_branch": done.base_branch or "",
        "branch_created": done.branch_created,
        "nodes_loaded": sum(done.nodes_loaded.values()),
        "edges_loaded": sum(done.edges_loaded.values()),
        "node_types_loaded": len(done.nodes_loaded),
        "edge_types_loaded": len(done.edges_loaded),
        "rejected": done.rejected,
        "commit_id": done.commit_id,
        "actor_id": actor,
        "engine": done.engine,
    }
    if done.base_branch is None:
        del output["base_branch"]
    return output
