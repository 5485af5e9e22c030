"""The request and response formats of embedding providers.

Pure functions: texts to a request, the bytes of a response to one vector per text, in order. A
response with missing or extra vectors is a `MalformedResponseError`. Opens no connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import orjson

from omnigraph.embed.profiles import EmbeddingProfile, ProviderKind

Vectors = npt.NDArray[np.float32]


class Purpose(StrEnum):
    """The purpose of an embedding."""

    QUERY = "query"
    DOCUMENT = "document"


class MalformedResponseError(Exception):
    """A response that does not contain valid vectors; the message says why."""


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One request: the path below the provider's address, and the body."""

    path: str
    body: bytes


class Format(Protocol):
    """The request and response format of one kind of provider."""

    def headers(self, api_key: str) -> dict[str, str]:
        """The headers that carry a key."""

    def request(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> ProviderRequest:
        """Build the request for the vectors of one or more texts."""

    def read(self, content: bytes, *, count: int) -> list[object]:
        """The raw vector of each text in a response, in the order of the texts."""


def format_of(profile: EmbeddingProfile) -> Format:
    """The format of a remote provider."""
    assert profile.kind is not ProviderKind.MOCK, "the mock provider has no format"
    if profile.kind is ProviderKind.GEMINI:
        return GeminiFormat(profile.model.removeprefix("models/"))
    return OpenAiFormat(profile.model)


@dataclass(frozen=True, slots=True)
class OpenAiFormat:
    """The format of OpenAI, which many other providers share."""

    model: str

    def headers(self, api_key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {api_key}"}

    def request(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> ProviderRequest:  # noqa: ARG002
        body = {"model": self.model, "input": list(texts), "dimensions": dimension}
        return ProviderRequest("/embeddings", orjson.dumps(body))

    def read(self, content: bytes, *, count: int) -> list[object]:
        entries = _list_in(content, "data", count=count)
        # Vectors may arrive in any order; each has the index of its text.
        places = [each.get("index", place) for place, each in enumerate(entries)]
        if not all(type(each) is int for each in places) or set(places) != set(range(count)):
            raise MalformedResponseError("its vectors do not match the texts that were sent")
        found = dict(zip(places, entries, strict=True))
        return [found[place].get("embedding") for place in range(count)]


@dataclass(frozen=True, slots=True)
class GeminiFormat:
    """The format of Gemini, with separate endpoints for one text and for several."""

    model: str

    def headers(self, api_key: str) -> dict[str, str]:
        return {"x-goog-api-key": api_key}

    def request(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> ProviderRequest:
        task = "RETRIEVAL_QUERY" if purpose is Purpose.QUERY else "RETRIEVAL_DOCUMENT"
        requests = [
            {
                "model": f"models/{self.model}",
                "content": {"parts": [{"text": text}]},
                "taskType": task,
                "outputDimensionality": dimension,
            }
            for text in texts
        ]
        path = f"/models/{quote(self.model, safe='')}"
        if len(requests) == 1:
            return ProviderRequest(f"{path}:embedContent", orjson.dumps(requests[0]))
        body = orjson.dumps({"requests": requests})
        return ProviderRequest(f"{path}:batchEmbedContents", body)

    def read(self, content: bytes, *, count: int) -> list[object]:
        if count == 1:
            only = _parse(content).get("embedding")
            return [only.get("values") if isinstance(only, Mapping) else None]
        return [each.get("values") for each in _list_in(content, "embeddings", count=count)]


def make_vectors(raw_vectors: Sequence[object], dimension: int) -> Vectors:
    """Build vectors from a response, normalized to length 1.

    Raises `MalformedResponseError` for a wrong dimension, a value that is not a number, or a vector
    without direction.
    """
    matrix = np.empty((len(raw_vectors), dimension), np.float64)
    for row, raw in enumerate(raw_vectors):
        if not isinstance(raw, list):
            raise MalformedResponseError("a vector is missing")
        if len(raw) != dimension:
            raise MalformedResponseError(
                f"a vector has {len(raw):,} numbers instead of {dimension:,}"
            )
        matrix[row] = _numbers(raw)
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise MalformedResponseError("a vector has length zero or is not finite")
    vectors: Vectors = (matrix / lengths).astype(np.float32)
    return vectors


def _numbers(raw: list[object]) -> npt.NDArray[np.generic]:
    try:
        numbers = np.asarray(raw)
    except ValueError as error:
        raise MalformedResponseError("a vector contains lists") from error
    # Text, null and booleans are rejected although NumPy could convert them.
    if numbers.ndim != 1 or numbers.dtype.kind not in "if":
        raise MalformedResponseError("a vector contains values that are not numbers")
    return numbers


def find_reason(content: bytes) -> str | None:
    """The message in the body of an error response; None if it is not recognised."""
    try:
        body = _parse(content)
    except MalformedResponseError:
        return None
    error = body.get("error", body)
    message = error.get("message") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) and message.strip() else None


def _parse(content: bytes) -> Mapping[str, object]:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise MalformedResponseError("it is not valid JSON") from error
    if not isinstance(body, Mapping):
        raise MalformedResponseError("it is not a JSON object")
    return body


def _list_in(content: bytes, name: str, *, count: int) -> list[Mapping[str, object]]:
    listed = _parse(content).get(name)
    if not isinstance(listed, list):
        raise MalformedResponseError(find_reason(content) or f"it has no `{name}`")
    if len(listed) != count or not all(isinstance(each, Mapping) for each in listed):
        raise MalformedResponseError(f"it has {len(listed):,} vectors for {count:,} texts")
    return listed
