"""Manifest states and commits, as small as they can be."""

from datetime import UTC, datetime

from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import (
    Change,
    Entry,
    ManifestState,
    Register,
    Update,
    encode_manifest,
    manifest_ref,
    reduce_manifest,
)
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.ports import TableVersion, VersionFile

TIMESTAMP = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
FILE = VersionFile("_versions/1.manifest", 100)


def make_commit(
    commit_id: str,
    *,
    manifest_version: int = 1,
    branch: BranchName = MAIN,
    parent_id: str | None = None,
    actor: str | None = None,
    created_at: datetime = TIMESTAMP,
) -> Commit:
    """A commit of which a test names only what it is about."""
    return Commit(
        id=commit_id,
        branch=branch,
        parent_id=parent_id,
        merged_parent_id=None,
        actor=actor,
        created_at=created_at,
        manifest_version=manifest_version,
        schema_hash="sha256:00",
    )


def make_update(
    table_key: str, version: int, *, row_count: int = 0, branch: str | None = None
) -> Update:
    """A version of a table that becomes the true one."""
    return Update(Entry(table_key, "", version, branch, row_count), FILE)


def make_state(*changes: Change, commit: Commit | None = None, version: int = 1) -> ManifestState:
    """The state of a manifest on which changes were published at once; types lie under `at/`."""
    keys = {change.entry.table_key for change in changes if isinstance(change, Update)}
    registered = [Register(key, f"at/{key}") for key in sorted(keys)]
    rows = encode_manifest([*registered, *changes], commit or make_commit("c0"), after=None)
    at = TableVersion(manifest_ref(MAIN), version)
    return reduce_manifest(rows, at=at, branch=MAIN, onto=None)
