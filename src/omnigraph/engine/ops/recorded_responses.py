"""Idempotency of keyed requests: request digests, and responses that are recorded in commits.

Two requests have equal digests exactly when their arguments are equal: a file counts by its name,
and rows count by their values. Every result is decoded from the recorded form, the first time as
well, so a retried request gets the same result as the first one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.engine.commit.idempotency import Request
from omnigraph.engine.commit.prepared_write import PreparedWrite
from omnigraph.engine.results import (
    LoadResult,
    MergeOutcome,
    MergeResult,
    MutationResult,
    SchemaApplyResult,
)
from omnigraph.engine.state.history import Commit, RecordedResponse
from omnigraph.model.errors import CorruptError
from omnigraph.model.names import parse_key


def make_request(key: str | None, *asked: object) -> Request | None:
    """The request of an operation with its arguments, if the caller provided a key."""
    parsed = parse_key(key)
    if parsed is None:
        return None
    spelled = json.dumps([_spell(each) for each in asked])
    return Request(parsed, hashlib.sha256(spelled.encode()).hexdigest())


def _spell(asked: object) -> object:
    """An injective JSON encoding of a value."""
    match asked:
        case None | bool() | int() | float() | str():
            return asked
        case Mapping():
            entries = [[_spell(name), _spell(value)] for name, value in asked.items()]
            return {"entries": sorted(entries, key=json.dumps)}
        case Set():
            return {"members": sorted(map(_spell, asked), key=json.dumps)}
        case list() | tuple():
            return [_spell(each) for each in asked]
        case np.ndarray():
            return asked.tolist()
        case pa.Array() | pa.ChunkedArray():
            return _spell(asked.to_pylist())
        case _:
            return {"written": repr(asked)}


Answer = Mapping[str, object]
"""The fields of a response besides the commit, as a JSON object."""


@dataclass(frozen=True, slots=True)
class WriteResponse:
    """The response to a write; it has no commit if nothing changed.

    With `is_repeated`, an earlier call with the same key performed the write.
    """

    answer: Answer
    commit_id: str | None
    is_repeated: bool


def record_response(
    write: PreparedWrite, answer: Answer, *, request: Request | None
) -> PreparedWrite:
    """A write whose commit records the response, if the request has a key."""
    if request is None:
        return write
    kept = RecordedResponse(request.key, request.digest, orjson.dumps(answer).decode())
    return replace(write, notes=replace(write.notes, request=kept))


def decode_response(commit: Commit) -> WriteResponse:
    """The recorded response of a commit."""
    kept = commit.notes.request
    assert kept is not None, "it was found by its request"
    answer: object = orjson.loads(kept.answer)
    if not isinstance(answer, dict):
        raise _corrupt(commit.id)
    return WriteResponse(answer, commit.id, is_repeated=True)


def mutation_result(told: WriteResponse) -> MutationResult:
    """The result of a mutation."""
    match told.answer:
        case {"affected_nodes": int(nodes), "affected_edges": int(edges)}:
            return MutationResult(nodes, edges, told.commit_id)
        case _:
            raise _corrupt(told.commit_id)


def load_result(told: WriteResponse, *, branch: str) -> LoadResult:
    """The result of a load into a branch; only the first response reports why rows were skipped."""
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


def merge_result(told: WriteResponse) -> MergeResult:
    """The result of a merge, revert or cherry-pick."""
    match told.answer:
        case {"outcome": str(outcome)} if outcome in set(MergeOutcome):
            return MergeResult(MergeOutcome(outcome), told.commit_id, ())
        case _:
            raise _corrupt(told.commit_id)


def schema_result(told: WriteResponse) -> SchemaApplyResult:
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
