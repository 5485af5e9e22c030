"""Files as they are or compressed: told by their suffix, else by how they begin, and unpacked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import pyarrow as pa

from omnigraph.engine.ops.reading.blocks import SeekableStream
from omnigraph.model.limits import REMOTE_BUFFER_BYTES
from omnigraph.storage.outside_files import OutsideFiles, is_remote


class Packing(StrEnum):
    """How a file is compressed, as Arrow calls it."""

    GZIP = "gzip"
    ZSTD = "zstd"


_PACKING_BY_SUFFIX = {".gz": Packing.GZIP, ".zst": Packing.ZSTD, ".zstd": Packing.ZSTD}
_PACKING_BY_START = {b"\x1f\x8b": Packing.GZIP, b"\x28\xb5\x2f\xfd": Packing.ZSTD}


def split_suffix(path: str) -> tuple[str, Packing | None]:
    """A path without the suffix that tells of compression, and what that suffix tells."""
    for suffix, packing in _PACKING_BY_SUFFIX.items():
        if path.lower().endswith(suffix):
            return path[: -len(suffix)], packing
    return path, None


def is_packed(path: str, files: OutsideFiles) -> bool:
    """Whether a file is compressed; looks into it unless its name says so."""
    if split_suffix(path)[1] is not None:
        return True
    with _open_buffered(path, files) as file:
        return _packing_of(path, file) is not None


@contextmanager
def open_unpacked(path: str, files: OutsideFiles) -> Iterator[SeekableStream]:
    """A file, to be read as what it was before it was compressed; only a plain one can seek."""
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


def _open_buffered(path: str, files: OutsideFiles) -> io.BufferedReader:
    size = REMOTE_BUFFER_BYTES if is_remote(path) else io.DEFAULT_BUFFER_SIZE
    return io.BufferedReader(files.open(path), size)
