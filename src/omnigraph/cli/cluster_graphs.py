"""Graphs that a cluster manages are told from others by where they are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module

from omnigraph.cli.refusals import CommandError
from omnigraph.storage.environment import make_storage_options
from omnigraph.storage.locations import parse_location

_GRAPH_OF_CLUSTER = re.compile(r"(?P<root>.*)/graphs/[^/]+\.omni/*")
_STATE = "__cluster/state.json"


def require_unmanaged(uri: str, *, deed: str, environment: Mapping[str, str]) -> None:
    """Refuse to do by hand what a cluster does with its graphs; nothing is created."""
    found = _GRAPH_OF_CLUSTER.fullmatch(parse_location(uri, storage_options={}).uri)
    if found is None:
        return
    # By its name, because it takes a while to import, and few graphs are in such a place.
    objects = import_module("omnigraph.storage.objects")
    options = make_storage_options(environment, {})
    root = parse_location(found["root"] or "/", storage_options=options)
    if objects.open_objects(root, is_durable=True).find(_STATE) is not None:
        raise CommandError(
            f"{uri} belongs to the cluster at {root.uri}, so {deed} is not done here; nothing was "
            "changed; edit cluster.yaml there and run `omnigraph cluster apply`"
        )
