"""Sidecars: the durable record of a write under way, in `__recovery/`.

A sidecar is written before the first table moves and deleted after the publish. It states which
versions the write creates, by which transactions, and as which commit. A file of another format
version is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import orjson

from omnigraph.engine.commit.prepared_write import SchemaDelta
from omnigraph.engine.state.history import NO_NOTES, CommitNotes, decode_notes
from omnigraph.model.errors import CorruptError, UnavailableError
from omnigraph.model.names import MAIN
from omnigraph.model.records import RecordError, decode_fields, encode_fields, read_document
from omnigraph.storage.locks import HeldLocks
from omnigraph.storage.objects import read_records
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
    post_commit_version: int = field(metadata={"json": "post_commit_pin"})
    transaction_uuid: str
    row_count: int
    earlier_uuids: tuple[str, ...] = field(
        default=(), metadata={"json": "earlier_transaction_uuids"}
    )
    published_key: str | None = field(default=None, metadata={"json": "published_table_key"})


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A write under way: its effects, and the ids of the commits that finish it or undo it."""

    operation_id: str
    started_at: datetime = field(metadata={"json": None})
    branch: str
    actor: str | None = field(metadata={"json": "actor_id"})
    writer_kind: WriterKind
    commit_id: str
    rollback_commit_id: str
    schema_hash: str
    pins: tuple[Pin, ...] = field(metadata={"json": "tables"})
    relied_on: Mapping[str, int]
    merged_parent_id: str | None = field(default=None, metadata={"json": "merge_source_commit_id"})
    notes: CommitNotes = field(default=NO_NOTES, metadata={"json": None})
    schema: SchemaDelta | None = field(default=None, metadata={"json": "schema_delta"})


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
    found = list(read_records(objects, RECOVERY_PREFIX))
    return tuple(decode_sidecar(content, path=path) for path, content in found)


def encode_sidecar(sidecar: Sidecar) -> bytes:
    """The content of a sidecar's file."""
    document = {
        "schema_version": SIDECAR_VERSION,
        "started_at": str((sidecar.started_at - _EPOCH) // timedelta(microseconds=1)),
        **encode_fields(sidecar),
        **encode_fields(sidecar.notes),
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def decode_sidecar(content: bytes, *, path: str) -> Sidecar:
    """Decode the sidecar of a file; an invalid one raises `CorruptError` and is left in place."""
    try:
        document = read_document(content, version=SIDECAR_VERSION, version_key="schema_version")
        return decode_fields(
            Sidecar,
            document,
            started_at=_decode_start(document.get("started_at")),
            notes=decode_notes(document),
        )
    except RecordError as error:
        raise CorruptError(subject=f"the record of a write, {path}", problem=str(error)) from error


def _decode_start(microseconds: object) -> datetime:
    if not isinstance(microseconds, str) or not microseconds.isdigit():
        raise RecordError("the time at which it started is missing")
    return _EPOCH + timedelta(microseconds=int(microseconds))
