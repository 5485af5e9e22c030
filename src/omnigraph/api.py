"""The entry points of the package: `omnigraph.init` and `omnigraph.open`.

Apart from the root module so that `import omnigraph` loads no storage library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from omnigraph.engine.graph import Graph, init_graph, open_graph
from omnigraph.engine.settings import make_settings


def init(
    uri: str | os.PathLike[str],
    schema: str,
    force: bool = False,  # noqa: FBT001, FBT002  # the published signature
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
) -> Graph:
    """Create a graph at a path, `file://`, `s3://` or `memory://` uri, and open it.

    `force` deletes the graph that is there, rows and history included.
    """
    settings = make_settings(uri, storage_options=storage_options, durability=durability)
    return init_graph(settings, schema=schema, is_forced=force)


def open(
    uri: str | os.PathLike[str],
    read_only: bool = False,  # noqa: FBT001, FBT002  # the published signature
    actor: str | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
) -> Graph:
    """Open a graph; `actor` is who its commits are by unless a call says otherwise."""
    settings = make_settings(uri, storage_options=storage_options, durability=durability)
    return open_graph(settings, actor=actor, is_read_only=read_only)
