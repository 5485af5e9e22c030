"""Files that a command line names: read whole, `-` for standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from omnigraph.compiler.text import decode_source
from omnigraph.model.errors import NotFoundError, UnreadableError
from omnigraph.model.source import Source

STANDARD_INPUT = "-"


def read_source(path: str) -> Source:
    """The text of a schema or query file."""
    if path == STANDARD_INPUT:
        return decode_source(sys.stdin.buffer.read(), name="<stdin>")
    try:
        return decode_source(Path(path).read_bytes(), name=path)
    except FileNotFoundError as error:
        raise NotFoundError(kind="file", name=path, advice="check the path") from error
    except OSError as error:
        raise UnreadableError(path=path, reason=error.strerror or str(error)) from error
