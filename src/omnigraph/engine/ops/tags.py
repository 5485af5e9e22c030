"""Tags: names for commits, kept as small objects beside the graph.

A tag names one commit for good: to move it, delete it and make it again. Promises that a tagged
commit stays readable: the branch that it lives on is not deleted while the tag is there. A tag is
no part of history, so making one makes no commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import orjson

from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.state.manifest import MANIFEST_PATH, ManifestState
from omnigraph.engine.state.readers import Readers
from omnigraph.model.errors import (
    AlreadyExistsError,
    CorruptError,
    GraphError,
    InvalidNameError,
    NotFoundError,
    UnavailableError,
    UncertainError,
)
from omnigraph.model.names import (
    MAIN,
    TagName,
    find_near_name,
    looks_like_commit,
    parse_tag_name,
)
from omnigraph.model.temporal import read_moment
from omnigraph.storage.locks import LockKey
from omnigraph.storage.ports import ObjectStore

TAGS_PREFIX = "__tags"

_FORMAT = 1
_ENDING = ".json"


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a commit, and where that commit is: a version of its branch's manifest."""

    name: TagName
    commit_id: str
    branch: str
    manifest_version: int
    actor: str | None
    created_at: datetime


def create_tag(
    name: TagName, state: ManifestState, *, actor: str | None, readers: Readers, path: WritePath
) -> None:
    """Name the commit of a state; `AlreadyExistsError` if another has the name.

    `NotFoundError` means that its rows were cleaned up, or are about to be.
    """
    commit = state.head
    tag = Tag(
        name=name,
        commit_id=commit.id,
        branch=commit.branch,
        manifest_version=commit.manifest_version,
        actor=actor,
        created_at=path.runtime.now(),
    )
    # Whoever deletes the branch waits, and then finds the tag. Nobody deletes main.
    turn = [] if commit.branch == MAIN else [LockKey(MANIFEST_PATH, commit.branch)]
    with path.locks.hold(turn):
        if turn:
            path.authority.state_of(
                commit.id, branch=commit.branch, version=commit.manifest_version
            )
        _put(tag, path)
    try:
        # A clean-up says what goes and then looks for tags; so one of us sees the other.
        readers.require_kept(state.snapshot)
        for entry in state.snapshot:
            path.stores.tables.schema(entry.at)
    except NotFoundError:
        delete_tag(name, path=path)
        raise


def _put(tag: Tag, path: WritePath) -> None:
    try:
        if path.stores.objects.put_if_absent(_path_of(tag.name), encode_tag(tag)):
            return
    except UnavailableError as error:
        if _look_again(tag.name, path, after=error, deed="given") is None:
            raise
    # An answer may get lost on its way: then the tag that is in the way is our own.
    known = find_tag(tag.name, path.stores.objects)
    if known is None or known.commit_id != tag.commit_id:
        raise AlreadyExistsError(
            kind="tag", name=tag.name, advice="`delete_tag` first, to give it to another commit"
        )


def delete_tag(name: TagName, *, path: WritePath) -> None:
    """Take a name away; the commit stays as it is. `NotFoundError` if there is no such tag."""
    get_tag(name, path.stores.objects)
    try:
        path.stores.objects.delete(_path_of(name))
    except UnavailableError as error:
        if _look_again(name, path, after=error, deed="taken away") is not None:
            raise


def _look_again(name: TagName, path: WritePath, *, after: GraphError, deed: str) -> Tag | None:
    """The tag, after an answer that may be about a request which was repeated, or lost."""
    try:
        return find_tag(name, path.stores.objects)
    except UnavailableError as error:
        raise UncertainError(
            f"tag '{name}' may have been {deed}: {after}; see whether `tags` lists it"
        ) from error


def list_tags(objects: ObjectStore) -> tuple[Tag, ...]:
    """Every tag, by name."""
    found = [find_tag(name, objects) for name in _names(objects)]
    # One that was deleted since it was listed is none.
    return tuple(tag for tag in found if tag is not None)


def find_tag_on(branch: str, objects: ObjectStore) -> Tag | None:
    """A tag whose commit lives on a branch, the first by name."""
    return next((tag for tag in list_tags(objects) if tag.branch == branch), None)


def find_tagged(text: str, objects: ObjectStore) -> Tag | None:
    """The tag that a caller may mean by a text; None if it means something else."""
    if looks_like_commit(text):
        return None
    try:
        return find_tag(parse_tag_name(text), objects)
    except InvalidNameError:
        return None


def find_tag(name: TagName, objects: ObjectStore) -> Tag | None:
    """The tag of a name; None if there is none."""
    path = _path_of(name)
    stored = objects.find(path)
    return None if stored is None else decode_tag(stored.content, name=name, path=path)


def get_tag(name: TagName, objects: ObjectStore) -> Tag:
    """The tag of a name; `NotFoundError` if there is none."""
    tag = find_tag(name, objects)
    if tag is None:
        near = find_near_name(name, _names(objects))
        advice = f"did you mean '{near}'?" if near else "`tags` lists them"
        raise NotFoundError(kind="tag", name=name, advice=advice)
    return tag


def encode_tag(tag: Tag) -> bytes:
    """The content of a tag's object."""
    fields: dict[str, object] = {
        "format_version": _FORMAT,
        "commit_id": tag.commit_id,
        "branch": tag.branch,
        "manifest_version": tag.manifest_version,
        "actor": tag.actor,
        "created_at": tag.created_at.isoformat(),
    }
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2)


def decode_tag(content: bytes, *, name: TagName, path: str) -> Tag:
    """The tag of an object, or `CorruptError`; the object is left as it is."""
    try:
        document: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _corrupt(path, "it is no JSON") from error
    match document:
        case {"format_version": int(version)} if version != _FORMAT:
            raise _corrupt(path, f"it has format {version}, this version reads {_FORMAT}")
        case {
            "format_version": int(),
            "commit_id": str(commit_id),
            "branch": str(branch),
            "manifest_version": int(manifest_version),
            "actor": str() | None as actor,
            "created_at": str(created_at),
        }:
            moment = _decode_moment(created_at, path)
            return Tag(name, commit_id, branch, manifest_version, actor, moment)
        case _:
            raise _corrupt(path, "a field is missing or has another type")


def _decode_moment(text: str, path: str) -> datetime:
    try:
        return read_moment(text)
    except ValueError as error:
        raise _corrupt(path, str(error)) from error


def _names(objects: ObjectStore) -> list[TagName]:
    files = objects.list(TAGS_PREFIX).token_by_name
    named = sorted(each.removesuffix(_ENDING) for each in files if each.endswith(_ENDING))
    return [TagName(each.replace("~", "/")) for each in named]


def _path_of(name: TagName) -> str:
    # No name holds a `~`, so it stands for the `/`, and tags are listed by one look.
    return f"{TAGS_PREFIX}/{name.replace('/', '~')}{_ENDING}"


def _corrupt(path: str, problem: str) -> CorruptError:
    return CorruptError(
        subject=f"the tag {path}",
        problem=f"{problem}; upgrade this OmniGraph if a newer one wrote it, or delete the object "
        "and tag the commit again",
    )
