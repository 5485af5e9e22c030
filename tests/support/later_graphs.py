"""Graphs with a clock that is ahead: the same graph, opened as if some time had passed.

A version is retained for a while after another replaced it, so a clean-up right after a write finds
little to do. The clock of a graph opened here is later than the real one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import lance

from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.maintenance.cleanup import CleanupReport
from omnigraph.engine.settings import make_settings
from omnigraph.model.runtime import SystemRuntime
from tests.support.failpoints import Failpoints
from tests.support.graphs import root_of

A_DAY_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class LaterRuntime:
    """A runtime whose clock is ahead."""

    ahead_s: float
    runtime: SystemRuntime

    def now(self) -> datetime:
        """The current time and some more."""
        return self.runtime.now() + timedelta(seconds=self.ahead_s)

    def new_id(self) -> str:
        """As the system runtime does."""
        return self.runtime.new_id()

    def new_ids(self, count: int) -> list[str]:
        """As the system runtime does."""
        return self.runtime.new_ids(count)


def open_later(
    root: Path | str,
    *,
    ahead_s: float = A_DAY_S,
    failpoints: Failpoints | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Graph:
    """The graph of a place, opened with a clock that is a day ahead."""
    settings = make_settings(str(root), storage_options=storage_options, durability="relaxed")
    later = replace(
        settings,
        runtime=LaterRuntime(ahead_s, SystemRuntime()),
        failpoints=failpoints or Failpoints(),
    )
    return open_graph(later, actor=None, is_read_only=False)


def clean_later(graph: Graph, *, keep: int = 1) -> Mapping[str, CleanupReport]:
    """Clean a graph up when everything in it is old; the reports by type."""
    reports = open_later(root_of(graph)).cleanup(keep=keep)
    return {report.type: report for report in reports}


def versions(graph: Graph, table_key: str, *, branch: str = "main") -> list[int]:
    """The existing versions of a type's table, on the table branch that a branch names."""
    found = lance.dataset(graph.tables(branch)[table_key].path).version_refs()
    return sorted(each["version"] for each in found)
