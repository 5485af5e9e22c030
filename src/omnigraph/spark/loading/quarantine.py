"""Rejected rows of a load, written to the side: the rows, as they can be loaded again, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from omnigraph.spark.loading.refusals import PlacedRow
from omnigraph.storage.locations import parse_location
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import ObjectStore

_ROWS, _REASONS = "rejected.ndjson", "reasons.ndjson"
_PREFIX = "__quarantine"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A folder for the rejected rows of one load, which need not exist yet."""

    objects: ObjectStore
    prefix: str
    location: str

    def write(self, rejected: Sequence[PlacedRow]) -> None:
        """Write the rows, and for each line of them why it was rejected."""
        self.objects.put(f"{self.prefix}/{_ROWS}", _join(row.original for row in rejected))
        reasons = (
            orjson.dumps(
                {
                    "place": row.place,
                    "type": row.type,
                    "rule": row.reason.rule,
                    "message": row.reason.message,
                }
            ).decode()
            for row in rejected
        )
        self.objects.put(f"{self.prefix}/{_REASONS}", _join(reasons))

    def remove(self) -> None:
        """Remove what was written."""
        self.objects.delete_prefix(self.prefix)


def open_quarantine(
    given: str | None,
    *,
    graph: ObjectStore,
    root: str,
    id: str,
    storage_options: Mapping[str, str],
    is_durable: bool,
) -> Quarantine:
    """The folder for a load: one that the caller names, else one beside the graph's rows."""
    if given is None:
        prefix = f"{_PREFIX}/{id}"
        return Quarantine(graph, prefix, f"{root}/{prefix}")
    place = parse_location(given, storage_options=storage_options)
    return Quarantine(open_objects(place, is_durable=is_durable), id, f"{place.root}/{id}")


def _join(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
