"""The history of a graph on a terminal: which commits, and which colours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from omnigraph.cli.terminal import Colour, Terminal
from omnigraph.drawing.history import History, make_history
from omnigraph.drawing.history_text import Role, draw_text

if TYPE_CHECKING:
    from omnigraph.client.calls import GraphCalls

_COLOUR_BY_ROLE: Mapping[Role, Colour] = MappingProxyType(
    {
        Role.ID: Colour.YELLOW,
        Role.BRANCH: Colour.GREEN,
        Role.TAG: Colour.CYAN,
        Role.TIME: Colour.FAINT,
        Role.LANES: Colour.BOLD,
    }
)


def read_history(graph: GraphCalls, *, branches: Sequence[str], limit: int | None) -> History:
    """The newest commits of some branches, or of all if none is named."""
    chosen = branches or graph.branches()
    return make_history(
        {branch: graph.commits(branch) for branch in chosen}, tags=graph.tags(), limit=limit
    )


def view_history(history: History, terminal: Terminal) -> Iterator[str]:
    """The history, line by line, as a terminal shows it."""
    for parts in draw_text(history):
        painted = (
            terminal.paint(part.text, colour)
            if (colour := _COLOUR_BY_ROLE.get(part.role)) is not None
            else part.text
            for part in parts
        )
        yield "".join(painted)
