"""The rows of a split: whatever the format, pieces of rows with the way back to their places."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.engine.ops.reading.blocks import LineRange, Stream, read_blocks
from omnigraph.engine.ops.reading.columnar import read_arrow, read_parquet
from omnigraph.engine.ops.reading.csv_files import PLAIN_CSV, parse_texts, read_csv
from omnigraph.engine.ops.reading.frames import ColumnSource, keep_column, read_batches
from omnigraph.engine.ops.reading.packing import open_unpacked
from omnigraph.engine.ops.reading.pieces import Declared, Means, Piece, Report, Tally
from omnigraph.engine.ops.reading.records import read_records
from omnigraph.engine.ops.reading.splits import InputFormat, Split
from omnigraph.engine.ops.reading.type_names import get_type
from omnigraph.storage.lance_outside import read_lance


def read_split(
    split: Split, *, means: Means, tally: Tally, report: Report | None
) -> Iterator[Piece]:
    """The rows of a split, counted in the `tally` on top of what came before in its file.

    A row that cannot be converted is an `InvalidValueError` that says where it stands; with a
    `report` it is reported and left out. A file that cannot be read is an error in any case.
    """
    if split.format is InputFormat.NDJSON:
        yield from _read_lines(split, means, tally, report)
        return
    assert split.declared is not None, "only records of NDJSON name their types"
    declared = get_type(split.declared, means.catalog)
    convert = parse_texts if split.format is InputFormat.CSV else keep_column
    yield from read_batches(
        _read_batches(split, declared, means, tally, report),
        ColumnSource(declared, split.path, convert),
        means=means,
        tally=tally,
        report=report,
    )


def _read_lines(split: Split, means: Means, tally: Tally, report: Report | None) -> Iterator[Piece]:
    with open_unpacked(split.path, means.files) as file:
        stream: Stream = file
        if split.end is not None:
            stream = LineRange(file, start=split.start, end=split.end, name=split.path)
        yield from read_records(
            read_blocks(stream, name=split.path),
            file=split.path,
            is_start=not split.start,
            means=means,
            tally=tally,
            report=report,
        )


def _read_batches(
    split: Split, declared: Declared, means: Means, tally: Tally, report: Report | None
) -> Iterator[pa.RecordBatch]:
    files, start, end = means.files, split.start, split.end
    match split.format:
        case InputFormat.PARQUET:
            return read_parquet(split.path, files, start=start, end=end)
        case InputFormat.ARROW:
            return read_arrow(split.path, files, start=start, end=end)
        case InputFormat.CSV:
            return read_csv(split.path, files, declared, split.csv or PLAIN_CSV, tally, report)
        case InputFormat.LANCE:
            options = files.storage_options
            return read_lance(
                files.resolve(split.path), options, version=split.version, start=start, end=end
            )
        case InputFormat.NDJSON:
            raise AssertionError("its lines are read")
