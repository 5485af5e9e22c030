"""Table branches: create, list, delete."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import orjson
from lance import LanceDataset

from omnigraph.model.errors import AlreadyExistsError, CorruptError, UnavailableError
from omnigraph.model.limits import BRANCH_LISTINGS_MAX
from omnigraph.storage.fsync import Durability
from omnigraph.storage.lance.errors import FOREIGN, Failure, classify, lance_errors, translate
from omnigraph.storage.lance.handles import DatasetCache, describe_version, folder_of
from omnigraph.storage.ports import ObjectStore, TableRef, TableVersion

_ENDING = ".json"


@dataclass(frozen=True, slots=True)
class BranchReference:
    """Lance's reference file of a branch, which exists if and only if the branch exists.

    `parent` is the branch that it was forked from, None for main, and `version` is the version of
    the parent.
    """

    parent: str | None
    version: int


def references_of(path: str) -> str:
    """The folder of the reference files of a table's branches."""
    return f"{path}/_refs/branches"


def reference_path(ref: TableRef) -> str:
    """The path of the reference file of a branch."""
    assert ref.branch is not None, "main is not a table branch"
    return f"{references_of(ref.path)}/{quote(ref.branch, safe='')}{_ENDING}"


def decode_names(files: Iterable[str]) -> frozenset[str]:
    """The branch names that the names of reference files encode."""
    named = [each.removesuffix(_ENDING) for each in files if each.endswith(_ENDING)]
    return frozenset(unquote(name) for name in named)


def decode_reference(content: bytes, *, path: str) -> BranchReference:
    """The content of a reference file; raises `CorruptError` if a power loss truncated it."""
    try:
        document: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _damaged(path) from error
    match document:
        case {"parentBranch": str() | None as parent, "parentVersion": int(version)}:
            return BranchReference(parent, version)
        case _:
            raise _damaged(path)


def list_branches(handles: DatasetCache, path: str) -> frozenset[str]:
    """The branches of a table."""
    main = copy(handles.get_newest(TableRef(path, None)))
    if handles.is_local:
        # Lance would read every reference file, so its cost grows with their number; only the names
        # are needed.
        return decode_names(_file_names(Path(handles.uri(TableRef(references_of(path), None)))))
    action = f"list the branches of '{path}'"
    for _ in range(BRANCH_LISTINGS_MAX):
        try:
            return frozenset(main.branches.list())
        except FOREIGN as error:
            # Lance lists names and then reads each file, so one that is deleted in between is
            # missing.
            if classify(error) is not Failure.MISSING_FILE:
                raise translate(error, table=path, action=action) from error
    raise UnavailableError(action=action, reason="others keep deleting branches; try again")


def is_fresh_fork(
    handles: DatasetCache, files: ObjectStore, ref: TableRef, of: TableVersion
) -> bool:
    """Whether a listed branch was forked from a version and has no later version."""
    reference = files.find(reference_path(ref))
    newest = handles.find_newest(ref)
    if reference is None or newest is None or newest.version != of.version:
        return False
    made_from = decode_reference(reference.content, path=reference_path(ref))
    return made_from == BranchReference(of.ref.branch, of.version)


def fork(
    handles: DatasetCache, at: TableVersion, branch: str, *, disk: Durability | None
) -> TableRef:
    """Create a branch at a version; raises `AlreadyExistsError` if it is listed."""
    handles.get(at)
    ref = TableRef(at.ref.path, branch)
    handles.forget_before_making(ref)
    table = _make_branch(handles, at, ref)
    if disk:
        try:
            _secure_branch(ref, branch, disk)
        except UnavailableError:
            # No writer may build on a branch that a power loss would remove.
            delete_branch(handles, ref, disk=None)
            raise
    handles.keep(ref, table)
    return ref


def delete_branch(handles: DatasetCache, ref: TableRef, *, disk: Durability | None) -> None:
    """Delete a branch and its files, if it exists."""
    assert ref.branch is not None, "main is not a table branch"
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


def _delete_listed(handles: DatasetCache, main: LanceDataset, ref: TableRef, action: str) -> None:
    assert ref.branch is not None, "main cannot be deleted"
    for attempts_left in reversed(range(BRANCH_LISTINGS_MAX)):
        try:
            copy(main).branches.delete(ref.branch)
        except FOREIGN as error:
            # Lance reads the reference files of all branches, and another branch may be deleted
            # meanwhile.
            if attempts_left and classify(error) is Failure.MISSING_FILE:
                continue
            _require_whole_references(handles, ref.path)
            raise translate(error, table=ref.path, action=action) from error
        return


