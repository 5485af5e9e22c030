"""Embedders: deterministic mock, remote provider with a vector cache, and their selection.

No connection is opened before the first text is embedded, and a configuration error is raised on
first use. Embedders are safe to share between threads, and an unpickled one opens new connections.
The cache holds vectors of query texts and is bounded in bytes. The environment is an argument, and
the HTTP client is imported on first use.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from omnigraph.embed.formats import (
    MalformedResponseError,
    Purpose,
    Vectors,
    format_of,
    make_vectors,
)
from omnigraph.embed.profiles import (
    CONFIGURING,
    MOCK_VARIABLE,
    EmbeddingProfile,
    ProviderKind,
    parse_profile,
)
from omnigraph.engine.read.budget import CacheMemory, LruCache
from omnigraph.model.errors import EmbeddingError
from omnigraph.model.limits import (
    REQUEST_BYTES_MAX,
    REQUEST_TEXTS_MAX,
    REQUESTS_AT_ONCE_MAX,
    VECTOR_CACHE_BYTES_MAX,
)
from omnigraph.model.names import fnv1a_64
from omnigraph.model.ports import Embedder
from omnigraph.model.runtime import Clock, SystemClock, lazy_module

if TYPE_CHECKING:
    from omnigraph.embed import client
else:
    # Most calls embed nothing, and the HTTP client and the engine are slow to import.
    client = lazy_module("omnigraph.embed.client")

_BITS = 2**64 - 1


@dataclass(frozen=True, slots=True)
class MockEmbedder:
    """An embedder that needs no provider and accepts any model name."""

    model: str

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """A unit vector that depends only on the bytes of the text."""
        state = fnv1a_64(text)
        shares = np.empty(dimension, np.float64)
        for place in range(dimension):
            state = _xorshift(state)
            shares[place] = float(state) / float(_BITS)
        numbers = shares.astype(np.float32) * np.float32(2) - np.float32(1)
        # Only the norm is computed in double precision, by sequential summation.
        squares = np.add.accumulate(np.square(numbers.astype(np.float64)))
        return tuple((numbers / np.sqrt(squares[-1:]).astype(np.float32)).tolist())

    def embed_many(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
        """The vectors of several texts, one row each."""
        vectors = np.empty((len(texts), dimension), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self.embed(text, dimension)
        return vectors


def _xorshift(state: int) -> int:
    """The next state of a 64-bit xorshift generator."""
    state ^= state << 13 & _BITS
    state ^= state >> 7
    return state ^ (state << 17 & _BITS)


_ENTRY_BYTES = 300
"""The size of a cache entry in bytes, without its text and its vector."""

Vector = npt.NDArray[np.float32]


def make_cache(bytes_max: int) -> LruCache[tuple[str, int], tuple[str, Vector]]:
    """A cache of texts and their vectors, by text and dimension."""
    return LruCache(
        CacheMemory(bytes_max, None),
        name="vectors",
        # Four bytes per character is the maximum for text in any language.
        size_of=lambda each: _ENTRY_BYTES + 4 * len(each[0]) + each[1].nbytes,
    )


_LOG = logging.getLogger(__name__)


class RemoteEmbedder:
    """An embedder that uses the provider of a profile."""

    def __init__(self, profile: EmbeddingProfile, clock: Clock) -> None:
        self._profile, self._clock = profile, clock
        self._format = format_of(profile)
        self._cache = make_cache(VECTOR_CACHE_BYTES_MAX)
        self._lock = Lock()
        self._client: client.ProviderClient | None = None

    def __repr__(self) -> str:
        return f"RemoteEmbedder({self._profile!r})"

    def __reduce__(self) -> tuple[type[RemoteEmbedder], tuple[EmbeddingProfile, Clock]]:
        # Connections are not pickled.
        return RemoteEmbedder, (self._profile, self._clock)

    @property
    def model(self) -> str:
        """The model name at the provider; raises `EmbeddingError` if the key is missing."""
        self._get_key()
        return self._profile.model

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """The vector of a query text, from the cache or the provider."""

        def request() -> tuple[str, Vector]:
            (vector,) = self._request([text], dimension, Purpose.QUERY)
            return text, vector

        return tuple(self._cache.get((text, dimension), request)[1].tolist())

    def embed_many(self, texts: Sequence[str], dimension: int) -> Vectors:
        """The vectors of document texts, one row each, requested in concurrent batches."""
        batches = list(split_texts(texts))
        if not batches:
            return np.empty((0, dimension), np.float32)
        if len(batches) == 1:
            return self._request(batches[0], dimension, Purpose.DOCUMENT)
        workers = min(REQUESTS_AT_ONCE_MAX, len(batches))
        with ThreadPoolExecutor(workers, thread_name_prefix="omnigraph-embed") as pool:
            futures = [
                pool.submit(self._request, batch, dimension, Purpose.DOCUMENT) for batch in batches
            ]
            try:
                return np.concatenate([future.result() for future in futures])
            finally:
                # After an error no further batches are sent; cancelling finished ones has no
                # effect.
                for future in futures:
                    future.cancel()

    def _request(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> Vectors:
        provider = self._connect()
        content = provider.send(self._format.request(texts, dimension, purpose))
        try:
            vectors = make_vectors(self._format.read(content, count=len(texts)), dimension)
        except MalformedResponseError as error:
            profile = self._profile
            raise EmbeddingError(
                action="embed texts",
                reason=f"invalid response of the embedding provider ({profile.kind}, model "
                f"'{profile.model}'): {provider.redact(str(error))}",
            ) from error
        fields = {"provider": self._profile.kind.value, "text_count": len(texts)}
        _LOG.info("texts were embedded", extra=fields)
        return vectors

    def _connect(self) -> client.ProviderClient:
        """The client of the provider, created on first use."""
        with self._lock:
            if self._client is None:
                headers = self._format.headers(self._get_key())
                self._client = client.ProviderClient(self._profile, headers, clock=self._clock)
            return self._client

    def _get_key(self) -> str:
        profile = self._profile
        if profile.api_key is None:
            names = " or ".join(profile.key_variables)
            raise EmbeddingError(
                action="embed texts",
                reason=f"the embedding provider ({profile.kind}) needs a key; set {names}, set "
                f"{MOCK_VARIABLE}=1 to use the mock provider, or supply vectors",
            )
        return profile.api_key


def split_texts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Split texts into batches that fit a request; a text that is too long is a batch by itself."""
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if batch and (len(batch) == REQUEST_TEXTS_MAX or size + length > REQUEST_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def find_embedder(environment: Mapping[str, str]) -> Embedder:
    """The embedder that an environment configures.

    A configuration error is raised when the embedder is first used.
    """
    try:
        profile = parse_profile(environment)
    except EmbeddingError as error:
        return MisconfiguredEmbedder(error.reason)
    return open_embedder(profile)


def open_embedder(profile: EmbeddingProfile) -> Embedder:
    """Open the embedder of a profile."""
    if profile.kind is ProviderKind.MOCK:
        return MockEmbedder(profile.model)
    return RemoteEmbedder(profile, SystemClock())


@dataclass(frozen=True, slots=True)
class MisconfiguredEmbedder:
    """An embedder whose every use raises the configuration error."""

    reason: str

    @property
    def model(self) -> str:
        raise self._error()

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:  # noqa: ARG002
        raise self._error()

    def embed_many(self, texts: Sequence[str], dimension: int) -> Vectors:  # noqa: ARG002
        raise self._error()

    def _error(self) -> EmbeddingError:
        return EmbeddingError(action=CONFIGURING, reason=self.reason)
