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
    text_count: int


class Format(Protocol):
    """The request and response format of one kind of provider."""

    def headers(self, api_key: str) -> dict[str, str]:
        """The headers that carry a key."""

    def ask(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> ProviderRequest:
        """Build the request for the vectors of one or more texts."""

    def read(self, content: bytes, *, count: int) -> list[object]:
        """The raw vector of each text in a response, in the order of the texts."""


def format_of(profile: EmbeddingProfile) -> Format:
    """The format of a remote provider."""
    assert profile.kind is not ProviderKind.MOCK, "it asks nobody"
    if profile.kind is ProviderKind.GEMINI:
        return GeminiFormat(profile.model.removeprefix("models/"))
    return OpenAiFormat(profile.model)


@dataclass(frozen=True, slots=True)
class OpenAiFormat:
    """The format of OpenAI, which many other providers share."""

    model: str

    def headers(self, api_key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {api_key}"}

    def ask(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> ProviderRequest:  # noqa: ARG002
        asked = {"model": self.model, "input": list(texts), "dimensions": dimension}
        return ProviderRequest("/embeddings", orjson.dumps(asked), len(texts))

    def read(self, content: bytes, *, count: int) -> list[object]:
        answers = _list_in(content, "data", count=count)
        # Vectors may arrive in any order; each has the index of its text.
        places = [each.get("index", place) for place, each in enumerate(answers)]
        if not all(type(each) is int for each in places) or set(places) != set(range(count)):
            raise MalformedResponseError("its vectors are not for the texts that were sent")
        found = dict(zip(places, answers, strict=True))
        return [found[place].get("embedding") for place in range(count)]


@dataclass(frozen=True, slots=True)
class GeminiFormat:
    """The format of Gemini, with separate endpoints for one text and for several."""

    model: str

    def headers(self, api_key: str) -> dict[str, str]:
        return {"x-goog-api-key": api_key}

    def ask(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> ProviderRequest:
        asked = [self._ask_one(each, dimension, purpose) for each in texts]
        path = f"/models/{quote(self.model, safe='')}"
        if len(asked) == 1:
            return ProviderRequest(f"{path}:embedContent", orjson.dumps(asked[0]), 1)
        body = orjson.dumps({"requests": asked})
        return ProviderRequest(f"{path}:batchEmbedContents", body, len(asked))

    def read(self, content: bytes, *, count: int) -> list[object]:
        if count == 1:
            only = _parse(content).get("embedding")
            return [only.get("values") if isinstance(only, Mapping) else None]
        return [each.get("values") for each in _list_in(content, "embeddings", count=count)]

    def _ask_one(self, text: str, dimension: int, purpose: Purpose) -> dict[str, object]:
        task = "RETRIEVAL_QUERY" if purpose is Purpose.QUERY else "RETRIEVAL_DOCUMENT"
        return {
            "model": f"models/{self.model}",
            "content": {"parts": [{"text": text}]},
            "taskType": task,
            "outputDimensionality": dimension,
        }


def make_vectors(answers: Sequence[object], dimension: int) -> Vectors:
    """Build vectors from a response, normalized to length 1.

    Raises `MalformedResponseError` for a wrong dimension, a value that is not a number, or a vector
    without direction.
    """
    made = np.empty((len(answers), dimension), np.float64)
    for row, answer in enumerate(answers):
        if not isinstance(answer, list):
            raise MalformedResponseError("it holds no vector for a text")
        if len(answer) != dimension:
            raise MalformedResponseError(
                f"it gave a vector of {len(answer):,} numbers where {dimension:,} are needed"
            )
        made[row] = _numbers(answer)
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise MalformedResponseError("a vector of it has no direction")
    vectors: Vectors = (made / lengths).astype(np.float32)
    return vectors


def _numbers(answer: list[object]) -> npt.NDArray[np.generic]:
    try:
        numbers = np.asarray(answer)
    except ValueError as error:
        raise MalformedResponseError("a vector of it holds lists") from error
    # Text, null and booleans are rejected although NumPy could convert them.
    if numbers.ndim != 1 or numbers.dtype.kind not in "if":
        raise MalformedResponseError("a vector of it holds something else than numbers")
    return numbers


def find_reason(content: bytes) -> str | None:
    """The message in the body of an error response; None if it is not recognised."""
    try:
        told = _parse(content)
    except MalformedResponseError:
        return None
    error = told.get("error", told)
    said = error.get("message") if isinstance(error, Mapping) else error
    return said if isinstance(said, str) and said.strip() else None


def _parse(content: bytes) -> Mapping[str, object]:
    try:
        told = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise MalformedResponseError("it is no JSON") from error
    if not isinstance(told, Mapping):
        raise MalformedResponseError("it is no JSON object")
    return told


def _list_in(content: bytes, name: str, *, count: int) -> list[Mapping[str, object]]:
    told = _parse(content)
    listed = told.get(name)
    if not isinstance(listed, list):
        said = find_reason(content)
        raise MalformedResponseError(said or f"it has no `{name}`")
    if len(listed) != count or not all(isinstance(each, Mapping) for each in listed):
        raise MalformedResponseError(f"it has {len(listed):,} vectors for {count:,} texts")
    return listed
