"""Graph creation: the schema files, an empty table for each type, and the manifest.

The schema text is claimed first and the manifest is written last: a location with a manifest is a
graph. A failed creation deletes its schema files, so that the next attempt starts from the
beginning; empty tables that it leaves are reused.
"""

from __future__ import annotations

import re

from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.engine.commit.audit import AUDIT_PATH
from omnigraph.engine.commit.sidecar import RECOVERY_PREFIX
from omnigraph.engine.ops.refs import TAGS_PREFIX
from omnigraph.engine.ops.transaction import TRANSACTIONS_PREFIX
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import (
    GRAPH_COMMIT,
    MANIFEST_PATH,
    TABLE_CONFIG,
    Change,
    Entry,
    Register,
    Update,
    encode_manifest,
    manifest_ref,
    table_key_of,
)
from omnigraph.engine.state.readers import CLEANUPS_PREFIX, READERS_PREFIX
from omnigraph.engine.state.schema_files import (
    ARCHIVE_PREFIX,
    FILES,
    SOURCE_FILE,
    STAGED_FILE,
    archive_schema,
    encode_schema_files,
)
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import AlreadyExistsError, GraphError, UnavailableError, UncertainError
from omnigraph.model.limits import FOREIGN_NAMES_SHOWN_MAX
from omnigraph.model.names import MAIN, fnv1a_64
from omnigraph.model.runtime import Runtime
from omnigraph.storage.failpoints import Failpoint, Failpoints
from omnigraph.storage.leases import LEASES_PREFIX
from omnigraph.storage.ports import Listing, ObjectStore, Stores, TableRef, TableVersion
from omnigraph.storage.predicates import equals
from omnigraph.storage.row_files import table_schema

_TREES = (
    AUDIT_PATH,
    MANIFEST_PATH,
    RECOVERY_PREFIX,
    TAGS_PREFIX,
    TRANSACTIONS_PREFIX,
    ARCHIVE_PREFIX,
)
"""The parts of a graph besides its tables and its schema files."""

_TABLE_TREES = ("nodes", "edges")
"""Folders of tables. Their names are common words, so only their tables belong to the graph."""

_COORDINATION_TREES = (LEASES_PREFIX, READERS_PREFIX, CLEANUPS_PREFIX)
"""Folders that a deletion retains: lease epochs only increase, and the rest expires."""

_TABLE_FOLDER = re.compile(r"[0-9a-f]{16}")


def create_graph(
    *,
    uri: str,
    source: str,
    catalog: Catalog,
    stores: Stores,
    runtime: Runtime,
    failpoints: Failpoints,
    is_replacing: bool,
) -> None:
    """Create an empty graph.

    Raises `AlreadyExistsError` if the location contains a graph or parts of one. The same applies
    if it contains other files, unless the graph replaces one that was just deleted from among them.
    """
    objects = stores.objects
    files = encode_schema_files(source, catalog)
    listed = objects.list("")
    if any(name in listed.token_by_name for name in FILES) or has_history(stores):
        raise _exists(uri)
    if not is_replacing:
        _require_no_foreign_files(listed, uri, objects)
    if not objects.put_if_absent(SOURCE_FILE, files[SOURCE_FILE]):
        raise _exists(uri)
    try:
        failpoints.maybe_fail(Failpoint.INIT_AFTER_SCHEMA_PG_WRITTEN)
        for name in FILES[1:]:
            objects.put(name, files[name])
        archive_schema(source, hash_schema(catalog), objects=objects)
        failpoints.maybe_fail(Failpoint.INIT_AFTER_SCHEMA_FILES_WRITTEN)
        declared = sorted(catalog.stored_types(), key=table_key_of)
        entries = [create_table(each, path=place_of(each), stores=stores) for each in declared]
        _create_manifest(entries, hash_schema(catalog), stores, runtime)
        failpoints.maybe_fail(Failpoint.INIT_AFTER_COORDINATOR_INIT)
    except GraphError as error:
        _take_back(stores, uri, after=error)
        raise


