"""Sidecars: the durable record of a write under way, in `__recovery/`.

A sidecar is written before the first table moves and deleted after the publish. It states which
versions the write creates, by which transactions, and as which commit. Encoding and decoding are
exact inverses; a file of another format version is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import orjson

from omnigraph.engine.commit.prepared_write import SchemaDelta, decode_delta, encode_delta
from omnigraph.engine.state.history import NO_NOTES, CommitNotes, decode_notes, encode_notes
from omnigraph.model.errors import CorruptError, UnavailableError
from omnigraph.model.names import MAIN
from omnigraph.storage.locks import HeldLocks
from omnigraph.storage.ports import ObjectStore

RECOVERY_PREFIX = "__recovery"
SIDECAR_VERSION = 2

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WriterKind(StrEnum):
    """The operation that wrote a sidecar."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"


@dataclass(frozen=True, slots=True)
class Pin:
    """One table that the write moves: from which version, to which one, by which transaction.

    `earlier_uuids` are the transactions before the last one, for a write of several steps.
    `published_key` is the key of the type that the table belongs to afterwards, if that is another
    type.
    """

    table_key: str
    table_path: str
    table_branch: str | None
    expected_version: int
    post_commit_version: int
    transaction_uuid: str
    row_count: int
    earlier_uuids: tuple[str, ...] = ()
    published_key: str | None = None


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A write under way: its effects, and the ids of the commits that finish it or undo it."""

    operation_id: str
    started_at: datetime
    branch: str
    actor: str | None
    writer_kind: WriterKind
    commit_id: str
    rollback_commit_id: str
    schema_hash: str
    pins: tuple[Pin, ...]
    relied_on: Mapping[str, int]
    merged_parent_id: str | None = None
    notes: CommitNotes = NO_NOTES
    schema: SchemaDelta | None = None


def changes_schema(sidecar: Sidecar) -> bool:
    """Whether a write accepts a schema; a branch that catches up with one does not."""
    return sidecar.schema is not None and sidecar.branch == MAIN


def sidecar_path(operation_id: str) -> str:
    """The path of the sidecar of an operation."""
    return f"{RECOVERY_PREFIX}/{operation_id}.json"


def arm(sidecar: Sidecar, *, objects: ObjectStore) -> None:
    """Record a write before its first effect; from here a crash leaves evidence."""
    objects.put(sidecar_path(sidecar.operation_id), encode_sidecar(sidecar))


def arm_again(sidecar: Sidecar, *, held: HeldLocks, objects: ObjectStore) -> None:
    """Record a stopped write again, if the lease under which it was made may have been seized.

    In that case another process has recovered the write, and this one may have moved a table since.
    """
    if held.is_revocable:
        with suppress(UnavailableError):
            arm(sidecar, objects=objects)


def disarm(operation_id: str, *, objects: ObjectStore) -> None:
    """Delete the sidecar of a finished write."""
    objects.delete(sidecar_path(operation_id))


def list_sidecar_paths(objects: ObjectStore) -> list[str]:
    """The paths of the sidecars of all writes under way, by name."""
    names = sorted(objects.list(RECOVERY_PREFIX).token_by_name)
    return [f"{RECOVERY_PREFIX}/{name}" for name in names if name.endswith(".json")]


def list_sidecars(objects: ObjectStore) -> tuple[Sidecar, ...]:
    """The sidecars of all writes under way, by name; an unreadable one raises `CorruptError`."""
    found = [(path, objects.find(path)) for path in list_sidecar_paths(objects)]
    return tuple(decode_sidecar(each.content, path=path) for path, each in found if each)


def encode_sidecar(sidecar: Sidecar) -> bytes:
    """The content of a sidecar's file."""
    document: dict[str, object] = {
        "schema_version": SIDECAR_VERSION,
        "operation_id": sidecar.operation_id,
        "started_at": str((sidecar.started_at - _EPOCH) // timedelta(microseconds=1)),
        "branch": sidecar.branch,
        "actor_id": sidecar.actor,
        "writer_kind": sidecar.writer_kind,
        "commit_id": sidecar.commit_id,
        "rollback_commit_id": sidecar.rollback_commit_id,
        "schema_hash": sidecar.schema_hash,
        "tables": [_encode_pin(pin) for pin in sidecar.pins],
        "relied_on": dict(sidecar.relied_on),
    }
    if sidecar.merged_parent_id is not None:
        document["merge_source_commit_id"] = sidecar.merged_parent_id
    if sidecar.schema is not None:
        document["schema_delta"] = encode_delta(sidecar.schema)
    document |= encode_notes(sidecar.notes)
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def decode_sidecar(content: bytes, *, path: str) -> Sidecar:
    """Decode the sidecar of a file; an invalid one raises `CorruptError` and is left in place."""
    try:
        document: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _corrupt(path, "it is not valid JSON") from error
    match document:
        case {"schema_version": int(version)} if version != SIDECAR_VERSION:
            raise _corrupt(
                path, f"it has format {version}, this version of OmniGraph reads {SIDECAR_VERSION}"
            )
        case {
            "operation_id": str(operation_id),
            "started_at": str(started_at),
            "branch": str(branch),
            "actor_id": str() | None as actor,
            "writer_kind": str(kind),
            "commit_id": str(commit_id),
            "rollback_commit_id": str(rollback_commit_id),
            "schema_hash": str(schema_hash),
            "tables": [*pins],
            "relied_on": dict(relied_on),
            **others,
        } if kind in set(WriterKind) and started_at.isdigit():
            rest = {str(name): value for name, value in others.items()}
            subject, delta = f"the record of a write, {path}", rest.get("schema_delta")
            return Sidecar(
                operation_id=operation_id,
                started_at=_EPOCH + timedelta(microseconds=int(started_at)),
                branch=branch,
                actor=actor,
                writer_kind=WriterKind(kind),
                commit_id=commit_id,
                rollback_commit_id=rollback_commit_id,
                schema_hash=schema_hash,
                pins=tuple(_decode_pin(pin, path) for pin in pins),
                relied_on={str(key): int(version) for key, version in relied_on.items()},
                merged_parent_id=_decode_merged_parent(rest, path),
                notes=decode_notes(rest, subject=subject),
                schema=None if delta is None else decode_delta(delta, subject=subject),
            )
        case _:
            raise _corrupt(path, "a field is missing or has another type")


def _decode_merged_parent(document: Mapping[str, object], path: str) -> str | None:
    match document.get("merge_source_commit_id"):
        case str() | None as merged_parent_id:
            return merged_parent_id
        case _:
            raise _corrupt(path, "the commit that it merges is not a text")


def _encode_pin(pin: Pin) -> dict[str, object]:
    encoded: dict[str, object] = {
        "table_key": pin.table_key,
        "table_path": pin.table_path,
        "table_branch": pin.table_branch,
        "expected_version": pin.expected_version,
        "post_commit_pin": pin.post_commit_version,
        "transaction_uuid": pin.transaction_uuid,
        "row_count": pin.row_count,
    }
    if pin.earlier_uuids:
        encoded["earlier_transaction_uuids"] = list(pin.earlier_uuids)
    if pin.published_key is not None:
        encoded["published_table_key"] = pin.published_key
    return encoded


def _decode_pin(encoded: object, path: str) -> Pin:
    match encoded:
        case {
            "table_key": str(table_key),
            "table_path": str(table_path),
            "table_branch": str() | None as table_branch,
            "expected_version": int(expected_version),
            "post_commit_pin": int(post_commit_version),
            "transaction_uuid": str(transaction_uuid),
            "row_count": int(row_count),
            **others,
        }:
            earlier, published = _decode_pin_extras(others, path)
            return Pin(
                table_key=table_key,
                table_path=table_path,
                table_branch=table_branch,
                expected_version=expected_version,
                post_commit_version=post_commit_version,
                transaction_uuid=transaction_uuid,
                row_count=row_count,
                earlier_uuids=earlier,
                published_key=published,
            )
        case _:
            raise _corrupt(path, "a table's fields are missing or have another type")


def _decode_pin_extras(
    others: Mapping[object, object], path: str
) -> tuple[tuple[str, ...], str | None]:
    match others.get("earlier_transaction_uuids", []), others.get("published_table_key"):
        case [*earlier], str() | None as published:
            return tuple(str(each) for each in earlier), published
        case _:
            raise _corrupt(path, "a table's fields are missing or have another type")


def _corrupt(path: str, problem: str) -> CorruptError:
    return CorruptError(subject=f"the record of a write, {path}", problem=problem)
