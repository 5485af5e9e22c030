"""What the outside world gives the control plane, and a cluster opened by it.

Decides where a cluster is: at a uri, or where the configuration of a folder says. Time, ids and
stores are given, so that a test can hold or cut each of them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.cluster.config import CONFIG_FILE, ClusterConfig
from omnigraph.cluster.desired import read_config
from omnigraph.cluster.findings import Findings, StoppedError, error_finding
from omnigraph.cluster.graphs import ClusterGraphs
from omnigraph.cluster.ledger import STATE_PATH
from omnigraph.cluster.lock import Lock
from omnigraph.engine.settings import Settings, open_stores
from omnigraph.model.errors import GraphError
from omnigraph.model.runtime import Runtime, SystemRuntime
from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import ObjectStore, Stores


@dataclass(frozen=True, slots=True)
class World:
    """Clock, ids, stores and the name of this process."""

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
    world: World

    def now(self) -> str:
        """This moment, as it is stored."""
        return self.world.runtime.now().isoformat().replace("+00:00", "Z")

    def make_lock(self, operation: str, *, actor: str | None) -> Lock:
        """A lock for this process."""
        return Lock(
            id=self.world.runtime.new_id(),
            operation=operation,
            created_at=self.now(),
            process_id=self.world.process_id,
            host=self.world.host,
            actor=actor,
        )


def make_world(*, storage_options: Mapping[str, str], durability: str) -> World:
    """The world of an ordinary process."""
    return World(
        runtime=SystemRuntime(),
        storage_options=storage_options,
        durability=durability,
        process_id=os.getpid(),
        host=socket.gethostname(),
        open_objects=lambda location: open_objects(location, is_durable=durability == "full"),
        open_stores=open_stores,
    )


def open_configured(config: ClusterConfig, folder: Path, world: World) -> Cluster:
    """The cluster of a configuration; stops if where it says is no place for one."""
    storage = config.storage
    if storage is None:
        return open_root(str(folder), world, code="invalid_storage_root")
    place = storage if "://" in storage else str(folder / storage)
    return open_root(place, world, code="invalid_storage_root")


def open_root(uri: str, world: World, *, code: str) -> Cluster:
    """The cluster at a place."""
    try:
        root = parse_location(uri, storage_options=world.storage_options)
        objects = world.open_objects(root)
    except GraphError as error:
        raise StoppedError(error_finding(code, "storage", str(error))) from error
    graphs = ClusterGraphs(root, objects, world.durability, world.open_stores)
    return Cluster(root, objects, graphs, world)


def open_cluster(place: str, world: World) -> Cluster:
    """The cluster that a person means: a uri or folder of its storage, or a folder with a
    configuration.

    Stops, with everything that is wrong, if the folder's configuration cannot be used.
    """
    if "://" in place or _is_bare_storage(Path(place)):
        return open_root(place, world, code="storage_root_invalid")
    findings = Findings()
    try:
        config = read_config(Path(place), findings)
        # A misspelt `storage` would otherwise lead to another cluster.
        findings.require_no_errors()
    except StoppedError:
        raise StoppedError(*findings) from None
    return open_configured(config, Path(place), world)


def _is_bare_storage(folder: Path) -> bool:
    """Whether a cluster is stored in a folder that does not declare one."""
    return (folder / STATE_PATH).is_file() and not (folder / CONFIG_FILE).is_file()
