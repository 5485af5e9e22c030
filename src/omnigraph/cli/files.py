"""Files that a command line names: read whole, `-` for standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omnigraph.compiler.text import decode_source
from omnigraph.model.errors import CompileError, NotFoundError, UnreadableError
from omnigraph.model.source import Source

STANDARD_INPUT = "-"
STANDARD_OUTPUT = "-"


def read_source(path: str) -> Source:
    """The text of a schema or query file."""
    return decode_source(read_bytes(path), name=_name_of(path))


@contextmanager
def placing(text: str, path: str | None) -> Iterator[None]:
    """A block whose diagnostics of a text say which file it was read from; None is no file."""
    try:
        yield
    except CompileError as error:
        if path is None or error.source.text != text:
            raise
        source = Source(_name_of(path), text)
        raise CompileError(diagnostics=error.diagnostics, source=source) from error


def read_bytes(path: str) -> bytes:
    """The content of a file."""
    if path == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    with reading(path):
        return Path(path).read_bytes()


@contextmanager
def reading(path: str) -> Iterator[None]:
    """A block whose failures to read a file are told as errors of ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(kind="file", name=path, advice="check the path") from error
    except OSError as error:
        raise UnreadableError(path=path, reason=error.strerror or str(error)) from error


def _name_of(path: str) -> str:
    return "<stdin>" if path == STANDARD_INPUT else path
