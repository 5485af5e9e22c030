"""Who makes vectors, as the environment of a program or a profile says.

The environment is given, not read. Nothing is asked of anybody yet: a provider that cannot be asked
as it is configured says so when a text is to be embedded, because most calls embed none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph.embed.formats import Vectors
from omnigraph.embed.mock import MockEmbedder
from omnigraph.embed.profiles import CONFIGURING, EmbeddingProfile, ProviderKind, parse_profile
from omnigraph.embed.remote import RemoteEmbedder
from omnigraph.model.embedding import Embedder
from omnigraph.model.errors import EmbeddingError
from omnigraph.model.runtime import SystemClock


def find_embedder(environment: Mapping[str, str]) -> Embedder:
    """The embedder that an environment describes; a mistake in it is told at its first use."""
    try:
        profile = parse_profile(environment)
    except EmbeddingError as error:
        return Misconfigured(error.reason)
    return open_embedder(profile)


def open_embedder(profile: EmbeddingProfile) -> Embedder:
    """The embedder of a profile."""
    if profile.kind is ProviderKind.MOCK:
        return MockEmbedder(profile.model)
    return RemoteEmbedder(profile, SystemClock())


@dataclass(frozen=True, slots=True)
class Misconfigured:
    """An embedder that cannot embed, and says why whatever it is asked."""

    reason: str

    @property
    def model(self) -> str:
        """None can be told."""
        raise self._error()

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:  # noqa: ARG002
        """No vector."""
        raise self._error()

    def embed_many(self, texts: Sequence[str], dimension: int) -> Vectors:  # noqa: ARG002
        """No vectors."""
        raise self._error()

    def _error(self) -> EmbeddingError:
        return EmbeddingError(action=CONFIGURING, reason=self.reason)
