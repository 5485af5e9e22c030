"""What a load can be given: paths, open files, or rows by type; everything else is refused.

The one door of this package. Reads whole inputs into memory, in process; Spark's frames are for
Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from omnigraph.engine.ops.reading.blocks import is_stream, read_blocks
from omnigraph.engine.ops.reading.files import parse_path, read_path
from omnigraph.engine.ops.reading.frames import is_producer, read_producer
from omnigraph.engine.ops.reading.received import ReceivedRows, gather
from omnigraph.engine.ops.reading.records import read_records
from omnigraph.engine.ops.reading.rows import Rows
from omnigraph.engine.ops.reading.type_names import get_type
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.runtime import Runtime
from omnigraph.storage.external_blobs import ExternalBlobs


def receive(
    given: object, *, catalog: Catalog, runtime: Runtime, external: ExternalBlobs
) -> dict[str, ReceivedRows]:
    """The rows that were given, by table key, in the order of keys.

    Rows that cannot be converted are an `InvalidValueError` that says where they stand; rules about
    rows that can be are not looked at.
    """
    return gather(_read(given, catalog, external), runtime=runtime)


def _read(given: object, catalog: Catalog, external: ExternalBlobs) -> Iterator[Rows]:
    if isinstance(given, Mapping):
        for name, source in given.items():
            yield from _read_typed(source, get_type(name, catalog), catalog, external)
    elif isinstance(given, str | os.PathLike):
        yield from read_path(parse_path(given), declared=None, catalog=catalog, external=external)
    elif isinstance(given, list | tuple):
        for path in given:
            if not isinstance(path, str | os.PathLike):
                raise _refuse(path, "a list holds paths")
            yield from read_path(
                parse_path(path), declared=None, catalog=catalog, external=external
            )
    elif is_stream(given):
        name = getattr(given, "name", None)
        called = name if isinstance(name, str) else ""
        blocks = read_blocks(given, name=called or "the given file")
        yield from read_records(
            blocks, name=called and f"{called}: ", catalog=catalog, external=external
        )
    else:
        advice = "give a path, an open file, or a mapping from the names of types to Arrow rows"
        if isinstance(given, bytes | bytearray):
            advice = "wrap it in io.BytesIO"
        raise _refuse(given, advice)


def _read_typed(
    source: object, declared: NodeType | EdgeType, catalog: Catalog, external: ExternalBlobs
) -> Iterator[Rows]:
    if _is_spark_frame(source):
        raise _refuse(source, 'loading it needs engine="spark"')
    if is_producer(source):
        yield from read_producer(source, declared, name="", external=external)
    elif isinstance(source, str | os.PathLike):
        yield from read_path(
            parse_path(source), declared=declared, catalog=catalog, external=external
        )
    elif isinstance(source, list | tuple):
        for part in source:
            yield from _read_typed(part, declared, catalog, external)
    else:
        raise _refuse(source, f"give {declared.name} as Arrow rows or as paths of files")


def _is_spark_frame(source: object) -> bool:
    # By name, because Spark's own package takes a second to import and may not be there.
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pyspark"
        for kind in type(source).__mro__
    )


def _refuse(given: object, advice: str) -> InvalidValueError:
    problem = f"cannot load a value of type {type(given).__name__}; {advice}"
    return InvalidValueError(subject="load", expected="rows", value=given, problem=problem)
