"""Vectors of a provider over a network: texts of rows in batches, those of queries once.

Nobody is asked, and no key is missed, before a text is to be embedded. Remembers vectors of query
texts within a bound. Safe to share between threads; another process gets it by pickling and makes
connections of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.embed.formats import (
    MalformedAnswerError,
    Purpose,
    Vectors,
    format_of,
    make_vectors,
)
from omnigraph.embed.kept_vectors import KeptVectors
from omnigraph.embed.limits import (
    KEPT_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_TEXTS_MAX,
    REQUESTS_AT_ONCE_MAX,
)
from omnigraph.embed.profiles import MOCK_VARIABLE, EmbeddingProfile
from omnigraph.model.deferred import defer
from omnigraph.model.errors import EmbeddingError
from omnigraph.model.runtime import Clock

if TYPE_CHECKING:
    from omnigraph.embed import asking
    from omnigraph.embed.asking import Asking
else:
    # Most calls embed nothing, and HTTP takes a while to import.
    asking = defer("omnigraph.embed.asking")

_LOG = logging.getLogger(__name__)


class RemoteEmbedder:
    """An embedder that asks the provider of a profile."""

    def __init__(self, profile: EmbeddingProfile, clock: Clock) -> None:
        self._profile, self._clock = profile, clock
        self._format = format_of(profile)
        self._kept = KeptVectors(KEPT_BYTES_MAX)
        self._lock = Lock()
        self._asking: Asking | None = None

    def __repr__(self) -> str:
        return f"RemoteEmbedder({self._profile!r})"

    def __reduce__(self) -> tuple[type[RemoteEmbedder], tuple[EmbeddingProfile, Clock]]:
        # Connections stay where they are.
        return RemoteEmbedder, (self._profile, self._clock)

    @property
    def model(self) -> str:
        """The name of the model, as the provider knows it; without a key there is none to ask."""
        self._get_key()
        return self._profile.model

    @property
    def connection_count(self) -> int:
        """How many connections were made so far."""
        return 0 if self._asking is None else self._asking.connection_count

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """The vector of a text that something is looked for with."""
        vector = self._kept.find(text, dimension)
        if vector is None:
            (vector,) = self._ask([text], dimension, Purpose.QUERY)
            self._kept.keep(text, vector)
        return tuple(vector.tolist())

    def embed_many(self, texts: Sequence[str], dimension: int) -> Vectors:
        """The vectors of texts that are looked for, a row each, asked for some at a time."""
        batches = list(split_texts(texts))
        if not batches:
            return np.empty((0, dimension), np.float32)
        if len(batches) == 1:
            return self._ask(batches[0], dimension, Purpose.DOCUMENT)
        workers = min(REQUESTS_AT_ONCE_MAX, len(batches))
        with ThreadPoolExecutor(workers, thread_name_prefix="omnigraph-embed") as pool:
            asked = [pool.submit(self._ask, each, dimension, Purpose.DOCUMENT) for each in batches]
            try:
                return np.concatenate([each.result() for each in asked])
            finally:
                # After an error nothing more is asked for; what is done does not mind.
                for each in asked:
                    each.cancel()

    def _ask(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> Vectors:
        asking = self._connect()
        question = self._format.ask(texts, dimension, purpose)
        content = asking.ask(question)
        try:
            vectors = make_vectors(self._format.read(content, count=len(texts)), dimension)
        except MalformedAnswerError as error:
            profile = self._profile
            raise EmbeddingError(
                action="embed texts",
                reason=f"the answer of the embedding provider ({profile.kind}, model "
                f"'{profile.model}') is of no use: {asking.hide(str(error))}",
            ) from error
        fields = {"provider": self._profile.kind.value, "text_count": len(texts)}
        _LOG.info("texts were embedded", extra=fields)
        return vectors

    def _connect(self) -> Asking:
        """The connections to the provider, made when they are first needed."""
        with self._lock:
            if self._asking is None:
                headers = self._format.headers(self._get_key())
                self._asking = asking.Asking(self._profile, headers, clock=self._clock)
            return self._asking

    def _get_key(self) -> str:
        key = self._profile.api_key
        if key is None:
            raise _refuse_keyless(self._profile)
        return key


def split_texts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts in batches that a request has room for; one that is too long is alone."""
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


def _refuse_keyless(profile: EmbeddingProfile) -> EmbeddingError:
    names = " or ".join(profile.key_variables)
    return EmbeddingError(
        action="embed texts",
        reason=f"the embedding provider ({profile.kind}) needs a key; set {names}, or "
        f"{MOCK_VARIABLE}=1 for the built-in one, or give vectors",
    )
