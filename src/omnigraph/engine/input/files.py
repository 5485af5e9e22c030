"""Input files: path patterns, compression, and byte streams cut into blocks of whole lines.

Files of a folder come in the order of their names; names that begin with a dot or an underscore
are skipped. A path that exists is never interpreted as a pattern. A line belongs to the range in
which it begins, so adjacent ranges yield every line once. The module does not parse lines.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol, TypeGuard
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from omnigraph.model.errors import (
    InvalidValueError,
    LimitExceededError,
    NotFoundError,
    UnreadableError,
)
from omnigraph.model.limits import (
    LINE_END_BYTES,
    LOAD_BLOCK_BYTES,
    RECORD_BYTES_MAX,
    REMOTE_BUFFER_BYTES,
)
from omnigraph.storage.environment import expand_home
from omnigraph.storage.external_files import Entry, EntryKind, ExternalFiles, is_remote

_NAME_CHARACTERS_SHOWN = 200
_ANY_FOLDERS = "**"


def parse_path(given: str | os.PathLike[str]) -> str:
    """The local path or S3 URI that a path or URI names; raises `InvalidValueError` for others."""
    text = os.fsdecode(given)
    if "://" not in text or _is_content(text):
        return str(expand_home(text))
    scheme, _, rest = text.partition("://")
    if scheme.lower() == "s3":
        if not rest.partition("/")[0]:
            raise refuse_path(text, "it needs a bucket: s3://bucket/key")
        return f"s3://{rest}"
    uri = urlsplit(text)
    if uri.scheme != "file" or uri.netloc not in ("", "localhost"):
        raise refuse_path(text, "only files on local disks and in S3 can be read")
    return str(Path(unquote(uri.path)))


def find_files(path: str, files: ExternalFiles) -> Iterator[Entry]:
    """The files that a path or pattern matches, in order, and the folders that are Lance tables.

    Raises `NotFoundError` if nothing matches.
    """
    found = files.find(path)
    if found is not None:
        yield from _open_folders(found, files)
        return
    # A pattern may match a folder and also its contents, so matches are deduplicated.
    matches = {
        each.path: each for match in _expand(path, files) for each in _open_folders(match, files)
    }
    if not matches:
        is_content = _is_content(path)
        advice = "to load a text, wrap it in io.StringIO" if is_content else "check the path"
        raise NotFoundError(kind="file", name=path[:_NAME_CHARACTERS_SHOWN], advice=advice)
    for name in sorted(matches, key=lambda each: each.split("/")):
        yield matches[name]


def refuse_path(path: str, problem: str) -> InvalidValueError:
    """The error for a path that cannot be loaded, regardless of the content."""
    return InvalidValueError(subject=path, expected="rows", value=path, problem=problem)


def _open_folders(entry: Entry, files: ExternalFiles) -> Iterator[Entry]:
    if not entry.is_folder:
        yield entry
        return
    parts = files.entries(entry.path)
    if entry.name.endswith(".lance") or any(part.name == "_versions" for part in parts):
        yield entry
        return
    visible = [part for part in parts if not _is_hidden(part.name)]
    if not visible:
        raise refuse_path(entry.path, "the directory holds nothing to load")
    for part in visible:
        _require_no_link(part)
        yield from _open_folders(part, files)


def _expand(pattern: str, files: ExternalFiles) -> Iterator[Entry]:
    """The entries that a pattern matches, possibly with repetitions."""
    if _is_content(pattern) or not _has_wildcard(pattern):
        return iter(())
    if is_remote(pattern):
        bucket, _, key = pattern.removeprefix("s3://").partition("/")
        return _match(f"s3://{bucket}", key.strip("/").split("/"), files)
    path = Path(pattern)
    return _match(path.anchor or ".", path.relative_to(path.anchor).parts, files)


def _match(folder: str, parts: Sequence[str], files: ExternalFiles) -> Iterator[Entry]:
    if not parts:
        found = files.find(folder)
        if found is not None:
            yield found
    elif parts[0] == _ANY_FOLDERS:
        yield from _match(folder, parts[1:], files)
        for entry in _list_visible(folder, parts[0], files):
            if entry.is_folder:
                _require_no_link(entry)
                yield from _match(entry.path, parts, files)
    elif not _has_wildcard(parts[0]):
        path = f"{folder}/{parts[0]}" if is_remote(folder) else str(Path(folder, parts[0]))
        yield from _match(path, parts[1:], files)
    else:
        for entry in _list_visible(folder, parts[0], files):
            if fnmatchcase(entry.name, parts[0]):
                yield from _match_below(entry, parts[1:], files)


def _match_below(entry: Entry, parts: Sequence[str], files: ExternalFiles) -> Iterator[Entry]:
    if not parts:
        yield entry
    elif entry.is_folder:
        _require_no_link(entry)
        yield from _match(entry.path, parts, files)


def _list_visible(path: str, part: str, files: ExternalFiles) -> Iterator[Entry]:
    """The entries of a folder that are visible to a part of a pattern; none if not a folder.

    A hidden entry is visible if the part starts with the same character.
    """
    found = files.find(path)
    if found is not None and found.is_folder:
        for entry in files.entries(path):
            if not _is_hidden(entry.name) or part.startswith(entry.name[0]):
                yield entry


def _has_wildcard(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _is_content(text: str) -> bool:
    """Whether a text is probably the content of a file and not a path."""
    return "\n" in text or text.lstrip().startswith("{")


def _require_no_link(entry: Entry) -> None:
    if entry.kind is EntryKind.LINKED_FOLDER:
        # The link could form a cycle.
        problem = "a link to a directory is not followed; name the directory itself"
        raise refuse_path(entry.path, problem)


class Stream(Protocol):
    """An open file, of text or of bytes."""

    def read(self, size: int, /) -> object:
        """Read the next part of the file; it is empty at the end."""


class SeekableStream(Stream, Protocol):
    """A stream with random access."""

    def seek(self, offset: int, /) -> object:
        """Move the read position to an offset."""


def is_stream(given: object) -> TypeGuard[Stream]:
    """Whether a value has a `read` method."""
    return callable(getattr(given, "read", None))


def read_blocks(stream: Stream, *, name: str) -> Iterator[bytes]:
    """The content in blocks that end at line ends; errors call the stream `name`.

    Raises `LimitExceededError` if a line exceeds `RECORD_BYTES_MAX`.
    """
    held: list[bytes] = []
    held_bytes = 0
    while part := _read_part(stream, LOAD_BLOCK_BYTES, name):
        cut = part.rfind(b"\n") + 1
        if cut:
            yield b"".join([*held, part[:cut]])
            held, held_bytes = [], 0
        held.append(part[cut:])
        held_bytes += len(part) - cut
        if held_bytes > RECORD_BYTES_MAX:
            resource = f"the size of a line of {name} in bytes"
            raise LimitExceededError(resource=resource, limit=RECORD_BYTES_MAX, found=held_bytes)
    yield b"".join(held)


class LineRange:
    """A stream of the lines that begin at a byte from `start` up to `end` of a file."""

    def __init__(self, file: SeekableStream, *, start: int, end: int, name: str) -> None:
        self._file, self._name = file, name
        self._left = end - start
        self._is_in_line = False
        self._held = b""
        if start:
            # Starts at the previous byte, to detect that a line begins exactly at `start`.
            file.seek(start - 1)
            self._left += 1
            self._skip_line()

    def read(self, size: int, /) -> bytes:
        """Read the next part of the range; it is empty at the end."""
        if self._held:
            part, self._held = self._held, b""
            return part
        if self._left > 0:
            part = self._take(min(size, self._left))
            self._is_in_line = not part.endswith(b"\n") and bool(part)
            return part
        return self._finish_line(size) if self._is_in_line else b""

    def _take(self, size: int) -> bytes:
        part = _read_part(self._file, size, self._name)
        self._left = self._left - len(part) if part else 0
        return part

    def _skip_line(self) -> None:
        while self._left > 0 and not self._held:
            part = self._take(min(LINE_END_BYTES, self._left))
            cut = part.find(b"\n") + 1
            if cut:
                self._held = part[cut:]
                self._is_in_line = not part.endswith(b"\n")
                return

    def _finish_line(self, size: int) -> bytes:
        """The rest of the last line, which may extend beyond the range."""
        part = _read_part(self._file, min(size, LINE_END_BYTES), self._name)
        cut = part.find(b"\n") + 1
        self._is_in_line = bool(part) and not cut
        return part[:cut] if cut else part


def _read_part(stream: Stream, size: int, name: str) -> bytes:
    try:
        part = stream.read(size)
    except UnicodeDecodeError as error:
        raise InvalidValueError(
            subject=name, expected="text", value=None, problem=f"it cannot be decoded: {error}"
        ) from error
    except OSError as error:
        raise UnreadableError(path=name, reason=error.strerror or str(error)) from error
    except (ValueError, EOFError, zlib.error) as error:  # closed, truncated or corrupt
        raise UnreadableError(path=name, reason=str(error)) from error
    if isinstance(part, str):
        # Lone surrogates pass here: as bytes they are invalid UTF-8, and that error names the line.
        return part.encode(errors="surrogatepass")
    if isinstance(part, bytes):
        return part
    problem = f"reading gives a {type(part).__name__}, neither text nor bytes"
    raise InvalidValueError(subject=name, expected="NDJSON", value=None, problem=problem)


class Packing(StrEnum):
    """The compression of a file, by the name that Arrow uses."""

    GZIP = "gzip"
    ZSTD = "zstd"


_PACKING_BY_SUFFIX = {".gz": Packing.GZIP, ".zst": Packing.ZSTD, ".zstd": Packing.ZSTD}
_PACKING_BY_START = {b"\x1f\x8b": Packing.GZIP, b"\x28\xb5\x2f\xfd": Packing.ZSTD}


def split_suffix(path: str) -> tuple[str, Packing | None]:
    """A path without its compression suffix, and the compression that the suffix indicates."""
    for suffix, packing in _PACKING_BY_SUFFIX.items():
        if path.lower().endswith(suffix):
            return path[: -len(suffix)], packing
    return path, None


def is_packed(path: str, files: ExternalFiles) -> bool:
    """Whether a file is compressed; reads its first bytes unless the name indicates it."""
    if split_suffix(path)[1] is not None:
        return True
    with _open_buffered(path, files) as file:
        return _packing_of(path, file) is not None


@contextmanager
def open_unpacked(path: str, files: ExternalFiles) -> Iterator[SeekableStream]:
    """The decompressed content of a file; only an uncompressed file can seek."""
    with _open_buffered(path, files) as file:
        packing = _packing_of(path, file)
        if packing is None:
            yield file
        else:
            with pa.CompressedInputStream(pa.PythonFile(file, "r"), packing.value) as unpacked:
                yield unpacked


def _packing_of(path: str, file: io.BufferedReader) -> Packing | None:
    named = split_suffix(path)[1]
    if named is not None:
        return named
    start = file.peek(4)
    return next((each for mark, each in _PACKING_BY_START.items() if start.startswith(mark)), None)


def _open_buffered(path: str, files: ExternalFiles) -> io.BufferedReader:
    size = REMOTE_BUFFER_BYTES if is_remote(path) else io.DEFAULT_BUFFER_SIZE
    return io.BufferedReader(files.open(path), size)
