"""The entry points of the package: `omnigraph.init` and `omnigraph.open`.

Apart from the root module so that `import omnigraph` loads no storage library.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.engine.graph import Graph, init_graph, make_settings, open_graph


def init(
    uri: str,
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
    uri: str,
    read_only: bool = False,  # noqa: FBT001, FBT002  # the published signature
    actor: str | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: str = "full",
) -> Graph:
    """Open a graph; `actor` is who its commits are by unless a call says otherwise."""
    settings = make_settings(uri, storage_options=storage_options, durability=durability)
    return open_graph(settings, actor=actor, is_read_only=read_only)
