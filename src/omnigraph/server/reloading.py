"""Serving what there is now in place of what there was, without a moment in between.

What cannot be served does not take the place of what is: a reload that is refused changes nothing.
Does not know where revisions come from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from omnigraph.model.errors import GraphError
from omnigraph.server.boot import Quarantined
from omnigraph.server.logs import Log
from omnigraph.server.serving import Revision, Serving
from omnigraph.server.settings import BootError


@dataclass(frozen=True, slots=True)
class Prepared:
    """A revision that is ready to be served, and the graphs that it lacks."""

    revision: Revision
    quarantined: tuple[Quarantined, ...]


class Reloader:
    """Reloads one at a time; safe to share between threads."""

    def __init__(
        self, serving: Serving, *, prepare: Callable[[Revision], Prepared], log: Log
    ) -> None:
        self._serving = serving
        self._prepare = prepare
        self._log = log
        self._lock = Lock()

    def reload(self) -> Prepared:
        """Serve what can be read now; `BootError`, and all stays as it was, if it cannot be."""
        with self._lock:
            try:
                prepared = self._prepare(self._serving.now)
            except (BootError, GraphError) as error:
                self._log.warning("reload refused", reason=str(error))
                raise BootError(str(error)) from error
            revision = prepared.revision
            self._serving.swap(revision)
            self._log.event("reloaded", revision=revision.number, graphs=sorted(revision.graphs))
            return prepared
