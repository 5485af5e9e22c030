"""The history of a graph as a picture for notebooks and files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.drawing.history import History, draw_svg, make_history, plain_text
from omnigraph.model.limits import PICTURE_COMMITS_MAX
from omnigraph.storage.environment import expand_home

if TYPE_CHECKING:
    from omnigraph.client.remote import AnyGraph


class HistoryPicture:
    """A drawn history: SVG where pictures are supported, text elsewhere."""

    def __init__(self, history: History) -> None:
        self._history = history

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to an SVG file."""
        expand_home(path).write_text(draw_svg(self._history), encoding="utf-8")

    def __repr__(self) -> str:
        return plain_text(self._history).rstrip("\n")

    def _repr_svg_(self) -> str:
        return draw_svg(self._history)

    def _repr_html_(self) -> str:
        # Inline in the page, rather than as a separate image, text inherits the page's colour.
        return draw_svg(self._history)


def draw(
    graph: AnyGraph, branches: Sequence[str] | None = None, *, limit: int = PICTURE_COMMITS_MAX
) -> HistoryPicture:
    """Draw the newest commits of some branches of a graph; all branches by default."""
    chosen = graph.branches() if branches is None else branches
    commits_by_branch = {branch: graph.commits(branch) for branch in chosen}
    return HistoryPicture(make_history(commits_by_branch, tags=graph.tags(), limit=limit))
