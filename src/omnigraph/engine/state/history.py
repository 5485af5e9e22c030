"""Commits: the entries of a graph's history, and their rows in the manifest.

A commit row is decoded strictly: a field that is missing or of another type is a broken graph, not
an empty value. Times are microseconds since 1970, as they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson

from omnigraph.model.errors import CorruptError
from omnigraph.model.names import MAIN, BranchName

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry of history: what was made true, by whom, after what."""

    id: str
    branch: str
    parent_id: str | None
    merged_parent_id: str | None
    actor: str | None
    created_at: datetime
    manifest_version: int
    schema_hash: str | None

    @property
    def age(self) -> tuple[int, datetime, str]:
        """What orders the commits of a branch, oldest first."""
        return (self.manifest_version, self.created_at, self.id)


def encode_commit(commit: Commit) -> str:
    """The metadata of a commit row; absent fields are left out."""
    fields = {
        "parent_commit_id": commit.parent_id,
        "merged_parent_commit_id": commit.merged_parent_id,
        "actor_id": commit.actor,
        "created_at": (commit.created_at - _EPOCH) // timedelta(microseconds=1),
        "schema_hash": commit.schema_hash,
    }
    return orjson.dumps({k: v for k, v in fields.items() if v is not None}).decode()


def decode_commit(
    *, commit_id: str, metadata: object, manifest_version: object, branch: object
) -> Commit:
    """The commit of a row, or `CorruptError`."""
    fields = _decode_fields(commit_id, metadata)
    match fields.get("created_at"), manifest_version, branch:
        case int(created_at), int(version), str() | None:
            return Commit(
                id=commit_id,
                branch=MAIN if branch is None else BranchName(str(branch)),
                parent_id=_find_text(commit_id, fields, "parent_commit_id"),
                merged_parent_id=_find_text(commit_id, fields, "merged_parent_commit_id"),
                actor=_find_text(commit_id, fields, "actor_id"),
                created_at=_EPOCH + timedelta(microseconds=created_at),
                manifest_version=version,
                schema_hash=_find_text(commit_id, fields, "schema_hash"),
            )
        case _:
            raise _corrupt(commit_id, "its time, version or branch is missing")


def encode_head(commit: Commit) -> str:
    """The metadata of a branch's head row."""
    fields = {"head_commit_id": commit.id}
    if commit.parent_id is not None:
        fields["parent_commit_id"] = commit.parent_id
    return orjson.dumps(fields).decode()


def _decode_fields(commit_id: str, metadata: object) -> dict[str, object]:
    if not isinstance(metadata, str):
        raise _corrupt(commit_id, "its metadata is missing")
    try:
        fields: object = orjson.loads(metadata)
    except orjson.JSONDecodeError as error:
        raise _corrupt(commit_id, "its metadata is no JSON") from error
    if not isinstance(fields, dict):
        raise _corrupt(commit_id, "its metadata is no JSON object")
    return fields


def _find_text(commit_id: str, fields: dict[str, object], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise _corrupt(commit_id, f"its {name} is no text")
    return value


def _corrupt(commit_id: str, problem: str) -> CorruptError:
    return CorruptError(subject=f"commit {commit_id} in the manifest", problem=problem)
