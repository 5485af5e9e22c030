"""Commits: the entries of a graph's history, and their rows in the manifest.

A commit row is decoded strictly: a field that is missing or of another type is a broken graph, not
an empty value. Times are microseconds since 1970, as they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson

from omnigraph.engine.html import make_facts, make_note, make_table
from omnigraph.model.errors import CorruptError
from omnigraph.model.limits import COMMITS_SHOWN_MAX
from omnigraph.model.names import MAIN, BranchName

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_NOTE_NAMES = frozenset(
    {"reverted_commit_id", "picked_commit_id", "resolutions", "brought", "batch", "request"}
)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a caller decided about one entity that both sides of a merge changed: the image of the
    `source`, that of the `target`, or a `row` of its own."""

    type: str
    id: str
    choice: str


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A commit as the search for a merge base knows it: where it is, and what it came from."""

    id: str
    branch: str
    manifest_version: int
    parent_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of a streaming query, which is committed once however often it is written."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """A request that a commit answered: the key that its caller gave it, a digest of what it asked
    for, and what the caller was told, as JSON."""

    key: str
    digest: str
    answer: str


@dataclass(frozen=True, slots=True)
class CommitNotes:
    """What a commit says of where its changes come from.

    The commit that it reverted or picked; the decisions that a merge was given; the commits that a
    merge brought into the branch's past, which its own manifest does not list; the batch of a
    stream; and the request that it answered, if that had a key.
    """

    reverted_id: str | None = None
    picked_id: str | None = None
    resolutions: tuple[Resolution, ...] = ()
    brought: tuple[Ancestor, ...] = ()
    batch: StreamBatch | None = None
    request: AnsweredRequest | None = None


NO_NOTES = CommitNotes()


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
    notes: CommitNotes = NO_NOTES

    @property
    def age(self) -> tuple[int, datetime, str]:
        """What orders the commits of a branch, oldest first."""
        return (self.manifest_version, self.created_at, self.id)

    def _repr_html_(self) -> str:
        facts = (
            ("commit", self.id),
            ("branch", self.branch),
            ("time", f"{self.created_at:%Y-%m-%d %H:%M:%SZ}"),
            ("actor", self.actor),
            ("parent", self.parent_id),
            ("merged", self.merged_parent_id),
            ("reverts", self.notes.reverted_id),
            ("repeats", self.notes.picked_id),
        )
        return make_facts(fact for fact in facts if fact[1] is not None)


class CommitLog(list[Commit]):
    """Commits, oldest first: a list that a notebook shows as one."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        names = ("commit", "branch", "time", "actor", "parent", "merged")
        rows = (
            [
                each.id,
                each.branch,
                f"{each.created_at:%Y-%m-%d %H:%M:%SZ}",
                each.actor or "",
                each.parent_id or "",
                each.merged_parent_id or "",
            ]
            for each in self[: -COMMITS_SHOWN_MAX - 1 : -1]
        )
        hidden = len(self) - COMMITS_SHOWN_MAX
        more = make_note(f"and {hidden:,} before") if hidden > 0 else ""
        return make_table(names, rows) + more


def encode_commit(commit: Commit) -> str:
    """The metadata of a commit row; absent fields are left out."""
    fields = {
        "parent_commit_id": commit.parent_id,
        "merged_parent_commit_id": commit.merged_parent_id,
        "actor_id": commit.actor,
        "created_at": (commit.created_at - _EPOCH) // timedelta(microseconds=1),
        "schema_hash": commit.schema_hash,
        **encode_notes(commit.notes),
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
                notes=decode_notes(fields, subject=_subject(commit_id)),
            )
        case _:
            raise _corrupt(commit_id, "its time, version or branch is missing")


def encode_head(commit: Commit) -> str:
    """The metadata of a branch's head row."""
    fields = {"head_commit_id": commit.id}
    if commit.parent_id is not None:
        fields["parent_commit_id"] = commit.parent_id
    return orjson.dumps(fields).decode()


def encode_notes(notes: CommitNotes) -> dict[str, object]:
    """The notes as fields of a JSON object; absent ones are left out."""
    fields: dict[str, object] = {
        "reverted_commit_id": notes.reverted_id,
        "picked_commit_id": notes.picked_id,
        "resolutions": [[each.type, each.id, each.choice] for each in notes.resolutions],
        "brought": [
            [each.id, each.branch, each.manifest_version, list(each.parent_ids)]
            for each in notes.brought
        ],
        "batch": None if notes.batch is None else [notes.batch.query_id, notes.batch.batch_id],
        "request": None if notes.request is None else _encode_request(notes.request),
    }
    return {name: value for name, value in fields.items() if value}


def decode_notes(fields: Mapping[str, object], *, subject: str) -> CommitNotes:
    """The notes among the fields of a JSON object, or `CorruptError` that names the subject."""
    if _NOTE_NAMES.isdisjoint(fields):
        return NO_NOTES
    reverted, picked = fields.get("reverted_commit_id"), fields.get("picked_commit_id")
    match reverted, picked, fields.get("resolutions", []), fields.get("brought", []):
        case str() | None, str() | None, [*resolutions], [*brought]:
            return CommitNotes(
                reverted,
                picked,
                tuple(_decode_resolution(each, subject) for each in resolutions),
                tuple(_decode_ancestor(each, subject) for each in brought),
                _decode_batch(fields.get("batch"), subject),
                _decode_request(fields.get("request"), subject),
            )
        case _:
            raise CorruptError(subject=subject, problem="a note has another type")


def _decode_resolution(encoded: object, subject: str) -> Resolution:
    match encoded:
        case [str(type), str(id), str(choice)]:
            return Resolution(type, id, choice)
        case _:
            raise CorruptError(subject=subject, problem="a decision lacks a part")


def _decode_ancestor(encoded: object, subject: str) -> Ancestor:
    match encoded:
        case [str(id), str(branch), int(version), [*parents]]:
            return Ancestor(id, branch, version, tuple(str(each) for each in parents))
        case _:
            raise CorruptError(subject=subject, problem="a merged commit lacks a part")


def _decode_batch(encoded: object, subject: str) -> StreamBatch | None:
    match encoded:
        case None:
            return None
        case [str(query_id), int(batch_id)]:
            return StreamBatch(query_id, batch_id)
        case _:
            raise CorruptError(subject=subject, problem="a batch lacks a part")


def _encode_request(request: AnsweredRequest) -> list[str]:
    return [request.key, request.digest, request.answer]


def _decode_request(encoded: object, subject: str) -> AnsweredRequest | None:
    match encoded:
        case None:
            return None
        case [str(key), str(digest), str(answer)]:
            return AnsweredRequest(key, digest, answer)
        case _:
            raise CorruptError(subject=subject, problem="a request lacks a part")


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
    return CorruptError(subject=_subject(commit_id), problem=problem)


def _subject(commit_id: str) -> str:
    return f"commit {commit_id} in the manifest"
