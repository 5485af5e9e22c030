"""What the server answers to retrievals: the shapes of these bodies, as `shapes` has the others."""

from __future__ import annotations

# Before Python 3.12 pydantic reads no other.
from typing_extensions import TypedDict

from omnigraph.wire.shapes import Row


class PassageOutput(TypedDict):
    """One node of a retrieval: its place, counted from 1, and what it holds, also as text."""

    rank: int
    type: str
    id: str
    score: float
    text: str
    properties: Row


class RetrievalOutput(TypedDict):
    """What a graph holds about something, as one text and by its passages.

    The receipt is kept and sent back as it is; `places` in it say why each passage is there.
    """

    text: str
    tokens: int
    left_out: int
    passages: list[PassageOutput]
    receipt: Row
