"""Branches of one table: made, removed and listed, with what a crash in between leaves.

Lance writes a branch's first version and then the reference that lists it. A crash between the two
leaves a name that is not listed and can be neither made nor deleted; it is freed here. The caller
holds the locks of the branch, so whatever is not listed belongs to nobody. Listing holds none: a
branch that goes away meanwhile is listed or not.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from urllib.parse import quote

import orjson
from lance import LanceDataset

from omnigraph.model.errors import AlreadyExistsError, CorruptError, UnavailableError
from omnigraph.model.limits import BRANCH_LISTINGS_MAX
from omnigraph.storage.durability import Durability
from omnigraph.storage.lance_errors import FOREIGN, Failure, classify, lance_errors, translate
from omnigraph.storage.lance_handles import LanceHandles, describe_version, folder_of
from omnigraph.storage.ports import TableRef, TableVersion


def list_branches(handles: LanceHandles, path: str) -> frozenset[str]:
    """The branches of a table."""
    main = copy(handles.get_newest(TableRef(path, None)))
    action = f"list the branches of '{path}'"
    for _ in range(BRANCH_LISTINGS_MAX):
        try:
            return frozenset(main.branches.list())
        except FOREIGN as error:
            # Lance lists names and then reads each: what another deletes in between is missing.
            if classify(error) is not Failure.MISSING_FILE:
                _require_whole_references(handles, path)
                raise translate(error, table=path, action=action) from error
    raise UnavailableError(action=action, reason="others keep deleting branches; try again")


def fork(
    handles: LanceHandles, at: TableVersion, branch: str, *, disk: Durability | None
) -> TableRef:
    """Start a branch at a version; `AlreadyExistsError` if it is listed."""
    handles.get(at)
    ref = TableRef(at.ref.path, branch)
    handles.forget(lambda kept: kept == ref)
    table = _make_branch(handles, at, ref)
    if disk:
        try:
            _secure_branch(ref, branch, disk)
        except UnavailableError:
            # Nobody may build on what a loss of power would take away again.
            delete_branch(handles, ref, disk=None)
            raise
    handles.keep(ref, table)
    return ref


def delete_branch(handles: LanceHandles, ref: TableRef, *, disk: Durability | None) -> None:
    """Remove a branch and its files; a missing one is fine."""
    assert ref.branch is not None, "a table's own line is no branch"
    main = handles.find_newest(TableRef(ref.path, None))
    if main is None:
        return
    action = f"delete branch '{ref.branch}'"
    listed = list_branches(handles, ref.path)
    _require_none_inside(ref, listed)
    if ref.branch in listed:
        with lance_errors(table=ref.path, action=action):
            copy(main).branches.delete(ref.branch)
    _remove_leftover(handles, ref)
    handles.forget(lambda kept: kept == ref)
    if disk:
        with lance_errors(table=ref.path, action=action):
            disk.secure_folder(_references(ref.path))


def _secure_branch(ref: TableRef, branch: str, disk: Durability) -> None:
    with lance_errors(table=ref.path, action=f"flush branch '{branch}'"):
        disk.secure_tree(folder_of(ref))
        disk.secure([f"{_references(ref.path)}/{quote(branch, safe='')}.json"])


def _make_branch(handles: LanceHandles, at: TableVersion, ref: TableRef) -> LanceDataset:
    assert ref.branch is not None, "a table's own line is no branch"
    main = handles.get_newest(TableRef(ref.path, None))
    start = (at.ref.branch, at.version)
    name, action = describe_version(at), f"make branch '{ref.branch}'"
    try:
        return copy(main).create_branch(ref.branch, start)
    except FOREIGN as error:
        # Lance does not say that a name is taken: what is listed says it.
        if ref.branch in list_branches(handles, ref.path):
            raise AlreadyExistsError(kind="branch", name=ref.branch, advice="") from error
        if not _remove_leftover(handles, ref):
            raise translate(error, table=name, action=action) from error
    with lance_errors(table=name, action=action):
        return copy(main).create_branch(ref.branch, start)


def _remove_leftover(handles: LanceHandles, ref: TableRef) -> bool:
    """Remove the files of a branch that is not listed; whether there were any that block it."""
    is_whole = True
    try:
        if handles.find_newest(ref) is None:
            return False
    except CorruptError:
        # A loss of power cut its first version off; nobody refers to that either.
        if not handles.is_local:
            raise
        is_whole = False
    _require_none_inside(ref, list_branches(handles, ref.path))
    handles.forget(lambda kept: kept == ref)
    with lance_errors(table=ref.path, action=f"delete branch '{ref.branch}'"):
        if is_whole:
            options = handles.storage_options
            LanceDataset.drop(handles.uri(ref), storage_options=options, ignore_not_found=True)
        else:
            # Lance drops only what it can read.
            shutil.rmtree(handles.uri(ref))
    return True


def _require_none_inside(ref: TableRef, listed: Iterable[str]) -> None:
    # Lance keeps a branch inside the folder of another whose name it continues.
    inside = sorted(name for name in listed if name.startswith(f"{ref.branch}/"))
    if inside:
        raise UnavailableError(
            action=f"delete branch '{ref.branch}'", reason=f"branch '{inside[0]}' lies inside it"
        )


def _require_whole_references(handles: LanceHandles, path: str) -> None:
    if not handles.is_local:
        return
    place = _references(path)
    for file in sorted(Path(handles.uri(TableRef(place, None))).glob("*.json")):
        try:
            orjson.loads(file.read_bytes())
        except orjson.JSONDecodeError as error:
            raise CorruptError(
                subject=f"'{place}/{file.name}'",
                problem="it should name a branch and is damaged, as by a loss of power while the "
                "branch was made; delete it if that branch was never written to, else restore it "
                "from a copy of the graph",
            ) from error


def _references(path: str) -> str:
    return f"{path}/_refs/branches"
