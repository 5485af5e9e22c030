"""The graph that a command is about, once it is known how to reach it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class StoreTarget:
    """A graph whose storage this process opens itself; `uri` is as it was typed."""

    uri: str

    @property
    def is_local(self) -> bool:
        """Whether the storage is a folder of this machine."""
        return "://" not in self.uri or self.uri.lower().startswith("file://")

    @property
    def access(self) -> str:
        """How the graph is reached, as the echo of a write says it."""
        return "direct, local" if self.is_local else "direct, remote"


@dataclass(frozen=True, slots=True)
class ServedTarget:
    """A graph of a server; without `graph_id` the server itself is taken for the graph."""

    base_url: str
    graph_id: str | None
    token: str | None = field(repr=False)

    @property
    def url(self) -> str:
        """Where the graph is."""
        if self.graph_id is None:
            return self.base_url
        return f"{self.base_url}/graphs/{quote(self.graph_id, safe='')}"

    @property
    def uri(self) -> str:
        """What payloads show."""
        return self.url

    @property
    def is_local(self) -> bool:
        """A server is asked before something is destroyed, wherever it runs."""
        return False

    @property
    def access(self) -> str:
        """How the graph is reached, as the echo of a write says it."""
        return "served"


Target: TypeAlias = StoreTarget | ServedTarget
