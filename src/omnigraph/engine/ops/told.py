"""What the caller of a write is told, in a form that can be kept in its commit and told again.

A result is always made from the kept form, the first time as well, so a request that is repeated
gets the very answer that the first one got, or would have got.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import orjson

from omnigraph.engine.commit.changes import PreparedWrite
from omnigraph.engine.commit.requests import Request
from omnigraph.engine.results import (
    LoadResult,
    MergeOutcome,
    MergeResult,
    MutationResult,
    SchemaApplyResult,
)
from omnigraph.engine.state.history import AnsweredRequest, Commit
from omnigraph.model.errors import CorruptError

Answer = Mapping[str, object]
"""What is told beside the commit, as a JSON object."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a caller is told of a write, which is no commit if it changed nothing.

    It `is_repeated` if an earlier call with the same key has done it.
    """

    answer: Answer
    commit_id: str | None
    is_repeated: bool


def with_answer(write: PreparedWrite, answer: Answer, *, request: Request | None) -> PreparedWrite:
    """A write whose commit will tell what it answered, if the request has a key."""
    if request is None:
        return write
    kept = AnsweredRequest(request.key, request.digest, orjson.dumps(answer).decode())
    return replace(write, notes=replace(write.notes, request=kept))


def recall(commit: Commit) -> Told:
    """What was told of a commit that answered a request."""
    kept = commit.notes.request
    assert kept is not None, "it was found by its request"
    answer: object = orjson.loads(kept.answer)
    if not isinstance(answer, dict):
        raise _corrupt(commit.id)
    return Told(answer, commit.id, is_repeated=True)


def mutation_result(told: Told) -> MutationResult:
    """The result of a mutation."""
    match told.answer:
        case {"affected_nodes": int(nodes), "affected_edges": int(edges)}:
            return MutationResult(nodes, edges, told.commit_id)
        case _:
            raise _corrupt(told.commit_id)


def load_result(told: Told, *, branch: str) -> LoadResult:
    """The result of a load into a branch; why rows were left out is told the first time only."""
    match told.answer:
        case {
            "nodes_loaded": dict(nodes),
            "edges_loaded": dict(edges),
            "base_branch": str() | None as base,
            "branch_created": bool(is_new),
            "engine": str(engine),
            "rejected": int(rejected),
        }:
            return LoadResult(
                nodes_loaded={str(name): int(count) for name, count in nodes.items()},
                edges_loaded={str(name): int(count) for name, count in edges.items()},
                commit_id=told.commit_id,
                branch=branch,
                base_branch=base,
                branch_created=is_new,
                engine=engine,
                rejected=rejected,
            )
        case _:
            raise _corrupt(told.commit_id)


def merge_result(told: Told) -> MergeResult:
    """The result of a merge, a revert or a picked commit."""
    match told.answer:
        case {"outcome": str(outcome)} if outcome in set(MergeOutcome):
            return MergeResult(MergeOutcome(outcome), told.commit_id, ())
        case _:
            raise _corrupt(told.commit_id)


def schema_result(told: Told) -> SchemaApplyResult:
    """The result of applying a schema."""
    match told.answer:
        case {"steps": [*steps]}:
            encoded = tuple(step for step in steps if isinstance(step, Mapping))
            is_applied = told.commit_id is not None
            return SchemaApplyResult(applied=is_applied, steps=encoded, commit_id=told.commit_id)
        case _:
            raise _corrupt(told.commit_id)


def _corrupt(commit_id: str | None) -> CorruptError:
    return CorruptError(
        subject=f"commit {commit_id} in the manifest",
        problem="what was told of it lacks a part",
    )
