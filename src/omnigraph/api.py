"""The entry points of the package: `omnigraph.init`, `open`, `relocate` and `connect`.

They are separate from the root module so that `import omnigraph` loads no storage library.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph.embed.profiles import is_configured
from omnigraph.embed.providers import find_embedder
from omnigraph.engine.graph import Graph, init_graph, open_graph, relocate_graph
from omnigraph.engine.input.csv_files import CsvFile
from omnigraph.engine.maintenance.repair import RelocationReport
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.read.expand import TraversalMode, parse_lookups
from omnigraph.engine.settings import (
    Settings,
    make_settings,
    parse_cache_bytes,
    parse_load_concurrency,
)
from omnigraph.model.limits import TIMEOUT_S
from omnigraph.model.names import parse_word
from omnigraph.model.ports import Gate
from omnigraph.storage.environment import make_storage_options
from omnigraph.storage.external_files import parse_external_blobs

if TYPE_CHECKING:
    from omnigraph.client.remote import RemoteGraph
    from omnigraph.policy.bundle import Bundle

__all__ = ["CallLimits", "CsvFile", "Graph", "connect", "init", "open", "relocate"]


def init(
    uri: str | os.PathLike[str],
    schema: str,
    force: bool = False,  # noqa: FBT001, FBT002  # the published signature
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
    external_blobs: Iterable[str] = (),
) -> Graph:
    """Create a graph at a path or a `file://`, `s3://` or `memory://` URI, and open it.

    A folder that contains anything other than a graph is rejected. `force` deletes an existing
    graph at this location, including its rows and history, but no other files in the folder.
    `external_blobs` is as for `open`.
    """
    settings = _make_settings(uri, storage_options, durability, external_blobs)
    return init_graph(settings, schema=schema, is_forced=force)


def open(
    uri: str | os.PathLike[str],
    read_only: bool = False,  # noqa: FBT001, FBT002  # the published signature
    actor: str | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
    external_blobs: Iterable[str] = (),
    policy: str | os.PathLike[str] | Bundle | None = None,
) -> Graph:
    """Open a graph; `actor` is the default author of its commits.

    `external_blobs` lists the locations, `file:///folder` or `s3://bucket/prefix`, below which
    blobs may be given as references; the referenced content is read and stored. `policy` is a YAML
    or `.cedar` file that defines what `actor` may do; no call can then name a different actor.
    """
    settings = _make_settings(uri, storage_options, durability, external_blobs)
    if policy is not None:
        settings = replace(settings, gate=_open_gate(policy))
    return open_graph(settings, actor=actor, is_read_only=read_only)


def relocate(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
) -> list[RelocationReport]:
    """Make the branches of a moved or copied graph refer to the files of the graph at `uri`.

    Returns a report for each branch that referred to another location; the list is empty if there
    was nothing to do. Rows, versions and history do not change. After an interruption, call it
    again.
    """
    return relocate_graph(_make_settings(uri, storage_options, durability, ()))


def connect(
    url: str, graph: str | None = None, token: str | None = None, *, timeout_s: float = TIMEOUT_S
) -> RemoteGraph:
    """Connect to a graph on a server; no request is sent yet.

    `graph` is the name of the graph on the server; it is `default` if the server was started for
    one graph. `token` authenticates the caller. `timeout_s` limits how long each call waits for its
    response to begin.
    """
    # Imported by name, because most programs do not use HTTP.
    part = import_module("omnigraph.client.remote")
    reached: RemoteGraph = part.connect(url, graph, token, timeout_s=timeout_s)
    return reached


def _open_gate(policy: str | os.PathLike[str] | Bundle) -> Gate:
    # Imported by name, because Cedar and YAML are slow to import and most programs do not need
    # them.
    part = import_module("omnigraph.policy.gate")
    gate: Gate = part.open_gate(policy, kind=part.BundleKind.GRAPH, graph_id="default")
    return gate


def _make_settings(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    durability: str,
    external_blobs: Iterable[str],
) -> Settings:
    options = make_storage_options(os.environ, storage_options or {})
    settings = make_settings(uri, storage_options=options, durability=durability)
    return replace(
        settings,
        embedder=find_embedder(os.environ),
        embeds_on_write=is_configured(os.environ),
        external_blobs=parse_external_blobs(
            external_blobs, storage_options=settings.location.storage_options
        ),
        # A name, because PySpark takes a second to import and most programs do not need it.
        spark_package="omnigraph.spark",
        traversal=parse_word(
            TraversalMode,
            os.environ.get("OMNIGRAPH_TRAVERSAL_MODE", "auto"),
            subject="OMNIGRAPH_TRAVERSAL_MODE",
        ),
        lookups=parse_lookups(os.environ),
        load_concurrency=parse_load_concurrency(os.environ),
        cache_bytes_max=parse_cache_bytes(os.environ),
    )
