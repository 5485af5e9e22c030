"""Where a graph lives: a folder of a local disk, a prefix of an S3 bucket, or a throw-away folder.

Promises that two spellings of one place give one location, and that Lance and we mean the same
place by it: what Lance would read otherwise than written is refused. Looks at no storage, but for
`memory://`, whose folder it makes.
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
from omnigraph.storage.object_errors import storage_errors

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEMES = "a graph is at a path, file://…, s3://bucket/prefix or memory://name"

# A name of this process, so that another one that gets its number later finds nothing of it.
_PROCESS = token_hex(8)
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Location:
    """A place for a graph.

    `uri` is what users see and `root` what Lance is given; both are canonical. On S3 `bucket` and
    `prefix` say the same in two parts, elsewhere they are None and empty.
    """

    uri: str
    root: str
    bucket: str | None
    prefix: str
    # Options hold secrets: they are no part of what is printed.
    storage_options: Mapping[str, str] = field(repr=False, hash=False)

    @property
    def is_local(self) -> bool:
        """Whether the graph is a folder that this machine reaches as files."""
        return self.bucket is None


def parse_location(uri: str, *, storage_options: Mapping[str, str]) -> Location:
    """The place that a caller means, or `InvalidNameError` with the rule it breaks."""
    if not uri.strip():
        raise _refusal(uri, f"it is empty; {_SCHEMES}")
    if _CONTROL.search(uri):
        raise _refusal(uri, "it has a control character")
    options = dict(storage_options)
    scheme, rest = _split_scheme(uri)
    match scheme:
        case "":
            root = _parse_folder(rest, uri)
            return Location(root, root, None, "", options)
        case "file":
            root = _parse_folder(_decode_file_uri(rest, uri), uri)
            return Location(root, root, None, "", options)
        case "s3":
            bucket, prefix = _parse_bucket(rest, uri)
            root = f"s3://{bucket}/{prefix}".rstrip("/")
            return Location(root, root, bucket, prefix, options)
        case "memory":
            name = _parse_name(rest, uri)
            root = str(_memory_folder(os.getpid()) / name)
            return Location(f"memory://{name}", root, None, "", options)
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


def _parse_folder(path: str, uri: str) -> str:
    if "?" in path:
        # Lance cuts a path there and would put branches into another folder.
        raise _refusal(uri, "a folder with a `?` in its path cannot hold a graph")
    if not _is_unicode(path):
        raise _refusal(uri, "a folder whose path is no Unicode text cannot hold a graph")
    with storage_errors("find the current folder"):
        # Lexical on purpose: a graph keeps its name when a link on the way to it changes.
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
        # Lance decodes what is behind a `%` and ends the key at the other two.
        raise _refusal(uri, "a prefix has no `?`, `#` or `%`")
    if prefix:
        _require_segments(prefix, uri)
    return bucket, prefix


def _parse_name(rest: str, uri: str) -> str:
    name = rest.rstrip("/")
    if "?" in name:
        raise _refusal(uri, "a name has no `?`")
    _require_segments(name, uri)
    return name


def _require_segments(path: str, uri: str) -> None:
    if not _is_unicode(path) or any(part in ("", ".", "..") for part in path.split("/")):
        raise _refusal(uri, "it is made of parts joined by single `/`, none of them `.` or `..`")


def _is_unicode(text: str) -> bool:
    # Bytes of a path that are no UTF-8 arrive as lone surrogates, which Lance cannot take.
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _refusal(uri: str, rule: str) -> InvalidNameError:
    return InvalidNameError(kind="graph uri", name=uri, rule=rule)


@cache
def _memory_folder(process_id: int) -> Path:
    # The path follows from the process alone, so that two threads that come first agree on it.
    # A fork has another id: it makes, and removes, a folder of its own.
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
    # Containers often have one of a few megabytes, which the first load would fill.
    is_roomy = disk.f_blocks * disk.f_frsize >= MEMORY_DISK_BYTES_MIN
    is_writable = os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    return _SHARED_MEMORY if is_roomy and is_writable else Path(tempfile.gettempdir())


def _remove_memory_folder(folder: Path, process_id: int) -> None:
    # A fork inherits what runs at exit, and must leave its parent's graphs alone.
    if os.getpid() == process_id:
        shutil.rmtree(folder, ignore_errors=True)
