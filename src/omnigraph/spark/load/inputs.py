"""The sources of a bulk load as inputs of one job: files in partitions, frames, rows in process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pyspark.sql import DataFrame

from omnigraph.engine.graph_load import Input
from omnigraph.engine.input.batches import ReadContext, RowBatch, RowError
from omnigraph.engine.input.sources import holds_dicts, read_given
from omnigraph.engine.input.splits import Split, is_named, plan_splits, refuse_given
from omnigraph.engine.state.manifest import get_type, table_key_of
from omnigraph.model.errors import LimitExceededError
from omnigraph.model.limits import PARTITION_BYTES_MAX, PARTITION_BYTES_MIN, PARTITIONS_MAX
from omnigraph.spark.load.staging import INPUTS_MAX

_TASKS_PER_CORE = 3


@dataclass(frozen=True, slots=True)
class FileInput:
    """Files in partitions of some splits each, in input order."""

    partitions: tuple[tuple[Split, ...], ...]


@dataclass(frozen=True, slots=True)
class FrameInput:
    """A frame of rows of one type, by its table key; each partition of the frame is one."""

    table_key: str
    frame: DataFrame


@dataclass(frozen=True, slots=True)
class LocalInput:
    """Rows read in this process because no other can; `faults` are the unreadable ones."""

    pieces: tuple[RowBatch, ...]
    faults: tuple[RowError, ...]


JobInput = FileInput | FrameInput | LocalInput


def parse_inputs(
    given: Sequence[Input], *, context: ReadContext, cores: int, is_tolerant: bool
) -> tuple[JobInput, ...]:
    """The inputs of a job, in the given order."""
    flat = tuple(_flatten(given))
    files = [_name_source(each) for each in flat if is_named(each.source)]
    whole = [
        split for each in files for split in plan_splits(each, context=context, split_bytes=None)
    ]
    size = _partition_bytes(sum(split.size for split in whole), cores=cores)
    inputs: list[JobInput] = []
    # Consecutive files are one input.
    for is_file, run in groupby(flat, key=lambda each: is_named(each.source)):
        if is_file:
            splits = [
                split
                for each in run
                for split in plan_splits(_name_source(each), context=context, split_bytes=size)
            ]
            inputs.append(FileInput(tuple(_pack(splits, size=size))))
        else:
            inputs += [_parse_other(each, context, is_tolerant=is_tolerant) for each in run]
    if len(inputs) > INPUTS_MAX:
        raise LimitExceededError(
            resource="the frames of one job", limit=INPUTS_MAX, found=len(inputs)
        )
    return tuple(inputs)


def _flatten(given: Iterable[Input]) -> Iterator[Input]:
    """One input for each individual source."""
    for each in given:
        match each.source:
            case Mapping() if each.type_name is None:
                yield from _flatten(Input(name, source) for name, source in each.source.items())
            case list() | tuple() if not (is_named(each.source) or holds_dicts(each.source)):
                yield from _flatten(Input(each.type_name, source) for source in each.source)
            case _:
                yield each


def _name_source(given: Input) -> object:
    return given.source if given.type_name is None else {given.type_name: given.source}


def _parse_other(given: Input, context: ReadContext, *, is_tolerant: bool) -> JobInput:
    if isinstance(given.source, DataFrame):
        if given.type_name is None:
            raise refuse_given(given.source, "name the type of its rows: {type: frame}")
        key = table_key_of(get_type(given.type_name, context.catalog))
        return FrameInput(key, given.source)
    faults: list[RowError] = []
    report = faults.append if is_tolerant else None
    pieces = tuple(read_given(_name_source(given), context=context, report=report))
    return LocalInput(pieces, tuple(faults))


def _partition_bytes(total_bytes: int, *, cores: int) -> int:
    """How many bytes of input one task gets: enough tasks for all cores, each worth starting."""
    share = total_bytes // (cores * _TASKS_PER_CORE)
    bounded = min(max(share, PARTITION_BYTES_MIN), PARTITION_BYTES_MAX)
    return max(bounded, total_bytes // PARTITIONS_MAX)


def _pack(splits: Iterable[Split], *, size: int) -> Iterator[tuple[Split, ...]]:
    """Splits packed into partitions of about a size; a larger split is a partition by itself."""
    partition: list[Split] = []
    filled = 0
    for split in splits:
        if partition and filled + split.size > size:
            yield tuple(partition)
            partition, filled = [], 0
        partition.append(split)
        filled += split.size
    if partition:
        yield tuple(partition)
