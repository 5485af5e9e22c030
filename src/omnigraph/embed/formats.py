"""What providers are sent and what they answer: the two ways in which vectors are asked for.

Pure: texts to a request, the bytes of an answer to vectors, one for each text, in their order. What
an answer lacks or has too much of is a `MalformedAnswerError`. Knows no network and no key but the
header that it goes into.
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
    """What a text is embedded for."""

    QUERY = "query"
    DOCUMENT = "document"


class MalformedAnswerError(Exception):
    """An answer that vectors cannot be made of; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request: the path below the provider's address, and the body."""

    path: str
    body: bytes
    text_count: int


class Format(Protocol):
    """How one kind of provider is asked."""

    def headers(self, api_key: str) -> dict[str, str]:
        """The headers that a key is shown in."""

    def ask(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> Question:
        """The request for the vectors of texts, at least one."""

    def read(self, content: bytes, *, count: int) -> list[object]:
        """What an answer holds for each text."""


def format_of(profile: EmbeddingProfile) -> Format:
    """The way in which a provider over a network is asked."""
    assert profile.kind is not ProviderKind.MOCK, "it asks nobody"
    if profile.kind is ProviderKind.GEMINI:
        return GeminiFormat(profile.model.removeprefix("models/"))
    return OpenAiFormat(profile.model)


@dataclass(frozen=True, slots=True)
class OpenAiFormat:
    """As OpenAI is asked, and many others."""

    model: str

    def headers(self, api_key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {api_key}"}

    def ask(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> Question:  # noqa: ARG002
        asked = {"model": self.model, "input": list(texts), "dimensions": dimension}
        return Question("/embeddings", orjson.dumps(asked), len(texts))

    def read(self, content: bytes, *, count: int) -> list[object]:
        answers = _list_in(content, "data", count=count)
        # Vectors may come in any order, and say which text they are for.
        places = [each.get("index", place) for place, each in enumerate(answers)]
        if not all(type(each) is int for each in places) or set(places) != set(range(count)):
            raise MalformedAnswerError("its vectors are not for the texts that were sent")
        found = dict(zip(places, answers, strict=True))
        return [found[place].get("embedding") for place in range(count)]


@dataclass(frozen=True, slots=True)
class GeminiFormat:
    """As Gemini is asked: one text by itself, several in one request."""

    model: str

    def headers(self, api_key: str) -> dict[str, str]:
        return {"x-goog-api-key": api_key}

    def ask(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> Question:
        asked = [self._ask_one(each, dimension, purpose) for each in texts]
        path = f"/models/{quote(self.model, safe='')}"
        if len(asked) == 1:
            return Question(f"{path}:embedContent", orjson.dumps(asked[0]), 1)
        body = orjson.dumps({"requests": asked})
        return Question(f"{path}:batchEmbedContents", body, len(asked))

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
    """The vectors of an answer, each of length 1."""
    made = np.empty((len(answers), dimension), np.float64)
    for row, answer in enumerate(answers):
        if not isinstance(answer, list):
            raise MalformedAnswerError("it holds no vector for a text")
        if len(answer) != dimension:
            raise MalformedAnswerError(
                f"it gave a vector of {len(answer):,} numbers where {dimension:,} are needed"
            )
        made[row] = _numbers(answer)
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise MalformedAnswerError("a vector of it has no direction")
    vectors: Vectors = (made / lengths).astype(np.float32)
    return vectors


def _numbers(answer: list[object]) -> npt.NDArray[np.generic]:
    try:
        numbers = np.asarray(answer)
    except ValueError as error:
        raise MalformedAnswerError("a vector of it holds lists") from error
    # Texts, nothing and true could be read as numbers too, and are none.
    if numbers.ndim != 1 or numbers.dtype.kind not in "if":
        raise MalformedAnswerError("a vector of it holds something else than numbers")
    return numbers


def find_reason(content: bytes) -> str | None:
    """What a provider says in the body of a refusal; None if it says nothing that is understood."""
    try:
        told = _parse(content)
    except MalformedAnswerError:
        return None
    error = told.get("error", told)
    said = error.get("message") if isinstance(error, Mapping) else error
    return said if isinstance(said, str) and said.strip() else None


def _parse(content: bytes) -> Mapping[str, object]:
    try:
        told = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise MalformedAnswerError("it is no JSON") from error
    if not isinstance(told, Mapping):
        raise MalformedAnswerError("it is no JSON object")
    return told


def _list_in(content: bytes, name: str, *, count: int) -> list[Mapping[str, object]]:
    told = _parse(content)
    listed = told.get(name)
    if not isinstance(listed, list):
        said = find_reason(content)
        raise MalformedAnswerError(said or f"it has no `{name}`")
    if len(listed) != count or not all(isinstance(each, Mapping) for each in listed):
        raise MalformedAnswerError(f"it has {len(listed):,} vectors for {count:,} texts")
    return listed
