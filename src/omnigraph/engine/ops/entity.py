"""One entity by its type and id, as a snapshot has it."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.engine.ops.reading.type_names import get_stored_type
from omnigraph.engine.read.json_rows import entity_as_json
from omnigraph.engine.state.snapshot import Snapshot, table_key_of
from omnigraph.model.catalog import Catalog
from omnigraph.storage.ports import RowReader


def find_entity(
    type_name: str, id: str, *, snapshot: Snapshot, catalog: Catalog, tables: RowReader
) -> dict[str, object] | None:
    """The entity's id, ends and properties, or None; a type added later has no entities yet."""
    declared = get_stored_type(type_name, catalog)
    entry = snapshot.entries.get(table_key_of(declared))
    if entry is None:
        return None
    columns = tables.schema(entry.at).names
    found = tables.find_rows(entry.at, ids=pa.array([id]), columns=columns)
    return entity_as_json(declared, found) if found.num_rows else None
