"""Clusters that a command line names, as they were applied: where their graphs are.

Promises that what the control plane has to tell ends as an error of the command line. The cluster's
code brings the engine with it, so it is imported when a cluster is opened. Does not know who asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.cli.refusals import CommandError
from omnigraph.cli.scopes import ClusterScope, is_http
from omnigraph.cluster.findings import StoppedError
from omnigraph.model.deferred import defer
from omnigraph.model.source import Severity
from omnigraph.storage.environment import make_storage_options

if TYPE_CHECKING:
    from omnigraph.cluster import applied, world
else:
    # Upkeep of a graph that is named by its storage does without.
    applied = defer("omnigraph.cluster.applied")
    world = defer("omnigraph.cluster.world")


def open_applied(root: str, environment: Mapping[str, str]) -> world.Cluster:
    """The cluster at a folder or uri, with its storage where its configuration says."""
    if is_http(root):
        raise CommandError(
            f"'{root}' is a server; a cluster is named by its folder, or by the uri of its storage"
        )
    if "://" not in root and not Path(root).is_dir():
        raise CommandError(
            f"there is no cluster '{root}': --cluster takes a folder with cluster.yaml, the uri of "
            "a cluster's storage, or a name under `clusters:` in the configuration"
        )
    options = make_storage_options(environment, {})
    with telling_findings():
        return world.open_cluster(
            root, world.make_world(storage_options=options, durability="full")
        )


def find_graph_uri(scope: ClusterScope, environment: Mapping[str, str]) -> str:
    """Where the graph is that a scope means; without an id, the only one that was applied."""
    cluster = open_applied(scope.root, environment)
    with telling_findings():
        return applied.get_graph_uri(cluster, scope.graph)


@contextmanager
def telling_findings() -> Iterator[None]:
    """A block in which whatever stops the control plane becomes an error of the command line."""
    try:
        yield
    except StoppedError as error:
        told = [each for each in error.findings if each.severity is Severity.ERROR]
        match told:
            case [only]:
                raise CommandError(only.message) from error
            case _:
                lines = [f"{each.path}: {each.message}" for each in told]
                raise CommandError("\n  ".join(["the cluster cannot be used:", *lines])) from error
