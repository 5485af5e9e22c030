"""The manifest: its rows, the state that they represent, and snapshots of table versions.

One reduction turns rows into state, both for scanned and for just published rows, so a writer and
a reader see the same state. Rows of unknown kinds are ignored; invalid rows of known kinds raise
`CorruptError`. A snapshot is immutable, and creating one does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.engine.state.history import Commit, decode_commit, encode_commit, encode_head
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import CorruptError, InvalidValueError, NotFoundError, show_text
from omnigraph.model.names import MAIN, BranchName, find_near_name
from omnigraph.storage.ports import TableRef, TableVersion, VersionFile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """The manifest's entry for one table."""

    table_key: str
    path: str = field(metadata={"json": "table_path"})
    version: int = field(metadata={"json": "table_version"})
    branch: str | None = field(metadata={"json": "table_branch"})
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
        """The entry of a table; `NotFoundError` if there is none."""
        entry = self.entries.get(table_key)
        if entry is None:
            raise NotFoundError(kind="type", name=type_name_of(table_key), advice="")
        return entry

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())


def table_branch_of(branch: str) -> str | None:
    """The table branch that a branch writes to; None for main, whose table branch has no name."""
    return None if branch == MAIN else branch


def table_key_of(declared: NodeType | EdgeType) -> str:
    """The key of a type's table in the manifest."""
    return make_table_key(declared.kind, declared.name)


def table_keys_of(catalog: Catalog) -> list[str]:
    """The keys of all types that have rows, in the order of keys."""
    return sorted(table_key_of(each) for each in catalog.stored_types())


def make_table_key(kind: TypeKind, name: str) -> str:
    """The key of a table from the kind and the name of its type."""
    return f"{kind}:{name}"


def type_name_of(table_key: str) -> str:
    """The name of the type to which a table key belongs."""
    return table_key.partition(":")[2]


MANIFEST_PATH = "__manifest"
STAMP = "omnigraph:internal_schema_version"
STAMP_VERSION = 4
TABLE_CONFIG = {"table_version_management": "true"}

TABLE, TABLE_VERSION, TABLE_TOMBSTONE = "table", "table_version", "table_tombstone"
GRAPH_COMMIT, GRAPH_HEAD = "graph_commit", "graph_head"

MANIFEST_SCHEMA = pa.schema(
    [
        # The annotation enables Lance's conflict filter: of two concurrent writers of one id, one
        # fails.
        pa.field(
            "object_id",
            pa.string(),
            nullable=False,
            metadata={"lance-schema:unenforced-primary-key": "true"},
        ),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("item", pa.string()))),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ],
    metadata={STAMP: str(STAMP_VERSION)},
)

# Up to this many rows are decoded one by one, which is cheaper than a dozen vectorised steps.
_ROWS_LOOPED_MAX = 500

STATE_COLUMNS = tuple(name for name in MANIFEST_SCHEMA.names if name != "base_objects")


@dataclass(frozen=True, slots=True)
class Register:
    """The table of a type exists at a path."""

    table_key: str
    path: str = field(metadata={"json": "table_path"})


