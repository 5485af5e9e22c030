"""Streams of NDJSON, cut into blocks of whole lines. Knows nothing of what a line says."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol, TypeGuard

from omnigraph.model.errors import InvalidValueError, LimitExceededError, UnreadableError
from omnigraph.model.limits import LOAD_BLOCK_BYTES, RECORD_BYTES_MAX


class Stream(Protocol):
    """An open file, of text or of bytes."""

    def read(self, size: int, /) -> object:
        """The next part of it, empty at its end."""


def is_stream(given: object) -> TypeGuard[Stream]:
    """Whether something can be read like a file."""
    return callable(getattr(given, "read", None))


def read_blocks(stream: Stream, *, name: str) -> Iterator[bytes]:
    """The content in blocks that end where lines end; refusals call the stream by `name`."""
    kept: list[bytes] = []
    kept_bytes = 0
    while part := _read_part(stream, name):
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


def _read_part(stream: Stream, name: str) -> bytes:
    try:
        part = stream.read(LOAD_BLOCK_BYTES)
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
