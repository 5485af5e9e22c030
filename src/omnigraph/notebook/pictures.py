"""The history of a graph as a picture that a notebook shows, or that is kept as a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from omnigraph.client.calls import GraphCalls
from omnigraph.drawing.history import History, make_history
from omnigraph.drawing.history_svg import draw_svg
from omnigraph.drawing.history_text import plain_text
from omnigraph.drawing.limits import PICTURE_COMMITS_MAX


class HistoryPicture:
    """A history, drawn: as SVG where pictures are shown, as text elsewhere."""

    def __init__(self, history: History) -> None:
        self._history = history

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to an SVG file."""
        Path(path).write_text(draw_svg(self._history), encoding="utf-8")

    def __repr__(self) -> str:
        return plain_text(self._history).rstrip("\n")

    def _repr_svg_(self) -> str:
        return draw_svg(self._history)

    def _repr_html_(self) -> str:
        # Inside of the page, and not as an image beside it, text gets the colour of the page.
        return draw_svg(self._history)


def draw(
    graph: GraphCalls, branches: Sequence[str] | None = None, *, limit: int = PICTURE_COMMITS_MAX
) -> HistoryPicture:
    """Draw the newest commits of some branches of a graph, of all if none are named."""
    chosen = graph.branches() if branches is None else branches
    commits_by_branch = {branch: graph.commits(branch) for branch in chosen}
    return HistoryPicture(make_history(commits_by_branch, tags=graph.tags(), limit=limit))
