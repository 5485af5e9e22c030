"""Export on Spark: the rows of a state as files that tasks write to a folder that a load can read.

Each type is a folder of parts. Ids ascend within a part and from part to part, so the concatenated
parts of a type are the file that an export in process writes. The folder appears when the last part
is complete; a failed job leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from omnigraph.engine.context import GraphContext
from omnigraph.engine.ops.export import name_file, select_types, stored_columns, write_batches
from omnigraph.engine.results import ExportedType, ExportReport
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import UnavailableError
from omnigraph.model.limits import SCAN_BATCH_BYTES, SORTED_BYTES_MAX, SPARK_PART_ROWS_MAX
from omnigraph.spark.jobs import run_job_quietly
from omnigraph.spark.ops.range_shuffle import (
    Piece,
    Range,
    RangeJoin,
    Reading,
    find_ranges,
    join_ranges,
    list_blobs,
    make_report,
    measure_blobs,
    shuffle_by_range,
)
from omnigraph.spark.sessions import find_working_session
from omnigraph.storage.external_sort import sort_by_id
from omnigraph.storage.fsync import flush_path
from omnigraph.storage.ports import TableReader
from omnigraph.storage.row_files import FileFormat, new_file, new_folder

_WRITTEN = "meeting int, part int, row_count long"


@dataclass(frozen=True, slots=True)
class _Target:
    """The destination of the parts of a type."""

    declared: NodeType | EdgeType
    folder: str
    format: FileFormat

    def path(self, part: int) -> Path:
        """The file of a part; file names sort in the order of the parts."""
        return Path(self.folder) / f"part-{part:05}.{self.format}"


def export_files(
    folder: Path,
    *,
    basis: Basis,
    opened: GraphContext,
    format: FileFormat,
    types: Sequence[str] | None,
    spark: object,
) -> ExportReport:
    """Write some or all types of a state to a folder that the executors share with this process.

    Rejects the same requests as an export in process, and then creates no folder.
    """
    chosen = select_types(basis.catalog, types)
    names = [name_file(each, basis.catalog) for each in chosen]
    session = find_working_session(spark)
    with new_folder(folder) as hidden:
        targets = tuple(
            _Target(declared, str(hidden / name), format)
            for declared, name in zip(chosen, names, strict=True)
        )
        for each in targets:
            Path(each.folder).mkdir()
        meetings = [_gather(each, basis, opened.stores.tables) for each in chosen]

        def run() -> pa.Table:
            ranges = find_ranges(session, meetings)
            pieces = shuffle_by_range(session, meetings, ranges)
            return join_ranges(pieces, ranges, partial(_write, targets), _WRITTEN).toArrow()

        written = run_job_quietly(session, run, stage="export")
        rows_by_part = {
            (row["meeting"], row["part"]): row["row_count"] for row in written.to_pylist()
        }
        for number, target in enumerate(targets):
            _finish(number, target, rows_by_part)
    done = tuple(
        ExportedType(
            declared.name,
            sum(rows for (meeting, _), rows in rows_by_part.items() if meeting == number),
            str(folder / name),
        )
        for number, (declared, name) in enumerate(zip(chosen, names, strict=True))
    )
    return ExportReport(basis.state.head.id, str(folder), format.value, done)


def _gather(declared: NodeType | EdgeType, basis: Basis, tables: TableReader) -> RangeJoin:
    """All rows of a type."""
    entry = basis.snapshot.entries.get(table_key_of(declared))
    if entry is None:
        return RangeJoin((), 0)
    columns = tuple(stored_columns(declared, entry, tables))
    blobs = list_blobs(declared, columns)
    parts = tables.parts(entry.at, rows_max=SPARK_PART_ROWS_MAX)
    return RangeJoin(
        readings=tuple(Reading(0, part, columns, blobs, None) for part in parts),
        blob_bytes=measure_blobs(entry, blobs, tables),
    )


def _finish(number: int, target: _Target, rows_by_part: Mapping[tuple[int, int], int]) -> None:
    """Require that all parts of a type exist, delete other files, and make the folder durable."""
    folder = Path(target.folder)
    parts = {part for meeting, part in rows_by_part if meeting == number}
    if not parts:
        # A type without rows has one file without rows.
        _write_part(target, 0, iter(()))
        parts = {0}
    wanted = {target.path(part).name for part in parts}
    found = {each.name for each in folder.iterdir()}
    if wanted - found:
        raise _unseen(target)
    for name in found - wanted:
        # Files of a task that was killed or that Spark ran twice.
        (folder / name).unlink(missing_ok=True)
    flush_path(folder)


def _unseen(target: _Target) -> UnavailableError:
    return UnavailableError(
        action=f"export {target.declared.name} on Spark",
        reason="executors do not share this folder with the process that calls; name one that "
        "all of them see",
    )


# On executors


def _write(
    targets: Sequence[_Target], place: Range, pieces: Iterator[Piece]
) -> Iterator[pa.RecordBatch]:
    target = targets[place.meeting]
    if not Path(target.folder).is_dir():
        raise _unseen(target)
    batches = (each.rows for each in pieces)
    ordered = sort_by_id(batches, bytes_max=SORTED_BYTES_MAX, batch_bytes=SCAN_BATCH_BYTES)
    row_count = _write_part(target, place.part, ordered)
    yield make_report(place, {"row_count": pa.array([row_count], pa.int64())})


def _write_part(target: _Target, part: int, batches: Iterator[pa.RecordBatch]) -> int:
    with new_file(target.path(part)) as hidden:
        return write_batches(hidden, target.declared, batches, target.format)
