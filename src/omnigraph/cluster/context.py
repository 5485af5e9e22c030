"""`ClusterContext`, the opened `Cluster`, and the graphs of a cluster in storage.

This is the only module of the package that uses the engine. Clock, ids and stores are fields of the
context, so a test can replace each of them. Observing a graph changes nothing and classifies it as
absent, unfinished, broken or live. The applied state is not known here.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from omnigraph.cluster.config import CONFIG_FILE, ClusterConfig
from omnigraph.cluster.desired import read_config
from omnigraph.cluster.lock import Lock
from omnigraph.cluster.resources import Findings, StoppedError, digest_bytes, stopped
from omnigraph.cluster.state import STATE_PATH
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.engine.graph import Graph
from omnigraph.engine.ops.create import create_graph, delete_graph, has_history, is_graph
from omnigraph.engine.settings import Settings, make_settings, open_stores
from omnigraph.model.errors import CorruptError, GraphError, UnavailableError
from omnigraph.model.names import MAIN
from omnigraph.model.runtime import Runtime, SystemRuntime
from omnigraph.model.source import Source
from omnigraph.storage.environment import expand_home
from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import ObjectStore, Stores

GRAPHS_PREFIX = "graphs"


@dataclass(frozen=True, slots=True)
class Absent:
    """The graph does not exist."""


@dataclass(frozen=True, slots=True)
class UnfinishedGraph:
    """A graph without a history: its creation never finished, so it cannot have been written to."""

    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A graph that exists but cannot be opened, and may contain rows."""

    reason: str


@dataclass(frozen=True, slots=True)
class Live:
    """A graph at the head of main; `meaning` is the hash of the compiled schema."""

    schema: str
    digest: str
    meaning: str
    manifest_version: int

    def is_of(self, digest: str | None, meaning: object) -> bool:
        """Whether the graph has a schema, by equal text or by equal meaning."""
        return digest is not None and (digest == self.digest or meaning == self.meaning)


Observation: TypeAlias = Absent | UnfinishedGraph | Broken | Live


@dataclass(frozen=True, slots=True)
class ClusterGraphs:
    """The graphs below a root; `objects` is the object store of the root."""

    root: Location
    objects: ObjectStore
    durability: str
    open_stores: Callable[[Settings], Stores]

    def uri_of(self, id: str) -> str:
        """The URI of a graph."""
        return f"{self.root.uri.rstrip('/')}/{_path_of(id)}"

    def observe(self, id: str) -> Observation:
        """Inspect a graph; raises `UnavailableError` only if storage does not respond."""
        if not self.holds_anything(id):
            return Absent()
        settings, stores = self._open(id)
        if not is_graph(stores):
            return Absent()
        try:
            with Graph(settings, stores, actor=None, is_read_only=True) as graph:
                return _look(graph)
        except UnavailableError:
            raise
        except GraphError as error:
            try:
                is_unfinished = not has_history(stores)
            except CorruptError:
                is_unfinished = False
            return UnfinishedGraph(str(error)) if is_unfinished else Broken(str(error))

    def holds_anything(self, id: str) -> bool:
        """Whether anything is stored at the location of a graph, even a single file."""
        return f"{id}.omni" in self.objects.list(GRAPHS_PREFIX).prefixes

    def create(self, id: str, schema: Source) -> Live:
        """Durable effects: create an empty graph."""
        settings, stores = self._open(id)
        create_graph(
            uri=settings.location.uri,
            source=schema.text,
            catalog=compile_schema(schema),
            stores=stores,
            runtime=settings.runtime,
            failpoints=settings.failpoints,
            is_replacing=False,
        )
        with Graph(settings, stores, actor=None, is_read_only=True) as graph:
            return _look(graph)

    def apply_schema(self, id: str, schema: Source, *, actor: str | None) -> Live:
        """Durable effects: change the schema of a graph; dropped values remain in its history."""
        settings, stores = self._open(id)
        with Graph(settings, stores, actor=actor, is_read_only=False) as graph:
            graph.refresh()
            graph.apply_schema(schema.text, allow_data_loss=False)
            return _look(graph)

    def find_blockers(self, id: str, schema: Source) -> tuple[str, ...]:
        """Reasons other than unsupported steps for which `apply_schema` would be rejected."""
        settings, stores = self._open(id)
        with Graph(settings, stores, actor=None, is_read_only=True) as graph:
            return graph.plan_schema(schema.text).blockers

    def clear(self, id: str) -> None:
        """Durable effects: delete the remains of a graph whose creation never finished."""
        _, stores = self._open(id)
        delete_graph(stores)

    def delete(self, id: str) -> None:
        """Durable effect: delete a graph with its rows and its history."""
        self.objects.delete_prefix(_path_of(id))

    def _open(self, id: str) -> tuple[Settings, Stores]:
        options: Mapping[str, str] = self.root.storage_options
        settings = make_settings(
            self.uri_of(id), storage_options=options, durability=self.durability
        )
        return settings, self.open_stores(settings)


