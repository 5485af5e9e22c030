"""Cleaning: old versions of a table are deleted, with the files that no other version has.

Lance does it, version by version as it is told. It keeps the newest version of a line and those
that branches were made from, whatever it is told, and files that no version names until they are a
week old: those may be staged by a writer that lives. It deletes files before the description that
names them, so what is about to go is noted first, and counts as gone from then on. Knows not which
versions are needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from datetime import UTC, datetime

import orjson
from lance import LanceDataset

from omnigraph.model.errors import NotFoundError, UnavailableError
from omnigraph.storage.lance_errors import lance_errors
from omnigraph.storage.lance_handles import LanceHandles, folder_of
from omnigraph.storage.ports import Cleaned, ObjectStore, TableRef, TableVersion

# Lance wants at least one version to delete, and does not mind that it is not there.
_NO_VERSION = 0


def list_versions(handles: LanceHandles, ref: TableRef) -> tuple[int, ...]:
    """The versions of a line that are there, ascending; none if there is no such line."""
    newest = handles.find_newest(ref)
    if newest is None:
        return ()
    with lance_errors(table=ref.path, action=f"list versions of '{folder_of(ref)}'"):
        return tuple(sorted(each["version"] for each in copy(newest).version_refs()))


def find_version_before(handles: LanceHandles, ref: TableRef, moment: datetime) -> int | None:
    """The newest version of a line that was made before a moment."""

    def made_at(version: int) -> datetime:
        try:
            table = handles.get(TableVersion(ref, version))
        except NotFoundError:
            # It was cleaned up since it was listed, so it is an old one.
            return datetime.min.replace(tzinfo=UTC)
        made = table.get_version()["timestamp"]
        assert isinstance(made, datetime), "Lance tells when a version was made"
        # It tells local time, and which of two equal ones it is when clocks are put back.
        return made.astimezone(UTC)

    versions = list_versions(handles, ref)
    place = bisect_left(versions, moment, key=made_at)
    return versions[place - 1] if place else None


def preview_cleaning(handles: LanceHandles, ref: TableRef, versions: Sequence[int]) -> Cleaned:
    """What cleaning would delete."""
    if not versions:
        return Cleaned(0, 0)
    with lance_errors(table=ref.path, action=f"look at old versions of '{folder_of(ref)}'"):
        found = _open(handles, ref).explain_cleanup_old_versions(
            delete_unverified=False, error_if_tagged_old_versions=False, versions=list(versions)
        )
    return Cleaned(found.stats.old_versions, found.stats.bytes_removed)


def clean(
    handles: LanceHandles, files: ObjectStore, ref: TableRef, versions: Sequence[int]
) -> Cleaned:
    """Delete versions, and files that only they have; a missing one is fine.

    With none to delete there are still the files of writers who died a week ago.
    """
    action = f"delete old versions of '{folder_of(ref)}'"
    table = _open(handles, ref)
    # With those that somebody noted and did not get to the end with.
    doomed = sorted({*versions, *find_doomed(files, ref)} - {table.version})
    if doomed:
        files.put(_note_of(ref), orjson.dumps({"versions": doomed}))
    # A crash here leaves versions without some of their files, and a note that says so.
    try:
        with lance_errors(table=ref.path, action=action):
            done = table.cleanup_old_versions(
                delete_unverified=False,
                error_if_tagged_old_versions=False,
                versions=doomed or [_NO_VERSION],
            )
    finally:
        handles.forget(lambda kept: kept == ref)
    if done.failed_deletes:
        raise UnavailableError(
            action=action, reason=f"{done.failed_deletes} files could not be deleted"
        )
    if doomed:
        files.delete_prefix(_notes_of(ref))
    return Cleaned(done.old_versions, done.bytes_removed)


def find_doomed(files: ObjectStore, ref: TableRef) -> frozenset[int]:
    """The versions of a line that somebody has begun to delete."""
    stored = files.find(_note_of(ref))
    if stored is None:
        return frozenset()
    try:
        document: object = orjson.loads(stored.content)
    except orjson.JSONDecodeError:
        document = None
    match document:
        case {"versions": [*versions]}:
            return frozenset(each for each in versions if isinstance(each, int))
        case _:
            # A loss of power cut it off, before anything was deleted.
            return frozenset()


def _notes_of(ref: TableRef) -> str:
    return f"{folder_of(ref)}/_cleaning"


def _note_of(ref: TableRef) -> str:
    return f"{_notes_of(ref)}/versions.json"


def _open(handles: LanceHandles, ref: TableRef) -> LanceDataset:
    # Lance holds a handle for itself while it looks, and refuses readers then.
    return copy(handles.get_newest(ref))
