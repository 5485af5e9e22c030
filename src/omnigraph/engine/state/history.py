"""Commits and recoveries as history records them, their encoding, and their display in notebooks.

Commit rows are decoded strictly: a missing field or a field of another type raises `CorruptError`.
Times are stored as microseconds since 1970. HTML output escapes and truncates every value. The
module reads no storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from html import escape

import orjson

from omnigraph.model.errors import CorruptError
from omnigraph.model.limits import COMMITS_SHOWN_MAX, VALUE_CHARACTERS_SHOWN_MAX
from omnigraph.model.names import MAIN, RECOVERY_ACTOR, BranchName


def make_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table of rows below the names of its columns."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_make_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def make_facts(facts: Iterable[tuple[str, object]]) -> str:
    """An HTML table of the facts about one object, one per row."""
    rows = "".join(f"<tr><th>{escape(name)}</th>{_make_cell(fact)}</tr>" for name, fact in facts)
    return f"<table><tbody>{rows}</tbody></table>"


def make_note(text: str) -> str:
    """An HTML paragraph."""
    return f"<p>{escape(text)}</p>"


def write_value(value: object) -> str:
    """A value as text, truncated if it is long."""
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    if len(text) <= VALUE_CHARACTERS_SHOWN_MAX:
        return text
    return f"{text[:VALUE_CHARACTERS_SHOWN_MAX]}…"


def _make_cell(value: object) -> str:
    return f"<td>{escape(write_value(value))}</td>"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_NOTE_NAMES = frozenset(
    {
        "reverted_commit_id",
        "picked_commit_id",
        "resolutions",
        "brought",
        "batch",
        "request",
        "schema_names",
    }
)


@dataclass(frozen=True, slots=True)
class Resolution:
    """The decision of a caller about one entity that both sides of a merge changed.

    `choice` is `source` or `target` for the row version of that side, or `row` for a row that the
    caller supplies.
    """

    type: str
    id: str
    choice: str


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A commit as the search for a merge base sees it: its location and its parents."""

    id: str
    branch: str
    manifest_version: int
    parent_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of a streaming query; it is committed once, however often it is written."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class RecordedResponse:
    """A keyed request that a commit performed.

    `key` is the key that the caller supplied, `digest` a digest of the request, and `result` its
    result as JSON.
    """

    key: str
    digest: str
    result: str


@dataclass(frozen=True, slots=True)
class NameChange:
    """A name that a schema change gave to a type or to one of its properties.

    `type` is the name of the type afterwards, `property` is None for the type itself, and `old` is
    the previous name, or None for an addition.
    """

    kind: str
    type: str
    property: str | None
    old: str | None


@dataclass(frozen=True, slots=True)
class CommitNotes:
    """The origin of a commit's changes.

    The notes hold the commit that it reverted or picked; the decisions that a merge was given; the
    commits that a merge brought into the branch's past, which the branch's own manifest does not
    list; the batch of a stream; the request that the commit performed, if that had a key; and the
    names that a schema change gave. `names` is None if the commit changes no schema or does not
    record its names.
    """

    reverted_id: str | None = None
    picked_id: str | None = None
    resolutions: tuple[Resolution, ...] = ()
    brought: tuple[Ancestor, ...] = ()
    batch: StreamBatch | None = None
    request: RecordedResponse | None = None
    names: tuple[NameChange, ...] | None = None


