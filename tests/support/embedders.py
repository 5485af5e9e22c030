"""Embedding providers of tests: one that records its requests, and others that fail.

Executors import them from here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from omnigraph import Graph
from omnigraph.embed.providers import MockEmbedder
from omnigraph.engine.graph import open_graph
from omnigraph.engine.settings import make_settings
from omnigraph.model.ports import Embedder
from tests.support.graphs import root_of

TOO_SHORT = "a vector of one number"


@dataclass(frozen=True, slots=True)
class Listening:
    """The built-in provider, and what it was asked; one text it does not know enough about."""

    model: str = "A"
    requested: list[str] = field(default_factory=list)
    before: Callable[[], object] = str

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """As the built-in provider does."""
        self.requested.append(text)
        self.before()
        return MockEmbedder(self.model).embed(text, dimension)

    def embed_many(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
        """As the built-in provider does, shorter if it does not know enough about one."""
        made = np.array([self.embed(text, dimension) for text in texts], np.float32)
        return made[:, :1] if TOO_SHORT in texts else made


@dataclass(frozen=True, slots=True)
class Deadly:
    """A provider that takes the process that asks it with it."""

    model: str = "A"

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:  # noqa: ARG002
        """Nothing comes back."""
        os.kill(os.getpid(), signal.SIGKILL)
        return ()

    def embed_many(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
        """Nothing comes back."""
        return np.array([self.embed(text, dimension) for text in texts], np.float32)


def embedding(graph: Graph, embedder: Embedder | None) -> Graph:
    """The same graph, opened with a provider."""
    plain = make_settings(str(root_of(graph)), storage_options=None, durability="relaxed")
    settings = replace(plain, embedder=embedder, spark_package="omnigraph.spark")
    return open_graph(settings, actor=None, is_read_only=False)


def filling(graph: Graph, embedder: Embedder | None) -> Graph:
    """The same graph, opened with a provider that fills the empty vectors of every write."""
    plain = make_settings(str(root_of(graph)), storage_options=None, durability="relaxed")
    settings = replace(
        plain, embedder=embedder, embeds_on_write=True, spark_package="omnigraph.spark"
    )
    return open_graph(settings, actor=None, is_read_only=False)
