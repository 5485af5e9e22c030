"""Export on Spark: the rows of a state as files that tasks write, in a folder that a load reads.

Each type is a folder of parts. Ids ascend within a part and from one part to the next, so that the
parts of a type, one behind the other, are the file that an export in process writes. The folder
appears when the last part is whole; a job that fails leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.export import select_types, stored_columns
from omnigraph.engine.ops.export_files import name_file, write_batches
from omnigraph.engine.results import ExportedType, ExportReport
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import UnavailableError
from omnigraph.model.limits import SCAN_BATCH_BYTES, SORTED_BYTES_MAX, SPARK_PART_ROWS_MAX
from omnigraph.spark.jobs import run_silently
from omnigraph.spark.sessions import find_session
from omnigraph.spark.upkeep.meetings import list_blobs, measure_blobs
from omnigraph.spark.upkeep.ranges import (
    Meeting,
    Piece,
    Range,
    Reading,
    bring_together,
    find_ranges,
    send_pieces,
)
from omnigraph.storage.durability import flush_path
from omnigraph.storage.ports import TableStore
from omnigraph.storage.row_files import FileFormat, new_file, new_folder
from omnigraph.storage.sorting import sort_by_id

_WRITTEN = "meeting int, part int, row_count long"


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the parts of a type go."""

    declared: NodeType | EdgeType
    folder: str
    format: FileFormat

    def path(self, part: int) -> Path:
        """The file of a part, whose name sorts as the parts do."""
        return Path(self.folder) / f"part-{part:05}.{self.format}"


def export_files(
    folder: Path,
    *,
    basis: Basis,
    opened: OpenGraph,
    format: FileFormat,
    types: Sequence[str] | None,
    spark: object,
) -> ExportReport:
    """Write some types, or all, of a state; executors must see the folder as this process does.

    What is refused is what an export in process refuses, and then there is no folder.
    """
    chosen = select_types(basis.catalog, types)
    names = [name_file(each, basis.catalog) for each in chosen]
    session = find_session(spark)
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
            pieces = send_pieces(session, meetings, ranges)
            return bring_together(pieces, ranges, partial(_write, targets), _WRITTEN).toArrow()

        written = run_silently(session, run, stage="export")
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


def _gather(declared: NodeType | EdgeType, basis: Basis, tables: TableStore) -> Meeting:
    """All rows of a type."""
    entry = basis.snapshot.entries.get(table_key_of(declared))
    if entry is None:
        return Meeting((), 0)
    columns = tuple(stored_columns(declared, entry, tables))
    blobs = list_blobs(declared, columns)
    parts = tables.parts(entry.at, rows_max=SPARK_PART_ROWS_MAX)
    return Meeting(
        readings=tuple(Reading(0, part, columns, blobs, None) for part in parts),
        blob_bytes=measure_blobs(entry, blobs, tables),
    )


def _finish(number: int, target: _Target, rows_by_part: Mapping[tuple[int, int], int]) -> None:
    """Make sure that all parts of a type are here and durable, and nothing else is."""
    folder = Path(target.folder)
    parts = {part for meeting, part in rows_by_part if meeting == number}
    if not parts:
        # A type without rows has a file without rows.
        _write_part(target, 0, iter(()))
        parts = {0}
    wanted = {target.path(part).name for part in parts}
    found = {each.name for each in folder.iterdir()}
    if wanted - found:
        raise _unseen(target)
    for name in found - wanted:
        # What a task left that was killed, or that Spark ran twice.
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
    yield pa.record_batch(
        {
            "meeting": pa.array([place.meeting], pa.int32()),
            "part": pa.array([place.part], pa.int32()),
            "row_count": pa.array([row_count], pa.int64()),
        }
    )


def _write_part(target: _Target, part: int, batches: Iterator[pa.RecordBatch]) -> int:
    with new_file(target.path(part)) as hidden:
        return write_batches(hidden, target.declared, batches, target.format)
