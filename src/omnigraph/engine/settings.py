"""What the outside world gives a graph, and the stores that are built of it.

The only place that builds concrete stores. Reads no environment: whoever starts the program does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.engine.read.access import USUAL_LOOKUPS, LookupBounds, TraversalMode
from omnigraph.engine.read.budget import Allowance
from omnigraph.model.arguments import require_text
from omnigraph.model.embedding import Embedder
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import LEASE_S, QUERY_BYTES_MAX, QUERY_SECONDS_MAX
from omnigraph.model.observer import NoObserver, Observer
from omnigraph.model.policy import Gate
from omnigraph.model.runtime import Runtime, SystemClock, SystemRuntime
from omnigraph.storage.external_blobs import NO_EXTERNAL_BLOBS, ExternalBlobs
from omnigraph.storage.failpoints import Failpoints
from omnigraph.storage.lance_tables import LanceTables
from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.locks import THIS_PROCESS, Locking
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import Stores

__all__ = ["Settings", "make_settings", "open_stores", "require_text"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the outside world gives a graph: where it is, its clocks, how reads go about their
    work, which references to blobs are followed, what runs on Spark, who may do what, who watches,
    and faults on purpose."""

    location: Location
    is_durable: bool
    runtime: Runtime
    failpoints: Failpoints
    locking: Locking
    embedder: Embedder | None
    traversal: TraversalMode
    lookups: LookupBounds
    allowance: Allowance
    external_blobs: ExternalBlobs
    spark_package: str | None
    gate: Gate | None
    observer: Observer


def make_settings(
    uri: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None, durability: str
) -> Settings:
    """The settings of an ordinary caller."""
    if durability not in ("full", "relaxed"):
        raise InvalidValueError(
            subject="durability",
            expected="full or relaxed",
            value=durability,
            problem=f"{durability!r} is neither full nor relaxed",
        )
    return Settings(
        location=parse_location(os.fspath(uri), storage_options=storage_options or {}),
        is_durable=durability == "full",
        runtime=SystemRuntime(),
        failpoints=Failpoints(),
        locking=Locking(THIS_PROCESS, SystemClock(), LEASE_S),
        embedder=None,
        traversal=TraversalMode.AUTO,
        lookups=USUAL_LOOKUPS,
        allowance=Allowance(QUERY_BYTES_MAX, QUERY_SECONDS_MAX, time.monotonic),
        external_blobs=NO_EXTERNAL_BLOBS,
        spark_package=None,
        gate=None,
        observer=NoObserver(),
    )


def open_stores(settings: Settings) -> Stores:
    """The stores of a location."""
    location = settings.location
    return Stores(
        objects=open_objects(location, is_durable=settings.is_durable),
        tables=LanceTables(
            location.root,
            storage_options=location.storage_options,
            is_local=location.is_local,
            is_durable=settings.is_durable,
        ),
    )
