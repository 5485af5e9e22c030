"""Export: the rows of a snapshot as lines that a load reads back, a batch in memory at a time.

Edge types come before node types, types in the order of their names, rows in the order of their
ids: two exports of one state are equal. Never sees a later state than the snapshot's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.engine.read.json_rows import encode_rows
from omnigraph.engine.state.snapshot import Entry, Snapshot, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import NotFoundError
from omnigraph.storage.ports import TableStore


def export(
    snapshot: Snapshot, *, catalog: Catalog, tables: TableStore, types: Sequence[str] | None
) -> Iterator[str]:
    """The lines of some types, or of all; a name that is both a node and an edge type is both.

    An unknown type is refused at once. A line that cannot be written, because a number is not
    finite, raises `InvalidValueError` when it is reached.
    """
    by_key = {table_key_of(each): each for each in select_types(catalog, types)}
    # A type that was added after the snapshot has no table in it, and no rows.
    chosen = [(by_key[key], snapshot.get(key)) for key in sorted(by_key.keys() & snapshot.entries)]
    return (line for declared, entry in chosen for line in _export_type(declared, entry, tables))


def select_types(catalog: Catalog, types: Sequence[str] | None) -> list[NodeType | EdgeType]:
    """The types that names mean, or all; `NotFoundError` if a name means none."""
    if types is None:
        return [*catalog.nodes.values(), *catalog.edges.values()]
    chosen: list[NodeType | EdgeType] = []
    for name in types:
        found = [kind[name] for kind in (catalog.nodes, catalog.edges) if name in kind]
        if not found:
            names = {*catalog.nodes, *catalog.edges}
            raise NotFoundError(kind="type", name=name, advice=advise_name(name, names) or "")
        chosen += found
    return chosen


def _export_type(declared: NodeType | EdgeType, entry: Entry, tables: TableStore) -> Iterator[str]:
    # A property that was added after the version has no column in it.
    stored = set(tables.schema(entry.at).names)
    ends = ("src", "dst") if isinstance(declared, EdgeType) else ()
    columns = ["id", *ends, *(name for name in declared.properties if name in stored)]
    batches = tables.scan_batches(entry.at, columns=columns, predicate=None, order_by=("id",))
    for batch in batches:
        yield from encode_rows(declared, batch)