@dataclass(frozen=True, slots=True)
class Update:
    """A version of a type's table is the published one."""

    entry: Entry
    file: VersionFile


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The table of a type is dropped; later versions of it would be visible again."""

    table_key: str
    version: int = field(metadata={"json": "tombstone_version"})


Change = Register | Update | Tombstone


@dataclass(frozen=True)
class ManifestState:
    """The state that one version of a branch's manifest represents.

    `latest` holds the newest entry of every table, including tables that a tombstone hides.
    """

    branch: BranchName
    at: TableVersion
    path_by_table: Mapping[str, str]
    latest: Mapping[str, Entry]
    tombstones: Mapping[str, int]
    head: Commit

    @cached_property
    def snapshot(self) -> Snapshot:
        """The visible tables, by key."""
        visible = {
            key: entry
            for key, entry in sorted(self.latest.items())
            if self.tombstones.get(key, -1) < entry.version
        }
        return Snapshot(self.branch, self.at.version, MappingProxyType(visible))

    def version_of(self, table_key: str) -> int:
        """The version that a writer of a table must expect: the pin, the tombstone, or 0."""
        entry = self.snapshot.entries.get(table_key)
        return entry.version if entry else self.tombstones.get(table_key, 0)


def manifest_ref(branch: BranchName) -> TableRef:
    """The table branch of the manifest that belongs to a branch."""
    return TableRef(MANIFEST_PATH, table_branch_of(branch))


def object_id_of(change: Change) -> str:
    """The id of the row that encodes a change."""
    match change:
        case Register(table_key):
            return table_key
        case Update(entry):
            return f"{entry.table_key}${entry.version:020}"
        case Tombstone(table_key, version):
            return f"{table_key}$tombstone${version:020}"


def head_id(branch: str) -> str:
    """The id of the row that names the head of a branch."""
    return f"{GRAPH_HEAD}:{branch}"


def encode_manifest(changes: Iterable[Change], commit: Commit, *, after: Commit | None) -> pa.Table:
    """The rows that publish changes and their commit; the rows of the changes come first.

    `after` is the head that the commit follows. A publish replaces its row. On a branch that does
    not have a head row yet, that row belongs to another branch and is written unchanged.
    """
    rows = [_encode_change(change) for change in changes]
    rows.append(
        {
            "object_id": commit.id,
            "object_type": GRAPH_COMMIT,
            "metadata": encode_commit(commit),
            "table_key": "",
            "table_version": commit.manifest_version,
            "table_branch": table_branch_of(commit.branch),
        }
    )
    heads = [commit] if after is None or after.branch == commit.branch else [after, commit]
    rows += map(encode_head_row, heads)
    return pa.Table.from_pylist(rows, schema=MANIFEST_SCHEMA)


def encode_head_row(head: Commit) -> dict[str, object]:
    """The row that names a commit as the head of its branch."""
    return {
        "object_id": head_id(head.branch),
        "object_type": GRAPH_HEAD,
        "metadata": encode_head(head),
        "table_key": "",
    }


def reduce_manifest(
    rows: pa.Table, *, at: TableVersion, branch: BranchName, onto: ManifestState | None
) -> ManifestState:
    """The state that results from rows; `onto` is the state before them.

    Rows may be known already: a row replaces what is known about its table, version or commit.
    """
    paths = dict(onto.path_by_table) if onto else {}
    latest = dict(onto.latest) if onto else {}
    tombstones = dict(onto.tombstones) if onto else {}
    head = onto.head if onto else None
    relevant = _prune(rows) if rows.num_rows > _ROWS_LOOPED_MAX else rows
    for row in relevant.to_pylist():
        match row["object_type"]:
            case "table":
                paths[row["table_key"]] = _require(row, "location", str)
            case "table_version":
                entry = _decode_entry(row)
                known = latest.get(entry.table_key)
                if known is None or entry.version >= known.version:
                    latest[entry.table_key] = entry
            case "table_tombstone":
                key, version = row["table_key"], _require(row, "table_version", int)
                tombstones[key] = max(version, tombstones.get(key, 0))
            case "graph_commit":
                commit = _decode_commit(row)
                head = commit if head is None or commit.age > head.age else head
            case _:
                continue
    if head is None:
        raise CorruptError(subject="the manifest", problem="it holds no commit")
    return ManifestState(
        branch=branch,
        at=at,
        path_by_table=MappingProxyType(paths),
        latest=MappingProxyType({k: _locate(entry, paths) for k, entry in latest.items()}),
        tombstones=MappingProxyType(tombstones),
        head=head,
    )


def decode_commits(rows: pa.Table) -> tuple[Commit, ...]:
    """The commits among rows, oldest first."""
    found = (row for row in rows.to_pylist() if row["object_type"] == GRAPH_COMMIT)
    return tuple(sorted(map(_decode_commit, found), key=lambda commit: commit.age))


def find_first_entries(
    rows: pa.Table, table_keys: Iterable[str], state: ManifestState
) -> list[Entry]:
    """The first version of each type since it was last added, from the rows of a state."""
    first: dict[str, Entry] = {}
    for row in rows.to_pylist():
        entry = _decode_entry(row)
        known = first.get(entry.table_key)
        is_present = entry.version > state.tombstones.get(entry.table_key, -1)
        if is_present and (known is None or entry.version < known.version):
            first[entry.table_key] = entry
    return [_locate(first[key], state.path_by_table) for key in table_keys if key in first]


def _encode_change(change: Change) -> dict[str, object]:
    match change:
        case Register(table_key, path):
            return {
                "object_id": object_id_of(change),
                "object_type": TABLE,
                "location": path,
                "table_key": table_key,
            }
        case Update(entry, file):
            fields: dict[str, object] = {"manifest_path": file.path, "naming_scheme": "V2"}
            if file.size is not None:
                fields["manifest_size"] = file.size
            return {
                "object_id": object_id_of(change),
                "object_type": TABLE_VERSION,
                "metadata": orjson.dumps(fields).decode(),
                "table_key": entry.table_key,
                "table_version": entry.version,
                "table_branch": entry.branch,
                "row_count": entry.row_count,
            }
        case Tombstone(table_key, version):
            return {
                "object_id": object_id_of(change),
                "object_type": TABLE_TOMBSTONE,
                "table_key": table_key,
                "table_version": version,
            }


def _prune(rows: pa.Table) -> pa.Table:
    """Drop versions and commits that newer rows supersede, without a loop over history.

    A row that lacks its version cannot be compared; it is retained so that decoding rejects it.
    """
    kinds, numbers = rows["object_type"], rows["table_version"]
    is_version, is_commit = pc.equal(kinds, TABLE_VERSION), pc.equal(kinds, GRAPH_COMMIT)
    versions = rows.filter(is_version)
    newest = versions.group_by("table_key").aggregate([("table_version", "max")])
    newest_of_table = newest["table_version_max"].take(
        pc.index_in(rows["table_key"], newest["table_key"].combine_chunks())
    )
    newest_commit = pc.max(rows.filter(is_commit)["table_version"])
    # Kleene logic, because rows of other kinds do not belong to a table and compare as null.
    is_old = pc.or_kleene(
        pc.and_kleene(is_version, pc.less(numbers, newest_of_table)),
        pc.and_kleene(is_commit, pc.less(numbers, newest_commit)),
    )
    return rows.filter(pc.invert(pc.fill_null(is_old, fill_value=False)))


def _decode_commit(row: Mapping[str, object]) -> Commit:
    return decode_commit(
        commit_id=str(row["object_id"]),
        metadata=row["metadata"],
        manifest_version=row["table_version"],
        branch=row["table_branch"],
    )


def _decode_entry(row: Mapping[str, object]) -> Entry:
    branch = row["table_branch"]
    _require(row, "metadata", str)
    return Entry(
        table_key=str(row["table_key"]),
        path="",
        version=_require(row, "table_version", int),
        branch=None if branch is None else str(branch),
        row_count=_require(row, "row_count", int),
    )


def _locate(entry: Entry, paths: Mapping[str, str]) -> Entry:
    path = paths.get(entry.table_key)
    if path is None:
        raise CorruptError(
            subject=f"'{entry.table_key}' in the manifest",
            problem="it has a version, but no row says where it is",
        )
    return entry if entry.path == path else replace(entry, path=path)


def _require(row: Mapping[str, object], column: str, kind: type[T]) -> T:
    value = row[column]
    if not isinstance(value, kind):
        raise CorruptError(
            subject=f"row '{row['object_id']}' of the manifest", problem=f"its {column} is null"
        )
    return value


def get_type(name: object, catalog: Catalog) -> NodeType | EdgeType:
    """The type with a name; `InvalidValueError` if there is none."""
    found = find_type(name, catalog) if isinstance(name, str) else None
    if found is None:
        near = find_near_name(str(name), [*catalog.nodes, *catalog.edges])
        advice = "" if near is None else f"; did you mean '{near}'?"
        raise _refuse(name, f"unknown node type or edge type {show_text(str(name))}{advice}")
    return found


def get_stored_type(name: str, catalog: Catalog) -> NodeType | EdgeType:
    """The type whose rows a read requests; `NotFoundError` if there is none."""
    found = find_type(name, catalog)
    if found is None:
        advice = advise_name(name, {*catalog.nodes, *catalog.edges}) or ""
        raise NotFoundError(kind="type", name=name, advice=advice)
    return found


def get_edge_type(name: object, catalog: Catalog) -> EdgeType:
    """The edge type with a name; `NotFoundError` if there is none."""
    found = catalog.find_edge(name) if isinstance(name, str) else None
    if found is None:
        advice = "it is a node type; name the edges between nodes"
        if name not in catalog.nodes:
            advice = advise_name(str(name), set(catalog.edges)) or ""
        raise NotFoundError(kind="edge type", name=str(name), advice=advice)
    return found


def find_type(name: str, catalog: Catalog) -> NodeType | EdgeType | None:
    """The type with a name, or None.

    A name that is both a node type and an edge type must be qualified as `node:Name` or
    `edge:Name`; without a qualifier it raises `InvalidValueError`.
    """
    kind, _, bare = name.rpartition(":")
    node = catalog.nodes.get(bare) if kind in ("", TypeKind.NODE) else None
    edge = catalog.find_edge(bare) if kind in ("", TypeKind.EDGE) else None
    if node and edge:
        advice = f"say 'node:{node.name}' or 'edge:{edge.name}'"
        raise _refuse(name, f"'{name}' is a node type and an edge type; {advice}")
    return node or edge


def _refuse(name: object, problem: str) -> InvalidValueError:
    return InvalidValueError(subject="load", expected="type name", value=name, problem=problem)