def _secure_branch(ref: TableRef, branch: str, disk: Durability) -> None:
    with lance_errors(table=ref.path, action=f"flush branch '{branch}'"):
        disk.secure_tree(folder_of(ref))
        disk.secure([reference_path(ref)])


def _make_branch(handles: DatasetCache, at: TableVersion, ref: TableRef) -> LanceDataset:
    assert ref.branch is not None, "main is not a table branch"
    main = handles.get_newest(TableRef(ref.path, None))
    start = (at.ref.branch, at.version)
    name, action = describe_version(at), f"make branch '{ref.branch}'"
    try:
        return copy(main).create_branch(ref.branch, start)
    except FOREIGN as error:
        # Lance does not report that a name is taken, so the listing is checked.
        if ref.branch in list_branches(handles, ref.path):
            raise AlreadyExistsError(kind="branch", name=ref.branch, advice="") from error
        if not _remove_leftover(handles, ref):
            raise translate(error, table=name, action=action) from error
    with lance_errors(table=name, action=action):
        return copy(main).create_branch(ref.branch, start)


def _remove_leftover(handles: DatasetCache, ref: TableRef) -> bool:
    """Delete the files of an unlisted branch; returns whether any of them block its name."""
    is_whole = True
    try:
        if handles.find_newest(ref) is None:
            return False
    except CorruptError:
        # A power loss truncated its first version, which nothing refers to either.
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
            # Lance drops only tables that it can read.
            shutil.rmtree(handles.uri(ref))
    return True


def _require_none_inside(ref: TableRef, listed: Iterable[str]) -> None:
    # Lance stores branch `a/b` inside the folder of branch `a`.
    inside = sorted(name for name in listed if name.startswith(f"{ref.branch}/"))
    if inside:
        raise UnavailableError(
            action=f"delete branch '{ref.branch}'", reason=f"branch '{inside[0]}' lies inside it"
        )


def _require_whole_references(handles: DatasetCache, path: str) -> None:
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


_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_MAGIC = b"LANC"

_BASE_PATHS = 18
"""The field of a manifest file that holds base paths, and below it the field with the path."""
_PATH = 4

_BYTES = 2


@dataclass(frozen=True, slots=True)
class ForeignVersion:
    """A version file of a table branch that refers to files below another root."""

    ref: TableRef
    file: str
    old_root: str


def is_own(place: str, *, table: str) -> bool:
    """Whether a base path is a table at `table`, or a branch of it."""
    return place == table or place.startswith(f"{table}/tree/")


def list_table_branches(objects: ObjectStore, path: str) -> tuple[TableRef, ...]:
    """The branches of a table, by name; reads no reference file."""
    names = decode_names(objects.tokens(references_of(path)))
    return tuple(TableRef(path, name) for name in sorted(names))


def find_foreign_versions(
    objects: ObjectStore, ref: TableRef, *, root: str
) -> Iterator[ForeignVersion]:
    """The versions of a table branch with a base path that `relocate_version` would replace.

    Raises `CorruptError` if such a path does not end as a path of this table does, or names a
    branch that is not here.
    """
    folder = f"{folder_of(ref)}/_versions"
    for name in sorted(objects.tokens(folder)):
        file = f"{folder}/{name}"
        found = objects.find(file) if name.endswith(".manifest") else None
        if found is None:
            continue
        foreign = _find_foreign(found.content, ref, file=file, root=root)
        bases = [_relative(place, ref, file=file) for place in foreign]
        for place, base in zip(foreign, bases, strict=True):
            if not objects.tokens(f"{base}/_versions"):
                raise _unlike(file, place, "this graph has no such folder")
        if foreign:
            yield ForeignVersion(ref, file, foreign[0].removesuffix(f"/{bases[0]}"))


def relocate_version(objects: ObjectStore, version: ForeignVersion, *, root: str) -> None:
    """Durable effect: replace a version file by one whose base paths are below `root`.

    A file that was deleted or rewritten meanwhile is ignored.
    """
    found = objects.find(version.file)
    if found is None:
        return
    ref = version.ref

    def replace(place: str) -> str:
        if is_own(place, table=f"{root}/{ref.path}"):
            return place
        return f"{root}/{_relative(place, ref, file=version.file)}"

    rewritten = rewrite_base_paths(found.content, replace, file=version.file)
    if rewritten in (None, found.content):
        return
    assert rewritten is not None, "a file that is cut off has no base path"
    if objects.put_if_match(version.file, rewritten, token=found.token) is None:
        raise UnavailableError(
            action=f"rewrite '{version.file}'",
            reason="another process changed it at the same time; try again",
        )


