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
    MergeResult,
    MutationResult,
    SchemaApplyResult,
)
from omnigraph.engine.state.history import Commit, RecordedResponse
from omnigraph.model.errors import CorruptError
from omnigraph.model.names import parse_key
from omnigraph.model.records import RecordError, decode_fields


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

    The commit supplies the fields that are not `stored`, because it did not exist yet.
    """

    kind: type[R]
    stored: tuple[str, ...]
    restore: Callable[[Commit], Mapping[str, object]]


def record_result(
    write: PreparedWrite, result: R, *, codec: ResultCodec[R], request: Request
) -> PreparedWrite:
    """The write with a commit that records the result of a request."""
    encoded = orjson.dumps({name: getattr(result, name) for name in codec.stored}).decode()
    response = RecordedResponse(request.key, request.digest, encoded)
    return replace(write, notes=replace(write.notes, request=response))


def decode_result(commit: Commit, *, codec: ResultCodec[R]) -> R:
    """The result that the commit of a keyed request records."""
    response = commit.notes.request
    assert response is not None, "the commit was found by its request"
    try:
        return decode_fields(codec.kind, orjson.loads(response.result), **codec.restore(commit))
    except RecordError as error:
        raise CorruptError(
            subject=f"commit {commit.id} in the manifest",
            problem=f"its recorded response cannot be decoded: {error}",
        ) from error


MUTATION_CODEC = ResultCodec(
    MutationResult,
    ("affected_nodes", "affected_edges"),
    lambda commit: {"commit_id": commit.id},
)

LOAD_CODEC = ResultCodec(
    LoadResult,
    ("nodes_loaded", "edges_loaded", "base_branch", "branch_created", "engine", "rejected"),
    lambda commit: {"commit_id": commit.id, "branch": commit.branch},
)
"""Only the first response reports why rows were rejected."""

MERGE_CODEC = ResultCodec(
    MergeResult, ("outcome",), lambda commit: {"commit_id": commit.id, "conflicts": ()}
)

SCHEMA_APPLY_CODEC = ResultCodec(
    SchemaApplyResult, ("steps",), lambda commit: {"commit_id": commit.id, "applied": True}
)
