"""The graphs of a cluster as they are in storage: looked at, created, migrated and deleted.

The only module here that knows the engine. Every durable effect goes through stores that are given,
so that a test can cut each. Does not know what the ledger says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.cluster.digests import digest_bytes
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.schema.canonical import hash_schema
from omnigraph.engine.graph import Graph
from omnigraph.engine.ops.create import create_graph, delete_graph, has_history, is_graph
from omnigraph.engine.settings import Settings, make_settings
from omnigraph.model.errors import CorruptError, GraphError, UnavailableError
from omnigraph.model.names import MAIN
from omnigraph.model.source import Source
from omnigraph.storage.locations import Location
from omnigraph.storage.ports import ObjectStore, Stores

GRAPHS_PREFIX = "graphs"


@dataclass(frozen=True, slots=True)
class Absent:
    """No graph is there."""


@dataclass(frozen=True, slots=True)
class Remains:
    """A graph without a history: it was never finished, so nobody can have written to it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """Something is there that cannot be opened, and may hold rows."""

    reason: str


@dataclass(frozen=True, slots=True)
class Live:
    """A graph at the head of main; `meaning` is the hash of what its schema means."""

    schema: str
    digest: str
    meaning: str
    manifest_version: int

    def is_of(self, digest: str | None, meaning: object) -> bool:
        """Whether the graph has a schema, to the letter or in other words for the same."""
        return digest is not None and (digest == self.digest or meaning == self.meaning)


Observation: TypeAlias = Absent | Remains | Broken | Live


@dataclass(frozen=True, slots=True)
class ClusterGraphs:
    """The graphs below a root; `objects` are those of the root."""

    root: Location
    objects: ObjectStore
    durability: str
    open_stores: Callable[[Settings], Stores]

    def uri_of(self, id: str) -> str:
        """Where a graph is."""
        return f"{self.root.uri.rstrip('/')}/{_path_of(id)}"

    def observe(self, id: str) -> Observation:
        """What is there of a graph; raises `UnavailableError` only if storage does not answer."""
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
            return _judge(stores, str(error))

    def holds_anything(self, id: str) -> bool:
        """Whether anything is stored where a graph belongs, were it a single file."""
        return f"{id}.omni" in self.objects.list(GRAPHS_PREFIX).prefixes

    def create(self, id: str, schema: Source) -> Live:
        """Durable effects: make an empty graph."""
        settings, stores = self._open(id)
        create_graph(
            uri=settings.location.uri,
            source=schema.text,
            catalog=compile_schema(schema),
            stores=stores,
            runtime=settings.runtime,
            failpoints=settings.failpoints,
        )
        with Graph(settings, stores, actor=None, is_read_only=True) as graph:
            return _look(graph)

    def apply_schema(self, id: str, schema: Source, *, actor: str | None) -> Live:
        """Durable effects: give a graph another schema; what is dropped stays in its history."""
        settings, stores = self._open(id)
        with Graph(settings, stores, actor=actor, is_read_only=False) as graph:
            graph.refresh()
            graph.apply_schema(schema.text, allow_data_loss=False)
            return _look(graph)

    def clear(self, id: str) -> None:
        """Durable effects: take away what is left of a graph that never was."""
        _, stores = self._open(id)
        delete_graph(stores)

    def delete(self, id: str) -> None:
        """Durable effect: delete a graph, its rows and its history."""
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


def _judge(stores: Stores, reason: str) -> Remains | Broken:
    try:
        return Broken(reason) if has_history(stores) else Remains(reason)
    except CorruptError:
        return Broken(reason)
