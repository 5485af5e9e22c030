"""A snapshot: which version of each table is true on a branch at one moment.

An immutable value; making one does no I/O and reading through one never sees a later state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import NotFoundError
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.ports import TableRef, TableVersion


@dataclass(frozen=True, slots=True)
class Entry:
    """What the manifest says of one table."""

    table_key: str
    path: str
    version: int
    branch: str | None
    row_count: int

    @property
    def at(self) -> TableVersion:
        """The version to read."""
        return TableVersion(TableRef(self.path, self.branch), self.version)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tables of a branch at one version of its manifest, by key, in the order of keys."""

    branch: BranchName
    manifest_version: int
    entries: Mapping[str, Entry]

    def get(self, table_key: str) -> Entry:
        """The entry of a table that must be there."""
        entry = self.entries.get(table_key)
        if entry is None:
            raise NotFoundError(kind="type", name=type_name_of(table_key), advice="")
        return entry

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())


def line_of(branch: str) -> str | None:
    """The line of versions that a branch writes: for main the table's own, which has no name."""
    return None if branch == MAIN else branch


def table_key_of(declared: NodeType | EdgeType) -> str:
    """The key under which the manifest knows a type's table."""
    return make_table_key(declared.kind, declared.name)


def table_keys_of(catalog: Catalog) -> list[str]:
    """The keys of all types that have rows, in the order of keys."""
    return sorted(table_key_of(each) for each in catalog.stored_types())


def make_table_key(kind: TypeKind, name: str) -> str:
    """The same from its parts."""
    return f"{kind}:{name}"


def type_name_of(table_key: str) -> str:
    """The type whose table a key names."""
    return table_key.partition(":")[2]
