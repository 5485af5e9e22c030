"""How a route is declared: its method and path, what body it reads, who answers.

A path is matched as it was sent, percent-encoded, so that a name may hold `%2F`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.server.answers import Answer, Stream
from omnigraph.server.calls import Call

GRAPH = "/graphs/{graph_id}"
"""What the path of every route of a graph begins with."""


class Body(StrEnum):
    """What a route reads of a request."""

    NONE = "none"
    JSON = "json"
    OPTIONAL_JSON = "optional_json"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. `bytes_max` bounds the body."""

    method: str
    path: str
    body: Body
    bytes_max: int
    answer: Callable[[Call], Awaitable[Answer | Stream]]

    @property
    def operation(self) -> str:
        """What the route does, in few words: the parts of its path that are the same each time."""
        named = self.path.removeprefix(GRAPH).split("/")
        return ".".join(each for each in named if each and not each.startswith("{"))
