"""What the calls of a graph return: plain frozen values, the same embedded and remote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class MutationResult:
    """How many nodes and edges the statements touched; no commit if nothing changed."""

    affected_nodes: int
    affected_edges: int
    commit_id: str | None


@dataclass(frozen=True, slots=True)
class LoadResult:
    """How many rows of each type came in, by what engine, as which commit."""

    nodes_loaded: Mapping[str, int]
    edges_loaded: Mapping[str, int]
    commit_id: str | None
    branch: str
    base_branch: str | None
    branch_created: bool
    engine: str


class TableState(NamedTuple):
    """One type in a snapshot: its Lance table at `path`, opened at `version`, is what counts."""

    version: int
    branch: str | None
    row_count: int
    path: str
