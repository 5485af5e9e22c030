"""Branches and tags: creation, deletion and lookup, and the table branches of a branch.

A branch is a Lance branch of the manifest. Creating one copies no rows, and deleting one takes
effect in a single step; the files of its table branches are then unused. Both hold the publish
lock, so no process publishes on a branch that is being deleted. A tag is immutable and keeps its
commit readable: the branch of a tagged commit cannot be deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.commit.publish import require_locks_held
from omnigraph.engine.commit.staging import fork, needs_fork
from omnigraph.engine.state.manifest import (
    MANIFEST_PATH,
    ManifestState,
    manifest_ref,
    table_branch_of,
)
from omnigraph.engine.state.readers import Readers
from omnigraph.engine.state.schema_files import SCHEMA_LOCK
from omnigraph.model.errors import (
    AlreadyExistsError,
    CorruptError,
    GraphError,
    InvalidNameError,
    NotFoundError,
    StillNeededError,
    UnavailableError,
    UncertainError,
)
from omnigraph.model.names import (
    MAIN,
    BranchName,
    TagName,
    find_near_name,
    is_commit_id_like,
    is_internal_branch,
    parse_tag_name,
)
from omnigraph.model.records import RecordError, decode_record, encode_record
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.locks import HeldLocks, LockKey
from omnigraph.storage.ports import ObjectStore, TableRef

TAGS_PREFIX = "__tags"

_FORMAT = 1
_ENDING = ".json"


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a commit, and the commit's location: a version of its branch's manifest."""

    name: TagName = field(metadata={"json": None})
    commit_id: str
    branch: str
    manifest_version: int
    actor: str | None
    created_at: datetime


