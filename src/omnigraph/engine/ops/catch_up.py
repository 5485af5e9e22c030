"""Catching up: the first write on a branch after a change of schema gives it what the change gave.

A schema belongs to the graph. What is added to it while branches exist reaches a branch when it is
next written to: its tables get the columns that they lack, and types that it has never heard of
become known to it, as a commit of its own before the write.
"""

from __future__ import annotations

import pyarrow as pa

from omnigraph.engine.commit.changes import Placement, PreparedWrite, SchemaChange, TableChange
from omnigraph.engine.commit.schema_delta import SchemaDelta
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.manifest import ManifestState, Register
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.names import MAIN
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.ports import TableStore

SCHEMA_ACTOR = "omnigraph:schema"


def prepare_catching_up(
    basis: Basis, *, published: ManifestState, tables: TableStore
) -> PreparedWrite | None:
    """What a branch lacks of the accepted schema; None if it lacks nothing.

    `published` is what its own manifest says, without the types that it has never heard of.
    """
    if basis.branch == MAIN or published.head.schema_hash == basis.contract.schema_hash:
        return None
    known = published.snapshot.entries
    changes = {}
    for declared in basis.catalog.stored_types():
        key, schema = table_key_of(declared), table_schema(declared)
        if key in known and set(tables.schema(known[key].at).names) != set(schema.names):
            nothing = pa.array([], pa.string())
            changes[key] = TableChange(declared, schema.empty_table(), nothing, is_overwrite=False)
    unheard = [entry for key, entry in basis.snapshot.entries.items() if key not in known]
    if not changes and not unheard:
        return None
    return PreparedWrite(
        changes=dict(sorted(changes.items())),
        placement=dict.fromkeys(changes, Placement.COLUMNS),
        read_set=frozenset(),
        is_strict=False,
        schema=SchemaChange(
            source=None,
            schema_hash=basis.contract.schema_hash,
            delta=SchemaDelta(
                replaced_hash=published.head.schema_hash or "",
                registered=tuple(Register(each.table_key, each.path) for each in unheard),
                adopted=tuple(unheard),
                dropped=(),
            ),
        ),
    )
