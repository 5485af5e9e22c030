"""Branches of one table: made, removed and listed, with what a crash in between leaves.

Lance writes a branch's first version and then the reference that lists it. A crash between the two
leaves a name that is not listed and can be neither made nor deleted; it is freed here. The caller
holds the locks of the branch, so whatever is not listed belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from urllib.parse import quote

from lance import LanceDataset

from omnigraph.model.errors import AlreadyExistsError, UnavailableError
from omnigraph.storage.durability import Durability
from omnigraph.storage.lance_errors import FOREIGN, lance_errors, translate
from omnigraph.storage.lance_handles import LanceHandles, describe_version, folder_of
from omnigraph.storage.ports import TableRef, TableVersion


def list_branches(handles: LanceHandles, path: str) -> frozenset[str]:
    """The branches of a table."""
    main = copy(handles.get_newest(TableRef(path, None)))
    with lance_errors(table=path, action=f"list the branches of '{path}'"):
        return frozenset(main.branches.list())


def fork(
    handles: LanceHandles, at: TableVersion, branch: str, *, disk: Durability | None
) -> TableRef:
    """Start a branch at a version; `AlreadyExistsError` if it is listed."""
    handles.get(at)
    ref = TableRef(at.ref.path, branch)
    handles.forget(lambda kept: kept == ref)
    table = _make_branch(handles, at, ref)
    if disk:
        with lance_errors(table=at.ref.path, action=f"flush branch '{branch}'"):
            disk.secure_tree(folder_of(ref))
            disk.secure([f"{_references(ref)}/{quote(branch, safe='')}.json"])
    handles.keep(ref, table)
    return ref


def delete_branch(handles: LanceHandles, ref: TableRef, *, disk: Durability | None) -> None:
    """Remove a branch and its files; a missing one is fine."""
    assert ref.branch is not None, "a table's own line is no branch"
    main = handles.find_newest(TableRef(ref.path, None))
    if main is None:
        return
    action = f"delete branch '{ref.branch}'"
    with lance_errors(table=ref.path, action=action):
        references = copy(main).branches
        listed = references.list()
        _require_none_inside(ref, listed)
        if ref.branch in listed:
            references.delete(ref.branch)
    _remove_leftover(handles, ref)
    handles.forget(lambda kept: kept == ref)
    if disk:
        with lance_errors(table=ref.path, action=action):
            disk.secure_folder(_references(ref))


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
    if handles.find_newest(ref) is None:
        return False
    _require_none_inside(ref, list_branches(handles, ref.path))
    handles.forget(lambda kept: kept == ref)
    with lance_errors(table=ref.path, action=f"delete branch '{ref.branch}'"):
        LanceDataset.drop(
            handles.uri(ref), storage_options=handles.storage_options, ignore_not_found=True
        )
    return True


def _require_none_inside(ref: TableRef, listed: Iterable[str]) -> None:
    # Lance keeps a branch inside the folder of another whose name it continues.
    inside = sorted(name for name in listed if name.startswith(f"{ref.branch}/"))
    if inside:
        raise UnavailableError(
            action=f"delete branch '{ref.branch}'", reason=f"branch '{inside[0]}' lies inside it"
        )


def _references(ref: TableRef) -> str:
    return f"{ref.path}/_refs/branches"
