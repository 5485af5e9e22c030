"""What a load can be given: paths, open files, or rows by type; everything else is refused.

The one door of this package. Reads whole inputs into memory, in process; Spark's frames are for
Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omnigraph.engine.ops.reading.blocks import is_stream, read_blocks
from omnigraph.engine.ops.reading.frames import is_producer, read_producer
from omnigraph.engine.ops.reading.pieces import (
    NOTHING_YET,
    Declared,
    Means,
    Piece,
    Report,
    Tally,
)
from omnigraph.engine.ops.reading.received import ReceivedRows, gather
from omnigraph.engine.ops.reading.records import read_records
from omnigraph.engine.ops.reading.split_rows import read_split
from omnigraph.engine.ops.reading.splits import is_named, plan_splits, refuse_given
from omnigraph.engine.ops.reading.type_names import get_type
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.runtime import Runtime


def receive(given: object, *, means: Means, runtime: Runtime) -> dict[str, ReceivedRows]:
    """The rows that were given, by table key, in the order of keys.

    Rows that cannot be converted are an `InvalidValueError` that says where they stand; rules about
    rows that can be are not looked at.
    """
    return gather(read_given(given, means=means, report=None), runtime=runtime)


def read_given(given: object, *, means: Means, report: Report | None) -> Iterator[Piece]:
    """The same as it is read; with a `report` what cannot be converted is reported and left out."""
    if isinstance(given, Mapping):
        for name, source in given.items():
            yield from _read_typed(source, get_type(name, means.catalog), means, report)
    elif is_named(given) or isinstance(given, list | tuple):
        yield from _read_named(given, means, report)
    elif is_stream(given):
        name = getattr(given, "name", None)
        called = name if isinstance(name, str) else ""
        yield from read_records(
            read_blocks(given, name=called or "the given file"),
            file=called,
            is_start=True,
            means=means,
            tally=Tally(NOTHING_YET),
            report=report,
        )
    else:
        advice = "give a path, an open file, or a mapping from the names of types to Arrow rows"
        if isinstance(given, bytes | bytearray):
            advice = "wrap it in io.BytesIO"
        raise refuse_given(given, advice)


def is_spark_frame(source: object) -> bool:
    """Whether something is a frame of Spark."""
    # By name, because Spark's own package takes a second to import and may not be there.
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pyspark"
        for kind in type(source).__mro__
    )


def _read_named(given: object, means: Means, report: Report | None) -> Iterator[Piece]:
    for split in plan_splits(given, means=means, split_bytes=None):
        yield from read_split(split, means=means, tally=Tally(NOTHING_YET), report=report)


def _read_typed(
    source: object, declared: Declared, means: Means, report: Report | None
) -> Iterator[Piece]:
    if is_spark_frame(source):
        raise refuse_given(source, 'loading it needs engine="spark"')
    if is_producer(source):
        yield from read_producer(source, declared, means=means, report=report)
    elif is_named(source):
        yield from _read_named({table_key_of(declared): source}, means, report)
    elif isinstance(source, list | tuple):
        for part in source:
            yield from _read_typed(part, declared, means, report)
    else:
        raise refuse_given(source, f"give {declared.name} as Arrow rows or as paths of files")
