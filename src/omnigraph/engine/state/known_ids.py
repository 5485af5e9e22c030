"""The ids of tables, kept in memory so that "is this id there" costs no scan.

A table that takes many small commits is many small files until it is optimized, and a look-up
without an index reads all of them. What is kept belongs to one version of a table and follows this
process's own commits; for any other version the answer is "unknown", never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from omnigraph.model.limits import KNOWN_IDS_MAX
from omnigraph.storage.ports import TableRef, TableVersion


@dataclass(slots=True)
class _Known:
    version: int
    ids: set[str] | None
    probes: int


class KnownIds:
    """Which ids the newest versions of tables hold, as far as this process knows."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[TableRef, _Known] = {}

    def is_known(self, at: TableVersion) -> bool:
        """Whether the ids of a version are kept."""
        return self.find(at, ()) is not None

    def find(self, at: TableVersion, ids: Iterable[str]) -> set[str] | None:
        """Those of the ids that a version holds; None if that is not known."""
        with self._lock:
            known = self._known.get(at.ref)
            if known is None or known.version != at.version or known.ids is None:
                return None
            return known.ids.intersection(ids)

    def is_worth_learning(self, at: TableVersion) -> bool:
        """Whether a version has been asked about before: one question alone is not worth a scan."""
        with self._lock:
            known = self._known.get(at.ref)
            if known is None or known.version > at.version:
                self._known[at.ref] = _Known(at.version, None, 1)
                return False
            known.version, known.ids = at.version, None
            known.probes += 1
            return known.probes > 1

    def learn(self, at: TableVersion, ids: Iterable[str]) -> None:
        """Keep all ids of a version."""
        with self._lock:
            self._known[at.ref] = _Known(at.version, set(ids), 1)

    def follow(
        self, old: TableVersion, new: TableVersion, *, added: Iterable[str], removed: Iterable[str]
    ) -> None:
        """Carry what is known of one version over to the next one that this process made."""
        with self._lock:
            known = self._known.get(old.ref)
            if known is None or known.version != old.version or known.ids is None:
                return
            if new.ref != old.ref:
                # The first write of a branch: the line it forked from goes on without it.
                known = self._known[new.ref] = _Known(new.version, set(known.ids), known.probes)
            assert known.ids is not None
            known.ids.difference_update(removed)
            known.ids.update(added)
            known.version = new.version
            if len(known.ids) > KNOWN_IDS_MAX:
                del self._known[new.ref]

    def forget_all(self) -> None:
        """Drop everything that is known."""
        with self._lock:
            self._known.clear()

    def forget(self, ref: TableRef) -> None:
        """Drop what is known of a table."""
        with self._lock:
            self._known.pop(ref, None)