def _require_no_foreign_files(listed: Listing, uri: str, objects: ObjectStore) -> None:
    """Raise unless a location is empty, or contains only the remains of a failed creation."""
    own_prefixes = {*_TABLE_TREES, *_TREES, *_COORDINATION_TREES}
    foreign = [name for name in listed.token_by_name if name != STAGED_FILE]
    foreign += [f"{name}/" for name in listed.prefixes - own_prefixes]
    for tree in sorted(listed.prefixes.intersection(_TABLE_TREES)):
        inside = objects.list(tree)
        foreign += [f"{tree}/{name}" for name in inside.token_by_name]
        foreign += [
            f"{tree}/{each}/" for each in inside.prefixes if not _TABLE_FOLDER.fullmatch(each)
        ]
    if not foreign:
        return
    shown = ", ".join(sorted(foreign)[:FOREIGN_NAMES_SHOWN_MAX])
    more = len(foreign) - FOREIGN_NAMES_SHOWN_MAX
    raise AlreadyExistsError(
        kind="folder",
        name=uri,
        advice=f"it holds files that are not part of a graph ({shown}"
        + (f" and {more} more" if more > 0 else "")
        + "); nothing was created; choose a folder that is new or empty",
    )


def _take_back(stores: Stores, uri: str, *, after: GraphError) -> None:
    try:
        for name in FILES:
            stores.objects.delete(name)
    except UnavailableError as error:
        raise UncertainError(
            f"{uri} may hold a graph now: {after}; `omnigraph.open` opens it if it is whole, "
            "`init` with `force=True` starts over"
        ) from error


def is_graph(stores: Stores) -> bool:
    """Whether a location contains a graph, or the remains of one."""
    names = stores.objects.list("").token_by_name
    has_manifest = stores.tables.find_head(manifest_ref(MAIN)) is not None
    return has_manifest or any(name in names for name in FILES)


def has_history(stores: Stores) -> bool:
    """Whether a location contains a manifest that was written to after its creation."""
    ref = manifest_ref(MAIN)
    version = stores.tables.find_head(ref)
    if version is None:
        return False
    is_commit = equals("object_type", GRAPH_COMMIT)
    commits = stores.tables.count(TableVersion(ref, version), predicate=is_commit)
    return commits > 1 or bool(stores.tables.branches(MANIFEST_PATH))


def delete_graph(stores: Stores) -> None:
    """Delete all files of a graph, including its rows, and no other files."""
    # The schema files are deleted last, so that until then the location is recognized as a graph.
    for tree in _TABLE_TREES:
        for name in sorted(stores.objects.list(tree).prefixes):
            if _TABLE_FOLDER.fullmatch(name):
                stores.objects.delete_prefix(f"{tree}/{name}")
    for tree in _TREES:
        stores.objects.delete_prefix(tree)
    for name in (STAGED_FILE, *FILES):
        stores.objects.delete(name)


def create_table(declared: NodeType | EdgeType, *, path: str, stores: Stores) -> Entry:
    """Create an empty table for a type, at a location that no history names."""
    if stores.tables.find_head(TableRef(path, None)) is not None:
        # The remains of a failed creation, which no process reads.
        stores.objects.delete_prefix(path)
    at = stores.tables.create(path, table_schema(declared).empty_table(), config={})
    return Entry(table_key_of(declared), path, at.version, None, 0)


def place_of(declared: NodeType | EdgeType) -> str:
    """The location of the table of a type that is created under its current name."""
    return f"{declared.kind}s/{fnv1a_64(declared.name):016x}"


def _create_manifest(
    entries: list[Entry], schema_hash: str, stores: Stores, runtime: Runtime
) -> None:
    genesis = Commit(
        id=runtime.new_id(),
        branch=MAIN,
        parent_id=None,
        merged_parent_id=None,
        actor=None,
        created_at=runtime.now(),
        manifest_version=1,
        schema_hash=schema_hash,
    )
    changes: list[Change] = [Register(entry.table_key, entry.path) for entry in entries]
    changes += [Update(entry, stores.tables.describe(entry.at)) for entry in entries]
    if stores.tables.find_head(manifest_ref(MAIN)) is not None:
        stores.objects.delete_prefix(MANIFEST_PATH)
    rows = encode_manifest(changes, genesis, after=None)
    stores.tables.create(MANIFEST_PATH, rows, config=TABLE_CONFIG)


def _exists(uri: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        kind="graph",
        name=uri,
        advice="open it, or start over by force, which deletes it",
    )
