"""The entry points of the package: `omnigraph.init`, `omnigraph.open` and `omnigraph.connect`.

Apart from the root module so that `import omnigraph` loads no storage library.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph.client.limits import TIMEOUT_S
from omnigraph.embed.providers import find_embedder
from omnigraph.engine.graph import Graph
from omnigraph.engine.opening import init_graph, open_graph
from omnigraph.engine.ops.reading.csv_files import CsvFile
from omnigraph.engine.read.access import TraversalMode, parse_lookups
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.settings import Settings, make_settings
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.policy import Gate
from omnigraph.storage.environment import make_storage_options
from omnigraph.storage.external_blobs import parse_external_blobs

if TYPE_CHECKING:
    from omnigraph.client.remote import RemoteGraph
    from omnigraph.policy.bundle import Bundle

__all__ = ["CallLimits", "CsvFile", "Graph", "connect", "init", "open"]


def init(
    uri: str | os.PathLike[str],
    schema: str,
    force: bool = False,  # noqa: FBT001, FBT002  # the published signature
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
    external_blobs: Iterable[str] = (),
) -> Graph:
    """Create a graph at a path, `file://`, `s3://` or `memory://` uri, and open it.

    `force` deletes the graph that is there, rows and history included; `external_blobs` is as for
    `open`.
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
    """Open a graph; `actor` is who its commits are by unless a call says otherwise.

    `external_blobs` are the places, `file:///folder` or `s3://bucket/prefix`, below which blobs
    may be given as references; what they name is then read and stored. `policy`, a YAML or `.cedar`
    file, says what `actor` may do, who then is the only one to call.
    """
    settings = _make_settings(uri, storage_options, durability, external_blobs)
    if policy is not None:
        settings = replace(settings, gate=_open_gate(policy))
    return open_graph(settings, actor=actor, is_read_only=read_only)


def connect(
    url: str, graph: str | None = None, token: str | None = None, *, timeout_s: float = TIMEOUT_S
) -> RemoteGraph:
    """Reach a graph that a server holds; nothing is asked of the server yet.

    `graph` is what the server calls it, `default` if it was started for one graph. `token` says who
    is asking. `timeout_s` is how long each call waits for its answer to begin.
    """
    # By its name, because most calls do without HTTP.
    part = import_module("omnigraph.client.connecting")
    reached: RemoteGraph = part.connect(url, graph, token, timeout_s=timeout_s)
    return reached


def _open_gate(policy: str | os.PathLike[str] | Bundle) -> Gate:
    # By its name, because Cedar and YAML take a while to import and most calls do without.
    part = import_module("omnigraph.policy.gate")
    gate: Gate = part.open_graph_gate(policy, graph_id="default")
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
        external_blobs=parse_external_blobs(
            external_blobs, storage_options=settings.location.storage_options
        ),
        # By its name, because PySpark takes a second to import and most calls do without.
        spark_package="omnigraph.spark",
        traversal=_parse_mode(os.environ.get("OMNIGRAPH_TRAVERSAL_MODE", "auto")),
        lookups=parse_lookups(os.environ),
    )


def _parse_mode(text: str) -> TraversalMode:
    if text not in tuple(TraversalMode):
        raise InvalidValueError(
            subject="OMNIGRAPH_TRAVERSAL_MODE",
            expected="auto, csr or indexed",
            value=text,
            problem=f"{text!r} is none of auto, csr and indexed",
        )
    return TraversalMode(text)
