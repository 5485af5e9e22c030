"""Idempotency of keyed requests: request digests, and results that are recorded in commits.

Two requests have equal digests exactly when their arguments are equal: a file counts by its name,
and rows count by their values. The commit of a keyed request records the result; a repeated request
decodes it. Requests without a key are neither encoded nor decoded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

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


def make_request(key: str | None, operation: str, *arguments: object) -> Request | None:
    """The request of an operation with its arguments, if the caller provided a key."""
    parsed = parse_key(key)
    if parsed is None:
        return None
    encoded = json.dumps(_encode_argument((operation, *arguments)))
    return Request(parsed, hashlib.sha256(encoded.encode()).hexdigest())


def _encode_argument(value: object) -> object:
    """An injective JSON encoding of a value."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            entries = [list(map(_encode_argument, entry)) for entry in value.items()]
            return {"entries": sorted(entries, key=json.dumps)}
        case Set():
            return {"members": sorted(map(_encode_argument, value), key=json.dumps)}
        case list() | tuple():
            return list(map(_encode_argument, value))
        case np.ndarray():
            return value.tolist()
        case pa.Array() | pa.ChunkedArray():
            return _encode_argument(value.to_pylist())
        case _:
            return {"written": repr(value)}


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ResultCodec(Generic[R]):
    """The JSON form in which a commit records the result of a keyed request.

    `encode` omits the commit, because it does not exist yet. `decode` returns None if a field is
    missing or has another type.
    """

    encode: Callable[[R], Mapping[str, object]]
    decode: Callable[[object, Commit], R | None]


def record_result(
    write: PreparedWrite, result: R, *, codec: ResultCodec[R], request: Request
) -> PreparedWrite:
    """The write with a commit that records the result of a request."""
    encoded = orjson.dumps(codec.encode(result)).decode()
    response = RecordedResponse(request.key, request.digest, encoded)
    return replace(write, notes=replace(write.notes, request=response))


def decode_result(commit: Commit, *, codec: ResultCodec[R]) -> R:
    """The result that the commit of a keyed request records."""
    response = commit.notes.request
    assert response is not None, "the commit was found by its request"
    result = codec.decode(orjson.loads(response.result), commit)
    if result is None:
        raise CorruptError(
            subject=f"commit {commit.id} in the manifest",
            problem="its recorded response lacks a field",
        )
    return result


def _decode_mutation(fields: object, commit: Commit) -> MutationResult | None:
    match fields:
        case {"affected_nodes": int(nodes), "affected_edges": int(edges)}:
            return MutationResult(nodes, edges, commit.id)
        case _:
            return None


MUTATION_CODEC: ResultCodec[MutationResult] = ResultCodec(
    lambda result: {
        "affected_nodes": result.affected_nodes,
        "affected_edges": result.affected_edges,
    },
    _decode_mutation,
)


def _decode_load(fields: object, commit: Commit) -> LoadResult | None:
    match fields:
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
                commit_id=commit.id,
                branch=commit.branch,
                base_branch=base,
                branch_created=is_new,
                engine=engine,
                rejected=rejected,
            )
        case _:
            return None


LOAD_CODEC: ResultCodec[LoadResult] = ResultCodec(
    lambda result: {
        "nodes_loaded": result.nodes_loaded,
        "edges_loaded": result.edges_loaded,
        "base_branch": result.base_branch,
        "branch_created": result.branch_created,
        "engine": result.engine,
        "rejected": result.rejected,
    },
    _decode_load,
)
"""Only the first response reports why rows were rejected."""


def _decode_merge(fields: object, commit: Commit) -> MergeResult | None:
    match fields:
        case {"outcome": str(outcome)} if outcome in set(MergeOutcome):
            return MergeResult(MergeOutcome(outcome), commit.id, ())
        case _:
            return None


MERGE_CODEC: ResultCodec[MergeResult] = ResultCodec(
    lambda result: {"outcome": result.outcome}, _decode_merge
)


def _decode_schema_apply(fields: object, commit: Commit) -> SchemaApplyResult | None:
    match fields:
        case {"steps": [*steps]}:
            encoded = tuple(step for step in steps if isinstance(step, Mapping))
            return SchemaApplyResult(applied=True, steps=encoded, commit_id=commit.id)
        case _:
            return None


SCHEMA_APPLY_CODEC: ResultCodec[SchemaApplyResult] = ResultCodec(
    lambda result: {"steps": result.steps}, _decode_schema_apply
)
