"""Cleanup: deletes old versions of a table, and the files that no other version uses.

Lance deletes the versions that it is given. It always retains the newest version of a table branch
and the versions that branches were forked from. It retains files that no version names until they
are a week old, because a live writer may have staged them. Lance deletes files before the manifest
that names them, so the versions to delete are recorded first and count as deleted from then on. The
module does not know which versions are needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from datetime import UTC, datetime

import orjson
from lance import LanceDataset
from lance.lance import CleanupStats

from omnigraph.model.errors import CorruptError, NotFoundError, UnavailableError, plural
from omnigraph.model.limits import CLEANUP_ATTEMPTS_MAX
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.lance.handles import DatasetCache, folder_of
from omnigraph.storage.ports import Cleaned, ObjectStore, TableRef, TableVersion

# Lance requires at least one version to delete, and ignores one that does not exist.
_NO_VERSION = 0


def list_versions(handles: DatasetCache, ref: TableRef) -> tuple[int, ...]:
    """The existing versions of a table branch, ascending; empty if there is no such branch."""
    newest = handles.find_newest(ref)
    if newest is None:
        return ()
    with lance_errors(table=ref.path, action=f"list versions of '{folder_of(ref)}'"):
        return tuple(sorted(each["version"] for each in copy(newest).version_refs()))


def find_version_before(handles: DatasetCache, ref: TableRef, timestamp: datetime) -> int | None:
    """The newest version of a table branch that was made before a timestamp."""

    def made_at(version: int) -> datetime:
        try:
            table = handles.get(TableVersion(ref, version))
        except NotFoundError:
            # It was deleted after it was listed, so it is old.
            return datetime.min.replace(tzinfo=UTC)
        made = table.get_version()["timestamp"]
        assert isinstance(made, datetime), "Lance records when a version was made"
        # Lance returns local time, with the fold that distinguishes two equal times when clocks are
        # set back.
        return made.astimezone(UTC)

    versions = list_versions(handles, ref)
    place = bisect_left(versions, timestamp, key=made_at)
    return versions[place - 1] if place else None


def preview_delete_versions(
    handles: DatasetCache, ref: TableRef, versions: Sequence[int]
) -> Cleaned:
    """What `delete_versions` would delete."""
    if not versions:
        return Cleaned(0, 0)
    with lance_errors(table=ref.path, action=f"look at old versions of '{folder_of(ref)}'"):
        found = _open(handles, ref).explain_cleanup_old_versions(
            delete_unverified=False, error_if_tagged_old_versions=False, versions=list(versions)
        )
    return Cleaned(found.stats.old_versions, found.stats.bytes_removed)


def delete_versions(
    handles: DatasetCache, files: ObjectStore, ref: TableRef, versions: Sequence[int]
) -> Cleaned:
    """Delete versions, and files that only they use; missing versions are ignored.

    Without versions to delete, this still deletes the files of writers that died a week ago.
    """
    action = f"delete old versions of '{folder_of(ref)}'"
    table = _open(handles, ref)
    # Includes versions whose recorded deletion was not completed.
    doomed = sorted({*versions, *find_versions_being_deleted(files, ref)} - {table.version})
    if doomed:
        files.put(_note_of(ref), orjson.dumps({"versions": doomed}))
    # A crash here leaves versions without some of their files, and a record of the deletion.
    try:
        done = _delete(table, ref, doomed, action=action)
    finally:
        handles.forget(lambda cached: cached == ref)
    if done.failed_deletes:
        raise UnavailableError(
            action=action,
            reason=f"{done.failed_deletes} {plural(done.failed_deletes, 'file')} "
            "could not be deleted",
        )
    if doomed:
        files.delete_prefix(_notes_of(ref))
    return Cleaned(done.old_versions, done.bytes_removed)


def _delete(
    table: LanceDataset, ref: TableRef, doomed: Sequence[int], *, action: str
) -> CleanupStats:
    for attempts_left in reversed(range(CLEANUP_ATTEMPTS_MAX)):
        try:
            with lance_errors(table=ref.path, action=action):
                return table.cleanup_old_versions(
                    delete_unverified=False,
                    error_if_tagged_old_versions=False,
                    versions=list(doomed) or [_NO_VERSION],
                )
        except CorruptError:
            # Lance reads the files of all branches of the table, and one that is deleted meanwhile
            # looks like damage. Deleting again is safe.
            if not attempts_left:
                raise
    raise AssertionError("the last attempt returns or raises")


def find_versions_being_deleted(files: ObjectStore, ref: TableRef) -> frozenset[int]:
    """The versions of a table branch whose deletion has begun."""
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
            # A power loss truncated it, before anything was deleted.
            return frozenset()


def _notes_of(ref: TableRef) -> str:
    return f"{folder_of(ref)}/_cleaning"


def _note_of(ref: TableRef) -> str:
    return f"{_notes_of(ref)}/versions.json"


def _open(handles: DatasetCache, ref: TableRef) -> LanceDataset:
    # Lance locks a handle during this call and rejects concurrent readers.
    return copy(handles.get_newest(ref))
