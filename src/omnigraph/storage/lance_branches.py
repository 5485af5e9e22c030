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
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import orjson
from lance import LanceDataset

from omnigraph.model.errors import AlreadyExistsError, CorruptError, UnavailableError
from omnigraph.model.limits import BRANCH_LISTINGS_MAX
from omnigraph.storage.durability import Durability
from omnigraph.storage.lance_errors import FOREIGN, Failure, classify, lance_errors, translate
from omnigraph.storage.lance_handles import LanceHandles, describe_version, folder_of
from omnigraph.storage.ports import ObjectStore, TableRef, TableVersion

_ENDING = ".json"


@dataclass(frozen=True, slots=True)
class BranchReference:
    """The file by which Lance lists a branch: it is there if and only if the branch is.

    `parent` is the branch that it was made from, None for the table's own line, and `version` the
    version of it.
    """

    parent: str | None
    version: int


def references_of(path: str) -> str:
    """Where the references to a table's branches are."""
    return f"{path}/_refs/branches"


def reference_path(ref: TableRef) -> str:
    """Where the reference to a branch is."""
    assert ref.branch is not None, "a table's own line is no branch"
    return f"{references_of(ref.path)}/{quote(ref.branch, safe='')}{_ENDING}"


def decode_names(files: Iterable[str]) -> frozenset[str]:
    """The branches that the names of references stand for."""
    named = [each.removesuffix(_ENDING) for each in files if each.endswith(_ENDING)]
    return frozenset(unquote(name) for name in named)


def decode_reference(content: bytes, *, path: str) -> BranchReference:
    """What a reference says, or `CorruptError` if a loss of power has cut it off."""
    try:
        document: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _damaged(path) from error
    match document:
        case {"parentBranch": str() | None as parent, "parentVersion": int(version)}:
            return BranchReference(parent, version)
        case _:
            raise _damaged(path)


def list_branches(handles: LanceHandles, path: str) -> frozenset[str]:
    """The branches of a table."""
    main = copy(handles.get_newest(TableRef(path, None)))
    if handles.is_local:
        # Lance would read every reference, which grows with them; their names are all we ask for.
        return decode_names(_file_names(Path(handles.uri(TableRef(references_of(path), None)))))
    action = f"list the branches of '{path}'"
    for _ in range(BRANCH_LISTINGS_MAX):
        try:
            return frozenset(main.branches.list())
        except FOREIGN as error:
            # Lance lists names and then reads each: what another deletes in between is missing.
            if classify(error) is not Failure.MISSING_FILE:
                raise translate(error, table=path, action=action) from error
    raise UnavailableError(action=action, reason="others keep deleting branches; try again")


def is_fresh_fork(
    handles: LanceHandles, files: ObjectStore, ref: TableRef, of: TableVersion
) -> bool:
    """Whether a branch that is listed was made from a version and nothing was added since."""
    reference = files.find(reference_path(ref))
    newest = handles.find_newest(ref)
    if reference is None or newest is None or newest.version != of.version:
        return False
    made_from = decode_reference(reference.content, path=reference_path(ref))
    return made_from == BranchReference(of.ref.branch, of.version)


def fork(
    handles: LanceHandles, at: TableVersion, branch: str, *, disk: Durability | None
) -> TableRef:
    """Start a branch at a version; `AlreadyExistsError` if it is listed."""
    handles.get(at)
    ref = TableRef(at.ref.path, branch)
    handles.forget_before_making(ref)
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
        _delete_listed(handles, main, ref, action)
    handles.forget_deleted(ref)
    _remove_leftover(handles, ref)
    if disk:
        with lance_errors(table=ref.path, action=action):
            disk.secure_folder(references_of(ref.path))


def _delete_listed(handles: LanceHandles, main: LanceDataset, ref: TableRef, action: str) -> None:
    assert ref.branch is not None, "nobody deletes main"
    for attempts_left in reversed(range(BRANCH_LISTINGS_MAX)):
        try:
            copy(main).branches.delete(ref.branch)
        except FOREIGN as error:
            # Lance reads the references of all branches, and another of them may go meanwhile.
            if attempts_left and classify(error) is Failure.MISSING_FILE:
                continue
            _require_whole_references(handles, ref.path)
            raise translate(error, table=ref.path, action=action) from error
        return


def _secure_branch(ref: TableRef, branch: str, disk: Durability) -> None:
    with lance_errors(table=ref.path, action=f"flush branch '{branch}'"):
        disk.secure_tree(folder_of(ref))
        disk.secure([reference_path(ref)])


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
    handles.forget_deleted(ref)
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
    place = references_of(path)
    for file in sorted(Path(handles.uri(TableRef(place, None))).glob(f"*{_ENDING}")):
        decode_reference(file.read_bytes(), path=f"{place}/{file.name}")


def _file_names(folder: Path) -> list[str]:
    try:
        return [file.name for file in folder.iterdir()]
    except FileNotFoundError:
        return []


def _damaged(path: str) -> CorruptError:
    return CorruptError(
        subject=f"'{path}'",
        problem="it should name a branch and is damaged, as by a loss of power while the "
        "branch was made; delete it if that branch was never written to, else restore it "
        "from a copy of the graph",
    )