def create_tag(
    name: TagName, state: ManifestState, *, actor: str | None, readers: Readers, path: WritePath
) -> None:
    """Tag the commit of a state.

    Raises `AlreadyExistsError` if another commit has the name, and `NotFoundError` if the rows of
    the commit were cleaned up, or are about to be.
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
    # A process that deletes the branch waits, and then finds the tag. `main` cannot be deleted.
    turn = [] if commit.branch == MAIN else [LockKey(MANIFEST_PATH, commit.branch)]
    with path.locks.hold(turn):
        if turn:
            path.branch_states.state_of(
                commit.id, branch=commit.branch, version=commit.manifest_version
            )
        _put(tag, path)
    try:
        # A cleanup announces what it deletes and then lists the tags, so one process sees the
        # other.
        readers.require_retained(state.snapshot)
        for entry in state.snapshot:
            path.stores.tables.schema(entry.at)
    except NotFoundError:
        delete_tag(name, path=path)
        raise


def _put(tag: Tag, path: WritePath) -> None:
    try:
        if path.stores.objects.put_if_absent(
            _path_of(tag.name), encode_record(tag, version=_FORMAT)
        ):
            return
    except UnavailableError as error:
        if _look_again(tag.name, path, after=error, action="created") is None:
            raise
    # A response may get lost, in which case the existing tag is the one written here.
    known = find_tag(tag.name, path.stores.objects)
    if known is None or known.commit_id != tag.commit_id:
        raise AlreadyExistsError(
            kind="tag",
            name=tag.name,
            advice="delete it with `delete_tag` before tagging another commit",
        )


def delete_tag(name: TagName, *, path: WritePath) -> None:
    """Delete a tag; its commit is not changed. Raises `NotFoundError` if there is no such tag."""
    get_tag(name, path.stores.objects)
    try:
        path.stores.objects.delete(_path_of(name))
    except UnavailableError as error:
        if _look_again(name, path, after=error, action="deleted") is not None:
            raise


def _look_again(name: TagName, path: WritePath, *, after: GraphError, action: str) -> Tag | None:
    """The tag, read again after a response that may belong to a repeated or lost request."""
    try:
        return find_tag(name, path.stores.objects)
    except UnavailableError as error:
        raise UncertainError(
            f"tag '{name}' may have been {action}: {after}; check whether `tags` lists it"
        ) from error


def list_tags(objects: ObjectStore) -> tuple[Tag, ...]:
    """All tags, by name."""
    found = [find_tag(name, objects) for name in _names(objects)]
    # A tag that was deleted after it was listed is skipped.
    return tuple(tag for tag in found if tag is not None)


def find_tagged(text: str, objects: ObjectStore) -> Tag | None:
    """The tag that a caller may refer to by a text; None if there is none."""
    if is_commit_id_like(text):
        return None
    try:
        return find_tag(parse_tag_name(text), objects)
    except InvalidNameError:
        return None


def find_tag(name: TagName, objects: ObjectStore) -> Tag | None:
    """The tag with a name; None if there is none."""
    path = _path_of(name)
    stored = objects.find(path)
    if stored is None:
        return None
    try:
        return decode_record(Tag, stored.content, version=_FORMAT, name=name)
    except RecordError as error:
        raise CorruptError(
            subject=f"the tag {path}",
            problem=f"{error}; upgrade this OmniGraph if a newer one wrote it, or delete the "
            "object and tag the commit again",
        ) from error


def get_tag(name: TagName, objects: ObjectStore) -> Tag:
    """The tag with a name; raises `NotFoundError` if there is none."""
    tag = find_tag(name, objects)
    if tag is None:
        near = find_near_name(name, _names(objects))
        advice = f"did you mean '{near}'?" if near else "`tags` lists them"
        raise NotFoundError(kind="tag", name=name, advice=advice)
    return tag


def _names(objects: ObjectStore) -> list[TagName]:
    files = objects.list(TAGS_PREFIX).token_by_name
    named = sorted(each.removesuffix(_ENDING) for each in files if each.endswith(_ENDING))
    return [TagName(each.replace("~", "/")) for each in named]


def _path_of(name: TagName) -> str:
    # No name contains `~`, so it replaces `/`, and a single request lists all tags.
    return f"{TAGS_PREFIX}/{name.replace('/', '~')}{_ENDING}"


_LOG = logging.getLogger(__name__)


def ensure_branch(
    name: BranchName, *, base: BranchName, if_head: str | None, path: WritePath
) -> bool:
    """Create a branch if it does not exist; returns whether this call created it.

    Another process may create it at the same time.
    """
    try:
        create_branch(name, base=base, if_head=if_head, path=path)
    except AlreadyExistsError:
        return False
    return True


def create_branch(
    name: BranchName, *, base: BranchName, if_head: str | None, path: WritePath
) -> None:
    """Create a branch at the head of another; raises `AlreadyExistsError` if the name is taken.

    `if_head` is the commit that the base must be at; otherwise `PreconditionFailedError` is raised.
    `UncertainError` means that the storage reports neither whether the branch was created nor
    whether it exists.
    """
    if name == MAIN:
        raise InvalidNameError(kind="branch", name=name, rule="cannot create branch 'main'")
    # A process that creates the same branch, or one whose name is a folder of the other's, waits,
    # and then finds it. A process that deletes the base waits, and then finds this branch. `main`
    # cannot be deleted.
    parts = name.split("/")
    folders = [BranchName("/".join(parts[:count])) for count in range(1, len(parts))]
    turns = [LockKey(MANIFEST_PATH, each) for each in {*folders, name, base} - {MAIN}]
    # A schema change has already read the list of branches.
    with path.locks.hold([SCHEMA_LOCK, *turns]) as held:
        _require_free(name, path)
        start = path.branch_states.capture(base).state
        path.require_head(if_head, start)
        if base != MAIN:
            require_locks_held(held)
        try:
            path.stores.tables.fork(start.at, branch=name)
            path.failpoints.maybe_fail(Failpoint.BRANCH_CREATE_AFTER_MANIFEST_BRANCH_CREATE)
        except (AlreadyExistsError, UnavailableError) as error:
            # A response may get lost, and the repeated request is then rejected because the first
            # one succeeded; under the lock, no other process created the branch.
            if not _is_there(name, path, after=error, action="created"):
                raise


def delete_branch(name: BranchName, *, if_head: str | None, path: WritePath) -> None:
    """Delete a branch and the data that only it uses.

    Raises `StillNeededError` if something depends on the branch. `if_head` is the commit that it
    must be at; otherwise `PreconditionFailedError` is raised. Waits for active writers; the caller
    has already recovered interrupted writes. `UncertainError` means that the storage reports
    neither whether the branch was deleted nor whether it exists.
    """
    if name == MAIN:
        raise InvalidNameError(kind="branch", name=name, rule="cannot delete branch 'main'")
    tables = path.branch_states.state(name).path_by_table
    with (
        # In the order in which a writer acquires them: the types, then the publish lock.
        path.locks.hold([LockKey(table_key, name) for table_key in tables]) as held,
        path.locks.hold_within(held, [LockKey(MANIFEST_PATH, name)]) as turn,
    ):
        # Another process may have deleted the branch during the wait.
        state = path.branch_states.state(name)
        path.require_head(if_head, state)
        path.failpoints.maybe_fail(Failpoint.BRANCH_DELETE_POST_TABLE_GATES)
        tags = list_tags(path.stores.objects)
        tag = next((each for each in tags if each.branch == name), None)
        if tag is not None:
            raise StillNeededError(
                kind="branch",
                name=name,
                needed_by=f"tag '{tag.name}'",
                advice="delete the tag first, or keep the branch, which contains the tagged commit",
            )
        remove_branch(name, state.path_by_table.values(), held=turn, path=path)


def remove_branch(
    name: BranchName, table_paths: Iterable[str], *, held: HeldLocks, path: WritePath
) -> None:
    """Delete a branch without active writers, and its table branches; a missing branch is ignored.

    The caller holds its locks. The next recovery discards an interrupted write on the branch.
    """
    require_locks_held(held)
    try:
        # From here on the branch does not exist for readers and writers.
        path.stores.tables.delete_branch(manifest_ref(name))
        path.failpoints.maybe_fail(Failpoint.BRANCH_DELETE_POST_NATIVE)
    except UnavailableError as error:
        if _is_there(name, path, after=error, action="deleted"):
            # Lance also refuses, but does not report which branch depends on this one.
            _require_childless(name, path)
            raise
    path.branch_states.forget(name)
    # A crash here leaves unused table branches; a new branch of the same name forks them again.
    for table_path in sorted(set(table_paths)):
        table_branch = TableRef(table_path, name)
        try:
            path.failpoints.maybe_fail(Failpoint.BRANCH_DELETE_BEFORE_TABLE_CLEANUP)
            if path.stores.tables.find_head(table_branch) is not None:
                path.stores.tables.delete_branch(table_branch)
        except GraphError as error:
            _LOG.warning(
                "a table branch of the deleted branch '%s' was not deleted: %s", name, error
            )


def _is_there(name: BranchName, path: WritePath, *, after: GraphError, action: str) -> bool:
    try:
        return path.branch_states.has_branch(name)
    except UnavailableError as error:
        raise UncertainError(
            f"branch '{name}' may have been {action}: {after}; check whether `branches` lists it"
        ) from error


def _require_free(name: BranchName, path: WritePath) -> None:
    if path.branch_states.has_branch(name):
        raise AlreadyExistsError(kind="branch", name=name, advice="")
    other = path.branch_states.find_overlapping(name)
    if other is not None:
        raise InvalidNameError(
            kind="branch",
            name=name,
            rule=f"branch '{other}' exists, and one name may not be a folder of another",
        )


def _require_childless(name: BranchName, path: WritePath) -> None:
    for child in path.branch_states.children(name):
        # A branch refers to table branches of another one only if it was created from it, directly
        # or not.
        is_private = is_internal_branch(child)
        raise StillNeededError(
            kind="branch",
            name=name,
            needed_by="a transaction" if is_private else f"branch '{child}'",
            advice="wait for it to end" if is_private else "delete that branch first",
        )


def create_table_branches(
    table_keys: Collection[str], *, branch: BranchName, path: WritePath
) -> None:
    """Create table branches of a branch for some types; they are not visible before a write."""
    with path.locks.hold([LockKey(key, table_branch_of(branch)) for key in table_keys]) as held:
        basis = path.branch_states.capture(branch)
        for key in table_keys:
            entry = basis.snapshot.get(key)
            if needs_fork(entry, branch):
                fork(
                    entry,
                    branch=branch,
                    state=path.branch_states.newest_known(basis.state),
                    held=held,
                    tables=path.stores.tables,
                    failpoints=path.failpoints,
                )
