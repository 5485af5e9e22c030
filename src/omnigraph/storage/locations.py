"""Graph locations: a local folder, a prefix of an S3 bucket, or a temporary folder.

Two spellings of one location give one `Location`, and Lance interprets it the same way: a spelling
that Lance would read differently is rejected. No storage is accessed, except that `memory://`
creates its folder.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from secrets import token_hex
from urllib.parse import unquote

from omnigraph.model.errors import InvalidNameError
from omnigraph.model.limits import MEMORY_DISK_BYTES_MIN
from omnigraph.storage.errors import storage_errors

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEMES = "a graph is at a path, file://…, s3://bucket/prefix or memory://name"

# A random name, so that a later process with the same number does not find its files.
_PROCESS = token_hex(8)
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a graph.

    `uri` is shown to users and `root` is passed to Lance; both are canonical. On S3, `bucket` and
    `prefix` are its two parts; elsewhere they are None and empty.
    """

    uri: str
    root: str
    bucket: str | None
    prefix: str
    # Options hold secrets, so they are excluded from `repr`.
    storage_options: Mapping[str, str] = field(repr=False, hash=False)

    @property
    def is_local(self) -> bool:
        """Whether the graph is a folder that this machine accesses as files."""
        return self.bucket is None


def parse_location(uri: str, *, storage_options: Mapping[str, str]) -> Location:
    """The location of a URI; raises `InvalidNameError` with the rule that it violates."""
    if not uri.strip():
        raise _refusal(uri, f"it is empty; {_SCHEMES}")
    if _CONTROL.search(uri):
        raise _refusal(uri, "it has a control character")
    options = dict(storage_options)
    scheme, rest = _split_scheme(uri)
    match scheme:
        case "":
            root = _parse_folder(_expand_home(rest, uri), uri)
            return Location(root, root, None, "", options)
        case "file":
            root = _parse_folder(_decode_file_uri(rest, uri), uri)
            return Location(root, root, None, "", options)
        case "s3":
            bucket, prefix = _parse_bucket(rest, uri)
            root = f"s3://{bucket}/{prefix}".rstrip("/")
            return Location(root, root, bucket, prefix, options)
        case "memory":
            name = rest.rstrip("/")
            if "?" in name:
                raise _refusal(uri, "a name has no `?`")
            _require_segments(name, uri)
            root = str(_memory_folder(os.getpid()) / name)
            return Location(f"memory://{name}", root, None, "", options)
        case "http" | "https":
            raise _refusal(
                uri,
                f"it is the url of a server; to reach its graph, call omnigraph.connect({uri!r})",
            )
        case _:
            raise _refusal(uri, f"{scheme}:// is unknown; {_SCHEMES}")


def _split_scheme(uri: str) -> tuple[str, str]:
    found = _SCHEME.match(uri)
    if not found:
        return "", uri
    scheme, rest = found[1].lower(), uri[found.end() :]
    if not rest.startswith("/"):
        raise _refusal(uri, f"after `{scheme}:` come two slashes; {_SCHEMES}")
    return scheme, rest[1:]


def _decode_file_uri(rest: str, uri: str) -> str:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise _refusal(uri, "a file uri names an absolute path: file:///folder")
    if "#" in path or "?" in path:
        raise _refusal(uri, "in a file uri a `#` is written %23, and a `?` is not allowed")
    decoded = unquote("/" + path, errors="surrogateescape")
    if _CONTROL.search(decoded):
        raise _refusal(uri, "it has a control character")
    return decoded


def _expand_home(path: str, uri: str) -> str:
    if not path.startswith("~"):
        return path
    try:
        return str(Path(path).expanduser())
    except RuntimeError as error:
        raise _refusal(
            uri, "its user has no home folder here; for a folder of this name, say ./~…"
        ) from error


def _parse_folder(path: str, uri: str) -> str:
    if "?" in path:
        # Lance truncates a path there and would create branches in another folder.
        raise _refusal(uri, "a folder with a `?` in its path cannot hold a graph")
    if not _is_unicode(path):
        raise _refusal(uri, "a folder whose path is no Unicode text cannot hold a graph")
    with storage_errors("find the current folder"):
        # Lexical on purpose: the name of a graph does not change when a link in its path changes.
        root = "/" + os.path.normpath(Path.cwd() / path).lstrip("/")
    if root == "/":
        raise _refusal(uri, "the root of the file system cannot hold a graph; name a folder")
    return root


def _parse_bucket(rest: str, uri: str) -> tuple[str, str]:
    bucket, _, prefix = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise _refusal(uri, "it needs a bucket: s3://bucket/prefix")
    prefix = prefix.rstrip("/")
    if any(mark in prefix for mark in "?#%"):
        # Lance decodes `%` sequences and ends the key at the other two characters.
        raise _refusal(uri, "a prefix has no `?`, `#` or `%`")
    if prefix:
        _require_segments(prefix, uri)
    return bucket, prefix


def _require_segments(path: str, uri: str) -> None:
    if not _is_unicode(path) or any(part in ("", ".", "..") for part in path.split("/")):
        raise _refusal(uri, "it is made of parts joined by single `/`, none of them `.` or `..`")


def _is_unicode(text: str) -> bool:
    # Bytes of a path that are not UTF-8 arrive as lone surrogates, which Lance does not accept.
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _refusal(uri: str, rule: str) -> InvalidNameError:
    return InvalidNameError(kind="graph uri", name=uri, rule=rule)


@cache
def _memory_folder(process_id: int) -> Path:
    # The path depends only on the process, so that two threads that call this first agree on it. A
    # forked process has another id and creates, and removes, a separate folder.
    folder = _memory_disk() / f"omnigraph-{process_id}-{_PROCESS}"
    with storage_errors(f"make the folder of memory graphs, {folder}"):
        folder.mkdir(mode=0o700, exist_ok=True)
    atexit.register(_remove_memory_folder, folder, process_id)
    return folder


def _memory_disk() -> Path:
    try:
        disk = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return Path(tempfile.gettempdir())
    # The /dev/shm of a container is often a few megabytes, which the first load would fill.
    is_roomy = disk.f_blocks * disk.f_frsize >= MEMORY_DISK_BYTES_MIN
    is_writable = os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    return _SHARED_MEMORY if is_roomy and is_writable else Path(tempfile.gettempdir())


def _remove_memory_folder(folder: Path, process_id: int) -> None:
    # A forked process inherits exit handlers and must not remove its parent's graphs.
    if os.getpid() == process_id:
        shutil.rmtree(folder, ignore_errors=True)
