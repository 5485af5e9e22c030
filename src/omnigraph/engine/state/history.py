"""Commits and recoveries as history records them, their encoding, and their display in notebooks.

Commit rows are decoded strictly: a missing field or a field of another type raises `CorruptError`.
Times are stored as microseconds since 1970. HTML output escapes and truncates every value. The
module reads no storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from html import escape
from typing import NamedTuple

import orjson

from omnigraph.model.errors import CorruptError
from omnigraph.model.limits import COMMITS_SHOWN_MAX, VALUE_CHARACTERS_SHOWN_MAX
from omnigraph.model.names import MAIN, RECOVERY_ACTOR, BranchName
from omnigraph.model.records import RecordError, decode_fields, encode_fields


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


class Resolution(NamedTuple):
    """The decision of a caller about one entity that both sides of a merge changed.

    `choice` is `source` or `target` for the row version of that side, or `row` for a row that the
    caller supplies.
    """

    type: str
    id: str
    choice: str


class Ancestor(NamedTuple):
    """A commit as the search for a merge base sees it: its location and its parents."""

    id: str
    branch: str
    manifest_version: int
    parent_ids: tuple[str, ...]


class StreamBatch(NamedTuple):
    """A batch of a streaming query; it is committed once, however often it is written."""

    query_id: str
    batch_id: int


class RecordedResponse(NamedTuple):
    """A keyed request that a commit performed.

    `key` is the key that the caller supplied, `digest` a digest of the request, and `result` its
    result as JSON.
    """

    key: str
    digest: str
    result: str


class NameChange(NamedTuple):
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

    reverted_id: str | None = field(default=None, metadata={"json": "reverted_commit_id"})
    picked_id: str | None = field(default=None, metadata={"json": "picked_commit_id"})
    resolutions: tuple[Resolution, ...] = ()
    brought: tuple[Ancestor, ...] = ()
    batch: StreamBatch | None = None
    request: RecordedResponse | None = None
    # An empty list is stored too: it proves that no name changed its meaning.
    names: tuple[NameChange, ...] | None = field(default=None, metadata={"json": "schema_names"})


NO_NOTES = CommitNotes()

_NOTE_NAMES = frozenset(each.metadata.get("json", each.name) for each in fields(CommitNotes))


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
        **encode_fields(commit.notes),
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
                notes=_decode_notes(commit_id, fields),
            )
        case _:
            raise _corrupt(commit_id, "its time, version or branch is missing")


def encode_head(commit: Commit) -> str:
    """The metadata of a branch's head row."""
    fields = {"head_commit_id": commit.id}
    if commit.parent_id is not None:
        fields["parent_commit_id"] = commit.parent_id
    return orjson.dumps(fields).decode()


def decode_notes(fields: Mapping[str, object]) -> CommitNotes:
    """The notes among the members of a JSON object; `RecordError` if one has another type."""
    return NO_NOTES if _NOTE_NAMES.isdisjoint(fields) else decode_fields(CommitNotes, fields)


def _decode_notes(commit_id: str, fields: Mapping[str, object]) -> CommitNotes:
    try:
        return decode_notes(fields)
    except RecordError as error:
        raise _corrupt(commit_id, str(error)) from error


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
    return CorruptError(subject=f"commit {commit_id} in the manifest", problem=problem)


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
