"""Streams of NDJSON, cut into blocks of whole lines, and the lines of a part of a file.

Parts that follow each other have every line once: a line belongs to the part that it begins in.
Knows nothing of what a line says.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol, TypeGuard

from omnigraph.model.errors import InvalidValueError, LimitExceededError, UnreadableError
from omnigraph.model.limits import LINE_END_BYTES, LOAD_BLOCK_BYTES, RECORD_BYTES_MAX


class Stream(Protocol):
    """An open file, of text or of bytes."""

    def read(self, size: int, /) -> object:
        """The next part of it, empty at its end."""


class SeekableStream(Stream, Protocol):
    """One that can be read from any place on."""

    def seek(self, offset: int, /) -> object:
        """Go on reading at an offset."""


def is_stream(given: object) -> TypeGuard[Stream]:
    """Whether something can be read like a file."""
    return callable(getattr(given, "read", None))


def read_blocks(stream: Stream, *, name: str) -> Iterator[bytes]:
    """The content in blocks that end where lines end; refusals call the stream by `name`."""
    kept: list[bytes] = []
    kept_bytes = 0
    while part := _read_part(stream, LOAD_BLOCK_BYTES, name):
        cut = part.rfind(b"\n") + 1
        if cut:
            yield b"".join([*kept, part[:cut]])
            kept, kept_bytes = [], 0
        kept.append(part[cut:])
        kept_bytes += len(part) - cut
        if kept_bytes > RECORD_BYTES_MAX:
            resource = f"the size of a line of {name} in bytes"
            raise LimitExceededError(resource=resource, limit=RECORD_BYTES_MAX, found=kept_bytes)
    yield b"".join(kept)


class LineRange:
    """The lines of a file that begin at one of the bytes from `start` up to `end`."""

    def __init__(self, file: SeekableStream, *, start: int, end: int, name: str) -> None:
        self._file, self._name = file, name
        self._left = end - start
        self._is_in_line = False
        self._kept = b""
        if start:
            # From the byte before, so that a line that begins at `start` is found to begin there.
            file.seek(start - 1)
            self._left += 1
            self._skip_line()

    def read(self, size: int, /) -> bytes:
        """The next part of it, empty at its end."""
        if self._kept:
            part, self._kept = self._kept, b""
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
        while self._left > 0 and not self._kept:
            part = self._take(min(LINE_END_BYTES, self._left))
            cut = part.find(b"\n") + 1
            if cut:
                self._kept = part[cut:]
                self._is_in_line = not part.endswith(b"\n")
                return

    def _finish_line(self, size: int) -> bytes:
        """The rest of the last line, which may lie outside."""
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
    except (ValueError, EOFError, zlib.error) as error:  # closed, cut short, badly compressed
        raise UnreadableError(path=name, reason=str(error)) from error
    if isinstance(part, str):
        # Halves of surrogate pairs pass here: as bytes they are no UTF-8, and their line is named.
        return part.encode(errors="surrogatepass")
    if isinstance(part, bytes):
        return part
    problem = f"reading gives a {type(part).__name__}, neither text nor bytes"
    raise InvalidValueError(subject=name, expected="NDJSON", value=None, problem=problem)
