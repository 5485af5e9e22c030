"""What a route answers: bytes that are sent whole, or a stream of them.

Knows neither graphs nor errors. Headers are bytes from the start, because each answer has some and
no answer reads them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import orjson

Header = tuple[bytes, bytes]

JSON = b"application/json"
NDJSON = b"application/x-ndjson; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is sent whole."""

    status: int
    content_type: bytes
    body: bytes
    headers: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that is sent piece by piece; the first piece is known before the status is."""

    status: int
    content_type: bytes
    pieces: AsyncGenerator[bytes, None]
    headers: tuple[Header, ...]


T = TypeVar("T", Answer, Stream)


def answer_json(body: object, *, status: int = 200) -> Answer:
    """Answer with what orjson makes of plain values."""
    return Answer(status, JSON, orjson.dumps(body), ())


def answer_bytes(body: bytes, *, content_type: bytes) -> Answer:
    """Answer 200 with bytes that are ready."""
    return Answer(200, content_type, body, ())


def with_headers(answer: T, headers: Mapping[str, str]) -> T:
    """The same answer with more headers."""
    return replace(answer, headers=answer.headers + encode_headers(headers))


def encode_headers(headers: Mapping[str, str]) -> tuple[Header, ...]:
    """Headers as they are sent."""
    return tuple(
        (name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()
    )
