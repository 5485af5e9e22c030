"""Tables as the engine and Spark use them: stores, parts for other processes, branches as files.

The only module above `storage.lance` through which other packages reach it. A part is a small value
that names fragments of one version; a task in another process reads it, or writes files of a table
branch that no version refers to until the engine stages and applies them. Table branches are found
by their files in an object store, without opening a table.
"""

from __future__ import annotations

from omnigraph.storage.lance.branches import (
    BranchReference,
    ForeignVersion,
    decode_names,
    decode_reference,
    find_foreign_versions,
    list_table_branches,
    reference_path,
    references_of,
    relocate_version,
)
from omnigraph.storage.lance.delta import ADDRESS, find_shared, plan_delta, scan_delta
from omnigraph.storage.lance.fragments import (
    copy_rows,
    measure_lance,
    read_lance,
    replace_rows,
    scan_file,
    scan_part,
    take_rows,
    write_deletions,
    write_files,
)
from omnigraph.storage.lance.handles import folder_of
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.locations import Location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import Stores

__all__ = [
    "ADDRESS",
    "BranchReference",
    "ForeignVersion",
    "copy_rows",
    "decode_names",
    "decode_reference",
    "find_foreign_versions",
    "find_shared",
    "folder_of",
    "list_table_branches",
    "measure_lance",
    "open_stores",
    "plan_delta",
    "read_lance",
    "reference_path",
    "references_of",
    "relocate_version",
    "replace_rows",
    "scan_delta",
    "scan_file",
    "scan_part",
    "take_rows",
    "write_deletions",
    "write_files",
]


def open_stores(location: Location, *, is_durable: bool) -> Stores:
    """The stores of a graph at a location; with `is_durable`, writes survive a power loss."""
    tables = LanceTables(
        location.root,
        storage_options=location.storage_options,
        is_local=location.is_local,
        is_durable=is_durable,
    )
    return Stores(objects=open_objects(location, is_durable=is_durable), tables=tables)
