"""Export into files: one a type, in a folder that a load reads back as one commit.

The folder appears when the last file is whole. A batch of rows is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from omnigraph.engine.ops.export import complete, scan_type, select_types
from omnigraph.engine.read.json_lines import encode_block
from omnigraph.engine.results import ExportedType, ExportReport
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.limits import EXPORT_INLINE_ROWS_MAX
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.durability import flush_path
from omnigraph.storage.ports import RowReader
from omnigraph.storage.row_files import FileFormat, exchange_schema, new_folder, write_rows


def export_files(
    folder: Path,
    *,
    basis: Basis,
    tables: RowReader,
    format: FileFormat,
    types: Sequence[str] | None,
) -> ExportReport:
    """Write some types, or all, of a state.

    An unknown type, a folder that is not empty, or a number that JSON lacks is refused, and then
    there is no folder.
    """
    chosen = select_types(basis.catalog, types)
    done = []
    with new_folder(folder) as hidden:
        for declared in chosen:
            name = f"{name_file(declared, basis.catalog)}.{format}"
            rows = scan_type(declared, snapshot=basis.snapshot, tables=tables)
            row_count = write_batches(hidden / name, declared, rows, format)
            done.append(ExportedType(declared.name, row_count, str(folder / name)))
    return ExportReport(basis.state.head.id, str(folder), format.value, tuple(done))


def is_large_export(basis: Basis, types: Sequence[str] | None) -> bool:
    """Whether some types, or all, of a state have more rows than one process should write."""
    if basis.limited is not None:
        # Spark would have to be told which rows are seen.
        return False
    entries = basis.snapshot.entries
    keys = {table_key_of(each) for each in select_types(basis.catalog, types)}
    row_count = sum(entries[key].row_count for key in keys & entries.keys())
    return row_count > EXPORT_INLINE_ROWS_MAX


def name_file(declared: NodeType | EdgeType, catalog: Catalog) -> str:
    """The name, without a suffix, by which a load knows the type of a file or folder."""
    # A load tells the type by the file's name, in which case does not count for edges.
    is_node = any(each.lower() == declared.name.lower() for each in catalog.nodes)
    is_edge = any(each.lower() == declared.name.lower() for each in catalog.edges)
    return table_key_of(declared) if is_node and is_edge else declared.name


def write_batches(
    path: Path,
    declared: NodeType | EdgeType,
    batches: Iterator[pa.RecordBatch],
    format: FileFormat,
) -> int:
    """Write rows of a type, with those of its columns that there are, as one durable file."""
    schema = exchange_schema(table_schema(declared))
    if format is not FileFormat.NDJSON:
        batches = (complete(each, schema) for each in batches)
    row_count = write_rows(
        path, batches, schema=schema, format=format, encode=partial(encode_block, declared)
    )
    flush_path(path)
    return row_count
