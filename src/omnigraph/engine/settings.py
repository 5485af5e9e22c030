"""The configuration of a graph, and the stores that are created from it.

This is the only module that creates concrete stores. It reads no environment variables; the
program's entry points do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.engine.read.budget import Allowance
from omnigraph.engine.read.expand import DEFAULT_LOOKUPS, LookupBounds, TraversalMode
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.limits import (
    CACHE_BYTES_LEAST,
    CACHE_BYTES_MAX,
    CACHE_BYTES_MOST,
    LEASE_S,
    LOAD_CONCURRENCY_MAX,
    LOAD_CONCURRENCY_USUAL_MAX,
    QUERY_BYTES_MAX,
    QUERY_SECONDS_MAX,
)
from omnigraph.model.ports import Embedder, Gate, NoObserver, Observer
from omnigraph.model.runtime import Runtime, SystemClock, SystemRuntime
from omnigraph.storage import tables
from omnigraph.storage.external_files import NO_EXTERNAL_BLOBS, ExternalBlobs
from omnigraph.storage.failpoints import Failpoints, NoFailpoints
from omnigraph.storage.locations import Location, parse_location
from omnigraph.storage.locks import THIS_PROCESS, Locking
from omnigraph.storage.ports import Stores

LOAD_CONCURRENCY_VARIABLE = "OMNIGRAPH_LOAD_CONCURRENCY"
CACHE_BYTES_VARIABLE = "OMNIGRAPH_CACHE_BYTES_MAX"


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of a graph: location, clocks, limits, embedding, Spark, policy and faults.

    With `embeds_on_write`, a write fills empty `@embed` properties unless the call specifies
    otherwise. `load_concurrency` is the number of types that a load writes at a time,
    and `cache_bytes_max` bounds the memory for cached values.
    `external_blobs` determines which references to blobs are followed. `gate` decides which actor
    may do what, and `observer` is notified of phases and events.
    """

    location: Location
    is_durable: bool
    runtime: Runtime
    failpoints: Failpoints
    locking: Locking
    embedder: Embedder | None
    embeds_on_write: bool
    traversal: TraversalMode
    lookups: LookupBounds
    allowance: Allowance
    load_concurrency: int
    cache_bytes_max: int
    external_blobs: ExternalBlobs
    spark_package: str | None
    gate: Gate | None
    observer: Observer


def make_settings(
    uri: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None, durability: str
) -> Settings:
    """The default settings for a location.

    Raises `InvalidValueError` if the durability is not `full` or `relaxed`.
    """
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
        failpoints=NoFailpoints(),
        locking=Locking(THIS_PROCESS, SystemClock(), LEASE_S),
        embedder=None,
        embeds_on_write=False,
        traversal=TraversalMode.AUTO,
        lookups=DEFAULT_LOOKUPS,
        allowance=Allowance(QUERY_BYTES_MAX, QUERY_SECONDS_MAX, time.monotonic),
        # The program's entry point knows how many threads it may use.
        load_concurrency=1,
        cache_bytes_max=CACHE_BYTES_MAX,
        external_blobs=NO_EXTERNAL_BLOBS,
        spark_package=None,
        gate=None,
        observer=NoObserver(),
    )


def parse_load_concurrency(environment: Mapping[str, str]) -> int:
    """The number of types that a load writes at a time, from an environment variable.

    The default is one per processor, up to a bound. Raises `InvalidValueError` for a value that is
    not a whole number in the allowed range.
    """
    usual = min(os.cpu_count() or 1, LOAD_CONCURRENCY_USUAL_MAX)
    return _parse_number(
        environment, LOAD_CONCURRENCY_VARIABLE, usual, least=1, most=LOAD_CONCURRENCY_MAX
    )


def parse_cache_bytes(environment: Mapping[str, str]) -> int:
    """The memory for cached values in bytes, from an environment variable.

    Raises `InvalidValueError` for a value that is not a whole number in the allowed range.
    """
    return _parse_number(
        environment,
        CACHE_BYTES_VARIABLE,
        CACHE_BYTES_MAX,
        least=CACHE_BYTES_LEAST,
        most=CACHE_BYTES_MOST,
    )


def _parse_number(
    environment: Mapping[str, str], name: str, usual: int, *, least: int, most: int
) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return usual
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not is_number or not least <= int(text) <= most:
        raise InvalidValueError(
            subject=name,
            expected=f"a whole number from {least} to {most}",
            value=text,
            problem=f"{text!r} is not a whole number from {least} to {most}",
        )
    return int(text)


def open_stores(settings: Settings) -> Stores:
    """Open the stores of a location."""
    return tables.open_stores(settings.location, is_durable=settings.is_durable)