def rewrite_base_paths(content: bytes, replace: Callable[[str], str], *, file: str) -> bytes | None:
    """A version file with replaced base paths; None if a power loss truncated the file."""

    def rewrite_base(base: bytes) -> bytes:
        return _rewrite_fields(base, _PATH, lambda path: replace(path.decode()).encode())

    if len(content) < _FOOTER.size:
        return None
    start, major, minor, magic = _FOOTER.unpack(content[-_FOOTER.size :])
    if magic != _MAGIC:
        # The next write to the table renames such a file.
        return None
    try:
        (length,) = _LENGTH.unpack_from(content, start)
        body = start + _LENGTH.size
        if body + length + _FOOTER.size != len(content):
            raise ValueError("the description does not end at the footer")
        message = _rewrite_fields(content[body : body + length], _BASE_PATHS, rewrite_base)
    except (ValueError, struct.error, UnicodeDecodeError) as error:
        raise CorruptError(
            subject=f"'{file}'",
            problem=f"it is not a version file as Lance 14 writes it: {error}; nothing was "
            "rewritten; restore it from a copy of the graph",
        ) from error
    head = content[:start] + _LENGTH.pack(len(message))
    return head + message + _FOOTER.pack(start, major, minor, magic)


def _find_foreign(content: bytes, ref: TableRef, *, file: str, root: str) -> list[str]:
    """The base paths that do not belong to the table."""
    foreign: list[str] = []

    def look(place: str) -> str:
        if not is_own(place, table=f"{root}/{ref.path}"):
            foreign.append(place)
        return place

    rewrite_base_paths(content, look, file=file)
    return foreign


def _relative(place: str, ref: TableRef, *, file: str) -> str:
    """A base path relative to the root of the graph that wrote it."""
    before, found, branch = place.partition(f"/{ref.path}/tree/")
    if found and before and branch:
        return f"{ref.path}/tree/{branch}"
    if place.endswith(f"/{ref.path}") and place != f"/{ref.path}":
        return ref.path
    raise _unlike(file, place, f"a path of this table ends with '{ref.path}'")


def _unlike(file: str, place: str, reason: str) -> CorruptError:
    return CorruptError(
        subject=f"'{file}'",
        problem=f"it refers to files at {place}, which are not of a copy of this graph ({reason}); "
        "nothing was rewritten; restore the branch from a copy of the graph",
    )


def _rewrite_fields(message: bytes, wanted: int, rewrite: Callable[[bytes], bytes]) -> bytes:
    """A message in which the value of each field of a number is rewritten."""
    parts: list[bytes] = []
    for number, wire_type, field, value in _fields(message):
        if number == wanted and wire_type == _BYTES:
            rewritten = rewrite(value)
            key = encode_varint(number << 3 | _BYTES)
            parts.append(key + encode_varint(len(rewritten)) + rewritten)
        else:
            parts.append(field)
    return b"".join(parts)


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """The fields of a message in order: number, wire type, the whole field, its value."""
    at = 0
    while at < len(message):
        key, value_at = read_varint(message, at)
        number, wire_type = key >> 3, key & 7
        end = skip_value(message, value_at, key=key)
        if wire_type == _BYTES:
            _, value_at = read_varint(message, value_at)
        if end > len(message):
            raise ValueError(f"field {number} is cut off")
        yield number, wire_type, message[at:end], message[value_at:end]
        at = end


def skip_value(message: bytes, at: int, *, key: int) -> int:
    """The position after the protobuf value at a position, which follows the key of its field."""
    match key & 7:
        case 0:
            return read_varint(message, at)[1]
        case 1:
            return at + 8
        case 2:
            length, at = read_varint(message, at)
            return at + length
        case 5:
            return at + 4
        case wire_type:
            raise ValueError(f"field {key >> 3} has the unknown wire type {wire_type}")


def read_varint(message: bytes, at: int) -> tuple[int, int]:
    """The protobuf varint at a position, and the position after it."""
    value = shift = 0
    while at < len(message) and shift < 64:  # the bits of a varint
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:  # the mark of the last byte
            return value, at
        shift += 7
    raise ValueError("a number is cut off")


def encode_varint(value: int) -> bytes:
    """A number as a protobuf varint; negative numbers are encoded as 64 bits."""
    encoded = bytearray()
    value %= 2**64
    while value > 0x7F:  # the largest value of one byte
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
