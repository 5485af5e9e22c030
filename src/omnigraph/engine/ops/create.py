"""Creating a graph: schema files, one empty table a type, and the manifest that makes them one.

The schema's text is claimed first and the manifest is written last: a place with a manifest is a
graph. A creation that fails takes its schema files back, so that the next one starts afresh;
empty tables that it leaves are reused.
"""

from __future__ import annotations

from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.engine.commit.audit import AUDIT_PATH
from omnigraph.engine.ops.tags import TAGS_PREFIX
from omnigraph.engine.ops.transaction import TRANSACTIONS_PREFIX
from omnigraph.engine.state.contract import (
    ARCHIVE_PREFIX,
    FILES,
    SOURCE_FILE,
    STAGED_FILE,
    archive_schema,
    encode_contract,
)
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import (
    MANIFEST_PATH,
    TABLE_CONFIG,
    Change,
    Register,
    Update,
    encode_manifest,
    manifest_ref,
)
from omnigraph.engine.state.snapshot import Entry, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import (
    AlreadyExistsError,
    GraphError,
    UnavailableError,
    UncertainError,
)
from omnigraph.model.names import MAIN, fnv1a_64
from omnigraph.model.runtime import Runtime
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.failpoints import Failpoint, Failpoints
from omnigraph.storage.ports import Stores, TableRef, TableVersion

_TREES = (
    "nodes",
    "edges",
    AUDIT_PATH,
    MANIFEST_PATH,
    "__recovery",
    TAGS_PREFIX,
    TRANSACTIONS_PREFIX,
    ARCHIVE_PREFIX,
)
"""What a graph consists of besides its schema's files. Leases stay: their epochs only grow."""


def create_graph(
    *,
    uri: str,
    source: str,
    catalog: Catalog,
    stores: Stores,
    runtime: Runtime,
    failpoints: Failpoints,
) -> None:
    """Create an empty graph; `AlreadyExistsError` if there is one, or something of one."""
    objects = stores.objects
    files = encode_contract(source, catalog)
    listed = objects.list("")
    if any(name in listed.token_by_name for name in FILES):
        raise _exists(uri)
    if has_history(stores):
        raise _exists(uri)
    if not objects.put_if_absent(SOURCE_FILE, files[SOURCE_FILE]):
        raise _exists(uri)
    try:
        failpoints.maybe_fail(Failpoint.INIT_AFTER_SCHEMA_PG_WRITTEN)
        for name in FILES[1:]:
            objects.put(name, files[name])
        archive_schema(source, hash_schema(catalog), objects=objects)
        failpoints.maybe_fail(Failpoint.INIT_AFTER_SCHEMA_CONTRACT_WRITTEN)
        entries = [
            create_table(each, path=place_of(each), stores=stores) for each in _types_of(catalog)
        ]
        genesis = _genesis(hash_schema(catalog), runtime)
        _create_manifest(entries, genesis, stores)
        failpoints.maybe_fail(Failpoint.INIT_AFTER_COORDINATOR_INIT)
    except GraphError as error:
        _take_back(stores, uri, after=error)
        raise


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
    """Whether a place holds a graph, or what is left of one."""
    names = stores.objects.list("").token_by_name
    has_manifest = stores.tables.find_head(manifest_ref(MAIN)) is not None
    return has_manifest or any(name in names for name in FILES)


def has_history(stores: Stores) -> bool:
    """Whether a place holds a manifest that was ever written to after its creation."""
    ref = manifest_ref(MAIN)
    version = stores.tables.find_head(ref)
    if version is None:
        return False
    commits = stores.tables.count(
        TableVersion(ref, version), predicate="object_type = 'graph_commit'"
    )
    return commits > 1 or bool(stores.tables.branches(MANIFEST_PATH))


def delete_graph(stores: Stores) -> None:
    """Remove every trace of a graph, rows included."""
    # The schema's files go last: until then the place still says what it was.
    for tree in _TREES:
        stores.objects.delete_prefix(tree)
    for name in (STAGED_FILE, *FILES):
        stores.objects.delete(name)


def create_table(declared: NodeType | EdgeType, *, path: str, stores: Stores) -> Entry:
    """An empty table for a type, at a place that no history names."""
    if stores.tables.find_head(TableRef(path, None)) is not None:
        # What a creation that failed has left; nobody reads it.
        stores.objects.delete_prefix(path)
    at = stores.tables.create(path, table_schema(declared).empty_table(), config={})
    return Entry(table_key_of(declared), path, at.version, None, 0)


def place_of(declared: NodeType | EdgeType) -> str:
    """Where the table of a type lies that is created under its present name."""
    return f"{declared.kind}s/{fnv1a_64(declared.name):016x}"


def _create_manifest(entries: list[Entry], genesis: Commit, stores: Stores) -> None:
    changes: list[Change] = [Register(entry.table_key, entry.path) for entry in entries]
    changes += [Update(entry, stores.tables.describe(entry.at)) for entry in entries]
    if stores.tables.find_head(manifest_ref(MAIN)) is not None:
        stores.objects.delete_prefix(MANIFEST_PATH)
    rows = encode_manifest(changes, genesis, after=None)
    stores.tables.create(MANIFEST_PATH, rows, config=TABLE_CONFIG)


def _genesis(schema_hash: str, runtime: Runtime) -> Commit:
    return Commit(
        id=runtime.new_id(),
        branch=MAIN,
        parent_id=None,
        merged_parent_id=None,
        actor=None,
        created_at=runtime.now(),
        manifest_version=1,
        schema_hash=schema_hash,
    )


def _types_of(catalog: Catalog) -> list[NodeType | EdgeType]:
    return sorted(catalog.stored_types(), key=table_key_of)


def _exists(uri: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        kind="graph",
        name=uri,
        advice="open it, or start over by force, which deletes it",
    )