NO_NOTES = CommitNotes()


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry of history: what was published, by which actor, after which commit.

    `recovery` is the kind of recovery that published the commit, if any, such as `RolledForward`;
    it comes from the recovery audit and is not part of the stored commit.
    """

    id: str
    branch: str
    parent_id: str | None
    merged_parent_id: str | None
    actor: str | None
    created_at: datetime
    manifest_version: int
    schema_hash: str | None
    notes: CommitNotes = NO_NOTES
    recovery: str | None = None

    @property
    def age(self) -> tuple[int, datetime, str]:
        """The sort key of the commits of a branch, oldest first."""
        return (self.manifest_version, self.created_at, self.id)

    def is_by(self, actor: str) -> bool:
        """Whether an actor made the commit; recovery also made those that it rolled forward."""
        is_recovered = actor == RECOVERY_ACTOR and self.recovery is not None
        return is_recovered or self.actor == actor

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
            ("recovery", self.recovery),
        )
        return make_facts(fact for fact in facts if fact[1] is not None)


class CommitLog(list[Commit]):
    """Commits, oldest first, as a list that notebooks render as a table."""

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
    """The metadata of a commit row; absent fields are omitted."""
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
    """Decode the commit of a row; an invalid one raises `CorruptError`."""
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
    """The notes as fields of a JSON object; absent ones are omitted."""
    fields: dict[str, object] = {
        "reverted_commit_id": notes.reverted_id,
        "picked_commit_id": notes.picked_id,
        "resolutions": [[each.type, each.id, each.choice] for each in notes.resolutions],
        "brought": [
            [each.id, each.branch, each.manifest_version, list(each.parent_ids)]
            for each in notes.brought
        ],
        "batch": None if notes.batch is None else [notes.batch.query_id, notes.batch.batch_id],
        "request": None
        if notes.request is None
        else [notes.request.key, notes.request.digest, notes.request.result],
    }
    found = {name: value for name, value in fields.items() if value}
    if notes.names is not None:
        # An empty list is recorded too: it proves that no name changed its meaning.
        found["schema_names"] = [
            [each.kind, each.type, each.property, each.old] for each in notes.names
        ]
    return found


def decode_notes(fields: Mapping[str, object], *, subject: str) -> CommitNotes:
    """Decode the notes in the fields of a JSON object; `CorruptError` names the subject."""
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
                _decode_names(fields.get("schema_names"), subject),
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


def _decode_request(encoded: object, subject: str) -> RecordedResponse | None:
    match encoded:
        case None:
            return None
        case [str(key), str(digest), str(result)]:
            return RecordedResponse(key, digest, result)
        case _:
            raise CorruptError(subject=subject, problem="a request lacks a part")


def _decode_names(encoded: object, subject: str) -> tuple[NameChange, ...] | None:
    match encoded:
        case None:
            return None
        case [*changes]:
            return tuple(_decode_name(each, subject) for each in changes)
        case _:
            raise CorruptError(subject=subject, problem="the names of a schema have another type")


def _decode_name(encoded: object, subject: str) -> NameChange:
    match encoded:
        case [str(kind), str(type), str() | None as property, str() | None as old]:
            return NameChange(kind, type, property, old)
        case _:
            raise CorruptError(subject=subject, problem="a name of a schema lacks a part")


def _decode_fields(commit_id: str, metadata: object) -> dict[str, object]:
    if not isinstance(metadata, str):
        raise _corrupt(commit_id, "its metadata is missing")
    try:
        fields: object = orjson.loads(metadata)
    except orjson.JSONDecodeError as error:
        raise _corrupt(commit_id, "its metadata is not valid JSON") from error
    if not isinstance(fields, dict):
        raise _corrupt(commit_id, "its metadata is not a JSON object")
    return fields


def _find_text(commit_id: str, fields: dict[str, object], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise _corrupt(commit_id, f"its {name} is not a text")
    return value


def _corrupt(commit_id: str, problem: str) -> CorruptError:
    return CorruptError(subject=_subject(commit_id), problem=problem)


def _subject(commit_id: str) -> str:
    return f"commit {commit_id} in the manifest"


class RecoveryKind(StrEnum):
    """How recovery ended an interrupted write."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    ORPHANED_BRANCH_DISCARDED = "OrphanedBranchDiscarded"
    EMPTY_INTENT_DISCARDED = "EmptyIntentDiscarded"


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """The versions between which a recovery moved one table."""

    table_key: str
    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """One row of the audit; the commit is the one that the recovery published, or left as head."""

    commit_id: str
    kind: RecoveryKind
    actor: str | None
    operation_id: str
    writer_kind: str
    outcomes: tuple[TableOutcome, ...]
    created_at: datetime