def _path_of(id: str) -> str:
    return f"{GRAPHS_PREFIX}/{id}.omni"


def _look(graph: Graph) -> Live:
    source = graph.schema_source
    return Live(
        schema=source,
        digest=digest_bytes(source.encode()),
        meaning=hash_schema(compile_schema(Source("<accepted>", source))),
        manifest_version=graph.snapshot(MAIN).commit.manifest_version,
    )


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """The clock, ids and stores of commands, and the identity of this process."""

    runtime: Runtime
    storage_options: Mapping[str, str]
    durability: str
    process_id: int
    host: str
    open_objects: Callable[[Location], ObjectStore]
    open_stores: Callable[[Settings], Stores]


@dataclass(frozen=True, slots=True)
class Cluster:
    """An open cluster: its control objects and its graphs."""

    root: Location
    objects: ObjectStore
    graphs: ClusterGraphs
    context: ClusterContext

    def now(self) -> str:
        """The current timestamp, in its stored form."""
        return self.context.runtime.now().isoformat().replace("+00:00", "Z")

    def make_lock(self, operation: str, *, actor: str | None) -> Lock:
        """A lock for this process."""
        return Lock(
            id=self.context.runtime.new_id(),
            operation=operation,
            created_at=self.now(),
            process_id=self.context.process_id,
            host=self.context.host,
            actor=actor,
        )


def make_context(*, storage_options: Mapping[str, str], durability: str) -> ClusterContext:
    """The context of an ordinary process."""
    return ClusterContext(
        runtime=SystemRuntime(),
        storage_options=storage_options,
        durability=durability,
        process_id=os.getpid(),
        host=socket.gethostname(),
        open_objects=lambda location: open_objects(location, is_durable=durability == "full"),
        open_stores=open_stores,
    )


def open_configured(config: ClusterConfig, folder: Path, context: ClusterContext) -> Cluster:
    """The cluster of a configuration; raises `StoppedError` if its location is invalid."""
    storage = config.storage or ""
    place = storage if "://" in storage else str(folder / storage)
    return open_root(place, context, code="invalid_storage_root")


def open_root(uri: str, context: ClusterContext, *, code: str) -> Cluster:
    """The cluster at a URI or path; raises `StoppedError` if that is invalid."""
    try:
        root = parse_location(uri, storage_options=context.storage_options)
        objects = context.open_objects(root)
    except GraphError as error:
        raise stopped(code, "storage", str(error)) from error
    graphs = ClusterGraphs(root, objects, context.durability, context.open_stores)
    return Cluster(root, objects, graphs, context)


def open_cluster(place: str, context: ClusterContext) -> Cluster:
    """The cluster of a location given by a user.

    The location is the URI or folder of the storage, or a folder with a configuration. Raises
    `StoppedError`, with all findings, if the configuration of the folder cannot be used.
    """
    folder = expand_home(place)
    if "://" in place or ((folder / STATE_PATH).is_file() and not (folder / CONFIG_FILE).is_file()):
        return open_root(place, context, code="storage_root_invalid")
    findings = Findings()
    try:
        config = read_config(folder, findings)
        # A misspelled `storage` would otherwise open another cluster.
        findings.require_no_errors()
    except StoppedError:
        raise StoppedError(*findings) from None
    return open_configured(config, folder, context)
