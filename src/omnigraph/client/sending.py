"""The input of a load as the lines that a server takes.

Lines of JSON are sent as they are. Everything else is read here, by the schema of the graph, and
written as lines, so that a load takes what it takes where the graph is stored. Nothing is held that
a server would refuse for its length.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from omnigraph.client.limits import LOAD_BYTES_MAX
from omnigraph.engine.ops.reading.blocks import is_stream, read_blocks
from omnigraph.engine.ops.reading.packing import open_unpacked, split_suffix
from omnigraph.engine.ops.reading.paths import find_files, parse_path
from omnigraph.engine.ops.reading.pieces import Means
from omnigraph.engine.ops.reading.sources import is_spark_frame, read_given
from omnigraph.engine.ops.reading.splits import is_named, refuse_given
from omnigraph.engine.read.json_lines import encode_block
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import LimitExceededError
from omnigraph.storage.external_blobs import NO_EXTERNAL_BLOBS
from omnigraph.storage.outside_files import OutsideFiles

_TYPED_SUFFIXES = frozenset({".parquet", ".arrow", ".csv", ".lance"})
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Lines:
    """Rows as lines of JSON, and the name that messages call them by; empty if they have none."""

    content: bytes = field(repr=False)
    name: str


def encode_given(given: object, *, find_catalog: Callable[[], Catalog]) -> Lines:
    """What a load was given, as one body; the catalog is asked for only if it is needed."""
    files = OutsideFiles({}, folder="")
    if is_stream(given):
        called = getattr(given, "name", None)
        name = called if isinstance(called, str) else ""
        return Lines(_gather(read_blocks(given, name=name or "the given file")), name)
    _require_no_frame(given)
    if is_named(given):
        paths = _find_lines(given, files)
        if paths is not None:
            content = _gather(block for path in paths for block in _read_lines(path, files))
            return Lines(content, paths[0] if len(paths) == 1 else "")
    means = Means(find_catalog(), NO_EXTERNAL_BLOBS, files)
    return Lines(_gather(_write_lines(given, means)), "")


def _gather(blocks: Iterable[bytes]) -> bytes:
    held: list[bytes] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size > LOAD_BYTES_MAX:
            raise LimitExceededError(
                resource="the length of the rows in bytes, as a server takes them,",
                limit=LOAD_BYTES_MAX,
                found=size,
                advice="nothing was sent; load them in parts, or open the graph by its uri and "
                "load there",
            )
    return b"".join(held)


def _find_lines(given: object, files: OutsideFiles) -> list[str] | None:
    """The files that are meant, if all of them hold lines of JSON."""
    if isinstance(given, list | tuple):
        found: list[str] = []
        for each in given:
            paths = _find_lines(each, files)
            if paths is None:
                return None
            found += paths
        return found
    if not isinstance(given, str | os.PathLike):
        return None
    entries = list(find_files(parse_path(given), files))
    if any(entry.is_folder or _is_typed(entry.path) for entry in entries):
        return None
    return [entry.path for entry in entries]


def _is_typed(path: str) -> bool:
    return PurePath(split_suffix(path)[0]).suffix.lower() in _TYPED_SUFFIXES


def _read_lines(path: str, files: OutsideFiles) -> Iterator[bytes]:
    with open_unpacked(path, files) as file:
        is_start = True
        for block in read_blocks(file, name=path):
            part = block.removeprefix(_MARK) if is_start else block
            is_start = False
            # Another file may follow.
            yield part if part.endswith(b"\n") or not part else part + b"\n"


def _write_lines(given: object, means: Means) -> Iterator[bytes]:
    for piece in read_given(given, means=means, report=None):
        for batch in piece.rows.to_batches():
            block = bytes(encode_block(piece.declared, batch))
            # An id that is to be made is none to give: these quotes stand in no text.
            yield block.replace(b'"data":{"id":null,', b'"data":{').replace(
                b'"data":{"id":null}', b'"data":{}'
            )


def _require_no_frame(given: object) -> None:
    sources = given.values() if isinstance(given, Mapping) else [given]
    for source in sources:
        parts = source if isinstance(source, list | tuple) else [source]
        if any(map(is_spark_frame, parts)):
            raise refuse_given(
                source, "open the graph by its uri to load a Spark frame, or give Arrow rows"
            )
