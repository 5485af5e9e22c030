"""Input splits: parts of files that can be read independently, in the order of the input.

A split is a byte range of NDJSON, row groups of Parquet, batches of Arrow, fragments of Lance, or a
whole file, and small enough to be sent to workers. Planning opens a file only if it may have to be
divided.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from omnigraph.engine.input.arrow import measure_arrow, measure_parquet
from omnigraph.engine.input.batches import Declared, ReadContext
from omnigraph.engine.input.csv_files import PLAIN_CSV, CsvFile, CsvOptions, parse_options
from omnigraph.engine.input.files import (
    find_files,
    is_packed,
    parse_path,
    refuse_path,
    split_suffix,
)
from omnigraph.engine.state.manifest import find_type, get_type, table_key_of
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import InvalidValueError
from omnigraph.storage.external_files import Entry
from omnigraph.storage.tables import measure_lance


class InputFormat(StrEnum):
    """The format of an input file."""

    NDJSON = "ndjson"
    PARQUET = "parquet"
    ARROW = "arrow"
    CSV = "csv"
    LANCE = "lance_table"


_FORMAT_BY_SUFFIX = {
    ".parquet": InputFormat.PARQUET,
    ".arrow": InputFormat.ARROW,
    ".csv": InputFormat.CSV,
    ".lance": InputFormat.LANCE,
}
_PACKED_FORMATS = (InputFormat.NDJSON, InputFormat.CSV)


Named = str | os.PathLike[str] | CsvFile
"""A reference to input files."""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file: its bytes, row groups, batches or fragments from `start` up to `end`.

    `end` is None for the whole file. `declared` is the table key of the rows, or None if records
    name their types. `size` is the approximate number of bytes to read, and `version` the version
    of a Lance table.
    """

    path: str
    format: InputFormat
    declared: str | None
    start: int
    end: int | None
    size: int
    csv: CsvOptions | None
    version: int | None


def plan_splits(
    given: object, *, context: ReadContext, split_bytes: int | None
) -> tuple[Split, ...]:
    """The splits of input given by path, each of about `split_bytes`, or whole files if None.

    The input is a path or a `CsvFile`, a list of these, or a mapping from types to any of these.
    Other input raises `InvalidValueError`.
    """
    typed: list[tuple[Declared | None, object]] = [(None, given)]
    if isinstance(given, Mapping):
        typed = [(get_type(name, context.catalog), source) for name, source in given.items()]
    return tuple(
        split
        for declared, source in typed
        # The whole list is checked first, so an invalid element is reported before a missing path.
        for named in list(_list_named(source, declared))
        for split in _plan(named, declared, context, split_bytes)
    )


def is_named(given: object) -> bool:
    """Whether a value is a path, a `CsvFile`, or a list of these."""
    if isinstance(given, list | tuple):
        return all(map(is_named, given))
    return isinstance(given, str | os.PathLike | CsvFile)


def _list_named(given: object, declared: Declared | None) -> Iterator[Named]:
    if isinstance(given, list | tuple):
        for each in given:
            yield from _list_named(each, declared)
    elif isinstance(given, str | os.PathLike | CsvFile):
        yield given
    else:
        advice = (
            f"give {declared.name} as paths of files" if declared else "a list holds paths or dicts"
        )
        raise refuse_given(given, advice)


def _plan(
    named: Named, declared: Declared | None, context: ReadContext, split_bytes: int | None
) -> Iterator[Split]:
    options = parse_options(named) if isinstance(named, CsvFile) else None
    path = parse_path(named.path if isinstance(named, CsvFile) else named)
    for entry in find_files(path, context.files):
        yield from _cut(_describe(entry, declared, options, context), context, split_bytes)


def refuse_given(given: object, advice: str) -> InvalidValueError:
    """The error for a value that a load does not accept."""
    problem = f"cannot load a value of type {type(given).__name__}; {advice}"
    return InvalidValueError(subject="load", expected="rows", value=given, problem=problem)


def _describe(
    entry: Entry, declared: Declared | None, options: CsvOptions | None, context: ReadContext
) -> Split:
    """A whole file as one split; raises `InvalidValueError` if its format is not accepted."""
    bare, packing = split_suffix(entry.path)
    suffix = Path(bare).suffix.lower()
    format = _FORMAT_BY_SUFFIX.get(suffix, InputFormat.NDJSON)
    if entry.is_folder:
        format = InputFormat.LANCE
    elif options is not None:
        format = InputFormat.CSV
    elif format is InputFormat.LANCE:
        raise refuse_path(entry.path, "a Lance table is a directory")
    if options is not None and format is InputFormat.LANCE:
        raise refuse_path(entry.path, "a Lance table is not a CSV file; give its path alone")
    if packing is not None and format not in _PACKED_FORMATS:
        problem = f"{suffix} files are compressed inside; decompress the file around this one"
        raise refuse_path(entry.path, problem)
    if format is InputFormat.NDJSON:
        if declared is not None:
            problem = "records of NDJSON name their types; give the path by itself"
            raise refuse_path(entry.path, problem)
        return Split(entry.path, format, None, 0, None, entry.size, None, None)
    key = table_key_of(declared or _name_type(entry.path, bare, context.catalog))
    csv = (options or PLAIN_CSV) if format is InputFormat.CSV else None
    return Split(entry.path, format, key, 0, None, entry.size, csv, None)


def _name_type(path: str, bare: str, catalog: Catalog) -> Declared:
    names = (Path(bare).stem, Path(path).absolute().parent.stem)
    found = find_type(names[0], catalog) or find_type(names[1], catalog)
    if found is None:
        problem = f"neither '{names[0]}' nor '{names[1]}' is a type; name the file after its type"
        raise refuse_path(path, problem)
    return found


def _cut(split: Split, context: ReadContext, split_bytes: int | None) -> Iterator[Split]:
    if split.format is InputFormat.LANCE:
        version, sizes = measure_lance(split.path, context.files.storage_options)
        whole = replace(split, size=sum(sizes), version=version)
        yield from _cut_parts(whole, sizes, split_bytes)
    elif split_bytes is None or split.size <= split_bytes:
        yield split
    elif split.format is InputFormat.NDJSON and not is_packed(split.path, context.files):
        count = -(-split.size // split_bytes)
        ends = [split.size * number // count for number in range(count + 1)]
        for start, end in pairwise(ends):
            yield replace(split, start=start, end=end, size=end - start)
    elif split.format is InputFormat.PARQUET:
        yield from _cut_parts(split, measure_parquet(split.path, context.files), split_bytes)
    elif split.format is InputFormat.ARROW:
        count = measure_arrow(split.path, context.files)
        yield from _cut_parts(split, [split.size // max(1, count)] * count, split_bytes)
    else:
        yield split


def _cut_parts(whole: Split, sizes: Sequence[int], split_bytes: int | None) -> Iterator[Split]:
    """Splits of consecutive parts, each of about `split_bytes`, and at least one split."""
    if split_bytes is None or len(sizes) < 2:
        yield whole
        return
    start = size = 0
    for number, part_size in enumerate(sizes):
        if number > start and size + part_size > split_bytes:
            yield replace(whole, start=start, end=number, size=size)
            start, size = number, 0
        size += part_size
    yield replace(whole, start=start, end=len(sizes), size=size)
