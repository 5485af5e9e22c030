"""Pins: what a task has to know to keep what it reads from being cleaned up while it reads.

A pin survives pickling. It is good for one version of a type, and for as long as a branch is the
one that it was: a version of the same name on a branch made anew is another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.readers import Readers
from omnigraph.engine.state.snapshot import Entry, Snapshot
from omnigraph.model.errors import NotFoundError
from omnigraph.spark.format.options import Place
from omnigraph.storage.ports import TransactionRecord


@dataclass(frozen=True, slots=True)
class Pin:
    """One version of a type. `made_by` tells it from another of its name; None on main, which
    nobody deletes."""

    place: Place
    snapshot: Snapshot
    made_by: TransactionRecord | None
    is_read_only: bool


def pin_entry(entry: Entry, snapshot: Snapshot, *, opened: OpenGraph) -> Pin:
    """What a task has to know of an entry of a snapshot."""
    location = opened.settings.location
    find = opened.stores.tables.find_transaction
    return Pin(
        # Where it is for all processes, also if it is called otherwise in this one.
        place=Place(location.root, location.storage_options),
        # The claim is on what is read.
        snapshot=Snapshot(snapshot.branch, snapshot.manifest_version, {entry.table_key: entry}),
        made_by=None if entry.branch is None else find(entry.at),
        is_read_only=opened.is_read_only,
    )


@contextmanager
def claimed(pin: Pin) -> Iterator[None]:
    """Keep a version from being cleaned up for the block.

    `NotFoundError` means that it was, or that its branch was deleted meanwhile.
    """
    options = pin.place.storage_options
    settings = make_settings(pin.place.uri, storage_options=options, durability="full")
    stores = open_stores(settings)
    if pin.is_read_only:
        # Who may not write leaves no claim either; what was true lately is kept for a while.
        yield
    else:
        readers = Readers(stores.objects, settings.locking.clock)
        with readers.reading(pin.snapshot, id=settings.runtime.new_id(), is_past=True):
            yield
    (entry,) = pin.snapshot
    if pin.made_by is not None and stores.tables.find_transaction(entry.at) != pin.made_by:
        raise NotFoundError(
            kind="branch",
            name=pin.snapshot.branch,
            advice="it was deleted or made anew meanwhile; compare again, with what is there now",
        )
